//! The few facts of the two hellos that an estimate needs.
//!
//! Not the parser: that is `tandem-wire`'s.
//!
//! RFC 8446, sections 4.1.2, 4.1.3, 4.2.1; draft-ietf-tls-tls13-21, section 4.1.4; RFC 6066,
//! section 3.

use tandem_wire::tls::{ClientHello, ExtensionType, HandshakeType, ProtocolVersion, ServerHello};

/// What the client's hello says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ClientFacts {
    pub(super) server_name: Option<String>,
    pub(super) early_data: bool,
}

impl ClientFacts {
    /// None where it is no ClientHello.
    pub(super) fn of(body: &[u8]) -> Option<Self> {
        let hello = ClientHello::parse(body).ok()?;
        Some(Self {
            server_name: hello.server_name().map(str::to_owned),
            early_data: hello
                .extensions()
                .is_some_and(|block| block.contains(ExtensionType::EARLY_DATA)),
        })
    }
}

/// What the server's hello says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ServerFacts {
    pub(super) version: Option<ProtocolVersion>,
    /// TLS 1.3, a draft of it, or an experiment with it: certificates are encrypted.
    pub(super) is_opaque: bool,
    /// Not a HelloRetryRequest.
    pub(super) is_final: bool,
    /// TLS 1.3: a pre-shared key was taken, so no certificate follows.
    pub(super) pre_shared_key: bool,
}

impl ServerFacts {
    /// None where it is no ServerHello or HelloRetryRequest.
    pub(super) fn of(message_type: HandshakeType, body: &[u8]) -> Option<Self> {
        if message_type == HandshakeType::HELLO_RETRY_REQUEST {
            let version = ProtocolVersion(u16::from_be_bytes(*body.first_chunk::<2>()?));
            return Some(Self {
                version: Some(version),
                is_opaque: true,
                is_final: false,
                pre_shared_key: false,
            });
        }
        let hello = ServerHello::parse(body).ok()?;
        let is_opaque = hello.is_tls13_or_later();
        let has_key = hello
            .extensions()
            .is_some_and(|block| block.contains(ExtensionType::PRE_SHARED_KEY));
        Some(Self {
            version: Some(hello.selected_version()),
            is_opaque,
            is_final: !hello.is_hello_retry_request(),
            pre_shared_key: is_opaque && has_key,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_draft_hello_is_read() {
        let mut body = vec![0x7f, 19];
        body.extend([7; 34]);
        body.extend([0, 10, 0, 40, 0, 0, 0, 41, 0, 2, 0, 0]);
        let facts =
            ServerFacts::of(HandshakeType::SERVER_HELLO, &body).expect("the test's own input");
        assert_eq!(facts.version, Some(ProtocolVersion(0x7f13)));
        assert!(facts.is_final && facts.pre_shared_key && facts.is_opaque);
        assert!(
            !ServerFacts::of(HandshakeType::HELLO_RETRY_REQUEST, &body)
                .expect("the test's own input")
                .is_final
        );
        assert_eq!(ServerFacts::of(HandshakeType::SERVER_HELLO, &[3]), None);
    }
}
