//! Two hosts over links of all kinds: the bytes arrive, whatever the link does.

mod support;

use std::time::Duration;

use support::{Conversation, HOUR, Ip, client_config, server_config};
use tandem_netsim::element::{BlackHole, Port, Tamper};
use tandem_netsim::host::{AckPolicy, Ending, Host, Phase, Segmenter};
use tandem_netsim::link::{
    ChecksumAfter, Corruption, CorruptionScope, Direction, Duplication, GilbertElliott, Link,
    LinkConfig, Loss, Outage, OutageEffect, Oversize, Reordering, default_queue,
};
use tandem_netsim::presets;
use tandem_netsim::script::{Script, Step};
use tandem_netsim::world::{Failure, World};
use tandem_netsim::{BitRate, HostConfig, Probability};
use tandem_wire::clock::Instant;
use tandem_wire::packet::TcpPacket;
use tandem_wire::tcp::TcpFlags;

fn world(
    conversation: &Conversation,
    config: LinkConfig,
    seed: u64,
    (client, server): (HostConfig, HostConfig),
) -> World {
    let (client, server) = conversation.hosts(client, server);
    World::new(seed)
        .with_client(client)
        .with_element(Link::new(config, seed, Instant::ZERO))
        .with_server(server)
        .with_tap(0)
        .with_tap(1)
}

fn configs(ip: Ip) -> (HostConfig, HostConfig) {
    (client_config(ip), server_config(ip))
}

fn wire(one_way: Duration) -> LinkConfig {
    LinkConfig::new(
        BitRate::from_bits_per_second(1_000_000),
        BitRate::from_bits_per_second(1_000_000),
        one_way,
    )
}

const RTT_OF_100_MS: Duration = Duration::from_millis(50);

#[test]
fn a_handshake_completes_over_every_preset() -> Result<(), Failure> {
    for preset in presets::ALL {
        for ip in [Ip::V4, Ip::V6] {
            let conversation = Conversation::handshake();
            let mut world = world(&conversation, preset.config(), 1, configs(ip));
            conversation.run(&mut world, HOUR)?;
            let link: &Link = world.element(0).expect("the link is element 0");
            let counters = link.counters();
            assert!(counters.tls_bytes() >= 223 + 3_400 + 318 + 51 + 120 + 600);
            assert_eq!(counters.up.dropped_queue + counters.down.dropped_queue, 0);
        }
    }
    Ok(())
}

#[test]
fn bulk_fills_the_link() -> Result<(), Failure> {
    for name in ["cell-modem", "geo-hts", "leo"] {
        let preset = presets::Preset::by_name(name).expect("a preset of that name");
        let conversation = Conversation::bulk(100, 3_000_000);
        let (mut client, server) = configs(Ip::V4);
        // More than the line holds, less than it and its queue do: full, and nothing is dropped.
        let held = default_queue(Some(preset.down), preset.one_way);
        client.receive_window = u32::try_from(held / 2 * 3).expect("a window");
        let mut world = world(&conversation, preset.config(), 1, (client, server));
        conversation.run(&mut world, HOUR)?;
        let seconds = world.now().as_micros() as f64 / 1e6;
        let ideal = 3_000_000.0 * 8.0 / preset.down.bits_per_second() as f64;
        let rtt = 2.0 * preset.one_way.as_secs_f64();
        // Slow start and the handshake take round trips; the rest is the line's.
        assert!(
            seconds < 1.3 * ideal + 15.0 * rtt,
            "{name}: {seconds} s, {ideal} s at line rate"
        );
    }
    Ok(())
}

#[test]
fn no_retransmission_without_loss() -> Result<(), Failure> {
    let conversation = Conversation::bulk(200_000, 200_000);
    let mut world = world(&conversation, wire(RTT_OF_100_MS), 1, configs(Ip::V4));
    conversation.run(&mut world, HOUR)?;
    for host in [world.client(), world.server()] {
        let counters = host.counters();
        assert_eq!(
            counters.retransmitted + counters.timeouts,
            0,
            "{counters:?}"
        );
        assert_eq!(counters.paws_dropped + counters.outside_window, 0);
    }
    Ok(())
}

#[test]
fn the_first_timer_is_shorter_than_an_iridium_round_trip() -> Result<(), Failure> {
    // A full segment alone takes 5 s at 2,400 bit/s: retransmissions are spurious.
    let conversation = Conversation::handshake();
    let mut world = world(&conversation, presets::IRIDIUM.config(), 1, configs(Ip::V4));
    conversation.run(&mut world, HOUR)?;
    assert!(world.client().counters().syn_retransmitted >= 1);
    assert!(world.server().counters().retransmitted >= 1);
    Ok(())
}

#[test]
fn thirty_percent_loss_both_ways() -> Result<(), Failure> {
    let mut retransmitted = 0;
    for seed in 0..40 {
        for ip in [Ip::V4, Ip::V6] {
            let config = wire(RTT_OF_100_MS)
                .with_both(|d| d.loss = Loss::Independent(Probability::percent(30)));
            let conversation = Conversation::handshake();
            let mut world = world(&conversation, config, seed, configs(ip));
            conversation.run(&mut world, HOUR)?;
            retransmitted += world.server().counters().retransmitted;
        }
    }
    assert!(retransmitted > 40, "{retransmitted}");
    Ok(())
}

#[test]
fn bursts_reordering_duplication_and_corruption() -> Result<(), Failure> {
    let channel = GilbertElliott {
        good_to_bad: Probability::percent(3),
        bad_to_good: Probability::percent(60),
        loss_in_good: Probability::NEVER,
        loss_in_bad: Probability::ALWAYS,
    };
    for seed in 0..40 {
        let config = wire(RTT_OF_100_MS).with_both(|direction| {
            direction.loss = Loss::GilbertElliott(channel);
            direction.reordering = Reordering {
                probability: Probability::percent(20),
                extra_delay: Duration::from_millis(80),
            };
            direction.duplication = Duplication {
                probability: Probability::percent(10),
                after: Duration::from_millis(700),
            };
            direction.corruption = Corruption {
                probability: Probability::percent(10),
                scope: CorruptionScope::BeyondIpHeader,
                checksum: ChecksumAfter::LeftBad,
            };
        });
        let conversation = Conversation::bulk(30_000, 60_000);
        let mut world = world(&conversation, config, seed, configs(Ip::V4));
        conversation.run(&mut world, HOUR)?;
        let link: &Link = world.element(0).expect("the link is element 0");
        let corrupted = link.counters().up.corrupted + link.counters().down.corrupted;
        let refused: u64 = [world.client(), world.server()]
            .iter()
            // A flip in the ports, or in the data offset, makes it nobody's.
            .map(|host| host.counters().bad_checksum)
            .sum::<u64>()
            + world.unclaimed();
        assert!(corrupted > 0 && refused > 0 && refused <= corrupted + 20);
    }
    Ok(())
}

#[test]
fn one_byte_segments_and_given_cuts() -> Result<(), Failure> {
    for segmenter in [
        Segmenter::AtMost(1),
        Segmenter::AtMost(7),
        Segmenter::CutAt(vec![1, 2, 5, 9, 223, 1_000, 1_001]),
    ] {
        let (mut client, mut server) = configs(Ip::V4);
        client.segmenter = segmenter.clone();
        server.segmenter = segmenter.clone();
        let config =
            wire(RTT_OF_100_MS).with_both(|d| d.loss = Loss::Independent(Probability::percent(5)));
        let conversation = Conversation::handshake();
        let mut world = world(&conversation, config, 3, (client, server));
        conversation.run(&mut world, HOUR)?;
        let longest = world
            .tapped(0)
            .iter()
            .filter_map(|tapped| {
                let segment = TcpPacket::parse(&tapped.packet).ok()?;
                (tapped.towards == Port::Right).then(|| segment.payload().len())
            })
            .max();
        let expected = match segmenter {
            Segmenter::AtMost(bytes) => bytes,
            Segmenter::Full | Segmenter::CutAt(_) => 438,
        };
        assert!(longest <= Some(expected), "{longest:?}");
    }
    Ok(())
}

#[test]
fn same_seed_same_trace_and_another_seed_another() -> Result<(), Failure> {
    let run = |seed| {
        let config =
            wire(RTT_OF_100_MS).with_both(|d| d.loss = Loss::Independent(Probability::percent(20)));
        let conversation = Conversation::handshake();
        let mut world = world(&conversation, config, seed, configs(Ip::V4));
        conversation.run(&mut world, HOUR)?;
        Ok::<_, Failure>((world.trace().to_string(), world.tapped(1).to_vec()))
    };
    assert_eq!(run(5)?, run(5)?);
    assert_ne!(run(5)?.0, run(6)?.0);
    Ok(())
}

#[test]
fn a_lost_flight_comes_back_by_fast_retransmit_before_the_timer() -> Result<(), Failure> {
    let conversation = Conversation::bulk(100, 100_000);
    let (client, server) = conversation.hosts(client_config(Ip::V4), server_config(Ip::V4));
    let mut data = 0;
    let lossy = Tamper::dropping(move |port, packet| {
        let has_data = TcpPacket::parse(packet).is_ok_and(|s| s.payload().len() > 1_000);
        if port == Port::Right && has_data {
            data += 1;
        }
        // The third data segment of the server, once.
        port == Port::Right && has_data && data == 3
    });
    let mut world = World::new(0)
        .with_client(client)
        .with_element(Link::new(wire(RTT_OF_100_MS), 0, Instant::ZERO))
        .with_element(lossy)
        .with_server(server);
    conversation.run(&mut world, HOUR)?;
    let counters = world.server().counters();
    assert_eq!((counters.fast_retransmits, counters.timeouts), (1, 0));
    assert_eq!(counters.retransmitted, 1);
    Ok(())
}

#[test]
fn a_timeout_sends_the_first_segment_alone_again_and_backs_off() -> Result<(), Failure> {
    let conversation = Conversation::bulk(100, 10_000);
    let mut world = world(&conversation, wire(RTT_OF_100_MS), 0, configs(Ip::V4));
    world.connect();
    world.run_until(HOUR, |world| world.server().counters().sent > 3)?;
    let _ = world.replace(0, BlackHole::default());
    let sent = world.tapped(1).len();
    world.run_for(Duration::from_secs(20))?;
    let again: Vec<_> = world.tapped(1)[sent..]
        .iter()
        .filter(|tapped| tapped.towards == Port::Left)
        .collect();
    let first = TcpPacket::parse(&again[0].packet).expect("a segment").seq();
    assert!(again.len() >= 4);
    for pair in again.windows(3) {
        let gap = |a: usize, b: usize| pair[b].at.saturating_since(pair[a].at);
        assert_eq!(gap(1, 2), 2 * gap(0, 1));
        assert_eq!(
            TcpPacket::parse(&pair[2].packet).expect("a segment").seq(),
            first
        );
    }
    Ok(())
}

#[test]
fn a_host_gives_up_in_the_end() -> Result<(), Failure> {
    let (mut client, _) = configs(Ip::V4);
    client.syn_retries = 3;
    let host = Host::client(client, support::server_address(Ip::V4));
    let mut world = World::new(0)
        .with_client(host)
        .with_element(BlackHole::default());
    world.connect();
    world.run_until_quiet(HOUR)?;
    assert_eq!(world.client().ending(), Some(Ending::TimedOut));
    // 1 + 2 + 4 + 8 s (RFC 6298).
    assert_eq!(world.now(), Instant::from_micros(15_000_000));
    assert_eq!(world.client().counters().sent, 4);
    Ok(())
}

#[test]
fn a_closed_port_refuses() -> Result<(), Failure> {
    let client = Host::client(client_config(Ip::V6), support::server_address(Ip::V6));
    let mut world = World::new(0)
        .with_client(client)
        .with_element(Link::new(wire(RTT_OF_100_MS), 0, Instant::ZERO))
        .with_server(Host::refusing(server_config(Ip::V6)));
    world.connect();
    world.run_until_quiet(HOUR)?;
    assert_eq!(world.client().ending(), Some(Ending::Refused));
    Ok(())
}

#[test]
fn an_abort_resets_the_other_end() -> Result<(), Failure> {
    let client = Host::client(client_config(Ip::V4), support::server_address(Ip::V4)).with_script(
        Script::new([
            Step::Send(vec![1; 100]),
            Step::Wait(Duration::from_secs(1)),
            Step::Abort,
        ]),
    );
    let mut world = World::new(0)
        .with_client(client)
        .with_element(Link::new(wire(RTT_OF_100_MS), 0, Instant::ZERO))
        .with_server(Host::server(server_config(Ip::V4)));
    world.connect();
    world.run_until_quiet(HOUR)?;
    assert_eq!(world.client().ending(), Some(Ending::Aborted));
    assert_eq!(world.server().ending(), Some(Ending::Reset));
    assert_eq!(world.server().received(), vec![1; 100]);
    Ok(())
}

#[test]
fn a_paused_reader_stalls_the_sender_until_it_reads() -> Result<(), Failure> {
    let (mut client, server) = configs(Ip::V4);
    client.receive_window = 20_000;
    let server_address = server.local;
    let client = Host::client(client, server_address).with_script(Script::new([
        Step::PauseReading,
        Step::Send(vec![7]),
        Step::Wait(Duration::from_secs(60)),
        Step::ResumeReading,
        Step::Receive(100_000),
        Step::Close,
    ]));
    let server = Host::server(server).with_script(Script::new([
        Step::Receive(1),
        Step::Send(support::bytes(100_000, 9)),
        Step::ReceiveEnd,
        Step::Close,
    ]));
    let mut world = World::new(0)
        .with_client(client)
        .with_element(Link::new(wire(RTT_OF_100_MS), 0, Instant::ZERO))
        .with_server(server);
    world.connect();
    world.run_for(Duration::from_secs(50))?;
    let held = world.client().received().len();
    assert!((19_000..=20_000).contains(&held), "{held}");
    assert!(world.server().counters().window_probes >= 2);
    world.run_until(HOUR, |world| world.client().ending().is_some())?;
    assert_eq!(world.client().received(), support::bytes(100_000, 9));
    Ok(())
}

#[test]
fn delayed_acks_halve_the_acks() -> Result<(), Failure> {
    let sent = |policy| {
        let conversation = Conversation::bulk(100, 300_000);
        let (mut client, server) = configs(Ip::V4);
        client.acknowledgements = policy;
        let mut world = world(&conversation, wire(RTT_OF_100_MS), 0, (client, server));
        conversation.run(&mut world, HOUR)?;
        Ok::<u64, Failure>(world.client().counters().sent)
    };
    let immediate = sent(AckPolicy::Immediate)?;
    let delayed = sent(AckPolicy::Delayed(Duration::from_millis(40)))?;
    assert!(delayed * 10 < immediate * 6, "{delayed} of {immediate}");
    Ok(())
}

#[test]
fn without_timestamps_and_window_scaling_too() -> Result<(), Failure> {
    for seed in 0..10 {
        let (mut client, server) = configs(Ip::V4);
        client.timestamps = None;
        client.window_scale = None;
        let config =
            wire(RTT_OF_100_MS).with_both(|d| d.loss = Loss::Independent(Probability::percent(10)));
        let conversation = Conversation::bulk(50_000, 100_000);
        let mut world = world(&conversation, config, seed, (client, server));
        conversation.run(&mut world, HOUR)?;
        let any_option = world.tapped(0).iter().any(|tapped| {
            TcpPacket::parse(&tapped.packet).is_ok_and(|segment| {
                !segment.flags().contains(TcpFlags::SYN) && !segment.options_bytes().is_empty()
            })
        });
        assert!(!any_option);
    }
    Ok(())
}

#[test]
fn an_outage_is_outlived() -> Result<(), Failure> {
    for effect in [OutageEffect::Hold, OutageEffect::Lose] {
        let config = wire(RTT_OF_100_MS).with_both(|direction| {
            direction.outages = vec![Outage::once(
                Duration::from_millis(180),
                Duration::from_secs(90),
                effect,
            )];
        });
        let conversation = Conversation::handshake();
        let mut world = world(&conversation, config, 0, configs(Ip::V4));
        conversation.run(&mut world, HOUR)?;
        assert!(world.now() > Instant::from_micros(90_000_000));
    }
    Ok(())
}

#[test]
fn path_mtu_messages_are_heeded_and_a_black_hole_is_not_survived() -> Result<(), Failure> {
    for ip in [Ip::V4, Ip::V6] {
        let tell = Oversize::TellSender {
            v4: std::net::Ipv4Addr::new(192, 0, 2, 1),
            v6: std::net::Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 9),
        };
        let config = wire(RTT_OF_100_MS).with_both(|direction| {
            direction.mtu = 1_300;
            direction.oversize = tell;
        });
        let conversation = Conversation::handshake();
        let mut world = world(&conversation, config, 0, configs(ip));
        conversation.run(&mut world, HOUR)?;
        assert_eq!(world.server().counters().pmtu_lowered, 1);
    }
    let config = wire(RTT_OF_100_MS).with_both(|direction| direction.mtu = 1_300);
    let conversation = Conversation::handshake();
    let (client, mut server) = configs(Ip::V4);
    server.data_retries = 5;
    let mut world = world(&conversation, config, 0, (client, server));
    world.connect();
    world.run_until(HOUR, |world| world.server().ending().is_some())?;
    assert_eq!(world.server().ending(), Some(Ending::TimedOut));
    Ok(())
}

#[test]
fn a_link_taken_down_and_up_again_by_hand() -> Result<(), Failure> {
    let conversation = Conversation::bulk(100, 50_000);
    let mut world = world(&conversation, wire(RTT_OF_100_MS), 0, configs(Ip::V4));
    world.connect();
    world.run_for(Duration::from_millis(300))?;
    let now = world.now();
    let link: &mut Link = world.element_mut(0).expect("the link is element 0");
    let before = link.direction_config(Direction::Down).clone();
    let mut down = before.clone();
    down.loss = Loss::Independent(Probability::ALWAYS);
    link.reconfigure(Direction::Down, down, now);
    world.run_for(Duration::from_secs(10))?;
    let heard = world.client().received().len();
    assert!(heard < 50_000);
    let now = world.now();
    let link: &mut Link = world.element_mut(0).expect("the link is element 0");
    link.reconfigure(Direction::Down, before, now);
    world.run_until(HOUR, |world| world.server().ending().is_some())?;
    conversation.check(&world)
}

#[test]
fn many_clients_and_servers_in_one_world() -> Result<(), Failure> {
    let conversation = Conversation::handshake();
    let mut world = World::new(8);
    for n in 0..20u16 {
        let (mut client, server) = configs(Ip::V4);
        client.local.set_port(50_000 + n);
        let (client, server) = conversation.hosts(client, server);
        world = world.with_client(client).with_server(server);
    }
    let config =
        wire(RTT_OF_100_MS).with_both(|d| d.loss = Loss::Independent(Probability::percent(5)));
    world = world.with_element(Link::new(config, 8, Instant::ZERO));
    world.connect();
    world.run_until(HOUR, |world| {
        world
            .clients()
            .iter()
            .chain(world.servers())
            .all(|host| host.ending().is_some())
    })?;
    for host in world.clients().iter().chain(world.servers()) {
        assert_eq!(host.phase(), Phase::Open);
        assert_eq!(host.ending(), Some(Ending::Finished));
    }
    assert_eq!(world.unclaimed(), 0);
    Ok(())
}
