//! Packet mode's rules: which packets reach the queue, which pass it by; and which mark bits are
//! used.
//!
//! Is not: the setting of rules ([`tandem_firewall`]).
//!
//! Invariant: the jumps come last in their chains, after those of other programs: a packet that
//! leaves the queue by a verdict skips what stands behind the queue's rule (kernel fact), so what
//! others have set before still runs.
//!
//! | table, hook | packets | why there |
//! |---|---|---|
//! | mangle POSTROUTING `-o LINK` | to the link, forwarded and local | before the source address is translated |
//! | mangle FORWARD `-i LINK`, INPUT `-i LINK` | from the link | after it is translated back |
//! | raw OUTPUT `! -o LINK` | injected towards the near endpoint | past connection tracking, which saw the packet already |

use tandem_firewall::{Firewall, LinkName, Owner, RuleSet, Table, TableRules, Trial, port_lists};
use tandem_packet::Role;

use crate::config::{MarkChoice, Marks};
use crate::error::IoError;

/// Lets pass what begins a connection in the eyes of connection tracking, and is no SYN.
const PICKED_UP: &str = "-p tcp ! --syn -m conntrack --ctstate NEW -j RETURN";

/// The rules that queue TLS over `link` for a daemon in `role`: connections to the servers'
/// `ports`.
pub(crate) fn rules(
    role: Role,
    link: &LinkName,
    ports: &[u16],
    queue: u16,
    marks: Marks,
) -> RuleSet {
    let leave = format!("{0:#x}/{0:#x}", marks.leave());
    let inject = format!("{0:#x}/{0:#x}", marks.inject());
    let mask = format!("{:#x}", marks.leave());
    let mangle = TableRules {
        table: Table::Mangle,
        rules: vec![
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
            format!("-j NFQUEUE --queue-num {queue} --queue-bypass"),
        ],
        jumps: jumps(role, link, ports),
    };
    let raw = TableRules {
        table: Table::Raw,
        rules: vec![format!("-m mark --mark {inject} -j CT --notrack")],
        jumps: vec![format!("OUTPUT ! -o {link}")],
    };
    RuleSet::new(owner(role), link, vec![mangle, raw], trials(queue))
}

/// The packets that visit the chain of the table `mangle`.
fn jumps(role: Role, link: &LinkName, ports: &[u16]) -> Vec<String> {
    let (to_link, from_link) = match role {
        Role::ClientSide => ("--dports", "--sports"),
        Role::ServerSide => ("--sports", "--dports"),
    };
    let mut jumps = Vec::new();
    for ports in port_lists(ports) {
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

/// The rules that need a feature of the kernel, each alone.
fn trials(queue: u16) -> Vec<Trial> {
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
            &format!("-j NFQUEUE --queue-num {queue} --queue-bypass"),
        ),
        Trial {
            feature: "the target CT",
            kernel_option: "CONFIG_NETFILTER_XT_TARGET_CT",
            table: Table::Raw,
            rule: "-j CT --notrack".to_owned(),
        },
    ]
}

/// The marks to use for a daemon in `role` on `link`.
///
/// # Errors
/// All are taken, or the firewall cannot be read.
pub(crate) fn marks(
    firewall: &Firewall,
    choice: MarkChoice,
    role: Role,
    link: &LinkName,
) -> Result<Marks, IoError> {
    match choice {
        MarkChoice::Fixed(marks) => Ok(marks),
        MarkChoice::FirstFree => {
            let taken = firewall.marks_of_others(&owner(role).chain(link))?;
            Marks::CANDIDATES
                .into_iter()
                .find(|marks| !marks.meets(taken))
                .ok_or(IoError::NoMarkLeft)
        }
    }
}

fn owner(role: Role) -> Owner {
    match role {
        Role::ClientSide => Owner::ClientSide,
        Role::ServerSide => Owner::ServerSide,
    }
}

#[cfg(test)]
mod tests {
    use tandem_firewall::LeftBehind;

    use super::*;

    fn set(role: Role, link: &str, ports: &[u16]) -> RuleSet {
        let link = LinkName::new(link).expect("a good name");
        let marks = Marks::new(0x0100_0000, 0x0200_0000).expect("two single bits");
        rules(role, &link, ports, 5000, marks)
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
        let rules = set(Role::ClientSide, "tun0", &[443, 8443]);
        assert_eq!(rules.install(&LeftBehind::default()), CLIENT_SIDE);
    }

    #[test]
    fn the_server_side_is_the_reverse() {
        let text = set(Role::ServerSide, "eth1", &[443]).install(&LeftBehind::default());
        assert!(text.contains(
            "-A POSTROUTING -o eth1 -p tcp -m multiport --sports 443 -j tandem-s-eth1\n"
        ));
        assert!(
            text.contains("-A FORWARD -i eth1 -p tcp -m multiport --dports 443 -j tandem-s-eth1\n")
        );
    }
}
