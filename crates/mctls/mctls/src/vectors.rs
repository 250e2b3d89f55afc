//! The test vectors of `docs/mctls13.md`, made by this crate and compared with what stands there.
//!
//! One session with two middleboxes and three contexts, out of fixed exporters and shares.

use crate::config::{PathMode, Right};
use crate::message::Message;
use crate::party::{ContextId, Direction, Endpoint};
use crate::schedule::{LegKey, SessionSecret, all_secrets, th};
use crate::testing::{
    CONTEXT, Envelope, OTHER, Party, Session, Setup, establish, leg_secret, position, records, run,
    shares,
};

/// The specification, whose vectors stand between two marks.
const SPECIFICATION: &str = include_str!("../../../../docs/mctls13.md");

/// The context in which nobody may write.
const READ_ONLY: ContextId = ContextId(3);

fn setup() -> Setup {
    let mut setup = Setup::new(
        &[
            &[Right::Read, Right::Write],
            &[Right::None, Right::Read],
            &[Right::Read, Right::None],
        ],
        PathMode::Off,
    );
    setup.terms = setup.terms.with_path(OTHER);
    setup.reduced = setup.terms.clone();
    setup
}

struct Lines(String);

impl Lines {
    /// A name, and bytes in lines of 32.
    fn add(&mut self, name: &str, bytes: &[u8]) {
        for (at, line) in bytes.chunks(32).enumerate() {
            let name = if at == 0 { name } else { "" };
            let hex = data_encoding::HEXLOWER.encode(line);
            self.0.push_str(&format!("{name:<22} {hex}\n"));
        }
    }
}

fn made() -> String {
    let setup = setup();
    let mut messages: Vec<Envelope> = Vec::new();
    let mut session = run(&setup, |envelope| {
        messages.push(envelope.clone());
        vec![envelope]
    })
    .expect("as the test has it");
    let mut lines = Lines(String::new());
    let configuration = session.client.configuration.clone();
    let secret = SessionSecret::new(setup.session);
    let sid = secret.sid();
    lines.add("e2e", &setup.session);
    lines.add("cfg", &configuration.to_bytes());
    lines.add("sid", &sid);
    for (endpoint, name) in [(Endpoint::Client, "C"), (Endpoint::Server, "S")] {
        for at in [1, 2] {
            let index = position(at).index();
            let exported = [0x10 + 0x10 * endpoint.code() + at - 1; 32];
            lines.add(&format!("leg[{name},{at}]"), &exported);
            let leg = leg_secret(endpoint, index);
            let leg: LegKey = leg.bind(&sid, endpoint, position(at));
            lines.add(&format!("H(L[{name},{at}])"), &leg.digest());
        }
    }
    let transcript = messages
        .iter()
        .find_map(|envelope| match &envelope.message {
            Message::Keys(keys) => Some(keys.transcript.clone()),
            _ => None,
        });
    let transcript = transcript.expect("as the test has it");
    lines.add("H(offer)", &transcript.offer);
    let (client, server) = (shares(Endpoint::Client, 3), shares(Endpoint::Server, 3));
    let th = th(&configuration, &sid, &transcript);
    lines.add("th", &th);
    for (id, secrets) in all_secrets(&configuration.terms, &th, &client, &server) {
        lines.add(&format!("K[{},read]", id.0), secrets.read.bytes());
        lines.add(
            &format!("K[{},write]", id.0),
            secrets.write.expect("as the test has it").bytes(),
        );
    }
    let end = secret.end(&th);
    lines.add("E", end.secret().bytes());
    lines.add("ready[C]", &end.ready(Endpoint::Client));
    lines.add("ready[S]", &end.ready(Endpoint::Server));
    for envelope in &messages {
        if let (Party::Box(at), Message::Confirm(proof)) = (envelope.from, &envelope.message) {
            let name = if envelope.to == Party::Client {
                "C"
            } else {
                "S"
            };
            lines.add(&format!("confirm[{name},{}]", at.number()), proof);
        }
    }
    let place = |id: ContextId| [&[id.0, Direction::ToServer as u8, 0, 0, 0, 0], &th[..]].concat();
    let all = all_secrets(&configuration.terms, &th, &client, &server);
    let (read, place_of_first) = (&all[0].1.read, place(CONTEXT));
    let (key, iv) = (
        read.expand::<16>("key", &place_of_first),
        read.expand::<12>("iv", &place_of_first),
    );
    lines.add("key[1,to server,0]", &key[..]);
    lines.add("iv[1,to server,0]", &iv[..]);
    let (write, place) = (all[2].1.write.as_ref(), place(READ_ONLY));
    let write = write.expect("as the test has it");
    let (key, iv) = (
        write.expand::<16>("writer key", &place),
        write.expand::<12>("writer iv", &place),
    );
    lines.add("wkey[3,to server,0]", &key[..]);
    lines.add("wiv[3,to server,0]", &iv[..]);
    record_lines(&mut session, &mut lines);
    lines.0
}

/// Records in all contexts and a closing one, as the client sends them and as they arrive.
fn record_lines(session: &mut Session, lines: &mut Lines) {
    let first = session.sealed(CONTEXT, b"request");
    let second = session.sealed(OTHER, b"body");
    let third = session.sealed(READ_ONLY, b"trailer");
    let mut out = Vec::new();
    session
        .client
        .sender
        .close(&mut out)
        .expect("as the test has it");
    lines.add("record 0, sent", &first);
    lines.add("record 1, sent", &second);
    lines.add("record 2, sent", &third);
    lines.add("record 3, closing", &records(&out)[0]);
    let seen = session.forwarded(0, &first);
    assert_eq!(seen, first, "a reader passes on the very bytes");
    let changed = session.replaced(1, &seen, &[b"changed"]).remove(0);
    lines.add("record 0, changed by 2", &changed);
    let passed = session.forwarded(0, &second);
    let stamped = session.forwarded(1, &passed);
    lines.add("record 1, stamped by 2", &stamped);
    let third = session.forwarded(0, &third);
    let third = session.forwarded(1, &third);
    let arrived = [changed, stamped, third, records(&out).remove(0)];
    let last = session.arrive(&arrived);
    assert_eq!(last, Ok(Some(crate::receiver::Event::Closed)));
}

#[test]
fn the_specifications_vectors_are_what_this_crate_makes() {
    let made = made();
    let written = SPECIFICATION.split_once("<!-- vectors -->\n\n```text\n");
    let written = written.and_then(|(_, rest)| rest.split_once("```\n"));
    let (written, _) = written.expect("the vectors stand behind their mark");
    assert!(
        written == made,
        "docs/mctls13.md has other vectors than:\n{made}"
    );
}

#[test]
fn vectors_do_not_depend_on_the_run() {
    assert_eq!(made(), made());
    assert_eq!(establish(&setup()).boxes.len(), 2);
    assert_ne!(CONTEXT, ContextId::END_TO_END);
}
