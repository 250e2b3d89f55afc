//! The firewall's rules as data: which packets reach the queue, which pass it by, and the exact
//! input of the programs that say so to the kernel.
//!
//! Is not: the running of these programs (`firewall.rs`).
//!
//! Invariants: everything that is set stands in one chain per table, named after role and link, and
//! in jumps to it; so what another daemon of the same role and link left is found by name, and no
//! other rule is ever touched. The jumps come last in their chains: a packet that leaves the queue
//! by a verdict skips what stands behind the queue's rule (kernel fact), so what others have set
//! before still runs.
//!
//! | table, hook | packets | why there |
//! |---|---|---|
//! | mangle POSTROUTING `-o LINK` | to the link, forwarded and local | before the source address is translated |
//! | mangle FORWARD `-i LINK`, INPUT `-i LINK` | from the link | after it is translated back |
//! | raw OUTPUT `! -o LINK` | injected towards the near endpoint | past connection tracking, which saw the packet already |

use std::collections::BTreeSet;
use std::fmt::Write as _;

use tandem_packet::Role;

use crate::config::{LinkName, Marks};

/// Ports that one `multiport` match takes (`XT_MULTI_PORTS`,
/// include/uapi/linux/netfilter/xt_multiport.h).
const PORTS_A_RULE: usize = 15;

/// Lets pass what begins a connection in the eyes of connection tracking, and is no SYN.
const PICKED_UP: &str = "-p tcp ! --syn -m conntrack --ctstate NEW -j RETURN";

/// How every chain of Tandem's begins.
pub(crate) const CHAIN_PREFIX: &str = "tandem-";

/// How the names of a client side's chains begin, of a server side's, and of those in which a start
/// tries the kernel's features.
const CHAIN_PREFIXES: [&str; 3] = ["tandem-c-", "tandem-s-", "tandem-try-"];

/// An IP version, by the programs that set its rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Family {
    /// IPv4: `iptables`.
    V4,
    /// IPv6: `ip6tables`.
    V6,
}

impl Family {
    /// Both, in the order in which rules are set.
    pub const ALL: [Family; 2] = [Family::V4, Family::V6];

    /// The program that sets one rule; `-save` and `-restore` are appended to it for the others.
    #[must_use]
    pub fn program(self) -> &'static str {
        match self {
            Family::V4 => "iptables",
            Family::V6 => "ip6tables",
        }
    }
}

/// A table of the firewall in which Tandem has rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Table {
    /// `mangle`: the rules that queue.
    Mangle,
    /// `raw`: the rule that keeps injected packets from connection tracking.
    Raw,
}

impl Table {
    /// Both.
    pub const ALL: [Table; 2] = [Table::Mangle, Table::Raw];

    /// The name that `-t` takes.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Table::Mangle => "mangle",
            Table::Raw => "raw",
        }
    }
}

/// What one daemon needs of the firewall. The same for IPv4 and IPv6.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleSet {
    chain: String,
    link: LinkName,
    role: Role,
    ports: Vec<u16>,
    queue: u16,
    marks: Marks,
}

impl RuleSet {
    /// The rules that queue TLS over `link` for a daemon in `role`: connections to the servers'
    /// `ports`.
    #[must_use]
    pub fn new(role: Role, link: &LinkName, ports: &[u16], queue: u16, marks: Marks) -> Self {
        Self {
            chain: chain_name(role, link),
            link: link.clone(),
            role,
            ports: ports.to_vec(),
            queue,
            marks,
        }
    }

    /// The name of the chains: at most 28 bytes, the kernel's bound (`XT_EXTENSION_MAXNAMELEN` less
    /// the final zero).
    #[must_use]
    pub fn chain(&self) -> &str {
        &self.chain
    }

    /// The input of `iptables-restore --noflush` that sets the rules in place of `left`, those of
    /// an earlier daemon; per table the kernel takes it whole or not at all.
    #[must_use]
    pub fn install(&self, left: &LeftBehind) -> String {
        let mut out = String::new();
        for table in Table::ALL {
            let _ = writeln!(out, "*{}", table.name());
            // Makes the chain, or empties the one that is there.
            let _ = writeln!(out, ":{} - [0:0]", self.chain);
            for jump in left.jumps(table) {
                let _ = writeln!(out, "-D {jump}");
            }
            for rule in self.rules(table) {
                let _ = writeln!(out, "-A {} {rule}", self.chain);
            }
            for jump in self.jumps(table) {
                let _ = writeln!(out, "-A {jump} -j {}", self.chain);
            }
            out.push_str("COMMIT\n");
        }
        out
    }

    /// What stands in Tandem's chain of `table`, in order.
    fn rules(&self, table: Table) -> Vec<String> {
        let leave = format!("{0:#x}/{0:#x}", self.marks.leave());
        let inject = format!("{0:#x}/{0:#x}", self.marks.inject());
        let mask = format!("{:#x}", self.marks.leave());
        match table {
            Table::Mangle => vec![
                // Injected: decided already.
                format!("-m mark --mark {inject} -j RETURN"),
                // Sent round again to leave the queue: mark the connection, and pass even where it
                // is not tracked.
                format!(
                    "-m mark --mark {leave} -j CONNMARK --save-mark --nfmask {mask} --ctmask {mask}"
                ),
                format!("-m mark --mark {leave} -j RETURN"),
                // Of a connection that has left.
                format!("-m connmark --mark {leave} -j RETURN"),
                // Picked up in its middle, so left alone anyway. Of two packets that wait at once
                // for the first verdict of a connection, the kernel drops the
                // second (two entries for one connection, nf_conntrack_confirm).
                PICKED_UP.to_owned(),
                format!("-j NFQUEUE --queue-num {} --queue-bypass", self.queue),
            ],
            Table::Raw => vec![format!("-m mark --mark {inject} -j CT --notrack")],
        }
    }

    /// Which packets visit the chain: the built-in chain and the matches.
    fn jumps(&self, table: Table) -> Vec<String> {
        let link = self.link.as_str();
        match table {
            Table::Mangle => {
                let (to_link, from_link) = match self.role {
                    Role::ClientSide => ("--dports", "--sports"),
                    Role::ServerSide => ("--sports", "--dports"),
                };
                let mut jumps = Vec::new();
                for ports in self.ports.chunks(PORTS_A_RULE) {
                    let ports = ports
                        .iter()
                        .map(u16::to_string)
                        .collect::<Vec<_>>()
                        .join(",");
                    for (hook, interface, which) in [
                        ("POSTROUTING", "-o", to_link),
                        ("FORWARD", "-i", from_link),
                        ("INPUT", "-i", from_link),
                    ] {
                        jumps.push(format!(
                            "{hook} {interface} {link} -p tcp -m multiport {which} {ports}"
                        ));
                    }
                }
                jumps
            }
            Table::Raw => vec![format!("OUTPUT ! -o {link}")],
        }
    }

    /// The rules that need a feature of the kernel, each alone, for a trial in a chain of its own.
    pub(crate) fn trial(&self) -> Vec<Trial> {
        let mangle = |feature, kernel_option, rule: &str| Trial {
            feature,
            kernel_option,
            table: Table::Mangle,
            rule: rule.to_owned(),
        };
        vec![
            mangle(
                "the match multiport",
                "CONFIG_NETFILTER_XT_MATCH_MULTIPORT",
                "-p tcp -m multiport --sports 443 -j RETURN",
            ),
            mangle(
                "the match mark",
                "CONFIG_NETFILTER_XT_MARK",
                "-m mark --mark 0x1/0x1 -j RETURN",
            ),
            mangle(
                "the match connmark",
                "CONFIG_NETFILTER_XT_CONNMARK",
                "-m connmark --mark 0x1/0x1 -j RETURN",
            ),
            mangle(
                "the match conntrack",
                "CONFIG_NETFILTER_XT_MATCH_CONNTRACK",
                PICKED_UP,
            ),
            mangle(
                "the target CONNMARK",
                "CONFIG_NETFILTER_XT_CONNMARK",
                "-j CONNMARK --save-mark --nfmask 0x1 --ctmask 0x1",
            ),
            mangle(
                "the target NFQUEUE",
                "CONFIG_NETFILTER_XT_TARGET_NFQUEUE",
                &format!("-j NFQUEUE --queue-num {} --queue-bypass", self.queue),
            ),
            Trial {
                feature: "the target CT",
                kernel_option: "CONFIG_NETFILTER_XT_TARGET_CT",
                table: Table::Raw,
                rule: "-j CT --notrack".to_owned(),
            },
        ]
    }
}

/// One feature of the kernel and a rule that needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Trial {
    pub(crate) feature: &'static str,
    pub(crate) kernel_option: &'static str,
    pub(crate) table: Table,
    pub(crate) rule: String,
}

/// What stands in the firewall under the chain name of one daemon: what an earlier one left, or
/// what is to be removed at the end.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct LeftBehind {
    chain: String,
    mangle: InTable,
    raw: InTable,
}

#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct InTable {
    has_chain: bool,
    /// Jumps as `iptables-save` prints them, without `-A `.
    jumps: Vec<String>,
}

impl LeftBehind {
    /// Finds what belongs to `rules` in the output of `iptables-save`, whose tables may come in any
    /// order.
    #[must_use]
    pub fn find(rules: &RuleSet, saved: &str) -> Self {
        Self::of_chain(&rules.chain, saved)
    }

    /// Finds everything that daemons of Tandem have set, whether they run or not: one for each
    /// chain's name.
    pub(crate) fn all(saved: &str) -> Vec<Self> {
        let names: BTreeSet<&str> = saved
            .lines()
            .filter_map(|line| line.strip_prefix(':')?.split(' ').next())
            .filter(|name| CHAIN_PREFIXES.iter().any(|prefix| name.starts_with(prefix)))
            .collect();
        names
            .into_iter()
            .map(|name| Self::of_chain(name, saved))
            .collect()
    }

    /// The name of the chains.
    pub(crate) fn chain(&self) -> &str {
        &self.chain
    }

    fn of_chain(chain: &str, saved: &str) -> Self {
        let mut left = Self {
            chain: chain.to_owned(),
            ..Self::default()
        };
        let mut table = None;
        for line in saved.lines() {
            if let Some(name) = line.strip_prefix('*') {
                table = Table::ALL
                    .into_iter()
                    .find(|table| table.name() == name.trim());
                continue;
            }
            let Some(table) = table else { continue };
            let found = match table {
                Table::Mangle => &mut left.mangle,
                Table::Raw => &mut left.raw,
            };
            if let Some(declared) = line.strip_prefix(':') {
                if declared.split(' ').next() == Some(chain) {
                    found.has_chain = true;
                }
            } else if let Some(rule) = line.strip_prefix("-A ") {
                let mut words = rule.split(' ');
                let own = words.next() == Some(chain);
                if !own && jumps_to(words, chain) {
                    found.jumps.push(rule.trim_end().to_owned());
                }
            }
        }
        left
    }

    /// Whether there is nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        Table::ALL.into_iter().all(|table| {
            let found = self.in_table(table);
            !found.has_chain && found.jumps.is_empty()
        })
    }

    /// Whether all chains and jumps of `rules` are there. What stands in a chain is not looked at:
    /// emptying one by its name is no accident.
    #[must_use]
    pub fn is_whole(&self, rules: &RuleSet) -> bool {
        Table::ALL.into_iter().all(|table| {
            let found = self.in_table(table);
            found.has_chain && found.jumps.len() == rules.jumps(table).len()
        })
    }

    /// The input of `iptables-restore --noflush` that removes it all.
    #[must_use]
    pub fn removal(&self) -> String {
        let mut out = String::new();
        for table in Table::ALL {
            let found = self.in_table(table);
            if !found.has_chain {
                continue;
            }
            let _ = writeln!(out, "*{}", table.name());
            for jump in &found.jumps {
                let _ = writeln!(out, "-D {jump}");
            }
            let _ = writeln!(out, "-F {0}\n-X {0}\nCOMMIT", self.chain);
        }
        out
    }

    fn in_table(&self, table: Table) -> &InTable {
        match table {
            Table::Mangle => &self.mangle,
            Table::Raw => &self.raw,
        }
    }

    fn jumps(&self, table: Table) -> &[String] {
        &self.in_table(table).jumps
    }
}

/// The mark bits that the rules of other daemons than the one with `chain` use, out of the output
/// of `iptables-save`.
#[must_use]
pub(crate) fn marks_of_others(chain: &str, saved: &str) -> u32 {
    saved
        .lines()
        .filter_map(|line| line.strip_prefix("-A "))
        .filter(|rule| {
            let owner = rule.split(' ').next().unwrap_or_default();
            owner.starts_with(CHAIN_PREFIX) && owner != chain
        })
        .flat_map(|rule| {
            let words: Vec<&str> = rule.split(' ').collect();
            words
                .windows(2)
                .filter(|pair| pair[0] == "--mark")
                .filter_map(|pair| mask_of(pair[1]))
                .collect::<Vec<_>>()
        })
        .fold(0, |bits, mask| bits | mask)
}

/// The mask of `0xVALUE/0xMASK`, or of `0xVALUE`, which is then all bits of the value.
fn mask_of(word: &str) -> Option<u32> {
    let last = word.rsplit('/').next()?;
    u32::from_str_radix(last.strip_prefix("0x")?, 16).ok()
}

fn jumps_to<'a>(words: impl Iterator<Item = &'a str>, chain: &str) -> bool {
    let mut words = words.skip_while(|word| !matches!(*word, "-j" | "-g"));
    words.next().is_some() && words.next() == Some(chain)
}

/// `tandem-c-LINK` or `tandem-s-LINK`.
fn chain_name(role: Role, link: &LinkName) -> String {
    let role = match role {
        Role::ClientSide => 'c',
        Role::ServerSide => 's',
    };
    format!("{CHAIN_PREFIX}{role}-{}", link.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(role: Role, link: &str, ports: &[u16]) -> RuleSet {
        let link = LinkName::new(link).expect("a good name");
        let marks = Marks::new(0x0100_0000, 0x0200_0000).expect("two single bits");
        RuleSet::new(role, &link, ports, 5000, marks)
    }

    const CLIENT_SIDE: &str = "\
*mangle
:tandem-c-tun0 - [0:0]
-A tandem-c-tun0 -m mark --mark 0x2000000/0x2000000 -j RETURN
-A tandem-c-tun0 -m mark --mark 0x1000000/0x1000000 -j CONNMARK --save-mark --nfmask 0x1000000 --ctmask 0x1000000
-A tandem-c-tun0 -m mark --mark 0x1000000/0x1000000 -j RETURN
-A tandem-c-tun0 -m connmark --mark 0x1000000/0x1000000 -j RETURN
-A tandem-c-tun0 -p tcp ! --syn -m conntrack --ctstate NEW -j RETURN
-A tandem-c-tun0 -j NFQUEUE --queue-num 5000 --queue-bypass
-A POSTROUTING -o tun0 -p tcp -m multiport --dports 443,8443 -j tandem-c-tun0
-A FORWARD -i tun0 -p tcp -m multiport --sports 443,8443 -j tandem-c-tun0
-A INPUT -i tun0 -p tcp -m multiport --sports 443,8443 -j tandem-c-tun0
COMMIT
*raw
:tandem-c-tun0 - [0:0]
-A tandem-c-tun0 -m mark --mark 0x2000000/0x2000000 -j CT --notrack
-A OUTPUT ! -o tun0 -j tandem-c-tun0
COMMIT
";

    #[test]
    fn the_client_side_queues_what_goes_to_the_ports_and_comes_from_them() {
        let rules = rules(Role::ClientSide, "tun0", &[443, 8443]);
        assert_eq!(rules.install(&LeftBehind::default()), CLIENT_SIDE);
    }

    #[test]
    fn the_server_side_is_the_reverse() {
        let text = rules(Role::ServerSide, "eth1", &[443]).install(&LeftBehind::default());
        assert!(text.contains(
            "-A POSTROUTING -o eth1 -p tcp -m multiport --sports 443 -j tandem-s-eth1\n"
        ));
        assert!(
            text.contains("-A FORWARD -i eth1 -p tcp -m multiport --dports 443 -j tandem-s-eth1\n")
        );
    }

    #[test]
    fn more_ports_than_a_match_takes_make_more_jumps() {
        let ports: Vec<u16> = (1000..1031).collect();
        let text = rules(Role::ClientSide, "a", &ports).install(&LeftBehind::default());
        assert_eq!(text.matches("-A POSTROUTING").count(), 3);
    }

    #[test]
    fn the_longest_link_name_gives_a_chain_name_within_the_bound() {
        assert!(
            rules(Role::ClientSide, "abcdefghijklmno", &[443])
                .chain()
                .len()
                <= 28
        );
    }

    #[test]
    fn what_a_killed_daemon_left_is_found_and_nothing_else() {
        let rules = rules(Role::ClientSide, "tun0", &[443]);
        // As iptables-save prints: other tables, another daemon whose name begins alike, a comment
        // with blanks.
        let saved = "\
*filter
:tandem-c-tun0 - [0:0]
-A INPUT -j tandem-c-tun0
COMMIT
*mangle
:POSTROUTING ACCEPT [12:3400]
:tandem-c-tun0 - [0:0]
:tandem-c-tun01 - [0:0]
-A POSTROUTING -o tun01 -p tcp -j tandem-c-tun01
-A POSTROUTING -o tun0 -p tcp -m multiport --dports 8443 -j tandem-c-tun0
-A POSTROUTING -m comment --comment \"not -j here\" -j MARK --set-xmark 0x1/0xffffffff
-A tandem-c-tun0 -m mark --mark 0x2000000/0x2000000 -j RETURN
-A tandem-c-tun01 -m connmark --mark 0x4000000/0x4000000 -j RETURN
COMMIT
";
        let left = LeftBehind::find(&rules, saved);
        assert_eq!(
            left.removal(),
            "*mangle\n-D POSTROUTING -o tun0 -p tcp -m multiport --dports 8443 -j tandem-c-tun0\n-F tandem-c-tun0\n-X tandem-c-tun0\nCOMMIT\n"
        );
        assert!(!left.is_empty());
        assert!(
            !left.is_whole(&rules),
            "two jumps and the raw table are missing"
        );
        let all = rules.install(&LeftBehind::default());
        assert!(LeftBehind::find(&rules, &all).is_whole(&rules));
        assert!(
            rules
                .install(&left)
                .starts_with("*mangle\n:tandem-c-tun0 - [0:0]\n-D POSTROUTING -o tun0")
        );
        assert_eq!(marks_of_others(rules.chain(), saved), 0x0400_0000);
        assert!(LeftBehind::find(&rules, "").is_empty());
        let chains: Vec<String> = LeftBehind::all(saved)
            .iter()
            .map(|left| left.chain().to_owned())
            .collect();
        assert_eq!(chains, ["tandem-c-tun0", "tandem-c-tun01"]);
    }
}
