//! A hosts file for one program: none of the clients takes an address for a name in the same way.
//!
//! Is not: the namespace of the network, which the lab's hosts have. Invariant: the machine's own
//! hosts file stays as it is; the program sees another in a mount namespace of its own.

use std::path::Path;
use std::process::Command;

/// A call of the program that is its first argument, which finds names in `hosts`, and no proxy in
/// its environment.
pub(crate) fn with(hosts: &Path) -> Command {
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "sh", "-c"])
        .arg("mount --bind \"$0\" /etc/hosts && exec \"$@\"")
        .arg(hosts);
    for proxy in ["http_proxy", "https_proxy", "all_proxy"] {
        command.env_remove(proxy);
        command.env_remove(proxy.to_uppercase());
    }
    command
}
