//! What a visit is: a server, a client, and what must have come over.
//!
//! Is not: the link between them, nor how often they meet (`lane`). Invariant: the machine's own
//! settings of these programs are neither read nor changed.

use std::path::PathBuf;
use std::process::Command;

use tandem_testbed::LabError;
use tandem_testbed::endpoints::Version;
use tandem_testbed::installed::Question;
use tandem_testbed::netns::Namespace;
use tandem_testbed::server::Server;

use super::grounds::{Grounds, put};

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

/// What nginx and OpenSSL call the version.
pub(super) fn protocol(version: Version) -> &'static str {
    match version {
        Version::Tls10 => "TLSv1",
        Version::Tls11 => "TLSv1.1",
        Version::Tls12 => "TLSv1.2",
        Version::Tls13 => "TLSv1.3",
    }
}

/// A file of settings by which OpenSSL speaks the scene's version alone, for servers that cannot be
/// told so themselves (config(5), `ssl_conf`).
///
/// # Errors
/// `Io`.
pub(super) fn openssl_settings(scene: &Scene<'_>) -> Result<PathBuf, LabError> {
    let path = scene.folder.join("openssl.cnf");
    let version = protocol(scene.version);
    put(
        &path,
        format!(
            "openssl_conf = all\n[all]\nssl_conf = ssl\n[ssl]\nsystem_default = everything\n\
             [everything]\nMinProtocol = {version}\nMaxProtocol = {version}\n"
        ),
    )?;
    Ok(path)
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
