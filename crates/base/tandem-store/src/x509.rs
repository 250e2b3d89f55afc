//! The two facts that the index needs of a leaf: the names it answers to, and when it ends.
//!
//! Not here: validation. Nothing is trusted because of what is read here; a wrong answer costs
//! bytes, not security. Invariants: work is linear in the certificate, the number of names is
//! bounded by the caller, and bytes that are no certificate have no names and no end. RFC 5280 (the
//! certificate), RFC 6125 section 6.4 (which names count).

use tandem_wire::clock::UnixTime;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::kind::Reading;
use crate::site::Pattern;

/// What the index knows of an object by its first part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeafFacts {
    /// Names it answers to, each once, in the certificate's order.
    pub names: Vec<Pattern>,
    /// The last second of its validity; `None` if it is no certificate.
    pub not_after: Option<UnixTime>,
}

/// From when to when a certificate is valid, first and last second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// The first second.
    pub since: UnixTime,
    /// The last one.
    pub until: UnixTime,
}

impl Validity {
    /// That of a certificate; `None` where it is none.
    #[must_use]
    pub fn of(der: &[u8]) -> Option<Self> {
        let (_, certificate) = X509Certificate::from_der(der).ok()?;
        let validity = certificate.validity();
        let time = |seconds: i64| UnixTime(u64::try_from(seconds).unwrap_or(0));
        Some(Self {
            since: time(validity.not_before.timestamp()),
            until: time(validity.not_after.timestamp()),
        })
    }
}

impl LeafFacts {
    /// Reads what is worth reading of a kind's first part: at most `limit` names.
    pub fn read(reading: Reading, part: &[u8], limit: usize) -> Self {
        match reading {
            Reading::NamesAndEnd => Self::of(part, limit),
            Reading::End => Self::of(part, 0),
            Reading::Nothing => Self::default(),
        }
    }

    /// Reads at most `limit` names.
    fn of(der: &[u8], limit: usize) -> Self {
        let Ok((_, certificate)) = X509Certificate::from_der(der) else {
            return Self::default();
        };
        let end = certificate.validity().not_after.timestamp();
        let mut names = Names {
            kept: Vec::new(),
            limit,
        };
        // A certificate with two such extensions is malformed (RFC 5280, section 4.2); it answers
        // to nothing.
        if let Ok(alternatives) = certificate.subject_alternative_name() {
            let dns_names = || {
                alternatives
                    .iter()
                    .flat_map(|extension| &extension.value.general_names)
                    .filter_map(|name| match name {
                        GeneralName::DNSName(name) => Some(*name),
                        _ => None,
                    })
            };
            // RFC 6125, section 6.4.4: the common name counts only where no dNSName is presented.
            if dns_names().next().is_some() {
                names.keep(dns_names());
            } else {
                // The last one is the most specific (RFC 6125, section 2.3.1).
                names.keep(
                    certificate
                        .subject()
                        .iter_common_name()
                        .filter_map(|name| name.as_str().ok())
                        .last(),
                );
            }
        }
        Self {
            names: names.kept,
            not_after: Some(UnixTime(u64::try_from(end).unwrap_or(0))),
        }
    }
}

/// Collects names, each once, up to a limit.
struct Names {
    kept: Vec<Pattern>,
    limit: usize,
}

impl Names {
    fn keep<'n>(&mut self, candidates: impl IntoIterator<Item = &'n str>) {
        for candidate in candidates {
            if self.kept.len() >= self.limit {
                return;
            }
            if let Some(name) = Pattern::new(candidate) {
                // At most `limit` long, so this stays cheap.
                if !self.kept.contains(&name) {
                    self.kept.push(name);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Certificate;

    fn names(certificate: &Certificate<'_>) -> Vec<String> {
        LeafFacts::of(&certificate.der(), 256)
            .names
            .iter()
            .map(|name| name.as_str().to_owned())
            .collect()
    }

    #[test]
    fn a_certificate_says_from_when_to_when_it_is_valid() {
        let certificate = Certificate {
            not_before: "20010909014640Z",
            not_after: "20010909014641Z",
            ..Certificate::default()
        };
        let validity = Validity::of(&certificate.der()).expect("a certificate");
        let seconds = [validity.since.0, validity.until.0];
        assert_eq!(seconds, [1_000_000_000, 1_000_000_001]);
        assert_eq!(Validity::of(b"none"), None);
    }

    #[test]
    fn alternative_names_count_and_the_common_name_does_not_beside_them() {
        let certificate = Certificate {
            common_name: "cn.example",
            dns_names: &["A.example", "*.b.example", "a.example", "w*.c.example"],
            ..Certificate::default()
        };
        assert_eq!(names(&certificate), ["a.example", "*.b.example"]);
    }

    #[test]
    fn the_common_name_counts_where_there_is_no_alternative_name() {
        assert_eq!(
            names(&Certificate {
                common_name: "cn.example",
                ..Certificate::default()
            }),
            ["cn.example"]
        );
        assert_eq!(
            names(&Certificate {
                common_name: "Some Company Ltd",
                ..Certificate::default()
            }),
            [""; 0]
        );
    }

    #[test]
    fn the_end_is_read() {
        let certificate = Certificate {
            not_after: "20300102030405Z",
            ..Certificate::default()
        };
        assert_eq!(
            LeafFacts::of(&certificate.der(), 1).not_after,
            Some(UnixTime(1_893_553_445))
        );
    }

    #[test]
    fn ten_thousand_names_are_indexed_up_to_the_limit() {
        let many: Vec<String> = (0..10_000).map(|n| format!("n{n}.example.com")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let facts = LeafFacts::of(
            &Certificate {
                dns_names: &many,
                ..Certificate::default()
            }
            .der(),
            256,
        );
        assert_eq!(facts.names.len(), 256);
        assert_eq!(facts.names[255].as_str(), "n255.example.com");
    }

    #[test]
    fn bytes_that_are_no_certificate_have_no_names_and_no_end() {
        let der = Certificate::default().der();
        for bytes in [
            &b""[..],
            b"0",
            b"not a certificate",
            &der[..der.len() - 1],
            &[0x30; 300],
        ] {
            assert_eq!(LeafFacts::of(bytes, 256), LeafFacts::default());
        }
    }

    proptest::proptest! {
        #[test]
        fn damaged_certificates_do_no_harm(at in 0_usize..400, with in 0_u8..=255, cut in 0_usize..400) {
            let mut der = Certificate { dns_names: &["a.example", "*.b.example"], ..Certificate::default() }.der();
            let length = der.len();
            der[at % length] = with;
            der.truncate(length - cut % length);
            LeafFacts::of(&der, 256);
        }
    }
}
