//! One handshake through both proxies: the real store says what the hint names, the real engine
//! writes the server's flight, and the real frame and options say what crosses.
//!
//! Not the proxies: packets, losses and time are left out. The only file that calls the engine, the
//! store and the link's formats. Invariant: what is learned comes from handshakes entered before,
//! so that a cold store knows nothing of the one at hand.

use tandem_engine::{Flight, Handshake as Engine, Hints, Possession, learn_flight, plan_flight};
use tandem_link::inband::frame::{self, Sender};
use tandem_link::inband::option::{self, HintId, MAX_HINTS};
use tandem_link::inband::version::Spoken;
use tandem_link::inband::{FlowId, Key};
use tandem_packet::gain::{Gains, Outcome};
use tandem_store::{Limits, MemoryStore, Site};
use tandem_trace::{Ending, Handshake, Stop};
use tandem_wire::tls::CertificateList;
use tandem_wire::{Instant, Seq, UnixTime};

/// A server's first window: ten segments of 1,460 bytes (RFC 6928, section 2). A flight that ends
/// beyond it cannot be held back until it is whole, since the server waits for acknowledgements
/// that a proxy never makes up. What is within is less than packet mode holds.
pub const FIRST_WINDOW_BYTES: u64 = 14_600;

/// Sizes do not depend on the connection.
const FLOW: FlowId = FlowId {
    client: Seq(0),
    server: Seq(0),
};

/// What one handshake's way over the link comes to, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Crossing {
    /// The server's flight less the frame that crosses in its place.
    pub(crate) saved: u64,
    /// The proxies' own TCP options on SYN, SYN/ACK and hello.
    pub(crate) options: u64,
}

/// The two proxies, with what they have learned.
#[derive(Debug)]
pub(crate) struct Pair {
    key: Key,
    /// Both have seen the same handshakes, so one store stands for both.
    store: MemoryStore,
    /// What was gained with this store, and what would have been with one that held everything.
    cold: Gains,
    warm: Gains,
}

impl Pair {
    /// A pair that has learned nothing.
    pub(crate) fn new() -> Self {
        Self {
            key: Key::from_bytes([0; Key::LEN]),
            store: MemoryStore::new(Limits::default()),
            cold: Gains::default(),
            warm: Gains::default(),
        }
    }

    /// Carries a handshake over: with what was learned before it, and with a store that held all
    /// of it. It is learned then.
    pub(crate) fn carry(&mut self, handshake: &Handshake, site: &Site) -> (Crossing, Crossing) {
        // The proxies' ports are those on which TLS comes first.
        if handshake.dialogue.is_some() || handshake.lacks_timestamps {
            return Default::default();
        }
        let is_cold_offered = is_offered(&mut self.cold, handshake);
        let is_warm_offered = is_offered(&mut self.warm, handshake) || is_cold_offered;
        let (mut cold, mut warm) = self.offered(handshake, site, is_cold_offered);
        if is_cold_offered {
            note(&mut self.cold, handshake, cold);
        } else {
            cold = Crossing::default();
        }
        if is_warm_offered {
            note(&mut self.warm, handshake, warm);
        } else {
            warm = Crossing::default();
        }
        (cold, warm)
    }

    /// The same where the proxies show themselves to each other. Only then the store learns.
    fn offered(
        &mut self,
        handshake: &Handshake,
        site: &Site,
        is_learned: bool,
    ) -> (Crossing, Crossing) {
        let now = UnixTime(handshake.unix_micros.unwrap_or(0) / 1_000_000);
        let flight = flight(handshake);
        let hints = hints(handshake, &mut self.store, site, now);
        let cold = self.cross(handshake, flight.as_ref(), &hints, None);
        let mut taught = MemoryStore::new(Limits::default());
        if !learn(&mut taught, handshake, site, now) {
            return (cold, cold);
        }
        let hints = self::hints(handshake, &mut taught, site, now);
        let warm = self.cross(handshake, flight.as_ref(), &hints, Some(&mut taught));
        if is_learned && !matches!(handshake.ending, Ending::Stopped(Stop::Alert | Stop::NoTls)) {
            learn(&mut self.store, handshake, site, now);
        }
        let saved = warm.saved.max(cold.saved);
        (cold, Crossing { saved, ..warm })
    }

    fn cross(
        &mut self,
        handshake: &Handshake,
        flight: Option<&Flight>,
        hints: &[HintId],
        taught: Option<&mut MemoryStore>,
    ) -> Crossing {
        let version = Spoken::HERE.newest();
        let mut options = option::presence(&self.key, FLOW.client, version).len()
            + option::answer(&self.key, FLOW, version).len();
        if !handshake.old_hello {
            options += option::hint(&self.key, FLOW, version, hints).len();
        }
        let store = taught.unwrap_or(&mut self.store);
        let bytes = handshake.clear_flight.as_slice();
        let frame = flight.and_then(|flight| {
            let possession = Possession::from_hints(hints);
            let plan = plan_flight(bytes, flight, &possession, store);
            let delta = plan.finish(version.encoding())?;
            let place = (FLOW, version, Sender::Server);
            frame::write(&self.key, place, FLOW.server, &delta, bytes)
        });
        Crossing {
            saved: frame.map_or(0, |frame| (bytes.len() - frame.len()) as u64),
            options: options as u64,
        }
    }
}

/// When the client-side proxy sees the handshake.
fn at(handshake: &Handshake) -> Instant {
    Instant::from_micros(handshake.unix_micros.unwrap_or(0))
}

/// Whether the proxies show themselves in this connection.
fn is_offered(gains: &mut Gains, handshake: &Handshake) -> bool {
    gains.is_worth_an_offer(handshake.client.ip(), handshake.server, at(handshake))
}

/// What the client-side proxy makes of it.
fn note(gains: &mut Gains, handshake: &Handshake, crossing: Crossing) {
    let is_no_tls = matches!(handshake.ending, Ending::Stopped(Stop::NoTls));
    let outcome = if crossing.saved > 0 {
        Outcome::Gain
    } else if handshake.is_opaque || is_no_tls {
        Outcome::NoGain
    } else {
        return;
    };
    let client = handshake.client.ip();
    gains.note(client, handshake.server, outcome, at(handshake));
}

/// What a hint names to this site. A hello in the old format gets none: it is not understood.
fn hints(
    handshake: &Handshake,
    store: &mut MemoryStore,
    site: &Site,
    now: UnixTime,
) -> Vec<HintId> {
    if handshake.old_hello {
        return Vec::new();
    }
    let hints = Hints::to(store, site, now, MAX_HINTS);
    hints.ids().iter().map(|id| id.prefix4()).collect()
}

/// The server's flight as the engine reads it; none where packet mode lets it pass: it has no chain
/// in clear, its end is not in sight, or the server stalls before it ends.
fn flight(handshake: &Handshake) -> Option<Flight> {
    let bytes = handshake.clear_flight.as_slice();
    if handshake.old_hello || bytes.is_empty() || bytes.len() as u64 > FIRST_WINDOW_BYTES {
        return None;
    }
    let mut engine = Engine::new();
    engine.server_sent(bytes);
    engine.flight().cloned()
}

/// Takes in what a finished handshake teaches; only that here a Finished may be missing, since
/// captures begin and end where they like. False where nothing is learned.
fn learn(store: &mut MemoryStore, handshake: &Handshake, site: &Site, now: UnixTime) -> bool {
    let Some(chain) = &handshake.chain else {
        return false;
    };
    let Ok(length) = u32::try_from(chain.list.len()) else {
        return false;
    };
    let message = [&length.to_be_bytes()[1..], &chain.list].concat();
    let Ok(list) = CertificateList::parse(&message) else {
        return false;
    };
    let certificates: Vec<&[u8]> = list.iter().map(|item| item.der).collect();
    let extras = handshake.extras.as_ref().map(|extras| &*extras.messages);
    learn_flight(&certificates, extras, store, site, now)
}
