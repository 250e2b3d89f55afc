//! Other programs in the daemons' place, which Tandem is measured beside. One row of a table each.
//!
//! Is not: how one of them is started (`ssh`, `wireguard`, `go_tunnels`). Invariants:
//! both programs run in the gateways' namespaces; the client's host knows nothing of them; IPv4
//! only.

use std::path::Path;
use std::process::Command;

use crate::error::LabError;
use crate::links::LinkFigures;
use crate::topology::Host;
use crate::{go_tunnels, ssh, wireguard};

/// A program that carries connections between the gateways.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Other {
    /// OpenSSH with compression.
    Ssh,
    /// WireGuard.
    Wireguard,
    /// Hysteria 2.
    Hysteria,
    /// One QUIC stream, compressed with zstd.
    QuicZstd,
}

impl Other {
    /// The program that it takes.
    pub fn program(self) -> &'static str {
        match self {
            Other::Ssh => ssh::SERVER,
            Other::Wireguard => wireguard::PROGRAM,
            Other::Hysteria | Other::QuicZstd => go_tunnels::PROGRAM,
        }
    }

    /// Makes what both ends know each other by: the client's in this file, the rest beside it.
    pub(crate) fn write_keys(self, key: &Path) -> Result<(), LabError> {
        match self {
            Other::Ssh => ssh::write_keys(key),
            Other::Wireguard => wireguard::write_keys(key),
            // They ask nobody who they are.
            Other::Hysteria | Other::QuicZstd => Ok(()),
        }
    }

    /// The program at this gateway.
    pub(crate) fn command(self, at: Host, key: &Path, link: LinkFigures) -> Command {
        let is_near = at.role() == Some("client-side");
        match self {
            Other::Ssh if is_near => ssh::client(key),
            Other::Ssh => ssh::server(key),
            Other::Wireguard if is_near => wireguard::client(key),
            Other::Wireguard => wireguard::server(key),
            Other::Hysteria if is_near => go_tunnels::client("hysteria", link),
            Other::Hysteria => go_tunnels::server("hysteria"),
            Other::QuicZstd if is_near => go_tunnels::client("zstd", link),
            Other::QuicZstd => go_tunnels::server("zstd"),
        }
    }
}
