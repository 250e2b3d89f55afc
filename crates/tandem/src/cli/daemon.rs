//! `tandem client-side` and `tandem server-side`: one set of flags, two roles.

use std::path::PathBuf;

use clap::Args;
use clap::builder::PossibleValuesParser;

/// What `--help` of a daemon closes with. Lines fit 80 columns, since clap would break longer ones
/// anywhere.
macro_rules! examples {
    ($role:literal, $link:literal) => {
        concat!(
            "Examples:\n",
            "  Show the firewall commands and stop\n",
            "    tandem ",
            $role,
            " --key /etc/tandem/key --link ",
            $link,
            " --dry-run\n",
            "  Take the settings from a file\n",
            "    tandem ",
            $role,
            " --config /etc/tandem/",
            $role,
            ".toml\n",
            "  Only to try it, without a key\n",
            "    tandem ",
            $role,
            " --link ",
            $link,
            " --insecure-no-key\n",
            "\n",
            "The settings file has the flags' names as keys. A flag beats the file, the file\n",
            "beats the default:\n",
            "    link = \"",
            $link,
            "\"\n",
            "    key = \"/etc/tandem/key\"\n",
            "    ports = [443, 8443]\n",
            "\n",
            "The firewall rules are taken down at the end. Those that a killed proxy left are\n",
            "found and removed at the next start.",
        )
    };
}

// The two commands share their flags and differ in what they say of themselves. Clap wraps what is
// one line here.
pub(crate) const CLIENT_SIDE: &str =
    "Run the proxy on the clients' side of the link (packet mode; root)";
pub(crate) const CLIENT_SIDE_LONG: &str = concat!(
    "Run the proxy on the clients' side of the link, until SIGTERM or SIGINT\n\n",
    "It runs on the last machine before the link: a gateway (its forwarded traffic) or the client itself. It tells \
     the other proxy which certificates it holds, and rebuilds handshakes that arrive shrunk. Where no other proxy \
     answers, every connection passes untouched. It prints `ready` when its firewall rules are in place.",
);
pub(crate) const SERVER_SIDE: &str =
    "Run the proxy on the servers' side of the link (packet mode; root)";
pub(crate) const SERVER_SIDE_LONG: &str = concat!(
    "Run the proxy on the servers' side of the link, until SIGTERM or SIGINT\n\n",
    "It runs on the first machine behind the link: a gateway (its forwarded traffic) or the server itself. It \
     replaces certificates that the other proxy holds by references. Where no other proxy shows itself, every \
     connection passes untouched. It prints `ready` when its firewall rules are in place.",
);
pub(crate) const CLIENT_SIDE_EXAMPLES: &str = examples!("client-side", "ppp0");
pub(crate) const SERVER_SIDE_EXAMPLES: &str = examples!("server-side", "eth1");

/// The flags of both daemons. All may come from the settings file instead.
#[derive(Debug, Args)]
pub(crate) struct DaemonArgs {
    /// Settings file (TOML); its keys are the names of these flags
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// Network interface of the link
    ///
    /// What leaves by it is written shorter, what arrives by it is rebuilt. `ip link` lists the
    /// interfaces.
    #[arg(long, value_name = "IFACE")]
    pub(crate) link: Option<String>,

    /// File with the key that both proxies share (see `tandem keygen`)
    ///
    /// 64 hexadecimal digits, the same on both sides. By the key each proxy knows the other;
    /// without one nothing is rewritten.
    #[arg(long, alias = "key-file", value_name = "FILE")]
    pub(crate) key: Option<PathBuf>,

    /// Run without a key, for trials only
    ///
    /// Anybody on the path, servers too, can then pass for the other proxy: find out what the
    /// store holds, and make handshakes fail.
    #[arg(long)]
    pub(crate) insecure_no_key: bool,

    /// What is done with packets: `packet` or `pass-through` [default: packet]
    ///
    /// `packet` rewrites handshakes in a netfilter queue. `pass-through` takes packets into the
    /// queue and lets them go untouched, to measure what the queue alone costs.
    #[arg(long, value_name = "MODE", value_parser = PossibleValuesParser::new(["packet", "pass-through"]), hide_possible_values = true)]
    pub(crate) mode: Option<String>,

    /// Format on the link: `safe` or `mcveety` [default: safe]
    ///
    /// `safe` is harmless if nobody rebuilds it. `mcveety` is the format of the 2009 thesis, for
    /// redoing its measurements: it breaks connections if the other proxy is absent. Both
    /// sides need the same.
    #[arg(long, value_name = "FORMAT", value_parser = PossibleValuesParser::new(["safe", "mcveety"]), hide_possible_values = true)]
    pub(crate) wire: Option<String>,

    /// Clients' certificates: `persistent`, `cii`, `filter` or `none` [default: persistent]
    ///
    /// `persistent` replaces a client's certificates by references once a handshake with them has
    /// finished: both proxies then remember them. With `cii` the client names its certificates
    /// in its hello, as `tandem-keytap` makes programs do, and the server-side proxy answers
    /// which it holds. With `filter` the server-side proxy publishes what it holds, in ten bits
    /// for each client, and the client-side one keeps none. `none` never touches nor remembers
    /// them. Both sides need the same.
    #[arg(long, value_name = "HOW", value_parser = PossibleValuesParser::new(["persistent", "cii", "filter", "none"]), hide_possible_values = true)]
    pub(crate) client_certificates: Option<String>,

    /// TCP ports of the servers whose connections are looked at, comma between [default: 443]
    #[arg(long, value_name = "PORTS", value_delimiter = ',')]
    pub(crate) ports: Option<Vec<u16>>,

    /// Directory of the store [default: /var/lib/tandem/ROLE-IFACE]
    ///
    /// It holds the certificates seen, by server name: a browsing history, so it is made readable
    /// by its owner only.
    #[arg(long, value_name = "DIR")]
    pub(crate) store: Option<PathBuf>,

    /// Address of status and metrics, or `none` [default: 127.0.0.1:9470, server side 9471]
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) admin: Option<String>,

    /// Print the firewall commands that would be run, and stop; nothing is touched
    #[arg(long)]
    pub(crate) dry_run: bool,

    #[command(flatten)]
    pub(crate) logging: LoggingArgs,

    #[command(flatten)]
    pub(crate) tuning: TuningArgs,
}

/// What is logged, and how.
#[derive(Debug, Args)]
pub(crate) struct LoggingArgs {
    /// What to log, to standard error: a level, or levels by module [default: info]
    ///
    /// Levels are error, warn, info, debug, trace; by module for example
    /// `info,tandem_packet=debug`. Server names and addresses appear from debug on, single
    /// packets from trace on; keys and contents never.
    #[arg(long, value_name = "FILTER")]
    pub(crate) log: Option<String>,

    /// Log lines for people, `text`, or JSON objects, `json` [default: text]
    #[arg(long, value_name = "FORMAT", value_parser = PossibleValuesParser::new(["text", "json"]), hide_possible_values = true)]
    pub(crate) log_format: Option<String>,
}

/// Limits and numbers that rarely need a change.
#[derive(Debug, Args)]
#[command(next_help_heading = "Tuning (the defaults fit)")]
pub(crate) struct TuningArgs {
    /// Segments of an incomplete flight that are held before all go out unaltered
    #[arg(long, hide_short_help = true, value_name = "N")]
    pub(crate) hold_packets: Option<usize>,

    /// Bytes of an incomplete flight that are held before all go out unaltered
    #[arg(long, hide_short_help = true, value_name = "BYTES")]
    pub(crate) hold_bytes: Option<usize>,

    /// Milliseconds that an incomplete flight is held before all goes out unaltered
    #[arg(long, hide_short_help = true, value_name = "MS")]
    pub(crate) hold_ms: Option<u64>,

    /// Milliseconds that an acknowledgement waits for the next segment to say it again; 0: none
    /// waits
    #[arg(long, hide_short_help = true, value_name = "MS")]
    pub(crate) ack_hold_ms: Option<u64>,

    /// Connections that are followed at a time; past it the oldest are let go, untouched
    #[arg(long, hide_short_help = true, value_name = "N")]
    pub(crate) max_flows: Option<usize>,

    /// Number of the netfilter queue [default: made from the role and the interface]
    #[arg(long, hide_short_help = true, value_name = "N")]
    pub(crate) queue: Option<u16>,

    /// Packet mark, one bit, of connections that have left the queue [default: one that no rule
    /// uses]
    #[arg(long, hide_short_help = true, value_name = "MARK", value_parser = number::<u32>)]
    pub(crate) leave_mark: Option<u32>,

    /// Packet mark, one bit, of packets that the proxy sends itself [default: one that no rule
    /// uses]
    #[arg(long, hide_short_help = true, value_name = "MARK", value_parser = number::<u32>)]
    pub(crate) inject_mark: Option<u32>,

    /// Number of the hello extension in which clients name their certificates, with `cii`
    /// [default: 0x009a]
    #[arg(long, hide_short_help = true, value_name = "N", value_parser = number::<u16>)]
    pub(crate) cii_extension: Option<u16>,

    /// With `filter`, one in N chains that are not held passes for held and costs a round trip
    /// [default: 256]
    #[arg(long, hide_short_help = true, value_name = "N", value_parser = number::<u32>)]
    pub(crate) filter_one_in: Option<u32>,

    /// Number of the hello extension of `--wire mcveety` that lists what is held [default: 0x0099]
    #[arg(long, hide_short_help = true, value_name = "N", value_parser = number::<u16>)]
    pub(crate) mcveety_cpi: Option<u16>,

    /// Number of the handshake message of `--wire mcveety` that replaces a certificate list
    /// [default: 0x99]
    #[arg(long, hide_short_help = true, value_name = "N", value_parser = number::<u8>)]
    pub(crate) mcveety_certificate: Option<u8>,
}

/// A number in decimal, or in hexadecimal behind `0x`, as both TOML and `iptables` write marks.
fn number<N: TryFrom<u64>>(text: &str) -> Result<N, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed
        .ok()
        .and_then(|number| N::try_from(number).ok())
        .ok_or_else(|| {
            format!(
                "not a number from 0 to {:#x}",
                !0_u64 >> (64 - 8 * size_of::<N>())
            )
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_decimal_or_hexadecimal_and_bounded() {
        assert_eq!(number::<u16>("153"), Ok(0x99));
        assert_eq!(number::<u16>("0x0099"), Ok(0x99));
        assert_eq!(
            number::<u8>("0x100"),
            Err("not a number from 0 to 0xff".to_owned())
        );
        assert!(number::<u32>("0x").is_err());
        assert!(number::<u32>("-1").is_err());
    }
}
