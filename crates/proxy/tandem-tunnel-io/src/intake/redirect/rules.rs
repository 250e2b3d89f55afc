//! The firewall's rules that take connections in, as text.
//!
//! Is not: their setting, nor what becomes of what they take.
//!
//! Of connections that begin with REDIRECT the kernel keeps a translation, and all further packets
//! follow it. With TPROXY it keeps none: the first packet is given to the listener, and each later
//! one to the socket that belongs to it, which the match `socket` finds. Both get a mark, and the
//! mark leads to a table with one route, of kind `local`. What belongs to no socket is forwarded as
//! before: connections that are older than the daemon. With REDIRECT, too, only first packets are
//! taken (`--syn`): where nothing was tracked before, the kernel takes a packet in the middle of a
//! connection for the first one.

use std::net::SocketAddr;

use tandem_firewall::{LinkName, Owner, RuleSet, Table, TableRules, Trial, port_lists};
use tandem_queue::queue::number_for;

use super::{Marks, Taken};
use crate::config::{Intercept, Udp, WhenDown};

/// What goes to this machine is no business of the link's.
const TO_THIS_MACHINE: &str = "-m addrtype --dst-type LOCAL -j RETURN";

/// A socket of ours that has the address of another machine (iptables-extensions(8), `socket`).
const OWN_SOCKETS: &str = "-p tcp -m socket --transparent";

/// By default that is with "port unreachable", of ICMP and of ICMPv6 (iptables-extensions(8)).
const REJECT: &str = "-p udp -j REJECT";

/// What is no business of the tunnel's: flows that are older than the daemon, or pass it since it
/// was down, as far as the kernel tracks them; and those whose destination is translated, since
/// what comes back of them has to be translated, too.
const TRACKED: &str = "-m conntrack --ctstate ESTABLISHED,RELATED,DNAT -j RETURN";

/// What programs of this machine send, where it is seen beside what passes through.
const OF_THIS_MACHINE: &str = "-m addrtype --src-type LOCAL";

/// Neighbours on the link that are many.
const TO_MANY: &str = "-m addrtype ! --dst-type UNICAST -j RETURN";

/// The protocol over IP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Over {
    Tcp,
    Udp,
}

impl Over {
    /// The name that `-p` takes.
    fn name(self) -> &'static str {
        match self {
            Over::Tcp => "tcp",
            Over::Udp => "udp",
        }
    }
}

/// The rules that lead to port `to`, but for what has the mark of the daemon's own connections. The
/// same for IPv4 and IPv6.
pub(super) fn rules(taken: &Taken<'_>, to: u16, marks: Marks) -> RuleSet {
    let (mut tables, mut trials) = (Vec::new(), trials());
    if let Some(mark) = marks.delivered {
        tables.push(without_translation(taken, to, mark));
        trials.extend(trials_of_tproxy());
    }
    tables.push(translated(taken, to, marks.own));
    if marks.own.is_some() {
        trials.push(trial(
            Table::Nat,
            "the match mark",
            "CONFIG_NETFILTER_XT_MARK",
            "-m mark --mark 0x1/0x1 -j RETURN",
        ));
    }
    match taken.udp {
        Udp::Pass | Udp::Tunnel => {}
        Udp::Reject => {
            tables.push(rejected(taken, marks.own));
            trials.push(trial(
                Table::Filter,
                "the target REJECT",
                "CONFIG_IP_NF_TARGET_REJECT, CONFIG_IP6_NF_TARGET_REJECT",
                REJECT,
            ));
        }
    }
    if let Some(mark) = marks.answers {
        let queue = queue_number(&taken.link);
        tables.extend([
            queued(taken, queue, [marks.own, Some(mark)]),
            untracked(mark),
        ]);
        trials.extend(trials_of_queue(&to_queue(queue, taken.when_down)));
    }
    let rules = RuleSet::new(Owner::Tunnel, &taken.link, tables, trials);
    match marks.delivered {
        None => rules,
        Some(mark) => rules.delivering(mark),
    }
}

/// What redirects connections.
fn translated(taken: &Taken<'_>, to: u16, own: Option<u32>) -> TableRules {
    let mut hooks = match taken.intercept {
        Intercept::Redirect => from_others(taken),
        Intercept::Tproxy => Vec::new(),
    };
    hooks.push(format!("OUTPUT -o {}", taken.link));
    let mut rules = vec![TO_THIS_MACHINE.to_owned(), not_to(taken.peer, Over::Tcp)];
    rules.extend(own.map(not_marked));
    rules.push(format!("-p tcp --syn -j REDIRECT --to-ports {to}"));
    TableRules {
        table: Table::Nat,
        rules,
        jumps: jumps(taken, Over::Tcp, &hooks),
    }
}

/// What gives packets of other machines to sockets of ours, whatever their addresses.
fn without_translation(taken: &Taken<'_>, to: u16, mark: u32) -> TableRules {
    TableRules {
        table: Table::Mangle,
        rules: vec![
            TO_THIS_MACHINE.to_owned(),
            not_to(taken.peer, Over::Tcp),
            format!("{OWN_SOCKETS} -j MARK --set-xmark {mark:#x}/{mark:#x}"),
            format!("-p tcp --syn -j TPROXY --on-port {to} --tproxy-mark {mark:#x}/{mark:#x}"),
        ],
        jumps: jumps(taken, Over::Tcp, &from_others(taken)),
    }
}

/// What rejects UDP of this machine and of those it serves.
fn rejected(taken: &Taken<'_>, own: Option<u32>) -> TableRules {
    let link = &taken.link;
    let mut hooks = match taken.from.as_slice() {
        [] => vec![format!("FORWARD -o {link}")],
        from => {
            let by = |interface: &LinkName| format!("FORWARD -i {interface} -o {link}");
            from.iter().map(by).collect()
        }
    };
    hooks.push(format!("OUTPUT -o {link}"));
    let mut rules = vec![not_to(taken.peer, Over::Udp)];
    rules.extend(own.map(not_marked));
    rules.push(REJECT.to_owned());
    TableRules {
        table: Table::Filter,
        rules,
        jumps: jumps(taken, Over::Udp, &hooks),
    }
}

/// What takes UDP of this machine and of those it serves out of the kernel. After the firewall's
/// own rules, so that these decide who may send, and before the source is translated; rules of
/// FORWARD come before that, and are needed where interfaces are named. Rules of OUTPUT would come
/// before that and before the destination is translated.
///
/// Of what other machines on the link's own network send by this one, the kernel knows the
/// interface in POSTROUTING, too (Linux 5.5, `ip_output`). iptables takes no rule of it there, but
/// in a chain that POSTROUTING leads to.
fn queued(taken: &Taken<'_>, queue: u16, own: [Option<u32>; 2]) -> TableRules {
    let link = &taken.link;
    let mut rules = Vec::new();
    let hooks = match taken.from.as_slice() {
        [] => {
            rules.push(format!("-i {link} -j RETURN"));
            vec![format!("POSTROUTING -o {link}")]
        }
        from => {
            let by = |interface: &LinkName| format!("FORWARD -i {interface} -o {link}");
            let mut hooks: Vec<String> = from.iter().map(by).collect();
            hooks.push(format!("POSTROUTING -o {link} {OF_THIS_MACHINE}"));
            hooks
        }
    };
    rules.extend([TO_MANY.to_owned(), not_to(taken.peer, Over::Udp)]);
    // What the daemon sends itself: to servers, and as their answers.
    rules.extend(own.into_iter().flatten().map(not_marked));
    rules.push(TRACKED.to_owned());
    rules.push(to_queue(queue, taken.when_down));
    TableRules {
        table: Table::Mangle,
        rules,
        jumps: jumps(taken, Over::Udp, &hooks),
    }
}

/// Nobody reads the queue once the daemon stops or has been killed, until the rules are removed:
/// then UDP passes, or is dropped, as while the tunnel is down.
fn to_queue(queue: u16, when_down: WhenDown) -> String {
    let bypass = match when_down {
        WhenDown::Pass => " --queue-bypass",
        WhenDown::Fail => "",
    };
    format!("-j NFQUEUE --queue-num {queue}{bypass}")
}

/// The queue of what is taken out for a link.
pub(super) fn queue_number(link: &LinkName) -> u16 {
    number_for("client-side", link)
}

/// What keeps answers that the daemon makes from being tracked: the kernel knows nothing of what
/// they answer, and would take the client for the one who answers.
fn untracked(mark: u32) -> TableRules {
    TableRules {
        table: Table::Raw,
        rules: vec![format!(
            "-m mark --mark {mark:#x}/{mark:#x} -j CT --notrack"
        )],
        jumps: vec!["OUTPUT".to_owned()],
    }
}

fn trials_of_queue(to_queue: &str) -> [Trial; 4] {
    [
        trial(
            Table::Mangle,
            "the match addrtype",
            "CONFIG_NETFILTER_XT_MATCH_ADDRTYPE",
            TO_MANY,
        ),
        trial(
            Table::Mangle,
            "the match conntrack",
            "CONFIG_NETFILTER_XT_MATCH_CONNTRACK",
            TRACKED,
        ),
        trial(
            Table::Mangle,
            "the target NFQUEUE",
            "CONFIG_NETFILTER_XT_TARGET_NFQUEUE",
            to_queue,
        ),
        trial(
            Table::Raw,
            "the target CT",
            "CONFIG_NETFILTER_XT_TARGET_CT",
            "-j CT --notrack",
        ),
    ]
}

/// Where packets of other machines come by that may leave by the link.
fn from_others(taken: &Taken<'_>) -> Vec<String> {
    let by = |interface: &LinkName| format!("PREROUTING -i {interface}");
    match taken.from.as_slice() {
        [] => vec![format!("PREROUTING ! -i {}", taken.link)],
        from => from.iter().map(by).collect(),
    }
}

/// Which packets visit the chain, of those that pass here.
fn jumps(taken: &Taken<'_>, over: Over, hooks: &[String]) -> Vec<String> {
    let protocol = over.name();
    let mut jumps = Vec::new();
    for ports in port_lists(taken.ports) {
        for hook in hooks {
            jumps.push(format!(
                "{hook} -p {protocol} -m multiport --dports {ports}"
            ));
        }
    }
    jumps
}

/// What goes to the server side is left alone. Of a rule for one version of IP the other's program
/// takes no notice (iptables(8), `-4` and `-6`).
fn not_to(peer: SocketAddr, over: Over) -> String {
    let (address, port) = (peer.ip().to_canonical(), peer.port());
    let version = if address.is_ipv4() { "-4" } else { "-6" };
    let protocol = over.name();
    format!("{version} -p {protocol} -d {address} --dport {port} -j RETURN")
}

/// What has this mark is left alone.
fn not_marked(mark: u32) -> String {
    format!("-m mark --mark {mark:#x}/{mark:#x} -j RETURN")
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
