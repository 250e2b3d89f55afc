//! A site's renewed certificate, fetched ahead of the next visit: both proxies as processes, an
//! unmodified `s_server` behind them and curl before them.
//!
//! Is not: the year of many sites, which is simulated (`tandem-engine`).

use std::fs;
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::{real, split_site, tunnel_pair};
use real::{has, wait_until};
use split_site::{Running, free_port};
use tunnel_pair::{Pair, local, start};

/// Runs a program in this folder; what it says.
fn run(folder: &Path, program: &str, arguments: &[&str]) -> String {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(folder);
    let made = command.env("OPENSSL_CONF", "/dev/null").output();
    let made = made.expect("it runs");
    assert!(made.status.success(), "{arguments:?}: {made:?}");
    String::from_utf8_lossy(&made.stdout).trim().to_owned()
}

/// An authority with its files in this folder.
fn authority(folder: &Path) {
    let settings = "[ca]\ndefault_ca=us\n[us]\ndatabase=index\nrand_serial=yes\n\
        new_certs_dir=.\ncertificate=ca.pem\nprivate_key=ca.key\ndefault_md=sha256\n\
        policy=any\nx509_extensions=leaf\nunique_subject=no\n[any]\ncommonName=supplied\n\
        [leaf]\nsubjectAltName=DNS:localhost\n[req]\ndistinguished_name=name\n[name]\n\
        [authority]\nbasicConstraints=critical,CA:TRUE\n";
    fs::write(folder.join("ca.cnf"), settings).expect("ours");
    fs::write(folder.join("index"), "").expect("ours");
    let words = "req -x509 -newkey rsa:2048 -nodes -config ca.cnf -extensions authority \
        -subj /CN=Authority -days 30 -keyout ca.key -out ca.pem";
    run(folder, "openssl", &words.split(' ').collect::<Vec<_>>());
}

/// A certificate of `localhost` that is valid from and to so many hours from now.
fn issue(folder: &Path, name: &str, [since, until]: [i32; 2]) {
    let time = |hours: i32| {
        let date = format!("--date={hours} hours");
        run(folder, "date", &["-u", &date, "+%Y%m%d%H%M%SZ"])
    };
    let [since, until] = [time(since), time(until)];
    let request = format!(
        "req -newkey rsa:2048 -nodes -config ca.cnf -subj /CN=localhost -keyout {name}.key \
         -out {name}.csr"
    );
    let sign = format!(
        "ca -batch -notext -config ca.cnf -startdate {since} -enddate {until} -in {name}.csr \
         -out {name}.pem"
    );
    for words in [request, sign] {
        run(folder, "openssl", &words.split(' ').collect::<Vec<_>>());
    }
}

/// `s_server` with a certificate.
fn serve(folder: &Path, name: &str, port: u16) -> Running {
    let words = format!(
        "s_server -accept {port} -cert {name}.pem -key {name}.key -cert_chain ca.pem -tls1_2 \
         -no_ticket -no_cache -www -quiet"
    );
    let child = Command::new("openssl")
        .args(words.split(' '))
        .current_dir(folder)
        .env("OPENSSL_CONF", "/dev/null")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let server = Running(child.expect("it is installed"));
    wait_until("the server listens", || {
        TcpStream::connect(("127.0.0.1", port)).is_ok()
    });
    server
}

/// A visit; how many bytes of its handshake did not have to cross.
fn visit(pair: &Pair, folder: &Path, port: u16) -> u64 {
    let counted = || {
        let finished = pair.server_side_counts("tunnel_handshakes_finished");
        (finished, pair.server_side_counts("tunnel_elided_bytes"))
    };
    let before = counted();
    let curl = Command::new("curl")
        .args(["-q", "-sS", "--fail", "--http1.1", "--max-time", "30"])
        .args(["--socks5-hostname", &local(pair.socks)])
        .args(["--tls-max", "1.2", "--cacert", "ca.pem", "-o", "/dev/null"])
        .arg(format!("https://localhost:{port}/"))
        .current_dir(folder)
        .output();
    let curl = curl.expect("it runs");
    assert!(curl.status.success(), "{curl:?}");
    wait_until("the handshake is counted", || counted().0 > before.0);
    counted().1 - before.1
}

#[test]
fn a_renewed_certificate_is_there_before_the_next_visit() {
    if !has(&["openssl", "curl", "date"]) {
        return;
    }
    let files = tempfile::tempdir().expect("a place for temporary files");
    let folder = files.path();
    authority(folder);
    issue(folder, "first", [-100, 60]);
    issue(folder, "second", [-1, 159]);
    let (pair, port) = (Pair::new(), free_port());
    let _server_side = start(&mut pair.server_side(port));
    let _client_side = start(pair.client_side().arg("--renew-ahead"));
    let site = serve(folder, "first", port);
    visit(&pair, folder, port);
    drop(site);
    let _site = serve(folder, "second", port);
    wait_until("the next certificate is there", || {
        pair.client_side_shows("tunnel_renewals_learned_total") == 1
    });
    assert_eq!(pair.client_side_counts("renewals_asked"), 1);
    assert_eq!(pair.server_side_counts("renewals_looked_for"), 1);
    let crossed = pair.client_side_counts("renewals_link_bytes");
    assert!((300..1_500).contains(&crossed), "{crossed}");
    let first = visit(&pair, folder, port);
    let again = visit(&pair, folder, port);
    eprintln!("{crossed} bytes ahead; then {first} bytes of a handshake stayed away, and {again}");
    // The chain crossed as a reference; what else a flight is written against is less than a leaf.
    assert!(first + 250 > again, "{first}, {again}");
}
