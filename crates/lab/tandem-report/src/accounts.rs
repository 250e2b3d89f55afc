//! What a daemon took of the processor: a line of `profile.jsonl`.

use serde::{Deserialize, Serialize};

use crate::arm::Arm;

/// Of one daemon, over many handshakes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Accounts {
    /// What the daemons did.
    pub arm: Arm,
    /// `client-side` or `server-side`.
    pub daemon: String,
    /// Over how many handshakes.
    pub handshakes: u64,
    /// Of a handshake, in the daemon's own code, microseconds.
    pub user_us: f64,
    /// Of a handshake, in the kernel on the daemon's account, microseconds.
    pub system_us: f64,
    /// Of a handshake: how often the daemon slept and was woken.
    pub wakeups: f64,
    /// Of a handshake: packets out of the queue.
    #[serde(default)]
    pub packets: f64,
}
