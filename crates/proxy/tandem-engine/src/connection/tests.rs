//! What a data plane is told of flights, without being told of kinds of objects.

use std::time::Duration;

use tandem_delta::{Delta, DeltaError, Encoding, Instruction, Name};
use tandem_store::{Digest, MemoryStore, Site};

use super::*;
use crate::engine::ClientCertificates;
use crate::peer::filter::Rate;
use crate::samples::{TODAY, apart, chain, client_hello, finished, flight, message, noise};

const NO_CODES: Option<crate::thesis::Codes> = None;

fn moment() -> Moment {
    Moment {
        server: SocketAddr::from(([192, 0, 2, 1], 443)),
        now: Instant::ZERO,
        wall: TODAY,
    }
}

fn engine(role: Role, how: ClientCertificates) -> Engine<MemoryStore> {
    Engine::new(role, how, NO_CODES, MemoryStore::default())
}

fn events(engine: &mut Engine<MemoryStore>) -> Vec<Event> {
    engine.events().collect()
}

/// A hello that shows a session ticket.
fn resuming(ticket: &[u8]) -> Vec<u8> {
    let length = u16::try_from(ticket.len()).expect("a short ticket");
    let extension = [&[0, 35][..], &length.to_be_bytes(), ticket].concat();
    let length = u16::try_from(extension.len()).expect("a short extension");
    client_hello(&[&length.to_be_bytes()[..], &extension].concat())
}

fn streams<'a>(client: &'a [u8], server: &'a [u8]) -> Streams<'a> {
    Streams { client, server }
}

#[test]
fn a_hello_is_held_from_where_its_ticket_begins_and_written_where_that_is_known() {
    let ticket = noise(200, 5);
    let hello = resuming(&ticket);
    let mut engine = engine(Role::ClientSide, ClientCertificates::None);
    let outlook = |engine: &mut Engine<MemoryStore>, stream: &[u8], limit: usize| {
        let mut connection = Connection::new(None);
        connection.read(Sender::Client, stream);
        let outlook = connection.hello(streams(stream, &[]), engine, (limit, Instant::ZERO));
        (connection, outlook)
    };
    let before_ticket = hello.len() - ticket.len() - 4;
    let (_, early) = outlook(&mut engine, &hello[..before_ticket], 9_999);
    assert!(matches!(early, Outlook::Nothing));
    let (_, begun) = outlook(&mut engine, &hello[..before_ticket + 4], 9_999);
    assert!(matches!(begun, Outlook::Open));
    let (_, unknown) = outlook(&mut engine, &hello, 9_999);
    assert!(matches!(unknown, Outlook::Nothing));
    let site = Site::Address(moment().server);
    engine.remember_ticket(&site, &ticket, Instant::ZERO);
    let (_, too_long) = outlook(&mut engine, &hello, hello.len() - 1);
    assert!(matches!(too_long, Outlook::Nothing));
    let (connection, known) = outlook(&mut engine, &hello, hello.len());
    let Outlook::Ground(ground) = known else {
        panic!("a ticket that both have seen")
    };
    assert!(connection.is_whole(&ground, Sender::Client) && !ground.awaits_client_flight());
    let outgoing = connection.outgoing(Sender::Client, &hello, 0);
    let plan = ground.plan(outgoing, &mut MemoryStore::default());
    let delta = plan.and_then(|plan| plan.finish(Encoding::One));
    assert!(delta.is_some_and(|delta| delta.len() < hello.len() - ticket.len() + 40));
    engine.hello_missed();
    assert_eq!(events(&mut engine), [Event::TicketMissed]);
    let (_, missed) = outlook(&mut engine, &hello, hello.len());
    assert!(matches!(missed, Outlook::Nothing));
}

/// A handshake whose server asks for a certificate, and whose client shows this chain.
fn mutual(client_chain: &[Vec<u8>]) -> (Vec<u8>, Vec<u8>) {
    let mut messages = flight(&chain(&[300]));
    messages.insert(3, message(13, &noise(40, 8)));
    let list = crate::samples::certificates(client_chain);
    let flight = [message(11, &list), message(16, &noise(33, 2))];
    let client = [client_hello(&[]), apart(&flight), finished()].concat();
    (client, [apart(&messages), finished()].concat())
}

#[test]
fn a_clients_flight_is_written_once_both_have_learned_its_chain_until_it_is_missed() {
    let (client, server) = mutual(&chain(&[400, 500]));
    let hello = client_hello(&[]).len();
    let whole = streams(&client, &server);
    let mut engine = engine(Role::ClientSide, ClientCertificates::Persistent);
    let read = |engine: &mut Engine<MemoryStore>| {
        let mut connection = Connection::new(None);
        connection.read(Sender::Client, &client[..hello]);
        assert!(
            connection.client_flight_to_come(engine).is_none(),
            "nobody asked"
        );
        connection.read(Sender::Server, &server);
        let ground = connection
            .client_flight_to_come(engine)
            .expect("it may come");
        assert!(ground.awaits_client_flight());
        let early = connection.client_flight(streams(&client[..hello], &server), engine);
        assert!(matches!(early, Outlook::Open));
        connection.read(Sender::Client, &client);
        assert!(
            connection.client_flight_to_come(engine).is_none(),
            "it has come"
        );
        connection
    };
    let first = read(&mut engine);
    assert!(matches!(
        first.client_flight(whole, &mut engine),
        Outlook::Nothing
    ));
    let said = (Crossed::Whole, Duration::ZERO);
    first.finished(whole, &mut engine, moment(), said);
    let learned = [Event::ChainLearned, Event::ClientChainLearned];
    assert_eq!(events(&mut engine), learned);
    let second = read(&mut engine);
    let outlook = second.client_flight(whole, &mut engine);
    assert!(matches!(outlook, Outlook::Ground(ground) if second.is_whole(&ground, Sender::Client)));
    second.client_was_missed(whole, &mut engine);
    assert!(matches!(
        second.client_flight(whole, &mut engine),
        Outlook::Nothing
    ));
}

#[test]
fn who_goes_by_what_is_published_is_told_once_and_only_where_a_certificate_is_asked_for() {
    let rate = Rate::DEFAULT;
    let mut engine = engine(Role::ServerSide, ClientCertificates::Filter { rate });
    let known = crate::filter::Fingerprint(7);
    let at = Instant::ZERO;
    let (client, server) = mutual(&chain(&[400]));
    for asked in [None, Some(Asked { known, at })] {
        let mut connection = Connection::new(asked);
        connection.read(Sender::Client, &client[..client_hello(&[]).len()]);
        assert!(!connection.is_to_publish(&engine));
        connection.read(Sender::Server, &server);
        assert_eq!(connection.is_to_publish(&engine), asked.is_some());
        assert!(!connection.is_to_publish(&engine), "once");
        let filter = connection.publication(&mut engine, (400, 60), (at, Duration::ZERO));
        assert_eq!(filter.is_some(), asked.is_some());
    }
}

/// Whoever goes by what was held before is told of a chain that has come since, once an answer of
/// before can no more be under way; and a chain that was there is no news to other proxies.
#[test]
fn what_is_learned_is_published_to_those_who_know_less() {
    let rate = Rate::DEFAULT;
    let how = ClientCertificates::Filter { rate };
    let known = crate::filter::Fingerprint(0);
    let second = Duration::from_secs(1);
    let [start, later] = [0, 60].map(|seconds| Instant::ZERO + second * seconds);
    let (client, server) = mutual(&chain(&[400]));
    let whole = streams(&client, &server);
    let is_told = |engine: &mut Engine<MemoryStore>, at: Instant, asks: Option<Asked>| {
        let connection = |asked| {
            let mut connection = Connection::new(asked);
            connection.read(Sender::Client, &client);
            connection.read(Sender::Server, &server);
            connection
        };
        let asking = connection(Some(Asked { known, at }));
        let filter = asking.publication(engine, (400, 60), (at, second));
        let finished = connection(asks);
        let said = (Crossed::Whole, second);
        finished.finished(whole, engine, moment(), said);
        (filter.is_some(), engine.notes().len())
    };
    for asks in [None, Some(Asked { known, at: start })] {
        let mut engine = engine(Role::ServerSide, how).with_notes();
        let told = [start, start + second / 2, later];
        let told = told.map(|at| is_told(&mut engine, at, asks));
        assert_eq!(told, [(false, 1), (false, 0), (true, 0)], "{asks:?}");
    }
}

#[test]
fn without_client_certificates_a_chain_is_kept_neither_here_nor_in_a_note_nor_from_one() {
    let certificates = chain(&[400, 500]);
    let (client, server) = mutual(&certificates);
    let holds = |engine: &mut Engine<MemoryStore>| {
        let held = certificates.iter().map(|der| Digest::of(der));
        held.map(|name| engine.store().part(&name).is_some())
            .collect::<Vec<_>>()
    };
    let mut noted = Vec::new();
    for (how, is_kept) in [
        (ClientCertificates::Persistent, true),
        (ClientCertificates::None, false),
    ] {
        for role in [Role::ClientSide, Role::ServerSide] {
            let mut engine = engine(role, how).with_notes();
            let mut connection = Connection::new(None);
            connection.read(Sender::Client, &client);
            connection.read(Sender::Server, &server);
            let said = (Crossed::Whole, Duration::ZERO);
            connection.finished(streams(&client, &server), &mut engine, moment(), said);
            assert_eq!(holds(&mut engine), [is_kept; 2], "{role:?}");
            let notes = engine.notes();
            let expected = usize::from(is_kept && role == Role::ServerSide);
            assert_eq!(notes.len(), expected, "{role:?}");
            noted.extend(notes);
        }
    }
    let (peer, note) = noted.pop().expect("one was made");
    for (how, is_kept) in [
        (ClientCertificates::Persistent, true),
        (ClientCertificates::None, false),
    ] {
        let mut engine = engine(Role::ServerSide, how);
        let used = engine.recall(peer, [&note[..]], (Instant::ZERO, TODAY));
        assert_eq!(used, usize::from(is_kept));
        assert_eq!(holds(&mut engine), [is_kept; 2]);
    }
}

/// What a client-side engine makes of a hello: its delta, or `None` where it goes as it is.
fn hello_delta(engine: &mut Engine<MemoryStore>, hello: &[u8]) -> Option<Vec<u8>> {
    let mut connection = Connection::new(None);
    connection.read(Sender::Client, hello);
    match connection.hello(streams(hello, &[]), engine, (1 << 16, Instant::ZERO)) {
        Outlook::Open | Outlook::Nothing => None,
        Outlook::Ground(ground) => {
            let outgoing = connection.outgoing(Sender::Client, hello, 0);
            let plan = ground.plan(outgoing, engine.store())?;
            plan.finish(Encoding::Three)
        }
    }
}

fn rebuilt(engine: &mut Engine<MemoryStore>, delta: &[u8]) -> Result<Vec<u8>, DeltaError> {
    Delta::parse(Encoding::Three, delta, 1 << 16)?.apply(&mut engine.source(Instant::ZERO))
}

fn seen(engine: &mut Engine<MemoryStore>, hello: &[u8]) {
    let mut connection = Connection::new(None);
    connection.read(Sender::Client, hello);
    connection.hello_seen(streams(hello, &[]), engine);
}

/// Hellos of one client that differ in a byte of their random bytes.
fn hellos(ticket: &[u8]) -> impl Fn(u8) -> Vec<u8> + use<> {
    let hello = resuming(ticket);
    move |number| {
        let mut hello = hello.clone();
        hello[20] ^= number;
        hello
    }
}

fn templated(role: Role) -> Engine<MemoryStore> {
    engine(role, ClientCertificates::None).with_hello_templates()
}

#[test]
fn the_next_hello_is_written_against_the_last_once_both_have_seen_it() {
    let (mut near, mut far) = (templated(Role::ClientSide), templated(Role::ServerSide));
    let hello = hellos(&noise(200, 5));
    let literal = hello_delta(&mut near, &hello(1));
    assert!(literal.is_none(), "noise is not compressed");
    for engine in [&mut far, &mut near] {
        seen(engine, &hello(1));
        seen(engine, &hello(1));
        assert_eq!(events(engine), [Event::HelloLearned]);
        assert_eq!(engine.hello_templates().0, 1);
    }
    let delta = hello_delta(&mut near, &hello(2)).expect("it is like the first");
    assert!(delta.len() < 20, "{}", delta.len());
    assert_eq!(rebuilt(&mut far, &delta), Ok(hello(2)));
    near.hello_written();
    near.hello_rebuilt();
    assert_eq!(events(&mut near), [Event::HelloShortened]);
}

#[test]
fn a_hello_of_which_more_is_to_come_is_awaited_and_nothing_else_is() {
    let mut engine = templated(Role::ClientSide);
    let hello = client_hello(&[]);
    for (stream, is_awaited) in [(&hello[..20], true), (b"GET / HTTP/1.1\r\n", false)] {
        let mut connection = Connection::new(None);
        connection.read(Sender::Client, stream);
        let limit = (9_999, Instant::ZERO);
        let outlook = connection.hello(streams(stream, &[]), &mut engine, limit);
        assert_eq!(matches!(outlook, Outlook::Open), is_awaited);
    }
}

#[test]
fn an_engine_that_keeps_no_hellos_learns_none_and_writes_none() {
    let mut engine = engine(Role::ClientSide, ClientCertificates::None);
    let hello = hellos(&noise(200, 5));
    seen(&mut engine, &hello(1));
    assert_eq!(engine.hello_templates(), (0, 0));
    assert_eq!(hello_delta(&mut engine, &hello(2)), None);
}

#[test]
fn after_a_restart_of_the_far_side_all_that_is_under_way_is_one_miss() {
    let (mut near, mut far) = (templated(Role::ClientSide), templated(Role::ServerSide));
    let hello = hellos(&noise(200, 5));
    seen(&mut far, &hello(1));
    seen(&mut near, &hello(1));
    let under_way: Vec<_> = (2..12)
        .map(|number| hello_delta(&mut near, &hello(number)).expect("like the first"))
        .collect();
    assert_eq!(rebuilt(&mut far, &under_way[0]), Ok(hello(2)));
    far = templated(Role::ServerSide);
    for delta in &under_way {
        assert!(matches!(rebuilt(&mut far, delta), Err(DeltaError::Miss(_))));
        near.hello_missed();
    }
    assert_eq!(near.hello_templates(), (0, 0));
    assert_eq!(hello_delta(&mut near, &hello(20)), None);
    // And the next that both see is good again.
    seen(&mut far, &hello(20));
    seen(&mut near, &hello(20));
    let delta = hello_delta(&mut near, &hello(21)).expect("like the last");
    assert_eq!(rebuilt(&mut far, &delta), Ok(hello(21)));
    // After a restart of the near side it begins anew without a miss.
    let mut near = templated(Role::ClientSide);
    assert_eq!(hello_delta(&mut near, &hello(22)), None);
}

/// A hello whose bytes are worth compressing although nothing is like them.
fn compressible(number: u8) -> Vec<u8> {
    let padding = [&[0, 104, 0, 21, 0, 100][..], &[0; 100]].concat();
    let mut hello = client_hello(&padding);
    hello[20] ^= number;
    hello
}

#[test]
fn what_is_only_compressed_says_nothing_of_the_far_sides_memory() {
    let mut near = templated(Role::ClientSide);
    // The far side is one that forgets each time.
    let mut referred = vec![];
    for number in 0..40 {
        let hello = compressible(number);
        let delta = hello_delta(&mut near, &hello).expect("zeros are short");
        near.hello_written();
        let outcome = rebuilt(&mut templated(Role::ServerSide), &delta);
        match outcome {
            Ok(bytes) => {
                assert_eq!(bytes, hello);
                near.hello_rebuilt();
            }
            Err(_) => {
                referred.push(number);
                near.hello_missed();
            }
        }
        seen(&mut near, &hello);
    }
    assert_eq!(referred, [1, 2, 5, 12, 27]);
}

#[test]
fn a_ticket_is_named_beside_a_template_that_lacks_it_and_not_beside_one_that_has_it() {
    let (mut near, mut far) = (templated(Role::ClientSide), templated(Role::ServerSide));
    let site = Site::Address(moment().server);
    let (old, new) = (hellos(&noise(200, 5)), hellos(&noise(200, 40)));
    for engine in [&mut near, &mut far] {
        seen(engine, &old(1));
        engine.remember_ticket(&site, &noise(200, 40), Instant::ZERO);
    }
    let references = |delta: &[u8]| {
        let delta = Delta::parse(Encoding::Three, delta, 1 << 16).expect("our own");
        let is_by_digest = |instruction: &&Instruction<'_>| match instruction {
            Instruction::Copy { name, .. } => matches!(name, Name::Digest(_)),
            Instruction::Add(_) | Instruction::Inflate { .. } => false,
        };
        delta.instructions().iter().filter(is_by_digest).count()
    };
    let delta = hello_delta(&mut near, &new(2)).expect("ticket and template");
    assert!(
        references(&delta) == 1 && delta.len() < 60,
        "{}",
        delta.len()
    );
    assert_eq!(rebuilt(&mut far, &delta), Ok(new(2)));
    for engine in [&mut near, &mut far] {
        seen(engine, &new(2));
    }
    let delta = hello_delta(&mut near, &new(3)).expect("the template has both");
    assert!(
        references(&delta) == 0 && delta.len() < 20,
        "{}",
        delta.len()
    );
    assert_eq!(rebuilt(&mut far, &delta), Ok(new(3)));
}
