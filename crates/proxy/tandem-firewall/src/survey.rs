//! A look at the firewall that changes nothing: are a daemon's rules in force, would the kernel
//! take them, and which rules of other programs get in their way.
//!
//! Is not: a repair. Rules that were made with nftables alone are not seen: the programs of
//! iptables do not show them.
//!
//! Invariant: reads, and tests what would be set; sets nothing, in no table.

use crate::error::FirewallError;
use crate::family::Family;
use crate::firewall::{Firewall, listed, tested, trial_text};
use crate::program::{IP, path};
use crate::rules::{CHAIN_PREFIX, LeftBehind, RuleSet, Table};

/// The most rules of other programs that are told of.
const MAX_FOREIGN: usize = 8;

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Survey {
    /// Whether the daemon's rules are there, for each version of IP.
    pub in_force: Vec<(Family, InForce)>,
    /// Rules of other programs that get in the way, eight at most.
    pub foreign: Vec<Foreign>,
}

/// How much of a daemon's rules is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InForce {
    /// All chains and all jumps to them, and the routes that they need.
    All,
    /// Some.
    Part,
    /// None.
    None,
}

/// A rule of another program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Foreign {
    /// The program that shows it.
    pub program: &'static str,
    /// The rule, as `iptables-save` prints it.
    pub rule: String,
    /// What it does.
    pub trouble: Trouble,
}

/// How a rule of another program gets in the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// It takes options off TCP segments: the proxies do not find each other.
    StripsOptions,
    /// It sets all bits of the mark, those of Tandem too.
    ClearsMarks,
    /// It redirects connections before Tandem's rules see them.
    TakesConnections,
}

impl Firewall {
    /// Looks for `rules`, and for what gets in their way where connections to `ports` pass.
    ///
    /// # Errors
    /// The firewall cannot be read, or a table of `rules` cannot be shown.
    pub fn survey(&self, rules: &RuleSet, ports: &[u16]) -> Result<Survey, FirewallError> {
        let mut survey = Survey {
            in_force: Vec::new(),
            foreign: Vec::new(),
        };
        for family in self.families() {
            let saved = listed(*family, rules)?;
            let found = LeftBehind::find(rules, &saved);
            let is_delivered = match rules.delivery() {
                Some(delivery) => delivery.is_whole(*family)?,
                None => true,
            };
            let is_whole = is_delivered && found.is_whole(rules);
            let in_force = match (is_whole, found.is_empty()) {
                (true, _) => InForce::All,
                (false, false) => InForce::Part,
                (false, true) => InForce::None,
            };
            survey.in_force.push((*family, in_force));
            survey
                .foreign
                .extend(foreign(*family, &saved, rules, ports));
        }
        survey.foreign.truncate(MAX_FOREIGN);
        Ok(survey)
    }

    /// Has the programs test the features that `rules` need, without setting anything.
    ///
    /// # Errors
    /// The first feature that is missing, or the programs cannot be run.
    pub fn test_features(&self, rules: &RuleSet) -> Result<(), FirewallError> {
        if rules.delivery().is_some() {
            path(IP)?;
        }
        for family in self.families() {
            for trial in rules.trials() {
                let text = trial_text("tandem-try", std::slice::from_ref(trial));
                tested(*family, &text).map_err(|error| match error {
                    FirewallError::Firewall { reason, .. } => FirewallError::MissingKernelFeature {
                        program: family.program().to_owned(),
                        feature: trial.feature,
                        kernel_option: trial.kernel_option,
                        reason,
                    },
                    other => other,
                })?;
            }
        }
        Ok(())
    }
}

/// The rules of other programs in `saved` that get in the way of `rules`.
fn foreign(family: Family, saved: &str, rules: &RuleSet, ports: &[u16]) -> Vec<Foreign> {
    let uses = |table: Table| rules.has_table(table);
    let mut in_nat = false;
    let mut found = Vec::new();
    for line in saved.lines() {
        if let Some(name) = line.strip_prefix('*') {
            in_nat = name.trim() == Table::Nat.name();
            continue;
        }
        let Some(rule) = line.strip_prefix("-A ") else {
            continue;
        };
        if rule.contains(CHAIN_PREFIX) {
            continue;
        }
        let words: Vec<&str> = rule.split_ascii_whitespace().collect();
        let trouble = match after(&words, "-j") {
            // Packet mode's proxies find each other by options.
            Some("TCPOPTSTRIP") if uses(Table::Raw) => Trouble::StripsOptions,
            Some("MARK" | "CONNMARK") if uses(Table::Mangle) && sets_all_bits(&words) => {
                Trouble::ClearsMarks
            }
            Some("REDIRECT" | "DNAT") if in_nat && uses(Table::Nat) && takes(&words, ports) => {
                Trouble::TakesConnections
            }
            Some("TPROXY") if uses(Table::Nat) && takes(&words, ports) => Trouble::TakesConnections,
            _ => continue,
        };
        found.push(Foreign {
            program: family.program(),
            rule: rule.to_owned(),
            trouble,
        });
    }
    found
}

/// The word behind `flag`.
fn after<'a>(words: &[&'a str], flag: &str) -> Option<&'a str> {
    let at = words.iter().position(|word| *word == flag)?;
    words.get(at + 1).copied()
}

/// Whether `--set-xmark VALUE/MASK` has every bit in its mask.
fn sets_all_bits(words: &[&str]) -> bool {
    after(words, "--set-xmark").is_some_and(|mark| mark.ends_with("/0xffffffff"))
}

/// Whether TCP to one of `ports` meets the rule, as far as its ports and protocol say.
fn takes(words: &[&str], ports: &[u16]) -> bool {
    if after(words, "-p").is_some_and(|protocol| protocol != "tcp") {
        return false;
    }
    let Some(list) = after(words, "--dport").or_else(|| after(words, "--dports")) else {
        return true;
    };
    list.split(',').any(|piece| {
        let (first, last) = piece.split_once(':').unwrap_or((piece, piece));
        match (first.parse::<u16>(), last.parse::<u16>()) {
            (Ok(first), Ok(last)) => ports.iter().any(|port| (first..=last).contains(port)),
            // `! --dport` and the like: it may.
            _ => true,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::firewall::saved;
    use crate::link::LinkName;
    use crate::own_network::in_own_network;
    use crate::rules::{Owner, TableRules};

    fn rules(tables: &[Table]) -> RuleSet {
        let link = LinkName::new("lnk0").expect("a good name");
        let tables = tables.iter().map(|table| TableRules {
            table: *table,
            rules: Vec::new(),
            jumps: vec!["OUTPUT -o lnk0".to_owned()],
        });
        RuleSet::new(Owner::Tunnel, &link, tables.collect(), Vec::new())
    }

    fn troubles(tables: &[Table], saved: &str) -> Vec<Trouble> {
        let found = foreign(Family::V4, saved, &rules(tables), &[443]);
        found.into_iter().map(|it| it.trouble).collect()
    }

    #[test]
    fn rules_that_strip_options_or_clear_marks_are_told_of_in_packet_mode() {
        let saved = "\
*mangle
:PREROUTING ACCEPT [0:0]
-A FORWARD -p tcp -m tcp --tcp-flags SYN,RST SYN -j TCPOPTSTRIP --strip-options timestamp
-A PREROUTING -j MARK --set-xmark 0x1/0xffffffff
-A PREROUTING -j MARK --set-xmark 0x1/0xff
-A OUTPUT -j tandem-c-lnk0
COMMIT
";
        let expected = [Trouble::StripsOptions, Trouble::ClearsMarks];
        assert_eq!(troubles(&[Table::Mangle, Table::Raw], saved), expected);
        // Tunnel mode's server side has a mark, too.
        assert_eq!(troubles(&[Table::Mangle], saved), [Trouble::ClearsMarks]);
        assert_eq!(troubles(&[Table::Nat], saved), []);
    }

    #[test]
    fn redirections_of_the_same_ports_are_told_of_in_tunnel_mode() {
        let saved = "\
*nat
-A PREROUTING -p tcp -m tcp --dport 80 -j REDIRECT --to-ports 3129
-A PREROUTING -p tcp -m multiport --dports 80,440:450 -j REDIRECT --to-ports 3129
-A PREROUTING -p udp -m udp --dport 443 -j DNAT --to-destination 10.0.0.1
-A DOCKER ! -i docker0 -p tcp -m tcp --dport 8443 -j DNAT --to-destination 172.17.0.2:8443
-A OUTPUT -d 10.0.0.9/32 -j DNAT --to-destination 10.0.0.1
-A PREROUTING -p tcp -m multiport --dports 443 -j tandem-t-lnk0
COMMIT
";
        let expected = [Trouble::TakesConnections; 2];
        assert_eq!(troubles(&[Table::Nat], saved), expected);
        assert_eq!(troubles(&[Table::Mangle], saved), []);
        let squid = "\
*mangle
-A PREROUTING -p tcp -m tcp --dport 443 -j TPROXY --on-port 3129 --on-ip 0.0.0.0
-A PREROUTING -p tcp -m tcp --dport 80 -j TPROXY --on-port 3128 --on-ip 0.0.0.0
COMMIT
";
        assert_eq!(troubles(&[Table::Nat], squid), [Trouble::TakesConnections]);
    }

    #[test]
    fn rules_are_found_in_force_in_part_and_not_at_all() {
        if !tandem_testkit::has_root_and(&["iptables", "ip6tables"]) {
            return;
        }
        in_own_network(|| {
            let firewall = Firewall::here();
            let rules = rules(&[Table::Mangle]);
            let state = || {
                let survey = firewall.survey(&rules, &[443]).expect("readable");
                assert_eq!(survey.foreign, []);
                survey.in_force.into_iter().map(|(_, it)| it)
            };
            assert!(state().all(|it| it == InForce::None));
            let installed = firewall.install(rules.clone()).expect("they can be set");
            assert!(state().all(|it| it == InForce::All));
            let flush = std::process::Command::new("iptables")
                .args(["-t", "mangle", "-F", "OUTPUT"])
                .status();
            assert!(flush.expect("it runs").success());
            assert_eq!(state().next(), Some(InForce::Part));
            installed.remove().expect("they can be removed");
            assert!(state().all(|it| it == InForce::None));
        });
    }

    #[test]
    fn a_test_of_features_sets_nothing_and_names_what_is_missing() {
        if !tandem_testkit::has_root_and(&["iptables", "ip6tables"]) {
            return;
        }
        in_own_network(|| {
            let link = LinkName::new("lnk0").expect("a good name");
            let with = |rule: &str| {
                let trial = crate::rules::Trial {
                    feature: "the thing",
                    kernel_option: "CONFIG_THING",
                    table: Table::Mangle,
                    rule: rule.to_owned(),
                };
                RuleSet::new(Owner::Tunnel, &link, Vec::new(), vec![trial])
            };
            let firewall = Firewall::here();
            let good = with("-m mark --mark 0x1/0x1 -j RETURN");
            firewall.test_features(&good).expect("it is there");
            let bad = with("-m tandem-no-such-match -j RETURN");
            let error = firewall.test_features(&bad).expect_err("it is not there");
            assert!(error.to_string().contains("CONFIG_THING"), "{error}");
            for family in Family::ALL {
                let left = saved(family).expect("readable");
                assert!(!left.contains("tandem-try"), "{left}");
            }
        });
    }
}
