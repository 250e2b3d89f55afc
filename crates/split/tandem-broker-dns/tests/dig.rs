//! What BIND's `dig` and `delv` make of the zone.

mod common;

use common::{SITE, Server, addresses, until};

const BOTH: [&str; 3] = ["192.0.2.1", "192.0.2.2", "2001:db8::1"];

#[tokio::test(flavor = "multi_thread")]
async fn every_record_is_there_and_validates() {
    let server = Server::start(&BOTH).await;
    std::fs::write(
        server.folder.path().join("challenge"),
        "token-one\ntoken-two\n",
    )
    .expect("own folder");
    until("the challenge is read", async || {
        !server
            .short(&format!("TXT _acme-challenge.{SITE}"))
            .await
            .is_empty()
    })
    .await;
    let anchor = server.anchor().await;
    for (kind, name, wanted) in [
        ("A", SITE, "192.0.2.2"),
        ("AAAA", SITE, "2001:db8::1"),
        ("HTTPS", SITE, "1 . alpn=\"http/1.1\""),
        ("NS", SITE, "ns.www.tandem-site.org."),
        ("SOA", SITE, "hostmaster.www.tandem-site.org."),
        ("DNSKEY", SITE, "257 3 13"),
        (
            "CAA",
            SITE,
            "0 issue \"letsencrypt.org; accounturi=https://acme-v02.api.letsencrypt.org/acme/acct/1; validationmethods=dns-01\"",
        ),
        ("CAA", SITE, "0 issuewild \";\""),
        (
            "TXT",
            "_acme-challenge.www.tandem-site.org",
            "\"token-two\"",
        ),
        ("A", "ns.www.tandem-site.org", "127.0.0.1"),
    ] {
        let plain = server.dig(&format!("{kind} {name}")).await;
        assert!(
            plain.contains("status: NOERROR") && plain.contains(" aa "),
            "{plain}"
        );
        assert!(
            plain.contains(wanted) && !plain.contains("RRSIG"),
            "{plain}"
        );
        let text = server
            .run(
                "delv",
                &format!("-a {} +root={SITE} {kind} {name}", anchor.display()),
            )
            .await;
        assert!(
            text.contains("; fully validated") && text.contains(wanted),
            "{kind}: {text}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_denied_in_the_right_way_and_provably() {
    let server = Server::with("a.b.tandem-site.org", &["192.0.2.1"], |settings| {
        settings["zone"] = "tandem-site.org".into();
        settings["nameservers"] = serde_json::json!({"ns.example.net": []});
    })
    .await;
    let anchor = server.anchor().await;
    for (question, status, validated) in [
        (
            "AAAA a.b.tandem-site.org",
            "NOERROR",
            "; negative response, fully validated",
        ),
        (
            "MX tandem-site.org",
            "NOERROR",
            "; negative response, fully validated",
        ),
        ("DS tandem-site.org", "NOERROR", ""),
        // A name between: it has names below it, and so it is there.
        (
            "A b.tandem-site.org",
            "NOERROR",
            "; negative response, fully validated",
        ),
        (
            "A no.b.tandem-site.org",
            "NXDOMAIN",
            "; negative response, fully validated",
        ),
        (
            "A zzz.tandem-site.org",
            "NXDOMAIN",
            "; negative response, fully validated",
        ),
        (
            "A 0.tandem-site.org",
            "NXDOMAIN",
            "; negative response, fully validated",
        ),
        (
            "A x.y.a.b.tandem-site.org",
            "NXDOMAIN",
            "; negative response, fully validated",
        ),
        (
            "TXT _acme-challenge.a.b.tandem-site.org",
            "NXDOMAIN",
            "; negative response, fully validated",
        ),
    ] {
        let text = server.dig(&format!("+dnssec {question}")).await;
        assert!(
            text.contains(&format!("status: {status}")),
            "{question}: {text}"
        );
        assert!(
            text.contains("ANSWER: 0") && text.contains("\tSOA\t") && text.contains("\tNSEC\t"),
            "{text}"
        );
        if !validated.is_empty() {
            let text = server
                .run(
                    "delv",
                    &format!("-a {} +root=tandem-site.org {question}", anchor.display()),
                )
                .await;
            assert!(text.contains(validated), "{question}: {text}");
        }
    }
    let plain = server.dig("A zzz.tandem-site.org").await;
    assert!(
        plain.contains("AUTHORITY: 1,") && !plain.contains("NSEC"),
        "{plain}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_ours_is_refused() {
    let server = Server::start(&BOTH).await;
    for question in [
        "A example.com",
        "A tandem-site.org",
        "+recurse A www.iana.org",
        "NS .",
        "-c CH TXT version.bind",
        "-c CH A www.tandem-site.org",
    ] {
        let text = server.dig(question).await;
        assert!(
            text.contains("status: REFUSED") && text.contains("ANSWER: 0"),
            "{question}: {text}"
        );
        assert!(!text.contains(" ra"), "{text}");
    }
    for question in ["AXFR", "IXFR=1"] {
        let text = server.dig(&format!("+tcp {question} {SITE}")).await;
        assert!(
            text.contains("; Transfer failed.") && !text.contains("192.0.2"),
            "{text}"
        );
    }
    let text = server.dig(&format!("+opcode=notify SOA {SITE}")).await;
    assert!(text.contains("status: NOTIMP"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn edns_is_kept_to() {
    let server = Server::start(&BOTH).await;
    let text = server.dig(&format!("+noedns A {SITE}")).await;
    assert!(
        !text.contains("OPT PSEUDOSECTION") && text.contains("status: NOERROR"),
        "{text}"
    );
    let text = server.dig(&format!("+bufsize=4096 A {SITE}")).await;
    assert!(
        text.contains("EDNS: version: 0, flags:; udp: 1232"),
        "{text}"
    );
    let text = server
        .dig(&format!("+noednsnegotiation +edns=7 A {SITE}"))
        .await;
    assert!(
        text.contains("status: BADVERS") && text.contains("ANSWER: 0"),
        "{text}"
    );
    let text = server
        .dig(&format!(
            "+ednsopt=65001:abcd +nsid +subnet=192.0.2.0/24 A {SITE}"
        ))
        .await;
    assert!(
        text.contains("status: NOERROR") && text.contains("ANSWER: 2"),
        "{text}"
    );
    let text = server.dig(&format!("+dnssec ANY {SITE}")).await;
    assert!(
        text.contains("status: NOERROR") && text.contains("ANSWER: 3"),
        "one set and its signature: {text}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_addresses_shows_at_once_and_the_serial_number_rises() {
    let server = Server::start(&["192.0.2.1"]).await;
    let mut last = serial(&server).await;
    for set in [
        &["192.0.2.2"][..],
        &["192.0.2.2", "192.0.2.3"],
        &[],
        &["2001:db8::9"],
    ] {
        server.answers.send_replace(addresses(set));
        let four: Vec<&str> = set
            .iter()
            .copied()
            .filter(|text| text.contains('.'))
            .collect();
        let six: Vec<&str> = set
            .iter()
            .copied()
            .filter(|text| text.contains(':'))
            .collect();
        until("the change shows", async || {
            server.short(&format!("A {SITE}")).await == four
        })
        .await;
        assert_eq!(server.short(&format!("AAAA {SITE}")).await, six);
        let now = serial(&server).await;
        assert!(now > last, "{now} after {last}");
        last = now;
    }
}

async fn serial(server: &Server) -> u32 {
    let soa = server.short(&format!("SOA {SITE}")).await;
    let serial = soa[0].split(' ').nth(2).expect("a number");
    serial.parse().expect("a number")
}

#[tokio::test(flavor = "multi_thread")]
async fn many_volunteers_are_all_shown_in_answers_that_fit() {
    let all: Vec<String> = (1..=100)
        .flat_map(|last| [format!("198.51.100.{last}"), format!("2001:db8::{last}")])
        .collect();
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    let server = Server::start(&all).await;
    let anchor = server.anchor().await;
    let mut seen = std::collections::BTreeSet::new();
    for network in 1..=30 {
        // Each from a network of its own: together they are more than one may have at once.
        let text = server
            .dig(&format!(
                "-b 127.0.{network}.1 +dnssec +ignore A {SITE} AAAA {SITE} HTTPS {SITE}"
            ))
            .await;
        assert!(!text.contains(" tc"), "nothing is cut: {text}");
        for line in text.lines().filter(|line| line.contains("MSG SIZE")) {
            let size = line.split(' ').next_back().expect("a word");
            assert!(size.parse::<u32>().expect("a number") <= 1232, "{line}");
        }
        let answers = text
            .lines()
            .filter(|line| line.contains("\tIN\tA") && !line.starts_with(';'));
        seen.extend(answers.filter_map(|line| line.split('\t').next_back().map(str::to_owned)));
    }
    assert_eq!(seen.len(), 200, "each is shown");
    for _ in 0..3 {
        let text = server
            .run(
                "delv",
                &format!("-a {} +root={SITE} A {SITE}", anchor.display()),
            )
            .await;
        assert!(text.contains("; fully validated"), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_fit_is_fetched_over_tcp() {
    let all: Vec<String> = (1..=8).map(|last| format!("2001:db8::{last}")).collect();
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    // A name as long as they come: names in signatures are not compressed.
    let label = "a".repeat(60);
    let site = format!("{label}.{label}.{label}.tandem-site.org");
    let server = Server::with(&site, &all, |settings| {
        settings["nameservers"] = serde_json::json!({"ns.example.net": []});
    })
    .await;
    let question = format!("+dnssec +bufsize=512 AAAA {site}");
    let cut = server.dig(&format!("+ignore {question}")).await;
    assert!(cut.contains(" tc") && cut.contains("ANSWER: 0"), "{cut}");
    let whole = server.dig(&question).await;
    assert!(
        whole.contains("(TCP)") && whole.contains("ANSWER: 9"),
        "{whole}"
    );
    let plain = server.dig(&format!("+noedns NS {site}")).await;
    assert!(
        plain.contains("ANSWER: 1") && plain.contains("(UDP)"),
        "{plain}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_keeps_the_key() {
    let server = Server::start(&BOTH).await;
    let path = server.folder.path().join("zone.key");
    let second = Server::with(SITE, &BOTH, |settings| {
        settings["key"] = path.to_str().expect("text").into();
    })
    .await;
    assert_eq!(server.ds, second.ds);
    // What the registrar is given is what `dig` and BIND compute of the key.
    let keys = server.dig(&format!("DNSKEY {SITE}")).await;
    let mut child = std::process::Command::new("dnssec-dsfromkey")
        .args(["-2", "-f", "-", SITE])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("bind9-utils (scripts/ensure-tools.sh dns)");
    let mut input = child.stdin.take().expect("piped");
    std::io::Write::write_all(&mut input, keys.as_bytes()).expect("it reads");
    drop(input);
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), server.ds);
}
