//! A volunteer on a host of its own that has IPv6 only: what DNS says, what curl gets, and what is
//! left when its line is cut.
//!
//! Root only; skipped, with a message, otherwise.

use super::*;
use crate::support::real::{Net, Shape, has_root_and};

/// The two ends of the line.
const BROKER: &str = "fd77:2::1";
const VOLUNTEER: &str = "fd77:2::2";

impl Site {
    /// A broker that has IPv4 and IPv6, and by its address of IPv6 an origin.
    fn broker_by_ipv6(&self) -> (Running, Forwarder) {
        let path = self.configure_both(&format!("[{BROKER}]"));
        let text = fs::read_to_string(&path).expect("ours");
        let address = |host: &str| SocketAddr::new(host.parse().expect("one"), self.origin);
        let (own, other) = (address("127.0.0.1"), address(BROKER));
        let line = |address: SocketAddr| format!("address = \"{address}\"");
        assert!(text.contains(&line(own)));
        fs::write(&path, text.replacen(&line(own), &line(other), 1)).expect("ours");
        let origin = Forwarder::start(other, own);
        (self.broker_as(&path), origin)
    }
}

#[test]
fn a_volunteer_with_ipv6_alone_is_published_and_serves_and_leaves_dns_when_it_is_cut_off() {
    if !has_root_and(&["ip", "curl", "openssl", "dig", "python3"]) {
        return;
    }
    let net = Net::new(Shape::Wire);
    net.b.run("ip -4 address flush scope global");
    net.a.inside(|| {
        let site = Site::new();
        let _broker = site.broker_by_ipv6();
        let mut command = common::tandem(&["split", "volunteer", &site.uri()]);
        command.args(["--listen", &format!("[::]:{}", site.port)]);
        let log = site.at("volunteer.log");
        let _volunteer = net.b.inside(|| start(&mut command, &log, "ready"));
        site.answers("AAAA", &[VOLUNTEER]);
        site.answers("A", &[]);
        let curled = || site.fetches_by("-6", &[&format!("[{VOLUNTEER}]")]);
        assert!(curled());
        assert_eq!(site.healths(VOLUNTEER), [(VOLUNTEER.to_owned(), true)]);

        net.b.run("ip link set link0 down");
        site.answers("AAAA", &[]);
        // The origin's own.
        site.answers("A", &["127.0.0.99"]);
        assert_eq!(site.healths(VOLUNTEER), [(VOLUNTEER.to_owned(), false)]);

        net.b.run("ip link set link0 up");
        let add = format!("ip address add {VOLUNTEER}/64 dev link0 nodad");
        net.b.run(&add);
        site.answers("AAAA", &[VOLUNTEER]);
        assert!(curled());
    });
}
