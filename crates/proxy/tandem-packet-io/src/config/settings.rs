//! What the user said, in the file and on the command line, before it is checked.
//!
//! Is not: a decision on any value ([`super::Config::resolve`]).
//!
//! Invariant: keys of the file and names of the flags are the same; a key that is not known is an
//! error that names the nearest one.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::error::IoError;

/// Every setting, all of them optional.
#[derive(Debug, Default, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Settings {
    /// The interface of the link. No default.
    pub link: Option<String>,
    /// `packet` (default) or `pass-through`.
    pub mode: Option<String>,
    /// `safe` (default) or `mcveety`.
    pub wire: Option<String>,
    /// `persistent` (default), `cii`, `filter` or `none`.
    pub client_certificates: Option<String>,
    /// Number of the hello's extension, with `cii`. Default 0x009a.
    pub cii_extension: Option<u16>,
    /// One in so many chains passes for held though it is not, with `filter`. Default 256.
    pub filter_one_in: Option<u32>,
    /// Code point of the possession extension, with `mcveety`. Default 0x0099.
    pub mcveety_cpi: Option<u16>,
    /// Handshake type of the compressed certificate, with `mcveety`. Default 0x99.
    pub mcveety_certificate: Option<u8>,
    /// The file of the key that the pair shares: 64 hex digits.
    #[serde(alias = "key-file")]
    pub key: Option<PathBuf>,
    /// Whether to do without a key. Default false.
    pub insecure_no_key: Option<bool>,
    /// Ports of the servers. Default 443.
    pub ports: Option<Vec<u16>>,
    /// Directory of the store.
    pub store: Option<PathBuf>,
    /// `ADDRESS:PORT` of the admin port, or `none`. Port 0: any that is free.
    pub admin: Option<String>,
    /// Segments of one unfinished flight that are held.
    pub hold_packets: Option<usize>,
    /// Bytes of one unfinished flight that are held.
    pub hold_bytes: Option<usize>,
    /// Milliseconds that an unfinished flight is held.
    pub hold_ms: Option<u64>,
    /// Milliseconds that an acknowledgement waits for the next segment to say it again; 0: none
    /// waits.
    pub ack_hold_ms: Option<u64>,
    /// Flows that are known at one time.
    pub max_flows: Option<usize>,
    /// Number of the packet queue. Default: derived from role and link.
    pub queue: Option<u16>,
    /// The mark bit of connections that have left the queue. Default: the first free.
    pub leave_mark: Option<u32>,
    /// The mark bit of injected packets. Default: the first free.
    pub inject_mark: Option<u32>,
    /// Filter of the log; the binary's.
    pub log: Option<String>,
    /// Format of the log; the binary's.
    pub log_format: Option<String>,
}

/// The keys of the file.
const KEYS: [&str; 23] = [
    "link",
    "mode",
    "wire",
    "client-certificates",
    "cii-extension",
    "filter-one-in",
    "mcveety-cpi",
    "mcveety-certificate",
    "key",
    "insecure-no-key",
    "ports",
    "store",
    "admin",
    "hold-packets",
    "hold-bytes",
    "hold-ms",
    "ack-hold-ms",
    "max-flows",
    "queue",
    "leave-mark",
    "inject-mark",
    "log",
    "log-format",
];

impl Settings {
    /// Reads a file.
    ///
    /// # Errors
    /// It cannot be read, or as [`Self::parse`].
    pub fn load(path: &Path) -> Result<Self, IoError> {
        let text = std::fs::read_to_string(path).map_err(|source| IoError::ConfigFile {
            path: path.to_owned(),
            source,
        })?;
        Self::parse(&text, path)
    }

    /// Reads TOML; `path` is named in errors.
    ///
    /// # Errors
    /// No TOML, an unknown key, or a value of the wrong type; with the line.
    pub fn parse(text: &str, path: &Path) -> Result<Self, IoError> {
        toml::from_str(text).map_err(|error| {
            let span = error.span().unwrap_or_default();
            let line = 1 + text
                .bytes()
                .take(span.start)
                .filter(|byte| *byte == b'\n')
                .count();
            let word = text.get(span).unwrap_or_default();
            let problem = if error.message().starts_with("unknown field") {
                format!(
                    "there is no setting `{word}`; the nearest is `{}`",
                    nearest(word)
                )
            } else {
                error.message().replace('\n', " ")
            };
            IoError::ConfigSyntax {
                path: path.to_owned(),
                line,
                problem,
            }
        })
    }

    /// What `self` says, and where it says nothing, what `below` says: `flags.over(file)`.
    #[must_use]
    pub fn over(self, below: Self) -> Self {
        Self {
            link: self.link.or(below.link),
            mode: self.mode.or(below.mode),
            wire: self.wire.or(below.wire),
            client_certificates: self.client_certificates.or(below.client_certificates),
            cii_extension: self.cii_extension.or(below.cii_extension),
            filter_one_in: self.filter_one_in.or(below.filter_one_in),
            mcveety_cpi: self.mcveety_cpi.or(below.mcveety_cpi),
            mcveety_certificate: self.mcveety_certificate.or(below.mcveety_certificate),
            key: self.key.or(below.key),
            insecure_no_key: self.insecure_no_key.or(below.insecure_no_key),
            ports: self.ports.or(below.ports),
            store: self.store.or(below.store),
            admin: self.admin.or(below.admin),
            hold_packets: self.hold_packets.or(below.hold_packets),
            hold_bytes: self.hold_bytes.or(below.hold_bytes),
            hold_ms: self.hold_ms.or(below.hold_ms),
            ack_hold_ms: self.ack_hold_ms.or(below.ack_hold_ms),
            max_flows: self.max_flows.or(below.max_flows),
            queue: self.queue.or(below.queue),
            leave_mark: self.leave_mark.or(below.leave_mark),
            inject_mark: self.inject_mark.or(below.inject_mark),
            log: self.log.or(below.log),
            log_format: self.log_format.or(below.log_format),
        }
    }
}

/// The key that takes the fewest edits to get to from `word`.
fn nearest(word: &str) -> &'static str {
    // A key is short; a long word gains nothing by being compared whole.
    let word: Vec<char> = word
        .chars()
        .take(40)
        .map(|c| if c == '_' { '-' } else { c })
        .collect();
    KEYS.into_iter()
        .min_by_key(|key| edits(&word, key))
        .unwrap_or(KEYS[0])
}

/// Levenshtein's distance, row by row.
fn edits(word: &[char], key: &str) -> usize {
    let mut row: Vec<usize> = (0..=word.len()).collect();
    for (i, wanted) in key.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, found) in word.iter().enumerate() {
            let replaced = diagonal + usize::from(*found != wanted);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Settings, String> {
        Settings::parse(text, Path::new("t.toml")).map_err(|error| {
            assert!(matches!(error, IoError::ConfigSyntax { .. }), "{error:?}");
            error.to_string()
        })
    }

    #[test]
    fn every_key_is_read() {
        let text = "\
link = \"tun0\"\nmode = \"packet\"\nwire = \"mcveety\"\nclient-certificates = \"cii\"\ncii-extension = 0x009b\nfilter-one-in = 16\nmcveety-cpi = 0x0098\nmcveety-certificate = 0x98
key = \"/k\"\ninsecure-no-key = false\nports = [443, 8443]\nstore = \"/s\"\nadmin = \"none\"\nhold-packets = 1\nhold-bytes = 2
hold-ms = 3\nack-hold-ms = 9\nmax-flows = 4\nqueue = 5\nleave-mark = 0x10\ninject-mark = 0x20\nlog = \"info\"\nlog-format = \"json\"\n";
        for key in KEYS {
            assert!(text.contains(&format!("{key} = ")), "{key}");
        }
        let all = parse(text).expect("all keys are good");
        assert_eq!(all.mcveety_cpi, Some(0x98));
        assert_eq!(all.ports, Some(vec![443, 8443]));
        assert_eq!(all.clone().over(Settings::default()), all);
        assert_eq!(Settings::default().over(all.clone()), all);
    }

    #[test]
    fn flags_win_over_the_file() {
        let flags = Settings {
            link: Some("a".into()),
            ..Settings::default()
        };
        let file = parse("link = \"b\"\nqueue = 7").expect("good");
        let both = flags.over(file);
        assert_eq!((both.link.as_deref(), both.queue), (Some("a"), Some(7)));
    }

    #[test]
    fn an_unknown_key_is_answered_with_the_nearest_and_its_line() {
        let text = parse("link = \"a\"\nport = [1]").expect_err("no such key");
        assert_eq!(
            text,
            "t.toml, line 2: there is no setting `port`; the nearest is `ports`"
        );
        let text = parse("hold_ms = 3").expect_err("no such key");
        assert!(text.ends_with("`hold-ms`"), "{text}");
    }

    #[test]
    fn wrong_values_are_one_line_with_its_number() {
        for (text, line) in [
            ("link = 3", 1),
            ("\nqueue = 65536", 2),
            ("\n\nports = 443", 3),
            ("link = ", 1),
            ("=", 1),
        ] {
            let problem = parse(text).expect_err(text);
            assert!(
                problem.starts_with(&format!("t.toml, line {line}: ")),
                "{problem}"
            );
            assert!(!problem.contains('\n'), "{problem}");
        }
    }
}
