//! The client programs of the interoperability runs: how each is called. All verify the server's
//! chain and name.

use std::net::SocketAddr;
use std::process::{Command, ExitStatus};

use tandem_store::Digest;
use tandem_testbed::LabError;
use tandem_testbed::browser::{Browser, SECURE};
use tandem_testbed::client;
use tandem_testbed::endpoints::Version;
use tandem_testbed::installed;
use tandem_testbed::pki::SERVER_NAME;
use tandem_testbed::server::PATH;

use super::servers::Server;
use super::tools::{self, Tools};
use super::version::gnutls_priority;
use tandem_testbed::installed::Question;

/// Seconds that a browser may take for a page; the script that drives it adds some to start.
const PAGE_SECONDS: u32 = 20;

/// A client program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Client {
    Openssl,
    Curl,
    Wget,
    Gnutls,
    Nss,
    Go,
    Java,
    Python,
    Node,
    Rustls,
    Browser(Browser),
}

impl Client {
    pub(crate) const ALL: [Client; 12] = [
        Client::Openssl,
        Client::Curl,
        Client::Wget,
        Client::Gnutls,
        Client::Nss,
        Client::Go,
        Client::Java,
        Client::Python,
        Client::Node,
        Client::Rustls,
        Client::Browser(Browser::Chromium),
        Client::Browser(Browser::Firefox),
    ];

    /// What tables call it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Client::Openssl => "OpenSSL s_client",
            Client::Curl => "curl",
            Client::Wget => "wget",
            Client::Gnutls => "GnuTLS gnutls-cli",
            Client::Nss => "NSS tstclnt",
            Client::Go => "Go crypto/tls",
            Client::Java => "Java JSSE",
            Client::Python => "Python ssl",
            Client::Node => "Node tls",
            Client::Rustls => "rustls",
            Client::Browser(browser) => browser.name(),
        }
    }

    /// Whether it uses the system's OpenSSL as a shared library, so that `libtandem_keytap.so`
    /// works in it.
    pub(crate) fn uses_openssl(self) -> bool {
        match self {
            Client::Openssl | Client::Curl | Client::Python => true,
            Client::Wget
            | Client::Gnutls
            | Client::Nss
            | Client::Go
            | Client::Java
            | Client::Node
            | Client::Rustls
            | Client::Browser(_) => false,
        }
    }

    /// What must be installed.
    pub(crate) fn needs(self) -> &'static [&'static str] {
        match self {
            Client::Openssl => &["openssl"],
            Client::Curl => &["curl"],
            Client::Wget => &["wget", "unshare"],
            Client::Gnutls => &["gnutls-cli"],
            Client::Nss => &["tstclnt", "certutil"],
            Client::Go => &["go"],
            Client::Java => &["java", "javac"],
            Client::Python => &["python3"],
            Client::Node => &["node"],
            Client::Rustls => &[],
            Client::Browser(browser) => browser.needs(),
        }
    }

    /// Whether it can be used here.
    pub(crate) fn is_installed(self, tools: &Tools) -> bool {
        match self {
            Client::Rustls => tools.rustls().is_some(),
            Client::Openssl
            | Client::Curl
            | Client::Wget
            | Client::Gnutls
            | Client::Nss
            | Client::Go
            | Client::Java
            | Client::Python
            | Client::Node
            | Client::Browser(_) => self
                .needs()
                .iter()
                .all(|program| installed::find(program).is_some()),
        }
    }

    /// How to find out which version is installed.
    pub(crate) fn question(self, tools: &Tools) -> Question {
        match self {
            Client::Openssl => Question::new("openssl", &["version"]),
            Client::Curl => Question::new("curl", &["--version"]),
            Client::Wget => Question::new("wget", &["--version"]),
            Client::Gnutls => Question::new("gnutls-cli", &["--version"]),
            // Its programs do not say.
            Client::Nss => Question::new("dpkg-query", &["-W", "-f", "${Version}", "libnss3"]),
            Client::Go => Question::new("go", &["version"]),
            Client::Java => Question::new("java", &["--version"]),
            Client::Python => Question::new("python3", &["--version"]),
            Client::Node => Question::new("node", &["--version"]),
            Client::Rustls => Question::new(tools.rustls().unwrap_or("".as_ref()), &["--version"]),
            Client::Browser(browser) => browser.question(),
        }
    }

    /// Why it cannot get the page of a server in a version, where that is known.
    pub(crate) fn cannot(self, server: Server, version: Version) -> Option<&'static str> {
        if matches!((self, server), (Client::Browser(_), Server::Gnutls)) {
            return Some("gnutls-serv says octet-stream, which browsers save and do not show");
        }
        match (self, version) {
            (Client::Rustls, Version::Tls10 | Version::Tls11) => {
                Some("rustls speaks TLS 1.2 and 1.3 only")
            }
            (Client::Browser(_), Version::Tls10 | Version::Tls11) => {
                Some("today's browsers speak TLS 1.2 and 1.3 only")
            }
            (Client::Rustls | Client::Browser(_), Version::Tls12 | Version::Tls13) => None,
            (
                Client::Openssl
                | Client::Curl
                | Client::Wget
                | Client::Gnutls
                | Client::Nss
                | Client::Go
                | Client::Java
                | Client::Python
                | Client::Node,
                _,
            ) => None,
        }
    }

    /// Makes what it needs, unless that has been done.
    ///
    /// # Errors
    /// `Command` with the words of the program that makes it.
    pub(crate) fn prepare(self, tools: &Tools) -> Result<(), LabError> {
        match self {
            Client::Go => tools.compile_go("client"),
            Client::Java => tools.compile_java("Client"),
            Client::Nss => tools.make_nss_database(),
            Client::Openssl
            | Client::Curl
            | Client::Wget
            | Client::Gnutls
            | Client::Python
            | Client::Node
            | Client::Rustls
            | Client::Browser(_) => Ok(()),
        }
    }

    /// What is written to its standard input: for programs that are no HTTP clients and take it
    /// from there.
    pub(crate) fn request(self) -> Option<String> {
        match self {
            Client::Openssl | Client::Gnutls => Some(tools::request()),
            Client::Nss
            | Client::Curl
            | Client::Wget
            | Client::Go
            | Client::Java
            | Client::Python
            | Client::Node
            | Client::Rustls
            | Client::Browser(_) => None,
        }
    }

    /// Whether it got the whole page. The status of those that take the request from standard input
    /// also tells how the server closed. A browser must also call the connection secure, and tells
    /// the page's digest.
    pub(crate) fn is_good(self, output: &[u8], status: ExitStatus, page: &str) -> bool {
        match self {
            Client::Browser(_) => {
                let digest = Digest::of(page.as_bytes()).to_string();
                let answer = format!("\nanswer 200 {} {digest}", page.len());
                self.security(output).is_some() && client::contains(output, &answer)
            }
            Client::Openssl
            | Client::Gnutls
            | Client::Nss
            | Client::Curl
            | Client::Wget
            | Client::Go
            | Client::Java
            | Client::Python
            | Client::Node
            | Client::Rustls => {
                client::contains(output, page) && (status.success() || self.request().is_some())
            }
        }
    }

    /// What a browser says of the connection's security, where it calls it secure.
    pub(crate) fn security(self, output: &[u8]) -> Option<String> {
        let Client::Browser(_) = self else {
            return None;
        };
        let text = String::from_utf8_lossy(output);
        let words = text.lines().find_map(|line| line.strip_prefix(SECURE))?;
        Some(words.trim().to_owned())
    }

    /// How it is called to fetch the page in one version.
    pub(crate) fn command(self, tools: &Tools, server: SocketAddr, version: Version) -> Command {
        let mut command = match self {
            Client::Openssl => s_client(tools, server, version),
            Client::Curl => curl(tools, server, version),
            Client::Wget => wget(tools, server, version),
            Client::Gnutls => gnutls_cli(tools, server, version),
            Client::Nss => tstclnt(tools, server, version),
            Client::Go => {
                let mut command = Command::new(tools.path("go-client"));
                command
                    .args([&server.to_string(), version.name()])
                    .arg(&tools.chain.root);
                command
            }
            Client::Java => own(tools.java("Client"), tools, server, version),
            Client::Python => own(
                script("python3", "client.py", tools),
                tools,
                server,
                version,
            ),
            Client::Node => own(script("node", "client.js", tools), tools, server, version),
            Client::Rustls => {
                let program = tools.rustls().unwrap_or("rustls-client".as_ref());
                own(Command::new(program), tools, server, version)
            }
            Client::Browser(browser) => visit(browser, tools, server),
        };
        if version.is_legacy() {
            command.env("OPENSSL_CONF", tools.path("openssl.cnf"));
        }
        command
    }
}

/// A program of an interpreter among the tools.
fn script(interpreter: &str, file: &str, tools: &Tools) -> Command {
    let mut command = Command::new(interpreter);
    command.arg(tools.path(file));
    command
}

/// The arguments that the lab's own client programs take.
fn own(mut program: Command, tools: &Tools, server: SocketAddr, version: Version) -> Command {
    program
        .arg(server.ip().to_string())
        .arg(server.port().to_string())
        .arg(version.name())
        .arg(&tools.chain.root);
    program
}

/// A browser has no option for one version; each server speaks one.
fn visit(browser: Browser, tools: &Tools, server: SocketAddr) -> Command {
    let mut command = browser.command(&tools.path("browser.py"), &tools.path(""), server.ip());
    command
        .args([&server.port().to_string(), SERVER_NAME])
        .arg(&tools.chain.root)
        .args([&PAGE_SECONDS.to_string(), "open", PATH]);
    command
}

fn s_client(tools: &Tools, server: SocketAddr, version: Version) -> Command {
    let mut command = Command::new("openssl");
    command
        // -quiet also keeps it reading after its standard input has nothing more.
        .args(["s_client", "-quiet", "-servername", SERVER_NAME, "-connect"])
        .arg(server.to_string())
        .arg("-CAfile")
        .arg(&tools.chain.root)
        .args(["-verify_return_error", "-verify_hostname", SERVER_NAME])
        .arg(match version {
            Version::Tls10 => "-tls1",
            Version::Tls11 => "-tls1_1",
            Version::Tls12 => "-tls1_2",
            Version::Tls13 => "-tls1_3",
        });
    command
}

fn curl(tools: &Tools, server: SocketAddr, version: Version) -> Command {
    let mut command = Command::new("curl");
    let (address, port) = (server.ip(), server.port());
    command
        // First, so that the user's own settings stay out.
        .args(["-q", "--silent", "--show-error", "--fail"])
        .args(["--noproxy", "*", "--cacert"])
        .arg(&tools.chain.root)
        .arg("--resolve")
        .arg(format!("{SERVER_NAME}:{port}:{address}"))
        .arg(format!("--tlsv{}", version.name()))
        .args(["--tls-max", version.name()])
        .arg(format!("https://{SERVER_NAME}:{port}{PATH}"));
    command
}

/// wget takes no address for a name, so it gets a hosts file of its own, in a mount namespace of
/// its own.
fn wget(tools: &Tools, server: SocketAddr, version: Version) -> Command {
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "sh", "-c"])
        .arg("mount --bind \"$0\" /etc/hosts && exec \"$@\"")
        .arg(tools.path("hosts"))
        .args(["wget", "--no-config", "--no-hsts", "--no-proxy"])
        .args(["--tries=1", "-nv", "-O", "-"])
        .arg(format!("--ca-certificate={}", tools.chain.root.display()))
        .arg(format!("--ciphers={}", gnutls_priority(version, version)))
        .arg(format!("https://{SERVER_NAME}:{}{PATH}", server.port()));
    command
}

fn gnutls_cli(tools: &Tools, server: SocketAddr, version: Version) -> Command {
    let mut command = Command::new("gnutls-cli");
    command
        .arg("--x509cafile")
        .arg(&tools.chain.root)
        .args(["--port", &server.port().to_string()])
        .args(["--sni-hostname", SERVER_NAME])
        .args(["--verify-hostname", SERVER_NAME])
        .arg(format!("--priority={}", gnutls_priority(version, version)))
        .arg(server.ip().to_string());
    command
}

fn tstclnt(tools: &Tools, server: SocketAddr, version: Version) -> Command {
    let mut command = Command::new("tstclnt");
    let version = format!("tls{}", version.name());
    command
        .args(["-4", "-h", &server.ip().to_string()])
        .args(["-p", &server.port().to_string()])
        .args(["-a", SERVER_NAME, "-d", &tools.nss_database()])
        .args(["-V", &format!("{version}:{version}"), "-A"])
        // From standard input it would read on after the server's end.
        .arg(tools.path("request"));
    command
}
