//! What a simulated host must refuse: old timestamps, bad checksums, segments
//! out of the window, acknowledgements of nothing.

mod support;

use std::time::Duration;

use support::{Conversation, HOUR, Ip, client_config, server_config};
use tandem_netsim::element::{Port, Tamper};
use tandem_netsim::host::HostCounters;
use tandem_netsim::link::{
    ChecksumAfter, Corruption, CorruptionScope, Duplication, Link, LinkConfig,
};
use tandem_netsim::world::{Failure, World};
use tandem_netsim::{BitRate, Probability};
use tandem_wire::clock::Instant;
use tandem_wire::packet::{Edit, TcpPacket};
use tandem_wire::seq::Seq;
use tandem_wire::tcp::{OptionsBuf, TcpFlags, Timestamps};

fn link() -> Link {
    let rate = BitRate::from_bits_per_second(1_000_000);
    Link::new(
        LinkConfig::new(rate, rate, Duration::from_millis(50)),
        0,
        Instant::ZERO,
    )
}

/// Runs a handshake with `extra` sent to the client beside each segment of the
/// server that carries data.
fn run_with_extra(
    extra: impl Fn(&TcpPacket<'_>) -> Option<Vec<u8>> + 'static,
) -> Result<HostCounters, Failure> {
    let conversation = Conversation::handshake();
    let (client, server) = conversation.hosts(client_config(Ip::V4), server_config(Ip::V4));
    let tamper = Tamper::new(move |port, packet, _| {
        let mut out = Vec::new();
        if port == Port::Right
            && let Ok(segment) = TcpPacket::parse(&packet)
            && !segment.payload().is_empty()
        {
            out.extend(extra(&segment).map(|packet| (Port::Left, packet)));
        }
        out.push((port.opposite(), packet));
        out
    });
    let mut world = World::new(0)
        .with_client(client)
        .with_element(tamper)
        .with_element(link())
        .with_server(server);
    conversation.run(&mut world, HOUR)?;
    Ok(world.client().counters())
}

/// The same segment with another payload, so that it would show if it were taken.
fn tampered(segment: &TcpPacket<'_>) -> Vec<u8> {
    segment.payload().iter().map(|byte| !byte).collect()
}

#[test]
fn old_timestamps_are_refused_and_the_stream_is_intact() -> Result<(), Failure> {
    let counters = run_with_extra(|segment| {
        let timestamps = segment.timestamps()?;
        let mut options = OptionsBuf::from_bytes(segment.options_bytes()).ok()?;
        options.set_timestamps(Timestamps {
            value: timestamps.value.wrapping_sub(100_000_000),
            echo: timestamps.echo,
        })?;
        let payload = tampered(segment);
        let edit = Edit {
            options: Some(options.as_slice()),
            payload: Some(&payload),
            ..Edit::default()
        };
        segment.rebuilt(&edit).ok()
    })?;
    // Five data segments: three of the certificate flight, two small flights.
    assert_eq!(counters.paws_dropped, 5);
    assert_eq!(counters.duplicates + counters.out_of_order, 0);
    Ok(())
}

#[test]
fn bad_checksums_are_refused() -> Result<(), Failure> {
    let counters = run_with_extra(|segment| {
        let mut packet = segment.bytes().to_vec();
        *packet.last_mut()? ^= 1;
        Some(packet)
    })?;
    assert_eq!(counters.bad_checksum, 5);
    Ok(())
}

#[test]
fn data_beyond_the_window_is_refused() -> Result<(), Failure> {
    let counters = run_with_extra(|segment| {
        let payload = tampered(segment);
        let edit = Edit {
            seq: Some(segment.seq().wrapping_add(1_000_000)),
            payload: Some(&payload),
            ..Edit::default()
        };
        segment.rebuilt(&edit).ok()
    })?;
    assert_eq!(counters.outside_window, 5);
    assert!(counters.challenge_acks >= 5);
    Ok(())
}

#[test]
fn acknowledgements_of_unsent_bytes_are_refused() -> Result<(), Failure> {
    let counters = run_with_extra(|segment| {
        let payload = tampered(segment);
        let edit = Edit {
            ack: Some(segment.ack().wrapping_add(5_000)),
            payload: Some(&payload),
            ..Edit::default()
        };
        segment.rebuilt(&edit).ok()
    })?;
    assert_eq!(counters.ack_of_unsent, 5);
    Ok(())
}

#[test]
fn resets_and_syns_inside_the_window_are_challenged() -> Result<(), Failure> {
    for flags in [TcpFlags::RST.with(TcpFlags::ACK), TcpFlags::SYN] {
        let counters = run_with_extra(move |segment| {
            let edit = Edit {
                seq: Some(segment.seq().wrapping_add(3_000)),
                flags: Some(flags),
                payload: Some(&[]),
                ..Edit::default()
            };
            segment.rebuilt(&edit).ok()
        })?;
        assert!(counters.challenge_acks >= 1, "{counters:?}");
    }
    Ok(())
}

#[test]
fn a_retransmission_with_other_bytes_does_not_replace_the_first() -> Result<(), Failure> {
    // Sent after the true one, so a copy that comes too late.
    let conversation = Conversation::handshake();
    let (client, server) = conversation.hosts(client_config(Ip::V4), server_config(Ip::V4));
    let tamper = Tamper::new(|port, packet, _| {
        let copy = (port == Port::Right)
            .then(|| {
                let segment = TcpPacket::parse(&packet).ok()?;
                let payload = tampered(&segment);
                let edit = Edit {
                    payload: Some(&payload),
                    ..Edit::default()
                };
                segment.rebuilt(&edit).ok()
            })
            .flatten();
        let mut out = vec![(port.opposite(), packet)];
        out.extend(copy.map(|copy| (port.opposite(), copy)));
        out
    });
    let mut world = World::new(0)
        .with_client(client)
        .with_element(tamper)
        .with_element(link())
        .with_server(server);
    conversation.run(&mut world, HOUR)?;
    // Behind the window by then, since the first copy was taken.
    assert!(world.client().counters().outside_window >= 5);
    Ok(())
}

#[test]
fn duplicates_seconds_later_change_nothing() -> Result<(), Failure> {
    let rate = BitRate::from_bits_per_second(1_000_000);
    let config = LinkConfig::new(rate, rate, Duration::from_millis(50)).with_both(|direction| {
        direction.duplication = Duplication {
            // Not all of them: an ACK that answers a late copy is copied too.
            probability: Probability::percent(50),
            after: Duration::from_secs(3),
        };
    });
    let conversation = Conversation::bulk(20_000, 40_000);
    let (client, server) = conversation.hosts(client_config(Ip::V4), server_config(Ip::V4));
    let mut world = World::new(0)
        .with_client(client)
        .with_element(Link::new(config, 0, Instant::ZERO))
        .with_server(server);
    conversation.run(&mut world, HOUR)?;
    world.run_until_quiet(HOUR)?;
    assert!(world.client().counters().paws_dropped > 0);
    conversation.check(&world)
}

#[test]
fn corruption_with_a_good_checksum_reaches_the_application() -> Result<(), Failure> {
    let rate = BitRate::from_bits_per_second(1_000_000);
    let mut config = LinkConfig::new(rate, rate, Duration::from_millis(50));
    config.down.corruption = Corruption {
        probability: Probability::ALWAYS,
        scope: CorruptionScope::TcpPayload,
        checksum: ChecksumAfter::MadeGood,
    };
    let conversation = Conversation::bulk(100, 10_000);
    let (client, server) = conversation.hosts(client_config(Ip::V4), server_config(Ip::V4));
    let mut world = World::new(0)
        .with_client(client)
        .with_element(Link::new(config, 0, Instant::ZERO))
        .with_server(server);
    world.connect();
    world.run_until(HOUR, |world| world.client().ending().is_some())?;
    let said = support::bytes(10_000, 2);
    let heard = world.client().received();
    let flipped: u32 = said
        .iter()
        .zip(heard)
        .map(|(a, b)| (a ^ b).count_ones())
        .sum();
    // Seven segments of 1,448 bytes, one bit each.
    assert_eq!((heard.len(), flipped), (10_000, 7));
    assert_eq!(world.client().counters().bad_checksum, 0);
    Ok(())
}

#[test]
fn sequence_numbers_cross_the_wrap() -> Result<(), Failure> {
    for initial in [u32::MAX, u32::MAX - 1, 0, 1, 0x7fff_fffe] {
        let conversation = Conversation::bulk(5_000, 5_000);
        let (mut client, mut server) = (client_config(Ip::V4), server_config(Ip::V4));
        client.initial_seq = Seq(initial);
        server.initial_seq = Seq(initial.wrapping_add(1));
        client.timestamps = Some(initial);
        server.timestamps = Some(initial);
        let (client, server) = conversation.hosts(client, server);
        let mut world = World::new(0)
            .with_client(client)
            .with_element(link())
            .with_server(server);
        conversation.run(&mut world, HOUR)?;
        assert_eq!(world.client().counters().paws_dropped, 0);
    }
    Ok(())
}
