//! Sessions, certificates and the keys of origin and volunteers: what stays valid, what changes,
//! and who is turned away.

use std::path::Path;
use std::process::Command;

use crate::common::{Site, eventually, ran, tried, value};
use tandem_channel::ChannelKey;
use tandem_split_io::{origin, volunteer};

/// OpenSSL's words about a connection by this volunteer.
fn s_client(site: &Site, volunteer: std::net::SocketAddr, more: &[&str]) -> String {
    let out = ran(Command::new("openssl")
        .args(["s_client", "-tls1_2", "-servername", "split.test"])
        .args(["-CAfile", site.pki.ca(), "-verify_return_error"])
        .args(["-connect", &volunteer.to_string()])
        .args(more));
    String::from_utf8_lossy(&out.stdout).into_owned()
}

#[test]
fn a_session_is_resumed_by_whichever_volunteer_by_ticket_and_by_identifier() {
    let site = Site::new();
    let (other, _) = site.another_volunteer(site.origin, site.origin_key, None);
    let file = site.pki.path().join("session");
    let file = file.to_str().expect("a plain path");
    let resumed = || site.origin_counts("tandem_split_origin_resumed_sessions");
    for more in [&[][..], &["-no_ticket"]] {
        let before = resumed();
        let first = s_client(
            &site,
            site.volunteer,
            &[more, &["-sess_out", file]].concat(),
        );
        assert!(first.contains("\nNew, "), "{first}");
        assert_eq!(first.contains("TLS session ticket:"), more.is_empty());
        assert_eq!(resumed(), before);
        for (number, volunteer) in [(1, other), (2, site.volunteer)] {
            let text = s_client(&site, volunteer, &[more, &["-sess_in", file]].concat());
            assert!(text.contains("\nReused, "), "{text}");
            assert_eq!(resumed(), before + number);
        }
    }
}

#[test]
fn an_origin_that_offers_no_resumption_gives_volunteers_no_name_to_know_a_client_by() {
    let site = Site::new();
    let settings = origin::Settings {
        resumption: origin::Resumption::Off,
        ..crate::common::origin_settings(&site.pki, site.server.address)
    };
    let origin = site.runtime().block_on(origin::Origin::bind(settings));
    let origin = origin.expect("it starts");
    let (address, key) = (origin.address().expect("bound"), origin.key());
    let numbers = origin.numbers();
    site.runtime().spawn(origin.serve());
    let (volunteer, _) = site.another_volunteer(address, key, None);
    let file = site.pki.path().join("session");
    let file = file.to_str().expect("a plain path");
    let is_named =
        |text: &str| text.contains("TLS session ticket:") || !text.contains("    Session-ID: \n");
    for more in [&[][..], &["-no_ticket"]] {
        let offered = s_client(
            &site,
            site.volunteer,
            &[more, &["-sess_out", file]].concat(),
        );
        assert!(is_named(&offered), "{offered}");
        // Not even one who has a name from before is told that it is known.
        for more in [more, &[more, &["-sess_in", file]].concat()] {
            let text = s_client(&site, volunteer, more);
            assert!(text.contains("\nNew, ") && !is_named(&text), "{text}");
        }
    }
    assert_eq!(value(&numbers, "tandem_split_origin_resumed_sessions"), 0);
    assert_eq!(value(&numbers, "tandem_split_origin_connections"), 4);
}

#[test]
fn a_new_certificate_is_taken_while_the_origin_runs_and_a_bad_one_is_not() {
    let site = Site::new();
    let serial = |path: &Path| {
        let out = ran(Command::new("openssl")
            .args(["x509", "-noout", "-serial", "-in"])
            .arg(path));
        String::from_utf8_lossy(&out.stdout).into_owned()
    };
    let shown = || {
        let text = s_client(&site, site.volunteer, &[]);
        let path = site.pki.path().join("shown.pem");
        std::fs::write(&path, text).expect("ours");
        serial(&path)
    };
    let old = serial(&site.pki.certificate);
    assert_eq!(shown(), old);
    // For another host: refused. Then one that fits.
    for (name, host) in [("bad", "DNS:bank.test"), ("new", "DNS:split.test")] {
        let (certificate, key) = site.pki.issue(name, "rsa:2048", host);
        std::fs::copy(&certificate, &site.pki.certificate).expect("ours");
        std::fs::copy(&key, &site.pki.key).expect("ours");
        let new = serial(&certificate);
        if name == "new" {
            eventually("the new certificate is shown", || shown() == new);
        } else {
            assert_eq!(shown(), old);
        }
    }
    assert!(ran(&mut site.curl("/bytes/10/1")).stdout.len() == 10);
}

#[test]
fn a_volunteer_that_is_not_on_the_list_is_not_served() {
    let site = Site::new();
    let (folder, stranger) = (
        site.pki.path().join("listed"),
        site.pki.path().join("stranger"),
    );
    for folder in [&folder, &stranger] {
        std::fs::create_dir(folder).expect("ours");
    }
    let listed = ChannelKey::kept_in(&folder.join("key"))
        .expect("made")
        .name();
    let list = site.pki.path().join("volunteers");
    std::fs::write(&list, format!("# ours\n{listed} # the first\n")).expect("ours");
    let own_key = site.pki.path().join("channel.key");
    let settings = || origin::Settings {
        channel_key: Some(own_key.clone()),
        admitted: Some(list.clone()),
        ..crate::common::origin_settings(&site.pki, site.server.address)
    };
    let bind = || {
        let bound = site.runtime().block_on(origin::Origin::bind(settings()));
        bound.expect("it starts")
    };
    let origin = bind();
    let (address, key) = (origin.address().expect("bound"), origin.key());
    assert_ne!(key, site.origin_key, "a key of its own");
    assert_eq!(bind().key(), key, "which is kept");
    site.runtime().spawn(origin.serve());

    let (by_listed, _) = site.another_volunteer(address, key, Some(folder));
    assert_eq!(
        ran(&mut site.curl_at(by_listed, "/bytes/9/1")).stdout.len(),
        9
    );
    let (by_stranger, counts) = site.another_volunteer(address, key, Some(stranger));
    let out = tried(&mut site.curl_at(by_stranger, "/bytes/9/1"));
    assert!(!out.status.success() && out.stdout.is_empty());
    eventually("it is counted as the origin's doing", || {
        value(&counts, "tandem_split_volunteer_origin_failures") == 1
    });

    std::fs::write(&list, "no key\n").expect("ours");
    let refused = site.runtime().block_on(origin::Origin::bind(settings()));
    let message = refused.expect_err("a line that is no key").to_string();
    assert!(
        message.contains("volunteers: line 1: a key is 64"),
        "{message}"
    );
}

#[test]
fn the_first_origin_that_is_met_is_the_one_that_is_trusted_ever_after() {
    let site = Site::new();
    let cache = site.pki.path().join("cache");
    // Each in a runtime of its own, with which it ends: a cache is one volunteer's at a time.
    let volunteer = |origin: std::net::SocketAddr| {
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        let bound = runtime.block_on(volunteer::Volunteer::bind(settings(&site, origin, &cache)));
        let bound = bound.expect("it starts");
        let (address, counts) = (bound.address().expect("bound"), bound.numbers());
        runtime.spawn(bound.serve());
        (address, counts, runtime)
    };
    let stop = |runtime: tokio::runtime::Runtime| {
        runtime.shutdown_timeout(std::time::Duration::from_secs(60));
    };
    let (address, _, runtime) = volunteer(site.origin);
    assert_eq!(
        ran(&mut site.curl_at(address, "/bytes/9/1")).stdout.len(),
        9
    );
    let kept = std::fs::read_to_string(cache.join("origin-key")).expect("it is kept");
    assert_eq!(kept.trim().parse(), Ok(site.origin_key));
    stop(runtime);

    // The same site behind another channel key: somebody else, as far as a volunteer can know.
    let other = origin::Settings {
        channel_key: Some(site.pki.path().join("other.key")),
        ..crate::common::origin_settings(&site.pki, site.server.address)
    };
    let other = site
        .runtime()
        .block_on(origin::Origin::bind(other))
        .expect("it starts");
    let other_address = other.address().expect("bound");
    assert_ne!(other.key(), site.origin_key);
    site.runtime().spawn(other.serve());
    let (address, counts, runtime) = volunteer(other_address);
    assert!(
        !tried(&mut site.curl_at(address, "/bytes/9/1"))
            .status
            .success()
    );
    eventually("it is counted", || {
        value(&counts, "tandem_split_volunteer_origin_failures") == 1
    });
    stop(runtime);
    let (address, _, _runtime) = volunteer(site.origin);
    assert_eq!(
        ran(&mut site.curl_at(address, "/bytes/9/1")).stdout.len(),
        9
    );
}

fn settings(site: &Site, origin: std::net::SocketAddr, cache: &Path) -> volunteer::Settings {
    volunteer::Settings {
        origin_key: None,
        ..crate::common::volunteer_settings(origin, site.origin_key, Some(cache.to_owned()))
    }
}
