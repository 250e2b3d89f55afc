//! Private keys: read from their files, and what signs by them.
//!
//! Is not: who may use one.
//!
//! Invariants: the text of a key file is wiped when it has been read, and so is its binary form;
//! what the crypto library keeps, it wipes itself. Steps of its reader in between are not wiped.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use rustls::SignatureScheme;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::sign::SigningKey;
use tandem_channel::{crypto, warn_if_exposed};
use tandem_keyserver::{KeyId, KeyKind, Scheme};
use zeroize::{Zeroize as _, Zeroizing};

use crate::error::KeyServerError;

/// One private key.
#[derive(Debug)]
pub(crate) struct Key {
    /// As the settings call it.
    pub(crate) name: String,
    pub(crate) id: KeyId,
    pub(crate) kind: KeyKind,
    signing: Arc<dyn SigningKey>,
}

impl Key {
    /// The one in this file, PEM. One that everybody may read is warned of.
    pub(crate) fn read(name: &str, path: &Path) -> Result<Self, KeyServerError> {
        let text = Zeroizing::new(fs::read(path).map_err(KeyServerError::file(path))?);
        warn_if_exposed(path);
        let unusable = || {
            let reason = "holds no usable private key; give one in PEM, not encrypted: RSA of 2,048 \
                bits or more, P-256, P-384, P-521 or Ed25519";
            KeyServerError::content(path, reason)
        };
        let mut der = PrivateKeyDer::from_pem_slice(&text).map_err(|_| unusable())?;
        let signing = crypto::sign::any_supported_type(&der);
        der.zeroize();
        let signing = signing.map_err(|_| unusable())?;
        let public = signing.public_key().ok_or_else(unusable)?;
        let kind = KeyKind::of_public_key(&public).ok_or_else(unusable)?;
        let id = KeyId::of_public_key(&public);
        drop(public);
        Ok(Self {
            name: name.to_owned(),
            id,
            kind,
            signing,
        })
    }

    /// Signs; `None` where the key does not sign so, or the library fails.
    pub(crate) fn sign(&self, scheme: Scheme, message: &[u8]) -> Option<Vec<u8>> {
        let scheme = SignatureScheme::from(scheme.code());
        self.signing.choose_scheme(&[scheme])?.sign(message).ok()
    }
}
