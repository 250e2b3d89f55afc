//! What stands in the firewall: what is there, a trial of the kernel's features, setting the rules,
//! removing them.
//!
//! Is not: the rules themselves ([`RuleSet`]), nor how a program is run (`program.rs`).
//!
//! Invariants: what was set is removed when [`InstalledRules`] is dropped, on a panic too; before
//! anything is set, what an earlier daemon of the same role and link left is removed in the same
//! transaction.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Stdio;

use crate::delivery;
use crate::error::FirewallError;
use crate::family::Family;
use crate::guard::Guard;
use crate::privilege;
use crate::program::{IP, call, call_with, output};
use crate::rules::{
    CHAIN_PREFIX, LeftBehind, RuleSet, TRIAL_PREFIX, Table, Trial, free_mark, marks_of_others,
    tables, unlisted,
};

/// Seconds to wait for another program that is changing the firewall: longer than such a change
/// takes, shorter than a person waits.
const WAIT: &str = "--wait=5";

/// The firewalls of this network namespace.
#[derive(Debug, Clone)]
pub struct Firewall {
    families: Vec<Family>,
}

impl Firewall {
    /// IPv4's, and IPv6's where the kernel has IPv6.
    pub fn here() -> Self {
        let families = Family::ALL
            .into_iter()
            .filter(|family| match family {
                Family::V4 => true,
                Family::V6 => Path::new("/proc/sys/net/ipv6").exists(),
            })
            .collect();
        Self { families }
    }

    pub(crate) fn families(&self) -> &[Family] {
        &self.families
    }

    /// The bits of packet marks that daemons of Tandem use, all but the one whose chain is `chain`.
    ///
    /// # Errors
    /// The firewall cannot be read.
    pub fn marks_of_others(&self, chain: &str) -> Result<u32, FirewallError> {
        let mut taken = 0;
        for family in &self.families {
            taken |= marks_of_others(chain, &saved(*family)?);
            taken |= delivery::marks_of_others(chain, *family)?;
        }
        Ok(taken)
    }

    /// A mark, one bit, that no other daemon than the one whose chain is `chain` uses, as far as
    /// this thread sees, and that has none of the bits `besides`.
    ///
    /// # Errors
    /// There is none, or the firewall cannot be read.
    pub fn free_mark(&self, chain: &str, sight: Sight, besides: u32) -> Result<u32, FirewallError> {
        let taken = match sight {
            Sight::Full => self.marks_of_others(chain)?,
            Sight::None => 0,
        };
        free_mark(taken | besides).ok_or(FirewallError::NoMarkLeft)
    }

    /// Tries each feature of the kernel that `rules` need, in a chain that no packet visits and
    /// that is removed again.
    ///
    /// # Errors
    /// The first feature that is missing.
    pub fn try_features(&self, rules: &RuleSet) -> Result<(), FirewallError> {
        let scratch = format!("{TRIAL_PREFIX}{}", std::process::id());
        for family in &self.families {
            let trials = rules.trials();
            let tried = restore(*family, &trial_text(&scratch, trials));
            let removed = restore(*family, &trial_removal(&scratch, trials));
            match tried {
                Ok(()) => removed?,
                Err(FirewallError::Firewall { .. }) => {
                    for trial in trials {
                        let text = trial_text(&scratch, std::slice::from_ref(trial));
                        let outcome = restore(*family, &text);
                        // What failed whole left nothing, and then this fails too.
                        let _ = restore(
                            *family,
                            &trial_removal(&scratch, std::slice::from_ref(trial)),
                        );
                        if let Err(FirewallError::Firewall { reason, .. }) = outcome {
                            return Err(FirewallError::MissingKernelFeature {
                                program: family.program().to_owned(),
                                feature: trial.feature,
                                kernel_option: trial.kernel_option,
                                reason,
                            });
                        }
                        outcome?;
                    }
                    tried?;
                }
                Err(other) => return Err(other),
            }
        }
        Ok(())
    }

    /// Sets `rules`, in place of what an earlier daemon of the same name left.
    ///
    /// # Errors
    /// One of the programs failed, or could not show the rules; then nothing of `rules` stays.
    pub fn install(&self, rules: RuleSet) -> Result<InstalledRules, FirewallError> {
        self.set(rules, None)
    }

    /// The same, and another process removes the rules if this one is killed: for rules that do
    /// harm without their daemon.
    ///
    /// # Errors
    /// As [`Self::install`], or the process cannot be started.
    pub fn install_guarded(&self, rules: RuleSet) -> Result<InstalledRules, FirewallError> {
        // Before there are any rules, so that they are never there without it.
        let guard = Guard::start(&removal_script(&rules, &self.families))?;
        self.set(rules, Some(guard))
    }

    fn set(&self, rules: RuleSet, guard: Option<Guard>) -> Result<InstalledRules, FirewallError> {
        let mut installed = InstalledRules {
            rules,
            families: Vec::new(),
            guard,
        };
        for family in &self.families {
            listed(*family, &installed.rules)?;
            // Remembered before it is done: removing what is not there is harmless.
            installed.families.push(*family);
            let rules = &installed.rules;
            // Before what marks packets for it.
            match rules.delivery() {
                Some(delivery) => delivery.install(*family)?,
                None => delivery::take_away_left(rules.chain(), *family)?,
            }
            change(installed.guard.as_ref(), *family, |saved| {
                let left = LeftBehind::find(rules, saved);
                if !left.is_empty() {
                    tracing::warn!(
                        family = family.program(),
                        chain = rules.chain(),
                        "replacing the rules that an earlier daemon left behind"
                    );
                }
                Some(rules.install(&left))
            })?;
            read_back(*family, rules)?;
        }
        Ok(installed)
    }

    /// Takes away everything that daemons of Tandem have set. What fails for one table or version
    /// of IP is done for the others all the same.
    #[must_use]
    pub fn clear(&self) -> Cleared {
        let mut cleared = Cleared::default();
        for family in &self.families {
            cleared.rules(*family);
            match delivery::clear(*family) {
                Ok(tables) => {
                    let tables = tables.into_iter().map(|it| (IP, format!("table {it}")));
                    cleared.removed.extend(tables);
                }
                Err(error) => cleared.failures.push(error),
            }
        }
        cleared
    }

    /// What [`Self::install`] would do, as a shell would be told; then what the end of the daemon
    /// would do.
    ///
    /// # Errors
    /// The firewall cannot be read, or a table of `rules` cannot be shown.
    pub fn describe(&self, rules: &RuleSet, sight: Sight) -> Result<String, FirewallError> {
        let mut out = String::new();
        for family in &self.families {
            let left = match sight {
                Sight::Full => LeftBehind::find(rules, &listed(*family, rules)?),
                Sight::None => LeftBehind::default(),
            };
            match sight {
                Sight::Full if left.is_empty() => {}
                Sight::Full => {
                    out.push_str("# An earlier daemon left rules; -D and the first line of a table take them away.\n");
                }
                Sight::None => {
                    out.push_str("# Without CAP_NET_ADMIN it cannot be seen whether an earlier daemon left rules.\n");
                }
            }
            if let Some(delivery) = rules.delivery() {
                delivery.describe_install(&mut out, *family);
            }
            here_document(&mut out, *family, &rules.install(&left));
        }
        out.push_str("# At the end:\n");
        out.push_str(&removal_script(rules, &self.families));
        Ok(out)
    }
}

/// What [`Firewall::clear`] has done.
#[derive(Debug, Default)]
pub struct Cleared {
    /// What was taken away: the program that did it, and the name of a chain or table.
    pub removed: Vec<(&'static str, String)>,
    /// Tables that cannot be shown: what stands there is not known.
    pub unlisted: Vec<(Family, Table)>,
    /// What could not be done.
    pub failures: Vec<FirewallError>,
}

impl Cleared {
    /// Takes the rules of a version of IP away, each table by itself.
    fn rules(&mut self, family: Family) {
        let saved = match saved(family) {
            Ok(saved) => saved,
            Err(error) => return self.failures.push(error),
        };
        let unlisted = unlisted(&saved).map(|table| (family, table));
        self.unlisted.extend(unlisted);
        for left in LeftBehind::all(&saved) {
            let tables = Table::ALL.into_iter();
            let there = tables.filter(|table| !left.removal_of(*table).is_empty());
            let removed = there.map(|table| {
                change(None, family, |saved| {
                    let there = LeftBehind::of_chain(left.chain(), saved);
                    Some(there.removal_of(table)).filter(|text| !text.is_empty())
                })
            });
            match removed.fold(Ok(String::new()), Result::and) {
                Ok(_) => {
                    let chain = left.chain().to_owned();
                    self.removed.push((family.program(), chain));
                }
                Err(error) => self.failures.push(error),
            }
        }
    }
}

/// Whether the firewall may be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sight {
    /// It may.
    Full,
    /// A capability for it is missing.
    None,
}

impl Sight {
    /// Whether this thread may read it.
    ///
    /// # Errors
    /// The system call failed.
    pub fn here() -> Result<Self, FirewallError> {
        Ok(if privilege::missing()?.is_empty() {
            Self::Full
        } else {
            Self::None
        })
    }
}

/// Rules that are in force; dropping it removes them.
#[derive(Debug)]
pub struct InstalledRules {
    rules: RuleSet,
    families: Vec<Family>,
    guard: Option<Guard>,
}

impl InstalledRules {
    /// Takes the rules away.
    ///
    /// # Errors
    /// A program failed; the others ran all the same.
    pub fn remove(mut self) -> Result<(), FirewallError> {
        self.take_away()
    }

    /// Sets the rules again where another program has taken them out, and their routes. How often
    /// that had to be done: once for each of both and each version of IP.
    ///
    /// # Errors
    /// A program failed, or cannot show a table of the rules: nothing is set in place of what is
    /// not seen.
    pub fn restore_missing(&self) -> Result<u64, FirewallError> {
        let mut restored = 0;
        for family in &self.families {
            if let Some(delivery) = self.rules.delivery()
                && !delivery.is_whole(*family)?
            {
                delivery.install(*family)?;
                restored += 1;
            }
            let left = LeftBehind::find(&self.rules, &listed(*family, &self.rules)?);
            if !left.is_whole(&self.rules) {
                restore_under(self.guard.as_ref(), *family, &self.rules.install(&left))?;
                restored += 1;
            }
        }
        Ok(restored)
    }

    fn take_away(&mut self) -> Result<(), FirewallError> {
        let mut outcome = Ok(());
        for family in self.families.drain(..) {
            let removed = remove(family, &self.rules);
            if outcome.is_ok() {
                outcome = removed;
            }
        }
        if outcome.is_err()
            && let Some(guard) = self.guard.take()
        {
            // Another program may have had the firewall for too long.
            guard.carry_out();
        }
        outcome
    }
}

impl Drop for InstalledRules {
    fn drop(&mut self) {
        if let Err(error) = self.take_away() {
            tracing::error!(
                chain = self.rules.chain(),
                "rules may be left; the next start removes them, or `tandem off`: {error}"
            );
        }
    }
}

/// Removes what is there now.
fn remove(family: Family, rules: &RuleSet) -> Result<(), FirewallError> {
    let removed = change(None, family, |saved| {
        let left = LeftBehind::find(rules, saved);
        (!left.is_empty()).then(|| left.removal())
    });
    let removed = removed.and_then(|saved| remove_unlisted(family, rules, &saved));
    let delivered = match rules.delivery() {
        Some(delivery) => delivery.take_away(family),
        None => Ok(()),
    };
    removed.and(delivered)
}

/// Removes rules from tables that could be shown when they were set and cannot now.
fn remove_unlisted(family: Family, rules: &RuleSet, saved: &str) -> Result<(), FirewallError> {
    rules
        .unlisted(saved)
        .map(|table| restore(family, &rules.as_set().removal_of(table)))
        .fold(Ok(()), Result::and)
}

/// Gives the kernel what `text` makes of the rules in force, and returns these. Where that fails
/// because somebody else has changed them meanwhile, the guard of a daemon that was killed for
/// instance, it is made anew.
fn change(
    guard: Option<&Guard>,
    family: Family,
    text: impl Fn(&str) -> Option<String>,
) -> Result<String, FirewallError> {
    let mut before = saved(family)?;
    loop {
        let Some(text) = text(&before) else {
            return Ok(before);
        };
        let Err(error) = restore_under(guard, family, &text) else {
            return Ok(before);
        };
        let after = saved(family)?;
        if ours(&after).eq(ours(&before)) {
            return Err(error);
        }
        before = after;
    }
}

/// The rules in force, where every table of `rules` can be shown. Rules in one that cannot would
/// seem to be missing as long as they are there.
pub(crate) fn listed(family: Family, rules: &RuleSet) -> Result<String, FirewallError> {
    let saved = saved(family)?;
    let hidden = rules.unlisted(&saved).next();
    match hidden {
        None => Ok(saved),
        Some(table) => Err(unseen(family, table)),
    }
}

/// Fails if rules that have just been set are there and are not shown; then those of that table are
/// removed again.
fn read_back(family: Family, rules: &RuleSet) -> Result<(), FirewallError> {
    let Some(table) = LeftBehind::find(rules, &saved(family)?).lacking(rules) else {
        return Ok(());
    };
    match restore(family, &rules.as_set().removal_of(table)) {
        Ok(()) => Err(unseen(family, table)),
        // They are not there: another program took some out meanwhile. The keeper sets them again.
        Err(_) => Ok(()),
    }
}

fn unseen(family: Family, table: Table) -> FirewallError {
    FirewallError::Unlisted {
        program: family.program(),
        table: table.name(),
    }
}

/// The lines about Tandem's chains: those that say nothing of dates and counters.
fn ours(saved: &str) -> impl Iterator<Item = &str> {
    saved.lines().filter(|line| line.contains(CHAIN_PREFIX))
}

/// What a shell would be told to remove `rules`, as they were set. Each table by itself: from one
/// in which another program has taken some out nothing is removed.
fn removal_script(rules: &RuleSet, families: &[Family]) -> String {
    let set = rules.as_set();
    let mut out = String::new();
    for family in families {
        for table in Table::ALL.into_iter().filter(|it| rules.has_table(*it)) {
            here_document(&mut out, *family, &set.removal_of(table));
        }
        if let Some(delivery) = rules.delivery() {
            delivery.describe_removal(&mut out, *family);
        }
    }
    out
}

pub(crate) fn trial_text(scratch: &str, trials: &[Trial]) -> String {
    let mut out = String::new();
    for table in tables(trials) {
        let _ = writeln!(out, "*{}\n:{scratch} - [0:0]", table.name());
        for trial in trials.iter().filter(|trial| trial.table == table) {
            let _ = writeln!(out, "-A {scratch} {}", trial.rule);
        }
        out.push_str("COMMIT\n");
    }
    out
}

fn trial_removal(scratch: &str, trials: &[Trial]) -> String {
    let mut out = String::new();
    for table in tables(trials) {
        let _ = writeln!(
            out,
            "*{}\n:{scratch} - [0:0]\n-X {scratch}\nCOMMIT",
            table.name()
        );
    }
    out
}

fn here_document(out: &mut String, family: Family, text: &str) {
    let _ = writeln!(
        out,
        "{}-restore --noflush {WAIT} <<'END'\n{text}END",
        family.program()
    );
}

/// The rules in force.
pub(crate) fn saved(family: Family) -> Result<String, FirewallError> {
    // One call per table: without -t only the tables that exist already are listed, which is as
    // good, and one call less.
    call(&format!("{}-save", family.program()), &[], "")
}

/// Has the program check `text`; nothing of it is set.
pub(crate) fn tested(family: Family, text: &str) -> Result<(), FirewallError> {
    let program = format!("{}-restore", family.program());
    let output = output(&program, &["--test", "--noflush", WAIT], text)?;
    // A test that the kernel would fail ends well all the same, with a warning.
    match missing_module(&String::from_utf8_lossy(&output.stderr)) {
        Some(reason) => Err(FirewallError::Firewall { program, reason }),
        None => Ok(()),
    }
}

/// What the programs say, since 1.8.8, of an extension that the kernel does not have.
fn missing_module(said: &str) -> Option<String> {
    let line = said.lines().find(|line| line.contains("missing kernel"))?;
    Some(line.trim().trim_start_matches("Warning: ").to_owned())
}

/// Gives `text` to the kernel.
fn restore(family: Family, text: &str) -> Result<(), FirewallError> {
    restore_under(None, family, text)
}

/// The same, and this guard waits for the end of it.
fn restore_under(guard: Option<&Guard>, family: Family, text: &str) -> Result<(), FirewallError> {
    let program = format!("{}-restore", family.program());
    let stdout = guard.map_or_else(Stdio::null, Guard::pipe);
    call_with(stdout, &program, &["--noflush", WAIT], text)
}

#[cfg(test)]
mod tests {
    use nix::sys::wait::{WaitStatus, waitpid};
    use nix::unistd::Pid;

    use super::*;
    use crate::link::LinkName;
    use crate::own_network::{FOREIGN, add_foreign_rule, in_own_network};
    use crate::rules::{Owner, TableRules};

    fn redirection() -> RuleSet {
        let link = LinkName::new("lnk0").expect("a good name");
        let nat = TableRules {
            table: Table::Nat,
            rules: vec!["-p tcp -j REDIRECT --to-ports 9".to_owned()],
            jumps: vec!["OUTPUT -o lnk0 -p tcp".to_owned()],
        };
        RuleSet::new(Owner::Tunnel, &link, vec![nat], Vec::new())
    }

    /// What is there of ours, once the rule of somebody else is gone that hides it.
    fn ours_in_nat(family: Family) -> Vec<String> {
        call(family.program(), &["-t", "nat", "-F", FOREIGN], "").expect("it is there");
        let saved = saved(family).expect("readable");
        assert!(saved.contains("*nat\n"), "it can be seen again: {saved}");
        ours(&saved).map(str::to_owned).collect()
    }

    #[test]
    fn nothing_is_set_in_a_table_that_cannot_be_shown_and_the_table_is_named() {
        if !tandem_testkit::has_root_and(&["iptables", "ip6tables"]) {
            return;
        }
        in_own_network(|| {
            for family in Family::ALL {
                let firewall = Firewall::here();
                add_foreign_rule(family, Table::Nat);
                let refused = firewall
                    .install(redirection())
                    .expect_err("it is not shown");
                let said = refused.to_string();
                assert!(said.starts_with(family.program()), "{said}");
                assert!(said.contains("the table nat"), "{said}");
                let survey = firewall.survey(&redirection(), &[443]);
                assert_eq!(survey.expect_err("not shown").to_string(), said);
                let cleared = firewall.clear();
                assert_eq!(cleared.unlisted, [(family, Table::Nat)]);
                assert!(cleared.failures.is_empty(), "{cleared:?}");
                assert_eq!(ours_in_nat(family), Vec::<String>::new());
                // What stands in other tables is no matter.
                add_foreign_rule(family, Table::Filter);
                let installed = firewall.install(redirection()).expect("it can be set");
                installed.remove().expect("it can be removed");
                call(family.program(), &["-F", FOREIGN], "").expect("it is there");
            }
        });
    }

    #[test]
    fn rules_in_a_table_that_can_be_shown_no_more_are_kept_once_and_removed() {
        if !tandem_testkit::has_root_and(&["iptables", "ip6tables"]) {
            return;
        }
        in_own_network(|| {
            for family in Family::ALL {
                let installed = Firewall::here().install(redirection()).expect("it is set");
                add_foreign_rule(family, Table::Nat);
                for _ in 0..2 {
                    let error = installed.restore_missing().expect_err("it is not shown");
                    assert!(error.to_string().contains("the table nat"), "{error}");
                }
                let found = ours_in_nat(family);
                let jumps = found.iter().filter(|line| line.starts_with("-A OUTPUT"));
                assert_eq!(jumps.count(), 1, "{found:?}");
                add_foreign_rule(family, Table::Nat);
                installed.remove().expect("they can be removed");
                assert_eq!(ours_in_nat(family), Vec::<String>::new());
            }
        });
    }

    #[test]
    fn the_guard_removes_the_rules_of_a_daemon_that_is_gone_and_no_others() {
        if !tandem_testkit::has_root_and(&["iptables", "ip6tables"]) {
            return;
        }
        in_own_network(|| {
            let rules = redirection();
            let firewall = Firewall::here();
            call(
                "iptables",
                &["-t", "nat", "-A", "OUTPUT", "-j", "ACCEPT"],
                "",
            )
            .expect("it is set");
            let chains = || {
                let both = Family::ALL.map(|family| saved(family).expect("readable"));
                both.concat().matches(":tandem-t-lnk0 ").count()
            };
            let install = || firewall.install_guarded(rules.clone());
            let mut installed = install().expect("they can be set");
            assert_eq!(chains(), 2);
            installed.guard.as_mut().expect("there is one").finish();
            assert_eq!(chains(), 0);
            let kept = saved(Family::V4).expect("readable");
            assert!(kept.contains("-A OUTPUT -j ACCEPT"), "{kept}");
            drop(installed);
            drop(firewall.install(rules.clone()).expect("they can be set"));
            assert_eq!(chains(), 0, "a daemon that panics takes them away, too");
            let installed = install().expect("they can be set");
            let guard = installed.guard.as_ref().map(Guard::process);
            installed.remove().expect("they can be removed");
            assert_eq!(chains(), 0);
            let process = guard.expect("there is one");
            assert!(!Path::new(&format!("/proc/{process}")).exists());
        });
    }

    #[test]
    fn what_the_daemon_fails_to_remove_is_left_to_the_guard() {
        let folder = tempfile::tempdir().expect("a folder");
        let done = folder.path().join("done");
        let removal = format!("echo > '{}'", done.display());
        let process = std::thread::spawn(move || {
            let link = LinkName::new("lnk0").expect("a good name");
            let guard = Guard::start(&removal).expect("there is a shell");
            let process = guard.process();
            let installed = InstalledRules {
                rules: RuleSet::new(Owner::Tunnel, &link, Vec::new(), Vec::new()),
                families: vec![Family::V4],
                guard: Some(guard),
            };
            // Then the firewall cannot even be read.
            privilege::keep_none().expect("giving up is always allowed");
            installed.remove().expect_err("not permitted");
            process
        });
        let process = process.join().expect("the checks hold");
        let process = Pid::from_raw(i32::try_from(process).expect("they are small"));
        let ended = waitpid(process, None).expect("nobody else waited for it");
        assert_eq!(ended, WaitStatus::Exited(process, 0));
        assert!(done.exists());
    }

    #[test]
    fn a_test_that_warns_of_the_kernel_has_failed() {
        let said = "Warning: Extension LED revision 0 not supported, missing kernel module?\n";
        let reason = missing_module(said).expect("it is missing");
        assert!(reason.starts_with("Extension LED"), "{reason}");
        assert_eq!(
            missing_module("# Warning: iptables-legacy tables present\n"),
            None
        );
    }
}
