//! The arguments: every command, flag and help text, as clap reads them.
//!
//! Invariant: `--help` of every command is pinned by a snapshot (`tests/help.rs`).

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

/// Bring handshake keys of TLS 1.3 to a proxy, for programs that cannot do it themselves
///
/// A server on the proxy's machine with the system's OpenSSL does not need this command:
/// libtandem_keytap.so hands its keys to `tandem server-side --handshake-keys SOCKET`. `relay` and
/// `receive` carry keys from another machine; `keylog` reads them from a program's key log. See
/// docs/tls13.md.
#[derive(Debug, Parser)]
#[command(
    name = "tandem-keytap",
    bin_name = "tandem keytap",
    version,
    max_term_width = 100,
    arg_required_else_help = true
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to do with keys.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Relay(RelayArgs),
    Receive(ReceiveArgs),
    Keylog(KeylogArgs),
}

/// Send the keys of this machine's programs to a proxy on another machine
///
/// Programs hand their keys in at the socket, as they would to a proxy here. On the proxy's machine
/// `tandem keytap receive` accepts them. While the two are not connected, keys are dropped, and the
/// handshakes cross as they are.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Example:
    tandem keytap relay --socket /run/tandem-relay/keys --to 192.0.2.7:8445 \\
        --key /etc/tandem/keys.key")]
pub(crate) struct RelayArgs {
    /// UNIX socket to create, for the programs of this machine (TANDEM_KEYTAP_SOCKET)
    #[arg(long, value_name = "SOCKET")]
    pub(crate) socket: PathBuf,

    /// Where `tandem keytap receive` listens
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) to: SocketAddr,

    /// File with the key that both machines share; `tandem keygen FILE` makes one
    #[arg(long, value_name = "FILE")]
    pub(crate) key: PathBuf,
}

/// Accept keys from `tandem keytap relay`, and hand them to the proxy of this machine
///
/// Only a relay that proves the shared key may hand in keys, at most 64 relays at a time. Others
/// are refused; let a firewall keep them out.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Example:
    tandem keytap receive --listen 192.0.2.7:8445 --key /etc/tandem/keys.key \\
        --socket /run/tandem/keys")]
pub(crate) struct ReceiveArgs {
    /// Address and port to listen on
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) listen: SocketAddr,

    /// File with the key that both machines share; `tandem keygen FILE` makes one
    #[arg(long, value_name = "FILE")]
    pub(crate) key: PathBuf,

    /// The proxy's UNIX socket: its --handshake-keys
    #[arg(long, value_name = "SOCKET")]
    pub(crate) socket: PathBuf,
}

/// Read the key log of a server's program, and hand on only its handshake keys
///
/// For programs with their own TLS library: Go, Java, rustls, BoringSSL, NSS. They write their key
/// log (SSLKEYLOGFILE) into the FIFO. A key log has every secret of a connection, including those
/// of application data: whoever reads the FIFO can read everything that the program sends and
/// receives. The keys that this command hands on open the server's part of the handshake only.
///
/// Start this before the program, and have it restarted whenever it ends. Without a reader, a
/// program waits when it opens the FIFO, and a program in Go fails every handshake until this runs
/// again. The Debian package has a systemd unit for it in /usr/share/doc/tandem/examples;
/// docs/tls13.md shows how to turn a program's key log on.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Example:
    tandem keytap keylog --dangerous-keylog /run/tandem-keylog/fifo \\
        --socket /run/tandem/keys")]
pub(crate) struct KeylogArgs {
    /// FIFO with the program's key log; created if missing (mode 620: its group may write)
    #[arg(long, value_name = "FIFO")]
    pub(crate) dangerous_keylog: PathBuf,

    /// UNIX socket for the keys: the proxy's --handshake-keys, or the relay's
    #[arg(long, value_name = "SOCKET")]
    pub(crate) socket: PathBuf,
}
