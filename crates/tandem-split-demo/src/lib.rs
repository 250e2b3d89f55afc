//! tandem-split-demo: all parts of SSL splitting on one machine, and a page that shows live who serves what.
//!
//! Is: a small site of its own, its origin, two volunteers, and one helper that flips a bit, for whoever wants to see the method work in his own
//! browser before he believes it. Is not: fit to serve anything else; its certificate is good for a name of this machine alone.
//!
//! Invariants: it listens on loopback only; every figure is one of the parts' own counters, none is made for the page; what it wrote to disk
//! is gone when it ends.
#![forbid(unsafe_code)]

mod certificate;
mod error;
mod mischief;
mod site;
mod state;
mod view;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tandem_barnraising::Member;
use tandem_split_io::origin::{self, Origin};
use tandem_split_io::volunteer::{self, Placement, Volunteer};
use tokio::sync::watch;
use tokio::task::JoinSet;

pub use error::DemoError;

use certificate::Certificate;
use state::{Helper, Kind, State};

/// The site's name. Browsers and curl take every name under `localhost` for this machine (RFC 6761, section 6.3).
pub const SITE: &str = "tandem.localhost";
/// Bytes that a volunteer of the demonstration may keep on disk.
const CACHE: u64 = 256 << 20;

/// A demonstration that listens, and does not answer yet.
pub struct Demo {
    folder: tempfile::TempDir,
    certificate: Certificate,
    origin: Origin,
    volunteers: Vec<Volunteer>,
    mischief: mischief::Mischief,
    view: view::View,
    helpers: Vec<SocketAddr>,
    harmful: SocketAddr,
}

impl Demo {
    /// Makes certificates, starts every part. The view is on `port`, the helpers on the ports after it; 0 takes free ones.
    ///
    /// # Errors
    /// `openssl` is missing, a port is taken, or the machine refuses something.
    pub async fn bind(port: u16) -> Result<Self, DemoError> {
        let folder = tempfile::Builder::new()
            .prefix("tandem-demo-")
            .tempdir()
            .map_err(DemoError::Folder)?;
        let certificate = Certificate::make(folder.path(), SITE)?;
        let after = |steps: u16| {
            local(if port == 0 {
                0
            } else {
                port.saturating_add(steps)
            })
        };
        let view = view::View::bind(after(0))?;
        let server = site::start()?;
        let origin = Origin::bind(origin::Settings {
            listen: local(0),
            upstream: format!("http://{server}")
                .parse()
                .map_err(DemoError::Upstream)?,
            certificate: certificate.chain.clone(),
            key: certificate.key.clone(),
            channel_key: None,
            admitted: None,
        })
        .await?;
        let origin_address = origin.address().map_err(DemoError::Folder)?;
        let (introduce, members) = watch::channel(Arc::default());
        let mut volunteers = Vec::new();
        for (index, name) in ["north", "south"].iter().enumerate() {
            let cache = folder.path().join(name);
            let settings = volunteer::Settings {
                key: volunteer::key(Some(&cache))?,
                origin: origin_address.to_string(),
                origin_key: Some(origin.key()),
                listen: after(1 + index as u16),
                cache: Some(cache),
                cache_limit: CACHE,
                rate: None,
                directory: Arc::new(Placement::over(members.clone())),
                members: members.clone(),
                peer_listen: Some(local(0)),
            };
            volunteers.push(Volunteer::bind(settings).await?);
        }
        let known = volunteers.iter().filter_map(|volunteer: &Volunteer| {
            Some(Member {
                key: volunteer.key().into(),
                address: Ipv4Addr::LOCALHOST.into(),
                peers: volunteer.peer_address()?,
            })
        });
        introduce.send_replace(known.collect());
        let helpers = volunteers
            .iter()
            .map(Volunteer::address)
            .collect::<Result<Vec<_>, _>>()
            .map_err(DemoError::Folder)?;
        // Behind it is an honest one: what it harms is what that one has put together.
        let mischief = mischief::Mischief::bind(after(3), helpers[0]).await?;
        let harmful = mischief.address();
        Ok(Self {
            folder,
            certificate,
            origin,
            volunteers,
            mischief,
            view,
            helpers,
            harmful,
        })
    }

    /// Where the site is, through each honest volunteer.
    #[must_use]
    pub fn urls(&self) -> Vec<String> {
        self.helpers.iter().map(|address| url(*address)).collect()
    }

    /// Where it is through the helper that flips a bit.
    #[must_use]
    pub fn harmful_url(&self) -> String {
        url(self.harmful)
    }

    /// Where the live view is.
    #[must_use]
    pub fn view_url(&self) -> String {
        format!("http://{}/", self.view.address())
    }

    /// The certificate of the authority that a client has to trust, as a file.
    #[must_use]
    pub fn authority(&self) -> &Path {
        &self.certificate.authority
    }

    /// The site's public key as Chromium takes it for `--ignore-certificate-errors-spki-list`.
    #[must_use]
    pub fn key_digest(&self) -> &str {
        &self.certificate.key_digest
    }

    /// A folder that is removed when the demonstration ends.
    #[must_use]
    pub fn folder(&self) -> PathBuf {
        self.folder.path().to_owned()
    }

    /// Serves until it is dropped.
    pub async fn serve(self) {
        let mut helpers: Vec<Helper> = self
            .volunteers
            .iter()
            .zip(["north", "south"])
            .zip(&self.helpers)
            .map(|((volunteer, name), address)| Helper {
                name,
                kind: Kind::Honest,
                url: url(*address),
                key: Some(volunteer.key()),
                numbers: volunteer.numbers(),
            })
            .collect();
        helpers.push(Helper {
            name: "mallory",
            kind: Kind::Harmful,
            url: url(self.harmful),
            key: None,
            numbers: self.mischief.numbers(),
        });
        let state = State::new(self.origin.numbers(), helpers);
        let mut parts = JoinSet::new();
        parts.spawn(state.clone().follow(self.origin.watch()));
        parts.spawn(self.origin.serve());
        for volunteer in self.volunteers {
            parts.spawn(volunteer.serve());
        }
        parts.spawn(self.mischief.serve());
        self.view.serve(state);
        while parts.join_next().await.is_some() {}
    }
}

fn local(port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)
}

fn url(address: SocketAddr) -> String {
    format!("https://{SITE}:{}/", address.port())
}
