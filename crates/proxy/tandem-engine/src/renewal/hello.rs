//! The hello with which the server side looks at a site's chain: TLS 1.2, in which the chain is in
//! clear, for a server's key of the kind that it has shown before.
//!
//! Is not: a handshake; none is ever completed. Invariant: it offers nothing that a server could
//! resume, so that it shows its chain.

use tandem_store::HostName;
use tandem_wire::tls::{ClientHelloRepr, ExtensionType, ProtocolVersion};

/// `id-ecPublicKey` as it stands in a certificate of such a key, and in no other (RFC 5480, section
/// 2.1.1).
const EC_PUBLIC_KEY: &[u8] = &[0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];

/// ECDHE with AES-GCM, ChaCha20 and, for old servers, AES-CBC (RFC 5289, 7905, 8422).
const ECDSA_SUITES: &[u16] = &[0xc02b, 0xc02c, 0xcca9, 0xc009, 0xc00a];
const RSA_SUITES: &[u16] = &[0xc02f, 0xc030, 0xcca8, 0xc013, 0xc014];

/// Extensions that [`ExtensionType`] has no name for.
const SUPPORTED_GROUPS: ExtensionType = ExtensionType(10);
const EC_POINT_FORMATS: ExtensionType = ExtensionType(11);
const SIGNATURE_ALGORITHMS: ExtensionType = ExtensionType(13);
const RENEGOTIATION_INFO: ExtensionType = ExtensionType(0xff01);

/// X25519 and the curves of NIST, behind their length.
const GROUPS: &[u8] = &[0, 8, 0, 29, 0, 23, 0, 24, 0, 25];
/// Uncompressed points, behind their length.
const POINTS: &[u8] = &[1, 0];
/// ECDSA, PSS and PKCS #1 with SHA-256, -384 and -512 (RFC 8446, section 4.2.3).
const SIGNATURES: &[u8] = &[0, 18, 4, 3, 5, 3, 6, 3, 8, 4, 8, 5, 8, 6, 4, 1, 5, 1, 6, 1];

/// The hello, in its record, for a server of this name whose leaf was this; `None` for a name that
/// no hello has room for.
pub(super) fn write(name: Option<&HostName>, leaf: &[u8], random: [u8; 32]) -> Option<Vec<u8>> {
    let is_ec = leaf
        .windows(EC_PUBLIC_KEY.len())
        .any(|window| window == EC_PUBLIC_KEY);
    let name = match name {
        Some(name) => Some(server_name(name.as_str())?),
        None => None,
    };
    let mut extensions = vec![
        (RENEGOTIATION_INFO, vec![0]),
        (SUPPORTED_GROUPS, GROUPS.to_vec()),
        (EC_POINT_FORMATS, POINTS.to_vec()),
        (SIGNATURE_ALGORITHMS, SIGNATURES.to_vec()),
    ];
    extensions.extend(name.map(|name| (ExtensionType::SERVER_NAME, name)));
    let hello = ClientHelloRepr {
        legacy_version: ProtocolVersion(0x0303),
        random,
        session_id: Vec::new(),
        cipher_suites: match is_ec {
            true => ECDSA_SUITES.to_vec(),
            false => RSA_SUITES.to_vec(),
        },
        compression_methods: vec![0],
        extensions: Some(extensions),
    };
    let mut body = Vec::new();
    hello.write(&mut body).ok()?;
    let [_, length @ ..] = u32::try_from(body.len()).ok()?.to_be_bytes();
    let message = [&[1], &length[..], &body].concat();
    let record = u16::try_from(message.len()).ok()?.to_be_bytes();
    // The version of a first record (RFC 5246, appendix E.1).
    Some([&[22, 3, 1], &record[..], &message].concat())
}

/// The extension's data (RFC 6066, section 3).
fn server_name(name: &str) -> Option<Vec<u8>> {
    let length = u16::try_from(name.len()).ok()?;
    let list = length.checked_add(3)?;
    Some(
        [
            &list.to_be_bytes()[..],
            &[0],
            &length.to_be_bytes(),
            name.as_bytes(),
        ]
        .concat(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_wire::tls::ClientHello;

    #[test]
    fn it_names_the_site_and_suits_the_key_that_was_shown() {
        let name = HostName::new("www.site.example").expect("a name");
        let ec = [b"a leaf ".as_slice(), EC_PUBLIC_KEY, b" and so on"].concat();
        for (leaf, suites) in [(&ec[..], ECDSA_SUITES), (b"another", RSA_SUITES)] {
            let hello = write(Some(&name), leaf, [7; 32]).expect("it has room");
            let hello = ClientHello::parse(&hello[9..]).expect("well formed");
            assert_eq!(hello.server_name(), Some("www.site.example"));
            assert!(hello.cipher_suites().eq(suites.iter().copied()));
        }
        let hello = write(None, b"leaf", [7; 32]).expect("it has room");
        let hello = ClientHello::parse(&hello[9..]).expect("well formed");
        assert_eq!(hello.server_name(), None);
    }
}
