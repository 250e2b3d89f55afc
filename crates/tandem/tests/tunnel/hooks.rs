//! Hooks of a link, as an operator's scripts run them: signals to both proxies as processes, with
//! an unmodified curl.
//!
//! Is not: what the keeper of the tunnel does of it (`tandem-tunnel-io`), nor any real link.

use crate::support::{real, tunnel_pair};
use nix::sys::signal::Signal;
use real::{bytes, has, wait_until};
use tunnel_pair::{CURL_TIMED_OUT, Pair, Site, shown, shown_in, start};

/// Whether the client side takes the link for one that is down.
fn is_down(pair: &Pair) -> bool {
    shown_in(&shown(pair.client_side_admin(), "/metrics"), "link_down") == 1
}

#[test]
fn nobody_waits_while_a_hook_says_that_the_link_is_down() {
    if !has(&["nginx", "curl", "openssl"]) {
        return;
    }
    let (site, pair) = (Site::new(), Pair::new());
    let page = bytes(1_000);
    site.publish("page", &page);
    let server_side = start(&mut pair.server_side(site.port));
    let client_side = start(&mut pair.client_side());
    pair.by_socks().gets(site.port, "page", &page);
    assert!(!is_down(&pair));

    client_side.signal(Signal::SIGUSR2);
    wait_until("the hook is heard", || is_down(&pair));
    let code = pair.by_socks().fetch(site.port, "page").status.code();
    assert!(code != Some(0) && code != Some(CURL_TIMED_OUT), "{code:?}");

    client_side.signal(Signal::SIGUSR1);
    wait_until("the hook is heard", || !is_down(&pair));
    pair.by_socks().gets(site.port, "page", &page);

    // One that reaches a daemon without a link to hear of does it no harm.
    server_side.signal(Signal::SIGUSR1);
    server_side.signal(Signal::SIGUSR2);
    pair.by_socks().gets(site.port, "page", &page);
    assert_eq!(client_side.end(Signal::SIGTERM), Some(0));
    assert_eq!(server_side.end(Signal::SIGTERM), Some(0));
}
