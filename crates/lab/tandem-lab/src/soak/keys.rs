//! The way of handshake keys from programs to a daemon, on which they are harmed: late, lost,
//! wrong, handed in twice, or with another connection's key under their own random.
//!
//! Is not: the library that releases them, or what a daemon makes of them. Invariant: a program
//! never waits; what is on the way when the soak ends is lost.

use std::fs::{self, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rand::{Rng as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;
use serde::Serialize;

use tandem_testbed::LabError;

/// Of keys, those that come later than they were released.
const LATE: f64 = 0.15;
/// By so many milliseconds: both waits for keys, of 100 ms and of 200, lie between.
const LATE_BY: std::ops::Range<u64> = 5..300;
/// Of keys, those that never come.
const LOST: f64 = 0.1;
/// Those of which a bit is another.
const WRONG: f64 = 0.05;
/// Those that come twice, the second time late.
const REPEATED: f64 = 0.05;
/// Those in whose place the end of the key before them comes.
const FOREIGN: f64 = 0.05;

/// Bytes at the end of a datagram that are a part of the key, whatever the suite.
const OF_KEY: usize = 16;

/// Longest datagram that is passed on; a key's has 120 bytes at most.
const MAX_LEN: usize = 256;

/// How long a look for the next key takes.
const LOOK: Duration = Duration::from_millis(2);

/// What became of keys.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(crate) struct KeyFaults {
    /// Passed on at once, as they are.
    pub(crate) untouched: u64,
    /// Passed on later.
    pub(crate) late: u64,
    /// Dropped.
    pub(crate) lost: u64,
    /// Passed on with a bit that is another.
    pub(crate) wrong: u64,
    /// Passed on twice.
    pub(crate) repeated: u64,
    /// Passed on with another connection's key.
    pub(crate) foreign: u64,
}

impl KeyFaults {
    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            untouched: self.untouched + other.untouched,
            late: self.late + other.late,
            lost: self.lost + other.lost,
            wrong: self.wrong + other.wrong,
            repeated: self.repeated + other.repeated,
            foreign: self.foreign + other.foreign,
        }
    }
}

/// One such way, until dropped.
#[derive(Debug)]
pub(crate) struct KeyPath {
    socket: PathBuf,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<KeyFaults>>,
}

impl KeyPath {
    /// One from a socket at `from`, to which any program may write, to the daemon's.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn start(from: &Path, daemon: &Path, seed: u64) -> Result<Self, LabError> {
        let socket = UnixDatagram::bind(from).map_err(LabError::io("bind a socket for keys"))?;
        // Apache's processes run as another user.
        fs::set_permissions(from, Permissions::from_mode(0o666))
            .and_then(|()| socket.set_read_timeout(Some(LOOK)))
            .map_err(LabError::io("set up a socket for keys"))?;
        let over = Arc::new(AtomicBool::new(false));
        let thread = std::thread::spawn({
            let (over, daemon) = (Arc::clone(&over), daemon.to_owned());
            move || pass_on(&socket, &daemon, seed, &over)
        });
        Ok(Self {
            socket: from.to_owned(),
            over,
            thread: Some(thread),
        })
    }

    /// What a program is told of it.
    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    /// Ends it, and says what became of the keys.
    pub(crate) fn end(&mut self) -> KeyFaults {
        self.over.store(true, Ordering::Relaxed);
        let ended = self.thread.take().map(JoinHandle::join);
        ended.and_then(Result::ok).unwrap_or_default()
    }
}

impl Drop for KeyPath {
    fn drop(&mut self) {
        self.end();
    }
}

fn pass_on(socket: &UnixDatagram, daemon: &Path, seed: u64, over: &AtomicBool) -> KeyFaults {
    let mut chance = Pcg64Mcg::seed_from_u64(seed);
    let (mut counted, mut before) = (KeyFaults::default(), Vec::new());
    let mut due: Vec<(Instant, Vec<u8>)> = Vec::new();
    // A daemon that is not there gets no key.
    let send = |key: &[u8]| drop(socket.send_to(key, daemon));
    let mut buffer = [0; MAX_LEN];
    while !over.load(Ordering::Relaxed) {
        let received = socket.recv(&mut buffer);
        let now = Instant::now();
        due.retain(|(at, key)| {
            let is_due = *at <= now;
            if is_due {
                send(key);
            }
            !is_due
        });
        let key = match received {
            Ok(length) => buffer[..length].to_vec(),
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => continue,
                _ => break,
            },
        };
        let later = now + Duration::from_millis(chance.random_range(LATE_BY));
        let fate = Fate::drawn(chance.random());
        let (first, second) = fate.of(&key, &before);
        match fate {
            Fate::Untouched => counted.untouched += 1,
            Fate::Late => counted.late += 1,
            Fate::Lost => counted.lost += 1,
            Fate::Wrong => counted.wrong += 1,
            Fate::Repeated => counted.repeated += 1,
            Fate::Foreign => counted.foreign += 1,
        }
        first.iter().for_each(|key| send(key));
        due.extend(second.map(|key| (later, key)));
        before = key;
    }
    counted
}

/// What becomes of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Untouched,
    Late,
    Lost,
    Wrong,
    Repeated,
    Foreign,
}

impl Fate {
    /// By a number from 0 to 1.
    fn drawn(mut number: f64) -> Self {
        for (share, fate) in [
            (LATE, Self::Late),
            (LOST, Self::Lost),
            (WRONG, Self::Wrong),
            (REPEATED, Self::Repeated),
            (FOREIGN, Self::Foreign),
        ] {
            if number < share {
                return fate;
            }
            number -= share;
        }
        Self::Untouched
    }

    /// What is passed on of a key now, and later.
    fn of(self, key: &[u8], before: &[u8]) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
        let whole = || Some(key.to_vec());
        let changed = |change: &dyn Fn(&mut [u8])| {
            let mut key = key.to_vec();
            change(&mut key);
            Some(key)
        };
        match self {
            Self::Untouched => (whole(), None),
            Self::Late => (None, whole()),
            Self::Lost => (None, None),
            Self::Wrong => {
                let wrong = changed(&|key| key.iter_mut().rev().take(1).for_each(|it| *it ^= 1));
                (wrong, None)
            }
            Self::Repeated => (whole(), whole()),
            Self::Foreign => {
                let ends = |key: &mut [u8]| {
                    let other = before.iter().rev();
                    let own = key.iter_mut().rev().take(OF_KEY);
                    own.zip(other).for_each(|(own, other)| *own = *other);
                };
                (changed(&ends), None)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fate_does_to_a_key_what_it_says() {
        let (key, before) = (vec![1; 74], vec![2; 74]);
        let of = |fate: Fate| fate.of(&key, &before);
        assert_eq!(of(Fate::Untouched), (Some(key.clone()), None));
        assert_eq!(of(Fate::Late), (None, Some(key.clone())));
        assert_eq!(of(Fate::Lost), (None, None));
        assert_eq!(of(Fate::Repeated), (Some(key.clone()), Some(key.clone())));
        let wrong = [&key[..73], &[0]].concat();
        assert_eq!(of(Fate::Wrong), (Some(wrong), None));
        let foreign = [&key[..58], &[2; 16]].concat();
        assert_eq!(of(Fate::Foreign), (Some(foreign), None));
        assert_eq!(Fate::Foreign.of(&key, &[]), (Some(key.clone()), None));
    }

    #[test]
    fn every_fate_is_drawn_and_most_keys_are_left_alone() {
        let drawn: Vec<Fate> = (0..100)
            .map(|it| Fate::drawn(f64::from(it) / 100.0))
            .collect();
        for (fate, times) in [(Fate::Late, 15), (Fate::Lost, 10), (Fate::Untouched, 60)] {
            let count = drawn.iter().filter(|it| **it == fate).count();
            assert!(count.abs_diff(times) <= 1, "{fate:?} {count}");
        }
        for fate in [Fate::Wrong, Fate::Repeated, Fate::Foreign] {
            assert!(drawn.contains(&fate), "{fate:?}");
        }
    }
}
