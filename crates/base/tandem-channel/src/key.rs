//! The keys by which two programs know each other: Ed25519, without a certificate.
//!
//! Is not: a key of a web site. A program without a channel key of its own may derive one from
//! another secret, by a hash that cannot be inverted.

use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use hmac::{Hmac, KeyInit as _, Mac as _};
use rustls::SignatureScheme;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, alg_id};
use rustls::sign::{CertifiedKey, SigningKey};
use tandem_file::Over;
use zeroize::Zeroizing;

use crate::crypto::{self, sign::any_eddsa_type};
use crate::error::ChannelError;
use crate::secrecy::warn_if_exposed;

/// A private key in the one form that RFC 8410, section 7 has for it, up to its 32 bytes.
const PKCS8: [u8; 16] = [
    0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
];

/// A public key, as it is written in logs and on command lines: 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeyName([u8; 32]);

impl KeyName {
    /// Of a SubjectPublicKeyInfo, whose last 32 bytes are the key (RFC 8410, section 4).
    pub(crate) fn of(public: &[u8]) -> Option<Self> {
        let (head, key) = public.split_last_chunk::<32>()?;
        let ed25519 = [
            0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00,
        ];
        (head == ed25519).then_some(Self(*key))
    }

    /// The key with these bytes (RFC 8032).
    #[must_use]
    pub fn from_bytes(key: [u8; 32]) -> Self {
        Self(key)
    }

    /// Its bytes.
    #[must_use]
    pub fn bytes(self) -> [u8; 32] {
        self.0
    }

    /// Whether this key has made the signature over the message (RFC 8032).
    #[must_use]
    pub fn has_signed(&self, message: &[u8], signature: &[u8; 64]) -> bool {
        let algorithms = crypto::default_provider().signature_verification_algorithms;
        let mut ed25519 = algorithms
            .all
            .iter()
            .filter(|algorithm| algorithm.signature_alg_id() == alg_id::ED25519);
        ed25519.any(|algorithm| {
            algorithm
                .verify_signature(&self.0, message, signature)
                .is_ok()
        })
    }
}

impl fmt::Display for KeyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for KeyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for KeyName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "a key is 64 hexadecimal digits".to_owned();
        let text = text.trim();
        if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(wrong());
        }
        let mut key = [0; 32];
        for (index, byte) in key.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * index..2 * index + 2], 16).map_err(|_| wrong())?;
        }
        Ok(Self(key))
    }
}

/// An end of the channel between two programs that share a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The one that connects.
    Client,
    /// The one that accepts.
    Server,
}

impl End {
    /// What its key is derived by. The labels are part of the protocol.
    fn label(self) -> &'static [u8] {
        match self {
            Self::Client => b"tandem channel of a pair, client side",
            Self::Server => b"tandem channel of a pair, server side",
        }
    }
}

/// One end's key.
#[derive(Clone)]
pub struct ChannelKey {
    certified: Arc<CertifiedKey>,
    name: KeyName,
    seed: Zeroizing<[u8; 32]>,
}

impl fmt::Debug for ChannelKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ChannelKey({})", self.name)
    }
}

impl ChannelKey {
    /// The key that these 32 secret bytes stand for.
    ///
    /// # Errors
    /// The TLS library refuses it.
    pub fn from_seed(seed: &[u8; 32]) -> Result<Self, rustls::Error> {
        let private = PrivatePkcs8KeyDer::from([&PKCS8[..], seed].concat());
        let signer: Arc<dyn SigningKey> = any_eddsa_type(&private)?;
        let unusable = || rustls::Error::General("the key has no public half".to_owned());
        let public = signer.public_key().ok_or_else(unusable)?;
        let name = KeyName::of(public.as_ref()).ok_or_else(unusable)?;
        let chain = vec![CertificateDer::from(public.as_ref().to_vec())];
        Ok(Self {
            certified: Arc::new(CertifiedKey::new(chain, signer)),
            name,
            seed: Zeroizing::new(*seed),
        })
    }

    /// The key that belongs to a secret of any form, such as the text of a site's key file.
    ///
    /// # Errors
    /// The TLS library refuses it.
    pub fn derived_from(secret: &[u8]) -> Result<Self, rustls::Error> {
        // The label names the first user of this function; another one would change its keys.
        let mac = Hmac::<sha2::Sha256>::new_from_slice(b"tandem split channel key")
            .map_err(|_| rustls::Error::General("no key".to_owned()))?;
        Self::from_seed(&mac.chain_update(secret).finalize().into_bytes().into())
    }

    /// The key of one end of a pair that shares a secret: HMAC-SHA-256 (RFC 2104) of the end's
    /// label. Whoever holds the secret knows the keys of both ends.
    ///
    /// # Errors
    /// The TLS library refuses it.
    pub fn of_pair(secret: &[u8; 32], end: End) -> Result<Self, rustls::Error> {
        let mac = Hmac::<sha2::Sha256>::new_from_slice(secret)
            .map_err(|_| rustls::Error::General("no key".to_owned()))?;
        Self::from_seed(&mac.chain_update(end.label()).finalize().into_bytes().into())
    }

    /// The key in a file of 32 bytes, which is made if it is missing. One that everybody may read
    /// is warned of.
    ///
    /// # Errors
    /// The file cannot be read or made, or has another length.
    pub fn kept_in(path: &Path) -> Result<Self, ChannelError> {
        let file = |source| ChannelError::File {
            path: path.to_owned(),
            source,
        };
        let bytes = match std::fs::read(path) {
            Ok(bytes) => {
                warn_if_exposed(path);
                bytes
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let seed = random()?;
                tandem_file::write(path, &seed, Over::Nothing).map_err(file)?;
                seed.to_vec()
            }
            Err(error) => return Err(file(error)),
        };
        let seed = <[u8; 32]>::try_from(bytes).map_err(|_| {
            ChannelError::content(path, "is not a channel key: it must be 32 bytes long")
        })?;
        Self::from_seed(&seed).map_err(|error| ChannelError::content(path, error.to_string()))
    }

    /// A key that lasts as long as the process.
    ///
    /// # Errors
    /// The system has no random bytes.
    pub fn fleeting() -> Result<Self, ChannelError> {
        Self::from_seed(&random()?).map_err(|error| ChannelError::System {
            what: "a key",
            source: std::io::Error::other(error),
        })
    }

    /// Signs a message (RFC 8032). What is signed begins with a label of its own, so that it is
    /// taken for nothing else.
    ///
    /// # Errors
    /// The TLS library refuses it.
    pub fn sign(&self, message: &[u8]) -> Result<[u8; 64], rustls::Error> {
        let refused = || rustls::Error::General("the key does not sign".to_owned());
        let signer = self
            .certified
            .key
            .choose_scheme(&[SignatureScheme::ED25519]);
        let signature = signer.ok_or_else(refused)?.sign(message)?;
        signature.try_into().map_err(|_| refused())
    }

    /// Its public half.
    #[must_use]
    pub fn name(&self) -> KeyName {
        self.name
    }

    /// Its private half (RFC 8032), for what else this end has to prove by it. Never to be shown.
    #[must_use]
    pub fn secret(&self) -> &[u8; 32] {
        &self.seed
    }

    pub(crate) fn certified(&self) -> Arc<CertifiedKey> {
        Arc::clone(&self.certified)
    }
}

fn random() -> Result<[u8; 32], ChannelError> {
    let mut seed = [0; 32];
    getrandom::fill(&mut seed).map_err(|error| ChannelError::System {
        what: "random bytes",
        source: std::io::Error::other(error.to_string()),
    })?;
    Ok(seed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_file_is_made_once_for_its_owner_alone_and_read_ever_after() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().expect("a directory");
        let path = folder.path().join("key");
        let made = ChannelKey::kept_in(&path).expect("made");
        let mode = std::fs::metadata(&path)
            .expect("there")
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(
            ChannelKey::kept_in(&path).expect("read").name(),
            made.name()
        );
        std::fs::write(&path, b"short").expect("ours");
        assert!(ChannelKey::kept_in(&path).is_err());
    }

    #[test]
    fn the_public_half_is_that_of_rfc_8032_and_its_text_can_be_read_again() {
        // RFC 8032, 7.1, test 1.
        let seed: KeyName = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60"
            .parse()
            .expect("64 digits");
        let name = ChannelKey::from_seed(&seed.0).expect("a key").name();
        let text = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a";
        assert_eq!(name.to_string(), text);
        assert_eq!(text.parse(), Ok(name));
        assert!("d75a".parse::<KeyName>().is_err());
        assert_eq!(KeyName::from_bytes(name.bytes()), name);
    }

    #[test]
    fn the_ends_of_a_pair_have_different_keys_that_both_can_derive() {
        let key = |secret: u8, end| ChannelKey::of_pair(&[secret; 32], end).expect("a key");
        let client = key(1, End::Client).name();
        assert_eq!(key(1, End::Client).name(), client);
        assert_ne!(key(1, End::Server).name(), client);
        assert_ne!(key(2, End::Client).name(), client);
        // HMAC-SHA-256 of the label by OpenSSL: a change would part pairs of different versions.
        let seed = key(1, End::Client)
            .secret()
            .map(|byte| format!("{byte:02x}"));
        assert_eq!(
            seed.concat(),
            "46059b695ecf19d11642dcb319e6e5ee19e0d68c879946315103ab6cdea8cfc5"
        );
    }

    #[test]
    fn a_signature_is_that_of_rfc_8032_and_counts_for_its_message_and_key_alone() {
        // RFC 8032, 7.1, test 1: the empty message.
        let seed: KeyName = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60"
            .parse()
            .expect("64 digits");
        let key = ChannelKey::from_seed(&seed.0).expect("a key");
        let signature = key.sign(b"").expect("it signs");
        assert_eq!(signature[..4], [0xe5, 0x56, 0x43, 0x00]);
        assert!(key.name().has_signed(b"", &signature));
        assert!(!key.name().has_signed(b"x", &signature));
        let other = ChannelKey::fleeting().expect("a key").name();
        assert!(!other.has_signed(b"", &signature));
        let mut changed = signature;
        changed[63] ^= 1;
        assert!(!key.name().has_signed(b"", &changed));
    }
}
