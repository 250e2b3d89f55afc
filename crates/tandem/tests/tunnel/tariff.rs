//! The tariff of a link in tunnel mode: what the client side says has been spent, with both proxies
//! as processes and an unmodified curl.
//!
//! Is not: the arithmetic, nor every fault of a tariff's file (both: `tandem-tunnel`).

use std::fs;

use crate::support::{common, real, tunnel_pair};
use common::run;
use nix::sys::signal::Signal;
use real::{bytes, has, wait_until};
use tunnel_pair::{Pair, Proxy, Site, start};

const PAGE: usize = 100_000;

/// What `tandem status` says of money, or nothing yet.
fn spent(pair: &Pair) -> Option<String> {
    let ran = run(&mut pair.client_side_status());
    let text = ran.succeeded().to_owned();
    let line = text.lines().find(|line| line.starts_with("spent "));
    line.map(str::to_owned)
}

/// The amount behind these words, in millionths.
fn micros(text: &str, before: &str) -> u64 {
    let rest = text.split(before).nth(1).expect(before);
    let amount = rest.split_whitespace().next().expect("an amount");
    let money: tandem_tunnel::Money = amount.parse().expect(amount);
    money.micros()
}

fn client_side(pair: &Pair) -> Proxy {
    let tariff = pair.path("tariff.toml");
    // A millionth for each byte.
    let text = "currency = \"EUR\"\nprice-per-megabyte = \"1\"\n";
    fs::write(&tariff, text).expect("ours");
    start(pair.client_side().arg("--tariff").arg(&tariff))
}

#[test]
fn status_metrics_and_the_log_say_what_was_spent_and_a_restart_forgets_no_month() {
    if !has(&["nginx", "curl", "openssl"]) {
        return;
    }
    let (site, pair) = (Site::new(), Pair::new());
    let page = bytes(PAGE);
    site.publish("page", &page);
    let _server_side = pair.start_server_side(&site);
    let first = client_side(&pair);
    pair.by_socks().gets(site.port, "page", &page);
    let at_least = u64::try_from(PAGE).expect("small");
    let mut text = String::new();
    wait_until("the page is on the bill", || {
        text = spent(&pair).unwrap_or_default();
        !text.is_empty() && micros(&text, "spent ") > at_least
    });
    assert!(text.contains(" EUR today, "), "{text}");
    // One page on an unlossy line takes some headers and a handshake more, and not twice as much.
    for part in ["spent ", "today, ", "this month, ", "without Tandem about "] {
        let micros = micros(&text, part);
        assert!((at_least..2 * at_least).contains(&micros), "{part}: {text}");
    }
    assert!(pair.client_side_shows("spent_month_micros") > at_least);
    assert!(pair.client_side_shows("spent_without_tandem_today_micros") > at_least);
    assert_eq!(first.end(Signal::SIGTERM), Some(0));

    let second = client_side(&pair);
    pair.by_socks().gets(site.port, "page", &page);
    wait_until("both pages are on the bill", || {
        pair.client_side_shows("spent_month_micros") > 2 * at_least
    });
    assert!(pair.client_side_shows("spent_since_start_micros") < 2 * at_least);
    let log = second.end_with_log(Signal::SIGTERM);
    let last = log
        .lines()
        .find(|line| line.contains("without Tandem about "));
    assert!(
        last.is_some_and(|line| line.contains(" EUR today")),
        "{log}"
    );
}

#[test]
fn a_tariff_that_is_none_is_one_line_with_its_place() {
    let pair = Pair::new();
    let tariff = pair.path("tariff.toml");
    let start = |text: Option<&str>| {
        if let Some(text) = text {
            fs::write(&tariff, text).expect("ours");
        }
        run(pair.client_side().arg("--tariff").arg(&tariff))
    };
    let missing = start(None);
    let line = missing.failed_with(2);
    assert!(
        line.contains("tariff.toml") && line.contains("--tariff"),
        "{line}"
    );
    let ran = start(Some("currency = \"EUR\"\nprice-per-megabyte = 6.50\n"));
    let expected = format!(
        "{}, line 2, column 22: not an amount: write it in quotes, as \"12\" or \"0.05\", with six \
         decimals at most",
        tariff.display()
    );
    assert_eq!(ran.failed_with(2), expected);
}
