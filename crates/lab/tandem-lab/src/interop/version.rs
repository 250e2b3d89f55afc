//! Versions: of TLS as programs name them, and of the programs themselves.

use std::ffi::OsString;
use std::process::Command;

use crate::endpoints::Version;

/// All that are tried, oldest first.
pub(crate) const VERSIONS: [Version; 4] = [
    Version::Tls10,
    Version::Tls11,
    Version::Tls12,
    Version::Tls13,
];

/// Versions from one to another, both included.
pub(crate) fn span(low: Version, high: Version) -> impl Iterator<Item = Version> {
    VERSIONS
        .into_iter()
        .filter(move |version| (low..=high).contains(version))
}

/// As OpenSSL's users name it: `TLSv1`, `TLSv1.1`.
pub(crate) fn openssl_name(version: Version) -> &'static str {
    match version {
        Version::Tls10 => "TLSv1",
        Version::Tls11 => "TLSv1.1",
        Version::Tls12 => "TLSv1.2",
        Version::Tls13 => "TLSv1.3",
    }
}

/// GnuTLS's priority string for versions from one to another.
pub(crate) fn gnutls_priority(low: Version, high: Version) -> String {
    span(low, high).fold("NORMAL:-VERS-ALL".to_owned(), |text, version| {
        format!("{text}:+VERS-TLS{}", version.name())
    })
}

/// How to ask a program for its version.
#[derive(Debug)]
pub(crate) struct Question {
    program: OsString,
    words: &'static [&'static str],
}

impl Question {
    pub(crate) fn new(program: impl Into<OsString>, words: &'static [&'static str]) -> Self {
        Self {
            program: program.into(),
            words,
        }
    }

    /// The first number with a dot in the answer; some answer to standard error.
    pub(crate) fn ask(&self) -> Option<String> {
        let output = Command::new(&self.program).args(self.words).output().ok()?;
        let all = [output.stdout, output.stderr].concat();
        number_in(&String::from_utf8_lossy(&all))
    }
}

fn number_in(text: &str) -> Option<String> {
    text.split(|letter: char| !letter.is_ascii_digit() && letter != '.')
        .map(|word| word.trim_matches('.'))
        .find(|word| word.contains('.'))
        .map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_found_in_what_programs_say() {
        let says = |text| number_in(text).unwrap_or_default();
        assert_eq!(says("go version go1.26.8 linux/amd64"), "1.26.8");
        assert_eq!(says("Server version: Apache/2.4.71 (Debian)"), "2.4.71");
        assert_eq!(says("2:3.87.1-1+deb12u4"), "3.87.1");
        assert_eq!(
            says("HAProxy version 2.6.12-1+deb12u4 2025/10/03"),
            "2.6.12"
        );
        assert_eq!(says("v20.20.2\n"), "20.20.2");
        assert_eq!(says("none."), "");
    }

    #[test]
    fn a_span_of_versions_is_named_as_gnutls_wants_it() {
        assert_eq!(
            gnutls_priority(Version::Tls11, Version::Tls12),
            "NORMAL:-VERS-ALL:+VERS-TLS1.1:+VERS-TLS1.2"
        );
    }
}
