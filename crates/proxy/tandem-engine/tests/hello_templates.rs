//! Real hellos as deltas against earlier ones: what each costs on the link, and how much of it is
//! fresh.
//!
//! `fixtures/hellos.txt` has hellos of programs that are at hand: for each the same name twice, and
//! another. The captures are not part of the project; without them their test says so and passes.

#[path = "../../../base/tandem-wire/tests/support/mod.rs"]
mod support;

use proptest::prelude::*;
use tandem_delta::{Delta, Encoding};
use tandem_engine::{ClientCertificates, Connection, Engine, Outlook, Role, Sender, Streams};
use tandem_store::MemoryStore;
use tandem_wire::tls::handshake::write_message;
use tandem_wire::tls::{
    ClientHello, ClientHelloRepr, ExtensionType, HandshakeScanner, HandshakeType,
};
use tandem_wire::{Assembler, Instant, TcpFlags, TcpPacket};

const NOW: Instant = Instant::ZERO;

/// What a hello was on the link.
struct Cost {
    hello: usize,
    /// `None`: it crossed as it is.
    delta: Option<usize>,
    /// Random, session id, key shares, and what else is another each time.
    fresh: usize,
}

/// Both proxies.
struct Pair {
    near: Engine<MemoryStore>,
    far: Engine<MemoryStore>,
}

impl Pair {
    fn new() -> Self {
        let engine = |role| {
            let store = MemoryStore::default();
            Engine::new(role, ClientCertificates::None, None, store).with_hello_templates()
        };
        Self {
            near: engine(Role::ClientSide),
            far: engine(Role::ServerSide),
        }
    }

    /// A hello crosses, is rebuilt to the byte, and is answered.
    fn cross(&mut self, hello: &[u8]) -> Cost {
        let streams = Streams {
            client: hello,
            server: &[],
        };
        let mut connection = Connection::new(None);
        connection.read(Sender::Client, hello);
        let outlook = connection.hello(streams, &mut self.near, (1 << 16, NOW));
        let delta = match outlook {
            Outlook::Ground(ground) => {
                let outgoing = connection.outgoing(Sender::Client, hello, 0);
                let plan = ground.plan(outgoing, self.near.store());
                plan.and_then(|plan| plan.finish(Encoding::Three))
            }
            Outlook::Open | Outlook::Nothing => None,
        };
        if let Some(delta) = &delta {
            let rebuilt = Delta::parse(Encoding::Three, delta, 1 << 16)
                .and_then(|delta| delta.apply(&mut self.far.source(NOW)));
            assert!(rebuilt.as_deref() == Ok(hello));
            self.near.hello_written();
            self.near.hello_rebuilt();
        }
        for engine in [&mut self.far, &mut self.near] {
            connection.hello_seen(streams, engine);
        }
        Cost {
            hello: hello.len(),
            delta: delta.map(|delta| delta.len()),
            fresh: fresh(hello),
        }
    }
}

/// What a hello has that no template can have.
fn fresh(stream: &[u8]) -> usize {
    let mut scanner = HandshakeScanner::default();
    let Some(span) = scanner.advance(stream).messages.first().cloned() else {
        return 0;
    };
    let body = span.body(stream);
    let Ok(hello) = ClientHello::parse(&body) else {
        return 0;
    };
    let extensions = hello.extensions().into_iter().flatten();
    let fresh = extensions.map(|extension| match extension.extension_type {
        ExtensionType::KEY_SHARE => key_shares(extension.data),
        ExtensionType::PRE_SHARED_KEY => extension.data.len(),
        // Encrypted hello, or what looks like one.
        ExtensionType(0xfe0d) => extension.data.len(),
        _ => 0,
    });
    32 + hello.session_id().len() + fresh.sum::<usize>()
}

/// The bytes of the keys themselves.
fn key_shares(data: &[u8]) -> usize {
    let (mut rest, mut sum) = (data.get(2..).unwrap_or_default(), 0);
    while let Some((&[_, _, high, low], after)) = rest.split_first_chunk() {
        let length = usize::from(u16::from_be_bytes([high, low]));
        sum += if length > 1 { length } else { 0 };
        rest = after.get(length..).unwrap_or_default();
    }
    sum
}

impl Cost {
    /// How many times the fresh bytes crossed; printed.
    fn show(&self, label: &str) -> f64 {
        let Self { hello, fresh, .. } = self;
        let link = self.link();
        let share = link as f64 / *fresh as f64;
        eprintln!("{label:45} {hello:5} {link:5} {fresh:5} {share:6.2}");
        share
    }

    /// What crossed.
    fn link(&self) -> usize {
        self.delta.unwrap_or(self.hello)
    }
}

/// The columns of what is printed.
fn show_header() {
    eprintln!("{:45} hello delta fresh  delta/fresh", "");
}

fn programs() -> Vec<(&'static str, &'static str, Vec<u8>)> {
    let lines = include_str!("fixtures/hellos.txt").lines();
    lines
        .map(|line| {
            let mut fields = line.split(' ');
            let mut field = || fields.next().expect("program, name, hello");
            let (program, name) = (field(), field());
            let hello = data_encoding::HEXLOWER.decode(field().as_bytes());
            (program, name, hello.expect("hexadecimal"))
        })
        .collect()
}

#[test]
fn the_next_hello_of_a_program_costs_little_more_than_what_is_fresh_in_it() {
    show_header();
    let mut pair = Pair::new();
    let mut came_before: Option<(&str, &str)> = None;
    for (program, name, hello) in programs() {
        let share = pair.cross(&hello).show(&format!("{program} {name}"));
        match came_before {
            Some(before) if before == (program, name) => assert!(share < 1.6),
            // The name is not counted as fresh, nor what its length changes.
            Some((before, _)) if before == program => assert!(share < 2.2),
            Some(_) | None => {}
        }
        came_before = Some((program, name));
    }
}

#[test]
fn hellos_of_captures_are_rebuilt_to_the_byte_whatever_came_before() {
    let Some(folder) = support::captures_folder() else {
        return;
    };
    show_header();
    let mut pair = Pair::new();
    let (mut count, mut before, mut after) = (0, 0, 0);
    for path in support::capture_files(&folder) {
        for hello in hellos(&support::ip_packets(&path)) {
            let cost = pair.cross(&hello);
            let name = path.file_name().expect("a file").to_string_lossy();
            cost.show(&name);
            (count, before, after) = (count + 1, before + cost.hello, after + cost.link());
        }
    }
    eprintln!("{count} hellos: {before} bytes as {after}");
    assert!(count >= 60 && after * 3 < before * 2);
}

/// What clients sent first.
fn hellos(packets: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut streams: Vec<(_, Assembler)> = Vec::new();
    for bytes in packets {
        let Ok(packet) = TcpPacket::parse(bytes) else {
            continue;
        };
        let ends = (packet.source(), packet.destination());
        let flags = packet.flags();
        if flags.contains(TcpFlags::SYN) && !flags.contains(TcpFlags::ACK) {
            let first = packet.seq().wrapping_add(1);
            streams.push((ends, Assembler::new(first, 1 << 20)));
        } else if let Some((_, stream)) = streams.iter_mut().rfind(|it| it.0 == ends) {
            stream.insert(packet.seq(), packet.payload());
        }
    }
    let hellos = streams.into_iter().filter_map(|(_, stream)| {
        let stream = stream.contiguous();
        let mut scanner = HandshakeScanner::default();
        let end = scanner.advance(stream).messages.first()?.pieces.last()?.end;
        Some(stream[..end].to_vec())
    });
    hellos.collect()
}

/// The next hello of a browser that shuffles its extensions (RFC 8446 lets it) and fills in other
/// values for what means nothing (RFC 8701): all that is fresh is another.
fn shuffled(stream: &[u8], seed: u64) -> Vec<u8> {
    let mut scanner = HandshakeScanner::default();
    let span = scanner.advance(stream).messages[0].clone();
    let body = span.body(stream);
    let mut hello = ClientHelloRepr::from(&ClientHello::parse(&body).expect("a hello"));
    let mut state = seed;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    hello.random.fill_with(&mut next);
    hello.session_id.fill_with(&mut next);
    let reserved = |next: &mut dyn FnMut() -> u8| u16::from(next() & 0xf0 | 0x0a) * 0x0101;
    let is_reserved = |number: u16| number & 0x0f0f == 0x0a0a;
    hello
        .cipher_suites
        .iter_mut()
        .filter(|it| is_reserved(**it))
        .for_each(|it| *it = reserved(&mut next));
    let extensions = hello.extensions.as_mut().expect("it has some");
    for (kind, data) in extensions.iter_mut() {
        if is_reserved(kind.0) {
            kind.0 = reserved(&mut next);
        }
        match kind.0 {
            // Another key in each share, behind group and length.
            51 => {
                let mut at = 2;
                while at + 4 <= data.len() {
                    let length = usize::from(u16::from_be_bytes([data[at + 2], data[at + 3]]));
                    if length > 1 {
                        data[at + 4..at + 4 + length].fill_with(&mut next);
                    } else {
                        data[at..at + 2].copy_from_slice(&reserved(&mut next).to_be_bytes());
                    }
                    at += 4 + length;
                }
            }
            0xfe0d => data[5..].fill_with(&mut next),
            _ => {}
        }
    }
    // Those of reserved numbers stay first and last.
    let end = extensions.len() - 1;
    for at in (2..end).rev() {
        extensions.swap(at, 1 + usize::from(next()) % at);
    }
    let mut body = Vec::new();
    hello.write(&mut body).expect("as long as before");
    let mut message = Vec::new();
    write_message(&mut message, HandshakeType::CLIENT_HELLO, &body).expect("short");
    [
        &[22, 3, 1][..],
        &(message.len() as u16).to_be_bytes(),
        &message,
    ]
    .concat()
}

#[test]
fn shuffled_extensions_and_values_that_mean_nothing_cost_less_than_a_tenth_of_what_is_fresh() {
    let Some(folder) = support::captures_folder() else {
        return;
    };
    let path = folder.join("zeek/chrome-1250-tls-x25519-kyber.pcap");
    let first = hellos(&support::ip_packets(&path)).remove(0);
    show_header();
    let mut pair = Pair::new();
    pair.cross(&first);
    for seed in 0..6 {
        let share = pair.cross(&shuffled(&first, seed)).show("chrome, shuffled");
        assert!(share < 1.1);
    }
}

proptest! {
    #[test]
    fn any_hello_after_any_others_is_rebuilt_to_the_byte(
        steps in proptest::collection::vec(step(), 1..12),
        extra in proptest::collection::vec(any::<u8>(), 0..40),
    ) {
        let samples = programs();
        let mut pair = Pair::new();
        for step in steps {
            let mut hello = samples[step.sample % samples.len()].2.clone();
            for (at, byte) in step.changes {
                // Lengths stay, so that most of them are hellos still.
                let at = 11 + at % (hello.len() - 11);
                hello[at] = byte;
            }
            // What a client sends behind its hello, without waiting.
            hello.extend(&extra);
            let cost = pair.cross(&hello);
            prop_assert!(cost.hello == hello.len());
        }
    }
}

/// Which sample is sent next, and with which bytes changed.
#[derive(Debug, Clone)]
struct Step {
    sample: usize,
    changes: Vec<(usize, u8)>,
}

fn step() -> impl Strategy<Value = Step> {
    let changes = proptest::collection::vec((any::<usize>(), any::<u8>()), 0..6);
    (any::<usize>(), changes).prop_map(|(sample, changes)| Step { sample, changes })
}
