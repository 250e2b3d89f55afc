//! What the programs of the interoperability runs need beside themselves: certificates, settings,
//! compiled sources, a hosts file.
//!
//! All of it lies in a directory of the lab and goes with it. Nothing is fetched: Go and Java
//! sources need their standard libraries only.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use tandem_testbed::LabError;
use tandem_testbed::browser;
use tandem_testbed::command;
use tandem_testbed::pki::{self, Chain, ChainSpec, KeyKind, SERVER_NAME};
use tandem_testbed::server::PATH;
use tandem_testbed::topology::{Family, server_address};

/// Settings for OpenSSL that let it speak TLS 1.0 and 1.1 (config(5), `ssl_conf`); distributions
/// forbid them by default.
const OPENSSL_SETTINGS: &str = "\
openssl_conf = all
[all]
ssl_conf = ssl
[ssl]
system_default = everything
[everything]
MinProtocol = TLSv1
CipherString = DEFAULT@SECLEVEL=0
";

/// Bytes of the file that servers serve: some segments, as small pages are.
const BODY_BYTES: usize = 4096;

/// What is compiled: a program's source as it is in this repository, and its name.
const SOURCES: [(&str, &str); 11] = [
    ("client.go", include_str!("../../programs/client.go")),
    ("server.go", include_str!("../../programs/server.go")),
    ("Client.java", include_str!("../../programs/Client.java")),
    ("Server.java", include_str!("../../programs/Server.java")),
    ("client.py", include_str!("../../programs/client.py")),
    ("client.js", include_str!("../../programs/client.js")),
    ("patient.go", include_str!("../../programs/patient.go")),
    ("Patient.java", include_str!("../../programs/Patient.java")),
    ("patient.py", include_str!("../../programs/patient.py")),
    ("patient.js", include_str!("../../programs/patient.js")),
    ("browser.py", browser::SCRIPT),
];

/// Everything that is ready to be used.
#[derive(Debug, Clone)]
pub(crate) struct Tools {
    directory: PathBuf,
    /// What servers show, and what clients trust.
    pub(crate) chain: Chain,
    rustls: Option<PathBuf>,
}

impl Tools {
    /// Issues the server's chain, three certificates of RSA, and writes what is needed into
    /// `directory`. The rustls client is looked for beside `exe`, where cargo puts examples.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn prepare(directory: &Path, exe: &Path) -> Result<Self, LabError> {
        let spec = ChainSpec {
            key: KeyKind::Rsa2048,
            length: 3,
            leaf_bytes: None,
            issuer_bytes: None,
        };
        let chain = pki::issue(directory, "chain", &spec)?;
        let rustls = exe
            .parent()
            .map(|folder| folder.join("examples/rustls-client"))
            .filter(|path| path.exists());
        let tools = Self {
            directory: directory.to_owned(),
            chain,
            rustls,
        };
        fs::create_dir_all(tools.www()).map_err(LabError::io("make a directory"))?;
        let address = server_address(Family::V4);
        for (name, text) in SOURCES {
            tools.write(name, text)?;
        }
        tools.write("openssl.cnf", OPENSSL_SETTINGS)?;
        tools.write(
            "hosts",
            &format!("127.0.0.1 localhost\n{address} {SERVER_NAME}\n"),
        )?;
        let body = body();
        let head = format!(
            "HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        tools.write("request", &request())?;
        tools.write("answer", &format!("{head}{body}"))?;
        tools.write(
            "answer.sh",
            "#!/bin/sh\n\
             # Reads a request to its empty line and answers with one file.\n\
             while IFS= read -r line && [ ${#line} -gt 1 ]; do :; done\n\
             exec cat \"$1\"\n",
        )?;
        tools.write(&format!("www{PATH}"), &body)?;
        let both = read(&tools.chain.full)? + &read(&tools.chain.key)?;
        tools.write("chain-and-key.pem", &both)?;
        Ok(tools)
    }

    /// The path of a file among the tools.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// The folder that servers serve.
    pub(crate) fn www(&self) -> PathBuf {
        self.path("www")
    }

    /// The file that servers serve.
    pub(crate) fn page(&self) -> PathBuf {
        self.www().join(PATH.trim_start_matches('/'))
    }

    /// The client on rustls, where it has been built.
    pub(crate) fn rustls(&self) -> Option<&Path> {
        self.rustls.as_deref()
    }

    /// Compiles the Go program `name`.go, unless that has been done.
    ///
    /// # Errors
    /// `Command` with the compiler's words.
    pub(crate) fn compile_go(&self, name: &str) -> Result<(), LabError> {
        let binary = self.path(&format!("go-{name}"));
        if binary.exists() {
            return Ok(());
        }
        command::run(
            Command::new("go")
                .current_dir(&self.directory)
                // What comes with the compiler is all that is used; nothing is to be fetched.
                .envs([
                    ("GOTOOLCHAIN", "local"),
                    ("GOPROXY", "off"),
                    ("CGO_ENABLED", "0"),
                ])
                .args(["build", "-o"])
                .arg(binary)
                .arg(format!("{name}.go")),
        )
        .map(|_| ())
    }

    /// Compiles the Java program `class`.java, unless that has been done.
    ///
    /// # Errors
    /// `Command` with the compiler's words.
    pub(crate) fn compile_java(&self, class: &str) -> Result<(), LabError> {
        if self.path(&format!("{class}.class")).exists() {
            return Ok(());
        }
        command::run(
            Command::new("javac")
                .current_dir(&self.directory)
                .arg(format!("{class}.java")),
        )
        .map(|_| ())
    }

    /// Makes NSS's data base with the root in it, unless that has been done.
    ///
    /// # Errors
    /// `Command` with certutil's words.
    pub(crate) fn make_nss_database(&self) -> Result<(), LabError> {
        let directory = self.path("nss");
        if directory.exists() {
            return Ok(());
        }
        fs::create_dir_all(&directory).map_err(LabError::io("make NSS's directory"))?;
        let database = self.nss_database();
        let certutil = |words: &[&str]| {
            let mut command = Command::new("certutil");
            command.args(["-d", &database]).args(words);
            command
        };
        command::run(&mut certutil(&["-N", "--empty-password"]))?;
        command::run(certutil(&["-A", "-n", "root", "-t", "C,,", "-i"]).arg(&self.chain.root))?;
        Ok(())
    }

    /// As NSS's programs name it.
    pub(crate) fn nss_database(&self) -> String {
        format!("sql:{}", self.path("nss").display())
    }

    /// A Java program among the tools. A short-lived one is not worth optimising.
    pub(crate) fn java(&self, class: &str) -> Command {
        let mut command = Command::new("java");
        command
            .args(["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp"])
            .arg(&self.directory)
            .arg(class);
        command
    }

    /// A file for a program's words.
    pub(crate) fn write(&self, name: &str, text: &str) -> Result<(), LabError> {
        let path = self.path(name);
        fs::write(&path, text)
            // Apache reads it as another user.
            .and_then(|()| fs::set_permissions(&path, fs::Permissions::from_mode(0o644)))
            .map_err(LabError::io(format!("write {name}")))
    }
}

/// What clients ask.
pub(crate) fn request() -> String {
    format!("GET {PATH} HTTP/1.0\r\nHost: {SERVER_NAME}\r\n\r\n")
}

/// The page: lines that differ, so that a lost or repeated one shows.
pub(crate) fn body() -> String {
    let mut text: String = (1..)
        .map(|line| format!("Line {line} of the page that every server of the lab serves.\n"))
        .take_while(|line| !line.is_empty())
        .scan(0, |length, line| {
            let is_wanted = *length < BODY_BYTES;
            *length += line.len();
            is_wanted.then_some(line)
        })
        .collect();
    text.truncate(BODY_BYTES - 1);
    text.push('\n');
    text
}

fn read(path: &Path) -> Result<String, LabError> {
    fs::read_to_string(path).map_err(LabError::io(format!("read {}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_its_length_and_ends_in_a_line() {
        let body = body();
        assert_eq!(body.len(), BODY_BYTES);
        assert!(body.starts_with("Line 1 ") && body.ends_with('\n'));
    }
}
