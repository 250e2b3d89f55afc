//! Versions of TLS, as programs name them.

use tandem_testbed::endpoints::Version;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_of_versions_is_named_as_gnutls_wants_it() {
        assert_eq!(
            gnutls_priority(Version::Tls11, Version::Tls12),
            "NORMAL:-VERS-ALL:+VERS-TLS1.1:+VERS-TLS1.2"
        );
    }
}
