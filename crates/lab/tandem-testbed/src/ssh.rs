//! OpenSSH in the daemons' place: one connection between the gateways, compressed, which carries
//! the client's connections to the server as forwarded ports.
//!
//! The client's host knows nothing of it: its gateway leads what goes to the server's port into
//! the forwarding. What crosses the link is the same as with `ssh -D`, whose SOCKS is spoken on the
//! near side.
//!
//! Is not: a way to log in. Invariants: keys are made for the one lab, and nothing of the user's
//! own configuration is read; both programs run in the gateways' namespaces.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command;
use crate::error::LabError;
use crate::forwarding;
use crate::installed;
use crate::server::PORT;
use crate::topology::{Family, SERVER_SIDE_ON_LINK, server_address};

/// The server, which an ordinary user's search path leaves out.
pub(crate) const SERVER: &str = "sshd";

/// Runs a server with a directory `/run/sshd` of its own, which it asks for; the lab's stays where
/// it is.
const SERVER_SCRIPT: &str = "set -e
mount -n -t tmpfs none /mnt
mkdir -m 755 /mnt/sshd /mnt/tandem-lab
mount -n --bind /run/tandem-lab /mnt/tandem-lab
mount -n --move /mnt /run
echo ready
exec \"$@\"";

/// The server in its gateway.
pub(crate) fn server(key: &Path) -> Command {
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "sh", "-c", SERVER_SCRIPT, "sh"])
        .arg(installed::find(SERVER).unwrap_or_else(|| PathBuf::from(SERVER)))
        .args(["-D", "-e", "-f", "/dev/null"]);
    options(
        &mut command,
        &[
            "Port=22",
            &format!("ListenAddress={SERVER_SIDE_ON_LINK}"),
            &format!("HostKey={}", of_server(key).display()),
            &format!("AuthorizedKeysFile={}", public(key).display()),
            "StrictModes=no",
            "UsePAM=no",
            "PermitRootLogin=prohibit-password",
            "PasswordAuthentication=no",
            "KbdInteractiveAuthentication=no",
            "TCPKeepAlive=no",
            "UseDNS=no",
            "PidFile=none",
            "LogLevel=ERROR",
        ],
    );
    command
}

/// The client in its gateway; it says when its connection is up.
pub(crate) fn client(key: &Path) -> Command {
    let mut command = forwarding::run();
    command
        .args(["ssh", "-N", "-C", "-F", "none", "-i"])
        .arg(key);
    options(
        &mut command,
        &[
            &format!("UserKnownHostsFile={}", known_hosts(key).display()),
            "StrictHostKeyChecking=yes",
            "IdentitiesOnly=yes",
            "BatchMode=yes",
            "ExitOnForwardFailure=yes",
            "TCPKeepAlive=no",
            // The server has said that it runs before it listens.
            "ConnectionAttempts=20",
            "PermitLocalCommand=yes",
            "LocalCommand=echo ready",
            "LogLevel=ERROR",
        ],
    );
    let server = server_address(Family::V4);
    command
        .arg("-L")
        .arg(format!("{}:{server}:{PORT}", forwarding::LISTENS))
        .arg(format!("root@{SERVER_SIDE_ON_LINK}"));
    command
}

/// Makes the keys of both ends: the client's in this file, the rest beside it.
///
/// # Errors
/// `ProgramMissing`, `Command`, `Io`.
pub(crate) fn write_keys(key: &Path) -> Result<(), LabError> {
    for file in [key.to_owned(), of_server(key)] {
        let mut keygen = Command::new("ssh-keygen");
        keygen.args(["-q", "-t", "ed25519", "-N", "", "-f"]);
        command::run(keygen.arg(file))?;
    }
    let host = fs::read_to_string(public(&of_server(key)))
        .map_err(LabError::io("read the key of a server"))?;
    fs::write(known_hosts(key), format!("{SERVER_SIDE_ON_LINK} {host}"))
        .map_err(LabError::io("write the key of a server"))
}

fn options(command: &mut Command, options: &[&str]) {
    for option in options {
        command.args(["-o", option]);
    }
}

fn of_server(key: &Path) -> PathBuf {
    key.with_extension("host")
}

fn known_hosts(key: &Path) -> PathBuf {
    key.with_extension("known")
}

/// As `ssh-keygen` calls it.
fn public(key: &Path) -> PathBuf {
    let mut name = key.as_os_str().to_owned();
    name.push(".pub");
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_are_told_the_files_that_are_written_for_them() {
        let line = |command: Command| command::line(&command);
        let key = Path::new("/lab/key");
        let server = line(server(key));
        for file in ["HostKey=/lab/key.host", "AuthorizedKeysFile=/lab/key.pub"] {
            assert!(server.contains(file), "{server}");
        }
        let client = line(client(key));
        for words in [
            "ssh -N -C -F none -i /lab/key -o UserKnownHostsFile=/lab/key.known",
            "-L 0.0.0.0:8443:10.77.3.2:443 root@10.77.2.2",
        ] {
            assert!(client.contains(words), "{client}");
        }
    }
}
