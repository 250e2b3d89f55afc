//! The page that shows a status, and what it may do.
//!
//! Is not: served here. Whoever serves it sends [`POLICY`] with it.
//!
//! Invariants: it loads nothing but the status, from where it came; no other script runs in it than
//! its own, whatever names of sites say.

/// `/` of the admin port.
pub const PAGE: &str = include_str!("page.html");

/// Its Content-Security-Policy. The digests are those of its script and its style.
pub const POLICY: &str = "default-src 'none'; \
    script-src 'sha256-mjoflGft5FRJMbao8COx8ymkqUUoa6YRQZkNUdwFrBM='; \
    style-src 'sha256-nmSTJftoLrix2uRYEdGCSGHn2p186TB4mFlsOzLsjjI='; \
    connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

#[cfg(test)]
mod tests {
    use super::*;
    use data_encoding::BASE64;
    use sha2::{Digest as _, Sha256};

    /// What stands in the one element of this name.
    fn element(name: &str) -> &'static str {
        let (open, close) = (format!("<{name}>"), format!("</{name}>"));
        assert_eq!(PAGE.matches(&open).count(), 1, "one {name}");
        let rest = PAGE.split(&open).nth(1).expect("it is there");
        rest.split(&close).next().expect("it ends")
    }

    #[test]
    fn the_policy_permits_the_page_s_own_script_and_style_alone() {
        for name in ["script", "style"] {
            let digest = BASE64.encode(&Sha256::digest(element(name)));
            let source = format!("{name}-src 'sha256-{digest}';");
            assert!(POLICY.contains(&source), "the policy needs {source}");
        }
        assert!(POLICY.starts_with("default-src 'none'; "));
        assert!(!POLICY.contains("unsafe"));
    }

    #[test]
    fn nothing_in_the_page_makes_code_or_markup_of_text() {
        for word in [
            "innerHTML",
            "outerHTML",
            "insertAdjacent",
            "document.write",
            "eval(",
            " on",
        ] {
            let found = PAGE.lines().find(|line| match word {
                " on" => line.contains(" onclick=") || line.contains(" onload="),
                word => line.contains(word),
            });
            assert_eq!(found, None, "{word}");
        }
        assert!(!PAGE.contains(" style=\"") && !PAGE.contains("http"));
    }
}
