//! The value of an `issue` or `issuewild` property.
//!
//! ```text
//!  value      = *WSP [name *WSP] [";" *WSP [parameter *(*WSP ";" *WSP parameter) *WSP]]      (RFC 8659, section 4.2)
//!  parameter  = tag "=" value      tag: letters, digits, inner hyphens; value: %x21-3A / %x3C-7E
//! ```
//!
//! Invariant: what is not of this form, or says a thing twice, is [`Reading::Malformed`]: an
//! authority that is lenient could take it for more than it says.

use crate::uri::Name;

/// What a value says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Reading {
    /// This authority may issue.
    Issuer(Issue),
    /// Nobody may.
    Nobody,
    /// Who knows.
    Malformed,
}

/// Who may issue, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Issue {
    /// The authority's domain name.
    pub(super) authority: String,
    /// The account that may ask (RFC 8657, section 3); any if absent.
    pub(super) account: Option<String>,
    /// The ways of validation (RFC 8657, section 4); any if absent.
    pub(super) methods: Option<Vec<String>>,
}

impl Reading {
    pub(super) fn of(value: &[u8]) -> Self {
        Self::try_of(value).unwrap_or(Self::Malformed)
    }

    fn try_of(value: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(value).ok()?;
        let (issuer, parameters) = match text.split_once(';') {
            Some((issuer, parameters)) => (trimmed(issuer), trimmed(parameters)),
            None => (trimmed(text), ""),
        };
        let mut account = None;
        let mut methods = None;
        let parameters = (!parameters.is_empty()).then(|| parameters.split(';').map(trimmed));
        let mut seen = Vec::new();
        for parameter in parameters.into_iter().flatten() {
            let (tag, value) = parameter.split_once('=')?;
            if !is_tag(tag) || !value.bytes().all(|byte| matches!(byte, 0x21..=0x7e)) {
                return None;
            }
            // Once each, also where only the case differs: authorities might take either.
            let lower = tag.to_ascii_lowercase();
            if seen.contains(&lower) {
                return None;
            }
            seen.push(lower);
            match tag {
                "accounturi" if value.contains(':') => account = Some(value.to_owned()),
                "accounturi" => return None,
                "validationmethods" => methods = Some(methods_of(value)?),
                // Unknown parameters are for the authority to understand.
                _ => {}
            }
        }
        if issuer.is_empty() {
            return Some(Self::Nobody);
        }
        Some(Self::Issuer(Issue {
            authority: Name::parse(issuer)?.as_str().to_owned(),
            account,
            methods,
        }))
    }
}

fn methods_of(value: &str) -> Option<Vec<String>> {
    let methods: Vec<String> = value.split(',').map(str::to_owned).collect();
    methods
        .iter()
        .all(|method| is_tag(method))
        .then_some(methods)
}

fn is_tag(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    !text.is_empty() && text.bytes().all(fits) && !text.starts_with('-') && !text.ends_with('-')
}

fn trimmed(text: &str) -> &str {
    text.trim_matches([' ', '\t'])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn issuer(authority: &str, account: Option<&str>, methods: Option<&[&str]>) -> Reading {
        let owned = |text: &&str| (*text).to_owned();
        Reading::Issuer(Issue {
            authority: authority.to_owned(),
            account: account.map(str::to_owned),
            methods: methods.map(|methods| methods.iter().map(owned).collect()),
        })
    }

    #[test]
    fn values_of_the_specifications_are_read() {
        let account = Some("https://example.net/account/1234");
        for (value, reading) in [
            ("ca1.example.net", issuer("ca1.example.net", None, None)),
            (" CA1.example.net\t;", issuer("ca1.example.net", None, None)),
            (
                "example.net; accounturi=https://example.net/account/1234",
                issuer("example.net", account, None),
            ),
            (
                "example.net;validationmethods=dns-01,xyz-01 ; accounturi=https://example.net/account/1234",
                issuer("example.net", account, Some(&["dns-01", "xyz-01"])),
            ),
            (
                "ca1.example.net; policy=ev",
                issuer("ca1.example.net", None, None),
            ),
            (";", Reading::Nobody),
            ("", Reading::Nobody),
            (" ; tag=value", Reading::Nobody),
        ] {
            assert_eq!(Reading::of(value.as_bytes()), reading, "{value}");
        }
    }

    #[test]
    fn what_can_be_read_in_two_ways_is_malformed() {
        for value in [
            "%%%%%",
            "ca.example.net; accounturi",
            "ca.example.net; =x",
            "ca.example.net; accounturi=nothing",
            "ca.example.net; accounturi=a:1; accounturi=a:2",
            "ca.example.net; validationmethods=dns-01; ValidationMethods=http-01",
            "ca.example.net; validationmethods=",
            "ca.example.net; validationmethods=dns-01,",
            "ca.example.net; validationmethods=dns-01, http-01",
            "ca.example.net;; validationmethods=dns-01",
            "ca.example.net; a=b;",
            "ca.example.net other.example; a=b",
            "ca.example.net validationmethods=dns-01",
            "\u{e9}.example",
        ] {
            assert_eq!(Reading::of(value.as_bytes()), Reading::Malformed, "{value}");
        }
        assert_eq!(Reading::of(b"ca.example.net\0"), Reading::Malformed);
        assert_eq!(Reading::of(&[0xff]), Reading::Malformed);
    }

    proptest! {
        #[test]
        fn any_bytes_are_safe(value in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Reading::of(&value);
        }
    }
}
