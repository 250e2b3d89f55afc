//! What is announced, and when: the body of the extension from the chain, and whether the hello can
//! lead to a version that shows certificates in clear.
//!
//! Is not: how the chain is found (`openssl`). Thesis, sections 2.4.2 and 3.2.5.1.

#![forbid(unsafe_code)]

use std::ffi::{c_long, c_ulong};
use std::fmt;

use sha2::{Digest, Sha256};

/// Size of a reference in bytes: the first half of a SHA-256.
const REFERENCE_LEN: usize = 16;

/// Most certificates in one announcement, the bound that the proxies have for a Certificate
/// message.
const MAX_CERTIFICATES: usize = 32;

/// Why a hello says nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Silence {
    /// The hello is encrypted, with TLS 1.3 alone, and no proxy reads QUIC.
    Quic,
    /// No certificate with its private key is set.
    NoCertificate,
    /// Every version that the client offers encrypts certificates.
    NewVersionsOnly,
    /// The hello is encrypted itself: no proxy could read it.
    Renegotiation,
    /// The chain could not be found out, or is longer than any that is real.
    UnknownChain,
}

impl fmt::Display for Silence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Quic => "the connection is QUIC's",
            Self::NoCertificate => "no client certificate is set",
            Self::NewVersionsOnly => "only TLS 1.3 is offered",
            Self::Renegotiation => "the hello is a renegotiation's",
            Self::UnknownChain => "it is not known which chain would be sent",
        })
    }
}

/// The extension's body for a chain of DER certificates in the order of the Certificate message.
pub(crate) fn body(chain: &[Vec<u8>]) -> Result<Vec<u8>, Silence> {
    if !(1..=MAX_CERTIFICATES).contains(&chain.len()) {
        return Err(Silence::UnknownChain);
    }
    Ok(chain
        .iter()
        .flat_map(|der| Sha256::digest(der).into_iter().take(REFERENCE_LEN))
        .collect())
}

/// What a client may offer, as OpenSSL keeps it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Offer {
    /// The lowest version's number, 0 for the lowest that there is.
    pub(crate) lowest: c_long,
    /// The highest version's number, 0 for the highest that there is.
    pub(crate) highest: c_long,
    /// The `SSL_OP_…` bits.
    pub(crate) options: c_ulong,
}

impl Offer {
    /// TLS 1.0, 1.1 and 1.2 with the option (`SSL_OP_NO_…`) that takes each out. SSL 3.0 knows no
    /// extensions.
    const OLD: [(c_long, c_ulong); 3] = [
        (0x0301, 0x0400_0000),
        (0x0302, 0x1000_0000),
        (0x0303, 0x0800_0000),
    ];

    /// Whether the handshake may end up with a version in which certificates are in clear.
    pub(crate) fn shows_certificates(self) -> bool {
        Self::OLD.iter().any(|&(version, refused)| {
            let allowed = self.lowest <= version && (self.highest == 0 || version <= self.highest);
            allowed && self.options & refused == 0
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_is_the_first_half_of_the_hash_and_all_stand_in_order() {
        // FIPS 180-2, appendix B.1: SHA-256 of "abc".
        let abc = [
            0xba, 0x78, 0x16, 0xbf, 0x8f, 0x01, 0xcf, 0xea, 0x41, 0x41, 0x40, 0xde, 0x5d, 0xae,
            0x22, 0x23,
        ];
        // SHA-256 of nothing.
        let empty = [
            0xe3, 0xb0, 0xc4, 0x42, 0x98, 0xfc, 0x1c, 0x14, 0x9a, 0xfb, 0xf4, 0xc8, 0x99, 0x6f,
            0xb9, 0x24,
        ];
        let two = body(&[b"abc".to_vec(), Vec::new()]);
        assert_eq!(two, Ok([abc, empty].concat()));
        let repeated = body(&[b"abc".to_vec(), b"abc".to_vec()]);
        assert_eq!(repeated, Ok([abc, abc].concat()), "one for each, as sent");
    }

    #[test]
    fn no_chain_and_an_endless_one_say_nothing() {
        assert_eq!(body(&[]), Err(Silence::UnknownChain));
        let certificate = vec![1, 2, 3];
        let longest = vec![certificate; MAX_CERTIFICATES];
        assert_eq!(body(&longest).map(|body| body.len()), Ok(512));
        let longer = [&longest[..], &longest[..1]].concat();
        assert_eq!(body(&longer), Err(Silence::UnknownChain));
    }

    #[test]
    fn a_client_that_offers_tls_1_3_alone_shows_no_certificate() {
        let offer = |lowest, highest, options| Offer {
            lowest,
            highest,
            options,
        };
        let (no_1_0, no_1_1, no_1_2) = (0x0400_0000, 0x1000_0000, 0x0800_0000);
        for (offer, shows) in [
            (offer(0, 0, 0), true),
            (offer(0x0303, 0, 0), true),
            (offer(0x0303, 0x0303, 0), true),
            (offer(0x0301, 0x0302, no_1_2), true),
            (offer(0, 0, no_1_2), true),
            (offer(0x0304, 0, 0), false),
            (offer(0x0304, 0x0304, 0), false),
            (offer(0x0303, 0, no_1_2), false),
            (offer(0, 0, no_1_0 | no_1_1 | no_1_2), false),
            (offer(0, 0x0300, 0), false),
        ] {
            assert_eq!(offer.shows_certificates(), shows, "{offer:?}");
        }
    }
}
