//! Delivery of marked packets to sockets of this machine, whatever their destination: a table with
//! one route, of kind `local`, and a rule that leads packets with the mark there.
//!
//! Is not: the marking; that is rules of the firewall.
//!
//! Invariants: a daemon's table has a number that follows from the name of its chains and that
//! nobody else uses, so that what a killed daemon left is found by it; no other table is touched.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;

use crate::error::FirewallError;
use crate::family::Family;
use crate::program::{IP, call, find};

/// The first table's number: "T" in the upper byte. `/etc/iproute2/rt_tables` names tables up to
/// 255, and network managers use thousands.
const TABLES: u32 = 0x5400_0000;

/// How many numbers there are for tables.
const TABLE_MASK: u32 = 0x00ff_ffff;

/// The delivery of one daemon. The same for IPv4 and IPv6.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Delivery {
    mark: u32,
    table: u32,
}

impl Delivery {
    /// For packets with this mark, one bit; by the daemon of these chains.
    pub(crate) fn new(mark: u32, chain: &str) -> Self {
        let table = table_for(chain);
        Self { mark, table }
    }

    /// Sets it, in place of what an earlier daemon left.
    ///
    /// # Errors
    /// `ip` failed.
    pub(crate) fn install(self, family: Family) -> Result<(), FirewallError> {
        self.take_away(family)?;
        if is_off(family) {
            return Ok(());
        }
        batch(family, &self.addition())
    }

    /// Whether it is there, or this version of IP is off.
    ///
    /// # Errors
    /// `ip` failed.
    pub(crate) fn is_whole(self, family: Family) -> Result<bool, FirewallError> {
        if is_off(family) {
            return Ok(true);
        }
        Ok(tables(&rules(family)?).contains(&self.table) && has_routes(family, self.table))
    }

    /// Takes it away, as far as it is there.
    ///
    /// # Errors
    /// `ip` failed.
    pub(crate) fn take_away(self, family: Family) -> Result<(), FirewallError> {
        remove(family, self.table)
    }

    /// The commands that set it, as a shell would be told.
    pub(crate) fn describe_install(self, out: &mut String, family: Family) {
        if !is_off(family) {
            here_document(out, family, "", &self.addition());
        }
    }

    /// The commands that take it away; they fail without harm where it is not there.
    pub(crate) fn describe_removal(self, out: &mut String, family: Family) {
        here_document(out, family, "-force ", &removal(self.table));
    }

    fn addition(self) -> String {
        let Self { mark, table } = self;
        format!(
            "rule add fwmark {mark:#x}/{mark:#x} lookup {table}\n\
             route replace local default dev lo table {table}\n"
        )
    }
}

/// Takes away what daemons of Tandem have set: the numbers of the tables.
///
/// # Errors
/// `ip` failed for one of them; the others are gone all the same.
pub(crate) fn clear(family: Family) -> Result<Vec<u32>, FirewallError> {
    // Without it nobody has set anything.
    if find(IP).is_none() {
        return Ok(Vec::new());
    }
    let mut ours = tables(&rules(family)?);
    ours.retain(|table| is_ours(*table));
    let removed = ours.iter().map(|table| remove(family, *table));
    removed.fold(Ok(()), Result::and)?;
    Ok(ours.into_iter().collect())
}

/// Takes away what an earlier daemon of these chains left that had such a table.
///
/// # Errors
/// `ip` failed.
pub(crate) fn take_away_left(chain: &str, family: Family) -> Result<(), FirewallError> {
    // Without it nobody has set anything.
    match find(IP) {
        Some(_) => remove(family, table_for(chain)),
        None => Ok(()),
    }
}

/// The marks by which packets are led to tables of Tandem's, but for the daemon of `chain`: one
/// that was killed may have left a rule for routes alone.
///
/// # Errors
/// `ip` failed.
pub(crate) fn marks_of_others(chain: &str, family: Family) -> Result<u32, FirewallError> {
    if find(IP).is_none() {
        return Ok(0);
    }
    let own = table_for(chain);
    let marks = rules(family)?
        .lines()
        .filter(|rule| table_of(rule).is_some_and(|table| is_ours(table) && table != own))
        .filter_map(|rule| mask_of(word_after("fwmark", rule)?))
        .fold(0, |bits, mask| bits | mask);
    Ok(marks)
}

/// Takes one table away, and the rules that lead there. The guard of a daemon that was killed may
/// do so at the same time.
fn remove(family: Family, table: u32) -> Result<(), FirewallError> {
    let led = || {
        let rules = rules(family)?;
        Ok(rules
            .lines()
            .filter(|line| table_of(line) == Some(table))
            .count())
    };
    let mut left = led()?;
    while left > 0 {
        let removed = batch(family, &format!("rule del lookup {table}\n"));
        let before = std::mem::replace(&mut left, led()?);
        if left >= before {
            removed?;
        }
    }
    if has_routes(family, table) {
        batch(family, &format!("route flush table {table}\n"))?;
    }
    Ok(())
}

fn removal(table: u32) -> String {
    format!("rule del lookup {table}\nroute flush table {table}\n")
}

/// The rules in force, tables by number.
fn rules(family: Family) -> Result<String, FirewallError> {
    show(family, &["-N", "rule", "show"])
}

fn tables(rules: &str) -> BTreeSet<u32> {
    rules.lines().filter_map(table_of).collect()
}

/// The table to which a rule leads.
fn table_of(rule: &str) -> Option<u32> {
    word_after("lookup", rule)?.parse().ok()
}

fn word_after<'a>(word: &str, rule: &'a str) -> Option<&'a str> {
    rule.split_whitespace().skip_while(|it| *it != word).nth(1)
}

/// The mask of `0xVALUE/0xMASK`, or of `0xVALUE`, which is then all bits of the value.
pub(crate) fn mask_of(word: &str) -> Option<u32> {
    let last = word.rsplit('/').next()?;
    u32::from_str_radix(last.strip_prefix("0x")?, 16).ok()
}

/// Whether there is a route in the table. `ip` fails where there is no such table.
fn has_routes(family: Family, table: u32) -> bool {
    let routes = show(family, &["route", "show", "table", &table.to_string()]);
    routes.is_ok_and(|routes| !routes.trim().is_empty())
}

/// Whether no route of this version of IP can lead to this machine: an operator has switched IPv6
/// off, and the kernel has it.
fn is_off(family: Family) -> bool {
    match family {
        Family::V4 => false,
        Family::V6 => fs::read_to_string("/proc/sys/net/ipv6/conf/lo/disable_ipv6")
            .is_ok_and(|text| text.trim() == "1"),
    }
}

/// The table of the daemon of these chains.
fn table_for(chain: &str) -> u32 {
    // FNV-1a, 32 bits (RFC 9923, section 5).
    let hash = chain.bytes().fold(0x811c_9dc5_u32, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    });
    TABLES | (hash & TABLE_MASK)
}

fn is_ours(table: u32) -> bool {
    table & !TABLE_MASK == TABLES
}

fn show(family: Family, words: &[&str]) -> Result<String, FirewallError> {
    call(IP, &[&[version(family)], words].concat(), "")
}

fn batch(family: Family, text: &str) -> Result<(), FirewallError> {
    call(IP, &[version(family), "-batch", "-"], text).map(drop)
}

fn here_document(out: &mut String, family: Family, force: &str, text: &str) {
    let _ = writeln!(
        out,
        "{IP} {} {force}-batch - <<'END'\n{text}END",
        version(family)
    );
}

fn version(family: Family) -> &'static str {
    match family {
        Family::V4 => "-4",
        Family::V6 => "-6",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::own_network::in_own_network;

    #[test]
    fn tables_follow_from_the_name_of_the_chains() {
        let one = Delivery::new(1 << 24, "tandem-t-lnk0");
        assert_eq!(one, Delivery::new(1 << 24, "tandem-t-lnk0"));
        assert_ne!(one.table, Delivery::new(1 << 24, "tandem-t-lnk1").table);
        assert!(is_ours(one.table));
    }

    #[test]
    fn what_is_set_is_whole_until_it_is_taken_away_and_others_stay() {
        if !tandem_testkit::has_root_and(&["ip"]) {
            return;
        }
        in_own_network(|| {
            call(IP, &["link", "set", "lo", "up"], "").expect("it is there");
            for family in Family::ALL {
                batch(family, "rule add fwmark 0x7 lookup 1234\n").expect("it is set");
                let before = rules(family).expect("readable");
                let delivery = Delivery::new(1 << 24, "tandem-t-lnk0");
                assert!(!delivery.is_whole(family).expect("readable"));
                // The second in place of the first, which another mark had.
                for mark in [25, 24] {
                    let delivery = Delivery::new(1 << mark, "tandem-t-lnk0");
                    delivery.install(family).expect("it can be set");
                    assert!(delivery.is_whole(family).expect("readable"));
                }
                let set = rules(family).expect("readable");
                assert!(set.contains("fwmark 0x1000000/0x1000000"), "{set}");
                assert!(!set.contains("fwmark 0x2000000"), "{set}");
                take_away_left("tandem-t-lnk0", family).expect("it can be removed");
                assert_eq!(rules(family).expect("readable"), before);
                assert!(!has_routes(family, delivery.table), "no route is left");
                delivery.install(family).expect("it can be set");
                let text = format!("route flush table {}\n", delivery.table);
                batch(family, &text).expect("it is there");
                assert!(!delivery.is_whole(family).expect("readable"));
                delivery.take_away(family).expect("it can be removed");
                delivery.take_away(family).expect("there is nothing to do");
                assert_eq!(rules(family).expect("readable"), before);
                delivery.install(family).expect("it can be set");
                let mark = |chain| marks_of_others(chain, family).expect("readable");
                assert_eq!(mark("tandem-t-lnk0"), 0);
                assert_eq!(mark("tandem-t-lnk1"), 1 << 24);
                assert_eq!(clear(family).expect("it can"), [delivery.table]);
                assert_eq!(rules(family).expect("readable"), before);
            }
            // What operators do who want no IPv6.
            fs::write("/proc/sys/net/ipv6/conf/all/disable_ipv6", "1").expect("root may");
            let delivery = Delivery::new(1 << 24, "tandem-t-lnk0");
            for family in Family::ALL {
                delivery
                    .install(family)
                    .expect("it is set as far as it can be");
                assert!(delivery.is_whole(family).expect("readable"));
            }
            fs::write("/proc/sys/net/ipv6/conf/all/disable_ipv6", "0").expect("root may");
            assert!(!delivery.is_whole(Family::V6).expect("readable"));
            delivery.install(Family::V6).expect("it can be set");
            assert!(delivery.is_whole(Family::V6).expect("readable"));
        });
    }
}
