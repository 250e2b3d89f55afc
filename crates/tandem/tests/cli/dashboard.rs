//! The Grafana dashboard: it asks for no metric that no proxy has.
//!
//! Is not: Grafana's reading of it. Packet mode's part is root only; skipped, with a message,
//! otherwise.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::support::{real, tunnel_pair};
use real::{Host, Net, PairSpec, Shape, bytes, can_run, has};
use serde_json::Value;
use tunnel_pair::{Pair, Site, shown};

/// Every query of the dashboard.
fn queries() -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../extras/grafana/tandem.json");
    let text = fs::read_to_string(path).expect("it is part of the source");
    let dashboard: Value = serde_json::from_str(&text).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("a list").iter();
    let targets = panels.filter_map(|panel| panel["targets"].as_array());
    let queries = targets
        .flatten()
        .map(|target| target["expr"].as_str().expect("a query").to_owned());
    let variables = dashboard["templating"]["list"].as_array().expect("a list");
    let variables = variables
        .iter()
        .filter_map(|variable| variable["definition"].as_str());
    queries.chain(variables.map(str::to_owned)).collect()
}

/// The metrics of Tandem and of processes that the dashboard asks for.
fn asked_for() -> BTreeSet<String> {
    let queries = queries();
    let words = queries
        .iter()
        .flat_map(|query| query.split(|c: char| !c.is_ascii_alphanumeric() && c != '_'));
    let names = words.filter(|word| word.starts_with("tandem_") || word.starts_with("process_"));
    names.map(str::to_owned).collect()
}

/// The metrics that this answer of an admin port has.
fn names_in(metrics: &str) -> BTreeSet<String> {
    let samples = metrics.lines().filter(|line| !line.starts_with('#'));
    let names = samples.filter_map(|line| line.split([' ', '{']).next());
    names.map(str::to_owned).collect()
}

/// What the proxies of tunnel mode have, once a connection has been made.
fn tunnel_mode() -> BTreeSet<String> {
    let (site, pair) = (Site::new(), Pair::new());
    let page = bytes(1_000);
    site.publish("page", &page);
    let _server_side = tunnel_pair::start(&mut pair.server_side(site.port));
    let _client_side = tunnel_pair::start(&mut pair.client_side());
    pair.by_socks().gets(site.port, "page", &page);
    names_in(&shown(pair.client_side_admin(), "/metrics"))
}

/// What those of packet mode have.
fn packet_mode() -> BTreeSet<String> {
    let net = Net::new(Shape::Wire);
    let pair = real::Pair::start(&net, &PairSpec::new(&net));
    // The sizes of what is kept are there from its first look on.
    real::wait_until("it has looked at the store", || {
        pair.a.status().gauges.contains_key("store_bytes")
    });
    let metrics = |host: &Host| host.run("curl -s http://127.0.0.1:9470/metrics");
    let names = names_in(&metrics(&net.a));
    pair.end(&net);
    names
}

#[test]
fn every_metric_of_the_dashboard_is_one_that_a_proxy_has() {
    if !has(&["nginx", "curl", "openssl"]) || !can_run() {
        return;
    }
    let asked = asked_for();
    let (tunnel, packet) = (tunnel_mode(), packet_mode());
    for (mode, own) in [
        (&tunnel, "tandem_tunnel_elided_bytes_total"),
        (&packet, "tandem_packet_saved_bytes_total"),
    ] {
        assert!(mode.contains(own) && asked.contains(own), "{own}");
    }
    let known: BTreeSet<String> = tunnel.union(&packet).cloned().collect();
    let unknown: Vec<&String> = asked.difference(&known).collect();
    assert_eq!(unknown, Vec::<&String>::new());
}
