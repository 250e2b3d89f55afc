//! `libtandem_cost_tap.so`: loaded into a server that uses OpenSSL as a shared object, it times
//! what the server's TLS costs, phase by phase.
//!
//! Is: an interposer (`LD_PRELOAD`). It stands before functions of libssl that programs call, and
//! before functions of libcrypto that libssl calls. Is not: `tandem-keytap`, which changes what a
//! client sends and must not slow it down; this one changes nothing and takes its time.
//!
//! ```text
//!   server --SSL_do_handshake--> | tap: library | --> libssl --EVP_DigestSign--> | tap: phase | --> libcrypto
//! ```
//!
//! Time is that of the thread on a processor (`CLOCK_THREAD_CPUTIME_ID`). Of nested calls the
//! outermost counts: one of libssl, and within it one of libcrypto. What is in no phase is the rest
//! of libssl.
//!
//! Invariants:
//! - Every call goes on to the function that it was for, once, with the same arguments.
//! - Without `TANDEM_COST_TAP`, which names the file for the sums, nothing is timed; likewise in a
//!   process that runs with somebody else's rights (`AT_SECURE`).
//! - It reads no key and no content: what is kept are times, calls and lengths.
//!
//! The file (`board`) is shared memory, so that processes that a server forks add to one sum, and
//! whoever measures reads it while the server runs.

mod board;
mod clock;
mod entry;
mod interpose;
mod next;
