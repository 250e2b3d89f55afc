//! Client sides with keys of their own at one server side, by the commands that an operator types;
//! and, in a program with the feature, a shared store.

use std::fs;

use crate::support::{common, real, tunnel_pair};
use common::{run, tandem};
use nix::sys::signal::Signal;
use real::{has, wait_until};
use tunnel_pair::{Pair, Site, start};

/// A key's names, as `tandem keygen --names` prints them: a client side's, a server side's.
fn names(pair: &Pair, key: &str) -> [String; 2] {
    let path = pair.path(key);
    let path = path.to_str().expect("temporary paths are UTF-8");
    let ran = run(&mut tandem(&["keygen", "--names", path]));
    let printed = ran.succeeded().to_owned();
    let name = |line: &str| {
        let found = printed.lines().find_map(|it| it.strip_prefix(line));
        found.expect("both are printed").trim().to_owned()
    };
    [name("client-side"), name("server-side")]
}

#[test]
fn a_client_side_with_a_key_of_its_own_is_served_until_its_line_is_gone() {
    if !has(&["nginx", "curl", "openssl"]) {
        return;
    }
    let (site, pair) = (Site::new(), Pair::new());
    site.publish("page", b"page");
    let ([client, _], [_, server]) = (names(&pair, "key-1"), names(&pair, "key-0"));
    let list = pair.path("clients");
    fs::write(&list, format!("{client} # the ship\n")).expect("ours");
    let server_side = || {
        let mut command = pair.server_side(site.port);
        command.arg("--clients").arg(&list);
        start(&mut command)
    };
    let client_side = || {
        let mut command = pair.client_side_with_key("key-1");
        command.args(["--server-key", &server]);
        start(&mut command)
    };
    let running = [server_side(), client_side()];
    pair.by_socks().gets(site.port, "page", b"page");
    // On a busy machine one over TCP may come up, too.
    assert!(pair.server_side_counts("tunnels_up") > 0);
    let ended = running.map(|proxy| proxy.end(Signal::SIGTERM));
    assert_eq!(ended, [Some(0); 2]);

    fs::write(&list, "# nobody\n").expect("ours");
    let _running = [server_side(), client_side()];
    let curl = pair.by_socks().more(&["--max-time", "5"]);
    assert!(!curl.fetch(site.port, "page").status.success());
    wait_until("it is refused", || {
        pair.server_side_counts("tunnels_failed") > 0
    });
    assert_eq!(pair.server_side_counts("tunnels_up"), 0);
}

#[cfg(feature = "shared-store")]
#[test]
fn a_server_side_whose_shared_store_is_not_there_serves_and_says_so() {
    if !has(&["nginx", "curl", "openssl"]) {
        return;
    }
    let (site, pair) = (Site::new(), Pair::new());
    site.publish("page", b"page");
    let mut command = pair.server_side(site.port);
    let address = format!("unix:{}", pair.path("no-server").display());
    command.args(["--shared-store", &address]);
    let server_side = start(&mut command);
    let _client_side = pair.start_client_side();
    pair.by_socks().gets(site.port, "page", b"page");
    server_side.wait_for_log("shared store: unix:");
    wait_until("the status says so", || {
        let status = tunnel_pair::shown(pair.server_side_admin(), "/status");
        status.contains("shared_store") && status.contains("down: ")
    });
    assert_eq!(server_side.end(Signal::SIGTERM), Some(0));
}

#[cfg(feature = "shared-store")]
#[test]
fn doctor_says_why_the_shared_store_cannot_be_used_and_what_to_do() {
    let pair = Pair::new();
    let mut command = tandem(&["doctor", "server-side", "--mode", "tunnel"]);
    let address = format!("unix:{}", pair.path("no-server").display());
    command
        .args(["--listen", "127.0.0.1:4433", "--admin", "none"])
        .args(["--shared-store", &address])
        .arg("--key")
        .arg(pair.path("key-0"))
        .arg("--store")
        .arg(pair.path("store-b"));
    let ran = run(&mut command);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let mut lines = ran.stdout.lines();
    let found = lines.find(|line| line.contains("shared-store"));
    let found = found.unwrap_or_else(|| panic!("{}", ran.stdout));
    assert!(found.contains("problem") && found.contains("cannot be reached: No such file"));
    let to_do = lines.next().unwrap_or_default();
    assert!(to_do.contains("-> is Valkey or Redis running"), "{to_do}");
}
