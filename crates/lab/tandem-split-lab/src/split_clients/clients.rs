//! The client programs: how each is told what to do at a split site, and what it says came of it.
//!
//! Is not: a judgement of that ([`super::cell`]). All verify the certificate and the name.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use tandem_testbed::LabError;
use tandem_testbed::browser::{Browser, SECURE};
use tandem_testbed::command;
use tandem_testbed::installed::Question;
use tandem_testbed::installed::find;

use super::job::Job;
use super::process::run;
use super::raw;
use super::task::{Answer, Outcome, Task, Tools};

/// A client program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Client {
    Browser(Browser),
    Curl,
    Openssl,
    Gnutls,
    Go,
    Java,
    Python,
    Node,
}

impl Client {
    pub(super) const ALL: [Self; 9] = [
        Self::Browser(Browser::Chromium),
        Self::Browser(Browser::Firefox),
        Self::Curl,
        Self::Openssl,
        Self::Gnutls,
        Self::Go,
        Self::Java,
        Self::Python,
        Self::Node,
    ];
    /// What every machine with a lab has.
    pub(super) const QUICK: [Self; 2] = [Self::Curl, Self::Openssl];

    /// What tables call it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Browser(browser) => browser.name(),
            Self::Curl => "curl",
            Self::Openssl => "OpenSSL s_client",
            Self::Gnutls => "GnuTLS gnutls-cli",
            Self::Go => "Go net/http",
            Self::Java => "Java HttpClient",
            Self::Python => "Python http.client",
            Self::Node => "Node https",
        }
    }

    /// What must be installed; of the first, the version is asked.
    pub(super) fn needs(self) -> &'static [&'static str] {
        match self {
            Self::Browser(browser) => browser.needs(),
            Self::Curl => &["curl"],
            Self::Openssl => &["openssl"],
            Self::Gnutls => &["gnutls-cli"],
            Self::Go => &["go"],
            Self::Java => &["java", "javac"],
            Self::Python => &["python3"],
            Self::Node => &["node"],
        }
    }

    /// Its version, where all that it needs is installed.
    pub(super) fn installed(self) -> Option<String> {
        if self.needs().iter().any(|program| find(program).is_none()) {
            return None;
        }
        let words: &'static [&'static str] = match self {
            Self::Openssl | Self::Go => &["version"],
            Self::Browser(_)
            | Self::Curl
            | Self::Gnutls
            | Self::Java
            | Self::Python
            | Self::Node => &["--version"],
        };
        let version = Question::new(self.needs()[0], words).ask();
        Some(version.unwrap_or_else(|| "unknown".to_owned()))
    }

    /// How many answers a job has for it.
    pub(super) fn answers(self, job: Job) -> usize {
        match (self, job) {
            // Its first connection is a handshake alone.
            (Self::Gnutls, Job::Resume) => 1,
            // So many side by side that some are on connections that come after the first.
            (Self::Browser(_), Job::Resume) => 4,
            (_, _) => job.times(),
        }
    }

    /// Whether it says by an alert that a record is bad, so that the origin hears of it.
    pub(super) fn tells(self) -> bool {
        match self {
            // The library leaves alerts to its programs, and this one sends none.
            Self::Gnutls => false,
            // It closes the connection, and no alert arrives.
            Self::Java => false,
            Self::Browser(_)
            | Self::Curl
            | Self::Openssl
            | Self::Go
            | Self::Python
            | Self::Node => true,
        }
    }

    /// How long it takes before it asks for anything, at most.
    pub(super) fn start_up(self) -> Duration {
        match self {
            Self::Openssl | Self::Gnutls => Duration::from_secs(2),
            Self::Browser(_) | Self::Curl | Self::Go | Self::Java | Self::Python | Self::Node => {
                Duration::ZERO
            }
        }
    }

    /// Why it cannot do a job, where that is known.
    pub(super) fn cannot(self, job: Job) -> Option<&'static str> {
        match (self, job) {
            (Self::Browser(_), Job::Chunked) => {
                Some("no browser sends a request in chunks over HTTP/1.1")
            }
            (_, _) => None,
        }
    }

    /// Compiles what has to be.
    pub(super) fn prepare(self, tools: &Tools) -> Result<(), LabError> {
        let mut compiler = match self {
            Self::Go => {
                let mut go = Command::new("go");
                // What comes with the compiler is all that is used; nothing is to be fetched.
                go.envs([
                    ("GOTOOLCHAIN", "local"),
                    ("GOPROXY", "off"),
                    ("CGO_ENABLED", "0"),
                ])
                .args(["build", "-o", "go-client", "client.go"]);
                go
            }
            Self::Java => {
                let mut javac = Command::new("javac");
                javac.arg("Client.java");
                javac
            }
            Self::Browser(_)
            | Self::Curl
            | Self::Openssl
            | Self::Gnutls
            | Self::Python
            | Self::Node => return Ok(()),
        };
        command::run(compiler.current_dir(&tools.folder)).map(|_| ())
    }

    /// Does a job, in a folder of its own.
    pub(super) fn run(self, task: &Task, tools: &Tools) -> Result<Outcome, LabError> {
        let folder = tempfile::tempdir_in(&tools.folder).map_err(LabError::io("make a folder"))?;
        match self {
            Self::Curl => curl(task, tools, folder.path()),
            Self::Openssl => raw::s_client(task, tools, folder.path()),
            Self::Gnutls => raw::gnutls_cli(task, tools),
            Self::Go => own(Command::new(tools.folder.join("go-client")), task, tools),
            Self::Java => {
                let mut java = Command::new("java");
                java.args(["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"])
                    .arg(format!(
                        "-Djdk.net.hosts.file={}",
                        tools.folder.join("hosts").display()
                    ))
                    .arg("-cp")
                    .arg(&tools.folder)
                    .arg("Client");
                own(java, task, tools)
            }
            Self::Python => own(script("python3", "client.py", tools), task, tools),
            Self::Node => own(script("node", "client.js", tools), task, tools),
            Self::Browser(browser) => {
                let script = tools.folder.join("browser.py");
                let program = browser.command(&script, folder.path(), task.at.ip());
                own(program, task, tools)
            }
        }
    }
}

fn script(interpreter: &str, file: &str, tools: &Tools) -> Command {
    let mut command = Command::new(interpreter);
    command.arg(tools.folder.join(file));
    command
}

/// One of the lab's own programs.
fn own(mut program: Command, task: &Task, tools: &Tools) -> Result<Outcome, LabError> {
    program
        .args([&task.at.port().to_string(), task.host])
        .arg(&tools.authority)
        .arg(task.limit.as_secs().to_string())
        .args([task.job.word(), &task.path, &task.job.argument()]);
    // It keeps to the limit itself; one that does not is ended later.
    let ran = run(program, b"", task.limit + Duration::from_secs(60))?;
    Ok(read(&String::from_utf8_lossy(&ran.stdout), &ran.words))
}

/// The lines of one of the lab's own programs.
fn read(lines: &str, words: &str) -> Outcome {
    let mut outcome = Outcome::default();
    for line in lines.lines() {
        if let Some(security) = line.strip_prefix(SECURE) {
            outcome.security = Some(security.to_owned());
            continue;
        }
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let parts: Vec<&str> = rest.splitn(4, ' ').collect();
        let answer = match (word, parts.as_slice()) {
            ("answer" | "cut", [status, len, sha256, ..]) => status
                .parse()
                .ok()
                .zip(len.parse().ok())
                .map(|(status, len)| Answer {
                    is_whole: word == "answer",
                    status,
                    len,
                    sha256: (*sha256).to_owned(),
                }),
            _ => None,
        };
        match answer {
            Some(answer) => {
                if !answer.is_whole {
                    outcome.words = parts.get(3).unwrap_or(&"").trim().to_owned();
                }
                outcome.answers.push(answer);
            }
            None => outcome.words = rest.to_owned(),
        }
    }
    if outcome.answers.is_empty() && outcome.words.is_empty() {
        outcome.words = words.lines().last().unwrap_or_default().to_owned();
    }
    outcome
}

fn curl(task: &Task, tools: &Tools, folder: &Path) -> Result<Outcome, LabError> {
    let mut curl = Command::new("curl");
    let port = task.at.port();
    let url = format!("https://{}:{port}{}", task.host, task.path);
    curl.current_dir(folder)
        // First, so that the user's own settings stay out.
        .args(["-q", "--silent", "--show-error", "--noproxy", "*"])
        .arg("--cacert")
        .arg(&tools.authority)
        .args(["--resolve", &format!("{}:{port}:127.0.0.1", task.host)])
        .args(["--max-time", &task.limit.as_secs().to_string()])
        .args(["--write-out", "%{http_code}\n"]);
    if let Some(upload) = task.job.upload() {
        fs::write(folder.join("upload"), upload).map_err(LabError::io("write what is sent"))?;
    }
    let argument = task.job.argument();
    match task.job {
        Job::Resume => curl.args(["--header", "Connection: close"]),
        Job::Head => curl.arg("--head"),
        Job::NotModified => curl.args(["--header", &format!("If-None-Match: {argument}")]),
        Job::Range => curl.args(["--range", &argument]),
        Job::Upload => curl.args(["--data-binary", "@upload"]),
        Job::Chunked => curl
            .args(["--data-binary", "@upload"])
            .args(["--header", "Transfer-Encoding: chunked"]),
        Job::Page | Job::Keep | Job::Large => &mut curl,
    };
    for number in 0..task.job.times() {
        curl.args([&url, "--output", &format!("body-{number}")]);
    }
    let ran = run(curl, b"", task.limit + Duration::from_secs(60))?;
    let mut outcome = Outcome {
        // What follows are hints.
        words: ran.words.lines().next().unwrap_or_default().to_owned(),
        ..Outcome::default()
    };
    for (number, status) in String::from_utf8_lossy(&ran.stdout).lines().enumerate() {
        let status = status.parse().unwrap_or(0);
        let bytes = match task.job {
            // What it writes for HEAD is the head.
            Job::Head => Vec::new(),
            // Where nothing came there is no file.
            _ => fs::read(folder.join(format!("body-{number}"))).unwrap_or_default(),
        };
        if status > 0 {
            outcome
                .answers
                .push(Answer::of(status, &bytes, ran.is_success));
        }
    }
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_labs_programs_say_is_read() {
        let outcome = read(
            "secure secure TLS 1.2\nanswer 200 3 abc\ncut 206 2 def connection reset by peer\n",
            "",
        );
        assert_eq!(outcome.security.as_deref(), Some("secure TLS 1.2"));
        assert_eq!(outcome.words, "connection reset by peer");
        let answers: Vec<_> = outcome
            .answers
            .iter()
            .map(|it| (it.is_whole, it.status, it.len, it.sha256.as_str()))
            .collect();
        assert_eq!(answers, [(true, 200, 3, "abc"), (false, 206, 2, "def")]);
        assert_eq!(read("failed no route\n", "").words, "no route");
        assert_eq!(read("", "one\ntwo").words, "two");
    }
}
