//! Under what circumstances a run is made: its `RunInfo`, with its links and programs.

use std::process::Command;

use crate::error::LabError;
use crate::links::{self, LinkSpec};
use tandem_report::RunInfo;

/// Programs that may stand at the ends, and how to ask for their version.
const PROGRAMS: [(&str, &str); 4] = [
    ("openssl", "version"),
    ("nginx", "-v"),
    ("curl", "--version"),
    ("gnutls-cli", "--version"),
];

/// Of a run over these links that begins now.
///
/// # Errors
/// `Usage` where a link cannot be.
pub(crate) fn of_links(links: &[LinkSpec]) -> Result<RunInfo, LabError> {
    let mut info = RunInfo::here();
    for link in links {
        info = info.with_link(&link.name, links::describe(&link.config()?), link.source());
    }
    for (program, question) in PROGRAMS {
        if let Some(version) = version_of(program, question) {
            info = info.with_program(program, version);
        }
    }
    let congestion_control =
        std::fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control").unwrap_or_default();
    Ok(info.with_program("TCP congestion control", congestion_control.trim()))
}

/// What a program says of its version: the first number with a dot. nginx says it to standard
/// error.
fn version_of(program: &str, question: &str) -> Option<String> {
    let output = Command::new(program).arg(question).output().ok()?;
    let text = if output.stdout.is_empty() {
        output.stderr
    } else {
        output.stdout
    };
    number_in(&String::from_utf8_lossy(&text))
}

fn number_in(text: &str) -> Option<String> {
    text.split(|character: char| character.is_whitespace() || character == '/')
        .find(|word| word.starts_with(|first: char| first.is_ascii_digit()) && word.contains('.'))
        .map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_found_in_what_programs_say() {
        let says = |text| number_in(text).unwrap_or_default();
        assert_eq!(says("OpenSSL 3.0.19 27 Jan 2026"), "3.0.19");
        assert_eq!(says("nginx version: nginx/1.22.1\n"), "1.22.1");
        assert_eq!(says("curl 7.88.1 (x86_64-pc-linux-gnu)"), "7.88.1");
        assert_eq!(says("nothing"), "");
    }
}
