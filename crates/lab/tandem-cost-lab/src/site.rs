//! What all servers have in common: a certificate, files, two ports, and the processor that they
//! run on.

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use tandem_measure::Mix;
use tandem_testbed::LabError;
use tandem_testbed::installed;
use tandem_testbed::pki::{self, Chain, ChainSpec, KeyKind, Validity};

/// Whom the certificates are for.
pub(crate) const NAME: &str = "localhost";

/// A small file, a page, a large file: `seed` in `tandem-report` says why these.
pub(crate) const SIZES: [u64; 3] = [1_024, 12_288, 1_048_576];

/// Where files and certificates are.
#[derive(Debug)]
pub(crate) struct Site {
    /// Removed with the run.
    pub(crate) folder: PathBuf,
    /// With a key of RSA-2048.
    pub(crate) rsa: Chain,
    /// With a key on P-256.
    pub(crate) ecdsa: Chain,
    processors: Processors,
}

impl Site {
    /// Makes certificates and files below `folder`, and gives this process its processors.
    ///
    /// # Errors
    /// `ProgramMissing`, `Command`, `Io`.
    pub(crate) fn make(folder: &Path) -> Result<Self, LabError> {
        // Apache's processes run as another user.
        let open = fs::Permissions::from_mode(0o755);
        fs::set_permissions(folder, open).map_err(LabError::io("open a folder"))?;
        let www = folder.join("www");
        fs::create_dir_all(&www).map_err(LabError::io("make a folder"))?;
        for size in SIZES {
            for file in Mix::Fixed(size).files() {
                let bytes: Vec<u8> = (0..file.bytes)
                    .map(|at| (at % 251).to_le_bytes()[0])
                    .collect();
                fs::write(www.join(&file.name), bytes).map_err(LabError::io("write a file"))?;
            }
        }
        Ok(Self {
            rsa: issue(folder, KeyKind::Rsa2048)?,
            ecdsa: issue(folder, KeyKind::EcdsaP256)?,
            processors: Processors::share()?,
            folder: folder.to_owned(),
        })
    }

    /// A chain of two with keys of this kind.
    ///
    /// # Errors
    /// `ProgramMissing`, `Command`, `Io`.
    pub(crate) fn issue(&self, key: KeyKind) -> Result<Chain, LabError> {
        match key {
            KeyKind::Rsa2048 => Ok(self.rsa.clone()),
            KeyKind::EcdsaP256 => Ok(self.ecdsa.clone()),
            _ => issue(&self.folder, key),
        }
    }

    /// Where the files are.
    pub(crate) fn www(&self) -> PathBuf {
        self.folder.join("www")
    }

    /// A server's program, on the servers' processor.
    pub(crate) fn server(&self, program: impl AsRef<Path>) -> Command {
        match (self.processors.server, installed::find("taskset")) {
            (Some(processor), Some(taskset)) => {
                let mut command = Command::new(taskset);
                command
                    .args(["-c", &processor.to_string()])
                    .arg(program.as_ref());
                command
            }
            _ => Command::new(program.as_ref()),
        }
    }
}

fn issue(folder: &Path, key: KeyKind) -> Result<Chain, LabError> {
    let spec = ChainSpec {
        key,
        length: 2,
        leaf_bytes: None,
        issuer_bytes: None,
    };
    let chain = pki::issue_for(folder, key.name(), &spec, NAME, Validity::Current)?;
    let read = |path: &Path| fs::read_to_string(path).map_err(LabError::io("read a certificate"));
    // HAProxy wants both in one file.
    let both = read(&chain.full)? + &read(&chain.key)?;
    let path = together(&chain);
    fs::write(path, both).map_err(LabError::io("write a certificate"))?;
    Ok(chain)
}

/// The chain and its key in one file.
pub(crate) fn together(chain: &Chain) -> PathBuf {
    chain.key.with_extension("both.pem")
}

/// Who has which processor.
#[derive(Debug)]
struct Processors {
    /// The servers'. `None`: there is only one.
    server: Option<usize>,
    /// What this thread had before.
    before: CpuSet,
}

impl Processors {
    /// Gives the last one away, and keeps this thread, and those that it starts, off it.
    fn share() -> Result<Self, LabError> {
        let failed = |errno: nix::Error| LabError::Io {
            what: "share out the processors".to_owned(),
            source: errno.into(),
        };
        let own = Pid::from_raw(0);
        let before = sched_getaffinity(own).map_err(failed)?;
        let allowed = (0..CpuSet::count()).filter(|one| before.is_set(*one).unwrap_or(false));
        let allowed: Vec<usize> = allowed.collect();
        let server = match allowed.as_slice() {
            [.., last] if allowed.len() > 1 => Some(*last),
            _ => None,
        };
        if let Some(server) = server {
            let mut rest = before;
            rest.unset(server).map_err(failed)?;
            sched_setaffinity(own, &rest).map_err(failed)?;
        }
        Ok(Self { server, before })
    }
}

impl Drop for Processors {
    fn drop(&mut self) {
        // It was allowed before.
        let _ = sched_setaffinity(Pid::from_raw(0), &self.before);
    }
}

/// Ports of the loopback interface that nobody listens on.
///
/// # Errors
/// `Io`.
pub(crate) fn free_ports() -> Result<[u16; 2], LabError> {
    let bind = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let port = |listener: &TcpListener| listener.local_addr().map(|address| address.port());
    bind()
        .and_then(|one| {
            let other = bind()?;
            Ok([port(&one)?, port(&other)?])
        })
        .map_err(LabError::io("find a free port"))
}
