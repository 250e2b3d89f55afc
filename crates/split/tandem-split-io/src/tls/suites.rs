//! The four cipher suites, as rustls takes them in.
//!
//! Is not: a complete cipher. What the server sends is authenticated here and leaves as it is, with
//! the encryption key: somebody else encrypts.
//!
//! rustls's interface for TLS 1.2 knows ciphers with one key each way, and a fixed part of the
//! nonce. Here the encryption key stands in the key's place and the MAC key in the nonce's. In the
//! key block the two come the other way round (RFC 5246, 6.3), so the pseudo-random function
//! that hands it out turns it.

use std::cell::Cell;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use rustls::crypto::cipher::{
    AeadKey, InboundOpaqueMessage, InboundPlainMessage, KeyBlockShape, MessageDecrypter,
    MessageEncrypter, OutboundChunks, OutboundOpaqueMessage, OutboundPlainMessage, PrefixedPayload,
    Tls12AeadAlgorithm, UnsupportedOperationError,
};
use rustls::crypto::tls12::Prf;
use rustls::crypto::{ActiveKeyExchange, CipherSuiteCommon, KeyExchangeAlgorithm};
use rustls::{
    CipherSuite, ConnectionTrafficSecrets, Error, SupportedCipherSuite, Tls12CipherSuite,
};
use tandem_channel::crypto::cipher_suite;
use tandem_sha1_lanes::Message;
use tandem_split::open::Opener;
use tandem_split::seal::{Covered, Mac, Together};
use tandem_split::suite::MacHash;
use tandem_split::{RecordType, Sealer, Suite};

use super::parts;

/// In the server's order of preference: what browsers offer comes first, and the cheapest hash.
pub(super) fn all() -> Vec<SupportedCipherSuite> {
    SUITES.iter().map(SupportedCipherSuite::Tls12).collect()
}

/// The same suites, with another way to make and to open records.
pub(super) fn with(
    alg: impl Fn(Suite) -> Option<&'static dyn Tls12AeadAlgorithm>,
) -> Vec<Tls12CipherSuite> {
    let changed = SUITES.iter().map(|like| {
        let suite = Suite::from_u16(like.common.suite.into())?;
        Some(Tls12CipherSuite {
            common: CipherSuiteCommon {
                suite: like.common.suite,
                hash_provider: like.common.hash_provider,
                confidentiality_limit: NO_LIMIT,
            },
            prf_provider: like.prf_provider,
            kx: like.kx,
            sign: like.sign,
            aead_alg: alg(suite)?,
        })
    });
    changed.flatten().collect()
}

/// CBC and HMAC bound no number of records below rustls's own: a key is replaced with its
/// connection.
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

pub(super) static AES_128_SHA1: CbcHmac = CbcHmac(Suite::EcdheRsaAes128CbcSha);
pub(super) static AES_256_SHA1: CbcHmac = CbcHmac(Suite::EcdheRsaAes256CbcSha);
pub(super) static AES_128_SHA256: CbcHmac = CbcHmac(Suite::EcdheRsaAes128CbcSha256);
pub(super) static AES_256_SHA384: CbcHmac = CbcHmac(Suite::EcdheRsaAes256CbcSha384);

/// The key block's length tells the four suites apart.
fn with_key_block(len: usize) -> Option<Suite> {
    [
        &AES_128_SHA1,
        &AES_256_SHA1,
        &AES_128_SHA256,
        &AES_256_SHA384,
    ]
    .into_iter()
    .map(|alg| alg.0)
    .find(|suite| 2 * (suite.key_len() + suite.mac_len()) == len)
}

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

/// TLS 1.2's pseudo-random function, with the key block's MAC keys moved behind its encryption
/// keys.
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
            && let Some(suite) = with_key_block(output.len())
        {
            output.rotate_left(2 * suite.mac_len());
        }
    }
}

/// AES in CBC mode under HMAC, MAC first.
pub(super) struct CbcHmac(pub(super) Suite);

impl Tls12AeadAlgorithm for CbcHmac {
    fn encrypter(&self, key: AeadKey, mac_key: &[u8], _extra: &[u8]) -> Box<dyn MessageEncrypter> {
        let sealer = Sealer::tls12(self.0, mac_key, 0).ok().map(|sealer| {
            let together = Lanes::of(self.0, mac_key);
            Arc::new(Mutex::new(match together {
                Some(lanes) => sealer.with(Box::new(lanes)),
                None => sealer,
            }))
        });
        MADE.set(sealer.clone());
        Box::new(Writer {
            sealer,
            key: Some(key),
        })
    }

    fn decrypter(&self, key: AeadKey, mac_key: &[u8]) -> Box<dyn MessageDecrypter> {
        Box::new(Reader {
            opener: Opener::tls12(self.0, mac_key, key.as_ref(), 0).ok(),
        })
    }

    fn key_block_shape(&self) -> KeyBlockShape {
        KeyBlockShape {
            enc_key_len: self.0.key_len(),
            fixed_iv_len: self.0.mac_len(),
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

/// Opens what the client sends, in the order in which it comes: the opener counts the records
/// itself.
struct Reader {
    opener: Option<Opener>,
}

impl MessageDecrypter for Reader {
    fn decrypt<'a>(
        &mut self,
        mut message: InboundOpaqueMessage<'a>,
        _sequence: u64,
    ) -> Result<InboundPlainMessage<'a>, Error> {
        let opened = RecordType::from_u8(message.typ.into())
            .zip(self.opener.as_mut())
            .and_then(|(record_type, opener)| opener.open(record_type, &mut message.payload).ok());
        // One error, whatever is wrong: it becomes one alert (RFC 5246, 7.2.2, bad_record_mac).
        match opened {
            Some(opened) => Ok(message.into_plain_message_range(opened.plaintext)),
            None => Err(Error::DecryptError),
        }
    }
}

/// Makes the proofs of a connection's records: inside the library for its own, outside for the
/// application's.
pub(super) type SharedSealer = Arc<Mutex<Sealer>>;

thread_local! {
    /// The last sealer that was made on this thread and not taken yet. The library makes it while a
    /// connection takes in bytes, and has no way to hand out anything but bytes.
    static MADE: Cell<Option<SharedSealer>> = const { Cell::new(None) };
}

/// What this does on this thread, and the sealer that is made meanwhile.
pub(super) fn with_sealer<T>(work: impl FnOnce() -> T) -> (T, Option<SharedSealer>) {
    MADE.set(None);
    let done = work();
    (done, MADE.take())
}

/// The proofs of several records at once, where the suite's hash has a way to do that.
struct Lanes(tandem_sha1_lanes::Key);

impl Lanes {
    fn of(suite: Suite, mac_key: &[u8]) -> Option<Self> {
        match suite.mac_hash() {
            MacHash::Sha1 => tandem_sha1_lanes::Key::new(mac_key).map(Self),
            MacHash::Sha256 | MacHash::Sha384 => None,
        }
    }
}

impl Together for Lanes {
    fn macs(&self, records: &[Covered<'_>]) -> Vec<Mac> {
        let messages: Vec<Message<'_>> = records
            .iter()
            .map(|record| Message {
                head: &record.header,
                body: record.plaintext,
            })
            .collect();
        let macs = tandem_sha1_lanes::macs(&self.0, &messages);
        macs.iter().filter_map(|mac| Mac::from_slice(mac)).collect()
    }
}

/// Vouches for what the library sends by itself, in the order in which it goes out: the sealer
/// counts the records. It hands on what is sent, and the key that hides with the first of it.
struct Writer {
    sealer: Option<SharedSealer>,
    /// Until it is handed out.
    key: Option<AeadKey>,
}

impl MessageEncrypter for Writer {
    fn encrypt(
        &mut self,
        message: OutboundPlainMessage<'_>,
        _sequence: u64,
    ) -> Result<OutboundOpaqueMessage, Error> {
        let gathered;
        let content = match message.payload {
            OutboundChunks::Single(content) => content,
            ref parts @ OutboundChunks::Multiple { .. } => {
                gathered = parts.to_vec();
                &gathered
            }
        };
        let mac = RecordType::from_u8(message.typ.into())
            .zip(self.sealer.as_ref())
            .and_then(|(record_type, sealer)| {
                let mut sealer = sealer.lock().unwrap_or_else(PoisonError::into_inner);
                sealer.seal(record_type, content).ok()
            })
            .ok_or(Error::EncryptError)?;
        let key = self.key.take();
        let key = key.as_ref().map_or(&[][..], AsRef::as_ref);
        let mut payload = PrefixedPayload::with_capacity(parts::MAX_OVERHEAD + content.len());
        parts::write(key, mac.as_ref(), content, &mut |bytes| {
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
