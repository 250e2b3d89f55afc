//! What must hold for any answer of DNS.

use hickory_proto::op::Message;

use crate::discover::records::proposals;
use crate::discover::{Accepted, Discovery, MAX_RECORDS, Proposal};
use crate::layout::Kind;
use crate::via::{Grants, ViaArgument};

/// Whatever an answer of DNS says, it proposes a few middleboxes in order, each of which could have
/// been written as an argument, puts none on the path that the user has not accepted, and grants
/// none another right than his.
///
/// # Panics
/// That does not hold.
pub fn mc_discovery(data: &[u8]) {
    let Ok(message) = Message::from_vec(data) else {
        return;
    };
    let answer = proposals(&message);
    let all = answer.as_deref().unwrap_or_default();
    assert!(all.len() <= MAX_RECORDS, "more than are taken");
    let good: Vec<&Proposal> = all.iter().flatten().collect();
    for proposal in &good {
        let Proposal { name, address, .. } = proposal;
        let argument = ViaArgument::parse(&format!("{name}@{address}"));
        let via = argument.expect("it can be written as an argument").via;
        assert_eq!((&via.name, &via.address), (name, address), "another one");
        if let Some(kind) = &proposal.kind {
            assert!(kind.bytes().all(|byte| byte.is_ascii_graphic()), "no word");
        }
    }
    let is_in_order = good.windows(2).all(|two| two[0].place < two[1].place);
    assert!(is_in_order, "places are not in order, or not one's own");
    let names = good.iter().map(|proposal| proposal.name.as_str());
    let accepted = Accepted::parse(&format!("{}=filter", names.clone().next().unwrap_or("a")));
    let mut via = Vec::new();
    let mut discovery = Discovery {
        accepted: vec![accepted.expect("a name of a host")],
        ..Discovery::default()
    };
    discovery.take("a", answer.clone(), &mut via);
    assert!(via.len() <= 1, "one was accepted");
    let is_filter = |one: &ViaArgument| one.grants == Grants::Kind(Kind::Filter);
    assert!(via.iter().all(is_filter), "a right that nobody has written");
}
