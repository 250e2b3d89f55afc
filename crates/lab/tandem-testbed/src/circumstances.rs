//! Under what circumstances a run is made: its `RunInfo`, with its links and programs.

use crate::error::LabError;
use crate::installed::Question;
use crate::links::{self, LinkSpec};
use tandem_report::RunInfo;

/// Programs that may stand at the ends, and how to ask for their version.
const PROGRAMS: [(&str, &[&str]); 6] = [
    ("openssl", &["version"]),
    ("nginx", &["-v"]),
    ("curl", &["--version"]),
    ("gnutls-cli", &["--version"]),
    ("ssh", &["-V"]),
    ("wireguard-go", &["--version"]),
];

/// Of a run over these links that begins now.
///
/// # Errors
/// `Usage` where a link cannot be.
pub fn of_links(links: &[LinkSpec]) -> Result<RunInfo, LabError> {
    let mut info = RunInfo::here();
    for link in links {
        info = info.with_link(&link.name, links::describe(&link.config()?), link.source());
    }
    for (program, question) in PROGRAMS {
        if let Some(version) = Question::new(program, question).ask() {
            info = info.with_program(program, version);
        }
    }
    let congestion_control =
        std::fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control").unwrap_or_default();
    Ok(info.with_program("TCP congestion control", congestion_control.trim()))
}
