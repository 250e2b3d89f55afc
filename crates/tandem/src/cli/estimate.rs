//! `tandem estimate`.

use std::path::PathBuf;

use clap::Args;

use crate::settings::LinkRate;

/// Show how much Tandem would save on your own traffic, from a capture
///
/// Reads pcap and pcapng files, gzipped or not, replays them through both proxies' engines and
/// prints the handshake bytes without and with Tandem, for the first contact and afterwards. It
/// sends nothing and needs no root.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  Make a capture; an hour of a normal day says most (root)
    tcpdump -i eth0 -w capture.pcap 'tcp port 443'
  What would be saved, in bytes, and in seconds on a link of 64 kbit/s
    tandem estimate capture.pcap --link-rate 64k")]
pub(crate) struct EstimateArgs {
    /// Capture file; `-` reads standard input
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,

    /// Print one JSON object instead of the table
    #[arg(long)]
    pub(crate) json: bool,

    /// Rate of your link in bit/s, such as 2400, 64k or 1.5M; the saving is then also given in
    /// seconds
    #[arg(long, value_name = "BPS")]
    pub(crate) link_rate: Option<LinkRate>,
}
