//! The client's side of the four suites: whole records out, whole records in.
//!
//! Is not: what the origin uses ([`super::suites`]), whose records leave unbuilt. Here both keys
//! are at hand, as in a browser.

use std::sync::LazyLock;

use rustls::crypto::cipher::{
    AeadKey, KeyBlockShape, MessageDecrypter, MessageEncrypter, OutboundOpaqueMessage,
    OutboundPlainMessage, PrefixedPayload, Tls12AeadAlgorithm, UnsupportedOperationError,
};
use rustls::{ConnectionTrafficSecrets, Error, SupportedCipherSuite, Tls12CipherSuite};
use tandem_split::whole::Writer;
use tandem_split::{RecordType, Suite};

use super::suites::{self, CbcHmac};

/// In the order of the server's preference.
pub(super) fn all() -> Vec<SupportedCipherSuite> {
    SUITES.iter().map(SupportedCipherSuite::Tls12).collect()
}

static SUITES: LazyLock<Vec<Tls12CipherSuite>> = LazyLock::new(|| {
    suites::with(|suite| {
        [&ALGORITHMS.0, &ALGORITHMS.1, &ALGORITHMS.2, &ALGORITHMS.3]
            .into_iter()
            .find(|algorithm| algorithm.0.0 == suite)
            .map(|algorithm| algorithm as &'static dyn Tls12AeadAlgorithm)
    })
});

static ALGORITHMS: (Whole, Whole, Whole, Whole) = (
    Whole(&suites::AES_128_SHA1),
    Whole(&suites::AES_256_SHA1),
    Whole(&suites::AES_128_SHA256),
    Whole(&suites::AES_256_SHA384),
);

/// Record header (RFC 5246, 6.2.1).
const HEADER: usize = 5;
/// An IV, the longest MAC and the longest padding that is made.
const OVERHEAD: usize = 16 + 48 + 16;

struct Whole(&'static CbcHmac);

impl Tls12AeadAlgorithm for Whole {
    fn encrypter(&self, key: AeadKey, mac_key: &[u8], _extra: &[u8]) -> Box<dyn MessageEncrypter> {
        let suite: Suite = self.0.0;
        Box::new(Records {
            writer: Writer::tls12(suite, mac_key, key.as_ref(), 0).ok(),
        })
    }

    fn decrypter(&self, key: AeadKey, mac_key: &[u8]) -> Box<dyn MessageDecrypter> {
        self.0.decrypter(key, mac_key)
    }

    fn key_block_shape(&self) -> KeyBlockShape {
        self.0.key_block_shape()
    }

    fn extract_keys(
        &self,
        _key: AeadKey,
        _iv: &[u8],
        _explicit: &[u8],
    ) -> Result<ConnectionTrafficSecrets, UnsupportedOperationError> {
        Err(UnsupportedOperationError)
    }
}

/// Writes records in the order in which they come: the writer counts them itself.
struct Records {
    writer: Option<Writer>,
}

impl MessageEncrypter for Records {
    fn encrypt(
        &mut self,
        message: OutboundPlainMessage<'_>,
        _sequence: u64,
    ) -> Result<OutboundOpaqueMessage, Error> {
        let content = message.payload.to_vec();
        let record_type = RecordType::from_u8(message.typ.into()).ok_or(Error::EncryptError)?;
        let writer = self.writer.as_mut().ok_or(Error::EncryptError)?;
        let mut iv = [0; 16];
        getrandom::fill(&mut iv).map_err(|_| Error::FailedToGetRandomBytes)?;
        let mut record = Vec::with_capacity(HEADER + OVERHEAD + content.len());
        writer
            .write(&mut record, record_type, &content, iv)
            .map_err(|_| Error::EncryptError)?;
        let fragment = record.split_off(HEADER);
        let mut payload = PrefixedPayload::with_capacity(fragment.len());
        payload.extend_from_slice(&fragment);
        Ok(OutboundOpaqueMessage::new(
            message.typ,
            message.version,
            payload,
        ))
    }

    fn encrypted_payload_len(&self, payload_len: usize) -> usize {
        payload_len + OVERHEAD
    }
}
