//! The firewall's rules that take connections in, as text.
//!
//! Is not: their setting, nor what becomes of what they take.
//!
//! Of connections that begin with REDIRECT the kernel keeps a translation, and all further packets
//! follow it. With TPROXY it keeps none: the first packet is given to the listener, and each later
//! one to the socket that belongs to it, which the match `socket` finds. Both get a mark, and the
//! mark leads to a table with one route, of kind `local`. What belongs to no socket is forwarded as
//! before: connections that are older than the daemon.

use std::net::SocketAddr;

use tandem_firewall::{LinkName, Owner, RuleSet, Table, TableRules, Trial, port_lists};

use super::{Marks, Taken};

/// What goes to this machine is no business of the link's.
const TO_THIS_MACHINE: &str = "-m addrtype --dst-type LOCAL -j RETURN";

/// A socket of ours that has the address of another machine (iptables-extensions(8), `socket`).
const OWN_SOCKETS: &str = "-p tcp -m socket --transparent";

/// The rules that lead to port `to`, but for what has the mark of the daemon's own connections. The
/// same for IPv4 and IPv6.
pub(super) fn rules(taken: &Taken<'_>, to: u16, marks: Marks) -> RuleSet {
    let mut hooks = vec![format!("OUTPUT -o {}", taken.link)];
    let (mut tables, mut trials) = (Vec::new(), trials());
    match marks.delivered {
        None => {
            hooks.splice(..0, from_others(taken));
        }
        Some(mark) => {
            tables.push(without_translation(taken, to, mark));
            trials.extend(trials_of_tproxy());
        }
    }
    let mut rules = vec![TO_THIS_MACHINE.to_owned(), not_to(taken.peer)];
    if let Some(mark) = marks.own {
        let is_marked = format!("-m mark --mark {mark:#x}/{mark:#x} -j RETURN");
        trials.push(trial(
            Table::Nat,
            "the match mark",
            "CONFIG_NETFILTER_XT_MARK",
            &is_marked,
        ));
        rules.push(is_marked);
    }
    rules.push(format!("-p tcp -j REDIRECT --to-ports {to}"));
    tables.push(TableRules {
        table: Table::Nat,
        rules,
        jumps: jumps(taken, &hooks),
    });
    let rules = RuleSet::new(Owner::Tunnel, &taken.link, tables, trials);
    match marks.delivered {
        None => rules,
        Some(mark) => rules.delivering(mark),
    }
}

/// What gives packets of other machines to sockets of ours, whatever their addresses.
fn without_translation(taken: &Taken<'_>, to: u16, mark: u32) -> TableRules {
    TableRules {
        table: Table::Mangle,
        rules: vec![
            TO_THIS_MACHINE.to_owned(),
            not_to(taken.peer),
            format!("{OWN_SOCKETS} -j MARK --set-xmark {mark:#x}/{mark:#x}"),
            format!("-p tcp --syn -j TPROXY --on-port {to} --tproxy-mark {mark:#x}/{mark:#x}"),
        ],
        jumps: jumps(taken, &from_others(taken)),
    }
}

/// Where packets of other machines that are taken come by.
fn from_others(taken: &Taken<'_>) -> Vec<String> {
    let by = |interface: &LinkName| format!("PREROUTING -i {interface}");
    match taken.from.as_slice() {
        [] => vec![format!("PREROUTING ! -i {}", taken.link)],
        from => from.iter().map(by).collect(),
    }
}

/// Which connections visit the chain, of those that pass here.
fn jumps(taken: &Taken<'_>, hooks: &[String]) -> Vec<String> {
    let mut jumps = Vec::new();
    for ports in port_lists(taken.ports) {
        for hook in hooks {
            jumps.push(format!("{hook} -p tcp -m multiport --dports {ports}"));
        }
    }
    jumps
}

/// What goes to the server side is left alone. Of a rule for one version of IP the other's program
/// takes no notice (iptables(8), `-4` and `-6`).
fn not_to(peer: SocketAddr) -> String {
    let (address, port) = (peer.ip().to_canonical(), peer.port());
    let version = if address.is_ipv4() { "-4" } else { "-6" };
    format!("{version} -p tcp -d {address} --dport {port} -j RETURN")
}

/// The rules that need a feature of the kernel, each alone.
fn trials() -> Vec<Trial> {
    vec![
        trial(
            Table::Nat,
            "the match multiport",
            "CONFIG_NETFILTER_XT_MATCH_MULTIPORT",
            "-p tcp -m multiport --dports 443 -j RETURN",
        ),
        trial(
            Table::Nat,
            "the match addrtype",
            "CONFIG_NETFILTER_XT_MATCH_ADDRTYPE",
            TO_THIS_MACHINE,
        ),
        trial(
            Table::Nat,
            "the target REDIRECT",
            "CONFIG_NETFILTER_XT_TARGET_REDIRECT",
            "-p tcp -j REDIRECT --to-ports 443",
        ),
    ]
}

fn trials_of_tproxy() -> [Trial; 3] {
    [
        trial(
            Table::Mangle,
            "the match socket",
            "CONFIG_NETFILTER_XT_MATCH_SOCKET",
            &format!("{OWN_SOCKETS} -j RETURN"),
        ),
        trial(
            Table::Mangle,
            "the target MARK",
            "CONFIG_NETFILTER_XT_MARK",
            "-j MARK --set-xmark 0x1/0x1",
        ),
        trial(
            Table::Mangle,
            "the target TPROXY",
            "CONFIG_NETFILTER_XT_TARGET_TPROXY",
            "-p tcp -j TPROXY --on-port 443 --tproxy-mark 0x1/0x1",
        ),
    ]
}

fn trial(table: Table, feature: &'static str, kernel_option: &'static str, rule: &str) -> Trial {
    Trial {
        feature,
        kernel_option,
        table,
        rule: rule.to_owned(),
    }
}
