//! A member of the site's list as a node of the table, and back.
//!
//! Is not: where names come from; an Ed25519 key is a node's name in libp2p, in other letters.

use std::net::{IpAddr, SocketAddr};

use libp2p_core::Multiaddr;
use libp2p_core::multiaddr::Protocol;
use libp2p_identity::{PeerId, ed25519};
use tandem_barnraising::{Peer, PublicKey};

/// The node with this key, if it is a point on the curve.
pub(crate) fn node(key: &PublicKey) -> Option<PeerId> {
    let key = ed25519::PublicKey::try_from_bytes(&key.0).ok()?;
    Some(PeerId::from_public_key(&key.into()))
}

/// Where a member's node listens: at each address one port above the one at which it answers
/// volunteers, if it answers any there.
pub(crate) fn addresses(member: &Peer) -> Vec<Multiaddr> {
    let answering = member.addresses().filter(|address| address.port() != 0);
    answering
        .filter_map(|address| {
            let port = address.port().checked_add(1)?;
            Some(multiaddr(SocketAddr::new(address.ip(), port)))
        })
        .collect()
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
        let member: Peer = format!("{}@192.0.2.1:7444", "00".repeat(32))
            .parse()
            .expect("whole");
        let shown = |more: &str| {
            let both = member.and(more.parse().expect("an address"));
            let shown = addresses(&both).into_iter().map(|one| one.to_string());
            shown.collect::<Vec<_>>()
        };
        let four = "/ip4/192.0.2.1/tcp/7445";
        assert_eq!(shown("[2001:db8::1]:1"), [four, "/ip6/2001:db8::1/tcp/2"]);
        for none in ["[::1]:65535", "[::1]:0"] {
            assert_eq!(shown(none), [four]);
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
