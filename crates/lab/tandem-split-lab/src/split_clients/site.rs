//! A split site for one client: server, origin, an honest volunteer, and relays to it that do harm.
//!
//! Is not: shared. What the origin counts is this client's doing, or that of what stands between.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use tandem_channel::{ChannelKey, KeyName};
use tandem_daemon::metrics::Number;
use tandem_split_io::{origin, volunteer};
use tokio::runtime::Runtime;

use tandem_testbed::LabError;
use tandem_testbed::command;

use super::files::Files;
use super::harm::{self, Harm};
use super::swap::Swapper;

/// The site's name, and one that is not its.
pub(super) const HOST: &str = "split.test";
pub(super) const OTHER_HOST: &str = "bank.test";

/// Certificates for the site, by the `openssl` command line.
#[derive(Debug, Clone)]
pub(super) struct Pki {
    pub(super) authority: PathBuf,
    certificate: PathBuf,
    key: PathBuf,
}

impl Pki {
    pub(super) fn issue(folder: &Path) -> Result<Self, LabError> {
        let at = |name: &str| folder.join(name);
        let request = |subject: &str, key: &str, out: &str, more: &[&str]| {
            let mut openssl = std::process::Command::new("openssl");
            openssl
                .args([
                    "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
                ])
                .args(["-subj", subject, "-keyout", key, "-out", out])
                .args(more)
                .current_dir(folder);
            command::run(&mut openssl).map(|_| ())
        };
        request(
            "/CN=Tandem Lab",
            "ca.key",
            "ca.pem",
            &["-addext", "keyUsage=critical,keyCertSign,digitalSignature"],
        )?;
        let name = format!("subjectAltName=DNS:{HOST}");
        request(
            "/CN=site",
            "site.key",
            "site.pem",
            &[
                "-addext",
                &name,
                "-addext",
                "basicConstraints=critical,CA:FALSE",
                "-addext",
                "extendedKeyUsage=serverAuth",
                "-CA",
                "ca.pem",
                "-CAkey",
                "ca.key",
            ],
        )?;
        Ok(Self {
            authority: at("ca.pem"),
            certificate: at("site.pem"),
            key: at("site.key"),
        })
    }
}

/// What the origin counts of what goes wrong, and some of what goes right.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) connections: u64,
    pub(super) requests: u64,
    pub(super) resumed: u64,
    pub(super) refused: u64,
    pub(super) distrusted: u64,
    pub(super) misdirected: u64,
    pub(super) cut: u64,
    pub(super) vanished: u64,
}

/// See above. Ends when it is dropped.
pub(super) struct Site {
    pub(super) volunteer: SocketAddr,
    /// A volunteer behind the double that swaps payloads.
    pub(super) swapping: SocketAddr,
    pub(super) swapper: Swapper,
    numbers: Vec<Number>,
    _files: Files,
    _runtime: Runtime,
}

impl Site {
    pub(super) fn start(pki: &Pki) -> Result<Self, LabError> {
        let failed = |error: tandem_split_io::SplitIoError| {
            LabError::io("start a split site")(std::io::Error::other(error))
        };
        let files = Files::start()?;
        let runtime = Runtime::new().map_err(LabError::io("start threads"))?;
        let (address, key, numbers, swapper) = runtime.block_on(async {
            let upstream = format!("http://{}", files.address);
            let settings = origin::Settings {
                listen: ([127, 0, 0, 1], 0).into(),
                upstream: upstream.parse().map_err(|why| LabError::Usage {
                    what: upstream,
                    why,
                })?,
                certificate: pki.certificate.clone(),
                key: pki.key.clone(),
                channel_key: None,
                admitted: None,
                resumption: origin::Resumption::Offered,
            };
            let origin = origin::Origin::bind(settings).await.map_err(failed)?;
            let address = origin.address().map_err(LabError::io("ask for a port"))?;
            let (key, numbers) = (origin.key(), origin.numbers());
            tokio::spawn(origin.serve());
            let swapper = Swapper::start(address, key).await?;
            Ok::<_, LabError>((address, key, numbers, swapper))
        })?;
        let honest = runtime.block_on(start_volunteer(address, key))?;
        let swapping = runtime.block_on(start_volunteer(swapper.address, swapper.key))?;
        Ok(Self {
            volunteer: honest,
            swapping,
            swapper,
            numbers,
            _files: files,
            _runtime: runtime,
        })
    }

    /// A relay to the volunteer on which records are harmed.
    pub(super) fn harmed(&self, harm: Harm) -> Result<SocketAddr, LabError> {
        harm::harmful_relay(self.volunteer, harm)
    }

    pub(super) fn counts(&self) -> Counts {
        let of = |name: &str| {
            let full = format!("tandem_split_origin_{name}");
            let number = self.numbers.iter().find(|number| number.name() == full);
            number.map_or(0, Number::value)
        };
        Counts {
            connections: of("connections"),
            requests: of("requests"),
            resumed: of("resumed_sessions"),
            refused: of("refused_by_clients"),
            distrusted: of("distrusted"),
            misdirected: of("misdirected"),
            cut: of("cut_answers"),
            vanished: of("vanished_clients"),
        }
    }
}

async fn start_volunteer(origin: SocketAddr, origin_key: KeyName) -> Result<SocketAddr, LabError> {
    let failed = |error: tandem_split_io::SplitIoError| {
        LabError::io("start a volunteer")(std::io::Error::other(error))
    };
    let settings = volunteer::Settings {
        key: ChannelKey::fleeting().map_err(|error| failed(error.into()))?,
        origin: origin.to_string(),
        origin_key: Some(origin_key),
        listen: vec![([127, 0, 0, 1], 0).into()],
        cache: None,
        cache_limit: 0,
        rate: None,
        members: volunteer::constant_members(Vec::new()),
        peer_listen: Vec::new(),
        directory: std::sync::Arc::new(volunteer::Nobody),
    };
    let bound = volunteer::Volunteer::bind(settings).await.map_err(failed)?;
    let address = bound.address().map_err(LabError::io("ask for a port"))?;
    tokio::spawn(bound.serve());
    Ok(address)
}
