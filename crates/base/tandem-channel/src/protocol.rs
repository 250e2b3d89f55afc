//! What a channel is for, and how its session keys are agreed.

use std::sync::Arc;

use rustls::crypto::CryptoProvider;

use crate::crypto::{self, kx_group};

/// What a channel is for. Both ends ask for it by name (ALPN, RFC 7301), so that one service is
/// not taken for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Protocol {
    /// The name, 1 to 255 bytes.
    pub name: &'static [u8],
    /// How session keys are agreed.
    pub key_exchange: KeyExchange,
}

/// How two ends agree on session keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyExchange {
    /// Elliptic curves, X25519 first: 32 bytes each way. For content that is public anyway.
    Classical,
    /// X25519MLKEM768 and nothing else (draft-ietf-tls-ecdhe-mlkem): what is recorded today stays
    /// secret from a quantum computer. 1,216 bytes to the server, 1,120 back.
    Hybrid,
}

impl Protocol {
    /// The provider, restricted to this key exchange.
    pub(crate) fn provider(self) -> Arc<CryptoProvider> {
        let kx_groups = match self.key_exchange {
            KeyExchange::Classical => {
                vec![kx_group::X25519, kx_group::SECP256R1, kx_group::SECP384R1]
            }
            KeyExchange::Hybrid => vec![kx_group::X25519MLKEM768],
        };
        Arc::new(CryptoProvider {
            kx_groups,
            ..crypto::default_provider()
        })
    }
}
