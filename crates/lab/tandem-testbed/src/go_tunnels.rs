//! The tunnels of `extras/other-tunnels`: Hysteria 2 by its own library, and a QUIC stream that
//! zstd compresses.
//!
//! Is not: that program, which `scripts/ensure-tools.sh tunnels` builds.

use std::path::PathBuf;
use std::process::Command;

use crate::forwarding;
use crate::installed;
use crate::links::LinkFigures;
use crate::server::PORT;
use crate::topology::{Family, SERVER_SIDE_ON_LINK, server_address};

/// Its name in a search path.
pub(crate) const PROGRAM: &str = "tandem-other-tunnels";

/// Where the server side listens, UDP.
const LISTENS: u16 = 4434;

/// One of its tunnels in the server's gateway.
pub(crate) fn server(tunnel: &str) -> Command {
    let mut command = Command::new(program());
    command
        .args([tunnel, "server", "--listen"])
        .arg(format!("{SERVER_SIDE_ON_LINK}:{LISTENS}"));
    command
}

/// The same in the client's, which is told the link's rates.
pub(crate) fn client(tunnel: &str, link: LinkFigures) -> Command {
    let server = server_address(Family::V4);
    let mut command = forwarding::run();
    command
        .arg(program())
        .args([tunnel, "client", "--listen", forwarding::LISTENS])
        .arg("--peer")
        .arg(format!("{SERVER_SIDE_ON_LINK}:{LISTENS}"))
        .arg("--to")
        .arg(format!("{server}:{PORT}"));
    for (flag, rate) in [("--up", link.up), ("--down", link.down)] {
        if let Some(rate) = rate {
            command.arg(flag).arg(rate.to_string());
        }
    }
    command
}

fn program() -> PathBuf {
    installed::find(PROGRAM).unwrap_or_else(|| PathBuf::from(PROGRAM))
}
