//! A site's next chain, asked after ahead of the next visit: question, look and answer, without
//! sockets, and what the visit costs then.

#[path = "../../../../base/tandem-store/tests/support/certificate.rs"]
mod certificate;

use std::time::Duration;

use crate::support::tls::{client_hello, noise, showing};
use crate::support::{Conversation, Pair, Plan, THEN, engine};
use certificate::Certificate;
use tandem_engine::{ClientCertificates, Engine, Look, Role, Seen, Wanted};
use tandem_link::tunnel::{Malformed, RenewalAnswer, RenewalQuery, Target};
use tandem_store::MemoryStore;
use tandem_tunnel::renewal::{self, Answered, Step};
use tandem_wire::Instant;

/// Idle, and awake.
const QUIET: Duration = Duration::from_secs(5);

/// A chain of a site, whose leaf was issued on this day of September 2001 for six days. `THEN` is
/// the ninth.
fn chain(day: u32) -> Vec<Vec<u8>> {
    let subject: String = noise(60, day.into())
        .iter()
        .map(|byte| char::from(b'a' + byte % 26))
        .collect();
    let leaf = Certificate {
        common_name: &subject,
        dns_names: &["www.example"],
        not_before: &format!("200109{day:02}000000Z"),
        not_after: &format!("200109{:02}000000Z", day + 6),
        serial: day,
        ..Certificate::default()
    };
    vec![leaf.der(), Certificate::default().der()]
}

/// Two proxies that both have seen the site's chain of the fourth.
fn met() -> Pair {
    let mut pair = Pair::default();
    pair.engines[0] = engine(Role::ClientSide).with_renewals();
    for seed in [1, 20] {
        pair.run(&showing(&chain(4), seed), Plan::of(2));
    }
    pair
}

fn due(pair: &mut Pair) -> Vec<Wanted> {
    pair.engines[0].renewals_due(QUIET, (Instant::ZERO, THEN))
}

fn look(pair: &mut Pair, wanted: &Wanted) -> Box<Look> {
    let question = renewal::question(wanted).expect("it may cross");
    let step = renewal::read_question(&mut pair.engines[1], &question, ([7; 32], THEN));
    match step.expect("our own") {
        Step::Look(target, look) => {
            let site = Target::new("www.example", 443).expect("a target");
            assert_eq!(target, site);
            look
        }
        Step::Answer(answer) => panic!("{answer:?}"),
    }
}

/// What the site answers to the look's hello.
fn flight(said: &Conversation) -> &[u8] {
    &said.turns[1].1
}

/// The list that the site shows, which comes in pieces.
fn seen(look: &mut Look, said: &Conversation) -> Option<Vec<u8>> {
    for piece in flight(said).chunks(100) {
        match look.read(piece) {
            Seen::Nothing => {}
            Seen::Chain(list) => return Some(list),
            Seen::NoChain => return None,
        }
    }
    None
}

#[test]
fn a_visit_finds_a_chain_that_was_asked_after() {
    let (mut pair, next) = (met(), showing(&chain(8), 40));
    let wanted = due(&mut pair).pop().expect("it is past half of its life");
    let mut look = look(&mut pair, &wanted);
    let list = seen(&mut look, &next);
    assert!(list.is_some());
    let answer = renewal::answer(&mut pair.engines[1], &look, (list, THEN));
    let taken = renewal::take_answer(&mut pair.engines[0], &wanted, &answer);
    assert_eq!(taken, Ok(Answered::Renewed));
    let ahead = pair.run(&next, Plan::of(2)).crossed[1].len();
    let without = met().run(&next, Plan::of(2)).crossed[1].len();
    eprintln!("the server's bytes cross as {ahead}, without the question as {without}");
    assert!(ahead + 30 < without, "{ahead}, {without}");
    // And the one after that is like any other.
    let again = pair.run(&showing(&chain(8), 60), Plan::of(2));
    assert!(again.crossed[1].len() <= ahead);
    assert_eq!(due(&mut pair), []);
}

#[test]
fn what_is_not_newer_or_no_chain_changes_nothing() {
    let mut pair = met();
    let wanted = due(&mut pair).pop().expect("it is past half of its life");
    for (shown, expected) in [
        (Some(chain(4)), RenewalAnswer::Same),
        // Of several servers, one that is behind.
        (Some(chain(3)), RenewalAnswer::Same),
        (Some(vec![noise(300, 3)]), RenewalAnswer::NotRead),
        (None, RenewalAnswer::NotRead),
    ] {
        let mut look = look(&mut pair, &wanted);
        let list = shown.and_then(|chain| seen(&mut look, &showing(&chain, 9)));
        let answer = renewal::answer(&mut pair.engines[1], &look, (list, THEN));
        assert_eq!(RenewalAnswer::parse(&answer), Ok(expected));
        let taken = renewal::take_answer(&mut pair.engines[0], &wanted, &answer);
        assert_eq!(taken, Ok(Answered::Nothing));
    }
}

#[test]
fn an_answer_is_taken_in_only_if_its_check_is_right() {
    let mut pair = met();
    let wanted = due(&mut pair).pop().expect("it is past half of its life");
    let mut look = look(&mut pair, &wanted);
    let list = seen(&mut look, &showing(&chain(8), 40));
    let answer = renewal::answer(&mut pair.engines[1], &look, (list, THEN));
    let engine = &mut pair.engines[0];
    for index in 1..answer.len() {
        let mut changed = answer.clone();
        changed[index] ^= 1;
        let taken = renewal::take_answer(engine, &wanted, &changed);
        assert_ne!(taken, Ok(Answered::Renewed), "{index}");
    }
    for bad in [&[][..], &[9], &answer[..5]] {
        assert_eq!(renewal::take_answer(engine, &wanted, bad), Err(Malformed));
    }
    let taken = renewal::take_answer(engine, &wanted, &answer);
    assert_eq!(taken, Ok(Answered::Renewed));
}

#[test]
fn a_site_that_has_not_shown_here_what_is_asked_with_is_not_looked_at() {
    let mut pair = met();
    let wanted = due(&mut pair).pop().expect("it is past half of its life");
    let held = wanted.held.prefix4();
    for (name, held) in [("www.example", [0; 4]), ("other.example", held)] {
        let target = Target::new(name, 443).expect("a target");
        let mut question = Vec::new();
        let query = RenewalQuery { target, held };
        query.write(&mut question).expect("it may cross");
        let step = renewal::read_question(&mut pair.engines[1], &question, ([7; 32], THEN));
        let not_held = RenewalAnswer::Same;
        match step.expect("a question") {
            Step::Answer(answer) => {
                let answer = RenewalAnswer::parse(&answer).expect("our own");
                assert_ne!(answer, not_held);
                assert_eq!(answer, RenewalAnswer::NotHeld);
            }
            Step::Look(target, _) => panic!("{target}"),
        }
    }
}

#[test]
fn a_server_that_speaks_otherwise_ends_the_look() {
    let mut pair = met();
    let wanted = due(&mut pair).pop().expect("it is past half of its life");
    let alert = crate::support::tls::record(21, &[2, 70]);
    let plain = b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec();
    for answer in [plain, client_hello("www.example", &[], 1)] {
        assert_eq!(look(&mut pair, &wanted).read(&answer), Seen::NoChain);
    }
    // After an alert the server hangs up, which ends it, too.
    assert_ne!(
        std::mem::discriminant(&look(&mut pair, &wanted).read(&alert)),
        std::mem::discriminant(&Seen::Chain(Vec::new()))
    );
    // Nor is it read for ever.
    let mut look = look(&mut pair, &wanted);
    let endless = crate::support::tls::record(21, &[1, 0]).repeat(10_000);
    assert_eq!(look.read(&endless), Seen::NoChain);
}

#[test]
fn after_a_restart_the_store_says_who_is_asked_after() {
    let mut pair = met();
    let store: MemoryStore = std::mem::take(pair.engines[0].store());
    let how = ClientCertificates::Persistent;
    let mut again = Engine::new(Role::ClientSide, how, None, store).with_renewals();
    let wanted = again.renewals_due(QUIET, (Instant::ZERO, THEN));
    assert_eq!(wanted.len(), 1);
    assert_eq!((wanted[0].port, wanted[0].visited), (443, THEN));
}
