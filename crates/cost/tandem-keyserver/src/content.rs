//! What a server signs in a handshake: in TLS 1.3 the hash of the transcript under a fixed text, in
//! TLS 1.2 both random values and the server's key share.
//!
//! Is not: a way to have other bytes signed. A message is built from these parts by the key server
//! itself; a client reads the parts from the message that its TLS library wants signed.
//!
//! Invariant: a message that is read and written again is the same bytes. No message of one version
//! is one of the other: TLS 1.3's has `TLS 1.3` where TLS 1.2's has the type of a curve.

use std::fmt;

/// RFC 8446, section 4.4.3: 64 spaces, the context string, a zero byte.
const TLS_1_3: [u8; 98] = {
    let mut text = [0x20; 98];
    let context = b"TLS 1.3, server CertificateVerify\0";
    let mut at = 0;
    while at < context.len() {
        text[64 + at] = context[at];
        at += 1;
    }
    text
};

/// A version of TLS, as far as signatures of servers differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TlsVersion {
    /// TLS 1.2: ServerKeyExchange (RFC 8422, section 5.4).
    V12,
    /// TLS 1.3: CertificateVerify (RFC 8446, section 4.4.3).
    V13,
}

impl TlsVersion {
    /// Its number, as settings have it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::V12 => "1.2",
            Self::V13 => "1.3",
        }
    }

    /// The version with this number.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        [Self::V12, Self::V13]
            .into_iter()
            .find(|version| version.name() == name)
    }
}

impl fmt::Display for TlsVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The parameters of a key exchange of TLS 1.2 (ServerECDHParams, RFC 8422, section 5.4): a named
/// curve and a point on it, of that curve's length. Diffie-Hellman over a prime has no such fixed
/// form and is not signed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Params {
    bytes: [u8; Self::MAX_LEN],
    len: usize,
}

impl Params {
    /// Those of P-521: type, number of the curve, length, and an uncompressed point.
    pub const MAX_LEN: usize = 4 + 133;

    /// Those that these bytes are; `None` where they are of another form.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        // ECCurveType named_curve.
        let [3, high, low, len, point @ ..] = bytes else {
            return None;
        };
        let (expected, is_weierstrass) = match u16::from_be_bytes([*high, *low]) {
            23 => (65, true),
            24 => (97, true),
            25 => (133, true),
            // X25519 and X448 (RFC 8422, section 5.11).
            29 => (32, false),
            30 => (56, false),
            _ => return None,
        };
        // RFC 8422, section 5.4.1: a point of the others is uncompressed.
        let is_form_right = !is_weierstrass || point.first() == Some(&4);
        if usize::from(*len) != expected || point.len() != expected || !is_form_right {
            return None;
        }
        let mut params = Self {
            bytes: [0; Self::MAX_LEN],
            len: bytes.len(),
        };
        params.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(params)
    }

    /// The bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl fmt::Debug for Params {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Params({} bytes)", self.len)
    }
}

/// What is signed in one handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// TLS 1.3, with a hash of SHA-256 over the transcript.
    Transcript32([u8; 32]),
    /// TLS 1.3, with a hash of SHA-384.
    Transcript48([u8; 48]),
    /// TLS 1.2.
    KeyExchange {
        /// The random values of client and server, one after the other.
        randoms: [u8; 64],
        /// The server's key share.
        params: Params,
    },
}

impl Content {
    /// The parts of a message that a TLS library wants signed; `None` where it is another one.
    #[must_use]
    pub fn of_message(message: &[u8]) -> Option<Self> {
        if let Some(hash) = message.strip_prefix(&TLS_1_3) {
            return match hash.len() {
                32 => Some(Self::Transcript32(hash.try_into().ok()?)),
                48 => Some(Self::Transcript48(hash.try_into().ok()?)),
                _ => None,
            };
        }
        let (randoms, params) = message.split_first_chunk::<64>()?;
        Some(Self::KeyExchange {
            randoms: *randoms,
            params: Params::read(params)?,
        })
    }

    /// What is signed.
    #[must_use]
    pub fn message(&self) -> Vec<u8> {
        match self {
            Self::Transcript32(hash) => [&TLS_1_3[..], hash].concat(),
            Self::Transcript48(hash) => [&TLS_1_3[..], hash].concat(),
            Self::KeyExchange { randoms, params } => [&randoms[..], params.as_bytes()].concat(),
        }
    }

    /// The version whose handshakes have it.
    #[must_use]
    pub fn version(&self) -> TlsVersion {
        match self {
            Self::Transcript32(_) | Self::Transcript48(_) => TlsVersion::V13,
            Self::KeyExchange { .. } => TlsVersion::V12,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key_exchange(curve: u16, first: u8, len: u8) -> Vec<u8> {
        let [high, low] = curve.to_be_bytes();
        let mut message = vec![7; 64];
        message.extend([3, high, low, len, first]);
        message.resize(64 + 4 + usize::from(len), 9);
        message
    }

    #[test]
    fn what_servers_sign_is_read_and_built_again() {
        let mut messages = vec![
            [&TLS_1_3[..], &[1; 32]].concat(),
            [&TLS_1_3[..], &[1; 48]].concat(),
        ];
        for (curve, first, len) in [
            (23, 4, 65),
            (24, 4, 97),
            (25, 4, 133),
            (29, 0, 32),
            (30, 0, 56),
        ] {
            messages.push(key_exchange(curve, first, len));
        }
        for message in messages {
            let content = Content::of_message(&message).expect("a server signs this");
            assert_eq!(content.message(), message);
        }
    }

    // RFC 8446, section 4.4.3.
    #[test]
    fn the_fixed_text_is_that_of_rfc_8446() {
        assert!(TLS_1_3[..64].iter().all(|&byte| byte == b' '));
        assert_eq!(&TLS_1_3[64..], b"TLS 1.3, server CertificateVerify\0");
    }

    #[test]
    fn nothing_else_is_read() {
        let client = [
            &[0x20; 64][..],
            b"TLS 1.3, client CertificateVerify\0",
            &[1; 32],
        ]
        .concat();
        // RFC 9345, section 4.1.1: whoever had it signed would be the site for a week.
        let credential = [
            &[0x20; 64][..],
            b"TLS, server delegated credentials\0",
            &[1; 40],
        ];
        for other in [
            Vec::new(),
            b"-----BEGIN CERTIFICATE REQUEST-----".to_vec(),
            vec![0x30; 200],
            client,
            credential.concat(),
            [&TLS_1_3[..], &[1; 20]].concat(),
            [&TLS_1_3[..], &[1; 64]].concat(),
            // A curve without a name, an unknown one, a compressed point, wrong lengths.
            key_exchange(22, 4, 65),
            key_exchange(23, 2, 65),
            key_exchange(23, 4, 64),
            key_exchange(29, 0, 33),
            [key_exchange(29, 0, 32), vec![0]].concat(),
            key_exchange(29, 0, 32)[..90].to_vec(),
        ] {
            assert_eq!(Content::of_message(&other), None, "{other:x?}");
        }
        // Diffie-Hellman over a prime of 2,048 bits.
        let prime = [
            &[7; 64][..],
            &[1, 0],
            &[0xff; 256],
            &[0, 1, 2, 1, 0],
            &[1; 256],
        ]
        .concat();
        assert_eq!(Content::of_message(&prime), None);
    }
}
