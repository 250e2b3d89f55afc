//! All parts on this machine, in a few seconds: a server, a filter, a compressor, a cache and a
//! client; what passes, what is blocked, what does not cross twice, and a middlebox that oversteps
//! and is caught.
//!
//! Is not: fit to serve anything else. Invariants: it listens on loopback only, and what it wrote
//! is gone when it ends; it fails unless it has shown what it says.

use std::fmt::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use mctls_io::{Service, Timeouts};
use tokio::task::JoinHandle;

use crate::certificates::{Authority, For};
use crate::cheat::Cheat;
use crate::discover::Discovery;
use crate::error::McError;
use crate::get::{Less, Url, Wanted, get};
use crate::layout::Kind;
use crate::middlebox::Standing;
use crate::report::{Content, Outcome, Report};
use crate::serve::Serving;
use crate::settings::{BoxSettings, ServerSettings, authorities, identity};
use crate::table::Colours;
use crate::via::ViaArgument;

/// The server's name.
const SITE: &str = "page.example";
/// How long anything may take on this machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// A task that ends with the demonstration.
struct Part {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl Drop for Part {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The parts.
struct Stage {
    authority: Authority,
    server: Part,
}

impl Stage {
    /// A middlebox, as the command line names it.
    async fn middlebox(
        &self,
        name: &str,
        kind: Kind,
        settings: BoxSettings,
    ) -> Result<(Part, ViaArgument), McError> {
        let files = self.authority.issue(name, For::Middlebox)?;
        let identity = identity(&files.cert, &files.key)?;
        let standing = Standing::bind(local(), identity, kind, settings, patient()).await?;
        started(standing, name, kind)
    }

    async fn cheat(&self, name: &str) -> Result<(Part, ViaArgument), McError> {
        let files = self.authority.issue(name, For::Middlebox)?;
        let identity = identity(&files.cert, &files.key)?;
        let service = Arc::new(|| -> Box<dyn Service> { Box::new(Cheat::default()) });
        let settings = BoxSettings::default();
        let standing = Standing::with(local(), identity, settings, service, patient()).await?;
        started(standing, name, Kind::Ids)
    }

    async fn fetch(&self, path: &str, via: &[ViaArgument]) -> Result<Report, McError> {
        let wanted = Wanted {
            url: Url::parse(&format!("https://{SITE}{path}")).map_err(McError::Argument)?,
            connect: Some(self.server.address.to_string()),
            via: via.to_vec(),
            discovery: Discovery::default(),
            contexts: 4,
            trust: authorities(&self.authority.cert())?,
            headers: Vec::new(),
            timeout: PATIENCE,
            less: Less::Refuse,
        };
        get(&wanted, &mut std::io::sink()).await
    }
}

fn started(standing: Standing, name: &str, kind: Kind) -> Result<(Part, ViaArgument), McError> {
    let address = standing.address()?;
    let text = format!("{name}@{address}={}", kind.name());
    let via = ViaArgument::parse(&text).map_err(McError::Argument)?;
    let task = tokio::spawn(standing.serve());
    Ok((Part { address, task }, via))
}

fn patient() -> Timeouts {
    Timeouts {
        handshake: PATIENCE,
        idle: PATIENCE,
    }
}

fn local() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 0).into()
}

/// Shows it; each act's text goes to `say` as it is done.
///
/// # Errors
/// `openssl` is missing, the machine refuses something, or something did not go as it should.
pub async fn run(colours: Colours, mut say: impl FnMut(&str)) -> Result<(), McError> {
    let folder = tempfile::Builder::new()
        .prefix("tandem-mc-demo-")
        .tempdir()
        .map_err(McError::file(&std::env::temp_dir()))?;
    let stage = stage(folder.path()).await?;
    let filtering = BoxSettings {
        block: vec!["/games/".into()],
        ..BoxSettings::default()
    };
    let (_filter, filter) = stage
        .middlebox("filter.example", Kind::Filter, filtering)
        .await?;
    let compressing = BoxSettings::default();
    let (_zip, zip) = stage
        .middlebox("zip.example", Kind::Compress, compressing)
        .await?;
    let via = [filter, zip];

    let page = stage.fetch("/", &via).await?;
    say(&act(
        1,
        "A page, through a filter and a compressor",
        &page,
        colours,
    ));
    expect(&page, Outcome::Complete)?;
    let body = page.contexts.last().map_or(0, |row| row.bytes);
    if body == 0 || body >= page.body_bytes {
        return Err(McError::Demo("nothing was compressed".into()));
    }

    let blocked = stage.fetch("/games/chess", &via).await?;
    say(&act(
        2,
        "A page that is on the filter's list",
        &blocked,
        colours,
    ));
    expect(&blocked, Outcome::Blocked)?;

    let holding = BoxSettings::default();
    let (_cache, cache) = stage
        .middlebox("cache.example", Kind::Cache, holding)
        .await?;
    let via = [cache];
    let first = stage.fetch("/", &via).await?;
    expect(&first, Outcome::Complete)?;
    let again = stage.fetch("/", &via).await?;
    say(&act(
        3,
        "The same page again: a cache has the body, and the server sends a reference",
        &again,
        colours,
    ));
    expect(&again, Outcome::Complete)?;
    if again.sent_bytes >= first.sent_bytes || again.content != Some(Content::Same) {
        return Err(McError::Demo("the cache did not help".into()));
    }

    let (_cheat, cheat) = stage.cheat("spy.example").await?;
    let caught = stage.fetch("/", &[cheat]).await?;
    say(&act(
        4,
        "A middlebox that may read, and writes",
        &caught,
        colours,
    ));
    expect(&caught, Outcome::Overstepped)?;
    if caught.suspects != [1] {
        return Err(McError::Demo(
            "the middlebox that overstepped was not named".into(),
        ));
    }
    Ok(())
}

async fn stage(folder: &Path) -> Result<Stage, McError> {
    let authority = Authority::make(folder)?;
    let site = folder.join("site");
    std::fs::create_dir(&site).map_err(McError::file(&site))?;
    let mut page = String::from("<!doctype html><title>A page</title><h1>A page</h1>\n");
    for line in 1..=500 {
        // Writing into a text does not fail.
        let _ = writeln!(
            page,
            "<p>Line {line} of a page that says little, and says it at length.</p>"
        );
    }
    let index = site.join("index.html");
    std::fs::write(&index, page).map_err(McError::file(&index))?;
    let files = authority.issue(SITE, For::Server)?;
    let serving = Serving::bind(
        local(),
        identity(&files.cert, &files.key)?,
        authorities(&authority.cert())?,
        &site,
        ServerSettings::default(),
        patient(),
    )
    .await?;
    let address = serving.address()?;
    let server = Part {
        address,
        task: tokio::spawn(serving.serve()),
    };
    Ok(Stage { authority, server })
}

fn act(number: u8, title: &str, report: &Report, colours: Colours) -> String {
    let (bold, end) = match colours {
        Colours::On => ("\x1b[1m", "\x1b[0m"),
        Colours::Off => ("", ""),
    };
    format!("{bold}{number}. {title}{end}\n{}", report.to_text(colours))
}

fn expect(report: &Report, outcome: Outcome) -> Result<(), McError> {
    match report.outcome == outcome {
        true => Ok(()),
        false => Err(McError::Demo(format!(
            "{outcome:?} was due, and it ended {:?}: {}",
            report.outcome,
            report.problem.as_deref().unwrap_or("without a problem")
        ))),
    }
}
