//! What a running daemon has counted, read for what keeps it from saving.
//!
//! Is not: the counters' meaning in full; docs/operating.md has a row for each.
//!
//! Invariant: a few connections prove nothing: shares are judged from [`ENOUGH`] on.

use tandem_packet_io::status::Status;

use super::report::Check;

/// Connections from which on a share says something.
const ENOUGH: u64 = 10;

/// Whatever its mode is.
pub(super) fn of(status: &Status) -> Vec<Check> {
    match status.mode.as_str() {
        "tunnel" => tunnel(status),
        _ => packet(status),
    }
}

/// A daemon of packet mode.
pub(super) fn packet(status: &Status) -> Vec<Check> {
    let count = |name: &str| counter(status, &format!("packet_{name}"));
    let opened = count("flows_opened");
    let mut checks = Vec::new();
    if opened == 0 {
        checks.push(Check::warning(
            "traffic",
            "no connection has passed since the start",
            "is this the last machine before the link, do connections leave by it, are --ports right?",
        ));
    } else {
        checks.push(Check::ok("traffic", format!("{opened} connections")));
        checks.push(other_proxy(status, opened));
    }
    checks.extend(middlebox(status));
    let without = count("flows_given_up_no_timestamps");
    if opened >= ENOUGH && without > opened / 2 {
        checks.push(Check::warning(
            "timestamps",
            format!("{without} of {opened} connections have no TCP timestamps"),
            "Windows: `netsh int tcp set global timestamps=enabled` on the clients",
        ));
    }
    let sealed = count("flows_given_up_tls13") + count("flows_given_up_nothing_to_gain");
    let share = Share::of(sealed, opened);
    checks.push(if share.is_most() {
        Check::warning(
            "tls",
            format!("{share} have nothing to save: TLS 1.3, or no TLS"),
            "nothing, in packet mode; tunnel mode saves their round trips",
        )
    } else {
        Check::ok("tls", format!("{share} have nothing to save"))
    });
    checks.push(match count("flights_rebuilt_bytes") {
        0 => saved_check(counter(status, "packet_saved_bytes")),
        rebuilt => Check::ok(
            "saved",
            format!("{rebuilt} bytes of handshakes were rebuilt here from fewer"),
        ),
    });
    if let Some(check) = queue(status) {
        checks.push(check);
    }
    checks.extend(store(status));
    checks
}

/// Whether the other proxy answers, and what that says.
fn other_proxy(status: &Status, opened: u64) -> Check {
    let count = |name: &str| counter(status, &format!("packet_{name}"));
    let (met, refused) = (count("flows_with_peer"), count("options_refused"));
    if met > 0 {
        return Check::ok(
            "peer",
            format!("the other proxy answered in {met} of {opened} connections"),
        );
    }
    if refused > 0 {
        return Check::problem(
            "peer",
            format!("{refused} answers were of another key"),
            "`sha256sum` the key file on both sides",
        );
    }
    let unanswered = count("flows_given_up_no_answer");
    if unanswered == 0 {
        return Check::warning(
            "peer",
            "no connection yet has shown whether the other proxy is there",
            "wait for a new connection, or open one",
        );
    }
    Check::problem(
        "peer",
        format!("no answer from the other proxy in {unanswered} connections"),
        "is it up, with the same key? do both directions pass it? does anything take TCP option 253 off?",
    )
}

/// What the breaker has found.
fn middlebox(status: &Status) -> Option<Check> {
    let stopped = gauge(status, "stopped_paths");
    if stopped == 0 {
        return None;
    }
    let reasons = [
        ("timestamps_replaced", "replaces TCP timestamps"),
        ("bytes_taken", "takes rewritten bytes into the stream"),
        ("flights_withheld", "holds or drops rewritten flights"),
    ];
    let seen = reasons
        .into_iter()
        .filter(|(name, _)| counter(status, &format!("packet_paths_stopped_{name}")) > 0);
    let seen: Vec<&str> = seen.map(|(_, does)| does).collect();
    Some(Check::problem(
        "middlebox",
        format!(
            "nothing is rewritten on {stopped} paths: a device between {}",
            seen.join(", and ")
        ),
        "exempt the traffic there, or use tunnel mode (docs/operating.md, Middleboxes)",
    ))
}

fn queue(status: &Status) -> Option<Check> {
    let overflows = counter(status, "queue_overflows");
    let restored = counter(status, "rules_restored");
    let too_long = counter(status, "inject_too_long");
    if overflows > 0 {
        return Some(Check::warning(
            "queue",
            format!("packets came faster than they could be read, {overflows} times"),
            "give the machine more processor, or name fewer --ports",
        ));
    }
    if too_long > 0 {
        return Some(Check::warning(
            "queue",
            format!("{too_long} packets were longer than the MTU"),
            "did the MTU of the link change? restart the proxy",
        ));
    }
    (restored > 0).then(|| {
        Check::warning(
            "queue",
            format!("another program emptied the firewall, {restored} times"),
            "make it load before Tandem starts",
        )
    })
}

/// Whether a daemon of tunnel mode has a tunnel now.
pub(super) fn has_tunnel(status: &Status) -> bool {
    gauge(status, "tunnels") > 0
}

/// A daemon of tunnel mode.
pub(super) fn tunnel(status: &Status) -> Vec<Check> {
    let count = |name: &str| counter(status, &format!("tunnel_{name}"));
    let mut checks = vec![tunnel_state(status)];
    let (sent, lost) = (
        counter(status, "udp_sent_datagrams"),
        counter(status, "lost_packets"),
    );
    let loss = Share::of(lost, sent);
    if loss.is_over_a_tenth() {
        checks.push(Check::warning(
            "loss",
            format!("{loss} of what was sent is lost"),
            "state the rate of the line with --link-rate, on both sides: loss then slows nothing down",
        ));
    }
    let opened = count("relays_opened");
    if opened == 0 {
        checks.push(Check::warning(
            "traffic",
            "no connection has come through the tunnel since the start",
            "do programs use the way in (--socks, --http-proxy, --link)? try `curl --socks5-hostname`",
        ));
    } else {
        checks.push(Check::ok("traffic", format!("{opened} connections")));
    }
    checks.extend(warning_of(
        count("relays_ended_not_allowed"),
        "allowed",
        "connections went where the server side may not connect to",
        "add the network and the port to --allow there, if it is to be reached",
    ));
    checks.extend(warning_of(
        counter(status, "relays_refused_by_limit") + counter(status, "relays_ended_by_limit"),
        "limit",
        "connections were refused or reset at their client's daily limit",
        "raise --client-limit, or add [[limits]] for the client; --log debug names it",
    ));
    let unknown = count("relays_ended_name_not_found");
    if Share::of(unknown, opened).is_over_a_tenth() {
        checks.push(Check::warning(
            "names",
            format!("{unknown} names were not found at the server side"),
            "does its resolver work, and are they public names?",
        ));
    }
    checks.extend(warning_of(
        counter(status, "client_addresses_not_told"),
        "clients",
        "servers were to see the client's address, which was not told",
        "set --tell-client-address on the client side; clients of its own machine have none",
    ));
    checks.extend(warning_of(
        counter(status, "client_addresses_not_believed"),
        "clients",
        "clients' addresses are in none of --client-networks",
        "add the network, if it is the clients'; --log debug names the addresses",
    ));
    let sealed = count("handshakes_passed_tls13");
    let share = Share::of(sealed, sealed + count("handshakes_finished"));
    checks.push(if share.is_most() {
        Check::warning(
            "tls",
            format!("{share} of handshakes are TLS 1.3: certificates cross encrypted"),
            "nothing; round trips and hellos are saved all the same",
        )
    } else {
        Check::ok("tls", format!("{share} of handshakes are TLS 1.3"))
    });
    checks.push(match count("elided_bytes") {
        0 if count("flights_rebuilt") > 0 => Check::ok(
            "saved",
            format!("{} flights crossed short", count("flights_rebuilt")),
        ),
        bytes => saved_check(bytes),
    });
    checks.extend(store(status));
    checks
}

/// So many of `what`, where there are any.
fn warning_of(count: u64, name: &'static str, what: &str, to_do: &str) -> Option<Check> {
    (count > 0).then(|| Check::warning(name, format!("{count} {what}"), to_do))
}

fn tunnel_state(status: &Status) -> Check {
    let failed = counter(status, "tunnels_failed");
    if has_tunnel(status) {
        let found = match (
            status.role.as_str(),
            status.gauges.get("round_trip_milliseconds"),
        ) {
            ("client-side", Some(round_trip)) => {
                let over = match gauge(status, "tunnels_over_udp") {
                    0 => "TCP: UDP got no answer",
                    _ => "UDP",
                };
                format!("the tunnel is up, round trip {round_trip} ms, over {over}")
            }
            _ => format!(
                "{} tunnels are up, {} of them over TCP",
                gauge(status, "tunnels"),
                gauge(status, "tunnels_over_tcp")
            ),
        };
        return Check::ok("tunnel", found);
    }
    if status.role == "server-side" {
        let found = match failed {
            0 => "no client side has come".to_owned(),
            _ => format!("no client side is there, and {failed} were refused or fell silent"),
        };
        return Check::warning(
            "tunnel",
            found,
            "does UDP or TCP to --listen get here? the same key on both sides?",
        );
    }
    let given_up = counter(status, "relays_without_tunnel");
    if failed + given_up == 0 {
        return Check::ok(
            "tunnel",
            "at rest: there is none, and nobody has needed one in vain",
        );
    }
    Check::problem(
        "tunnel",
        format!("there is none: {failed} tries failed, {given_up} connections were given up"),
        "--probe says why; `journalctl -u tandem-tunnel-client-side` has the tries",
    )
}

fn saved_check(bytes: u64) -> Check {
    match bytes {
        0 => Check::warning(
            "saved",
            "nothing yet",
            "visit a site twice: the first time, both sides have to see its certificate",
        ),
        bytes => Check::ok(
            "saved",
            format!("{bytes} bytes of handshakes did not cross"),
        ),
    }
}

fn store(status: &Status) -> Option<Check> {
    let errors = gauge(status, "store_disk_errors");
    match status.gauges.get("store_on_disk") {
        Some(0) => Some(Check::problem(
            "kept",
            format!("what is learned is kept in memory only ({errors} errors of the disk)"),
            "is the disk full or read-only? `tandem store ls` says more",
        )),
        Some(_) => Some(Check::ok(
            "kept",
            format!(
                "{} objects, {} bytes, on disk",
                gauge(status, "store_objects"),
                gauge(status, "store_bytes")
            ),
        )),
        None => None,
    }
}

fn counter(status: &Status, name: &str) -> u64 {
    status.counters.get(name).copied().unwrap_or_default()
}

fn gauge(status: &Status, name: &str) -> u64 {
    status.gauges.get(name).copied().unwrap_or_default()
}

/// A part of a whole.
#[derive(Debug, Clone, Copy)]
struct Share {
    part: u64,
    whole: u64,
}

impl Share {
    fn of(part: u64, whole: u64) -> Self {
        Self { part, whole }
    }

    fn is_most(self) -> bool {
        self.whole >= ENOUGH && self.part > self.whole / 2
    }

    fn is_over_a_tenth(self) -> bool {
        self.whole >= ENOUGH && self.part > self.whole / 10
    }
}

impl std::fmt::Display for Share {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of {}", self.part, self.whole)
    }
}

#[cfg(test)]
mod tests {
    use super::super::report::Verdict;
    use super::*;
    use std::collections::BTreeMap;

    fn status(mode: &str, counters: &[(&str, u64)], gauges: &[(&str, u64)]) -> Status {
        let map = |pairs: &[(&str, u64)]| -> BTreeMap<String, u64> {
            let pairs = pairs.iter();
            pairs
                .map(|(name, value)| ((*name).to_owned(), *value))
                .collect()
        };
        let (counters, gauges) = (map(counters), map(gauges));
        let value = serde_json::json!({
            "version": "0", "role": "client-side", "link": "ppp0", "mode": mode, "pid": 1,
            "queue": 0, "uptime_seconds": 1.0, "cpu_seconds": 0.0, "resident_bytes": 0,
            "peak_resident_bytes": 0, "counters": counters, "gauges": gauges,
        });
        serde_json::from_value(value).expect("a status")
    }

    /// The verdict on one thing; none where it was not looked at.
    fn verdict(status: &Status, name: &str) -> Option<Verdict> {
        let checks = of(status);
        let found = checks.into_iter().find(|check| check.name == name);
        found.map(|check| check.verdict)
    }

    #[test]
    fn a_proxy_that_finds_no_partner_is_told_from_one_that_finds_another_key() {
        let opened = ("packet_flows_opened", 12);
        let silent = status(
            "packet",
            &[opened, ("packet_flows_given_up_no_answer", 12)],
            &[],
        );
        assert_eq!(verdict(&silent, "peer"), Some(Verdict::Problem));
        let stranger = status("packet", &[opened, ("packet_options_refused", 12)], &[]);
        let found = of(&stranger);
        let peer = found.iter().find(|check| check.name == "peer");
        assert!(peer.is_some_and(|check| check.found.contains("another key")));
        let met = status("packet", &[opened, ("packet_flows_with_peer", 3)], &[]);
        assert_eq!(verdict(&met, "peer"), Some(Verdict::Ok));
        let idle = status("packet", &[], &[]);
        assert_eq!(verdict(&idle, "peer"), None);
        assert_eq!(verdict(&idle, "traffic"), Some(Verdict::Warning));
    }

    #[test]
    fn a_stopped_path_names_what_the_device_does() {
        let stopped = status(
            "packet",
            &[("packet_paths_stopped_timestamps_replaced", 1)],
            &[("stopped_paths", 1)],
        );
        let check = middlebox(&stopped).expect("it is told");
        assert_eq!(check.verdict, Verdict::Problem);
        assert!(check.found.contains("replaces TCP timestamps"), "{check:?}");
        assert_eq!(middlebox(&status("packet", &[], &[])), None);
    }

    #[test]
    fn most_handshakes_in_tls13_are_a_warning_in_both_modes() {
        let packet = status(
            "packet",
            &[
                ("packet_flows_opened", 20),
                ("packet_flows_given_up_tls13", 15),
            ],
            &[],
        );
        assert_eq!(verdict(&packet, "tls"), Some(Verdict::Warning));
        let tunnel = status(
            "tunnel",
            &[
                ("tunnel_handshakes_passed_tls13", 15),
                ("tunnel_handshakes_finished", 5),
            ],
            &[],
        );
        assert_eq!(verdict(&tunnel, "tls"), Some(Verdict::Warning));
        let few = status("tunnel", &[("tunnel_handshakes_passed_tls13", 3)], &[]);
        assert_eq!(verdict(&few, "tls"), Some(Verdict::Ok));
    }

    #[test]
    fn clients_at_their_limit_are_told_from_servers_that_are_not_allowed() {
        let limited = [("relays_refused_by_limit", 2), ("relays_ended_by_limit", 1)];
        let limited = status("tunnel", &limited, &[]);
        assert_eq!(verdict(&limited, "limit"), Some(Verdict::Warning));
        assert_eq!(verdict(&limited, "allowed"), None);
        assert_eq!(verdict(&status("tunnel", &[], &[]), "limit"), None);
    }

    #[test]
    fn clients_whose_address_servers_do_not_see_are_told() {
        for name in ["client_addresses_not_told", "client_addresses_not_believed"] {
            let some = status("tunnel", &[(name, 1)], &[]);
            assert_eq!(verdict(&some, "clients"), Some(Verdict::Warning), "{name}");
        }
        assert_eq!(verdict(&status("tunnel", &[], &[]), "clients"), None);
    }

    #[test]
    fn a_client_side_at_rest_without_a_tunnel_is_well_and_a_server_side_nobody_came_to_is_not() {
        let at_rest = status("tunnel", &[("tunnels_restarted", 1)], &[("tunnels", 0)]);
        assert_eq!(verdict(&at_rest, "tunnel"), Some(Verdict::Ok));
        // Somebody needed one.
        let in_vain = status("tunnel", &[("relays_without_tunnel", 1)], &[]);
        assert_eq!(verdict(&in_vain, "tunnel"), Some(Verdict::Problem));
        let alone = Status {
            role: "server-side".to_owned(),
            ..at_rest
        };
        assert_eq!(verdict(&alone, "tunnel"), Some(Verdict::Warning));
    }

    #[test]
    fn what_was_saved_is_told_by_the_side_that_wrote_and_by_the_side_that_rebuilt() {
        let saved = |mode, counters: &[(&str, u64)]| verdict(&status(mode, counters, &[]), "saved");
        for (mode, name) in [
            ("packet", "packet_saved_bytes"),
            ("packet", "packet_flights_rebuilt_bytes"),
            ("tunnel", "tunnel_elided_bytes"),
            ("tunnel", "tunnel_flights_rebuilt"),
        ] {
            assert_eq!(saved(mode, &[(name, 1)]), Some(Verdict::Ok), "{name}");
            assert_eq!(saved(mode, &[]), Some(Verdict::Warning), "{mode}");
        }
    }

    #[test]
    fn no_tunnel_loss_and_a_disk_that_fails_are_told() {
        let down = status("tunnel", &[("tunnels_failed", 4)], &[("tunnels", 0)]);
        assert_eq!(verdict(&down, "tunnel"), Some(Verdict::Problem));
        let up = status(
            "tunnel",
            &[("udp_sent_datagrams", 100), ("lost_packets", 20)],
            &[
                ("tunnels", 1),
                ("round_trip_milliseconds", 600),
                ("store_on_disk", 0),
            ],
        );
        assert_eq!(verdict(&up, "tunnel"), Some(Verdict::Ok));
        assert_eq!(verdict(&up, "loss"), Some(Verdict::Warning));
        assert_eq!(verdict(&up, "kept"), Some(Verdict::Problem));
    }

    /// Every name that is read here is one that a daemon counts; docs/operating.md has them all.
    #[test]
    fn every_counter_that_is_read_is_a_documented_one() {
        let page = include_str!("../../../../../docs/operating.md");
        let source = include_str!("counts.rs");
        let source = source.split("#[cfg(test)]").next().unwrap_or_default();
        for name in source.split('"').skip(1).step_by(2) {
            let is_name = name.contains('_')
                && name
                    .bytes()
                    .all(|byte| byte.is_ascii_lowercase() || byte == b'_' || byte.is_ascii_digit());
            if !is_name || name.starts_with("store_") || name.starts_with("round_trip") {
                continue;
            }
            let bare = name.strip_prefix("packet_").unwrap_or(name);
            let ending = bare.rsplit("given_up_").next().unwrap_or(bare);
            let is_there = [name, bare].iter().any(|name| page.contains(name))
                || page.contains(&format!(
                    "…_{}",
                    name.rsplit("_ended_").next().unwrap_or(name)
                ))
                || page.contains(&format!(
                    "…_{}",
                    ending.trim_start_matches("handshakes_passed_")
                ));
            assert!(is_there, "{name} is not in docs/operating.md");
        }
    }
}
