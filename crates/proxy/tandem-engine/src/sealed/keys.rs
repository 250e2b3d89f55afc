//! Keys that were released, until the flight that they belong to comes: the server's first, or the
//! client's after it.
//!
//! Is not: how they come. Invariants: a key is taken once, for its own direction, and not for a
//! connection whose server has another random than the key names; at most [`MAX_KEYS`] are held,
//! each for [`LIFETIME`] at most; a key that goes is overwritten.

use std::collections::VecDeque;
use std::time::Duration;

use tandem_record_key::{CLIENT_RANDOM_LEN, Direction, RecordKey, SERVER_RANDOM_LEN, Suite};
use tandem_wire::Instant;

use crate::event::UnusedKey;

/// Most keys at a time: a busy server's handshakes of a second.
const MAX_KEYS: usize = 1024;

/// How long a key is held. A server releases it right before it writes the flight.
const LIFETIME: Duration = Duration::from_secs(10);

/// The keys that wait.
#[derive(Debug, Default)]
pub(crate) struct ReleasedKeys {
    /// The oldest first.
    held: VecDeque<Held>,
}

/// What names a connection, and crosses in clear. Clients may use a random again, on purpose or
/// not; an honest server uses none again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Randoms {
    pub(crate) client: [u8; CLIENT_RANDOM_LEN],
    pub(crate) server: [u8; SERVER_RANDOM_LEN],
}

/// Whose key is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sought {
    pub(crate) direction: Direction,
    pub(crate) randoms: Randoms,
    pub(crate) suite: Suite,
}

#[derive(Debug)]
struct Held {
    key: RecordKey,
    since: Instant,
    /// Why it will have been of no use if nothing takes it.
    otherwise: UnusedKey,
}

impl Held {
    /// Whether it is of this direction of a connection, in any suite. Where it does not name the
    /// server's random, as from a key log, it may be.
    fn is_beside(&self, sought: &Sought) -> bool {
        let Randoms { client, server } = &sought.randoms;
        let named = self.key.server_random();
        self.key.client_random() == client
            && named.is_none_or(|named| named == server)
            && self.key.direction() == sought.direction
    }

    fn is_of(&self, sought: &Sought) -> bool {
        self.is_beside(sought) && self.key.suite() == sought.suite
    }
}

impl ReleasedKeys {
    /// Holds a key. Says which go without having been of use. If nothing takes this one, that is
    /// for the reason `otherwise`.
    pub(crate) fn put(
        &mut self,
        key: RecordKey,
        otherwise: UnusedKey,
        now: Instant,
    ) -> Vec<UnusedKey> {
        let mut gone = self.expire(now);
        if self.held.len() == MAX_KEYS {
            self.held.pop_front();
            gone.push(UnusedKey::Displaced);
        }
        self.held.push_back(Held {
            key,
            since: now,
            otherwise,
        });
        gone
    }

    /// Lets go of keys whose time is over; says why each was of no use.
    pub(crate) fn expire(&mut self, now: Instant) -> Vec<UnusedKey> {
        let mut gone = Vec::new();
        while let Some(held) = self.held.pop_front_if(|held| held.since + LIFETIME <= now) {
            gone.push(held.otherwise);
        }
        gone
    }

    /// Whether a key may be that of this connection.
    pub(crate) fn has(&self, sought: &Sought) -> bool {
        let mut held = self.held.iter();
        held.any(|held| held.is_of(sought))
    }

    /// Lets go of keys that are not of use, as was found out, in any suite; says why.
    pub(crate) fn drop_beside(&mut self, sought: &Sought) -> Vec<UnusedKey> {
        let is_beside = |held: &&Held| held.is_beside(sought);
        let gone = self.held.iter().filter(is_beside).map(|it| it.otherwise);
        let gone = gone.collect();
        self.held.retain(|held| !held.is_beside(sought));
        gone
    }

    /// Takes the key of this connection that names its server's random, with no other proof.
    pub(crate) fn take_bound(&mut self, sought: &Sought) -> Option<RecordKey> {
        let is_bound = |key: &RecordKey| key.server_random().map(|_| ());
        let (key, ()) = self.take(sought, is_bound)?;
        Some(key)
    }

    /// Takes the key of this connection that does what is asked of it. Client randoms may repeat:
    /// others stay for theirs, but for keys of other suites. Who does not know the suite releases
    /// one for each.
    pub(crate) fn take<T>(
        &mut self,
        sought: &Sought,
        mut proof: impl FnMut(&RecordKey) -> Option<T>,
    ) -> Option<(RecordKey, T)> {
        let (index, proved) = self.held.iter().enumerate().find_map(|(index, held)| {
            let is_of = held.is_of(sought);
            Some((index, is_of.then(|| proof(&held.key))??))
        })?;
        let key = self.held.remove(index)?.key;
        let goes = |held: &Held| held.is_beside(sought) && !held.is_of(sought);
        self.held.retain(|held| !goes(held));
        Some((key, proved))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_record_key::IV_LEN;

    fn key(random: u8, iv: u8) -> RecordKey {
        of(Direction::FromServer, random, iv)
    }

    fn of(direction: Direction, random: u8, iv: u8) -> RecordKey {
        let random = [random; CLIENT_RANDOM_LEN];
        RecordKey::new(direction, Suite::Aes128Gcm, random, &[iv; IV_LEN], &[7; 16])
            .expect("16 bytes")
    }

    fn sought(random: u8, suite: Suite) -> Sought {
        Sought {
            direction: Direction::FromServer,
            randoms: Randoms {
                client: [random; CLIENT_RANDOM_LEN],
                server: [5; SERVER_RANDOM_LEN],
            },
            suite,
        }
    }

    fn take(keys: &mut ReleasedKeys, random: u8, iv: u8) -> bool {
        let proof = |key: &RecordKey| (key.iv() == &[iv; IV_LEN]).then_some(());
        keys.take(&sought(random, Suite::Aes128Gcm), proof)
            .is_some()
    }

    #[test]
    fn a_key_is_found_by_random_and_proof_and_taken_once() {
        let mut keys = ReleasedKeys::default();
        for iv in [1, 2] {
            assert_eq!(keys.put(key(9, iv), UnusedKey::Unknown, Instant::ZERO), []);
        }
        assert!(!take(&mut keys, 8, 1), "another random");
        assert!(!take(&mut keys, 9, 3), "nothing proves it");
        assert!(take(&mut keys, 9, 2) && !take(&mut keys, 9, 2));
        let stays = keys.has(&sought(9, Suite::Aes128Gcm));
        assert!(stays, "the other one");
        assert!(!keys.has(&sought(9, Suite::Aes256Gcm)));
    }

    #[test]
    fn a_key_that_names_another_server_s_random_is_another_connection_s() {
        let mut keys = ReleasedKeys::default();
        let sought = sought(9, Suite::Aes128Gcm);
        for server in [6, 5] {
            let key = key(9, server).with_server_random([server; SERVER_RANDOM_LEN]);
            keys.put(key, UnusedKey::Unknown, Instant::ZERO);
        }
        let taken = keys.take_bound(&sought).expect("it is there");
        assert_eq!(taken.server_random(), Some(&[5; SERVER_RANDOM_LEN]));
        // The other one stays, and is neither found nor tried nor dropped here.
        assert!(!keys.has(&sought));
        let tried = keys.take(&sought, |_| -> Option<()> { panic!("it is another's") });
        assert!(tried.is_none());
        assert_eq!(keys.drop_beside(&sought), []);
        assert_eq!(keys.held.len(), 1);
        // One that names none may fit, and proves it by what it opens.
        keys.put(key(9, 1), UnusedKey::Unknown, Instant::ZERO);
        assert!(keys.has(&sought));
        assert!(keys.take_bound(&sought).is_none());
        assert!(take(&mut keys, 9, 1));
    }

    #[test]
    fn keys_go_when_their_time_is_over_and_when_there_are_too_many() {
        let mut keys = ReleasedKeys::default();
        assert_eq!(keys.put(key(1, 1), UnusedKey::Unknown, Instant::ZERO), []);
        let later = Instant::ZERO + LIFETIME;
        assert_eq!(
            keys.put(key(2, 1), UnusedKey::Unknown, later),
            [UnusedKey::Unknown]
        );
        assert!(!keys.has(&sought(1, Suite::Aes128Gcm)));
        for _ in 1..MAX_KEYS {
            assert_eq!(keys.put(key(3, 1), UnusedKey::Unknown, later), []);
        }
        let gone = keys.put(key(3, 1), UnusedKey::Unknown, later);
        assert_eq!(gone, [UnusedKey::Displaced], "the oldest");
        assert!(!keys.has(&sought(2, Suite::Aes128Gcm)));
        assert_eq!(keys.held.len(), MAX_KEYS);
    }

    #[test]
    fn a_key_is_of_use_for_its_own_direction_alone() {
        let mut keys = ReleasedKeys::default();
        for direction in [Direction::FromClient, Direction::FromServer] {
            let key = of(direction, 1, 1);
            assert_eq!(keys.put(key, UnusedKey::Direction, Instant::ZERO), []);
        }
        let server = sought(1, Suite::Aes128Gcm);
        let client = Sought {
            direction: Direction::FromClient,
            ..server
        };
        let (taken, ()) = keys.take(&server, |_| Some(())).expect("it is there");
        assert_eq!(taken.direction(), Direction::FromServer);
        assert!(!keys.has(&server) && keys.has(&client));
        assert_eq!(keys.drop_beside(&server), []);
        assert_eq!(keys.drop_beside(&client), [UnusedKey::Direction]);
        assert!(!keys.has(&client));
    }

    #[test]
    fn with_a_key_go_those_that_were_released_beside_it_for_other_suites() {
        let mut keys = ReleasedKeys::default();
        let random = [9; CLIENT_RANDOM_LEN];
        let suite = Suite::ChaCha20Poly1305;
        let other = RecordKey::new(Direction::FromServer, suite, random, &[1; IV_LEN], &[7; 32]);
        assert_eq!(
            keys.put(other.expect("32 bytes"), UnusedKey::Unknown, Instant::ZERO),
            []
        );
        for random in [9, 8] {
            assert_eq!(
                keys.put(key(random, 1), UnusedKey::Unknown, Instant::ZERO),
                []
            );
        }
        assert!(take(&mut keys, 9, 1));
        assert!(!keys.has(&sought(9, suite)));
        let stays = keys.has(&sought(8, Suite::Aes128Gcm));
        assert!(stays, "another connection's");
        let gone = keys.expire(Instant::ZERO + LIFETIME);
        assert_eq!(gone, [UnusedKey::Unknown], "nothing else is left");
    }

    #[test]
    fn a_key_that_nothing_takes_says_why() {
        let mut keys = ReleasedKeys::default();
        for (random, otherwise) in [(1, UnusedKey::Late), (2, UnusedKey::Unknown)] {
            assert_eq!(keys.put(key(random, 1), otherwise, Instant::ZERO), []);
        }
        let gone = keys.expire(Instant::ZERO + LIFETIME);
        assert_eq!(gone, [UnusedKey::Late, UnusedKey::Unknown]);
    }
}
