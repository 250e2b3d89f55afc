//! Whether the other proxy of a tunnel can be reached.
//!
//! Is not: the trying ([`tandem_tunnel_io::probe`]).

use std::net::SocketAddr;

use tandem_packet_io::config::Key;
use tandem_tunnel_io::config::{KeyName, Line};
use tandem_tunnel_io::probe::{self, Reached};

use super::report::Check;
use crate::exit::Failure;

const NAME: &str = "peer";

/// Whether the tunnel's datagrams fit the path, as far as this machine knows. Sends nothing.
pub(super) fn path(peer: SocketAddr) -> Check {
    match probe::path_mtu(peer) {
        Ok(Some(mtu)) if mtu < probe::PACKET => Check::problem(
            "path",
            format!(
                "packets to {peer} may have {mtu} bytes; the tunnel needs {}",
                probe::PACKET
            ),
            "raise the MTU of the link, or of the tunnel that it runs in",
        ),
        Ok(Some(mtu)) => Check::ok("path", format!("packets to {peer} may have {mtu} bytes")),
        Ok(None) => Check::ok("path", format!("there is a route to {peer}")),
        Err(error) => Check::problem(
            "path",
            format!("there is no route to {peer}: {error}"),
            "`ip route get` the address; is the link up?",
        ),
    }
}

/// In place of [`reach`].
pub(super) fn not_tried() -> Check {
    Check::warning(
        NAME,
        "not tried: that costs bytes on the link",
        format!(
            "--probe tries it, for at most {} kB",
            probe::MAX_COST / 1_000
        ),
    )
}

/// Tries to reach it.
pub(super) fn reach(
    key: &Key,
    server: Option<KeyName>,
    peer: SocketAddr,
    line: &Line,
) -> Result<Check, Failure> {
    Ok(found(probe::reach(key, server, peer, line)?, peer))
}

fn found(reached: Reached, peer: SocketAddr) -> Check {
    match reached {
        Reached::Yes { round_trip, bytes } => Check::ok(
            NAME,
            format!(
                "{peer} answers and has the same key: {} ms, datagrams of 1,200 bytes pass ({bytes} bytes spent)",
                round_trip.as_millis()
            ),
        ),
        Reached::OverTcp { round_trip } => Check::warning(
            NAME,
            format!(
                "{peer} answers by TCP, not by UDP, and has the same key: {} ms",
                round_trip.as_millis()
            ),
            "the tunnel runs over TCP, where a lost packet holds up all connections: can UDP pass?",
        ),
        Reached::Refused(reason) => Check::problem(
            NAME,
            format!("{peer} answers, and is refused: {reason}"),
            "the same key file and version on both sides? `sha256sum` the key on each",
        ),
        Reached::NobodyListens => Check::problem(
            NAME,
            format!("{peer} is there, and nobody listens on this port"),
            "start the server side there; is its --listen this port?",
        ),
        Reached::OnlySmall => Check::problem(
            NAME,
            format!("{peer} answers small packets, not datagrams of 1,200 bytes"),
            "let UDP of 1,228 bytes pass unfragmented: raise the MTU on the path, or name IPv6",
        ),
        Reached::Silence => Check::problem(
            NAME,
            format!("{peer} does not answer, by UDP or TCP"),
            "is it up, and does every firewall between let UDP or TCP to this port pass?",
        ),
        Reached::Unusable(reason) => Check::problem(
            NAME,
            format!("nothing can be sent to {peer}: {reason}"),
            "`ip route get` the address; does a firewall here reject UDP and TCP?",
        ),
    }
}
