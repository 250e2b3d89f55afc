//! `tandem status`: asks the proxies of this machine how they are doing.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use tandem_packet_io::config::DEFAULT_ADMIN_PORT;
use tandem_packet_io::status;

use crate::cli::StatusArgs;
use crate::exit::Failure;
use crate::output;

/// How long a proxy may take to answer. It answers from memory: one that takes longer is stuck or
/// is none.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);

pub(crate) fn run(arguments: &StatusArgs) -> Result<(), Failure> {
    let addresses = match arguments.admin {
        Some(address) => vec![address],
        None => default_addresses().to_vec(),
    };
    let mut shown = Vec::new();
    let mut refused = None;
    for address in addresses {
        match status::fetch(address, PATIENCE) {
            Ok(status) if arguments.json => shown.push(status.json()),
            Ok(status) => shown.push(output::harmless(&status.table())),
            Err(error) => refused = refused.or(Some(error)),
        }
    }
    match refused {
        Some(error) if shown.is_empty() => Err(error.into()),
        // At the default addresses one role of the two is enough.
        _ => output::print(&shown.join("\n")),
    }
}

/// Where proxies answer that were given no `--admin`: the client side's port, and the server side's
/// after it.
pub(super) fn default_addresses() -> [SocketAddr; 2] {
    [DEFAULT_ADMIN_PORT, DEFAULT_ADMIN_PORT + 1].map(|port| (Ipv4Addr::LOCALHOST, port).into())
}
