//! What a visit is: a server, a client, and what must have come over.
//!
//! Is not: the link between them, nor how often they meet (`lane`). Invariant: the machine's own
//! settings of these programs are neither read nor changed.

use std::path::PathBuf;
use std::process::Command;

use serde::Deserialize;
use tandem_testbed::LabError;
use tandem_testbed::endpoints::Version;
use tandem_testbed::installed::Question;
use tandem_testbed::netns::Namespace;
use tandem_testbed::server::Server;

use super::grounds::Grounds;
use super::web;

/// A kind of visit, as the experiment's file calls it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Kind {
    /// A page with objects from several hosts.
    Page,
    /// A client of an API that asks for news.
    Poll,
}

impl Kind {
    /// What it does.
    pub(super) fn application(self) -> &'static dyn Application {
        match self {
            Self::Page => &web::Page,
            Self::Poll => &web::Poll,
        }
    }
}

/// Where the visits of one arm take place.
pub(super) struct Scene<'a> {
    /// What was made for all of them.
    pub(super) grounds: &'a Grounds,
    /// What the server speaks.
    pub(super) version: Version,
    /// The server's host.
    pub(super) server: &'a Namespace,
    /// For files of this arm alone; it exists.
    pub(super) folder: PathBuf,
}

/// A real client and a real server with a task.
pub(super) trait Application: Sync {
    /// The task, in a few words, with the programs.
    fn about(&self) -> &'static str;

    /// Programs without which it cannot be.
    fn needs(&self) -> &'static [&'static str];

    /// Programs whose versions stand beside results.
    fn programs(&self) -> Vec<(&'static str, Question)>;

    /// Names of the server, each with a certificate of its own.
    fn names(&self) -> &'static [&'static str];

    /// Makes what the server offers, once for all arms.
    fn make(&self, grounds: &Grounds) -> Result<(), LabError>;

    /// Starts the server.
    fn serve(&self, scene: &Scene<'_>) -> Result<Vec<Server>, LabError>;

    /// Brings the client's files into the state before a visit; the visit's program.
    fn client(&self, scene: &Scene<'_>) -> Result<Command, LabError>;

    /// Why what came is not what the server has, by the program's output and its files; `Ok` where
    /// it is.
    fn verify(&self, scene: &Scene<'_>, output: &[u8]) -> Result<(), String>;
}
