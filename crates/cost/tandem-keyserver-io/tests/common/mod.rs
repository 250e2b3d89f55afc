//! What these tests share: certificates, key servers in processes of their own, a web server
//! without a private key, and its clients.

#![allow(dead_code, reason = "each test file uses its part")]

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use rustls::client::Resumption;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::sign::SingleCertAndKey;
use rustls::{
    ClientConfig, ClientConnection, HandshakeKind, RootCertStore, ServerConfig, ServerConnection,
    StreamOwned, SupportedProtocolVersion,
};
use tandem_channel::{ChannelKey, KeyName, crypto};
use tandem_keyclient::{Client, KeyServer, Options};
use tempfile::TempDir;

/// A test ends with a message, not with the patience of whoever runs it.
pub(crate) const LONG: Duration = Duration::from_secs(60);

const PROGRAM: &str = env!("CARGO_BIN_EXE_tandem-keyserver");

/// The program, when no file may have more than this many blocks of 512 bytes, as if the disk were
/// full.
pub(crate) fn short_of_room(blocks: u32) -> Command {
    let mut program = Command::new("sh");
    let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" \"$@\"");
    program.args(["-c", &script, PROGRAM]);
    program
}

/// A folder with certificates that sign for themselves, `NAME.pem` and `NAME.key`, for localhost.
pub(crate) struct Place {
    folder: TempDir,
}

impl Place {
    /// With a certificate of each of these kinds: `rsa`, `p256`, `p384`, `p521`, `ed25519`.
    pub(crate) fn new(kinds: &[&str]) -> Self {
        let place = Self {
            folder: tempfile::tempdir().expect("a folder for the test"),
        };
        for kind in kinds {
            let key = match *kind {
                "rsa" => "rsa:2048",
                "p256" => "ec -pkeyopt ec_paramgen_curve:prime256v1",
                "p384" => "ec -pkeyopt ec_paramgen_curve:secp384r1",
                "p521" => "ec -pkeyopt ec_paramgen_curve:secp521r1",
                other => other,
            };
            let arguments = format!(
                "req -x509 -newkey {key} -nodes -keyout {kind}.key -out {kind}.pem -days 30 \
                 -subj /CN={kind} -addext subjectAltName=DNS:localhost \
                 -addext basicConstraints=critical,CA:FALSE"
            );
            let output = Command::new("openssl")
                .args(arguments.split_whitespace())
                .current_dir(place.folder.path())
                .output()
                .expect("openssl is installed");
            assert!(output.status.success(), "{arguments}: {output:?}");
        }
        place
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).expect("a file of the test");
    }

    pub(crate) fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).expect("a file of the test")
    }

    /// The channel key of this name.
    pub(crate) fn channel_key(&self, name: &str) -> ChannelKey {
        ChannelKey::kept_in(&self.path(&format!("{name}.channel"))).expect("a channel key")
    }

    /// The certificate of this name.
    pub(crate) fn chain(&self, name: &str) -> Vec<CertificateDer<'static>> {
        let path = self.path(&format!("{name}.pem"));
        vec![CertificateDer::from_pem_file(path).expect("a certificate")]
    }

    /// Settings with these private keys and what is in `rest`.
    pub(crate) fn settings(&self, file: &str, keys: &[&str], rest: &str) {
        let mut text = format!(
            "channel-key = {:?}\naudit = {:?}\n",
            self.path(&format!("{file}.channel")),
            self.path(&format!("{file}.audit"))
        );
        for key in keys {
            let path = self.path(&format!("{key}.key"));
            text += &format!("[[key]]\nname = \"{key}\"\nfile = {path:?}\n");
        }
        self.write(&format!("{file}.toml"), &format!("{text}{rest}"));
    }

    /// A client's table of the settings.
    pub(crate) fn peer(&self, name: &str, rate: u32) -> String {
        let key = self.channel_key(name).name();
        format!("[[peer]]\nname = \"{name}\"\nkey = \"{key}\"\nrate = {rate}\n")
    }
}

/// A rule of the settings, for both versions.
pub(crate) fn allow(peer: &str, key: &str) -> String {
    format!("[[allow]]\npeer = \"{peer}\"\nkey = \"{key}\"\ntls = [\"1.2\", \"1.3\"]\n")
}

/// A key server in a process of its own.
pub(crate) struct Served {
    child: Child,
    pub(crate) address: SocketAddr,
    pub(crate) key: KeyName,
}

impl Served {
    /// With the settings of this name, at a free port.
    pub(crate) fn start(place: &Place, settings: &str) -> Self {
        Self::start_at(place, settings, "127.0.0.1:0", &[])
    }

    pub(crate) fn start_at(place: &Place, settings: &str, at: &str, more: &[&str]) -> Self {
        let mut program = Command::new(PROGRAM);
        program
            .args(["--listen", at, "--config"])
            .arg(place.path(&format!("{settings}.toml")))
            .args(more);
        Self::started(program)
    }

    fn started(mut program: Command) -> Self {
        let mut child = program
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program is built");
        let output = child.stdout.take().expect("a pipe");
        let mut line = String::new();
        let read = BufReader::new(output).read_line(&mut line);
        read.expect("a pipe can be read");
        let words: Vec<&str> = line.split_whitespace().collect();
        let ["ready", address, key] = words[..] else {
            let _ = child.kill();
            panic!("{line:?} from a key server that does not start");
        };
        Self {
            address: address.parse().expect("an address"),
            key: key.parse().expect("a key"),
            child,
        }
    }

    /// The same, when its files may have only this many blocks.
    pub(crate) fn start_short_of_room(place: &Place, settings: &str, blocks: u32) -> Self {
        let mut program = short_of_room(blocks);
        program
            .args(["--listen", "127.0.0.1:0", "--log", "off", "--config"])
            .arg(place.path(&format!("{settings}.toml")));
        Self::started(program)
    }

    /// Stops it, and waits until each of its threads stands still: some may still answer when the
    /// signal has been sent.
    pub(crate) fn stop(&self) {
        self.signal(Signal::SIGSTOP);
        let stopped = waitpid(self.process(), Some(WaitPidFlag::WUNTRACED));
        let expected = WaitStatus::Stopped(self.process(), Signal::SIGSTOP);
        assert_eq!(stopped, Ok(expected));
    }

    /// Sends it this signal.
    pub(crate) fn signal(&self, signal: Signal) {
        kill(self.process(), signal).expect("it runs");
    }

    fn process(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.child.id()).expect("a process"))
    }

    /// Ends it as a crash would.
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it ends");
    }

    pub(crate) fn as_server(&self) -> KeyServer {
        KeyServer {
            address: self.address.to_string(),
            key: self.key,
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A client of these key servers that waits as long as a busy machine needs.
pub(crate) fn patient(place: &Place, name: &str, servers: &[&Served]) -> Client {
    Client::new(patient_options(place, name, servers))
}

pub(crate) fn patient_options(place: &Place, name: &str, servers: &[&Served]) -> Options {
    let servers = servers.iter().map(|server| server.as_server()).collect();
    Options {
        deadline: LONG,
        patience: LONG,
        ..Options::new(place.channel_key(name), servers)
    }
}

/// Repeats until it is so.
pub(crate) fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let begun = std::time::Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < LONG, "{what} did not come");
        thread::sleep(Duration::from_millis(20));
    }
}

/// A web server without a private key; it answers each connection with one line.
pub(crate) struct Web {
    pub(crate) address: SocketAddr,
}

impl Web {
    /// With this certificate of the place.
    pub(crate) fn start(place: &Place, certificate: &str, client: &Client) -> Self {
        let certified = client.certified_key(place.chain(certificate));
        let certified = certified.expect("a certificate of a known kind");
        let config = ServerConfig::builder_with_provider(Arc::new(crypto::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(SingleCertAndKey::from(certified)));
        let config = Arc::new(config);
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("bound");
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let config = Arc::clone(&config);
                thread::spawn(move || {
                    let connection = ServerConnection::new(config).expect("settings");
                    let mut stream = StreamOwned::new(connection, stream);
                    let _ = stream.sock.set_read_timeout(Some(LONG));
                    // A handshake that fails ends this connection.
                    if stream.write_all(b"served\n").is_ok() {
                        stream.conn.send_close_notify();
                        let _ = stream.flush();
                        let _ = stream.sock.shutdown(std::net::Shutdown::Write);
                        let _ = stream.sock.read(&mut [0; 64]);
                    }
                });
            }
        });
        Self { address }
    }
}

/// A browser: what it trusts, and the sessions that it has.
pub(crate) struct Browser {
    config: Arc<ClientConfig>,
}

impl Browser {
    pub(crate) fn new(
        place: &Place,
        certificate: &str,
        version: &'static SupportedProtocolVersion,
    ) -> Self {
        let mut roots = RootCertStore::empty();
        for certificate in place.chain(certificate) {
            roots.add(certificate).expect("a certificate");
        }
        let mut config = ClientConfig::builder_with_provider(Arc::new(crypto::default_provider()))
            .with_protocol_versions(&[version])
            .expect("a version")
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.resumption = Resumption::in_memory_sessions(4);
        Self {
            config: Arc::new(config),
        }
    }

    /// Visits; how the handshake went, if it did.
    pub(crate) fn visit(&self, web: &Web) -> Option<HandshakeKind> {
        let name = ServerName::try_from("localhost").expect("a name");
        let connection = ClientConnection::new(Arc::clone(&self.config), name).expect("settings");
        let socket = TcpStream::connect(web.address).ok()?;
        socket.set_read_timeout(Some(LONG)).ok()?;
        let mut stream = StreamOwned::new(connection, socket);
        let mut said = String::new();
        stream.read_to_string(&mut said).ok()?;
        (said == "served\n").then(|| stream.conn.handshake_kind())?
    }
}

/// What a server signs in TLS 1.3.
pub(crate) fn message() -> Vec<u8> {
    [
        &[b' '; 64][..],
        b"TLS 1.3, server CertificateVerify\0",
        &[7; 32],
    ]
    .concat()
}
