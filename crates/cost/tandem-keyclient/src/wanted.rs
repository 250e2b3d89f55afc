//! What somebody waits for.
//!
//! Is not: how it is fetched.

use std::sync::mpsc::SyncSender;

use tandem_keyserver::{Content, KeyId, Scheme};

use crate::error::SignError;

/// A signature that somebody waits for.
#[derive(Debug)]
pub(crate) struct Wanted {
    pub(crate) key: KeyId,
    pub(crate) scheme: Scheme,
    pub(crate) content: Content,
    pub(crate) to: SyncSender<Result<Vec<u8>, SignError>>,
}
