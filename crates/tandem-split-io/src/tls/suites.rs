//! The four cipher suites, as rustls takes them in.
//!
//! Is not: a complete cipher in either direction. What the server sends is authenticated and left in its parts; somebody else encrypts it.
//!
//! rustls's interface for TLS 1.2 knows ciphers with one key each way, and a fixed part of the nonce. Here the encryption key stands in the
//! key's place and the MAC key in the nonce's. In the key block the two come the other way round (RFC 5246, 6.3), so the pseudo-random function
//! that hands it out turns it.

use std::sync::LazyLock;

use hmac::{Hmac, KeyInit as _, Mac as _};
use rustls::crypto::cipher::{
    AeadKey, InboundOpaqueMessage, InboundPlainMessage, KeyBlockShape, MessageDecrypter,
    MessageEncrypter, OutboundOpaqueMessage, OutboundPlainMessage, PrefixedPayload,
    Tls12AeadAlgorithm, UnsupportedOperationError,
};
use rustls::crypto::ring::cipher_suite;
use rustls::crypto::tls12::Prf;
use rustls::crypto::{ActiveKeyExchange, CipherSuiteCommon, KeyExchangeAlgorithm};
use rustls::{
    CipherSuite, ConnectionTrafficSecrets, Error, SupportedCipherSuite, Tls12CipherSuite,
};

use super::digest::Digest;
use super::opener::Opener;
use super::parts;

/// In the server's order of preference: what browsers offer comes first, and the cheapest hash.
pub(super) fn all() -> Vec<SupportedCipherSuite> {
    SUITES.iter().map(SupportedCipherSuite::Tls12).collect()
}

/// CBC and HMAC bound no number of records below rustls's own: a key is replaced with its connection.
const NO_LIMIT: u64 = u64::MAX;

static SUITES: LazyLock<Vec<Tls12CipherSuite>> = LazyLock::new(|| {
    [
        suite(
            CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA,
            &AES_128_SHA1,
            &PRF_SHA256,
        ),
        suite(
            CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA,
            &AES_256_SHA1,
            &PRF_SHA256,
        ),
        suite(
            CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256,
            &AES_128_SHA256,
            &PRF_SHA256,
        ),
        suite(
            CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA384,
            &AES_256_SHA384,
            &PRF_SHA384,
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
});

static PRF_SHA256: TurnedKeyBlock = TurnedKeyBlock {
    like: &cipher_suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
};
static PRF_SHA384: TurnedKeyBlock = TurnedKeyBlock {
    like: &cipher_suite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
};

static AES_128_SHA1: CbcHmac = CbcHmac::new(16, Digest::Sha1);
static AES_256_SHA1: CbcHmac = CbcHmac::new(32, Digest::Sha1);
static AES_128_SHA256: CbcHmac = CbcHmac::new(16, Digest::Sha256);
static AES_256_SHA384: CbcHmac = CbcHmac::new(32, Digest::Sha384);

fn suite(
    name: CipherSuite,
    alg: &'static CbcHmac,
    prf: &'static TurnedKeyBlock,
) -> Option<Tls12CipherSuite> {
    let like = gcm(prf.like)?;
    Some(Tls12CipherSuite {
        common: CipherSuiteCommon {
            suite: name,
            hash_provider: like.common.hash_provider,
            confidentiality_limit: NO_LIMIT,
        },
        prf_provider: prf,
        kx: KeyExchangeAlgorithm::ECDHE,
        sign: like.sign,
        aead_alg: alg,
    })
}

/// The suite whose hash function, pseudo-random function and signatures are the same.
fn gcm(suite: &'static SupportedCipherSuite) -> Option<&'static Tls12CipherSuite> {
    match suite {
        SupportedCipherSuite::Tls12(suite) => Some(suite),
        SupportedCipherSuite::Tls13(_) => None,
    }
}

/// TLS 1.2's pseudo-random function, with the key block's MAC keys moved behind its encryption keys.
struct TurnedKeyBlock {
    like: &'static SupportedCipherSuite,
}

impl TurnedKeyBlock {
    fn prf(&self) -> Result<&'static dyn Prf, Error> {
        gcm(self.like)
            .map(|suite| suite.prf_provider)
            .ok_or_else(|| Error::General("a suite of TLS 1.2 is expected".to_owned()))
    }
}

impl Prf for TurnedKeyBlock {
    fn for_key_exchange(
        &self,
        output: &mut [u8; 48],
        kx: Box<dyn ActiveKeyExchange>,
        peer_pub_key: &[u8],
        label: &[u8],
        seed: &[u8],
    ) -> Result<(), Error> {
        self.prf()?
            .for_key_exchange(output, kx, peer_pub_key, label, seed)
    }

    fn for_secret(&self, output: &mut [u8], secret: &[u8], label: &[u8], seed: &[u8]) {
        // A suite that is not there was never negotiated.
        if let Ok(prf) = self.prf() {
            prf.for_secret(output, secret, label, seed);
        }
        if label == b"key expansion"
            && let Some(alg) = CbcHmac::with_key_block(output.len())
        {
            output.rotate_left(2 * alg.digest.output_len());
        }
    }
}

/// AES in CBC mode under HMAC, MAC first.
struct CbcHmac {
    key_len: usize,
    digest: Digest,
}

impl CbcHmac {
    const fn new(key_len: usize, digest: Digest) -> Self {
        Self { key_len, digest }
    }

    /// The key block's length tells the suites' four apart.
    fn with_key_block(len: usize) -> Option<&'static Self> {
        [
            &AES_128_SHA1,
            &AES_256_SHA1,
            &AES_128_SHA256,
            &AES_256_SHA384,
        ]
        .into_iter()
        .find(|alg| 2 * (alg.key_len + alg.digest.output_len()) == len)
    }
}

impl Tls12AeadAlgorithm for CbcHmac {
    fn encrypter(&self, key: AeadKey, mac_key: &[u8], _extra: &[u8]) -> Box<dyn MessageEncrypter> {
        Box::new(Writer {
            key: Some(key),
            mac: Authenticator::new(self.digest, mac_key),
        })
    }

    fn decrypter(&self, key: AeadKey, mac_key: &[u8]) -> Box<dyn MessageDecrypter> {
        Box::new(Reader {
            opener: Opener::new(self.digest, key.as_ref(), mac_key),
        })
    }

    fn key_block_shape(&self) -> KeyBlockShape {
        KeyBlockShape {
            enc_key_len: self.key_len,
            fixed_iv_len: self.digest.output_len(),
            explicit_nonce_len: 0,
        }
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

/// Opens what the client sends.
struct Reader {
    opener: Option<Opener>,
}

impl MessageDecrypter for Reader {
    fn decrypt<'a>(
        &mut self,
        mut message: InboundOpaqueMessage<'a>,
        sequence: u64,
    ) -> Result<InboundPlainMessage<'a>, Error> {
        let content = self
            .opener
            .as_ref()
            .and_then(|opener| opener.open(sequence, message.typ.into(), &mut message.payload));
        // One error, whatever is wrong: it becomes one alert (RFC 5246, 7.2.2, bad_record_mac).
        match content {
            Some(range) => Ok(message.into_plain_message_range(range)),
            None => Err(Error::DecryptError),
        }
    }
}

/// Authenticates what the server sends. The number of a record is used up with its MAC.
struct Writer {
    /// Handed out with the first record.
    key: Option<AeadKey>,
    mac: Authenticator,
}

impl MessageEncrypter for Writer {
    fn encrypt(
        &mut self,
        message: OutboundPlainMessage<'_>,
        sequence: u64,
    ) -> Result<OutboundOpaqueMessage, Error> {
        let content = message.payload.to_vec();
        let content_type = u8::from(message.typ);
        let mac = self.mac.tag(sequence, content_type, &content);
        let key = self.key.take();
        let key = key.as_ref().map_or(&[][..], AsRef::as_ref);
        let mut payload = PrefixedPayload::with_capacity(parts::len(key, &mac, content.len()));
        parts::write(key, &mac, &content, &mut |bytes| {
            payload.extend_from_slice(bytes);
        });
        Ok(OutboundOpaqueMessage::new(
            message.typ,
            message.version,
            payload,
        ))
    }

    fn encrypted_payload_len(&self, payload_len: usize) -> usize {
        payload_len + parts::MAX_OVERHEAD
    }
}

/// HMAC with the server's key.
enum Authenticator {
    Sha1(Hmac<sha1::Sha1>),
    Sha256(Hmac<sha2::Sha256>),
    Sha384(Hmac<sha2::Sha384>),
}

impl Authenticator {
    fn new(digest: Digest, key: &[u8]) -> Self {
        const ANY: &str = "HMAC takes a key of any length";
        match digest {
            Digest::Sha1 => Self::Sha1(Hmac::new_from_slice(key).expect(ANY)),
            Digest::Sha256 => Self::Sha256(Hmac::new_from_slice(key).expect(ANY)),
            Digest::Sha384 => Self::Sha384(Hmac::new_from_slice(key).expect(ANY)),
        }
    }

    /// Over sequence number, type, version, length and content (RFC 5246, 6.2.3.1).
    fn tag(&self, sequence: u64, content_type: u8, content: &[u8]) -> Vec<u8> {
        let [high, low] = (content.len() as u16).to_be_bytes();
        let sequence = sequence.to_be_bytes();
        let header = [content_type, 3, 3, high, low];
        macro_rules! tag {
            ($mac:expr) => {
                $mac.clone()
                    .chain_update(sequence)
                    .chain_update(header)
                    .chain_update(content)
                    .finalize()
                    .into_bytes()
                    .to_vec()
            };
        }
        match self {
            Self::Sha1(mac) => tag!(mac),
            Self::Sha256(mac) => tag!(mac),
            Self::Sha384(mac) => tag!(mac),
        }
    }
}
