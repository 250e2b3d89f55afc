//! What must hold for any bytes, called by the fuzz targets in `fuzz/` and by the replay of their
//! corpora.
//!
//! Not part of the public interface. A function returns where all is well and panics where an
//! invariant is broken.

use std::sync::Arc;

use crate::client::{Client, Known, Remedy};
use crate::holder::Holder;
use crate::record::Received;
use crate::rehearsal::{NOW, Pair, client_config, entropy, received, server_config};
use crate::server::Server;
use crate::three_way::{Secrecy, Unprotected};

/// A function that checks the invariants of a parser or an engine on any input.
pub type Check = fn(&[u8]);

/// All checks of this crate by the name of their fuzz target.
pub const CHECKS: [(&str, Check); 3] = [
    ("tls12_experiment_bytes", tls12_experiment_bytes),
    ("tls12_experiment_changes", tls12_experiment_changes),
    ("tls12_experiment_holder", tls12_experiment_holder),
];

/// What a client has after a first visit.
fn known() -> Option<Known> {
    let server = server_config(Arc::new(Unprotected), Secrecy::Static);
    let mut pair = Pair::new(client_config(Remedy::ThreeWay), server, None, b"", 1).ok()?;
    pair.run(|_, _| {}).ok()?;
    pair.client.learned().cloned()
}

const fn remedy(number: u8) -> Remedy {
    match number % 3 {
        0 => Remedy::Plain,
        1 => Remedy::CachedInfo,
        _ => Remedy::ThreeWay,
    }
}

const fn secrecy(number: u8) -> Secrecy {
    match number & 8 {
        0 => Secrecy::Static,
        _ => Secrecy::Ephemeral,
    }
}

/// Neither end panics, or opens, whatever it is sent; an end that has failed stays so.
///
/// The first byte says how large the pieces are, and what the client tries.
///
/// # Panics
/// That does not hold.
pub fn tls12_experiment_bytes(data: &[u8]) {
    let Some((&first, rest)) = data.split_first() else {
        return;
    };
    let known = known();
    let config = Arc::new(client_config(remedy(first)));
    let client = Client::start(config, known.as_ref(), NOW, entropy(2), b"early");
    let Ok(mut client) = client else {
        panic!("nothing is wrong with these settings");
    };
    let server = server_config(Arc::new(Unprotected), secrecy(first));
    let mut server = Server::new(Arc::new(server), entropy(3));
    let mut failed = [false; 2];
    for piece in rest.chunks(usize::from(first >> 4) * 16 + 1) {
        for (at, result) in [client.handle_input(piece), server.handle_input(piece)]
            .into_iter()
            .enumerate()
        {
            // An end that has failed reports so once there is another record.
            failed[at] |= result.is_err();
        }
        assert_eq!(client.kind(), None, "nobody has its keys");
        assert!(!failed[1] || server.kind().is_none());
        drop((client.take_output(), server.take_output()));
        assert_eq!(client.take_received(), None);
    }
}

/// However the bytes of a connection are changed, what arrives is what was sent, in order; and
/// where both ends open, they agree on how.
///
/// The first byte says what the client tries; then four bytes a change: flight, place (two bytes),
/// what to add.
///
/// # Panics
/// That does not hold.
pub fn tls12_experiment_changes(data: &[u8]) {
    let Some((&first, changes)) = data.split_first() else {
        return;
    };
    let known = known();
    let server = server_config(Arc::new(Unprotected), secrecy(first));
    let config = client_config(remedy(first));
    let Ok(mut pair) = Pair::new(config, server, known.as_ref(), b"early", 2) else {
        panic!("nothing is wrong with these settings");
    };
    // Both may fail: whatever was changed decides.
    let _ = pair.run(|number, flight| {
        for change in changes.chunks_exact(4).take(16) {
            let [which, high, low, value] = *change else {
                continue;
            };
            let at = usize::from(u16::from_be_bytes([high, low]));
            if usize::from(which & 7) != number {
                continue;
            }
            match which >> 3 {
                1 => flight.truncate(at),
                2 if at < flight.len() => drop(flight.remove(at)),
                3 if at < flight.len() => flight.insert(at, value),
                _ => flight
                    .iter_mut()
                    .skip(at)
                    .take(1)
                    .for_each(|byte| *byte ^= value),
            }
        }
    });
    if let (Some(client), Some(server)) = (pair.client.kind(), pair.server.kind()) {
        assert_eq!(client, server);
    }
    for found in received(|| pair.server.take_received()) {
        match found {
            Received::Early(data) | Received::Data(data) => assert_eq!(data, b"early"),
            Received::Closed => panic!("nobody has closed"),
        }
    }
    assert_eq!(received(|| pair.client.take_received()), []);
}

/// What a holder passes on does not depend on how the bytes are cut, and is all that came but for
/// one record at most.
///
/// The first byte says how large the pieces are; then the client's bytes.
///
/// # Panics
/// That does not hold.
pub fn tls12_experiment_holder(data: &[u8]) {
    let Some((&first, rest)) = data.split_first() else {
        return;
    };
    let run = |piece: usize| {
        let mut holder = Holder::new();
        let mut out = Vec::new();
        for bytes in rest.chunks(piece) {
            holder.to_client(bytes);
            holder.to_server(bytes, &mut out);
        }
        out
    };
    let alone = |piece: usize| {
        let mut holder = Holder::new();
        let mut out = Vec::new();
        rest.chunks(piece)
            .for_each(|bytes| holder.to_server(bytes, &mut out));
        out
    };
    let piece = usize::from(first) + 1;
    assert_eq!(alone(piece), alone(rest.len().max(1)));
    assert!(run(piece).len() <= rest.len());
}
