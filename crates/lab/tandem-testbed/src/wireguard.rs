//! WireGuard in the daemons' place, in user space: the clients' packets to the server cross
//! encrypted, one by one.
//!
//! Is not: a way into the lab. Invariants: keys are made for the one lab; the device and its
//! control socket are seen in the gateway alone, and end with the program.

use std::fs;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command;
use crate::error::LabError;
use crate::topology::{Family, SERVER_SIDE_ON_LINK, client_address, server_address};

/// The program.
pub(crate) const PROGRAM: &str = "wireguard-go";

/// Where the server side listens, UDP.
const LISTENS: u16 = 51820;

/// Own key, the other's, a word of `wg set` and its value, whose packets come and go. The directory
/// of the control socket is one of its own.
const SCRIPT: &str = "set -e
own=$(cat \"$1\"); other=$(wg pubkey <\"$2\")
mount -n -t tmpfs none /run
LOG_LEVEL=error wireguard-go -f wg0 &
device=$!
trap 'kill $device' TERM
until [ -S /run/wireguard/wg0.sock ]; do kill -0 $device; sleep 0.02; done
listen=; endpoint=
case $3 in listen-port) listen=\"listen-port $4\" ;; endpoint) endpoint=\"endpoint $4\" ;; esac
echo \"$own\" | wg set wg0 $listen private-key /dev/stdin peer \"$other\" $endpoint allowed-ips \"$5\"
ip link set wg0 mtu 1420 up
ip route add \"$5\" dev wg0
echo ready
set +e
wait $device
wait $device
exit 0";

/// The server's gateway, which leads what is for the client into it.
pub(crate) fn server(key: &Path) -> Command {
    let listens = ["listen-port", &LISTENS.to_string()];
    gateway([&of_server(key), key], listens, client_address(Family::V4))
}

/// The client's, which leads what is for the server into it.
pub(crate) fn client(key: &Path) -> Command {
    let meets = ["endpoint", &format!("{SERVER_SIDE_ON_LINK}:{LISTENS}")];
    gateway([key, &of_server(key)], meets, server_address(Family::V4))
}

fn gateway(keys: [&Path; 2], where_: [&str; 2], of: std::net::IpAddr) -> Command {
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "sh", "-c", SCRIPT, "sh"])
        .args(keys)
        .args(where_)
        .arg(format!("{of}/32"));
    command
}

/// Makes the keys of both ends.
///
/// # Errors
/// `ProgramMissing`, `Command`, `Io`.
pub(crate) fn write_keys(key: &Path) -> Result<(), LabError> {
    for file in [key.to_owned(), of_server(key)] {
        let made = command::run(Command::new("wg").arg("genkey"))?.stdout;
        fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(file)
            .and_then(|mut file| file.write_all(&made))
            .map_err(LabError::io("write a key"))?;
    }
    Ok(())
}

fn of_server(key: &Path) -> PathBuf {
    key.with_extension("server")
}
