//! Rules read, refused and applied.

use proptest::prelude::*;

use super::*;

fn rules(texts: &[&str]) -> Rules {
    Rules::new(texts.iter().map(|text| text.parse().expect(text)).collect())
}

fn target(text: &str) -> Target {
    let (host, port) = text.rsplit_once(':').expect("with a port");
    Target::new(host, port.parse().expect("a port")).expect("a target")
}

fn decide(texts: &[&str], client: &str, to: &str, name: ServerName<'_>) -> Decision {
    let client = client.parse().expect("an address");
    rules(texts).decide(client, &target(to), name)
}

/// With one rule that refuses, which goes by clients' addresses and targets as they are said.
#[track_caller]
fn refuses(rule: &str, client: &str, to: &str) -> bool {
    match decide(&[rule], client, to, ServerName::Unsaid) {
        Decision::Now(Action::Refuse) => true,
        Decision::Now(Action::Tunnel) => false,
        other => panic!("{other:?}"),
    }
}

const CLIENT: &str = "10.1.2.3";
const SERVER: &str = "192.0.2.1:443";

#[test]
fn without_rules_everything_crosses_the_tunnel() {
    for name in [
        ServerName::Awaited,
        ServerName::Known("a.example"),
        ServerName::Unsaid,
    ] {
        let decision = decide(&[], CLIENT, SERVER, name);
        assert_eq!(decision, Decision::Now(Action::Tunnel));
    }
}

#[test]
fn the_first_rule_that_matches_decides() {
    let texts = ["direct ports=443", "refuse", "tunnel ports=80"];
    for (to, action) in [
        ("192.0.2.1:443", Action::Direct),
        ("192.0.2.1:80", Action::Refuse),
        ("a.example:22", Action::Refuse),
    ] {
        let decision = decide(&texts, CLIENT, to, ServerName::Awaited);
        assert_eq!(decision, Decision::Now(action), "{to}");
    }
}

#[test]
fn ports_are_single_ones_and_ranges() {
    for (port, is_refused) in [
        (21, false),
        (22, true),
        (442, false),
        (443, true),
        (7999, false),
        (8000, true),
        (8999, true),
        (9000, false),
        (65535, true),
    ] {
        let to = format!("192.0.2.1:{port}");
        let rule = "refuse ports=22,443,8000-8999,65535-65535";
        assert_eq!(refuses(rule, CLIENT, &to), is_refused, "{port}");
    }
}

#[test]
fn clients_are_told_apart_by_network_and_ipv4_counts_as_ipv4_in_any_clothes() {
    for (client, is_refused) in [
        ("10.0.0.0", true),
        ("10.255.255.255", true),
        ("11.0.0.0", false),
        ("::ffff:10.1.2.3", true),
        ("2001:db8::1", true),
        ("2001:db9::1", false),
        ("192.0.2.7", true),
        ("192.0.2.8", false),
    ] {
        let rule = "refuse from=10.0.0.0/8,2001:db8::/32,192.0.2.7";
        assert_eq!(refuses(rule, client, SERVER), is_refused, "{client}");
    }
    assert!(!refuses("refuse from=::/0", CLIENT, SERVER));
}

#[test]
fn servers_are_told_apart_by_network_where_their_address_is_known() {
    for (to, is_refused) in [
        ("192.0.2.255:443", true),
        ("192.0.3.0:443", false),
        ("[::ffff:192.0.2.1]:443", true),
        ("[2001:db8::1]:443", true),
        ("198.51.100.7:443", true),
        // Its address is found out at the far side.
        ("a.example:443", false),
    ] {
        let rule = "refuse to=192.0.2.0/24,2001:db8::1,198.51.100.0/24";
        assert_eq!(refuses(rule, CLIENT, to), is_refused, "{to}");
    }
}

#[test]
fn names_match_whole_and_those_below_one_match_by_labels() {
    for (name, is_refused) in [
        ("www.example.com", true),
        ("WWW.Example.COM", true),
        ("a.b.example.com", true),
        ("example.com", false),
        ("badexample.com", false),
        (".example.com", false),
        ("example.com.evil.example", false),
        ("one.example", true),
        ("a.one.example", false),
        ("com", false),
        ("", false),
    ] {
        let texts = ["refuse to=*.Example.com.,one.example"];
        let decision = decide(&texts, CLIENT, SERVER, ServerName::Known(name));
        let action = if is_refused {
            Action::Refuse
        } else {
            Action::Tunnel
        };
        assert_eq!(decision, Decision::Now(action), "{name}");
        // The same of a target by name, whatever the hello says.
        if let Ok(target) = Target::new(name, 443) {
            for said in [ServerName::Awaited, ServerName::Known("x.example.com")] {
                let client = CLIENT.parse().expect("an address");
                let decision = rules(&texts).decide(client, &target, said);
                assert_eq!(decision, Decision::Now(action), "{name}");
            }
        }
    }
    assert!(refuses("refuse to=one.example", CLIENT, "one.example.:443"));
}

#[test]
fn a_connection_without_a_name_matches_no_rule_by_name() {
    let texts = ["refuse to=*.example.com", "direct to=192.0.2.0/24"];
    let decision = decide(&texts, CLIENT, SERVER, ServerName::Unsaid);
    assert_eq!(decision, Decision::Now(Action::Direct));
}

#[test]
fn one_of_the_names_and_networks_is_enough_but_each_part_has_to_match() {
    let rule = "refuse to=192.0.2.1,a.example ports=443 from=10.0.0.0/8";
    assert!(refuses(rule, CLIENT, "192.0.2.1:443"));
    assert!(refuses(rule, CLIENT, "a.example:443"));
    assert!(!refuses(rule, CLIENT, "a.example:80"));
    assert!(!refuses(rule, "172.16.0.1", "a.example:443"));
    assert!(!refuses(rule, CLIENT, "b.example:443"));
}

#[test]
fn the_hello_is_waited_for_only_where_its_name_can_change_the_outcome() {
    for (texts, expected) in [
        (&["refuse to=a.example"][..], Decision::WithName),
        (&["tunnel to=a.example"], Decision::Now(Action::Tunnel)),
        (
            &["refuse to=a.example", "refuse"],
            Decision::Now(Action::Refuse),
        ),
        (
            &["refuse to=a.example", "direct to=192.0.2.1"],
            Decision::WithName,
        ),
        (
            &["direct to=192.0.2.1", "refuse to=a.example"],
            Decision::Now(Action::Direct),
        ),
        (
            &["refuse to=a.example", "direct to=b.example", "tunnel"],
            Decision::WithName,
        ),
        // Rules for others.
        (
            &[
                "refuse to=a.example ports=80",
                "direct to=b.example from=::/0",
            ],
            Decision::Now(Action::Tunnel),
        ),
        (
            &["refuse to=a.example,192.0.2.1"],
            Decision::Now(Action::Refuse),
        ),
    ] {
        let decision = decide(texts, CLIENT, SERVER, ServerName::Awaited);
        assert_eq!(decision, expected, "{texts:?}");
    }
}

#[test]
fn whether_any_rule_connects_from_here_is_known() {
    assert!(!Rules::default().has_direct());
    assert!(!rules(&["refuse", "tunnel"]).has_direct());
    assert!(rules(&["refuse", "direct to=a.example"]).has_direct());
}

#[test]
fn what_is_no_rule_is_refused_with_the_word_that_is_wrong() {
    for (text, word) in [
        ("", "``"),
        ("block", "`block`"),
        ("Direct", "`Direct`"),
        ("direct 443", "`443`"),
        ("direct port=443", "`port=443`"),
        ("direct to = a.example", "`to`"),
        ("direct ports=443 ports=80", "`ports=`"),
        ("direct ports=", "``"),
        ("direct ports=443,", "``"),
        ("direct ports=0", "`0`"),
        ("direct ports=65536", "`65536`"),
        ("direct ports=+443", "`+443`"),
        ("direct ports=9-8", "`9-8`"),
        ("direct ports=8-", "`8-`"),
        ("direct ports=https", "`https`"),
        ("direct from=a.example", "`a.example`"),
        ("direct from=10.0.0.1/8", "`10.0.0.1/8`"),
        ("direct from=10.0.0.0/33", "`10.0.0.0/33`"),
        ("direct to=", "``"),
        ("direct to=*", "`*`"),
        ("direct to=*.", "`*.`"),
        ("direct to=a.*.example", "`a.*.example`"),
        ("direct to=**.example", "`**.example`"),
        ("direct to=a..example", "`a..example`"),
        ("direct to=.example", "`.example`"),
        ("direct to=10.0.0.256", "`10.0.0.256`"),
        ("direct to=10.0.0.1/8", "`10.0.0.1/8`"),
        ("direct to=https://a.example", "`https://a.example`"),
        ("direct to=a.example:443", "`a.example:443`"),
        ("direct to=é.example", "`é.example`"),
    ] {
        let error = text.parse::<ClientRule>().expect_err(text).to_string();
        assert!(error.starts_with(word), "{text}: {error}");
        assert!(!error.contains('\n'));
    }
}

proptest! {
    /// To wait for the hello changes nothing but the time.
    #[test]
    fn what_is_decided_early_is_what_is_decided_in_the_end(
        order in proptest::collection::vec(0_usize..8, 0..6),
        name in prop_oneof![Just(""), Just("a.example"), Just("b.a.example"), Just("c.example")],
        to in prop_oneof![Just("192.0.2.1:443"), Just("198.51.100.1:80"), Just("a.example:443")],
    ) {
        const ALL: [&str; 8] = [
            "refuse to=a.example",
            "direct to=*.a.example",
            "tunnel to=c.example",
            "direct to=192.0.2.0/24",
            "refuse ports=80",
            "direct to=c.example,192.0.2.1 ports=443",
            "tunnel from=10.0.0.0/8 ports=443",
            "refuse",
        ];
        let texts: Vec<&str> = order.into_iter().map(|index| ALL[index]).collect();
        let name = match name {
            "" => ServerName::Unsaid,
            name => ServerName::Known(name),
        };
        let last = decide(&texts, CLIENT, to, name);
        prop_assert!(matches!(last, Decision::Now(_)), "{:?}", last);
        match decide(&texts, CLIENT, to, ServerName::Awaited) {
            Decision::WithName => {}
            early @ Decision::Now(_) => prop_assert_eq!(early, last),
        }
    }
}
