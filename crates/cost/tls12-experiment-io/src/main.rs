//! `tls12-experiment`: the experiment's programs, for the lab. Never for real traffic.

use std::io::BufRead;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args, Parser, Subcommand, ValueEnum};
use tls12_experiment::client::{CertificateOrder, Remedy, Start};
use tls12_experiment::server::CachedInfo;
use tls12_experiment::three_way::{Freshness, Secrecy, Share, ShareId, ThreeWay, Unprotected};
use tls12_experiment::{ClientConfig, ServerConfig};
use tls12_experiment_io::own::{self, Early, Memory};
use tls12_experiment_io::stock::{self, Stock};
use tls12_experiment_io::{Failure, Roots, Visit, hold, identity};

/// How many first flights a server remembers.
const MEMORY: usize = 100_000;

/// Seconds for which clients keep a server's share.
const LIFETIME: u32 = 24 * 60 * 60;

/// EXPERIMENT, for measurements only: a TLS 1.2 that caches certificates or sends its key exchange
/// in the first flight, and TLS of rustls beside it. Never use it for real traffic
#[derive(Debug, Parser)]
#[command(name = "tls12-experiment", version, max_term_width = 100)]
enum Cli {
    #[command(flatten)]
    Command(Program),
}

#[derive(Debug, Subcommand)]
enum Program {
    /// Give one answer to every request
    Serve(ServeArgs),
    /// Visit a server, once or several times
    Get(GetArgs),
    /// Hold certificates that clients send ahead until the server asks for them
    Hold(HoldArgs),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Stack {
    /// The experiment
    Own,
    /// rustls: TLS 1.2 in full
    Tls12,
    /// rustls: TLS 1.2 with tickets
    Ticket,
    /// rustls: TLS 1.3 in full
    Tls13,
    /// rustls: TLS 1.3 with early data
    ZeroRtt,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Try {
    /// TLS 1.2 of the experiment
    Plain,
    /// The same, with the request beside the client's Finished (RFC 7918)
    FalseStart,
    /// Certificates that the client has are left out (RFC 7924)
    CachedInfo,
    /// The key exchange goes in the first flight
    ThreeWay,
    /// The key exchange and the request go in the first flight
    ThreeWayEarly,
    /// rustls: TLS 1.2 in full
    Tls12,
    /// rustls: TLS 1.2 with tickets
    Ticket,
    /// rustls: TLS 1.3 in full
    Tls13,
    /// rustls: TLS 1.3 with early data
    ZeroRtt,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Keys {
    /// The share's alone, as the proposal has it
    Static,
    /// The share's and an ephemeral one: forward secrecy
    Ephemeral,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Replays {
    /// A full handshake for first flights that were seen before
    Refused,
    /// They are answered each time
    Accepted,
}

#[derive(Debug, Args)]
struct ServeArgs {
    /// Where to listen
    #[arg(long, value_name = "ADDR:PORT")]
    listen: SocketAddr,

    /// The certificates, leaf first
    #[arg(long, value_name = "FILE")]
    chain: PathBuf,

    /// The leaf's private key
    #[arg(long, value_name = "FILE")]
    key: PathBuf,

    /// What the answer's body is
    #[arg(long, value_name = "TEXT", default_value = "an answer\n")]
    body: String,

    /// Whose TLS
    #[arg(long, value_enum, default_value = "own")]
    stack: Stack,

    /// Keys of three-way handshakes
    #[arg(long, value_enum, default_value = "static")]
    keys: Keys,

    /// What happens to first flights that come again
    #[arg(long, value_enum, default_value = "refused")]
    replays: Replays,
}

#[derive(Debug, Args)]
struct GetArgs {
    /// The server
    #[arg(value_name = "ADDR:PORT")]
    address: SocketAddr,

    /// Its name
    #[arg(long, value_name = "NAME")]
    name: String,

    /// The authorities that it may have
    #[arg(long, value_name = "FILE")]
    roots: PathBuf,

    /// The path that is asked for
    #[arg(long, value_name = "PATH", default_value = "/")]
    path: String,

    /// What is tried
    #[arg(long = "try", value_enum, default_value = "plain")]
    attempt: Try,

    /// How often
    #[arg(long, value_name = "N", default_value_t = 1)]
    visits: u32,

    /// Wait for a line on standard input before each visit but the first
    #[arg(long)]
    stepwise: bool,

    /// Certificates of the client
    #[arg(long, value_name = "FILE", requires = "key")]
    chain: Option<PathBuf>,

    /// Their key
    #[arg(long, value_name = "FILE", requires = "chain")]
    key: Option<PathBuf>,

    /// Send the certificates behind the hello; the server needs `hold` before it
    #[arg(long, requires = "chain")]
    ahead: bool,
}

#[derive(Debug, Args)]
struct HoldArgs {
    /// Where to listen
    #[arg(long, value_name = "ADDR:PORT")]
    listen: SocketAddr,

    /// The server
    #[arg(long, value_name = "ADDR:PORT")]
    server: SocketAddr,
}

fn listen(address: SocketAddr) -> Result<TcpListener, Failure> {
    TcpListener::bind(address).map_err(|error| Failure::Socket {
        doing: "listen",
        error,
    })
}

const fn stock_of(stack: Stack) -> Option<Stock> {
    match stack {
        Stack::Own => None,
        Stack::Tls12 => Some(Stock::Tls12),
        Stack::Ticket => Some(Stock::Ticket),
        Stack::Tls13 => Some(Stock::Tls13),
        Stack::ZeroRtt => Some(Stock::ZeroRtt),
    }
}

fn serve(arguments: &ServeArgs) -> Result<(), Failure> {
    let listener = listen(arguments.listen)?;
    let body = &arguments.body;
    let head = format!("HTTP/1.0 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
    let answer: Arc<[u8]> = [head.as_bytes(), body.as_bytes()].concat().into();
    if let Some(stock) = stock_of(arguments.stack) {
        let config = stock::server(stock, &arguments.chain, &arguments.key)?;
        return stock::serve(&listener, &config, &answer);
    }
    let id = ShareId(*own::random::<8>()?);
    let share = Share::new(id, &*own::random::<32>()?, LIFETIME);
    let share = share.map_err(tls12_experiment::Error::from)?;
    let freshness: Arc<dyn Freshness> = match arguments.replays {
        Replays::Refused => Arc::new(Memory::new(MEMORY)),
        Replays::Accepted => Arc::new(Unprotected),
    };
    let config = ServerConfig {
        identity: identity(&arguments.chain, &arguments.key)?,
        cached_info: CachedInfo::Used,
        three_way: Some(ThreeWay {
            share: Arc::new(share),
            freshness,
            secrecy: match arguments.keys {
                Keys::Static => Secrecy::Static,
                Keys::Ephemeral => Secrecy::Ephemeral,
            },
        }),
    };
    own::serve(&listener, &Arc::new(config), &answer)
}

/// How the experiment's client does it; `None`: rustls does.
const fn own_of(attempt: Try) -> Option<(Remedy, Start, Early)> {
    Some(match attempt {
        Try::Plain => (Remedy::Plain, Start::AfterFinished, Early::Never),
        Try::FalseStart => (Remedy::Plain, Start::False, Early::Never),
        Try::CachedInfo => (Remedy::CachedInfo, Start::AfterFinished, Early::Never),
        Try::ThreeWay => (Remedy::ThreeWay, Start::AfterFinished, Early::Never),
        Try::ThreeWayEarly => (Remedy::ThreeWay, Start::AfterFinished, Early::Request),
        Try::Tls12 | Try::Ticket | Try::Tls13 | Try::ZeroRtt => return None,
    })
}

fn get(arguments: &GetArgs) -> Result<(), Failure> {
    let (path, name) = (&arguments.path, &arguments.name);
    let request = format!("GET {path} HTTP/1.0\r\nHost: {name}\r\n\r\n").into_bytes();
    if let Some((remedy, start, early)) = own_of(arguments.attempt) {
        let own = arguments.chain.as_ref().zip(arguments.key.as_ref());
        let config = Arc::new(ClientConfig {
            name: name.clone(),
            verify: Arc::new(Roots::read(&arguments.roots)?),
            remedy,
            start,
            identity: own.map(|(chain, key)| identity(chain, key)).transpose()?,
            order: if arguments.ahead {
                CertificateOrder::Ahead
            } else {
                CertificateOrder::WhenAsked
            },
        });
        let mut known = None;
        return visits(arguments, || {
            own::visit(arguments.address, &config, &mut known, &request, early)
        });
    }
    let stock = match arguments.attempt {
        Try::Ticket => Stock::Ticket,
        Try::Tls13 => Stock::Tls13,
        Try::ZeroRtt => Stock::ZeroRtt,
        Try::Tls12
        | Try::Plain
        | Try::FalseStart
        | Try::CachedInfo
        | Try::ThreeWay
        | Try::ThreeWayEarly => Stock::Tls12,
    };
    let config = stock::client(stock, &arguments.roots)?;
    visits(arguments, || {
        stock::visit(arguments.address, &config, name, &request)
    })
}

/// Prints a line for each visit: which handshake it was, microseconds to the first byte of the
/// answer, and the answer's bytes.
#[expect(clippy::print_stdout, reason = "it is what this program prints")]
fn visits(
    arguments: &GetArgs,
    mut visit: impl FnMut() -> Result<Visit, Failure>,
) -> Result<(), Failure> {
    let mut lines = std::io::stdin().lock().lines();
    for number in 0..arguments.visits {
        if arguments.stepwise && number > 0 && lines.next().is_none() {
            return Ok(());
        }
        let visit = visit()?;
        println!(
            "{} {} {}",
            visit.kind,
            visit.first_byte.as_micros(),
            visit.answer.len()
        );
    }
    Ok(())
}

fn main() -> ExitCode {
    let Cli::Command(program) = Cli::parse();
    let ended = match &program {
        Program::Serve(arguments) => serve(arguments),
        Program::Get(arguments) => get(arguments),
        Program::Hold(arguments) => {
            listen(arguments.listen).and_then(|listener| hold::hold(&listener, arguments.server))
        }
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("tls12-experiment: {failure}");
            ExitCode::FAILURE
        }
    }
}
