//! The server programs of the interoperability runs: how each is set up and called. All serve one
//! page, over HTTP/1.0. Only nginx and HAProxy keep sessions and ask for certificates, where a site
//! says so.

use std::path::{Path, PathBuf};
use std::process::Command;

use tandem_testbed::LabError;
use tandem_testbed::endpoints::{Sessions, Version};
use tandem_testbed::installed;
use tandem_testbed::netns::Namespace;
use tandem_testbed::server::Server as Running;

use super::tools::Tools;
use super::version::{gnutls_priority, openssl_name, span};
use tandem_testbed::installed::Question;

/// Where Debian has Apache's modules.
const APACHE_MODULES: &str = "/usr/lib/apache2/modules";

/// A server program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Server {
    Nginx,
    Apache,
    Haproxy,
    Stunnel,
    Openssl,
    Gnutls,
    Go,
    Java,
}

/// Where and with which versions a server listens.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Site<'a> {
    pub(crate) port: u16,
    pub(crate) low: Version,
    pub(crate) high: Version,
    pub(crate) sessions: Sessions,
    /// The authority of the certificates that clients must show.
    pub(crate) clients: Option<&'a Path>,
    /// Variables that make the server release its handshake keys, where it uses the system's
    /// OpenSSL.
    pub(crate) releasing: &'a [(&'static str, PathBuf)],
}

impl Server {
    pub(crate) const ALL: [Server; 8] = [
        Server::Nginx,
        Server::Apache,
        Server::Haproxy,
        Server::Stunnel,
        Server::Openssl,
        Server::Gnutls,
        Server::Go,
        Server::Java,
    ];

    /// What tables call it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Server::Nginx => "nginx",
            Server::Apache => "Apache",
            Server::Haproxy => "HAProxy",
            Server::Stunnel => "stunnel",
            Server::Openssl => "OpenSSL s_server",
            Server::Gnutls => "GnuTLS gnutls-serv",
            Server::Go => "Go crypto/tls",
            Server::Java => "Java JSSE",
        }
    }

    /// Whether it uses the system's OpenSSL as a shared library.
    pub(crate) fn uses_openssl(self) -> bool {
        match self {
            Server::Nginx
            | Server::Apache
            | Server::Haproxy
            | Server::Stunnel
            | Server::Openssl => true,
            Server::Gnutls | Server::Go | Server::Java => false,
        }
    }

    /// What must be installed.
    pub(crate) fn needs(self) -> &'static [&'static str] {
        match self {
            Server::Nginx => &["nginx"],
            Server::Apache => &["apache2"],
            Server::Haproxy => &["haproxy"],
            Server::Stunnel => &["stunnel4"],
            Server::Openssl => &["openssl"],
            Server::Gnutls => &["gnutls-serv"],
            Server::Go => &["go"],
            Server::Java => &["java", "javac"],
        }
    }

    /// Whether it can be used here.
    pub(crate) fn is_installed(self) -> bool {
        self.needs()
            .iter()
            .all(|program| installed::find(program).is_some())
    }

    /// How to find out which version is installed.
    pub(crate) fn question(self) -> Question {
        let program = |name: &str| installed::find(name).unwrap_or_default();
        match self {
            Server::Nginx => Question::new(program("nginx"), &["-v"]),
            Server::Apache => Question::new(program("apache2"), &["-v"]),
            Server::Haproxy => Question::new(program("haproxy"), &["-v"]),
            Server::Stunnel => Question::new(program("stunnel4"), &["-version"]),
            Server::Openssl => Question::new("openssl", &["version"]),
            Server::Gnutls => Question::new("gnutls-serv", &["--version"]),
            Server::Go => Question::new("go", &["version"]),
            Server::Java => Question::new("java", &["--version"]),
        }
    }

    /// Makes what it needs, unless that has been done.
    ///
    /// # Errors
    /// `Command` with the words of the program that makes it.
    pub(crate) fn prepare(self, tools: &Tools) -> Result<(), LabError> {
        match self {
            Server::Go => tools.compile_go("server"),
            Server::Java => tools.compile_java("Server"),
            Server::Nginx
            | Server::Apache
            | Server::Haproxy
            | Server::Stunnel
            | Server::Openssl
            | Server::Gnutls => Ok(()),
        }
    }

    /// Starts it and waits until it listens. Its files go to `directory`, which exists.
    ///
    /// # Errors
    /// `Io`, or `Command` with its words where it does not come up.
    pub(crate) fn start(
        self,
        namespace: &Namespace,
        tools: &Tools,
        directory: &Path,
        site: Site<'_>,
    ) -> Result<Running, LabError> {
        let write = |name: &str, text: String| {
            let path = directory.join(name);
            std::fs::write(&path, text)
                .map_err(LabError::io(format!("write {name}")))
                .map(|()| path)
        };
        let program =
            |name: &str| Command::new(installed::find(name).unwrap_or_else(|| name.into()));
        let mut command = match self {
            Server::Nginx => {
                let file = write("nginx.conf", nginx(tools, directory, site))?;
                let mut command = program("nginx");
                command.arg("-c").arg(file).arg("-p").arg(directory);
                command.args(["-e", "stderr"]);
                command
            }
            Server::Apache => {
                let file = write("apache.conf", apache(tools, directory, site))?;
                let mut command = program("apache2");
                command.arg("-d").arg(directory).arg("-f").arg(file);
                command.arg("-DFOREGROUND");
                command
            }
            Server::Haproxy => {
                let file = write("haproxy.cfg", haproxy(tools, site))?;
                let mut command = program("haproxy");
                command.args(["-db", "-f"]).arg(file);
                command
            }
            Server::Stunnel => {
                let mut command = program("stunnel4");
                command.arg(write("stunnel.conf", stunnel(tools, site))?);
                command
            }
            Server::Openssl => s_server(tools, site),
            Server::Gnutls => gnutls_serv(tools, site),
            Server::Go => own(Command::new(tools.path("go-server")), tools, site),
            Server::Java => {
                let mut java = tools.java("Server");
                java.env(
                    "JDK_JAVA_OPTIONS",
                    "-Djdk.tls.server.enableSessionTicketExtension=false",
                );
                own(java, tools, site)
            }
        };
        if site.low.is_legacy() {
            command.env("OPENSSL_CONF", tools.path("openssl.cnf"));
        }
        if self.uses_openssl() {
            command.envs(site.releasing.iter().cloned());
        }
        let log = directory.join("server.log");
        Running::launch(namespace, &mut command, site.port, &log)
    }
}

/// A cipher list for OpenSSL's servers: `@SECLEVEL=0` is what TLS 1.0 and 1.1 need.
fn ciphers(site: Site<'_>) -> &'static str {
    if site.low.is_legacy() {
        "DEFAULT:@SECLEVEL=0"
    } else {
        "DEFAULT"
    }
}

/// Names of the site's versions, a space between.
fn protocols(site: Site<'_>) -> String {
    let names: Vec<&str> = span(site.low, site.high).map(openssl_name).collect();
    names.join(" ")
}

/// The arguments that the lab's own server programs take.
fn own(mut program: Command, tools: &Tools, site: Site<'_>) -> Command {
    program
        .args([&site.port.to_string(), site.low.name(), site.high.name()])
        .args([&tools.chain.full, &tools.chain.key, &tools.page()]);
    program
}

fn nginx(tools: &Tools, directory: &Path, site: Site<'_>) -> String {
    let dir = directory.display();
    let sessions = match site.sessions {
        Sessions::None => "ssl_session_cache none; ssl_session_tickets off;",
        Sessions::Tickets => "ssl_session_cache none; ssl_session_tickets on;",
        Sessions::Identifiers => "ssl_session_cache shared:lab:10m; ssl_session_tickets off;",
    };
    let asking = site.clients.map_or_else(String::new, |root| {
        let root = root.display();
        format!("ssl_client_certificate {root}; ssl_verify_client on; ssl_verify_depth 5;")
    });
    format!(
        "daemon off;\n\
         user root;\n\
         worker_processes 1;\n\
         pid {dir}/nginx.pid;\n\
         error_log stderr crit;\n\
         events {{ worker_connections 1024; }}\n\
         http {{\n\
           access_log off;\n\
           client_body_temp_path {dir}/t1; proxy_temp_path {dir}/t2; fastcgi_temp_path {dir}/t3;\n\
           uwsgi_temp_path {dir}/t4; scgi_temp_path {dir}/t5;\n\
           default_type text/plain;\n\
           server {{\n\
             listen {port} ssl;\n\
             ssl_certificate {full};\n\
             ssl_certificate_key {key};\n\
             ssl_protocols {protocols};\n\
             ssl_ciphers {ciphers};\n\
             {sessions}\n\
             {asking}\n\
             location / {{ root {www}; }}\n\
           }}\n\
         }}\n",
        port = site.port,
        full = tools.chain.full.display(),
        key = tools.chain.key.display(),
        protocols = protocols(site),
        ciphers = ciphers(site),
        www = tools.www().display(),
    )
}

fn apache(tools: &Tools, directory: &Path, site: Site<'_>) -> String {
    let dir = directory.display();
    format!(
        "ServerName localhost\n\
         DefaultRuntimeDir {dir}\n\
         PidFile {dir}/apache.pid\n\
         ErrorLog {dir}/apache.log\n\
         User www-data\n\
         Group www-data\n\
         LoadModule mpm_event_module {APACHE_MODULES}/mod_mpm_event.so\n\
         LoadModule authz_core_module {APACHE_MODULES}/mod_authz_core.so\n\
         LoadModule ssl_module {APACHE_MODULES}/mod_ssl.so\n\
         Listen {port}\n\
         DocumentRoot {www}\n\
         SSLEngine on\n\
         SSLCertificateFile {full}\n\
         SSLCertificateKeyFile {key}\n\
         SSLProtocol {protocols}\n\
         SSLCipherSuite {ciphers}\n\
         SSLSessionCache none\n\
         SSLSessionTickets off\n",
        port = site.port,
        www = tools.www().display(),
        full = tools.chain.full.display(),
        key = tools.chain.key.display(),
        protocols = span(site.low, site.high)
            .map(|version| format!("+{}", openssl_name(version)))
            .collect::<Vec<_>>()
            .join(" "),
        ciphers = ciphers(site),
    )
}

fn haproxy(tools: &Tools, site: Site<'_>) -> String {
    let (cache, tickets) = match site.sessions {
        Sessions::None => (0, "no-tls-tickets"),
        Sessions::Tickets => (0, ""),
        Sessions::Identifiers => (20_000, "no-tls-tickets"),
    };
    let asking = site.clients.map_or_else(String::new, |root| {
        format!("ca-file {} verify required", root.display())
    });
    // HAProxy has a zero where others have none.
    let name = |version: Version| format!("TLSv{}", version.name());
    format!(
        "global\n\
         \ttune.ssl.cachesize {cache}\n\
         defaults\n\
         \tmode http\n\
         \ttimeout client 60s\n\
         \ttimeout connect 60s\n\
         \ttimeout server 60s\n\
         frontend all\n\
         \tbind :{port} ssl crt {pem} ssl-min-ver {low} ssl-max-ver {high} ciphers {ciphers} {tickets} {asking}\n\
         \thttp-request return status 200 content-type text/plain file {page}\n",
        port = site.port,
        pem = tools.path("chain-and-key.pem").display(),
        low = name(site.low),
        high = name(site.high),
        ciphers = ciphers(site),
        page = tools.page().display(),
    )
}

fn stunnel(tools: &Tools, site: Site<'_>) -> String {
    format!(
        "foreground = yes\n\
         pid =\n\
         syslog = no\n\
         debug = err\n\
         [page]\n\
         accept = {port}\n\
         cert = {full}\n\
         key = {key}\n\
         sslVersionMin = {low}\n\
         sslVersionMax = {high}\n\
         ciphers = {ciphers}\n\
         {level}\
         options = NO_TICKET\n\
         exec = /bin/sh\n\
         execArgs = sh {script} {answer}\n",
        port = site.port,
        full = tools.chain.full.display(),
        key = tools.chain.key.display(),
        low = openssl_name(site.low),
        high = openssl_name(site.high),
        ciphers = ciphers(site),
        level = if site.low.is_legacy() {
            "securityLevel = 0\n"
        } else {
            ""
        },
        script = tools.path("answer.sh").display(),
        answer = tools.path("answer").display(),
    )
}

fn s_server(tools: &Tools, site: Site<'_>) -> Command {
    let mut command = Command::new("openssl");
    command
        .current_dir(tools.www())
        .args(["s_server", "-accept", &site.port.to_string(), "-WWW"])
        .args(["-no_ticket", "-no_cache", "-num_tickets", "0"])
        .args(["-min_protocol", openssl_name(site.low)])
        .args(["-max_protocol", openssl_name(site.high)])
        .args(["-cipher", ciphers(site), "-cert"])
        .arg(&tools.chain.leaf)
        .arg("-cert_chain")
        .arg(&tools.chain.issuers)
        .arg("-key")
        .arg(&tools.chain.key);
    command
}

fn gnutls_serv(tools: &Tools, site: Site<'_>) -> Command {
    let mut command = Command::new("gnutls-serv");
    command
        .args(["--quiet", "--noticket", "--http", "--port"])
        .arg(site.port.to_string())
        .arg(format!("--httpdata={}", tools.page().display()))
        .arg("--x509certfile")
        .arg(&tools.chain.full)
        .arg("--x509keyfile")
        .arg(&tools.chain.key)
        .arg(format!(
            "--priority={}",
            gnutls_priority(site.low, site.high)
        ));
    command
}
