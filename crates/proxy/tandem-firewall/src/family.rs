//! The versions of IP, which have a firewall each.

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
