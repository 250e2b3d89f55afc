//! A request for the client's certificate, with the authorities that it names (RFC 5246, section
//! 7.4.4). A server sends the same until somebody configures another.

use tandem_wire::tls::HandshakeType;

use super::{Place, Sender, Storage, whole};

pub(super) const PLACES: &[Place] = &[Place {
    senders: &[Sender::Server],
    message: HandshakeType::CERTIFICATE_REQUEST,
    storage: Storage::BesideChain,
    find: whole,
}];
