//! This machine: its clock, the link, privileges, the kernel and the firewall.
//!
//! Is not: a change of any of them.

use std::fs;
use std::time::SystemTime;

use tandem_firewall::{
    Firewall, FirewallError, Foreign, InForce, Link, LinkName, RuleSet, Trouble, lock, privilege,
};
use tandem_tunnel_io::config;

use super::Daemon;
use super::report::Check;
use crate::moment;

/// Packets of which the proxies' own messages are sure to have room (RFC 8200, section 5).
const MIN_MTU: usize = 1_280;

/// Whether the clock can be right. What is learned is forgotten by date.
pub(super) fn clock() -> Check {
    let installed = std::env::current_exe().and_then(fs::metadata);
    let installed = installed.and_then(|program| program.modified());
    let today = i64::try_from(moment::now().0).map_or_else(|_| String::new(), moment::date);
    match installed {
        Ok(installed) if SystemTime::now() < installed => Check::warning(
            "clock",
            format!("it says {today}, which is before this program was installed"),
            "set it, and keep it with NTP: what is learned is forgotten by date",
        ),
        Ok(_) | Err(_) => Check::ok("clock", today),
    }
}

/// Whether the link is there and up.
pub(super) fn link(name: &LinkName) -> Check {
    let link = match Link::find(name) {
        Ok(link) => link,
        Err(error) => return Check::of_error("link", &error),
    };
    let flags = fs::read_to_string(format!("/sys/class/net/{name}/flags")).unwrap_or_default();
    let state = fs::read_to_string(format!("/sys/class/net/{name}/operstate")).unwrap_or_default();
    match (is_up(&flags), state.trim()) {
        (Some(false), _) => Check::problem(
            "link",
            format!("{name} is down"),
            format!("ip link set {name} up, or start what brings it up"),
        ),
        (_, "down" | "lowerlayerdown") => Check::problem(
            "link",
            format!("{name} has no carrier"),
            "see to its cable, modem or tunnel",
        ),
        _ if link.mtu < MIN_MTU => Check::warning(
            "link",
            format!("{name} is up; its MTU is {} bytes", link.mtu),
            format!("IPv6 and the tunnel need {MIN_MTU} bytes: raise it where the link permits"),
        ),
        _ => Check::ok("link", format!("{name} is up, MTU {}", link.mtu)),
    }
}

/// Whether `IFF_UP` is set (netdevice(7)) in hexadecimal flags.
fn is_up(flags: &str) -> Option<bool> {
    let digits = flags.trim().strip_prefix("0x")?;
    let flags = u32::from_str_radix(digits, 16).ok()?;
    Some(flags & 1 != 0)
}

/// Whether this user may do what the proxy has to do.
pub(super) fn privilege() -> Check {
    match privilege::missing() {
        Ok(missing) if missing.is_empty() => {
            Check::ok("privilege", "CAP_NET_ADMIN and CAP_NET_RAW are there")
        }
        Ok(missing) => Check::warning(
            "privilege",
            format!(
                "this run lacks {}: the firewall cannot be looked at",
                missing.join(" and ")
            ),
            "run it as root; the proxy needs them too, unless systemd grants them to it",
        ),
        Err(error) => Check::of_error("privilege", &error),
    }
}

/// What tunnel mode needs for its `--link`.
pub(super) fn tunnel_link(config: &config::Link, daemon: Daemon) -> Vec<Check> {
    let mut checks = Vec::new();
    match LinkName::new(&config.interface) {
        Ok(name) => checks.push(link(&name)),
        Err(error) => checks.push(Check::of_error("link", &error)),
    }
    checks.push(privilege());
    checks.push(udp(config.udp));
    // Without a good name there are no rules; that is told above.
    if let Ok(set) = tandem_tunnel_io::rule_set(config) {
        checks.extend(rules(&set, &config.ports, daemon));
    }
    checks
}

/// What becomes of clients' HTTP/3, from which nothing is saved.
fn udp(udp: config::Udp) -> Check {
    let text = match udp {
        config::Udp::Pass => {
            "HTTP/3 bypasses the tunnel, and saves nothing; `--udp reject` makes browsers use TCP"
        }
        config::Udp::Reject => "HTTP/3 is refused; browsers use TCP",
        config::Udp::Tunnel => "HTTP/3 crosses the tunnel, and saves nothing",
    };
    Check::ok("udp", text)
}

/// What tunnel mode's server side needs for `--out client`.
pub(super) fn tunnel_return_path(port: u16, daemon: Daemon) -> Vec<Check> {
    let mut checks = vec![privilege()];
    match tandem_tunnel_io::server_side_rule_set(port) {
        Ok(set) => checks.extend(rules(&set, &[], daemon)),
        Err(error) => checks.push(Check::of_error("rules", &error)),
    }
    checks
}

/// Whether the rules are in force, whether the kernel takes them, and what is in their way.
pub(super) fn rules(set: &RuleSet, ports: &[u16], daemon: Daemon) -> Vec<Check> {
    if !privilege::missing().is_ok_and(|missing| missing.is_empty()) {
        // Told under "privilege".
        return Vec::new();
    }
    let firewall = Firewall::here();
    let survey = match firewall.survey(set, ports) {
        Ok(survey) => survey,
        Err(error) => return vec![firewall_error(&error)],
    };
    let is_all = |wanted| survey.in_force.iter().all(|(_, found)| *found == wanted);
    let chain = set.chain();
    // One without an admin port, or with another than was said, runs all the same.
    let runs = daemon == Daemon::Answers || lock::has_daemon(chain);
    let own = if runs && is_all(InForce::All) {
        Check::ok("rules", format!("{chain} is in force"))
    } else if runs {
        Check::problem(
            "rules",
            format!("{chain} is not whole: another program took rules out"),
            "the proxy sets them again within ten seconds; make the other program load before it",
        )
    } else if is_all(InForce::None) {
        match firewall.test_features(set) {
            Ok(()) => Check::ok("kernel", "it takes every rule that the proxy sets"),
            Err(error) => firewall_error(&error),
        }
    } else {
        Check::warning(
            "rules",
            format!("{chain} is there, and no proxy runs: a killed one left it"),
            "start the proxy, or take the rules away with `tandem off`",
        )
    };
    let mut checks = vec![own];
    checks.extend(survey.foreign.iter().map(foreign));
    checks
}

fn firewall_error(error: &FirewallError) -> Check {
    // That is others' rules, and no fault of the kernel's.
    let is_hidden = matches!(error, FirewallError::Unlisted { .. });
    let name = if is_hidden { "firewall" } else { "kernel" };
    Check::of_error(name, error)
}

fn foreign(it: &Foreign) -> Check {
    let Foreign {
        program,
        rule,
        trouble,
    } = it;
    let (does, to_do) = match trouble {
        Trouble::StripsOptions => (
            "takes options off TCP segments",
            "exempt option 253 and timestamps: without them the proxies do not find each other",
        ),
        Trouble::ClearsMarks => (
            "sets all bits of the mark",
            "spare the bits above 0x00ffffff: --set-xmark VALUE/MASK in place of --set-mark",
        ),
        Trouble::TakesConnections => (
            "redirects connections before the tunnel sees them",
            "take it out, or exempt what is to go by the tunnel",
        ),
    };
    Check::warning(
        "firewall",
        format!("a rule of {program} {does}: {rule}"),
        to_do,
    )
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use nix::sched::{CloneFlags, unshare};
    use tandem_firewall::lock::InstanceLock;

    use super::super::report::Verdict;
    use super::*;

    #[test]
    fn rules_of_a_proxy_that_runs_and_is_silent_are_not_taken_for_remains() {
        if !tandem_testkit::has_root_and(&["ip", "iptables", "ip6tables"]) {
            return;
        }
        let checked = std::thread::spawn(|| {
            unshare(CloneFlags::CLONE_NEWNET).expect("root may");
            let lo = |state| {
                let words = ["link", "set", "lo", state];
                let set = Command::new("ip").args(words).status();
                assert!(set.expect("it runs").success());
            };
            lo("up");
            let set = tandem_tunnel_io::server_side_rule_set(4433).expect("a good port");
            let installed = Firewall::here().install(set.clone());
            let _installed = installed.expect("they can be set");
            let verdict = || rules(&set, &[], Daemon::IsSilent).remove(0).verdict;
            assert_eq!(verdict(), Verdict::Warning);
            let link = LinkName::new("4433").expect("a good name");
            let _lock = InstanceLock::take("server-side", &link).expect("nobody else");
            assert_eq!(verdict(), Verdict::Ok);
            // The routes that the rules need go with it.
            lo("down");
            assert_eq!(verdict(), Verdict::Problem);
        });
        checked.join().expect("the checks hold");
    }

    #[test]
    fn a_link_that_is_not_there_is_a_problem_and_lo_is_none() {
        let missing = link(&LinkName::new("tandem-none").expect("good"));
        assert_eq!(missing.verdict, Verdict::Problem);
        assert!(missing.to_do.expect("what to do").contains("ip link"));
        let lo = link(&LinkName::new("lo").expect("good"));
        assert_ne!(lo.verdict, Verdict::Warning, "{lo:?}");
        assert_eq!(is_up("0x1003\n"), Some(true));
        assert_eq!(is_up("0x1002\n"), Some(false));
        assert_eq!(is_up(""), None);
    }

    #[test]
    fn this_machine_s_clock_is_right() {
        assert_eq!(clock().verdict, Verdict::Ok);
    }
}
