//! A member of the site's list as a node of the table, and back.
//!
//! Is not: where names come from; an Ed25519 key is a node's name in libp2p, in other letters.

use std::net::{IpAddr, SocketAddr};

use libp2p_core::Multiaddr;
use libp2p_core::multiaddr::Protocol;
use libp2p_identity::{PeerId, ed25519};
use tandem_barnraising::{Member, PublicKey};

/// The node with this key, if it is a point on the curve.
pub(crate) fn node(key: &PublicKey) -> Option<PeerId> {
    let key = ed25519::PublicKey::try_from_bytes(&key.0).ok()?;
    Some(PeerId::from_public_key(&key.into()))
}

/// Where a member's node listens: one port above the one at which it answers volunteers, if it
/// answers any.
pub(crate) fn address(member: &Member) -> Option<Multiaddr> {
    let port = match member.peers.port() {
        0 => return None,
        port => port.checked_add(1)?,
    };
    Some(multiaddr(SocketAddr::new(member.peers.ip(), port)))
}

/// The same in libp2p's form.
pub(crate) fn multiaddr(address: SocketAddr) -> Multiaddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) => Protocol::Ip4(ip),
        IpAddr::V6(ip) => Protocol::Ip6(ip),
    };
    Multiaddr::empty()
        .with(ip)
        .with(Protocol::Tcp(address.port()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_one_port_above_its_volunteer() {
        let member: Member = format!("{}@192.0.2.1:7444", "00".repeat(32))
            .parse()
            .expect("whole");
        let shown = address(&member).map(|address| address.to_string());
        assert_eq!(shown.as_deref(), Some("/ip4/192.0.2.1/tcp/7445"));
        for peers in ["[::1]:65535", "[::1]:0"] {
            let peers = peers.parse().expect("an address");
            assert_eq!(address(&Member { peers, ..member }), None);
        }
    }

    #[test]
    fn a_node_has_the_name_that_libp2p_gives_its_key() {
        let pair = ed25519::Keypair::generate();
        let key = PublicKey(pair.public().to_bytes());
        let name = libp2p_identity::Keypair::from(pair).public().to_peer_id();
        assert_eq!(node(&key), Some(name));
    }
}
