//! The firewall's rules as data: chains and the jumps to them, and the exact input of the programs
//! that say so to the kernel.
//!
//! Is not: the running of these programs (`firewall.rs`), nor the rules of any mode.
//!
//! Invariants: everything that is set stands in one chain per table, named after its owner and
//! link, and in jumps to it; so what another daemon of the same owner and link left is found by
//! name, and no other rule is ever touched. The jumps come last in their chains, but first in those
//! of `filter`: a firewall's own ACCEPT would decide before them.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::delivery::{Delivery, mask_of};
use crate::link::LinkName;

/// Ports that one `multiport` match takes (`XT_MULTI_PORTS`,
/// include/uapi/linux/netfilter/xt_multiport.h).
const PORTS_A_RULE: usize = 15;

/// How every chain of Tandem's begins.
pub(crate) const CHAIN_PREFIX: &str = "tandem-";

/// How the names of the chains begin in which a start tries the kernel's features.
pub(crate) const TRIAL_PREFIX: &str = "tandem-try-";

/// A table of the firewall in which Tandem has rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Table {
    /// `mangle`: queues or marks packets.
    Mangle,
    /// `raw`: keeps packets from connection tracking.
    Raw,
    /// `nat`: redirects connections.
    Nat,
    /// `filter`: rejects packets.
    Filter,
}

impl Table {
    /// All, in the order in which rules are tried and removed.
    pub const ALL: [Table; 4] = [Table::Mangle, Table::Raw, Table::Nat, Table::Filter];

    /// The name that `-t` takes.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Table::Mangle => "mangle",
            Table::Raw => "raw",
            Table::Nat => "nat",
            Table::Filter => "filter",
        }
    }

    fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|table| table.name() == name)
    }

    /// What sets a jump in a built-in chain of this table.
    fn jump_flag(self) -> &'static str {
        match self {
            Table::Mangle | Table::Raw | Table::Nat => "-A",
            Table::Filter => "-I",
        }
    }
}

/// Which daemon of a link has set a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// Packet mode's client side.
    ClientSide,
    /// Packet mode's server side.
    ServerSide,
    /// Tunnel mode's client side.
    Tunnel,
    /// Tunnel mode's server side, which has the port where it listens in place of a link.
    TunnelOut,
}

impl Owner {
    /// All of them.
    pub const ALL: [Owner; 4] = [
        Owner::ClientSide,
        Owner::ServerSide,
        Owner::Tunnel,
        Owner::TunnelOut,
    ];

    /// `client-side` or `server-side`.
    pub(crate) fn role(self) -> &'static str {
        match self {
            Owner::ClientSide | Owner::Tunnel => "client-side",
            Owner::ServerSide | Owner::TunnelOut => "server-side",
        }
    }

    /// How the names of its chains begin.
    #[must_use]
    pub fn prefix(self) -> &'static str {
        match self {
            Owner::ClientSide => "tandem-c-",
            Owner::ServerSide => "tandem-s-",
            Owner::Tunnel => "tandem-t-",
            Owner::TunnelOut => "tandem-o-",
        }
    }

    /// The name of its chains for `link`: at most 28 bytes, the kernel's bound
    /// (`XT_EXTENSION_MAXNAMELEN` less the final zero).
    #[must_use]
    pub fn chain(self, link: &LinkName) -> String {
        format!("{}{link}", self.prefix())
    }
}

/// What one daemon needs of the firewall. The same for IPv4 and IPv6.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleSet {
    chain: String,
    tables: Vec<TableRules>,
    trials: Vec<Trial>,
    delivery: Option<Delivery>,
}

/// What is to stand in one table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableRules {
    /// The table.
    pub table: Table,
    /// What stands in the chain, in order: matches and target, without the chain.
    pub rules: Vec<String>,
    /// Which packets visit the chain: the built-in chain and the matches, without the target.
    pub jumps: Vec<String>,
}

impl RuleSet {
    /// The rules of `owner` for `link`: each table once. `trials` are the rules that need a feature
    /// of the kernel, each alone.
    #[must_use]
    pub fn new(owner: Owner, link: &LinkName, tables: Vec<TableRules>, trials: Vec<Trial>) -> Self {
        Self {
            chain: owner.chain(link),
            tables,
            trials,
            delivery: None,
        }
    }

    /// The same, where packets that the rules give this mark, one bit, are to go to sockets of this
    /// machine whatever their destination.
    #[must_use]
    pub fn delivering(self, mark: u32) -> Self {
        Self {
            delivery: Some(Delivery::new(mark, &self.chain)),
            ..self
        }
    }

    /// The name of the chains.
    #[must_use]
    pub fn chain(&self) -> &str {
        &self.chain
    }

    /// The input of `iptables-restore --noflush` that sets the rules in place of `left`, those of
    /// an earlier daemon; per table the kernel takes it whole or not at all.
    #[must_use]
    pub fn install(&self, left: &LeftBehind) -> String {
        // That of other settings stands in other tables.
        let mut out = left.removal_from(|table| !self.has_table(table));
        for TableRules {
            table,
            rules,
            jumps,
        } in &self.tables
        {
            let _ = writeln!(out, "*{}", table.name());
            // Makes the chain, or empties the one that is there.
            let _ = writeln!(out, ":{} - [0:0]", self.chain);
            for jump in left.jumps(*table) {
                let _ = writeln!(out, "-D {jump}");
            }
            for rule in rules {
                let _ = writeln!(out, "-A {} {rule}", self.chain);
            }
            for jump in jumps {
                let _ = writeln!(out, "{} {jump} -j {}", table.jump_flag(), self.chain);
            }
            out.push_str("COMMIT\n");
        }
        out
    }

    pub(crate) fn has_table(&self, table: Table) -> bool {
        self.tables.iter().any(|rules| rules.table == table)
    }

    /// Those of its tables that `iptables-save` could not show.
    pub(crate) fn unlisted(&self, saved: &str) -> impl Iterator<Item = Table> {
        unlisted(saved).filter(move |table| self.has_table(*table))
    }

    /// What is there once it is set.
    pub(crate) fn as_set(&self) -> LeftBehind {
        LeftBehind::find(self, &self.install(&LeftBehind::default()))
    }

    pub(crate) fn delivery(&self) -> Option<Delivery> {
        self.delivery
    }

    pub(crate) fn trials(&self) -> &[Trial] {
        &self.trials
    }
}

/// `ports` in the form that `--sports` and `--dports` of the match `multiport` take, in as many
/// pieces as are needed.
#[must_use]
pub fn port_lists(ports: &[u16]) -> Vec<String> {
    let list = |ports: &[u16]| {
        let ports: Vec<String> = ports.iter().map(u16::to_string).collect();
        ports.join(",")
    };
    ports.chunks(PORTS_A_RULE).map(list).collect()
}

/// The tables that `iptables-save` could not show, by its output: they hold a rule, made with nft,
/// for which it has no words. It ends well all the same.
pub(crate) fn unlisted(saved: &str) -> impl Iterator<Item = Table> {
    saved.lines().filter_map(|line| {
        let (name, said) = line.strip_prefix("# Table `")?.split_once('\'')?;
        // Chains that it leaves out are another matter: "contains incompatible base-chains".
        said.starts_with(" is incompatible")
            .then(|| Table::named(name))?
    })
}

/// One feature of the kernel and a rule that needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trial {
    /// The match or target, in words.
    pub feature: &'static str,
    /// The kernel option that it needs.
    pub kernel_option: &'static str,
    /// The table to try it in.
    pub table: Table,
    /// The rule, without its chain.
    pub rule: String,
}

/// The tables in which `trials` are.
pub(crate) fn tables(trials: &[Trial]) -> impl Iterator<Item = Table> {
    Table::ALL
        .into_iter()
        .filter(|table| trials.iter().any(|trial| trial.table == *table))
}

/// What stands in the firewall under the chain name of one daemon: what an earlier one left, or
/// what is to be removed at the end.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct LeftBehind {
    chain: String,
    mangle: InTable,
    raw: InTable,
    nat: InTable,
    filter: InTable,
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
    #[must_use]
    pub fn all(saved: &str) -> Vec<Self> {
        let names: BTreeSet<&str> = saved
            .lines()
            .filter_map(|line| line.strip_prefix(':')?.split(' ').next())
            .filter(|name| is_ours(name))
            .collect();
        names
            .into_iter()
            .map(|name| Self::of_chain(name, saved))
            .collect()
    }

    /// The name of the chains.
    #[must_use]
    pub fn chain(&self) -> &str {
        &self.chain
    }

    pub(crate) fn of_chain(chain: &str, saved: &str) -> Self {
        let mut left = Self {
            chain: chain.to_owned(),
            ..Self::default()
        };
        let mut table = None;
        for line in saved.lines() {
            if let Some(name) = line.strip_prefix('*') {
                table = Table::named(name.trim());
                continue;
            }
            let Some(table) = table else { continue };
            let found = match table {
                Table::Mangle => &mut left.mangle,
                Table::Raw => &mut left.raw,
                Table::Nat => &mut left.nat,
                Table::Filter => &mut left.filter,
            };
            if let Some(declared) = line.strip_prefix(':') {
                if declared.split(' ').next() == Some(chain) {
                    found.has_chain = true;
                }
            } else if let Some(rule) = added(line) {
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
        self.lacking(rules).is_none()
    }

    /// The first table in which a chain or a jump of `rules` is missing.
    pub(crate) fn lacking(&self, rules: &RuleSet) -> Option<Table> {
        let lacking = rules.tables.iter().find(|set| {
            let found = self.in_table(set.table);
            !found.has_chain || found.jumps.len() != set.jumps.len()
        });
        lacking.map(|set| set.table)
    }

    /// The input of `iptables-restore --noflush` that removes it all.
    #[must_use]
    pub fn removal(&self) -> String {
        self.removal_from(|_| true)
    }

    /// The same, for one table alone: empty if nothing is there.
    pub(crate) fn removal_of(&self, table: Table) -> String {
        self.removal_from(|it| it == table)
    }

    /// The same, for some tables alone.
    fn removal_from(&self, is_meant: impl Fn(Table) -> bool) -> String {
        let mut out = String::new();
        for table in Table::ALL.into_iter().filter(|table| is_meant(*table)) {
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
            Table::Nat => &self.nat,
            Table::Filter => &self.filter,
        }
    }

    fn jumps(&self, table: Table) -> &[String] {
        &self.in_table(table).jumps
    }
}

/// The rule that this line adds to a chain: `iptables-save` appends all of them.
fn added(line: &str) -> Option<&str> {
    line.strip_prefix("-A ")
        .or_else(|| line.strip_prefix("-I "))
}

/// Whether a chain of this name is a daemon's of Tandem, or was for a trial.
fn is_ours(name: &str) -> bool {
    let prefixes = Owner::ALL.map(Owner::prefix);
    name.starts_with(TRIAL_PREFIX) || prefixes.iter().any(|prefix| name.starts_with(prefix))
}

/// What stands before a mark in a rule.
const MARKS: [&str; 2] = ["--mark", "--set-xmark"];

/// Marks to choose from: bits that other programs seldom use. Packet mode takes of the same byte,
/// from the other end.
const CANDIDATES: [u32; 4] = [1 << 31, 1 << 30, 1 << 29, 1 << 28];

/// The first mark that has no bit of these.
pub(crate) fn free_mark(taken: u32) -> Option<u32> {
    CANDIDATES.into_iter().find(|mark| mark & taken == 0)
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
                .filter(|pair| MARKS.contains(&pair[0]))
                .filter_map(|pair| mask_of(pair[1]))
                .collect::<Vec<_>>()
        })
        .fold(0, |bits, mask| bits | mask)
}

fn jumps_to<'a>(words: impl Iterator<Item = &'a str>, chain: &str) -> bool {
    let mut words = words.skip_while(|word| !matches!(*word, "-j" | "-g"));
    words.next().is_some() && words.next() == Some(chain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules() -> RuleSet {
        let link = LinkName::new("tun0").expect("a good name");
        let jump = |hook: &str| format!("{hook} -o tun0 -p tcp");
        let table = |table, jumps: &[&str]| TableRules {
            table,
            rules: vec!["-j RETURN".to_owned()],
            jumps: jumps.iter().copied().map(jump).collect(),
        };
        let tables = vec![
            table(Table::Mangle, &["POSTROUTING", "OUTPUT"]),
            table(Table::Raw, &["OUTPUT"]),
        ];
        RuleSet::new(Owner::ClientSide, &link, tables, Vec::new())
    }

    #[test]
    fn only_the_tables_of_a_set_are_touched() {
        assert_eq!(
            rules().install(&LeftBehind::default()),
            "\
*mangle
:tandem-c-tun0 - [0:0]
-A tandem-c-tun0 -j RETURN
-A POSTROUTING -o tun0 -p tcp -j tandem-c-tun0
-A OUTPUT -o tun0 -p tcp -j tandem-c-tun0
COMMIT
*raw
:tandem-c-tun0 - [0:0]
-A tandem-c-tun0 -j RETURN
-A OUTPUT -o tun0 -p tcp -j tandem-c-tun0
COMMIT
"
        );
    }

    #[test]
    fn jumps_in_the_filter_table_come_before_other_rules_and_are_removed() {
        let link = LinkName::new("tun0").expect("a good name");
        let filter = TableRules {
            table: Table::Filter,
            rules: vec!["-p udp -j REJECT".to_owned()],
            jumps: vec!["FORWARD -o tun0 -p udp".to_owned()],
        };
        let rules = RuleSet::new(Owner::Tunnel, &link, vec![filter], Vec::new());
        let text = rules.install(&LeftBehind::default());
        let jump = "\n-I FORWARD -o tun0 -p udp -j tandem-t-tun0\n";
        assert!(text.contains(jump), "{text}");
        // What is set, and as the kernel shows it.
        for text in [text.clone(), text.replace("-I ", "-A ")] {
            let left = LeftBehind::find(&rules, &text);
            assert!(left.is_whole(&rules), "{text}");
            assert_eq!(
                left.removal(),
                "*filter\n-D FORWARD -o tun0 -p udp -j tandem-t-tun0\n\
                 -F tandem-t-tun0\n-X tandem-t-tun0\nCOMMIT\n"
            );
        }
    }

    #[test]
    fn more_ports_than_a_match_takes_make_more_lists() {
        let ports: Vec<u16> = (1000..1031).collect();
        let lists = port_lists(&ports);
        assert_eq!(lists.len(), 3);
        assert_eq!(lists[2], "1030");
        assert_eq!(port_lists(&[443, 8443]), ["443,8443"]);
    }

    #[test]
    fn the_longest_link_name_gives_a_chain_name_within_the_bound() {
        let link = LinkName::new("abcdefghijklmno").expect("a good name");
        for owner in Owner::ALL {
            assert!(owner.chain(&link).len() <= 28);
        }
    }

    #[test]
    fn a_mark_that_others_match_or_set_is_not_free() {
        let saved = "\
*mangle
-A tandem-t-tun1 -m mark --mark 0x80000000/0x80000000 -j RETURN
-A tandem-o-4433 -j MARK --set-xmark 0x40000000/0x40000000
-A tandem-t-tun0 -m mark --mark 0x20000000/0x20000000 -j RETURN
COMMIT
";
        let taken = marks_of_others("tandem-t-tun0", saved);
        assert_eq!(taken, 0xc000_0000);
        assert_eq!(free_mark(taken), Some(0x2000_0000));
        assert_eq!(free_mark(u32::MAX), None);
    }

    #[test]
    fn tables_that_iptables_cannot_show_are_told_from_those_that_it_shows_in_part() {
        let saved = "\
# Table `nat' is incompatible, use 'nft' tool.
# Table `security' is incompatible, use 'nft' tool.
# Table `mangle' contains incompatible base-chains, use 'nft' tool to list them.
*mangle
-A OUTPUT -m comment --comment \"# Table `raw' is incompatible\" -j ACCEPT
COMMIT
";
        assert_eq!(unlisted(saved).collect::<Vec<_>>(), [Table::Nat]);
        assert_eq!(rules().unlisted(saved).next(), None, "it has none in nat");
    }

    #[test]
    fn what_a_killed_daemon_left_is_found_and_nothing_else() {
        let rules = rules();
        // As iptables-save prints: other tables, another daemon whose name begins alike, a comment
        // with blanks.
        let saved = "\
*security
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
*nat
:tandem-t-tun0 - [0:0]
-A OUTPUT -o tun0 -j tandem-t-tun0
-A tandem-t-tun0 -j RETURN
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
            "a jump and the raw table are missing"
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
        assert_eq!(chains, ["tandem-c-tun0", "tandem-c-tun01", "tandem-t-tun0"]);
    }
}
