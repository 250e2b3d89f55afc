//! tandem-split-demo: all parts of SSL splitting on one machine, and a page that shows live who
//! serves what.
//!
//! Is: a small site of its own, its origin, its broker, two volunteers, and one helper that flips a
//! bit, for whoever wants to see the method work in his own browser before he believes it. Is not:
//! fit to serve anything else; its certificate is good for a name of this machine alone.
//!
//! Invariants: it listens on loopback only; every figure is one of the parts' own counters, none is
//! made for the page; what it wrote to disk is gone when it ends.
#![forbid(unsafe_code)]

mod certificate;
mod error;
mod helper;
mod mischief;
mod site;
mod state;
mod view;

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};

use tandem_broker::{Broker, Config};
use tandem_split_io::origin::{self, Origin};
use tokio::task::JoinSet;

pub use error::DemoError;

use certificate::Certificate;
use helper::Joined;
use state::{Helper, Kind, State};

/// The site's name. Browsers and curl take every name under `localhost` for this machine (RFC 6761,
/// section 6.3).
pub const SITE: &str = "tandem.localhost";
/// Where the volunteers are: all of 127.0.0.0/8 is this machine.
const FIRST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const SECOND: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));

/// A demonstration that listens, and does not answer yet.
pub struct Demo {
    folder: tempfile::TempDir,
    certificate: Certificate,
    origin: Origin,
    broker: AbortOnDrop,
    page: SocketAddr,
    helpers: Vec<Joined>,
    mischief: mischief::Mischief,
    view: view::View,
    harmful: SocketAddr,
}

impl Demo {
    /// Makes certificates, starts every part. The view is on `port`, the helpers on the ports after
    /// it; 0 takes free ones.
    ///
    /// # Errors
    /// `openssl` is missing, a port is taken, or the machine refuses something.
    pub async fn bind(port: u16) -> Result<Self, DemoError> {
        let folder = tempfile::Builder::new()
            .prefix("tandem-demo-")
            .tempdir()
            .map_err(DemoError::Folder)?;
        let certificate = Certificate::make(folder.path(), SITE)?;
        let after = |steps: u16| match port {
            0 => free_port(),
            port => Ok(port.saturating_add(steps)),
        };
        let (listen, peers) = (after(1)?, after(4)?);
        let view = view::View::bind(local(after(0)?))?;
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
            resumption: origin::Resumption::Offered,
        })
        .await?;
        let broker = broker(folder.path(), &certificate, &origin, listen).await?;
        let page = broker.show(local(0))?;
        let uri = broker.uri().cloned().ok_or(DemoError::NoUri)?;
        // Who joins is answered at once.
        let broker = AbortOnDrop(tokio::spawn(broker.serve()));
        let mut helpers = Vec::new();
        for (name, address) in [("north", FIRST), ("south", SECOND)] {
            let listen = SocketAddr::new(address, listen);
            let peers = SocketAddr::new(address, peers);
            let joined = Joined::join(name, uri.clone(), folder.path(), listen, peers).await?;
            helpers.push(if address == FIRST {
                joined
            } else {
                joined.with_door(after(2)?).await?
            });
        }
        // Behind it is an honest one: what it harms is what that one has put together.
        let mischief = mischief::Mischief::bind(local(after(3)?), helpers[0].door).await?;
        let harmful = mischief.address();
        Ok(Self {
            folder,
            certificate,
            origin,
            broker,
            page,
            helpers,
            mischief,
            view,
            harmful,
        })
    }

    /// Where the site is, through each honest volunteer.
    #[must_use]
    pub fn urls(&self) -> Vec<String> {
        self.helpers.iter().map(|helper| url(helper.door)).collect()
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

    /// Where the broker's page is.
    #[must_use]
    pub fn broker_url(&self) -> String {
        format!("http://{}/", self.page)
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
            .helpers
            .iter()
            .map(|helper| Helper {
                name: helper.name,
                kind: Kind::Honest,
                url: url(helper.door),
                key: Some(helper.volunteer.key()),
                numbers: helper.volunteer.numbers(),
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
        for helper in self.helpers {
            parts.spawn(helper.serve());
        }
        parts.spawn(self.mischief.serve());
        let _view = self.view.serve(state);
        while parts.join_next().await.is_some() {}
        drop(self.broker);
    }
}

/// A task that ends with whoever has it.
struct AbortOnDrop(tokio::task::JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The broker, told by a file as any is.
async fn broker(
    folder: &Path,
    certificate: &Certificate,
    origin: &Origin,
    port: u16,
) -> Result<Broker, DemoError> {
    let text = format!(
        r#"
site = "{SITE}"
listen = "127.0.0.1:0"
address = "127.0.0.1"
state = {state:?}

[origin]
address = "{origin}"
key = "{key}"
own-addresses = ["127.0.0.1"]

[health]
port = {port}
path = "/health"
every-seconds = 20
up = 1
roots = {roots:?}
"#,
        state = folder.join("broker"),
        origin = origin.address().map_err(DemoError::Folder)?,
        key = origin.key(),
        roots = certificate.authority,
    );
    let config = Config::parse(&text, Path::new("the demonstration"))?;
    Ok(Broker::bind(&config).await?)
}

/// One that nobody uses at the moment.
fn free_port() -> Result<u16, DemoError> {
    let listener = TcpListener::bind(local(0)).map_err(DemoError::Folder)?;
    Ok(listener.local_addr().map_err(DemoError::Folder)?.port())
}

fn local(port: u16) -> SocketAddr {
    SocketAddr::new(FIRST, port)
}

fn url(address: SocketAddr) -> String {
    format!("https://{SITE}:{}/", address.port())
}
