//! What a server sends of its certificate's standing: what the authority says of its revocation
//! (RFC 6066, section 8; RFC 6961), and what transparency logs have signed of it (RFC 6962, section
//! 3.3.1), where that is not in the certificate. The first stays the same for days, the second as
//! long as the certificate.
//!
//! Is not: the same in TLS 1.3, where both are extensions of a certificate (`flight`).

use std::ops::Range;

use tandem_delta::pieces::cut;
use tandem_wire::tls::{ExtensionType, HandshakeType, MessageSpan, ServerHello};

use super::{Place, Sender, Storage, whole};

pub(super) const PLACES: &[Place] = &[
    Place {
        senders: &[Sender::Server],
        message: HandshakeType::CERTIFICATE_STATUS,
        storage: Storage::BesideChain,
        find: whole,
    },
    Place {
        senders: &[Sender::Server],
        message: HandshakeType::SERVER_HELLO,
        storage: Storage::BesideChain,
        find: timestamps,
    },
];

/// Where the extension with the logs' timestamps lies, its header included.
fn timestamps(hello: &MessageSpan, stream: &[u8]) -> Option<Vec<Range<usize>>> {
    let body = hello.body(stream);
    let extensions = ServerHello::parse(&body).ok()?.extensions()?;
    let mut found = extensions
        .iter()
        .filter(|it| it.extension_type == ExtensionType::SIGNED_CERTIFICATE_TIMESTAMP);
    let extension = found.next()?;
    Some(cut(hello.body_pieces(), extension.range()))
}
