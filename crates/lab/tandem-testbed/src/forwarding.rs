//! For programs that forward TCP connections: what leads the client's to them.
//!
//! Is not: the programs. Invariant: the rule is of the gateway's namespace, and ends with it.

use std::process::Command;

use crate::server::PORT;

/// Where the client side of one that forwards connections takes them.
pub(crate) const LISTENS: &str = "0.0.0.0:8443";

/// Leads connections into the forwarding, and runs a client that ends in order: by itself it may
/// end on a signal as on a failure.
const SCRIPT: &str =
    "iptables -t nat -A PREROUTING -i lan0 -p tcp --dport $1 -j REDIRECT --to-ports ${2##*:} || exit 1
shift 2
trap 'kill $client' TERM
\"$@\" &
client=$!
wait $client
wait $client
exit 0";

/// What a client that forwards connections is run by; its own words are to follow.
pub(crate) fn run() -> Command {
    let mut command = Command::new("sh");
    command
        .args(["-c", SCRIPT, "sh"])
        .args([PORT.to_string().as_str(), LISTENS]);
    command
}
