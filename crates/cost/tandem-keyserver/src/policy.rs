//! Who may have what signed by which key.
//!
//! Is not: how often; see `rate`. Is not a list of who may connect either, though a client that no
//! rule names has nothing to connect for.
//!
//! Invariant: what no rule allows is refused.

use std::collections::{BTreeMap, BTreeSet};

use crate::content::TlsVersion;
use crate::frame::Request;
use crate::key::{KeyId, KeyKind};
use crate::scheme::Scheme;

/// What one client may have signed by one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// In handshakes of these versions.
    pub versions: BTreeSet<TlsVersion>,
    /// In these ways.
    pub schemes: BTreeSet<Scheme>,
}

impl Rule {
    /// In handshakes of these versions, in each way that keys of this kind have in one of them.
    #[must_use]
    pub fn all_schemes(kind: KeyKind, versions: BTreeSet<TlsVersion>) -> Self {
        let schemes = Scheme::ALL
            .into_iter()
            .filter(|scheme| scheme.key_kind() == kind)
            .filter(|scheme| versions.iter().any(|version| scheme.is_of(*version)))
            .collect();
        Self { versions, schemes }
    }

    fn allows(&self, request: &Request) -> bool {
        let version = request.content.version();
        self.versions.contains(&version)
            && self.schemes.contains(&request.scheme)
            && request.scheme.is_of(version)
    }
}

/// All rules, by client and key; `P` is what a client is known by.
#[derive(Clone, Debug)]
pub struct Policy<P> {
    rules: BTreeMap<(P, KeyId), Rule>,
}

impl<P: Ord> Default for Policy<P> {
    fn default() -> Self {
        Self {
            rules: BTreeMap::new(),
        }
    }
}

impl<P: Ord + Clone> Policy<P> {
    /// Adds a rule; `false` if there is one for this client and key, which stays.
    pub fn add(&mut self, client: P, key: KeyId, rule: Rule) -> bool {
        match self.rules.entry((client, key)) {
            std::collections::btree_map::Entry::Vacant(place) => {
                place.insert(rule);
                true
            }
            std::collections::btree_map::Entry::Occupied(_) => false,
        }
    }

    /// Whether this client may have this.
    #[must_use]
    pub fn allows(&self, client: &P, request: &Request) -> bool {
        self.rules
            .get(&(client.clone(), request.key))
            .is_some_and(|rule| rule.allows(request))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::{Content, Params};
    use crate::frame::RequestId;

    fn request(key: u8, scheme: Scheme, content: Content) -> Request {
        Request {
            id: RequestId(1),
            key: KeyId::from_bytes([key; 32]),
            scheme,
            content,
        }
    }

    #[test]
    fn what_no_rule_allows_is_refused() {
        let v13 = Content::Transcript32([1; 32]);
        let params = [&[3, 0, 29, 32][..], &[8; 32]].concat();
        let v12 = Content::KeyExchange {
            randoms: [3; 64],
            params: Params::read(&params).expect("X25519"),
        };
        let (pss, pkcs1) = (Scheme::RsaPssSha256, Scheme::RsaPkcs1Sha256);
        let asked = request(1, pss, v13);
        let mut policy = Policy::default();
        assert!(!policy.allows(&"web", &asked));

        let rule = Rule::all_schemes(KeyKind::Rsa, [TlsVersion::V13].into());
        assert!(!rule.schemes.contains(&pkcs1));
        let key = asked.key;
        assert!(policy.add("web", key, rule.clone()));
        assert!(!policy.add("web", key, rule));
        assert!(policy.allows(&"web", &asked));
        assert!(!policy.allows(&"other", &asked));
        assert!(!policy.allows(&"web", &request(2, pss, v13)));
        assert!(!policy.allows(&"web", &request(1, pss, v12)));
        assert!(!policy.allows(&"web", &request(1, Scheme::EcdsaP256Sha256, v13)));

        let both = Rule::all_schemes(KeyKind::Rsa, [TlsVersion::V12, TlsVersion::V13].into());
        assert!(policy.add("old", key, both));
        assert!(policy.allows(&"old", &request(1, pkcs1, v12)));
        // RFC 8446, section 4.2.3, even where a rule has both version and scheme.
        assert!(!policy.allows(&"old", &request(1, pkcs1, v13)));
    }
}
