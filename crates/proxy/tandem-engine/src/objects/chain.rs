//! A chain of certificates: what a Certificate message lists (RFC 5246, section 7.4.2).

use std::ops::Range;

use tandem_delta::pieces::cut;
use tandem_wire::tls::{HandshakeType, MessageSpan};

use super::{Place, Sender, Storage};

/// Bytes of the list's length, in front of the certificates in a Certificate message's body.
const LIST_LENGTH: usize = 3;

/// The list's contents: each certificate's length and DER.
pub(super) const PLACES: &[Place] = &[Place {
    senders: &[Sender::Server, Sender::Client],
    message: HandshakeType::CERTIFICATE,
    storage: Storage::Alone,
    find: |span, _| Some(list(span)),
}];

/// Where the contents of the certificate list lie.
pub(super) fn list(certificate: &MessageSpan) -> Vec<Range<usize>> {
    cut(
        certificate.body_pieces(),
        LIST_LENGTH..certificate.body_len(),
    )
}
