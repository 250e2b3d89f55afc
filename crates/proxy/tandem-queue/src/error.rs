//! Why packets cannot be taken out of the kernel, or put back into it.
//!
//! Invariant: each message is one line and says what to do, where something can be done.

use std::io;

/// See the module.
#[derive(Debug, thiserror::Error)]
pub enum QueueError {
    /// The kernel has no packet queue.
    #[error(
        "the kernel offers no packet queue: {source}; enable CONFIG_NETFILTER_NETLINK_QUEUE or load nfnetlink_queue"
    )]
    NoPacketQueue {
        /// The system's reason.
        source: io::Error,
    },
    /// Another program has the queue.
    #[error("queue {queue} is held by another program; choose another with --queue")]
    QueueBusy {
        /// The queue's number.
        queue: u16,
    },
    /// The packet queue failed.
    #[error("the packet queue failed while {doing}: {source}")]
    Queue {
        /// What was being done.
        doing: &'static str,
        /// The system's reason.
        source: io::Error,
    },
    /// A raw socket is refused.
    #[error("opening a raw socket failed: {source}")]
    RawSocket {
        /// The system's reason.
        source: io::Error,
    },
}
