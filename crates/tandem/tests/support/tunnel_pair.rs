//! Both proxies in tunnel mode as processes, a web server behind them and curl before them, all on
//! the loopback interface: no root.
//!
//! Is not: a test, nor the way in by `--link`, which needs namespaces (`../tunnel/link.rs`).
//!
//! Invariant: everything that is started here ends with the value that stands for it, on a panic
//! too.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::common::tandem;
use super::real::{KeyType, PATIENCE, Pki, SITE, TlsVersion, wait_until};
use super::split_site::{Running, free_port};

/// A key for tests, and another one.
pub(crate) const KEYS: [&str; 2] = [
    "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff",
    "ffeeddccbbaa99887766554433221100ffeeddccbbaa99887766554433221100",
];

/// Exit code of curl for a run that took too long.
pub(crate) const CURL_TIMED_OUT: i32 = 28;

/// A proxy that said that it is ready.
#[derive(Debug)]
pub(crate) struct Proxy {
    child: Child,
    log: Arc<Mutex<String>>,
    reader: Option<JoinHandle<()>>,
}

impl Proxy {
    /// Starts it as `spawn` does, and waits until it is ready.
    #[track_caller]
    pub(crate) fn start(command: &mut Command, spawn: impl FnOnce(&mut Command) -> Child) -> Self {
        let piped = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = spawn(piped);
        let output = child.stdout.take().expect("it is piped");
        let errors = child.stderr.take().expect("it is piped");
        let log = Arc::new(Mutex::new(String::new()));
        let reader = std::thread::spawn({
            let log = Arc::clone(&log);
            move || {
                for line in BufReader::new(errors).lines().map_while(Result::ok) {
                    let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
                    log.push_str(&line);
                    log.push('\n');
                }
            }
        });
        let proxy = Self {
            child,
            log,
            reader: Some(reader),
        };
        let (tell, told) = mpsc::channel();
        std::thread::spawn(move || {
            let mut lines = BufReader::new(output).lines().map_while(Result::ok);
            let _ = tell.send(lines.next());
            // Read on, so that the pipe stays open for as long as the proxy has it.
            lines.for_each(drop);
        });
        let first = told.recv_timeout(PATIENCE).ok().flatten();
        assert_eq!(first.as_deref(), Some("ready"), "{}", proxy.log());
        proxy
    }

    /// What it has written to standard error so far.
    pub(crate) fn log(&self) -> String {
        let log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        log.clone()
    }

    /// Waits until its log has these words: lines come a moment after what they tell of.
    #[track_caller]
    pub(crate) fn wait_for_log(&self, words: &str) {
        wait_until(words, || self.log().contains(words));
    }

    /// The lines of its log that are warnings.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let log = self.log();
        let lines = log.lines().filter(|line| line.contains(" WARN "));
        lines.map(str::to_owned).collect()
    }

    /// The capabilities that each of its threads has (`CapPrm`, proc_pid_status(5)).
    pub(crate) fn capabilities(&self) -> Vec<u64> {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.child.id())).expect("it runs");
        let permitted = tasks.filter_map(|task| {
            // One that has just ended has none.
            let status = fs::read_to_string(task.ok()?.path().join("status")).ok()?;
            let set = status.lines().find_map(|line| line.strip_prefix("CapPrm:"));
            let set = set.expect("it is there").trim();
            Some(u64::from_str_radix(set, 16).expect("hexadecimal"))
        });
        permitted.collect()
    }

    /// Its process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).expect("process numbers are small");
        kill(Pid::from_raw(pid), signal).expect("it runs");
    }

    /// Sends a signal and waits for the end; the exit code, none if the signal ended it.
    pub(crate) fn end(mut self, signal: Signal) -> Option<i32> {
        self.signal(signal);
        self.wait()
    }

    /// Sends a signal, which it follows; all of its log.
    #[track_caller]
    pub(crate) fn end_with_log(mut self, signal: Signal) -> String {
        self.signal(signal);
        assert_eq!(self.wait(), Some(0));
        self.log()
    }

    /// Waits for the end that somebody else has asked for; the exit code.
    pub(crate) fn end_by_itself(mut self) -> Option<i32> {
        self.wait()
    }

    fn wait(&mut self) -> Option<i32> {
        let mut code = None;
        wait_until("the proxy ends", || {
            let ended = self.child.try_wait().expect("it is ours");
            code = ended.and_then(|status| status.code());
            ended.is_some()
        });
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
        code
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- process {}:\n{}", self.child.id(), self.log());
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// nginx on the loopback interface, with a chain of three certificates.
pub(crate) struct Site {
    folder: tempfile::TempDir,
    pub(crate) port: u16,
    _nginx: Running,
}

impl Site {
    pub(crate) fn new() -> Self {
        Self::with(&mut Command::new("nginx"))
    }

    /// With nginx started by this.
    pub(crate) fn with(nginx: &mut Command) -> Self {
        Self::with_settings(nginx, "")
    }

    /// The same with these settings of its server.
    pub(crate) fn with_settings(nginx: &mut Command, settings: &str) -> Self {
        let folder = tempfile::tempdir().expect("a place for temporary files");
        let path = folder.path();
        for name in ["temp", "www"] {
            fs::create_dir(path.join(name)).expect("ours");
        }
        let (port, pki) = (free_port(), Pki::shared());
        let text = format!(
            "daemon off; master_process off; user root; pid {0}/pid; error_log stderr crit;\n\
             events {{ worker_connections 2048; }}\n\
             http {{ access_log off; root {0}/www; default_type text/plain;\n\
             client_body_temp_path {0}/temp; proxy_temp_path {0}/temp; fastcgi_temp_path {0}/temp;\n\
             uwsgi_temp_path {0}/temp; scgi_temp_path {0}/temp;\n\
             server {{ listen 127.0.0.1:{port} ssl backlog=1024; ssl_protocols TLSv1.2 TLSv1.3;\n\
             ssl_session_cache none; ssl_session_tickets off; {settings}\n\
             ssl_certificate {1}; ssl_certificate_key {2}; }} }}\n",
            path.display(),
            pki.chain(KeyType::Rsa).display(),
            pki.key(KeyType::Rsa).display(),
        );
        let file = path.join("nginx.conf");
        fs::write(&file, text).expect("ours");
        let nginx = nginx
            .arg("-c")
            .arg(&file)
            .args(["-e", "stderr", "-p"])
            .arg(path)
            .env("OPENSSL_CONF", "/dev/null")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .expect("nginx is installed");
        let nginx = Running(nginx);
        wait_until("nginx listens", || {
            TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        Self {
            folder,
            port,
            _nginx: nginx,
        }
    }

    pub(crate) fn publish(&self, name: &str, contents: &[u8]) {
        fs::write(self.folder.path().join("www").join(name), contents).expect("ours");
    }
}

/// Where a pair of proxies has its files and ports.
pub(crate) struct Pair {
    folder: tempfile::TempDir,
    /// UDP port of the server side.
    pub(crate) listen: u16,
    pub(crate) socks: u16,
    pub(crate) http_proxy: u16,
    admins: [u16; 2],
}

pub(crate) fn local(port: u16) -> String {
    format!("127.0.0.1:{port}")
}

impl Pair {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a place for temporary files");
        for (number, key) in KEYS.into_iter().enumerate() {
            write_private(&folder.path().join(format!("key-{number}")), key);
        }
        Self {
            folder,
            listen: free_port(),
            socks: free_port(),
            http_proxy: free_port(),
            admins: [free_port(), free_port()],
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// `tandem server-side` for this pair, in the mode that it chooses by itself, which may reach
    /// this port of the loopback network.
    pub(crate) fn server_side(&self, allowed: u16) -> Command {
        let mut command = tandem(&["server-side"]);
        command
            .args(["--listen", &local(self.listen)])
            .args(["--allow", &format!("127.0.0.0/8:{allowed}")])
            .args(["--admin", &local(self.admins[1])])
            .arg("--key")
            .arg(self.path("key-0"))
            .arg("--store")
            .arg(self.path("store-b"))
            // A resolver that does not answer is given up soon.
            .env("RES_OPTIONS", "timeout:1 attempts:1");
        command
    }

    /// `tandem client-side` for this pair, with both ways in that need no root.
    pub(crate) fn client_side(&self) -> Command {
        self.client_side_with_key("key-0")
    }

    pub(crate) fn client_side_with_key(&self, key: &str) -> Command {
        let mut command = tandem(&["client-side"]);
        command
            .args(["--peer", &local(self.listen)])
            .args(["--socks", &local(self.socks)])
            .args(["--http-proxy", &local(self.http_proxy)])
            .args(["--admin", &local(self.admins[0])])
            .arg("--key")
            .arg(self.path(key))
            .arg("--store")
            .arg(self.path("store-a"));
        command
    }

    /// Starts the server side.
    #[track_caller]
    pub(crate) fn start_server_side(&self, site: &Site) -> Proxy {
        start(&mut self.server_side(site.port))
    }

    /// Starts the client side.
    #[track_caller]
    pub(crate) fn start_client_side(&self) -> Proxy {
        start(&mut self.client_side())
    }

    /// A counter of the client side, as `/metrics` shows it, without `tandem_` and `_total`.
    #[track_caller]
    pub(crate) fn client_side_counts(&self, name: &str) -> u64 {
        counted(&shown(self.admins[0], "/metrics"), name)
    }

    /// A gauge of the client side, without `tandem_`; 0 if it is not there yet.
    pub(crate) fn client_side_shows(&self, name: &str) -> u64 {
        shown_in(&shown(self.admins[0], "/metrics"), name)
    }

    /// A counter of the server side.
    #[track_caller]
    pub(crate) fn server_side_counts(&self, name: &str) -> u64 {
        counted(&shown(self.admins[1], "/metrics"), name)
    }

    /// Admin port of the server side.
    pub(crate) fn server_side_admin(&self) -> u16 {
        self.admins[1]
    }

    /// Admin port of the client side.
    pub(crate) fn client_side_admin(&self) -> u16 {
        self.admins[0]
    }

    /// `tandem status` of the client side.
    pub(crate) fn client_side_status(&self) -> Command {
        tandem(&["status", "--admin", &local(self.admins[0])])
    }

    /// curl, told to use SOCKS5 and to resolve names itself.
    pub(crate) fn by_socks(&self) -> Curl {
        Curl::new(&["--socks5", &local(self.socks)])
    }

    /// curl, told to use SOCKS5 and to leave names to the proxy.
    pub(crate) fn by_socks_name(&self) -> Curl {
        Curl::new(&["--socks5-hostname", &local(self.socks)]).to("localhost")
    }

    /// curl, told to use an HTTP proxy.
    pub(crate) fn by_http_proxy(&self) -> Curl {
        Curl::new(&["--proxy", &format!("http://{}", local(self.http_proxy))])
    }
}

/// Starts a proxy of this network namespace.
#[track_caller]
pub(crate) fn start(command: &mut Command) -> Proxy {
    Proxy::start(command, |command| command.spawn().expect("it was built"))
}

/// Writes a file that only its owner can read.
pub(crate) fn write_private(path: &Path, text: &str) {
    use std::os::unix::fs::OpenOptionsExt as _;
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let file = options.open(path);
    file.and_then(|mut file| file.write_all(text.as_bytes()))
        .expect("a writable folder");
}

/// What an admin port shows under a path.
pub(crate) fn shown(admin: u16, path: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", admin)).expect("it listens");
    write!(stream, "GET {path} HTTP/1.0\r\n\r\n").expect("it reads");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("it answers");
    text
}

/// A counter in the text of `/metrics`.
#[track_caller]
pub(crate) fn counted(metrics: &str, name: &str) -> u64 {
    let full = format!("tandem_{name}_total ");
    let value = metrics.lines().find_map(|line| line.strip_prefix(&full));
    let value = value.unwrap_or_else(|| panic!("{name} is not in {metrics}"));
    value.parse().expect("a number")
}

/// A gauge in the text of `/metrics`; 0 if it is not there yet.
pub(crate) fn shown_in(metrics: &str, name: &str) -> u64 {
    let full = format!("tandem_{name} ");
    let value = metrics.lines().find_map(|line| line.strip_prefix(&full));
    value.map_or(0, |value| value.parse().expect("a number"))
}

/// A run of curl that is to come.
#[derive(Debug, Clone)]
pub(crate) struct Curl {
    words: Vec<String>,
    host: String,
    version: TlsVersion,
}

impl Curl {
    fn new(words: &[&str]) -> Self {
        Self {
            words: words.iter().map(|word| (*word).to_owned()).collect(),
            host: "127.0.0.1".to_owned(),
            version: TlsVersion::Tls12,
        }
    }

    /// curl, told of no proxy.
    pub(crate) fn direct() -> Self {
        Self::new(&[])
    }

    pub(crate) fn version(self, version: TlsVersion) -> Self {
        Self { version, ..self }
    }

    /// Connects to this host, whatever the site's name is.
    pub(crate) fn to(self, host: &str) -> Self {
        Self {
            host: host.to_owned(),
            ..self
        }
    }

    pub(crate) fn more(mut self, words: &[&str]) -> Self {
        self.words
            .extend(words.iter().map(|word| (*word).to_owned()));
        self
    }

    /// curl for a path of the site on this port.
    pub(crate) fn command(&self, port: u16, path: &str) -> Command {
        let version = self.version.number();
        let mut command = Command::new("curl");
        command
            .args(["-q", "-sS", "--fail", "--noproxy", "", "--http1.1"])
            .args(["--max-time", "30", "--cacert"])
            .arg(Pki::shared().root())
            .args([&format!("--tlsv{version}"), "--tls-max", version])
            .args(["--connect-to", &format!("::{}:{port}", self.host)])
            .args(&self.words)
            .arg(format!("https://{SITE}:{port}/{path}"))
            .env("OPENSSL_CONF", "/dev/null")
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn fetch(&self, port: u16, path: &str) -> Output {
        self.command(port, path).output().expect("curl runs")
    }

    /// Fetches a path and asserts that exactly these bytes came.
    #[track_caller]
    pub(crate) fn gets(&self, port: u16, path: &str, expected: &[u8]) {
        let output = self.fetch(port, path);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{self:?}: {errors}");
        assert!(
            output.stdout == expected,
            "{self:?}: {} other bytes in place of {}",
            output.stdout.len(),
            expected.len()
        );
    }
}
