//! Programs that fetch a page with the time-outs that their library sets.
//!
//! Is not: the clients of the interoperability runs, whose time-outs are the lab's own. Invariant:
//! nothing here sets or lengthens a time-out.

use std::path::Path;
use std::process::Command;

use tandem_testbed::LabError;
use tandem_testbed::installed::{self, Question};
use tandem_testbed::pki::SERVER_NAME;
use tandem_testbed::server::PATH;

use crate::hosts;
use crate::interop::tools::Tools;

/// A program with time-outs of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Program {
    Go,
    Node,
    Java,
    Curl,
    Python,
}

impl Program {
    pub(super) const ALL: [Program; 5] = [
        Program::Go,
        Program::Node,
        Program::Java,
        Program::Curl,
        Program::Python,
    ];

    /// What tables call it, with its time-out.
    pub(super) fn name(self) -> &'static str {
        match self {
            Program::Go => "Go net/http (10 s for TLS)",
            Program::Node => "Node fetch (10 s to connect)",
            Program::Java => "Java HttpClient (20 s to connect)",
            Program::Curl => "curl (300 s to connect)",
            Program::Python => "Python urllib (no time-out)",
        }
    }

    /// Which version of it is installed; `None`: it is not.
    pub(super) fn version(self) -> Option<String> {
        let needed: &[&str] = match self {
            Program::Go => &["go"],
            Program::Node => &["node"],
            Program::Java => &["java", "javac"],
            Program::Curl => &["curl"],
            Program::Python => &["python3"],
        };
        let question = match self {
            Program::Go => Question::new("go", &["version"]),
            Program::Node => Question::new("node", &["--version"]),
            Program::Java => Question::new("java", &["--version"]),
            Program::Curl => Question::new("curl", &["--version"]),
            Program::Python => Question::new("python3", &["--version"]),
        };
        needed
            .iter()
            .all(|program| installed::find(program).is_some())
            .then(|| question.ask().unwrap_or_else(|| "unknown".to_owned()))
    }

    /// Compiles what has to be.
    ///
    /// # Errors
    /// `Command` with the compiler's words.
    pub(super) fn prepare(self, tools: &Tools) -> Result<(), LabError> {
        match self {
            Program::Go => tools.compile_go("patient"),
            Program::Java => tools.compile_java("Patient"),
            Program::Node | Program::Curl | Program::Python => Ok(()),
        }
    }

    /// How it is called to fetch the lab's page.
    pub(super) fn command(self, tools: &Tools, root: &Path) -> Command {
        let url = format!("https://{SERVER_NAME}{PATH}");
        let mut command = hosts::with(&tools.path("hosts"));
        command.envs([("SSL_CERT_FILE", root), ("NODE_EXTRA_CA_CERTS", root)]);
        match self {
            Program::Go => command.arg(tools.path("go-patient")).arg(url),
            Program::Node => command.arg("node").arg(tools.path("patient.js")).arg(url),
            Program::Java => {
                let java = tools.java("Patient");
                command.arg(java.get_program()).args(java.get_args());
                command.arg(url).arg(root)
            }
            Program::Curl => command
                .args(["curl", "-q", "-sS", "--fail", "--cacert"])
                .arg(root)
                .arg(url),
            Program::Python => command
                .arg("python3")
                .arg(tools.path("patient.py"))
                .arg(url),
        };
        command
    }
}
