//! The messages and extensions that `tandem-wire` does not read: it needs none of them to find
//! certificates.
//!
//! ```text
//!  ServerKeyExchange   3 | group 2 | key 1 + n | scheme 2 | signature 2 + n
//!  ClientKeyExchange   key 1 + n
//!  Certificate         hash 1 + n, where the client has it already (RFC 7924, section 4.1)
//!  cached_info         client: list 2 + n of (type 1 | hash 1 + n); server: list 2 + n of types
//! ```
//!
//! Specifications: RFC 5246, section 7.4; RFC 8422, section 5; RFC 7924, sections 3 to 5.

use tandem_wire::TlsError;
use tandem_wire::tls::client_hello::ClientHelloRepr;
use tandem_wire::tls::server_hello::{ServerHelloRepr, SessionFields};
use tandem_wire::tls::{
    CertificateList, ClientHello, ExtensionType, Extensions, HandshakeType, ProtocolVersion,
    certificate,
};

use crate::auth::Scheme;
use crate::error::{Breach, Error, Misuse};
use crate::exchange::Group;
use crate::read::Reader;
use crate::record::message;
use crate::secret::{Digest, sha256};

pub(crate) const SUPPORTED_GROUPS: ExtensionType = ExtensionType(10);
pub(crate) const POINT_FORMATS: ExtensionType = ExtensionType(11);
pub(crate) const SIGNATURE_ALGORITHMS: ExtensionType = ExtensionType(13);
/// RFC 5746.
pub(crate) const RENEGOTIATION_INFO: ExtensionType = ExtensionType(0xff01);
/// RFC 5746, section 3.3: a suite that stands for the extension.
const EMPTY_RENEGOTIATION_INFO: u16 = 0x00ff;

/// CachedInformationType cert (RFC 7924, section 3).
const CACHED_CERT: u8 = 1;

/// Curve type named_curve (RFC 8422, section 5.4).
const NAMED_CURVE: u8 = 3;

fn vec8(bytes: &[u8]) -> Result<Vec<u8>, Misuse> {
    let len = u8::try_from(bytes.len()).map_err(|_| Misuse::TooLong)?;
    Ok([&[len][..], bytes].concat())
}

fn vec16(bytes: &[u8]) -> Result<Vec<u8>, Misuse> {
    let len = u16::try_from(bytes.len()).map_err(|_| Misuse::TooLong)?;
    Ok([&len.to_be_bytes()[..], bytes].concat())
}

fn numbers(numbers: impl Iterator<Item = u16>) -> Vec<u8> {
    numbers.flat_map(u16::to_be_bytes).collect()
}

/// The numbers of a list with a length of two bytes.
fn listed(data: &[u8]) -> Result<Vec<u16>, TlsError> {
    let mut reader = Reader::new(data);
    let list = reader.vec16()?;
    reader.finish()?;
    if !list.len().is_multiple_of(2) {
        return Err(TlsError::BadLength);
    }
    let pairs = list.as_chunks().0.iter();
    Ok(pairs.map(|pair| u16::from_be_bytes(*pair)).collect())
}

/// A client's hello, header included.
pub(crate) fn client_hello(
    name: &str,
    random: [u8; 32],
    more: Vec<(ExtensionType, Vec<u8>)>,
) -> Result<Vec<u8>, Misuse> {
    let host = [&[0][..], &vec16(name.as_bytes())?].concat();
    let schemes = numbers(Scheme::ALL.into_iter().map(Scheme::code));
    let groups = numbers(Group::ALL.into_iter().map(Group::code));
    let mut extensions = vec![
        (ExtensionType::SERVER_NAME, vec16(&host)?),
        (RENEGOTIATION_INFO, vec![0]),
        (SUPPORTED_GROUPS, vec16(&groups)?),
        (POINT_FORMATS, vec![1, 0]),
        (SIGNATURE_ALGORITHMS, vec16(&schemes)?),
    ];
    extensions.extend(more);
    let hello = ClientHelloRepr {
        legacy_version: ProtocolVersion::TLS1_2,
        random,
        session_id: Vec::new(),
        cipher_suites: Scheme::ALL.into_iter().map(Scheme::suite).collect(),
        compression_methods: vec![0],
        extensions: Some(extensions),
    };
    let mut body = Vec::new();
    hello.write(&mut body).map_err(|_| Misuse::TooLong)?;
    message(HandshakeType::CLIENT_HELLO, &body)
}

/// What a server reads in a hello.
#[derive(Debug)]
pub(crate) struct Offer {
    pub(crate) random: [u8; 32],
    suites: Vec<u16>,
    groups: Vec<u16>,
    schemes: Vec<u16>,
    is_secure: bool,
    has_formats: bool,
    /// The extension of RFC 7924: hashes of Certificate messages.
    pub(crate) cached: Vec<Vec<u8>>,
    /// The extension of the three-way handshake.
    pub(crate) three_way: Option<Vec<u8>>,
}

impl Offer {
    pub(crate) fn parse(body: &[u8]) -> Result<Self, Error> {
        let hello = ClientHello::parse(body)?;
        let version = hello.legacy_version();
        if version.0 < ProtocolVersion::TLS1_2.0 {
            return Err(Breach::Version(version.0).into());
        }
        if !hello.compression_methods().contains(&0) {
            return Err(Breach::Extension(0).into());
        }
        let find = |kind| hello.extensions().and_then(|all| all.find(kind));
        let list = |kind| find(kind).map_or(Ok(Vec::new()), listed);
        let suites: Vec<u16> = hello.cipher_suites().collect();
        Ok(Self {
            random: *hello.random(),
            groups: list(SUPPORTED_GROUPS)?,
            schemes: list(SIGNATURE_ALGORITHMS)?,
            // RFC 5746, section 3.6: in a first handshake the extension has to be empty.
            is_secure: find(RENEGOTIATION_INFO) == Some(&[0])
                || suites.contains(&EMPTY_RENEGOTIATION_INFO),
            has_formats: find(POINT_FORMATS).is_some(),
            cached: find(ExtensionType::CACHED_INFO).map_or(Ok(Vec::new()), cached_hashes)?,
            three_way: find(crate::three_way::EXTENSION).map(<[u8]>::to_vec),
            suites,
        })
    }

    /// Whether the client takes what a server with this key signs and the suite that goes with it.
    pub(crate) fn takes(&self, scheme: Scheme) -> bool {
        self.suites.contains(&scheme.suite()) && self.schemes.contains(&scheme.code())
    }

    /// The group that the client likes best of those there are.
    pub(crate) fn group(&self) -> Option<Group> {
        self.groups.iter().copied().find_map(Group::from_code)
    }
}

/// The hashes of Certificate messages that a client has (RFC 7924, section 3). Those of other
/// objects are passed over.
fn cached_hashes(data: &[u8]) -> Result<Vec<Vec<u8>>, TlsError> {
    let mut reader = Reader::new(data);
    let list = reader.vec16()?;
    reader.finish()?;
    let mut objects = Reader::new(list);
    let mut hashes = Vec::new();
    while !objects.is_empty() {
        let kind = objects.u8()?;
        let hash = objects.vec8()?;
        if kind == CACHED_CERT {
            hashes.push(hash.to_vec());
        }
    }
    Ok(hashes)
}

/// A client's cached_info.
pub(crate) fn cached_info(hash: &Digest) -> Result<Vec<u8>, Misuse> {
    vec16(&[&[CACHED_CERT][..], &vec8(hash)?].concat())
}

/// A server's cached_info: the certificate is left out.
pub(crate) const CACHED_CERT_USED: [u8; 3] = [0, 1, CACHED_CERT];

/// What a server's hello says beside its random value.
#[derive(Debug, Default)]
pub(crate) struct Selected {
    pub(crate) uses_cached: bool,
    pub(crate) three_way: Option<Vec<u8>>,
}

/// A server's hello, header included.
pub(crate) fn server_hello(
    offer: &Offer,
    random: [u8; 32],
    scheme: Scheme,
    selected: Selected,
) -> Result<Vec<u8>, Misuse> {
    let mut extensions = Vec::new();
    // RFC 5246, section 7.4.1.4: no extension that the client did not send, or signal.
    if offer.is_secure {
        extensions.push((RENEGOTIATION_INFO, vec![0]));
    }
    if offer.has_formats {
        extensions.push((POINT_FORMATS, vec![1, 0]));
    }
    if selected.uses_cached {
        extensions.push((ExtensionType::CACHED_INFO, CACHED_CERT_USED.to_vec()));
    }
    if let Some(data) = selected.three_way {
        extensions.push((crate::three_way::EXTENSION, data));
    }
    let hello = ServerHelloRepr {
        version: ProtocolVersion::TLS1_2,
        random,
        session: Some(SessionFields {
            session_id: Vec::new(),
            compression_method: 0,
        }),
        cipher_suite: scheme.suite(),
        extensions: (!extensions.is_empty()).then_some(extensions),
    };
    let mut body = Vec::new();
    hello.write(&mut body).map_err(|_| Misuse::TooLong)?;
    message(HandshakeType::SERVER_HELLO, &body)
}

/// Whether all extensions of a server's hello are among those that were offered, each once.
pub(crate) fn check_answers(
    answers: Option<Extensions<'_>>,
    offered: &[ExtensionType],
) -> Result<(), Breach> {
    let mut seen = Vec::new();
    for extension in answers.into_iter().flat_map(|all| all.iter()) {
        let kind = extension.extension_type;
        if !offered.contains(&kind) || seen.contains(&kind) {
            return Err(Breach::Extension(kind.0));
        }
        seen.push(kind);
    }
    Ok(())
}

/// A Certificate message.
pub(crate) fn certificates(chain: &[Vec<u8>]) -> Result<Vec<u8>, Misuse> {
    let mut body = Vec::new();
    let written = certificate::write_certificates(&mut body, chain.iter().map(Vec::as_slice));
    written.map_err(|_| Misuse::TooLong)?;
    message(HandshakeType::CERTIFICATE, &body)
}

/// The chain of a Certificate message's body: at least one certificate.
pub(crate) fn chain(body: &[u8]) -> Result<Vec<&[u8]>, TlsError> {
    let list = CertificateList::parse(body)?;
    if list.is_empty() {
        return Err(TlsError::BadLength);
    }
    Ok(list.iter().map(|item| item.der).collect())
}

/// The fingerprint of a Certificate message: SHA-256 over all of it, its header included (RFC
/// 7924, section 5 and appendix A).
pub(crate) fn fingerprint(certificate: &[u8]) -> Digest {
    sha256(certificate)
}

/// The Certificate message of a server whose client has its certificates (RFC 7924, section 4.1).
pub(crate) fn cached_certificate(hash: &Digest) -> Result<Vec<u8>, Misuse> {
    message(HandshakeType::CERTIFICATE, &vec8(hash)?)
}

/// The hash in such a message's body.
pub(crate) fn cached_certificate_hash(body: &[u8]) -> Result<&[u8], TlsError> {
    let mut reader = Reader::new(body);
    let hash = reader.vec8()?;
    reader.finish()?;
    Ok(hash)
}

/// A server's key, before it is signed.
pub(crate) fn key_params(group: Group, public: &[u8]) -> Result<Vec<u8>, Misuse> {
    let group = group.code().to_be_bytes();
    Ok([&[NAMED_CURVE][..], &group, &vec8(public)?].concat())
}

/// What is signed: both random values, and the key (RFC 5246, section 7.4.3).
pub(crate) fn signed_params(randoms: &crate::schedule::Randoms, params: &[u8]) -> Vec<u8> {
    [&randoms.client[..], &randoms.server, params].concat()
}

pub(crate) fn server_key_exchange(
    params: &[u8],
    scheme: Scheme,
    signature: &[u8],
) -> Result<Vec<u8>, Misuse> {
    let scheme = scheme.code().to_be_bytes();
    let body = [params, &scheme, &vec16(signature)?].concat();
    message(HandshakeType::SERVER_KEY_EXCHANGE, &body)
}

/// A server's key with its signature.
pub(crate) struct ServerKey<'a> {
    pub(crate) params: &'a [u8],
    pub(crate) group: Group,
    pub(crate) public: &'a [u8],
    pub(crate) signature: &'a [u8],
}

impl<'a> ServerKey<'a> {
    pub(crate) fn parse(body: &'a [u8], scheme: Scheme) -> Result<Self, Error> {
        let mut reader = Reader::new(body);
        if reader.u8()? != NAMED_CURVE {
            return Err(TlsError::BadLength.into());
        }
        let group = reader.u16()?;
        let group = Group::from_code(group).ok_or(Breach::Group(group))?;
        let public = reader.vec8()?;
        let params = body.get(..4 + public.len()).unwrap_or_default();
        let found = reader.u16()?;
        if found != scheme.code() {
            return Err(Breach::Scheme(found).into());
        }
        let signature = reader.vec16()?;
        reader.finish()?;
        Ok(Self {
            params,
            group,
            public,
            signature,
        })
    }
}

pub(crate) fn client_key_exchange(public: &[u8]) -> Result<Vec<u8>, Misuse> {
    message(HandshakeType::CLIENT_KEY_EXCHANGE, &vec8(public)?)
}

/// The key in a ClientKeyExchange's body.
pub(crate) fn client_key(body: &[u8]) -> Result<&[u8], TlsError> {
    let mut reader = Reader::new(body);
    let key = reader.vec8()?;
    reader.finish()?;
    Ok(key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use data_encoding::HEXLOWER;

    /// RFC 7924, appendix A: a certificate, and the hash of the Certificate message with it.
    #[test]
    fn a_fingerprint_is_that_of_the_rfc_s_example() {
        let der = "3082022c308201b2a00302010202010d300a06082a8648ce3d040302303e310b3009060355040613\
                   024e4c3111300f060355040a1308506f6c617253534c311c301a06035504031313506f6c61727373\
                   6c2054657374204543204341301e170d3133303932343135353230345a170d323330393232313535\
                   3230345a3041310b3009060355040613024e4c3111300f060355040a1308506f6c617253534c311f\
                   301d06035504031316506f6c617253534c205465737420436c69656e7420323059301306072a8648\
                   ce3d020106082a8648ce3d0301070342000457e5aeb173dfd3acbb93b881ff12aeeee653acce5553\
                   f6340ecc2ee363250bdf98e2f35c603696c0d5181470e57f9fd54b4518e5b06cd55cf8968f8770a3\
                   e4c7a3819d30819a30090603551d1304023000301d0603551d0e041604147a005f8664fce05de511\
                   103bb2e63bc4263fcfe2306e0603551d230467306580149d6d202449013f2bcb78b519bc7e24c9db\
                   fb367ca142a440303e310b3009060355040613024e4c3111300f060355040a1308506f6c61725353\
                   4c311c301a06035504031313506f6c617273736c2054657374204543204341820900c143e27e6243\
                   cce8300a06082a8648ce3d040302036800306502304a650d7b2083a299b9a80ffc8dee8f3dbb704c\
                   9603ac8e7870ddf20ea0b216cb658e1ac93f2c617ef83cefad1cee36200231009df227a6d574b824\
                   aee16a3f31a1ca542f08d08dee4f0c61df77787db4fdfc4249eee5b26ac2cd2677628e287c9e5745";
        let der = HEXLOWER.decode(der.as_bytes()).expect("hexadecimal");
        let message = certificates(&[der]).expect("it fits");
        let expected = "086eefb4859adfe977defac494fff6b73033b4ce1f86b8f2a9fc0c6bf98605af";
        assert_eq!(HEXLOWER.encode(&fingerprint(&message)), expected);
    }

    #[test]
    fn a_certificate_message_has_at_least_one_certificate() {
        assert_eq!(chain(&[0, 0, 0]), Err(TlsError::BadLength));
    }
}
