//! Why two proxies were not paired, by who is at fault.
//!
//! Is not: what becomes of the files that were to be written.
//!
//! Invariant: each message is one line and says what to do.

use std::io;

use tandem_channel::ChannelError;
use tandem_link::tunnel::Target;

/// Why the key was not carried, or may not have been.
#[derive(Debug, thiserror::Error)]
pub enum PairError {
    /// Nobody accepts connections at the address of the invitation.
    #[error(
        "{address} does not answer ({source}): does `tandem pair invite` still wait there, \
         and is TCP to this port let through? An invitation works once"
    )]
    Unreachable {
        /// Where.
        address: Target,
        /// Why the last try failed.
        source: io::Error,
    },
    /// The same, and by this machine's clock the invitation's time is over.
    #[error(
        "nobody waits at {address} any more: the invitation has expired; make a new one there with \
         `tandem pair invite`"
    )]
    Expired {
        /// Where.
        address: Target,
    },
    /// Somebody answers who does not have the key that the invitation names.
    #[error(
        "{address} does not have the key that the invitation names: it is of an earlier run of \
         `tandem pair invite`, or somebody is in between; make a new invitation"
    )]
    WrongKey {
        /// Where.
        address: Target,
    },
    /// Somebody answers who does not speak this protocol.
    #[error(
        "what answers at {address} is no `tandem pair invite` ({source}); is it the right port?"
    )]
    Foreign {
        /// Where.
        address: Target,
        /// How that showed.
        source: io::Error,
    },
    /// The other end broke off before it sent the key.
    #[error(
        "{address} broke off before the key was sent ({source}); see what \
         `tandem pair invite` says there, and make a new invitation"
    )]
    BrokenOff {
        /// Where.
        address: Target,
        /// How that showed.
        source: io::Error,
    },
    /// The key was sent or taken, and the other end did not confirm that.
    #[error("the other side did not confirm ({source})")]
    Unconfirmed {
        /// How that showed.
        source: io::Error,
    },
    /// The machine or a library refuses what is needed.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// Why it failed.
        source: io::Error,
    },
}

impl PairError {
    pub(crate) fn tls(error: rustls::Error) -> Self {
        Self::System {
            what: "TLS",
            source: io::Error::other(error),
        }
    }
}

impl From<ChannelError> for PairError {
    fn from(error: ChannelError) -> Self {
        let what = "a key of the exchange";
        match error {
            ChannelError::System { what, source } => Self::System { what, source },
            // Its keys are in no file.
            ChannelError::File { source, .. } => Self::System { what, source },
            ChannelError::Content { reason, .. } => Self::System {
                what,
                source: io::Error::other(reason),
            },
        }
    }
}
