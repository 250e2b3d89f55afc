//! The way back of what servers answer to clients' addresses, where the server side uses these:
//! rules that deliver it to the server side's own sockets, in place of forwarding it.
//!
//! ```text
//! mangle PREROUTING, TCP that belongs to a socket with an address of another machine: mark it
//! marked: a table with one route, which is local
//! ```
//!
//! Is not: the setting of rules ([`tandem_firewall`]), nor the route that leads the answers to this
//! machine; that is the network's.
//!
//! Invariant: nothing but answers to this machine's own connections is marked.

use tandem_firewall::lock::{InstanceLock, StartLock};
use tandem_firewall::{
    Firewall, LinkName, Owner, RuleSet, RulesKeeper, Sight, Table, TableRules, Trial, privilege,
};

use crate::error::TunnelError;

/// A socket that may have any address, and has one (iptables-extensions(8), `socket`).
const OWN_SOCKETS: &str = "-p tcp -m socket --transparent";

/// The rules in force. Dropping it removes them.
#[derive(Debug)]
pub(crate) struct ReturnPath {
    // Fields are dropped in this order.
    rules: RulesKeeper,
    _instance: InstanceLock,
}

impl ReturnPath {
    /// Sets the rules, for the server side that listens on this port.
    ///
    /// # Errors
    /// A capability, a program or a feature of the kernel is missing.
    pub(crate) fn open(port: u16) -> Result<Self, TunnelError> {
        privilege::require()?;
        let name = name(port)?;
        let instance = InstanceLock::take("server-side", &name)?;
        // Nobody else sets rules meanwhile.
        let _starting = StartLock::take()?;
        let firewall = Firewall::here();
        let mark = firewall.free_mark(&Owner::TunnelOut.chain(&name), Sight::Full, 0)?;
        let rules = rules(&name, mark);
        firewall.try_features(&rules)?;
        // The keeper itself says what it does.
        let rules = RulesKeeper::start(firewall.install_guarded(rules)?, |_| {})?;
        Ok(Self {
            rules,
            _instance: instance,
        })
    }

    /// Takes the rules away.
    ///
    /// # Errors
    /// One of the firewall's programs failed.
    pub(crate) fn remove(self) -> Result<(), TunnelError> {
        Ok(self.rules.remove()?)
    }
}

/// What [`ReturnPath::open`] would have the firewall do, as input for a shell. Changes nothing.
///
/// # Errors
/// The firewall cannot be read.
pub(crate) fn describe(port: u16) -> Result<String, TunnelError> {
    let name = name(port)?;
    let firewall = Firewall::here();
    let sight = Sight::here()?;
    let mark = firewall.free_mark(&Owner::TunnelOut.chain(&name), sight, 0)?;
    Ok(firewall.describe(&rules(&name, mark), sight)?)
}

/// The rules of [`ReturnPath::open`], for whoever looks for them: the mark need not be the one in
/// force.
///
/// # Errors
/// None that is known.
pub(crate) fn rule_set(port: u16) -> Result<RuleSet, TunnelError> {
    let mark = Firewall::here().free_mark("", Sight::None, 0)?;
    Ok(rules(&name(port)?, mark))
}

/// What stands in place of a link's name.
fn name(port: u16) -> Result<LinkName, TunnelError> {
    Ok(LinkName::new(&port.to_string())?)
}

fn rules(name: &LinkName, mark: u32) -> RuleSet {
    let set_mark = format!("-j MARK --set-xmark {mark:#x}/{mark:#x}");
    let trial = |feature, kernel_option, rule: &str| Trial {
        feature,
        kernel_option,
        table: Table::Mangle,
        rule: rule.to_owned(),
    };
    let trials = vec![
        trial(
            "the match socket",
            "CONFIG_NETFILTER_XT_MATCH_SOCKET",
            &format!("{OWN_SOCKETS} -j RETURN"),
        ),
        trial("the target MARK", "CONFIG_NETFILTER_XT_MARK", &set_mark),
    ];
    let mangle = TableRules {
        table: Table::Mangle,
        rules: vec![set_mark],
        jumps: vec![format!("PREROUTING {OWN_SOCKETS}")],
    };
    RuleSet::new(Owner::TunnelOut, name, vec![mangle], trials).delivering(mark)
}

#[cfg(test)]
mod tests {
    use tandem_firewall::LeftBehind;

    use super::*;

    #[test]
    fn the_rules_mark_what_belongs_to_own_sockets() {
        let name = name(4433).expect("a good name");
        assert_eq!(
            rules(&name, 1 << 24).install(&LeftBehind::default()),
            "\
*mangle
:tandem-o-4433 - [0:0]
-A tandem-o-4433 -j MARK --set-xmark 0x1000000/0x1000000
-A PREROUTING -p tcp -m socket --transparent -j tandem-o-4433
COMMIT
"
        );
    }
}
