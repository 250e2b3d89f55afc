//! Volunteers that meet a new file at once, behind an origin on a slow line: the file crosses the
//! line once. Real programs, and the emulator's count of the line's bytes.
//!
//! Is not: what this saves (`tandem lab split`), nor what a volunteer that lies can cost
//! (`tandem-split-io/tests/site/sharing.rs`).

#[path = "../../tandem-lab/tests/common/mod.rs"]
mod common;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::io;
use tandem_channel::ChannelKey;
use tandem_testbed::emulator::Emulator;
use tandem_testbed::endpoints::Endpoints;
use tandem_testbed::nginx;
use tandem_testbed::pki;
use tandem_testbed::server::Server;
use tandem_testbed::topology::{Host, Topology};
use tandem_testbed::{LabError, LinkSpec};

const AT_ORIGIN: &str = "10.77.3.2";
const AT_VOLUNTEERS: &str = "10.77.1.1";
const HTTP: u16 = 8080;
const ORIGIN: u16 = 7443;
/// The first volunteer's port for clients; each one more takes the next but one, and the port
/// above for other volunteers.
const VOLUNTEERS: u16 = 9001;

/// What the line's other direction carries, and its delay, are an ADSL line's.
fn slow() -> LinkSpec {
    LinkSpec {
        name: "adsl-160".to_owned(),
        up: Some(1_500_000),
        down: Some(160_000),
        delay_ms: Some(15.0),
        ..LinkSpec::default()
    }
}

/// What the line has carried, and for how long.
struct Met {
    bytes: u64,
    took: Duration,
}

/// So many volunteers, with a client each, meet a new file of `len` bytes at once.
fn met_at_once(exe: &Path, volunteers: u16, len: usize) -> Result<Met, LabError> {
    let (topology, ends) = Topology::build(1500)?;
    let emulator = Emulator::start(ends, slow().config()?, 1, None)?;
    let directory = topology.directory();
    let chain = pki::issue(&directory, "chain", &Endpoints::one().chain_spec())?;
    let root = directory.join("www");
    fs::create_dir_all(&root).map_err(io)?;
    let mut state = 1_u64;
    let file: Vec<u8> = (0..len)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005) + 1;
            state.to_be_bytes()[0]
        })
        .collect();
    fs::write(root.join("file"), &file).map_err(io)?;
    let at_server = topology.host(Host::Server);
    let nginx_files = directory.join("nginx");
    fs::create_dir_all(&nginx_files).map_err(io)?;
    let http = format!("server {{ listen {HTTP}; root {}; }}", root.display());
    let mut command = nginx::command(&nginx_files, &http)?;
    let log = directory.join("nginx.log");
    let _server = Server::launch(at_server, &mut command, HTTP, &log)?;
    let mut command = Command::new(exe);
    command
        .args(["split", "origin", "--log", "warn", "--listen"])
        .arg(format!("{AT_ORIGIN}:{ORIGIN}"))
        .args(["--upstream", &format!("http://127.0.0.1:{HTTP}"), "--cert"])
        .arg(&chain.full)
        .arg("--key")
        .arg(&chain.key);
    let log = directory.join("origin.log");
    let _origin = Server::launch(at_server, &mut command, ORIGIN, &log)?;

    let ports: Vec<u16> = (0..volunteers)
        .map(|number| VOLUNTEERS + 2 * number)
        .collect();
    let folder = |port: u16| directory.join(format!("volunteer-{port}"));
    let mut peers = Vec::new();
    for &port in &ports {
        fs::create_dir_all(folder(port)).map_err(io)?;
        let key = ChannelKey::kept_in(&folder(port).join("key"))
            .map_err(|error| io(std::io::Error::other(error)))?;
        peers.push(format!("{}@{AT_VOLUNTEERS}:{}", key.name(), port + 1));
    }
    let mut running = Vec::new();
    for &port in &ports {
        let mut command = Command::new(exe);
        command
            .args(["split", "volunteer", "--log", "info", "--origin"])
            .arg(format!("{AT_ORIGIN}:{ORIGIN}"))
            .args(["--listen", &format!("{AT_VOLUNTEERS}:{port}")])
            .args(["--peer-listen", &format!("{AT_VOLUNTEERS}:{}", port + 1)])
            .args(["--peers", &peers.join(","), "--cache"])
            .arg(folder(port));
        let host = topology.host(Host::ClientSide);
        let log = folder(port).join("log");
        running.push(Server::launch(host, &mut command, port, &log)?);
    }

    emulator.settle(Duration::from_millis(200), Duration::from_secs(60))?;
    let before = emulator.counters().down.ip_bytes;
    let begun = Instant::now();
    let mut clients = Vec::new();
    for &port in &ports {
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--show-error", "--fail", "--noproxy", "*"])
            .args(["--max-time", "600", "--cacert"])
            .arg(&chain.root)
            .args([
                "--resolve",
                &format!("{}:{port}:{AT_VOLUNTEERS}", chain.name),
            ])
            .arg(format!("https://{}:{port}/file", chain.name))
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        clients.push(topology.host(Host::Client).spawn(&mut curl)?);
    }
    // What they read waits in their pipes otherwise.
    let got: Vec<_> = std::thread::scope(|scope| {
        let readers: Vec<_> = clients
            .into_iter()
            .map(|client| scope.spawn(move || client.wait_with_output()))
            .collect();
        readers
            .into_iter()
            .map(|reader| reader.join().expect("it does not panic"))
            .collect()
    });
    let took = begun.elapsed();
    for output in got {
        let output = output.map_err(io)?;
        assert!(output.status.success(), "{output:?}");
        assert!(output.stdout == file, "{} bytes", output.stdout.len());
    }
    emulator.settle(Duration::from_millis(200), Duration::from_secs(60))?;
    let bytes = emulator.counters().down.ip_bytes - before;
    Ok(Met { bytes, took })
}

#[test]
fn a_new_file_that_all_meet_at_once_crosses_a_slow_line_once() -> Result<(), LabError> {
    const NAME: &str = "a_new_file_that_all_meet_at_once_crosses_a_slow_line_once";
    const VOLUNTEERS: u16 = 5;
    const LEN: usize = 300_000;
    let Some(exe) = common::tandem(NAME) else {
        return Ok(());
    };
    let met = met_at_once(&exe, VOLUNTEERS, LEN)?;
    let bytes = met.bytes as f64;
    println!("{bytes} bytes in {:?}", met.took);
    // TCP, TLS and the channels' messages take 6 %; then there are the proofs of five clients, and
    // the handshakes.
    let most = LEN as f64 * 1.1 + f64::from(VOLUNTEERS) * 12_000.0;
    assert!(
        bytes < most,
        "{bytes} bytes of at most {most}, in {:?}",
        met.took
    );
    Ok(())
}
