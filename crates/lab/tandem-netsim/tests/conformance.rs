//! The rules of the one shape, for every element of this crate, over honest
//! traffic, damaged traffic and noise; and byte identity over any link.

mod support;

use std::net::Ipv4Addr;
use std::time::Duration;

use proptest::prelude::*;
use rand::RngCore;
use rand::SeedableRng;
use rand_pcg::Pcg64;
use support::{Conversation, HOUR, Ip, client_config, server_config};
use tandem_netsim::conformance::{Arrival, Bounds, Violation, check};
use tandem_netsim::element::{BlackHole, Element, Port, Wire};
use tandem_netsim::firewall::{Firewall, Reach, Rule};
use tandem_netsim::host::{AckPolicy, Host, Segmenter};
use tandem_netsim::link::{
    ChecksumAfter, Corruption, CorruptionScope, Duplication, Link, LinkConfig, Loss, Outage,
    OutageEffect, Oversize, Reordering,
};
use tandem_netsim::middlebox::{
    ClockFirewall, EarlyAcker, Normaliser, OverlapDropper, ReorderHolder, Resegmenter,
};
use tandem_netsim::nat::{InvalidPolicy, Nat};
use tandem_netsim::pep::SplittingPep;
use tandem_netsim::presets;
use tandem_netsim::world::World;
use tandem_netsim::{BitRate, Probability};
use tandem_wire::clock::Instant;

/// A host as an element with one side.
struct End(Host, Port);

impl Element for End {
    fn handle_input(&mut self, port: Port, packet: Vec<u8>, now: Instant) {
        if port == self.1 {
            self.0.handle_input(&packet, now);
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.0.handle_timeout(now);
    }

    fn poll_output(&mut self) -> Option<(Port, Vec<u8>)> {
        self.0.poll_output().map(|packet| (self.1, packet))
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.0.poll_timeout().map(|(at, _)| at)
    }
}

/// What passed the middle of a real conversation over a bad link, then the same
/// with bits flipped, then noise.
fn traffic(ip: Ip, seed: u64) -> Vec<Arrival> {
    let conversation = Conversation::handshake();
    let (client, server) = conversation.hosts(client_config(ip), server_config(ip));
    let config = presets::CELL_MODEM
        .config()
        .with_both(|d| d.loss = Loss::Independent(Probability::percent(10)));
    let mut world = World::new(seed)
        .with_client(client)
        .with_element(Link::new(config, seed, Instant::ZERO))
        .with_server(server)
        .with_tap(0);
    conversation
        .run(&mut world, HOUR)
        .expect("the conversation ends");
    let mut rng = Pcg64::seed_from_u64(seed);
    let mut arrivals: Vec<Arrival> = Vec::new();
    for tapped in world.tapped(0) {
        arrivals.push(Arrival {
            at: tapped.at,
            port: tapped.towards.opposite(),
            packet: tapped.packet.clone(),
        });
        let mut damaged = tapped.packet.clone();
        let at = rng.next_u32() as usize % damaged.len();
        damaged[at] ^= 1 << (rng.next_u32() % 8);
        arrivals.push(Arrival {
            at: tapped.at,
            port: tapped.towards.opposite(),
            packet: damaged,
        });
    }
    let end = world.now();
    for n in 0..200u64 {
        let mut noise = vec![0; rng.next_u32() as usize % 200];
        rng.fill_bytes(&mut noise);
        if let Some(first) = noise.first_mut() {
            *first = if n % 2 == 0 { 0x45 } else { 0x60 };
        }
        arrivals.push(Arrival {
            at: end + Duration::from_millis(n),
            port: if n % 3 == 0 { Port::Left } else { Port::Right },
            packet: noise,
        });
    }
    arrivals
}

fn conforms<E: Element>(make: impl Fn() -> E) -> Result<(), Violation> {
    for (ip, seed) in [(Ip::V4, 1), (Ip::V6, 2), (Ip::V4, 3)] {
        check(&make, &traffic(ip, seed), Bounds::default())?;
    }
    Ok(())
}

#[test]
fn links_conform() -> Result<(), Violation> {
    for preset in presets::ALL {
        conforms(|| Link::new(preset.config(), 7, Instant::ZERO))?;
    }
    let harmful = LinkConfig::new(
        BitRate::from_bits_per_second(19_200),
        BitRate::from_bits_per_second(1_000_003),
        Duration::from_micros(12_345),
    )
    .with_both(|direction| {
        direction.queue_limit = 4_000;
        direction.mtu = 1_000;
        direction.oversize = Oversize::TellSender {
            v4: Ipv4Addr::new(192, 0, 2, 1),
            v6: std::net::Ipv6Addr::LOCALHOST,
        };
        direction.loss = Loss::Independent(Probability::percent(10));
        direction.reordering = Reordering {
            probability: Probability::percent(20),
            extra_delay: Duration::from_millis(30),
        };
        direction.duplication = Duplication {
            probability: Probability::percent(10),
            after: Duration::from_millis(100),
        };
        direction.corruption = Corruption {
            probability: Probability::percent(10),
            scope: CorruptionScope::BeyondIpHeader,
            checksum: ChecksumAfter::MadeGood,
        };
        direction.outages = vec![
            Outage::once(
                Duration::from_millis(200),
                Duration::from_millis(300),
                OutageEffect::Lose,
            ),
            Outage::every(
                Duration::from_secs(2),
                Duration::from_secs(1),
                Duration::from_millis(400),
                OutageEffect::Hold,
            )
            .expect("a period longer than the outage"),
        ];
    });
    conforms(|| Link::new(harmful.clone(), 7, Instant::ZERO))
}

#[test]
fn small_elements_conform() -> Result<(), Violation> {
    conforms(Wire::default)?;
    conforms(BlackHole::default)
}

#[test]
fn middleboxes_conform() -> Result<(), Violation> {
    for policy in [
        InvalidPolicy::Drop,
        InvalidPolicy::LeaveUntranslated,
        InvalidPolicy::Liberal,
    ] {
        conforms(|| Nat::new(Ipv4Addr::new(192, 0, 2, 1), 40_000, policy))?;
    }
    conforms(|| {
        Firewall::new([
            Rule::RemoveUnknownOptions(Reach::Syn),
            Rule::BlankUnknownOptions(Reach::EverySegment),
            Rule::RemoveTimestampsFromSyn,
            Rule::ClearReservedBits,
            Rule::RewriteIsn {
                client: 5,
                server: 7,
            },
        ])
    })?;
    conforms(SplittingPep::new)?;
    let second = Duration::from_secs(1);
    conforms(|| ClockFirewall::new(u32::MAX - 500))?;
    conforms(Normaliser::new)?;
    conforms(|| Resegmenter::new(500, Duration::from_millis(5)))?;
    conforms(|| ReorderHolder::new(second))?;
    conforms(OverlapDropper::new)?;
    conforms(|| EarlyAcker::new(second))
}

#[test]
fn hosts_conform() -> Result<(), Violation> {
    let conversation = Conversation::handshake();
    for ip in [Ip::V4, Ip::V6] {
        for policy in [
            AckPolicy::Immediate,
            AckPolicy::Delayed(Duration::from_millis(40)),
        ] {
            let configs = || {
                let (mut client, mut server) = (client_config(ip), server_config(ip));
                client.acknowledgements = policy;
                server.acknowledgements = policy;
                (client, server)
            };
            conforms(|| {
                let (client, server) = configs();
                let (mut host, _) = conversation.hosts(client, server);
                host.connect(Instant::ZERO);
                End(host, Port::Right)
            })?;
            conforms(|| {
                let (client, server) = configs();
                let (_, host) = conversation.hosts(client, server);
                End(host, Port::Left)
            })?;
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever the link does short of cutting for good, both applications get
    /// the bytes that the other wrote.
    #[test]
    fn bytes_are_identical_over_any_link(
        seed in any::<u64>(),
        (up, down) in (1u64..200_000, 1u64..2_000_000),
        delay_ms in 0u64..800,
        (loss, reorder, duplicate, corrupt) in (0u8..25, 0u8..30, 0u8..20, 0u8..15),
        (to_server, to_client) in (1usize..4_000, 1usize..12_000),
        segment in prop_oneof![Just(Segmenter::Full), (1usize..600).prop_map(Segmenter::AtMost)],
        window in 600u32..80_000,
        (client_timestamps, server_timestamps) in any::<(bool, bool)>(),
        v6 in any::<bool>(),
    ) {
        let ip = if v6 { Ip::V6 } else { Ip::V4 };
        let (mut client, mut server) = (client_config(ip), server_config(ip));
        client.segmenter = segment.clone();
        server.segmenter = segment;
        client.receive_window = window;
        client.timestamps = client.timestamps.filter(|_| client_timestamps);
        server.timestamps = server.timestamps.filter(|_| server_timestamps);
        client.syn_retries = 30;
        server.syn_retries = 30;
        client.data_retries = 60;
        server.data_retries = 60;
        let config = LinkConfig::new(
            BitRate::from_bits_per_second(up + 2_400),
            BitRate::from_bits_per_second(down + 2_400),
            Duration::from_millis(delay_ms),
        )
        .with_both(|direction| {
            direction.loss = Loss::Independent(Probability::percent(loss));
            direction.reordering = Reordering {
                probability: Probability::percent(reorder),
                extra_delay: Duration::from_millis(delay_ms / 2 + 3),
            };
            direction.duplication = Duplication {
                probability: Probability::percent(duplicate),
                after: Duration::from_millis(delay_ms),
            };
            direction.corruption.probability = Probability::percent(corrupt);
        });
        let conversation = Conversation::bulk(to_server, to_client);
        let (client, server) = conversation.hosts(client, server);
        let mut world = World::new(seed)
            .with_client(client)
            .with_element(Link::new(config, seed, Instant::ZERO))
            .with_server(server);
        let outcome = conversation.run(&mut world, 100 * HOUR);
        prop_assert!(outcome.is_ok(), "{}", outcome.err().map(|f| f.to_string()).unwrap_or_default());
    }
}
