//! Another origin for a volunteer that serves: a broker tells.
//!
//! Is not: a choice between origins; there is one at a time.

use super::ready::Ready;
use crate::error::SplitIoError;
use tandem_channel::{ChannelKey, KeyName, Pin};

/// Leads a volunteer that serves to another origin.
#[derive(Clone, Debug)]
pub struct Guide {
    pub(super) ready: Ready,
    pub(super) key: ChannelKey,
}

impl Guide {
    /// From the next channel on, to the one at `HOST:PORT` with this key.
    ///
    /// # Errors
    /// The address is none. The origin is the one before.
    pub fn lead_to(&self, origin: &str, key: KeyName) -> Result<(), SplitIoError> {
        self.ready.link().lead_to(origin, &self.key, Pin::to(key))?;
        self.ready.forget();
        Ok(())
    }
}
