//! What must hold for any input of this crate: one function for each parser, called by the fuzz
//! targets in `fuzz/` and by the replay of their corpora.
//!
//! Not part of the public interface. A function returns where all is well and panics where an
//! invariant is broken.

use crate::certificate_policy::{Caa, Chain, Evidence, Presence, Registrable, acceptable, judge};
use crate::list::{Form, List, MAX_LEN, MAX_MEMBERS, SIGNATURE_LEN};
use crate::talk::{Answer, Question};
use crate::uri::{Name, SiteUri};

/// A function that checks the invariants of a parser on any input.
pub type Check = fn(&[u8]);

/// All checks of this crate by the name of their fuzz target.
pub const CHECKS: [(&str, Check); 4] = [
    ("volunteer_list", volunteer_list),
    ("site_uri", site_uri),
    ("broker_talk", broker_talk),
    ("caa_value", caa_value),
];

/// A list of volunteers, as if the broker had signed whatever it is: what is read is written the
/// same.
pub fn volunteer_list(data: &[u8]) {
    let site = Name::parse("www.example.org").expect("a name");
    let signature: [u8; SIGNATURE_LEN] = data.last_chunk().copied().unwrap_or([0; SIGNATURE_LEN]);
    if let Ok(list) = List::open(data, &site, |_, _| true) {
        assert!(data.len() <= MAX_LEN && list.members.len() <= MAX_MEMBERS);
        let form = Form::of(data).expect("it has been read");
        let again = list.signed(form, |_| signature);
        assert_eq!(again.expect("as long as it was"), data);
    }
    assert!(List::open(data, &site, |_, _| false).is_err());
}

/// A volunteer's one argument: what is read is read the same again.
pub fn site_uri(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    if let Ok(uri) = text.parse::<SiteUri>() {
        assert_eq!(uri.to_string().parse(), Ok(uri));
    }
}

/// A question or an answer: what is read is written the same.
pub fn broker_talk(data: &[u8]) {
    if let Some(question) = Question::parse(data) {
        assert_eq!(question.write(), data);
    }
    if let Some(answer) = Answer::parse(data) {
        assert_eq!(answer.write(), data);
    }
}

/// Who may issue: what is accepted names an account and nothing but DNS-01, or nobody.
pub fn caa_value(data: &[u8]) {
    let record = |tag: &str, value: &[u8]| Caa {
        flags: 0,
        tag: tag.to_owned(),
        value: value.to_vec(),
    };
    let evidence = Evidence {
        chain: Chain::Secure,
        name: Presence::There,
        caa: vec![record("issue", data), record("issuewild", b";")],
        https: Presence::There,
        certificate: None,
        observant: Vec::new(),
        registrable: Registrable::Unknown,
    };
    let site = Name::parse("www.example.org").expect("a name");
    if acceptable(&judge(&site, &evidence)) {
        let text = std::str::from_utf8(data).expect("what is not text is malformed");
        let nobody = text.trim_start().is_empty() || text.trim_start().starts_with(';');
        let restricted = text.contains("accounturi=") && text.contains("validationmethods=dns-01");
        assert!(nobody || restricted, "{text}");
    }
}
