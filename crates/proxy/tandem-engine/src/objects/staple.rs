//! A staple: what the authority says of a certificate's revocation (RFC 6066, section 8; RFC 6961).
//! A server sends the same for days.

use tandem_wire::tls::HandshakeType;

use super::{Place, Sender, Storage, whole};

pub(super) const PLACES: &[Place] = &[Place {
    senders: &[Sender::Server],
    message: HandshakeType::CERTIFICATE_STATUS,
    storage: Storage::BesideChain,
    find: whole,
}];
