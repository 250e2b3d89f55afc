//! A name server of the broker's that looks at itself, and the gate. Is not: volunteers
//! (`tests/split/broker.rs` of the program).

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::Instant;

use tandem_barnraising::certificate_policy::{Consent, Subject};

use super::*;

const PATIENCE: Duration = Duration::from_secs(90);

fn config(folder: &Path, site: &str, listen: SocketAddr, dns: &str) -> Config {
    let zeros = "0".repeat(64);
    let text = format!(
        "site = \"{site}\"\nlisten = \"127.0.0.1:0\"\naddress = \"broker.example\"\nstate = {folder:?}\n\
         [origin]\naddress = \"127.0.0.1:1\"\nkey = \"{zeros}\"\nown-addresses = [\"192.0.2.99\"]\n\
         [dns]\nlisten = [\"{listen}\"]\nresolver = \"{listen}\"\ntrust-anchor = {:?}\n{dns}\n[dns.nameservers]\n\"ns.example.net\" = []\n",
        folder.join("anchor"),
    );
    Config::parse(&text, Path::new("broker.toml")).expect("a configuration")
}

fn free() -> SocketAddr {
    let socket = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback");
    socket.local_addr().expect("bound")
}

fn published(config: &Config, healthy: &[&str]) -> Arc<Published> {
    let parse = |text: &&str| text.parse::<IpAddr>().expect("an address");
    Arc::new(Published {
        site: config.site.clone(),
        healthy: healthy.iter().map(parse).collect(),
        own: config.own_addresses.clone(),
    })
}

async fn dig(server: SocketAddr, question: &str) -> Vec<String> {
    let mut command = std::process::Command::new("dig");
    command.args([
        "@127.0.0.1",
        "-p",
        &server.port().to_string(),
        "+short",
        "+tries=3",
        "+time=5",
    ]);
    command.args(question.split(' '));
    let output = tokio::task::spawn_blocking(move || command.output());
    let output = output
        .await
        .expect("no panic")
        .expect("dig (scripts/ensure-tools.sh dns)");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort_unstable();
    lines
}

async fn leads_to(server: SocketAddr, site: &str, address: &str) {
    let start = Instant::now();
    loop {
        let found = dig(server, &format!("A {site}")).await;
        if found == [address] {
            return;
        }
        assert!(start.elapsed() < PATIENCE, "{found:?}, not {address}");
        sleep(Duration::from_millis(50)).await;
    }
}

/// The name server of a site of which one volunteer is well, the way to tell it of others, and when
/// its name was last found safe.
async fn bound(
    config: &Config,
) -> (
    Names,
    watch::Sender<Arc<Published>>,
    watch::Sender<UnixTime>,
) {
    let sender = watch::Sender::new(published(config, &["192.0.2.1"]));
    let accepted = watch::Sender::new(UnixTime(0));
    let names = Names::bind(config, sender.subscribe(), accepted.clone());
    let names = names.await.expect("loopback").expect("configured");
    (names, sender, accepted)
}

const GOOD: &str = "authority = \"letsencrypt.org\"\naccount = \"https://letsencrypt.org/acct/1\"";

#[tokio::test(flavor = "multi_thread")]
async fn a_public_name_leads_to_the_origin_until_no_volunteer_can_get_a_certificate() {
    let folder = tempfile::tempdir().expect("a folder");
    let (site, server) = ("www.tandem-site.org", free());
    let config = config(folder.path(), site, server, GOOD);
    let (names, sender, accepted) = bound(&config).await;
    let numbers = names.numbers();
    let serving = tokio::spawn(names.serve());
    leads_to(server, site, "192.0.2.99").await;
    sender.send_replace(published(&config, &["192.0.2.2"]));
    leads_to(server, site, "192.0.2.99").await;
    assert_eq!(numbers[0].value(), 1);
    // Its operator hands the key to whoever is asked for the chain of trust.
    let key = dig(server, &format!("DNSKEY {site}")).await.concat();
    let line = format!("{site}. 3600 IN DNSKEY {key}\n");
    std::fs::write(folder.path().join("anchor"), line).expect("own folder");
    leads_to(server, site, "192.0.2.2").await;
    assert_eq!(numbers[0].value(), 0);
    sender.send_replace(published(&config, &[]));
    leads_to(server, site, "192.0.2.99").await;
    serving.abort();
    // A broker that is started again leads to them at once.
    let since = *accepted.borrow();
    assert_eq!(remembered(since, wall()), Gate::Open);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_private_name_leads_to_volunteers_without_a_question() {
    let folder = tempfile::tempdir().expect("a folder");
    let (site, server) = ("site.test", free());
    let config = config(folder.path(), site, server, "");
    let (names, _sender, _) = bound(&config).await;
    assert_eq!(names.numbers()[0].value(), 0);
    let serving = tokio::spawn(names.serve());
    leads_to(server, site, "192.0.2.1").await;
    assert_eq!(
        dig(server, &format!("CAA {site}")).await,
        ["0 issue \";\"", "0 issuewild \";\""]
    );
    serving.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_public_name_leads_to_volunteers_by_the_operators_consent_without_a_question() {
    let folder = tempfile::tempdir().expect("a folder");
    let (site, server) = ("www.tandem-site.org", free());
    // There is no file of trust anchors: no look could be made.
    let config = config(folder.path(), site, server, GOOD).with_consent(Consent::Given);
    let (names, _sender, accepted) = bound(&config).await;
    assert_eq!(names.numbers()[0].value(), 0);
    let serving = tokio::spawn(names.serve());
    leads_to(server, site, "192.0.2.1").await;
    serving.abort();
    // Without consent the next start has nothing to remember.
    assert_eq!(*accepted.borrow(), UnixTime(0));
}

#[test]
fn volunteers_networks_take_turns_and_the_origin_s_addresses_do_not() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = config(folder.path(), "site.test", free(), "");
    let told = |gate, healthy: &[&str]| {
        let answers = answers(gate, &published(&config, healthy));
        (answers.whose, answers.addresses.len())
    };
    let some = ["192.0.2.1", "192.0.2.2"];
    assert_eq!(told(Gate::Open, &some), (Whose::Volunteers, 2));
    assert_eq!(told(Gate::Shut, &some), (Whose::Origin, 1));
    assert_eq!(told(Gate::Open, &[]), (Whose::Origin, 1));
}

#[test]
fn a_look_without_an_answer_changes_nothing_and_a_bad_one_shuts() {
    let report = |findings: &[Finding]| Report {
        subject: Subject::parse("www.tandem-site.org").expect("a name"),
        findings: findings.to_vec(),
    };
    let judged = |before, findings: &[Finding]| judged(before, &report(findings), &mut 0);
    for before in [Gate::Open, Gate::Shut] {
        assert_eq!(judged(before, &[Finding::Preload]), Gate::Open);
        assert_eq!(
            judged(before, &[Finding::Unanswered, Finding::Preload]),
            before
        );
        assert_eq!(judged(before, &[Finding::NotSigned]), Gate::Shut);
        assert_eq!(
            judged(before, &[Finding::Unanswered, Finding::Wildcards]),
            Gate::Shut
        );
    }
}

#[test]
fn wrong_signatures_shut_when_three_looks_in_a_row_have_found_them() {
    let report = |findings: &[Finding]| Report {
        subject: Subject::parse("www.tandem-site.org").expect("a name"),
        findings: findings.to_vec(),
    };
    let mut doubts = 0;
    let mut look = |finding| judged(Gate::Open, &report(&[finding]), &mut doubts);
    assert_eq!(look(Finding::Bogus), Gate::Open);
    assert_eq!(look(Finding::Bogus), Gate::Open);
    assert_eq!(look(Finding::Preload), Gate::Open, "which ends the row");
    assert_eq!(look(Finding::Bogus), Gate::Open);
    assert_eq!(look(Finding::Unanswered), Gate::Open, "which does not");
    assert_eq!(look(Finding::Bogus), Gate::Open);
    assert_eq!(look(Finding::Bogus), Gate::Shut);
    assert_eq!(
        judged(Gate::Shut, &report(&[Finding::Bogus]), &mut 0),
        Gate::Shut
    );
}

#[test]
fn a_look_is_remembered_for_a_day() {
    let at = |now| remembered(UnixTime(1_800_000_000), UnixTime(now));
    assert_eq!(at(1_800_000_000), Gate::Open);
    assert_eq!(at(1_800_000_000 + REMEMBERED - 1), Gate::Open);
    assert_eq!(at(1_800_000_000 + REMEMBERED), Gate::Shut);
    assert_eq!(at(1_799_999_999), Gate::Shut, "the clock was set back");
    assert_eq!(remembered(UnixTime(0), UnixTime(1_800_000_000)), Gate::Shut);
}
