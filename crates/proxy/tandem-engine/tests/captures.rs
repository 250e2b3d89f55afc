//! Real handshakes out of captures: read along in any cut, written as a delta, followed, the same
//! bytes again.
//!
//! The captures are not part of the project; without them the tests say so and pass. With them they
//! demand minimum counts.

#[path = "../../../base/tandem-wire/tests/support/mod.rs"]
mod support;

use std::collections::BTreeMap;
use std::net::SocketAddr;

use tandem_delta::{Delta, Encoding};
use tandem_engine::{
    Handshake, Hints, Pass, Possession, Stage, StoreSource, expected_chains, plan_flight, thesis,
};
use tandem_store::{MemoryStore, Site};
use tandem_wire::{Assembler, Inserted, TcpFlags, TcpPacket, UnixTime};

/// Before any leaf of the captures has expired.
const THEN: UnixTime = UnixTime(1_000_000_000);

/// Both directions of one connection, from their first byte.
struct Connection {
    server: SocketAddr,
    from_client: Vec<u8>,
    from_server: Vec<u8>,
}

/// The connections of a capture whose SYN and SYN/ACK are in it.
fn connections(packets: &[Vec<u8>]) -> Vec<Connection> {
    let mut found: Vec<(SocketAddr, SocketAddr, Assembler, Option<Assembler>)> = Vec::new();
    let mut current: BTreeMap<(SocketAddr, SocketAddr), usize> = BTreeMap::new();
    for bytes in packets {
        let Ok(packet) = TcpPacket::parse(bytes) else {
            continue;
        };
        let (from, to) = (packet.source(), packet.destination());
        let flags = packet.flags();
        let first = packet.seq().wrapping_add(1);
        if flags.contains(TcpFlags::SYN) && !flags.contains(TcpFlags::ACK) {
            let again = current
                .get(&(from, to))
                .is_some_and(|index| found[*index].2.start_seq() == first);
            if !again {
                current.insert((from, to), found.len());
                found.push((from, to, Assembler::new(first, 1 << 20), None));
            }
        } else if let Some(index) = current.get(&(from, to)) {
            assert_ne!(
                found[*index].2.insert(packet.seq(), packet.payload()),
                Inserted::Conflict
            );
        } else if let Some(index) = current.get(&(to, from)) {
            let server = &mut found[*index].3;
            if flags.contains(TcpFlags::SYN) {
                server.get_or_insert_with(|| Assembler::new(first, 1 << 20));
            } else if let Some(server) = server {
                assert_ne!(
                    server.insert(packet.seq(), packet.payload()),
                    Inserted::Conflict
                );
            }
        }
    }
    found
        .into_iter()
        .filter_map(|(_, server, from_client, from_server)| {
            Some(Connection {
                server,
                from_client: from_client.contiguous().to_vec(),
                from_server: from_server?.contiguous().to_vec(),
            })
        })
        .collect()
}

/// Hello, then what the server said, then the rest of what the client said: the order in which a
/// proxy sees them.
fn read(connection: &Connection, step: usize) -> Handshake {
    let mut handshake = Handshake::new();
    let (client, server) = (&connection.from_client[..], &connection.from_server[..]);
    let hello = first_record(client);
    for end in (0..hello.len()).step_by(step).chain([hello.len()]) {
        handshake.client_sent(&client[..end]);
    }
    for end in (0..server.len().min(1 << 16)).step_by(step) {
        handshake.server_sent(&server[..end]);
    }
    handshake.server_sent(server);
    for end in (hello.len()..client.len().min(1 << 16)).step_by(step) {
        handshake.client_sent(&client[..end]);
    }
    handshake.client_sent(client);
    handshake
}

#[test]
fn real_flights_are_rebuilt_to_the_byte_in_both_formats() {
    let Some(folder) = support::captures_folder() else {
        return;
    };
    let mut stages: BTreeMap<String, usize> = BTreeMap::new();
    let mut extras = Vec::new();
    let (mut flights, mut warm, mut partial, mut whole, mut before, mut after) = (0, 0, 0, 0, 0, 0);
    for path in support::capture_files(&folder) {
        for connection in connections(&support::ip_packets(&path)) {
            let handshake = read(&connection, usize::MAX);
            for step in [1, 100, 1_448] {
                assert_eq!(
                    read(&connection, step).stage(),
                    handshake.stage(),
                    "{} in steps of {step}",
                    path.display()
                );
            }
            *stages
                .entry(format!("{:?}", handshake.stage()))
                .or_default() += 1;
            let Some(flight) = handshake.flight() else {
                continue;
            };
            let bytes = &connection.from_server[..];
            flights += 1;
            let site = handshake
                .server_name()
                .map_or(Site::Address(connection.server), |name| {
                    Site::Name(name.clone())
                });
            let mut held = MemoryStore::default();
            if !handshake.learn(bytes, &mut held, &site, THEN) {
                assert_ne!(handshake.stage(), Stage::Finished);
                continue;
            }
            let chains = expected_chains(&mut held, &site, THEN, 2);
            assert_eq!(chains.len(), 1, "{}: the chain is expected", path.display());

            let hints = Hints::to(&mut held, &site, THEN, 4);
            let hints: Vec<_> = hints.ids().iter().map(|id| id.prefix4()).collect();
            let mut warm_delta = |hints: &[_]| {
                let possession = Possession::from_hints(hints);
                let delta = plan_flight(bytes, flight, &possession, &mut MemoryStore::default())
                    .finish(Encoding::One)
                    .expect("the chain is held");
                let rebuilt = Delta::parse(Encoding::One, &delta, bytes.len())
                    .and_then(|delta| delta.apply(&mut StoreSource::new(&mut held)));
                assert!(rebuilt.as_deref() == Ok(bytes), "{}", path.display());
                delta.len()
            };
            let chain_alone = warm_delta(&hints[..1]);
            let all = warm_delta(&hints);
            warm += 1;
            before += bytes.len();
            after += all;
            let beside: usize = flight
                .extras_pieces()
                .iter()
                .map(ExactSizeIterator::len)
                .sum();
            assert_eq!(hints.len(), if beside == 0 { 1 } else { 2 });
            if beside > 0 {
                extras.push((beside, chain_alone - all));
            }

            let codes = thesis::Codes::default();
            let longer = thesis::announce(
                first_record(&connection.from_client),
                &chains,
                &mut held,
                codes,
            );
            if let Some(longer) = longer {
                let announced = thesis::strip(&longer, codes).expect("our own");
                assert_eq!(announced.hello, first_record(&connection.from_client));
                let possession = Possession::from_references(&announced.references);
                if let Some(shorter) = thesis::compress(bytes, flight, &possession, codes) {
                    assert_eq!(
                        thesis::expand(&shorter, &mut held, codes),
                        thesis::Expanded::Whole(bytes.to_vec())
                    );
                    whole += 1;
                }
                let fewer = Possession::from_references(&announced.references[1..]);
                if let Some(shorter) = thesis::compress(bytes, flight, &fewer, codes) {
                    assert_eq!(
                        thesis::expand(&shorter, &mut held, codes),
                        thesis::Expanded::Whole(bytes.to_vec())
                    );
                    partial += 1;
                }
            }
        }
    }
    eprintln!(
        "{stages:?}; {flights} flights, {warm} warm: {before} bytes as {after}; thesis {whole} + {partial}"
    );
    eprintln!("beside the chain, and of that saved: {extras:?}");
    assert!(extras.len() >= 3 && extras.iter().all(|(beside, saved)| saved + 32 > *beside));
    assert!(flights >= 20 && warm >= 15 && whole >= 10 && partial >= 5);
    assert!(stages.contains_key(&format!("{:?}", Stage::Pass(Pass::Tls13))));
}

fn first_record(stream: &[u8]) -> &[u8] {
    match stream.get(3..5) {
        Some(&[high, low]) => {
            let end = 5 + usize::from(u16::from_be_bytes([high, low]));
            stream.get(..end).unwrap_or(stream)
        }
        _ => stream,
    }
}
