//! The rules as text.

use super::*;

const RULES: &str = "\
*nat
:tandem-t-lnk0 - [0:0]
-A tandem-t-lnk0 -m addrtype --dst-type LOCAL -j RETURN
-A tandem-t-lnk0 -4 -p tcp -d 192.0.2.1 --dport 443 -j RETURN
-A tandem-t-lnk0 -p tcp --syn -j REDIRECT --to-ports 4711
-A PREROUTING ! -i lnk0 -p tcp -m multiport --dports 443,8443 -j tandem-t-lnk0
-A OUTPUT -o lnk0 -p tcp -m multiport --dports 443,8443 -j tandem-t-lnk0
COMMIT
";

#[test]
fn the_rules_take_what_leaves_by_the_link() {
    let rules = rules(&taken(&[], &[443, 8443]), 4711, MARKS);
    assert_eq!(rules.install(&LeftBehind::default()), RULES);
}

#[test]
fn the_rules_of_tproxy_take_other_machines_connections_without_translation() {
    let taken = Taken {
        intercept: Intercept::Tproxy,
        ..taken(&["lan0"], &[443])
    };
    let expected = "\
*mangle
:tandem-t-lnk0 - [0:0]
-A tandem-t-lnk0 -m addrtype --dst-type LOCAL -j RETURN
-A tandem-t-lnk0 -4 -p tcp -d 192.0.2.1 --dport 443 -j RETURN
-A tandem-t-lnk0 -p tcp -m socket --transparent -j MARK --set-xmark 0x20000000/0x20000000
-A tandem-t-lnk0 -p tcp --syn -j TPROXY --on-port 4711 --tproxy-mark 0x20000000/0x20000000
-A PREROUTING -i lan0 -p tcp -m multiport --dports 443 -j tandem-t-lnk0
COMMIT
*nat
:tandem-t-lnk0 - [0:0]
-A tandem-t-lnk0 -m addrtype --dst-type LOCAL -j RETURN
-A tandem-t-lnk0 -4 -p tcp -d 192.0.2.1 --dport 443 -j RETURN
-A tandem-t-lnk0 -p tcp --syn -j REDIRECT --to-ports 4711
-A OUTPUT -o lnk0 -p tcp -m multiport --dports 443 -j tandem-t-lnk0
COMMIT
";
    let marks = Marks {
        delivered: Some(0x2000_0000),
        ..MARKS
    };
    let rules = rules(&taken, 4711, marks);
    assert_eq!(rules.install(&LeftBehind::default()), expected);
}

#[test]
fn udp_to_the_same_ports_is_rejected_but_for_the_daemons_own_and_the_tunnel() {
    let taken = Taken {
        udp: Udp::Reject,
        ..taken(&[], &[443])
    };
    let expected = "\
*filter
:tandem-t-lnk0 - [0:0]
-A tandem-t-lnk0 -4 -p udp -d 192.0.2.1 --dport 443 -j RETURN
-A tandem-t-lnk0 -m mark --mark 0x40000000/0x40000000 -j RETURN
-A tandem-t-lnk0 -p udp -j REJECT
-I FORWARD -o lnk0 -p udp -m multiport --dports 443 -j tandem-t-lnk0
-I OUTPUT -o lnk0 -p udp -m multiport --dports 443 -j tandem-t-lnk0
COMMIT
";
    let marks = Marks {
        own: Some(0x4000_0000),
        ..MARKS
    };
    let text = rules(&taken, 4711, marks).install(&LeftBehind::default());
    assert!(text.ends_with(expected), "{text}");
}

const UDP_TO_THE_TUNNEL: &str = "\
*mangle
:tandem-t-lnk0 - [0:0]
-A tandem-t-lnk0 -i lnk0 -j RETURN
-A tandem-t-lnk0 -m addrtype ! --dst-type UNICAST -j RETURN
-A tandem-t-lnk0 -4 -p udp -d 192.0.2.1 --dport 443 -j RETURN
-A tandem-t-lnk0 -m mark --mark 0x40000000/0x40000000 -j RETURN
-A tandem-t-lnk0 -m mark --mark 0x20000000/0x20000000 -j RETURN
-A tandem-t-lnk0 -m conntrack --ctstate ESTABLISHED,RELATED,DNAT -j RETURN
-A tandem-t-lnk0 -j NFQUEUE --queue-num NUMBER --queue-bypass
-A POSTROUTING -o lnk0 -p udp -m multiport --dports 443 -j tandem-t-lnk0
COMMIT
*raw
:tandem-t-lnk0 - [0:0]
-A tandem-t-lnk0 -m mark --mark 0x20000000/0x20000000 -j CT --notrack
-A OUTPUT -j tandem-t-lnk0
COMMIT
";

#[test]
fn udp_for_the_tunnel_is_queued_behind_the_firewalls_own_rules_and_answers_are_not_tracked() {
    let taken = Taken {
        udp: Udp::Tunnel,
        ..taken(&[], &[443])
    };
    let marks = Marks {
        own: Some(0x4000_0000),
        answers: Some(0x2000_0000),
        ..MARKS
    };
    let text = rules(&taken, 4711, marks).install(&LeftBehind::default());
    let queue = rules::queue_number(&taken.link).to_string();
    let expected = UDP_TO_THE_TUNNEL.replace("NUMBER", &queue);
    assert!(text.ends_with(&expected), "{text}");
    let named = Taken {
        from: vec![LinkName::new("lan0").expect("a good name")],
        ..taken
    };
    let text = rules(&named, 4711, marks).install(&LeftBehind::default());
    let of_udp = text.lines().filter(|it| it.contains("-p udp -m multiport"));
    let by = |hook: &str| format!("-A {hook} -p udp -m multiport --dports 443 -j tandem-t-lnk0");
    let expected = [
        by("FORWARD -i lan0 -o lnk0"),
        by("POSTROUTING -o lnk0 -m addrtype --src-type LOCAL"),
    ];
    assert_eq!(of_udp.collect::<Vec<_>>(), expected);
}

#[test]
fn where_interfaces_are_named_only_udp_from_these_and_of_this_machine_is_rejected() {
    let taken = Taken {
        udp: Udp::Reject,
        ..taken(&["lan0", "wg0"], &[443])
    };
    let text = rules(&taken, 4711, MARKS).install(&LeftBehind::default());
    let jumps: Vec<&str> = text.lines().filter(|it| it.starts_with("-I ")).collect();
    let by =
        |hook: &str| format!("-I {hook} -o lnk0 -p udp -m multiport --dports 443 -j tandem-t-lnk0");
    let expected = ["FORWARD -i lan0", "FORWARD -i wg0", "OUTPUT"].map(by);
    assert_eq!(jumps, expected);
}

#[test]
fn the_daemons_own_connections_to_servers_are_spared_by_their_mark() {
    let marks = Marks {
        own: Some(0x4000_0000),
        ..MARKS
    };
    let rules = rules(&taken(&[], &[443, 8443]), 4711, marks);
    let spared = "-A tandem-t-lnk0 -m mark --mark 0x40000000/0x40000000 -j RETURN\n";
    let redirect = "-A tandem-t-lnk0 -p tcp --syn -j";
    let expected = RULES.replace(redirect, &format!("{spared}{redirect}"));
    assert_eq!(rules.install(&LeftBehind::default()), expected);
}

#[test]
fn the_mark_of_the_daemons_own_connections_is_not_that_of_what_is_delivered() {
    let taken = Taken {
        intercept: Intercept::Tproxy,
        ..taken(&[], &[443])
    };
    let marks = Marks::choose(Own::Spared, &Firewall::here(), &taken, Sight::None);
    let Marks { own, delivered, .. } = marks.expect("two of them are free");
    assert!(own.is_some() && delivered.is_some());
    assert_ne!(own, delivered);
}

#[test]
fn the_server_side_is_spared_in_its_version_of_ip() {
    for (peer, rule) in [
        ("192.0.2.1:443", "-4 -p tcp -d 192.0.2.1 --dport 443"),
        (
            "[::ffff:192.0.2.1]:443",
            "-4 -p tcp -d 192.0.2.1 --dport 443",
        ),
        ("[2001:db8::1]:44", "-6 -p tcp -d 2001:db8::1 --dport 44"),
    ] {
        let taken = Taken {
            peer: peer.parse().expect("an address"),
            ..taken(&[], &[443])
        };
        let text = rules(&taken, 4711, MARKS).install(&LeftBehind::default());
        let rule = format!("-A tandem-t-lnk0 {rule} -j RETURN\n");
        assert!(text.contains(&rule), "{peer}: {text}");
    }
}

#[test]
fn of_other_machines_only_those_on_named_interfaces_are_taken() {
    let rules = rules(&taken(&["lan0", "wg0"], &[443]), 4711, MARKS);
    let text = rules.install(&LeftBehind::default());
    let jumps: Vec<&str> = text
        .lines()
        .filter(|line| line.ends_with("-j tandem-t-lnk0"))
        .collect();
    assert_eq!(
        jumps,
        [
            "-A PREROUTING -i lan0 -p tcp -m multiport --dports 443 -j tandem-t-lnk0",
            "-A PREROUTING -i wg0 -p tcp -m multiport --dports 443 -j tandem-t-lnk0",
            "-A OUTPUT -o lnk0 -p tcp -m multiport --dports 443 -j tandem-t-lnk0",
        ]
    );
}

#[test]
fn an_interface_that_cannot_be_is_named_with_its_setting() {
    let error = open_from(&["a b"], "lo", &[443]).expect_err("no such name");
    assert!(error.to_string().starts_with("from: `a b`"), "{error}");
}
