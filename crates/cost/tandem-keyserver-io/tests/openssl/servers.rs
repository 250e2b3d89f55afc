//! Unmodified servers on OpenSSL, with the provider loaded: `s_server`, nginx, Apache, HAProxy; and
//! their clients.

#![allow(dead_code, reason = "tests and a bench each use their part")]

use std::fs;
use std::net::TcpStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;

use crate::common::{Place, Served, wait_until};

/// The shared object, which cargo builds for these tests.
fn library() -> PathBuf {
    let own = std::env::current_exe().expect("a test knows where it is");
    let library = own.with_file_name("libtandem_openssl_provider.so");
    assert!(library.is_file(), "{} is built", library.display());
    library
}

/// The lines of docs/keyserver.md that begin with this one, up to one that is not indented.
fn documented(first: &str) -> String {
    let text = include_str!("../../../../../docs/keyserver.md");
    let lines = text.lines().filter_map(|line| line.strip_prefix("    "));
    let mut from = text.lines().skip_while(|line| line.trim() != first);
    assert!(lines.clone().any(|line| line == first), "{first}");
    let block = from.by_ref().take_while(|line| line.starts_with("    "));
    block.map(|line| format!("{}\n", &line[4..])).collect()
}

/// Follows docs/keyserver.md: settings of OpenSSL and of the client, and for each kind of key the
/// file that takes the private key's place, `KIND.web`.
pub(crate) fn follow_the_guide(place: &Place, kinds: &[&str], servers: &[&Served], times: &str) {
    let in_place = |text: String| {
        text.replace(
            "/usr/lib/tandem/libtandem_openssl_provider.so",
            &library().to_string_lossy(),
        )
        .replace("/etc/tandem", &place.path("").to_string_lossy())
    };
    place.write("openssl.cnf", &in_place(documented("openssl_conf = start")));
    let mut settings = format!("channel-key = {:?}\n{times}", place.path("web.channel"));
    for server in servers {
        let (address, key) = (server.address, server.key);
        settings += &format!("[[server]]\naddress = \"{address}\"\nkey = \"{key}\"\n");
    }
    place.write("keyclient.toml", &settings);
    let first = "openssl x509 -in /etc/tandem/site.pem -noout -pubkey \\";
    for kind in kinds {
        let line = in_place(documented(first)).replace("site.pem", &format!("{kind}.pem"));
        let line = line.replace("site.key", &format!("{kind}.web"));
        let output = Command::new("sh").args(["-ec", &line]).output();
        let output = output.expect("a shell");
        assert!(output.status.success(), "{line}: {output:?}");
    }
}

/// `openssl` with these words, in the place, with the provider.
pub(crate) fn openssl(place: &Place, words: &str) -> Output {
    Command::new("openssl")
        .args(words.split_whitespace())
        .current_dir(place.path(""))
        .env("OPENSSL_CONF", place.path("openssl.cnf"))
        .stdin(Stdio::null())
        .output()
        .expect("openssl is installed")
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Where the private keys of a web server are.
#[derive(Clone, Copy)]
pub(crate) enum Keys {
    AtKeyServer,
    /// In its files, for comparison.
    Private,
}

/// A server in a process group of its own, without any private key.
pub(crate) struct Server {
    child: Child,
    pub(crate) port: u16,
    log: PathBuf,
    address: String,
}

impl Server {
    fn start(place: &Place, name: &str, port: u16, program: &str, words: &str) -> Self {
        let log = place.path(&format!("{name}.log"));
        let output = fs::File::options()
            .create(true)
            .append(true)
            .open(&log)
            .expect("a log");
        let child = Command::new(program)
            .args(words.split_whitespace())
            .current_dir(place.path(""))
            .env("OPENSSL_CONF", place.path("openssl.cnf"))
            .stdin(Stdio::null())
            .stdout(output.try_clone().expect("a file"))
            .stderr(output)
            .process_group(0)
            .spawn()
            .expect("it is installed");
        let mut server = Self {
            child,
            port,
            log,
            address: format!("localhost:{port}"),
        };
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            let ended = server.child.try_wait().expect("a child");
            assert!(ended.is_none(), "{name}: {}", server.log());
            std::thread::yield_now();
        }
        server
    }

    pub(crate) fn s_server(place: &Place, kind: &str) -> Self {
        let port = tandem_testkit::free_port();
        let words =
            format!("s_server -accept 127.0.0.1:{port} -www -cert {kind}.pem -key {kind}.web");
        Self::start(place, &format!("s_server-{kind}"), port, "openssl", &words)
    }

    /// With a certificate of each kind, and one worker, so that a line of the log is said once.
    pub(crate) fn nginx(place: &Place, kinds: &[&str]) -> Self {
        Self::nginx_with(place, kinds, Keys::AtKeyServer, 1)
    }

    pub(crate) fn nginx_with(place: &Place, kinds: &[&str], keys: Keys, workers: usize) -> Self {
        let port = tandem_testkit::free_port();
        // One place may have several.
        let name = format!("nginx-{port}");
        let key = match keys {
            Keys::AtKeyServer => "web",
            Keys::Private => "key",
        };
        let here = place.path("");
        let here = here.display();
        let mut pairs = String::new();
        for kind in kinds {
            pairs += &format!(
                "ssl_certificate {here}/{kind}.pem; ssl_certificate_key {here}/{kind}.{key};\n"
            );
        }
        let folders: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .iter()
            .map(|kind| format!("{kind}_temp_path {here}/{kind};\n"))
            .collect();
        let settings = format!(
            "daemon off; worker_processes {workers}; pid {here}/{name}.pid; error_log {here}/{name}.log;\n\
             events {{}}\nhttp {{\naccess_log off; {folders}\n\
             server {{ listen 127.0.0.1:{port} ssl; ssl_protocols TLSv1.2 TLSv1.3;\n\
             ssl_ciphers ALL; {pairs} location / {{ return 200 'served\\n'; }} }} }}\n"
        );
        place.write(&format!("{name}.conf"), &settings);
        let words = format!("-p {here} -e {here}/{name}.log -c {here}/{name}.conf");
        Self::start(place, &name, port, &program("nginx"), &words)
    }

    /// Processes that are forked before connections come (`mpm_prefork`).
    pub(crate) fn apache(place: &Place, kind: &str) -> Self {
        let port = tandem_testkit::free_port();
        let here = place.path("");
        let here = here.display();
        let modules: String = ["mpm_prefork", "socache_shmcb", "authz_core", "ssl"]
            .iter()
            .map(|name| {
                format!("LoadModule {name}_module /usr/lib/apache2/modules/mod_{name}.so\n")
            })
            .collect();
        let user = if tandem_testkit::is_root() {
            "User www-data\nGroup www-data\n"
        } else {
            ""
        };
        let settings = format!(
            "ServerRoot {here}\nDefaultRuntimeDir {here}\nPidFile {here}/apache.pid\n\
             ErrorLog {here}/apache.log\nServerName localhost\nListen 127.0.0.1:{port}\n{modules}{user}\
             LogLevel warn ssl:info\nDocumentRoot {here}\nSSLEngine on\n\
             SSLCertificateFile {here}/{kind}.pem\nSSLCertificateKeyFile {here}/{kind}.web\n"
        );
        place.write("apache.conf", &settings);
        let words = format!("-DFOREGROUND -f {here}/apache.conf");
        Self::start(place, "apache", port, &program("apache2"), &words)
    }

    /// The certificate and what stands for its key are one file.
    pub(crate) fn haproxy(place: &Place, kind: &str) -> Self {
        let port = tandem_testkit::free_port();
        let both = place.text(&format!("{kind}.pem")) + &place.text(&format!("{kind}.web"));
        place.write("haproxy.pem", &both);
        let settings = format!(
            "global\n log stdout format raw local0\ndefaults\n mode http\n log global\n\
             timeout client 60s\n timeout server 60s\n timeout connect 60s\nfrontend web\n\
             bind 127.0.0.1:{port} ssl crt {}\n error-log-format %[ssl_fc_err_str]\n\
             http-request return status 200 content-type text/plain string served\n",
            place.path("haproxy.pem").display()
        );
        place.write("haproxy.cfg", &settings);
        Self::start(
            place,
            "haproxy",
            port,
            &program("haproxy"),
            "-f haproxy.cfg",
        )
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Its processes, the first one first.
    pub(crate) fn processes(&self) -> Vec<u32> {
        let own = self.child.id();
        let mut all = vec![own];
        let children = format!("/proc/{own}/task/{own}/children");
        let children = fs::read_to_string(children).expect("it runs");
        all.extend(
            children
                .split_whitespace()
                .filter_map(|it| it.parse::<u32>().ok()),
        );
        all
    }

    /// Ends as its administrator would have it, all workers included.
    pub(crate) fn quit(mut self, signal: Signal) {
        let process = i32::try_from(self.child.id()).expect("a process");
        kill(Pid::from_raw(process), signal).expect("it runs");
        let child = std::cell::RefCell::new(&mut self.child);
        wait_until("the end of the server", || {
            child.borrow_mut().try_wait().expect("a child").is_some()
        });
    }

    /// What `openssl s_client` says of a connection. It has no private key, and no provider.
    pub(crate) fn visit(&self, place: &Place, words: &str) -> String {
        let output = Command::new("openssl")
            .args(["s_client", "-connect", &self.address])
            .args(words.split_whitespace())
            .current_dir(place.path(""))
            .stdin(Stdio::null())
            .output()
            .expect("openssl is installed");
        text(&output.stdout) + &text(&output.stderr)
    }

    /// Whether curl gets an answer over this version of TLS.
    pub(crate) fn serves(&self, place: &Place, kind: &str, version: &str) -> bool {
        let status = Command::new("curl")
            .args([
                "--silent",
                "--show-error",
                "--output",
                "/dev/null",
                "--cacert",
            ])
            .arg(place.path(&format!("{kind}.pem")))
            .args([&format!("--tlsv{version}"), "--tls-max", version])
            .arg(format!("https://{}/", self.address))
            .status();
        status.expect("curl is installed").success()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Ok(group) = i32::try_from(self.child.id()) {
            let _ = killpg(Pid::from_raw(group), Signal::SIGKILL);
        }
        let _ = self.child.wait();
    }
}

/// Where Debian has programs that administrators start.
fn program(name: &str) -> String {
    let path = Path::new("/usr/sbin").join(name);
    if path.is_file() {
        path.to_string_lossy().into_owned()
    } else {
        name.to_owned()
    }
}
