//! Certificates with RSA keys, and such keys.

use std::sync::Arc;

use aws_lc_rs::rsa::{Pkcs1PrivateDecryptingKey, PrivateDecryptingKey};
use mctls_io::Identity as Files;
use mctls12_prototype::auth::{Identity, Party, Private, Refusal, RsaKey, SEALED_KEY_LEN, Verify};
use mctls12_prototype::error::Misuse;
use pkcs1::{ALGORITHM_OID, RsaPublicKeyRef};
use rustls::SignatureScheme;
use rustls::crypto::aws_lc_rs::sign::any_supported_type;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::SigningKey;
use spki::SubjectPublicKeyInfoRef;
use webpki::EndEntityCert;
use zeroize::Zeroizing;

use crate::auth::Roots;
use crate::error::Error;

/// A private key.
struct Key {
    signs: Arc<dyn SigningKey>,
    opens: Pkcs1PrivateDecryptingKey,
}

impl Private for Key {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, Misuse> {
        let signer = self
            .signs
            .choose_scheme(&[SignatureScheme::RSA_PKCS1_SHA256]);
        let signed = signer.ok_or(Misuse::Signing)?.sign(message);
        signed.map_err(|_| Misuse::Signing)
    }

    fn open(&self, sealed: &[u8]) -> Option<Zeroizing<[u8; SEALED_KEY_LEN]>> {
        let mut out = Zeroizing::new(vec![0; self.opens.min_output_size()]);
        let opened = self.opens.decrypt(sealed, &mut out).ok()?;
        let opened: &[u8] = opened;
        opened.try_into().ok().map(Zeroizing::new)
    }
}

/// The identity of a server or middlebox.
///
/// # Errors
/// [`Error::Settings`]: no RSA key of 2048 to 8192 bits in PKCS #8.
pub fn identity(files: &Files) -> Result<Identity, Error> {
    let wrong = || {
        let words = "the prototype's format needs an RSA key of 2048 bits or more, in PKCS #8";
        Error::Settings(words.into())
    };
    let PrivateKeyDer::Pkcs8(key) = &files.key else {
        return Err(wrong());
    };
    let opens = PrivateDecryptingKey::from_pkcs8(key.secret_pkcs8_der());
    let opens = Pkcs1PrivateDecryptingKey::new(opens.map_err(|_| wrong())?);
    let signs = any_supported_type(&files.key).map_err(|_| wrong())?;
    let chain = files.chain.iter();
    Ok(Identity {
        chain: chain.map(|certificate| certificate.to_vec()).collect(),
        key: Arc::new(Key {
            signs,
            opens: opens.map_err(|_| wrong())?,
        }),
    })
}

fn certificates(chain: &[Vec<u8>]) -> Vec<CertificateDer<'_>> {
    let chain = chain.iter();
    chain
        .map(|one| CertificateDer::from(one.as_slice()))
        .collect()
}

fn key_of(leaf: &CertificateDer<'_>) -> Option<RsaKey> {
    let info = EndEntityCert::try_from(leaf)
        .ok()?
        .subject_public_key_info();
    let info = SubjectPublicKeyInfoRef::try_from(info.as_ref()).ok()?;
    info.algorithm.assert_algorithm_oid(ALGORITHM_OID).ok()?;
    let key = RsaPublicKeyRef::try_from(info.subject_public_key.as_bytes()?).ok()?;
    RsaKey::new(key.modulus.as_bytes(), key.public_exponent.as_bytes())
}

/// A client's: each party has a certificate for the name by which it was asked for.
impl Verify for Roots {
    fn verify(&self, party: Party<'_>, chain: &[Vec<u8>]) -> Result<RsaKey, Refusal> {
        let chain = certificates(chain);
        let good = self.certificate(party, &chain);
        let key = good.and_then(|()| key_of(chain.first()?));
        key.ok_or(Refusal::Certificate)
    }
}

/// A server's: the format has no names of middleboxes, so each may be any for which an authority
/// vouches.
#[derive(Debug)]
pub struct Nameless(pub Arc<Roots>);

impl Verify for Nameless {
    fn verify(&self, party: Party<'_>, chain: &[Vec<u8>]) -> Result<RsaKey, Refusal> {
        let chain = certificates(chain);
        let good = self.0.authority(party, &chain);
        let key = good.and_then(|()| key_of(chain.first()?));
        key.ok_or(Refusal::Certificate)
    }
}
