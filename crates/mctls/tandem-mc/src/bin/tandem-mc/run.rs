//! From arguments to results: daemons, a fetch, a table.

use std::fs::{File, Permissions};
use std::io::{self, IsTerminal, Write};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;

use mctls_io::Timeouts;
use rustls::RootCertStore;
use tandem_daemon::{logging, runtime};
use tandem_mc::McError;
use tandem_mc::demo;
use tandem_mc::discover::{Discovery, LABEL, dns, domain};
use tandem_mc::gateway::client::{ClientGateway, Settings};
use tandem_mc::gateway::server::ServerGateway;
use tandem_mc::get::{self, Less, Wanted};
use tandem_mc::middlebox::Standing;
use tandem_mc::paper::{self, Protocol};
use tandem_mc::report::{Outcome, Report};
use tandem_mc::serve::Serving;
use tandem_mc::settings::{BoxSettings, ServerSettings, authorities, identity};
use tandem_mc::table::Colours;
use tandem_mc::via::{ViaArgument, granted};

use crate::cli::{
    BoxArgs, Command, DiscoveryArgs, Domain, ExplainArgs, Gateway, GatewayClientArgs,
    GatewayServerArgs, GetArgs, Listening, ServeArgs, Spoken,
};
use crate::exit::Failure;

/// Does what the arguments say.
pub(crate) fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Serve(arguments) => serve(&arguments),
        Command::Box(arguments) => middlebox(&arguments),
        Command::Get(arguments) => fetch(*arguments),
        Command::Explain(arguments) => explain(&arguments),
        Command::Gateway(Gateway::Client(arguments)) => client_gateway(&arguments),
        Command::Gateway(Gateway::Server(arguments)) => server_gateway(&arguments),
        Command::Demo => demonstrate(),
    }
}

fn serve(arguments: &ServeArgs) -> Result<(), Failure> {
    let listening = &arguments.listening;
    logging::start(listening.log.as_deref(), None)?;
    let protocol = warned(&arguments.spoken)?;
    let settings = ServerSettings::read(listening.config.as_deref())?.for_files()?;
    let identity = identity(&listening.cert, &listening.key)?;
    let roots = match &arguments.trust {
        Some(file) => authorities(file)?,
        None => Arc::new(RootCertStore::empty()),
    };
    runtime::run(async {
        let end = runtime::asked_to_end()?;
        let root = &arguments.root;
        let patience = timeouts(listening);
        let listen = listening.listen;
        match protocol {
            Protocol::Mctls13 => {
                let serving = Serving::bind(listen, identity, roots, root, settings, patience);
                let serving = serving.await?;
                ready(serving.address()?)?;
                runtime::unless(end, serving.serve()).await;
            }
            Protocol::Mctls12(format) => {
                let serving = paper::serve::Serving::bind(
                    format, listen, &identity, roots, root, settings, patience,
                );
                let serving = serving.await?;
                ready(serving.address()?)?;
                runtime::unless(end, serving.serve()).await;
            }
        }
        Ok(())
    })
}

fn middlebox(arguments: &BoxArgs) -> Result<(), Failure> {
    let listening = &arguments.listening;
    logging::start(listening.log.as_deref(), None)?;
    let protocol = warned(&arguments.spoken)?;
    let settings = BoxSettings::read(listening.config.as_deref())?;
    let identity = identity(&listening.cert, &listening.key)?;
    runtime::run(async {
        let end = runtime::asked_to_end()?;
        let kind = arguments.kind;
        let patience = timeouts(listening);
        let listen = listening.listen;
        match protocol {
            Protocol::Mctls13 => {
                let standing = Standing::bind(listen, identity, kind, settings, patience).await?;
                ready(standing.address()?)?;
                runtime::unless(end, standing.serve()).await;
            }
            Protocol::Mctls12(format) => {
                let standing = paper::middlebox::Standing::bind(
                    format, listen, &identity, kind, settings, patience,
                );
                let standing = standing.await?;
                ready(standing.address()?)?;
                runtime::unless(end, standing.serve()).await;
            }
        }
        Ok(())
    })
}

fn client_gateway(arguments: &GatewayClientArgs) -> Result<(), Failure> {
    logging::start(arguments.log.as_deref(), None)?;
    let settings = Settings::read(&arguments.config)?;
    let trust = authorities(&arguments.trust)?;
    runtime::run(async {
        let end = runtime::asked_to_end()?;
        let wait = arguments.timeout;
        let gateway = ClientGateway::bind(arguments.listen, trust, &settings, wait).await?;
        ready(gateway.address()?)?;
        runtime::unless(end, gateway.serve()).await;
        Ok(())
    })
}

fn server_gateway(arguments: &GatewayServerArgs) -> Result<(), Failure> {
    let listening = &arguments.listening;
    logging::start(listening.log.as_deref(), None)?;
    let settings = ServerSettings::read(listening.config.as_deref())?;
    let identity = identity(&listening.cert, &listening.key)?;
    let roots = match &arguments.trust {
        Some(file) => authorities(file)?,
        None => Arc::new(RootCertStore::empty()),
    };
    runtime::run(async {
        let end = runtime::asked_to_end()?;
        let to = &arguments.to;
        let patience = timeouts(listening);
        let listen = listening.listen;
        let gateway = ServerGateway::bind(listen, identity, roots, to, settings, patience).await?;
        ready(gateway.address()?)?;
        runtime::unless(end, gateway.serve()).await;
        Ok(())
    })
}

/// A pause in a session may be as long as its beginning, and not shorter than the library's.
fn timeouts(listening: &Listening) -> Timeouts {
    let usual = Timeouts::default();
    Timeouts {
        handshake: listening.timeout,
        idle: usual.idle.max(listening.timeout),
    }
}

fn ready(address: SocketAddr) -> Result<(), Failure> {
    print(&format!("listening on {address}\nready\n"))
}

fn fetch(arguments: GetArgs) -> Result<(), Failure> {
    runtime::run(async {
        let end = runtime::asked_to_end()?;
        // What was written beside its place goes with it.
        let fetched = runtime::unless(end, fetched(arguments)).await;
        fetched.unwrap_or(Err(Failure::Interrupted))
    })
}

/// The protocol that the arguments ask for; says what is unsafe about it.
fn warned(spoken: &Spoken) -> Result<Protocol, McError> {
    let protocol = spoken.protocol()?;
    match protocol {
        Protocol::Mctls13 => {}
        Protocol::Mctls12(format) => {
            for warning in format.warnings() {
                eprintln!("{warning}");
            }
        }
    }
    Ok(protocol)
}

/// Fetches over either protocol.
async fn get(
    protocol: Protocol,
    wanted: &Wanted,
    out: &mut (dyn Write + Send),
) -> Result<Report, McError> {
    match protocol {
        Protocol::Mctls13 => get::get(wanted, out).await,
        Protocol::Mctls12(format) => paper::get::get(format, wanted, out).await,
    }
}

async fn fetched(arguments: GetArgs) -> Result<(), Failure> {
    let protocol = warned(&arguments.spoken)?;
    let mut via = arguments.path.via;
    let asked = &arguments.path.discovery;
    if protocol != Protocol::Mctls13 && !asked.discover.is_empty() {
        let why = "--discover: only mctls13 has middleboxes that DNS proposes";
        return Err(McError::Argument(why.into()).into());
    }
    let discovery = discovered(asked, Some(arguments.url.host()), &mut via).await?;
    if let Err(missing) = discovery.check(&via) {
        let contexts = granted(&via, arguments.path.contexts)?;
        let mut report = Report::planned(Some(arguments.url.as_str()), &via, &contexts);
        report.found = discovery.found;
        eprintln!("{}", report.to_table(colours(&io::stderr())));
        return Err(missing.into());
    }
    let wanted = Wanted {
        url: arguments.url,
        connect: arguments.connect,
        via,
        discovery,
        contexts: arguments.path.contexts,
        trust: authorities(&arguments.trust)?,
        headers: arguments.headers,
        timeout: arguments.timeout,
        less: match arguments.accept_less {
            true => Less::Accept,
            false => Less::Refuse,
        },
    };
    let report = match &arguments.output {
        None if arguments.json => get(protocol, &wanted, &mut io::sink()).await?,
        None => get(protocol, &wanted, &mut io::stdout()).await?,
        Some(path) if is_special(path) => {
            let mut special = File::create(path).map_err(file(path))?;
            get(protocol, &wanted, &mut special).await?
        }
        Some(path) => {
            // Whole or not at all: what is beside it has its name only at the end.
            let folder = path
                .parent()
                .filter(|folder| !folder.as_os_str().is_empty());
            let mut beside = tempfile::Builder::new()
                .permissions(Permissions::from_mode(0o666))
                .tempfile_in(folder.unwrap_or(Path::new(".")))
                .map_err(file(path))?;
            let report = get(protocol, &wanted, beside.as_file_mut()).await?;
            if report.outcome == Outcome::Complete {
                let kept = beside.persist(path);
                kept.map_err(|error| file_error(path, error.error))?;
            }
            report
        }
    };
    let text = serde_json::to_string(&report)? + "\n";
    if let Some(path) = &arguments.report {
        std::fs::write(path, &text).map_err(file(path))?;
    }
    if arguments.json {
        print(&text)?;
    } else {
        let colours = colours(&io::stderr());
        // What went wrong is said behind it, as by every command.
        match report.outcome {
            Outcome::Complete => eprint!("{}", report.to_text(colours)),
            Outcome::Planned | Outcome::Blocked | Outcome::Overstepped | Outcome::Failed => {
                eprintln!("{}", report.to_table(colours));
            }
        }
    }
    match (report.outcome, report.problem) {
        (Outcome::Complete, _) => Ok(()),
        (_, problem) => Err(Failure::Session(
            problem.unwrap_or_else(|| "it failed".into()),
        )),
    }
}

/// Whether this is a device or a pipe, which is written to and not replaced.
fn is_special(path: &Path) -> bool {
    path.metadata()
        .is_ok_and(|found| !found.is_file() && !found.is_dir())
}

fn explain(arguments: &ExplainArgs) -> Result<(), Failure> {
    let report = match &arguments.report {
        Some(path) => {
            let text = std::fs::read_to_string(path).map_err(file(path))?;
            serde_json::from_str(&text).map_err(|error| McError::Content {
                path: path.clone(),
                problem: format!("no report of tandem mc get ({error})"),
            })?
        }
        None => {
            let mut via = arguments.path.via.clone();
            let asked = &arguments.path.discovery;
            let discovery = match asked.discover.is_empty() {
                true => Discovery::default(),
                false => runtime::run(async { discovered(asked, None, &mut via).await })?,
            };
            let contexts = granted(&via, arguments.path.contexts)?;
            let mut report = Report::planned(None, &via, &contexts);
            report.found = discovery.found;
            report
        }
    };
    if arguments.json {
        return print(&(serde_json::to_string(&report)? + "\n"));
    }
    print(&report.to_text(colours(&io::stdout())))
}

/// Asks DNS as the arguments say, and puts what is accepted on the path.
async fn discovered(
    asked: &DiscoveryArgs,
    site: Option<&str>,
    via: &mut Vec<ViaArgument>,
) -> Result<Discovery, Failure> {
    let mut discovery = Discovery {
        found: Vec::new(),
        accepted: asked.accept.clone(),
        missing: asked.when_missing,
    };
    let servers: Vec<SocketAddr> = asked.resolver.into_iter().collect();
    for one in &asked.discover {
        let name = match (one, site) {
            (Domain::Named(name), _) => name.clone(),
            (Domain::OfUrl, Some(site)) => domain(site)
                .map_err(|_| McError::Argument("--discover: name a domain: =DOMAIN".into()))?,
            (Domain::OfUrl, None) => {
                return Err(McError::Argument("--discover: name a domain: =DOMAIN".into()).into());
            }
        };
        let by = format!("{LABEL}.{name}");
        let answer = dns::ask(&servers, &by).await;
        discovery.take(&by, answer, via);
    }
    Ok(discovery)
}

fn demonstrate() -> Result<(), Failure> {
    let colours = colours(&io::stdout());
    runtime::run(async {
        let end = runtime::asked_to_end()?;
        let mut said = Ok(());
        let shown = demo::run(colours, |text| {
            if said.is_ok() {
                said = print(&format!("{text}\n"));
            }
        });
        // Its folder goes with it, also when it is asked to end.
        if let Some(shown) = runtime::unless(end, shown).await {
            shown?;
        }
        said
    })
}

/// Colours for a terminal, unless they are not wanted (no-color.org).
fn colours(stream: &impl IsTerminal) -> Colours {
    let is_unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    match stream.is_terminal() && !is_unwanted {
        true => Colours::On,
        false => Colours::Off,
    }
}

fn file(path: &Path) -> impl FnOnce(io::Error) -> Failure {
    move |source| file_error(path, source)
}

fn file_error(path: &Path, source: io::Error) -> Failure {
    McError::File {
        path: path.to_owned(),
        source,
    }
    .into()
}

fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    written.map_err(|error| McError::Output(error).into())
}
