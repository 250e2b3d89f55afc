//! What has to be known of a site's name before volunteers serve it, and the operator's word that
//! it need not be.
//!
//! Is: one pure function. Is not: the look at the name, nor the judgement of what it finds.
//!
//! Invariant: a public name needs a look, or the operator's consent; a text that is no name counts
//! as one.

use super::Subject;

/// What the operator says to volunteers that may obtain certificates for the site's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Consent {
    /// No; the default.
    Withheld,
    /// Yes: the name is served without a look.
    Given,
}

/// What has to be known of a name before volunteers serve it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Safeguard {
    /// Nothing: no public authority issues for the name.
    Needless,
    /// That no volunteer can get a certificate for it.
    Required,
    /// Nothing, by the operator's consent: any volunteer may get a certificate for it.
    Waived,
}

impl Safeguard {
    /// For a site's name (or address), as its operator has it.
    #[must_use]
    pub fn of(site: &str, consent: Consent) -> Self {
        match (Subject::parse(site), consent) {
            (Some(Subject::Address(_) | Subject::Private(_)), _) => Self::Needless,
            (Some(Subject::Public(_)) | None, Consent::Withheld) => Self::Required,
            (Some(Subject::Public(_)) | None, Consent::Given) => Self::Waived,
        }
    }

    /// What whoever runs the site should never forget; none where nothing was waived.
    #[must_use]
    pub fn warning(self) -> Option<&'static str> {
        match self {
            Self::Needless | Self::Required => None,
            Self::Waived => Some(
                "ANY VOLUNTEER MAY OBTAIN A CERTIFICATE for this name and then serve what it likes \
                 under it, which no client would notice: nobody checks the name's CAA records",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_public_name_needs_a_look_or_consent_and_a_private_one_neither() {
        for (site, withheld, given) in [
            ("www.site.org", Safeguard::Required, Safeguard::Waived),
            ("nas.lan", Safeguard::Required, Safeguard::Waived),
            ("no name", Safeguard::Required, Safeguard::Waived),
            ("", Safeguard::Required, Safeguard::Waived),
            ("site.test", Safeguard::Needless, Safeguard::Needless),
            ("wiki.internal", Safeguard::Needless, Safeguard::Needless),
            ("nas.home.arpa", Safeguard::Needless, Safeguard::Needless),
            ("www.example.org", Safeguard::Needless, Safeguard::Needless),
            ("printer", Safeguard::Needless, Safeguard::Needless),
            ("192.0.2.1", Safeguard::Needless, Safeguard::Needless),
            ("2001:db8::1", Safeguard::Needless, Safeguard::Needless),
        ] {
            assert_eq!(Safeguard::of(site, Consent::Withheld), withheld, "{site}");
            assert_eq!(Safeguard::of(site, Consent::Given), given, "{site}");
        }
    }

    #[test]
    fn only_what_was_waived_is_warned_of() {
        assert!(Safeguard::Waived.warning().is_some());
        assert_eq!(Safeguard::Required.warning(), None);
        assert_eq!(Safeguard::Needless.warning(), None);
    }
}
