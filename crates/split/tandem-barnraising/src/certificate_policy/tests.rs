//! What is refused, by its name, and what is let through. Is not: how one value is read
//! (`value.rs`).

use proptest::prelude::*;

use super::*;

const ACCOUNT: &str = "https://acme-v02.api.letsencrypt.org/acme/acct/1";

fn name() -> Name {
    Name::parse("www.site.org").expect("a name")
}

fn caa(tag: &str, value: &str) -> Caa {
    Caa {
        flags: 0,
        tag: tag.to_owned(),
        value: value.as_bytes().to_vec(),
    }
}

fn strict() -> String {
    format!("letsencrypt.org; accounturi={ACCOUNT}; validationmethods=dns-01")
}

fn evidence(caa: Vec<Caa>) -> Evidence {
    Evidence {
        chain: Chain::Secure,
        name: Presence::There,
        caa,
        https: Presence::There,
        certificate: None,
        observant: Vec::new(),
        registrable: Registrable::Domain("site.org".to_owned()),
    }
}

fn codes(evidence: &Evidence, weight: Weight) -> Vec<&'static str> {
    judge(&name(), evidence)
        .iter()
        .filter(|finding| finding.weight() == weight)
        .map(Finding::code)
        .collect()
}

fn refusals(records: &[(&str, &str)]) -> Vec<&'static str> {
    let records = records.iter().map(|(tag, value)| caa(tag, value));
    codes(&evidence(records.collect()), Weight::Refusal)
}

#[test]
fn one_account_by_dns_01_and_no_wildcards_is_acceptable() {
    let strict = strict();
    for records in [
        vec![("issue", strict.as_str()), ("issuewild", ";")],
        vec![
            ("ISSUE", strict.as_str()),
            ("IssueWild", ""),
            ("iodef", "mailto:a@b.example"),
        ],
        vec![
            ("issue", strict.as_str()),
            ("issue", ";"),
            ("issuewild", ";"),
        ],
        vec![("issue", ";")],
        vec![("issue", ";"), ("issuewild", ";")],
    ] {
        assert_eq!(refusals(&records), [""; 0], "{records:?}");
    }
}

#[test]
fn only_a_refusal_speaks_against_volunteers() {
    let good = evidence(vec![caa("issue", &strict()), caa("issuewild", ";")]);
    let findings = judge(&name(), &good);
    assert!(!findings.is_empty(), "hints, at least");
    assert!(acceptable(&findings));
    assert!(acceptable(&[]));
    assert!(!acceptable(&judge(&name(), &evidence(Vec::new()))));
    let unsigned = Evidence {
        chain: Chain::Insecure,
        ..good
    };
    assert!(!acceptable(&judge(&name(), &unsigned)));
}

/// An operator reads what is wrong and what to do, so no two findings may say the same.
#[test]
fn each_finding_says_what_it_is_and_what_to_do() {
    let with = |records: &[(&str, &str)]| {
        let records = records.iter().map(|(tag, value)| caa(tag, value));
        judge(&name(), &evidence(records.collect()))
    };
    let findings = [
        with(&[]),
        with(&[("issue", "letsencrypt.org")]),
        with(&[(
            "issue",
            "nobody.example; accounturi=a; validationmethods=http-01",
        )]),
    ];
    for findings in &findings {
        let said: std::collections::BTreeSet<String> =
            findings.iter().map(Finding::to_string).collect();
        assert_eq!(said.len(), findings.len());
        for finding in findings {
            let (said, remedy) = (finding.to_string(), finding.remedy());
            assert!(said.len() > 10 && remedy.contains(' '), "{said}: {remedy}");
            assert_ne!(said, remedy);
        }
    }
    let names_the_authority = |finding: &Finding| finding.to_string().contains("letsencrypt.org");
    assert!(findings[1].iter().any(names_the_authority));
}

#[test]
fn each_gap_is_refused_by_its_name() {
    let strict = strict();
    let other = strict.replace("acct/1", "acct/2");
    let no_wild = ("issuewild", ";");
    for (records, codes) in [
        (vec![], vec!["no-caa"]),
        (
            vec![("iodef", "mailto:a@b.example")],
            vec!["nobody-named", "wildcards"],
        ),
        (vec![no_wild], vec!["nobody-named"]),
        (vec![("issue", strict.as_str())], vec!["wildcards"]),
        (
            vec![("issue", strict.as_str()), ("issuewild", strict.as_str())],
            vec!["wildcards"],
        ),
        (
            vec![("issue", "letsencrypt.org"), no_wild],
            vec!["any-method", "any-account"],
        ),
        (
            vec![
                ("issue", "letsencrypt.org; accounturi=https://a.example/1"),
                no_wild,
            ],
            vec!["any-method"],
        ),
        (
            vec![
                ("issue", "letsencrypt.org; validationmethods=dns-01"),
                no_wild,
            ],
            vec!["any-account"],
        ),
        (
            vec![
                (
                    "issue",
                    "letsencrypt.org; validationmethods=http-01,dns-01,tls-alpn-01; accounturi=a:b",
                ),
                no_wild,
            ],
            vec!["other-method", "other-method"],
        ),
        (
            vec![
                ("issue", strict.as_str()),
                (
                    "issue",
                    "ca.example; accounturi=a:b; validationmethods=dns-01",
                ),
                no_wild,
            ],
            vec!["unknown-authority", "several-authorities"],
        ),
        (
            vec![
                ("issue", strict.as_str()),
                ("issue", other.as_str()),
                no_wild,
            ],
            vec!["several-accounts"],
        ),
        (
            vec![
                ("issue", strict.as_str()),
                ("issue", "letsencrypt.org"),
                no_wild,
            ],
            vec!["any-method", "any-account"],
        ),
        (
            vec![("issue", "letsencrypt.org; accounturi"), no_wild],
            vec!["malformed"],
        ),
        (
            vec![("issue", strict.as_str()), ("issuewild", "%")],
            vec!["malformed"],
        ),
        (
            vec![
                (
                    "issue",
                    "letsencrypt.org; VALIDATIONMETHODS=dns-01; accounturi=a:b",
                ),
                no_wild,
            ],
            vec!["any-method"],
        ),
    ] {
        assert_eq!(refusals(&records), codes, "{records:?}");
    }
}

#[test]
fn good_records_that_cannot_be_believed_are_refused() {
    let good = vec![caa("issue", &strict()), caa("issuewild", ";")];
    for (chain, code) in [
        (Chain::Insecure, "not-signed"),
        (Chain::Bogus, "bogus"),
        (Chain::Unanswered, "unanswered"),
    ] {
        let evidence = Evidence {
            chain,
            ..evidence(good.clone())
        };
        assert_eq!(codes(&evidence, Weight::Refusal), [code]);
    }
    let missing = Evidence {
        name: Presence::Missing,
        ..evidence(Vec::new())
    };
    assert_eq!(codes(&missing, Weight::Refusal), ["no-such-name"]);
}

#[test]
fn a_certificate_for_more_than_this_host_is_refused() {
    let with = |names: &[&str]| {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        let records = vec![caa("issue", &strict()), caa("issuewild", ";")];
        codes(
            &Evidence {
                certificate: Some(names),
                ..evidence(records)
            },
            Weight::Refusal,
        )
    };
    assert_eq!(with(&["WWW.site.org"]), [""; 0]);
    assert_eq!(with(&["www.site.org", "mail.site.org"]), ["more-names"]);
    assert_eq!(with(&["*.site.org"]), ["other-name"]);
}

#[test]
fn hints_tell_what_is_to_be_seen_to_elsewhere() {
    let mut evidence = evidence(vec![caa("issue", &strict()), caa("issuewild", ";")]);
    assert_eq!(
        codes(&evidence, Weight::Hint),
        ["preload", "shared-domain", "watch-logs"]
    );
    evidence.caa = vec![caa("issue", ";")];
    evidence.https = Presence::Missing;
    assert_eq!(
        codes(&evidence, Weight::Hint),
        [
            "nobody-may-issue",
            "no-https-record",
            "preload",
            "shared-domain",
            "watch-logs"
        ]
    );
}

#[test]
fn a_name_shares_cookies_with_what_was_registered_together_with_it() {
    let shared = |text: &str, registrable: Registrable| {
        let evidence = Evidence {
            registrable,
            ..evidence(vec![caa("issue", ";")])
        };
        let findings = judge(&Name::parse(text).expect("a name"), &evidence);
        findings.into_iter().find_map(|finding| match finding {
            Finding::SharedDomain { parent } => Some((parent, true)),
            Finding::PerhapsSharedDomain { parent } => Some((parent, false)),
            _ => None,
        })
    };
    let domain = |text: &str| Registrable::Domain(text.to_owned());
    let parent = |text: &str, is_known| Some((text.to_owned(), is_known));
    assert_eq!(shared("site.org", domain("site.org")), None);
    assert_eq!(
        shared("a.b.site.co.uk", domain("site.co.uk")),
        parent("site.co.uk", true)
    );
    assert_eq!(shared("site.co.uk", domain("site.co.uk")), None);
    assert_eq!(shared("co.uk", Registrable::Suffix), None);
    assert_eq!(
        shared("www.site.lan", Registrable::Unknown),
        parent("site.lan", false)
    );
    assert_eq!(shared("site.lan", Registrable::Unknown), None);
}

#[test]
fn where_a_whole_top_level_domain_is_preloaded_nothing_is_to_be_done() {
    let evidence = evidence(vec![caa("issue", ";")]);
    for (text, is_hinted) in [
        ("site.dev", false),
        ("www.site.app", false),
        ("dev.site.org", true),
        ("site.notdev", true),
    ] {
        let findings = judge(&Name::parse(text).expect("a name"), &evidence);
        assert_eq!(findings.contains(&Finding::Preload), is_hinted, "{text}");
    }
}

#[test]
fn an_authority_that_may_not_observe_accounts_is_refused_unless_the_operator_vouches_for_it() {
    let value = "ca.example; accounturi=a:b; validationmethods=dns-01";
    let mut evidence = evidence(vec![caa("issue", value), caa("issuewild", ";")]);
    assert_eq!(codes(&evidence, Weight::Refusal), ["unknown-authority"]);
    evidence.observant = vec!["other.example".to_owned()];
    assert_eq!(codes(&evidence, Weight::Refusal), ["unknown-authority"]);
    evidence.observant.push("CA.example".to_owned());
    assert_eq!(codes(&evidence, Weight::Refusal), [""; 0]);
}

#[test]
fn names_that_nobody_issues_for_are_private() {
    for text in [
        "localhost",
        "a.localhost",
        "site.test",
        "SITE.Internal.",
        "a.home.arpa",
        "printer",
        "a.local",
        "x.example",
        "home.arpa",
        "example.org",
        "www.Example.COM",
        "a.b.example.net",
    ] {
        assert!(
            matches!(Subject::parse(text), Some(Subject::Private(_))),
            "{text}"
        );
    }
    for text in ["192.0.2.1", "2001:db8::1", "[2001:db8::1]"] {
        assert!(
            matches!(Subject::parse(text), Some(Subject::Address(_))),
            "{text}"
        );
    }
    for text in [
        "site.org",
        "test.site.com",
        "example.site.org",
        "myexample.org",
        "example.edu",
        "nas.lan",
        "nothome.arpa",
        "contest.net",
        "a.b.c",
    ] {
        assert!(
            matches!(Subject::parse(text), Some(Subject::Public(_))),
            "{text}"
        );
    }
    for text in ["", "a b", "-a.org", "a..b", "[x]"] {
        assert_eq!(Subject::parse(text), None, "{text}");
    }
}

fn any_record() -> impl Strategy<Value = Caa> {
    let tag = prop_oneof![
        Just("issue"),
        Just("issuewild"),
        Just("iodef"),
        Just("other")
    ];
    let parts = prop_oneof![
        Just(";"),
        Just("letsencrypt.org"),
        Just("; accounturi=a:b"),
        Just("; validationmethods=dns-01"),
        Just("; validationmethods=dns-01,http-01"),
        Just("; accounturi=a:c"),
        Just("ca.example"),
        Just(" "),
    ];
    (tag, proptest::collection::vec(parts, 0..4), any::<u8>()).prop_map(|(tag, parts, flags)| Caa {
        flags,
        ..caa(tag, &parts.concat())
    })
}

proptest! {
    /// Written from the specification, not from the code: what must hold of every record if nothing
    /// is refused.
    #[test]
    fn what_is_accepted_lets_no_volunteer_in(records in proptest::collection::vec(any_record(), 0..5)) {
        let findings = judge(&name(), &evidence(records.clone()));
        if acceptable(&findings) {
            let values = |tag: &str| -> Vec<String> {
                let of = records.iter().filter(|record| record.tag == tag);
                of.map(|record| String::from_utf8_lossy(&record.value).into_owned()).collect()
            };
            prop_assert!(!values("issue").is_empty());
            for value in values("issue") {
                let nobody = value.trim_start().is_empty() || value.trim_start().starts_with(';');
                let strict = value.contains("accounturi=") && value.contains("validationmethods=dns-01") && !value.contains("http-01");
                prop_assert!(nobody || strict, "{}", value);
            }
            for value in values("issuewild") {
                prop_assert!(value.trim_start().is_empty() || value.trim_start().starts_with(';'), "{}", value);
            }
        }
    }
}
