//! What packet mode is for, in virtual time: a warm handshake over 2,400 bit/s and 400 ms against
//! the same without proxies.
//!
//! Bytes and simulated time are exact and may gate; the bars are those of the design (`5-lab`,
//! figures to reach). The hosts are fakes with Linux's timers; the lab measures real ones.

use std::time::Duration;

use crate::support::tls::{self, Conversation, Layout};
use crate::support::{CLIENT_SIDE, SERVER_SIDE, Scenario, iridium, proxy, repeats, tls_bytes};
use tandem_netsim::script::Speaker;
use tandem_packet::WireFormat;
use tandem_wire::Instant;

/// What a run came to.
#[derive(Debug)]
struct Figures {
    /// TCP payload bytes on the link until both Finished have arrived, both ways.
    tls_bytes: u64,
    /// IP bytes on the link until the first application data.
    ip_bytes: u64,
    packets: u64,
    /// From SYN to the first byte of application data at the client.
    time: Duration,
    repeats: u64,
}

fn measure(sizes: &[usize], filler: usize, proxies: bool) -> Figures {
    let hello = tls::client_hello(Some(crate::support::NAME), filler);
    let mut conversation = Conversation::new(hello, &tls::chain(sizes), Layout::MessageARecord);
    // A short request and the first record of its answer.
    conversation.turns.truncate(4);
    for (speaker, length) in [(Speaker::Client, 70), (Speaker::Server, 200)] {
        conversation
            .turns
            .push((speaker, tls::record(23, 0x0303, &tls::noise(length, 9))));
    }
    let conversation = Conversation::of(conversation.chain, conversation.turns);
    let mut scenario = Scenario::with(WireFormat::Safe, conversation.clone());
    scenario.link = iridium();
    // The first timer of a second is shorter than this link's round trip. Linux repeats SYN and
    // SYN/ACK once and goes on as if nothing had been lost; the fake host would shrink its
    // window to one segment (RFC 5681, section 3.1).
    for host in [&mut scenario.client, &mut scenario.server] {
        host.rto.initial = Duration::from_secs(2);
    }
    if !proxies {
        scenario = scenario.plain();
    }
    let mut world = scenario.world();
    let handshake: usize = [1, 3]
        .map(|turn: usize| conversation.turns[turn].1.len())
        .iter()
        .sum();
    let limit = Duration::from_secs(200);
    world
        .run_until(limit, |world| world.client().received().len() >= handshake)
        .expect("the handshake completes");
    let (up, down) = tls_bytes(&world);
    world
        .run_until(limit, |world| world.client().received().len() > handshake)
        .expect("the answer comes");
    let counters = crate::support::link(&world).counters();
    let figures = Figures {
        tls_bytes: up + down,
        ip_bytes: counters.up.ip_bytes + counters.down.ip_bytes,
        packets: counters.up.packets + counters.down.packets,
        time: world.now().saturating_since(Instant::ZERO),
        repeats: repeats(&world),
    };
    if proxies {
        assert_eq!(proxy(&world, CLIENT_SIDE).count("flights_rebuilt_bytes"), 1);
        assert_eq!(proxy(&world, SERVER_SIDE).count("originals_sent_bytes"), 0);
        assert_eq!(proxy(&world, SERVER_SIDE).count("flights_repeated"), 0);
    }
    figures
}

/// Percent of the bytes and of the time without proxies.
fn compare(name: &str, sizes: &[usize], filler: usize) -> (u64, u128) {
    let plain = measure(sizes, filler, false);
    let warm = measure(sizes, filler, true);
    let bytes = warm.tls_bytes * 100 / plain.tls_bytes;
    let time = warm.time.as_micros() * 100 / plain.time.as_micros();
    for (what, run) in [("plain", &plain), ("warm", &warm)] {
        eprintln!(
            "{name} {what}: {} TLS bytes, {} IP bytes, {} packets, {:?}, {} repeats",
            run.tls_bytes, run.ip_bytes, run.packets, run.time, run.repeats
        );
    }
    eprintln!("{name}: TLS bytes {bytes} %, time {time} %");
    assert!(warm.repeats <= plain.repeats);
    (bytes, time)
}

#[test]
fn one_certificate() {
    let (bytes, time) = compare("one", &[926], 90);
    assert!(bytes <= 52 && time <= 72, "bytes {bytes} %, time {time} %");
}

#[test]
fn three_certificates() {
    let (bytes, time) = compare("three", &[926, 900, 900], 90);
    assert!(bytes <= 33 && time <= 50, "bytes {bytes} %, time {time} %");
}

#[test]
fn three_certificates_and_a_long_hello() {
    // curl's default hello has 517 bytes.
    let filler = 517 - tls::client_hello(Some(crate::support::NAME), 1).len();
    let (bytes, _) = compare("curl", &[926, 900, 900], filler);
    assert!(bytes <= 36, "bytes {bytes} %");
}
