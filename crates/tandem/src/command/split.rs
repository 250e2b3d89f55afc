//! `tandem split origin`, `volunteer`, `broker` and `demo`: flags become settings, and
//! `tandem-split-io` or `tandem-broker` serves.

mod broker;
mod guard;
mod membership;
mod sharing;

mod check;

use std::future::Future;
use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::sync::Arc;

use tandem_barnraising::certificate_policy::Safeguard;
use tandem_broker::report::send_reports;
use tandem_daemon::admin::Page;
use tandem_daemon::metrics::Number;
use tandem_daemon::runtime;
use tandem_daemon::{admin, logging};
use tandem_split_demo::Demo;
use tandem_split_io::SplitIoError;
use tandem_split_io::origin::{self, Origin, Resumption};
use tandem_split_io::volunteer::{self, Nobody, Volunteer};

use crate::cli::{OriginArgs, SplitCommand, SplitDemoArgs, SplitLogging, VolunteerArgs};
use crate::exit::Failure;
use crate::output;

pub(crate) fn run(command: SplitCommand) -> Result<(), Failure> {
    match command {
        SplitCommand::Origin(arguments) => serve_origin(*arguments),
        SplitCommand::Volunteer(arguments) => serve_volunteer(*arguments),
        SplitCommand::Broker(arguments) => broker::run(&arguments),
        SplitCommand::Demo(arguments) => demonstrate(&arguments),
        SplitCommand::Check(arguments) => check::run(&arguments),
    }
}

fn serve_origin(arguments: OriginArgs) -> Result<(), Failure> {
    start_logging(&arguments.logging)?;
    let upstream = arguments
        .upstream
        .parse()
        .map_err(|reason| SplitIoError::Setting {
            setting: "--upstream",
            reason,
        })?;
    let settings = origin::Settings {
        listen: arguments.listen,
        upstream,
        certificate: arguments.cert,
        key: arguments.key,
        channel_key: arguments.channel_key,
        admitted: arguments.volunteers,
        resumption: if arguments.no_resumption {
            Resumption::Off
        } else {
            Resumption::Offered
        },
    };
    let limits = origin::Limits {
        hashed: NonZeroU64::new(arguments.work_limit.saturating_mul(1_000_000)),
        sent: arguments
            .send_limit
            .and_then(|limit| NonZeroU64::new(limit.saturating_mul(1000))),
    };
    let kept = arguments.keep_bodies << 20;
    let broker = arguments.broker;
    let admin = arguments.admin;
    let (consent, options) = (
        guard::consent(&arguments.name),
        guard::options(&arguments.name),
    );
    runtime::run(async move {
        let bound = Origin::bind(settings).await?;
        let origin = bound.with_limits(limits).keeping(kept);
        let host = origin.host();
        tracing::warn!(
            host,
            "not private: volunteers read what this site answers and learn who fetched what; public content only"
        );
        // Before the name is looked at: a broker that is its name server cannot do without the key.
        tracing::info!(key = %origin.key(), "volunteers know this origin by its key (--origin-key)");
        let safeguard = Safeguard::of(&host, consent);
        guard::warn(&host, safeguard);
        // Heard from here on to the end: who is asked to end while it looks does so.
        let mut ended = Box::pin(runtime::asked_to_end()?);
        let looking = guard::look(&host, safeguard, &options);
        let Some(looked) = runtime::unless(&mut ended, looking).await else {
            return Ok(());
        };
        looked?;
        let mut numbers = origin.numbers();
        numbers.push(guard::number(safeguard));
        announce(admin, numbers, move |path| {
            (path == "/status.json").then(|| guard::status(&host, safeguard))
        })?;
        if let Some(uri) = broker {
            let (key, reports) = (origin.channel_key().clone(), origin.reports());
            tokio::spawn(async move {
                if let Err(error) = send_reports(uri, &key, reports).await {
                    tracing::error!(%error, "nothing is reported to the broker");
                }
            });
        }
        runtime::first(origin.serve(), ended).await;
        Ok(())
    })
}

fn serve_volunteer(arguments: VolunteerArgs) -> Result<(), Failure> {
    start_logging(&arguments.logging)?;
    let origin_key = match &arguments.origin_key {
        Some(text) => Some(text.parse().map_err(|reason| SplitIoError::Setting {
            setting: "--origin-key",
            reason,
        })?),
        None => None,
    };
    let settings = volunteer::Settings {
        key: volunteer::key(arguments.cache.as_deref())?,
        origin: arguments.origin.unwrap_or_default(),
        origin_key,
        listen: arguments.listen,
        cache: arguments.cache,
        cache_limit: arguments.cache_limit << 20,
        rate: arguments.rate.map(|rate| rate.saturating_mul(1000)),
        members: volunteer::constant_members(arguments.peers),
        peer_listen: arguments.peer_listen,
        directory: Arc::new(Nobody),
    };
    let admin = arguments.admin;
    runtime::run(async move {
        match arguments.uri {
            Some(uri) => membership::serve(uri, settings, arguments.sharing, admin).await,
            None => {
                let settings = sharing::among(settings, arguments.sharing)?;
                let volunteer = Volunteer::bind(settings).await?;
                tracing::info!(key = %volunteer.key(), "an origin with a list of volunteers knows this one by its key");
                announce(admin, volunteer.numbers(), |_| None)?;
                until_asked(volunteer.serve()).await
            }
        }
    })
}

fn demonstrate(arguments: &SplitDemoArgs) -> Result<(), Failure> {
    runtime::run(async move {
        let demo = Demo::bind(arguments.port).await?;
        output::print(&invitation(&demo))?;
        until_asked(demo.serve()).await
    })
}

/// Where to look, and how.
fn invitation(demo: &Demo) -> String {
    let urls = demo.urls();
    let first = urls.first().map_or("", String::as_str);
    let harmful = demo.harmful_url();
    let authority = demo.authority().display();
    format!(
        "\
Who serves what, live:     {view}
The site, through helpers: {all}
Through one that lies:     {harmful}
The broker's page:         {broker}

With curl:
  curl --cacert {authority} {first}chart.svg --output /dev/null
  curl --cacert {authority} {harmful}chart.svg --output /dev/null
With Chromium, which is told of this certificate and nothing else:
  chromium --user-data-dir={profile} --ignore-certificate-errors-spki-list={digest} {first}

Ctrl-C ends it and removes what it made.
ready",
        view = demo.view_url(),
        broker = demo.broker_url(),
        all = urls.join(" "),
        profile = demo.folder().join("chromium").display(),
        digest = demo.key_digest(),
    )
}

fn start_logging(said: &SplitLogging) -> Result<(), Failure> {
    Ok(logging::start(
        said.log.as_deref(),
        said.log_format.as_deref(),
    )?)
}

/// Opens the admin port, which shows these pages besides the numbers, and tells scripts that it
/// serves.
fn announce(
    admin: Option<SocketAddr>,
    numbers: Vec<Number>,
    pages: impl Fn(&str) -> Option<Page> + Send + Sync + 'static,
) -> Result<(), Failure> {
    if let Some(address) = admin {
        let bound = admin::show("--admin", address, numbers, pages)?;
        tracing::info!(address = %bound, "metrics are served");
    }
    say_ready();
    Ok(())
}

fn say_ready() {
    // One that has closed its end waits no more, and the daemon runs all the same.
    drop(output::print("ready"));
}

/// Serves until SIGTERM or SIGINT.
async fn until_asked(serving: impl Future<Output = ()>) -> Result<(), Failure> {
    let ended = runtime::asked_to_end()?;
    runtime::first(serving, ended).await;
    Ok(())
}
