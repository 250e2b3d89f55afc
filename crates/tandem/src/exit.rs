//! What can go wrong, and the exit code of each: the one place where the two meet. What the codes
//! mean: [`tandem_daemon::exit`].

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use tandem_barnraising::talk::Prospect;
use tandem_broker::BrokerError;
use tandem_broker_dns::DnsError;
use tandem_daemon::DaemonError;
use tandem_daemon::exit::Exit;
use tandem_daemon::logging::LoggingError;
use tandem_estimate::TraceError;
use tandem_firewall::FirewallError;
use tandem_packet_io::{IoError, QueueError};
use tandem_pair::{InvitationError, PairError};
use tandem_split_demo::DemoError;
use tandem_split_io::SplitIoError;
use tandem_store_sqlite::{StoreError, Warning};
use tandem_tunnel_io::TunnelError;

use crate::settings::SettingsError;

/// Why a command did not do what it was asked to.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The command line, or what it names, is wrong.
    #[error("{0}")]
    Usage(String),
    /// A file that the command line names could not be read or written.
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    /// The operating system gave no random bytes.
    #[error("no random bytes from the operating system: {0}")]
    Random(String),
    /// The settings of a proxy.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The proxy in packet mode, or asking one.
    #[error(transparent)]
    Proxy(#[from] IoError),
    /// The proxy in tunnel mode.
    #[error(transparent)]
    Tunnel(#[from] TunnelError),
    /// What was to be an invitation.
    #[error(transparent)]
    Invitation(#[from] InvitationError),
    /// The exchange with the other side.
    #[error(transparent)]
    Pair(#[from] PairError),
    /// Nobody has used an invitation.
    #[error(
        "nobody came within {minutes} minutes, and nothing was written; \
         make a new invitation when the other side is ready"
    )]
    NobodyCame {
        /// How long it was waited.
        minutes: u16,
    },
    /// The user has ended it.
    #[error("ended before the two sides were paired; nothing was written")]
    Interrupted,
    /// The other side was sent the key, and has not said that it has it.
    #[error(
        "the key was sent, but the other side did not confirm it ({source}); if the other side reports \
         that it is paired, all is well; if not, somebody else may have the key: remove {} and make a \
         new invitation",
        key.display()
    )]
    Unconfirmed {
        /// The file of the key.
        key: PathBuf,
        /// How that showed.
        source: io::Error,
    },
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A capture.
    #[error("{}: {source}", path.display())]
    Capture { path: PathBuf, source: TraceError },
    /// A capture or a store was read in part; what could be read is out already.
    #[error("{}: read in part only: {damage}", path.display())]
    ReadInPart { path: PathBuf, damage: String },
    /// A program that this one starts is not installed.
    #[error(
        "this needs the program {name}, which is neither in {} nor on the PATH; \
         `cargo build --release --package {package}` builds it from the sources",
        beside.display()
    )]
    NoProgram {
        /// Its name.
        name: &'static str,
        /// The package of the sources that has it.
        package: &'static str,
        /// The folder of this program.
        beside: PathBuf,
    },
    /// Another program could not be started.
    #[error("{} does not start: {source}", path.display())]
    Start { path: PathBuf, source: io::Error },
    /// The origin or the volunteer of SSL splitting.
    #[error(transparent)]
    Split(#[from] SplitIoError),
    /// What every daemon needs.
    #[error(transparent)]
    Daemon(#[from] DaemonError),
    /// The demonstration of SSL splitting.
    #[error(transparent)]
    Demo(#[from] DemoError),
    /// The broker, or a volunteer's membership.
    #[error(transparent)]
    Broker(#[from] BrokerError),
    /// A name server, or a look at a name.
    #[error(transparent)]
    Dns(#[from] DnsError),
    /// `tandem doctor` found what keeps the proxies from working. It has been printed.
    #[error("found: {0}; the report says what to do about each")]
    Unwell(String),
    /// Volunteers could get a certificate for a name. Why has been printed.
    #[error(
        "{name}: a volunteer could get a certificate for it, or nothing rules it out; change what is refused"
    )]
    Certificate {
        /// The name.
        name: String,
    },
    /// A public name is not served: volunteers could get a certificate for it.
    #[error(
        "{name} is not served, as a volunteer could get a certificate for it, \
         or nothing rules it out: {found}; \
         `tandem split check {name}` says what to change, \
         --i-accept-that-volunteers-may-obtain-certificates serves it as it is"
    )]
    NotServed {
        /// The name.
        name: String,
        /// What was found, in words.
        found: String,
    },
    /// Standard output takes no more.
    #[error("standard output: {0}")]
    Output(io::Error),
}

impl From<LoggingError> for Failure {
    fn from(error: LoggingError) -> Self {
        Self::Usage(error.to_string())
    }
}

impl Failure {
    /// A file that could not be read or written.
    pub(crate) fn file(path: &Path, source: io::Error) -> Self {
        Self::File {
            path: path.to_owned(),
            source,
        }
    }
}

/// The exit code of each failure. Every arm is written out: a new failure has to choose.
fn exit_of(failure: &Failure) -> Exit {
    match failure {
        Failure::Usage(_) => Exit::Usage,
        Failure::File { source, .. } => Exit::of_file(source),
        Failure::Random(_) => Exit::RunTime,
        Failure::Output(source) => Exit::of_output(source),
        Failure::Settings(error) => match error {
            SettingsError::File { source, .. } | SettingsError::TariffFile { source, .. } => {
                Exit::of_file(source)
            }
            SettingsError::Syntax { .. }
            | SettingsError::Tariff { .. }
            | SettingsError::Misplaced { .. }
            | SettingsError::Value { .. } => Exit::Usage,
        },
        Failure::Tunnel(error) => exit_of_tunnel(error),
        Failure::Invitation(error) => match error {
            InvitationError::Other | InvitationError::Version | InvitationError::Damaged => {
                Exit::Usage
            }
        },
        Failure::Pair(error) => match error {
            PairError::Unreachable { .. }
            | PairError::Expired { .. }
            | PairError::WrongKey { .. }
            | PairError::Foreign { .. }
            | PairError::BrokenOff { .. }
            | PairError::Unconfirmed { .. }
            | PairError::System { .. } => Exit::RunTime,
        },
        Failure::NobodyCame { .. } | Failure::Interrupted | Failure::Unconfirmed { .. } => {
            Exit::RunTime
        }
        Failure::Proxy(error) => match error {
            IoError::Setting { .. } => Exit::Usage,
            IoError::KeyFile { source, .. } => Exit::of_file(source),
            IoError::Firewall(error) => exit_of_firewall(error),
            IoError::Queue(error) => exit_of_queue(error),
            IoError::AdminBusy { .. } | IoError::NoMarkLeft => Exit::Busy,
            IoError::Admin { .. } | IoError::System { .. } | IoError::Status { .. } => {
                Exit::RunTime
            }
        },
        Failure::Store(error) => match error {
            StoreError::NotADirectory { .. }
            | StoreError::NoStore { .. }
            | StoreError::NotFound { .. }
            | StoreError::Ambiguous { .. } => Exit::Usage,
            StoreError::Malformed { .. } | StoreError::Damaged { .. } => Exit::Damaged,
            StoreError::Forbidden { .. } => Exit::Privilege,
            StoreError::InUse { .. } => Exit::Busy,
            StoreError::Unusable(warning) => exit_of_store(warning),
            StoreError::Output(source) => Exit::of_output(source),
            StoreError::Unreadable { .. } | StoreError::NotWritten { .. } => Exit::RunTime,
        },
        Failure::Capture { source, .. } => match source {
            TraceError::Empty | TraceError::NotACapture { .. } | TraceError::OtherFormat { .. } => {
                Exit::Damaged
            }
            TraceError::Read(source) => Exit::of_file(source),
        },
        Failure::ReadInPart { .. } => Exit::Damaged,
        Failure::NoProgram { .. } => Exit::Privilege,
        Failure::Start { source, .. } => Exit::of_file(source),
        Failure::Demo(error) => match error {
            DemoError::Part(error) => exit_of_split(error),
            DemoError::Broker(error) => exit_of_broker(error),
            DemoError::Listen { source, .. } => Exit::of_listening(source),
            DemoError::Openssl(_)
            | DemoError::Certificate(_)
            | DemoError::Folder(_)
            | DemoError::NoUri
            | DemoError::Upstream(_) => Exit::RunTime,
        },
        Failure::Broker(error) => exit_of_broker(error),
        Failure::Split(error) => exit_of_split(error),
        Failure::Daemon(error) => Exit::of_daemon(error),
        Failure::Dns(error) => exit_of_dns(error),
        Failure::Unwell(_) => Exit::RunTime,
        // DNS mends itself, or is mended, while nobody starts this by hand.
        Failure::Certificate { .. } | Failure::NotServed { .. } => Exit::RunTime,
    }
}

/// A proxy that does not get at its packets.
fn exit_of_queue(error: &QueueError) -> Exit {
    match error {
        QueueError::NoPacketQueue { .. } => Exit::Privilege,
        QueueError::QueueBusy { .. } => Exit::Busy,
        QueueError::Queue { .. } | QueueError::RawSocket { .. } => Exit::RunTime,
    }
}

/// A proxy in tunnel mode that does not start.
fn exit_of_tunnel(error: &TunnelError) -> Exit {
    match error {
        TunnelError::Setting { .. } => Exit::Usage,
        TunnelError::Daemon(error) => Exit::of_daemon(error),
        TunnelError::Firewall(error) => exit_of_firewall(error),
        TunnelError::Queue(error) => exit_of_queue(error),
        TunnelError::System { .. } => Exit::RunTime,
    }
}

/// A proxy whose rules cannot be set, in either mode.
fn exit_of_firewall(error: &FirewallError) -> Exit {
    match error {
        FirewallError::LinkName { .. } | FirewallError::NoSuchInterface { .. } => Exit::Usage,
        FirewallError::MissingCapability { .. }
        | FirewallError::MissingTool { .. }
        | FirewallError::MissingKernelFeature { .. } => Exit::Privilege,
        FirewallError::AlreadyRunning { .. } | FirewallError::NoMarkLeft => Exit::Busy,
        FirewallError::Firewall { .. }
        | FirewallError::Unlisted { .. }
        | FirewallError::Routing { .. }
        | FirewallError::System { .. } => Exit::RunTime,
    }
}

/// A name server that does not start, or a name that cannot be looked at.
fn exit_of_dns(error: &DnsError) -> Exit {
    match error {
        DnsError::Setting { .. } | DnsError::Content { .. } => Exit::Usage,
        DnsError::File { source, .. } => Exit::of_file(source),
        DnsError::Listen { source, .. } => Exit::of_listening(source),
        DnsError::Library(_) => Exit::RunTime,
    }
}

/// A broker that does not start, or that does not take a volunteer.
fn exit_of_broker(error: &BrokerError) -> Exit {
    match error {
        BrokerError::ConfigFile { source, .. } => Exit::of_file(source),
        BrokerError::ConfigSyntax { .. }
        | BrokerError::Setting { .. }
        | BrokerError::Foreign { .. }
        | BrokerError::WrongKey { .. } => Exit::Usage,
        BrokerError::Refused { refusal, .. } => match refusal.prospect() {
            Prospect::Never => Exit::Usage,
            Prospect::Later => Exit::RunTime,
        },
        BrokerError::DatabaseBusy { .. } => Exit::Busy,
        BrokerError::Database { .. } => Exit::RunTime,
        BrokerError::Dns(error) => exit_of_dns(error),
        BrokerError::Split(error) => exit_of_split(error),
    }
}

/// An origin or a volunteer that does not start.
fn exit_of_split(error: &SplitIoError) -> Exit {
    match error {
        SplitIoError::Content { .. } | SplitIoError::Setting { .. } => Exit::Usage,
        SplitIoError::File { source, .. } => Exit::of_file(source),
        SplitIoError::CacheBusy { .. } => Exit::Busy,
        SplitIoError::Daemon(error) => Exit::of_daemon(error),
        SplitIoError::System { .. } => Exit::RunTime,
    }
}

/// A store that cannot be changed, by what its warning says.
fn exit_of_store(warning: &Warning) -> Exit {
    match warning {
        Warning::InUse { .. } => Exit::Busy,
        Warning::Corrupt { .. }
        | Warning::CorruptEntries { .. }
        | Warning::NewerSchema { .. }
        | Warning::NotOurs { .. } => Exit::Damaged,
        Warning::Unwritable { .. }
        | Warning::Migrated { .. }
        | Warning::OpenDirectory { .. }
        | Warning::WriteFailed { .. }
        | Warning::WriteRecovered { .. }
        | Warning::GaveUp { .. } => Exit::RunTime,
    }
}

/// Says on standard error what went wrong, in one line, and ends with its code.
pub(crate) fn report(outcome: Result<ExitCode, Failure>) -> ExitCode {
    match outcome {
        Ok(code) => code,
        Err(failure) => exit_of(&failure).report("tandem", &failure),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_barnraising::talk::Refusal;

    fn io_error(kind: io::ErrorKind) -> io::Error {
        io::Error::from(kind)
    }

    fn other() -> io::Error {
        io_error(io::ErrorKind::Other)
    }

    fn text() -> String {
        "text".to_owned()
    }

    fn path() -> PathBuf {
        PathBuf::from("/a/path")
    }

    fn address() -> std::net::SocketAddr {
        ([127, 0, 0, 1], 9470).into()
    }

    #[test]
    fn failures_of_the_program_itself_have_these_codes() {
        let file = |kind| Failure::file(&path(), io_error(kind));
        let table = [
            (Failure::Usage(text()), Exit::Usage),
            (Failure::Random(text()), Exit::RunTime),
            (Failure::Unwell(text()), Exit::RunTime),
            (
                Failure::NoProgram {
                    name: "tandem-lab",
                    package: "tandem-lab",
                    beside: path(),
                },
                Exit::Privilege,
            ),
            (
                Failure::Start {
                    path: path(),
                    source: io_error(io::ErrorKind::PermissionDenied),
                },
                Exit::Privilege,
            ),
            (
                Failure::ReadInPart {
                    path: path(),
                    damage: text(),
                },
                Exit::Damaged,
            ),
            (file(io::ErrorKind::NotFound), Exit::Usage),
            (file(io::ErrorKind::StorageFull), Exit::RunTime),
            (
                Failure::Output(io_error(io::ErrorKind::BrokenPipe)),
                Exit::Done,
            ),
            (
                Failure::Output(io_error(io::ErrorKind::StorageFull)),
                Exit::RunTime,
            ),
        ];
        for (failure, expected) in table {
            assert_eq!(exit_of(&failure), expected, "{failure:?}");
        }
    }

    #[test]
    fn failures_of_a_broker_and_of_its_volunteers_have_these_codes() {
        let refused = |refusal| BrokerError::Refused {
            broker: text(),
            refusal,
        };
        let table = [
            (
                BrokerError::ConfigFile {
                    path: path(),
                    source: io_error(io::ErrorKind::NotFound),
                },
                Exit::Usage,
            ),
            (
                BrokerError::ConfigSyntax {
                    path: path(),
                    line: 1,
                    problem: text(),
                },
                Exit::Usage,
            ),
            (
                BrokerError::Setting {
                    key: "site",
                    problem: text(),
                },
                Exit::Usage,
            ),
            (
                BrokerError::Foreign {
                    path: path(),
                    reason: text(),
                },
                Exit::Usage,
            ),
            (BrokerError::WrongKey { broker: text() }, Exit::Usage),
            (refused(Refusal::Policy), Exit::Usage),
            (refused(Refusal::TooOften), Exit::RunTime),
            (BrokerError::DatabaseBusy { path: path() }, Exit::Busy),
            (
                BrokerError::Database {
                    path: path(),
                    reason: text(),
                },
                Exit::RunTime,
            ),
            (BrokerError::Dns(DnsError::Library(text())), Exit::RunTime),
            (
                BrokerError::Split(SplitIoError::CacheBusy { path: path() }),
                Exit::Busy,
            ),
        ];
        for (error, expected) in table {
            assert_eq!(exit_of(&Failure::Broker(error)), expected);
        }
    }

    #[test]
    fn failures_of_settings_have_these_codes() {
        let file = |kind| SettingsError::File {
            path: path(),
            source: io_error(kind),
        };
        let table = [
            (file(io::ErrorKind::NotFound), Exit::Usage),
            (file(io::ErrorKind::PermissionDenied), Exit::Privilege),
            (
                SettingsError::Syntax {
                    path: path(),
                    line: 1,
                    problem: text(),
                },
                Exit::Usage,
            ),
            (
                SettingsError::Misplaced {
                    name: "wire",
                    why: "needs --mode packet",
                },
                Exit::Usage,
            ),
            (SettingsError::value("peer", "text"), Exit::Usage),
        ];
        for (error, expected) in table {
            assert_eq!(exit_of(&Failure::Settings(error)), expected);
        }
    }

    #[test]
    fn failures_of_a_proxy_have_these_codes() {
        let table = [
            (
                IoError::Setting {
                    name: "link",
                    problem: text(),
                },
                Exit::Usage,
            ),
            (
                IoError::KeyFile {
                    path: path(),
                    source: io_error(io::ErrorKind::PermissionDenied),
                },
                Exit::Privilege,
            ),
            (
                FirewallError::MissingCapability { missing: text() }.into(),
                Exit::Privilege,
            ),
            (
                QueueError::NoPacketQueue { source: other() }.into(),
                Exit::Privilege,
            ),
            (QueueError::QueueBusy { queue: 1 }.into(), Exit::Busy),
            (
                QueueError::RawSocket { source: other() }.into(),
                Exit::RunTime,
            ),
            (IoError::AdminBusy { address: address() }, Exit::Busy),
            (IoError::NoMarkLeft, Exit::Busy),
            (
                QueueError::Queue {
                    doing: "reading",
                    source: other(),
                }
                .into(),
                Exit::RunTime,
            ),
            (
                IoError::Admin {
                    address: address(),
                    source: other(),
                },
                Exit::RunTime,
            ),
            (
                IoError::System {
                    doing: "reading",
                    source: other(),
                },
                Exit::RunTime,
            ),
            (
                IoError::Status {
                    address: address(),
                    reason: text(),
                },
                Exit::RunTime,
            ),
        ];
        for (error, expected) in table {
            assert_eq!(exit_of(&Failure::Proxy(error)), expected);
        }
    }

    #[test]
    fn failures_of_pairing_have_these_codes() {
        let at = || tandem_pair::Target::Address(address());
        let table = [
            (Failure::Invitation(InvitationError::Other), Exit::Usage),
            (Failure::Invitation(InvitationError::Damaged), Exit::Usage),
            (
                Failure::Pair(PairError::Expired { address: at() }),
                Exit::RunTime,
            ),
            (
                Failure::Pair(PairError::WrongKey { address: at() }),
                Exit::RunTime,
            ),
            (Failure::NobodyCame { minutes: 15 }, Exit::RunTime),
            (Failure::Interrupted, Exit::RunTime),
            (
                Failure::Unconfirmed {
                    key: path(),
                    source: other(),
                },
                Exit::RunTime,
            ),
        ];
        for (failure, expected) in table {
            assert_eq!(exit_of(&failure), expected, "{failure:?}");
        }
    }

    #[test]
    fn failures_of_a_tunnel_have_these_codes() {
        let listen = |kind| {
            TunnelError::Daemon(DaemonError::Listen {
                setting: "--listen",
                address: address(),
                source: io_error(kind),
            })
        };
        let table = [
            (
                TunnelError::Setting {
                    name: "peer",
                    problem: text(),
                },
                Exit::Usage,
            ),
            (
                TunnelError::Daemon(DaemonError::Busy {
                    setting: "--socks",
                    address: address(),
                }),
                Exit::Busy,
            ),
            (listen(io::ErrorKind::PermissionDenied), Exit::Privilege),
            (listen(io::ErrorKind::AddrNotAvailable), Exit::Usage),
            (listen(io::ErrorKind::Other), Exit::RunTime),
            (
                FirewallError::LinkName { problem: text() }.into(),
                Exit::Usage,
            ),
            (
                FirewallError::NoSuchInterface { link: text() }.into(),
                Exit::Usage,
            ),
            (
                FirewallError::MissingCapability { missing: text() }.into(),
                Exit::Privilege,
            ),
            (
                FirewallError::MissingTool {
                    program: text(),
                    package: "iptables",
                }
                .into(),
                Exit::Privilege,
            ),
            (
                FirewallError::MissingKernelFeature {
                    program: text(),
                    feature: "REDIRECT",
                    kernel_option: "CONFIG_NETFILTER_XT_TARGET_REDIRECT",
                    reason: text(),
                }
                .into(),
                Exit::Privilege,
            ),
            (
                FirewallError::AlreadyRunning {
                    role: "client-side",
                    link: text(),
                }
                .into(),
                Exit::Busy,
            ),
            (
                FirewallError::Firewall {
                    program: text(),
                    reason: text(),
                }
                .into(),
                Exit::RunTime,
            ),
            (
                FirewallError::Unlisted {
                    program: "iptables",
                    table: "nat",
                }
                .into(),
                Exit::RunTime,
            ),
            (FirewallError::NoMarkLeft.into(), Exit::Busy),
            (
                FirewallError::Routing { reason: text() }.into(),
                Exit::RunTime,
            ),
            (
                FirewallError::System {
                    doing: "reading",
                    source: other(),
                }
                .into(),
                Exit::RunTime,
            ),
            (
                TunnelError::System {
                    what: "threads",
                    source: other(),
                },
                Exit::RunTime,
            ),
        ];
        for (error, expected) in table {
            assert_eq!(exit_of(&Failure::Tunnel(error)), expected);
        }
    }

    #[test]
    fn failures_of_a_store_have_these_codes() {
        let in_use = || Warning::InUse {
            path: path(),
            process: Some(1),
        };
        let corrupt = Warning::Corrupt {
            path: path(),
            reason: text(),
            moved_to: path(),
        };
        let unwritable = Warning::Unwritable {
            path: path(),
            reason: text(),
        };
        let table = [
            (StoreError::NotADirectory { path: path() }, Exit::Usage),
            (StoreError::NoStore { path: path() }, Exit::Usage),
            (StoreError::NotFound { prefix: text() }, Exit::Usage),
            (
                StoreError::Ambiguous {
                    prefix: text(),
                    count: 2,
                },
                Exit::Usage,
            ),
            (
                StoreError::Malformed {
                    path: path(),
                    place: tandem_store_sqlite::Place::Line(1),
                    reason: text(),
                },
                Exit::Damaged,
            ),
            (
                StoreError::Unreadable {
                    path: path(),
                    reason: text(),
                },
                Exit::RunTime,
            ),
            (
                StoreError::Damaged {
                    path: path(),
                    reason: text(),
                },
                Exit::Damaged,
            ),
            (
                StoreError::Forbidden {
                    path: path(),
                    reason: text(),
                },
                Exit::Privilege,
            ),
            (
                StoreError::InUse {
                    path: path(),
                    process: None,
                },
                Exit::Busy,
            ),
            (StoreError::Unusable(in_use()), Exit::Busy),
            (StoreError::Unusable(corrupt), Exit::Damaged),
            (
                StoreError::Unusable(Warning::NotOurs { path: path() }),
                Exit::Damaged,
            ),
            (StoreError::Unusable(unwritable), Exit::RunTime),
            (
                StoreError::NotWritten {
                    path: path(),
                    reason: text(),
                },
                Exit::RunTime,
            ),
            (
                StoreError::Output(io_error(io::ErrorKind::BrokenPipe)),
                Exit::Done,
            ),
        ];
        for (error, expected) in table {
            assert_eq!(exit_of(&Failure::Store(error)), expected);
        }
    }

    #[test]
    fn failures_of_an_estimate_have_these_codes() {
        let table = [
            (TraceError::Empty, Exit::Damaged),
            (TraceError::NotACapture { found: vec![0; 4] }, Exit::Damaged),
            (
                TraceError::OtherFormat {
                    name: "a",
                    remedy: "b",
                },
                Exit::Damaged,
            ),
            (
                TraceError::Read(io_error(io::ErrorKind::IsADirectory)),
                Exit::Usage,
            ),
            (TraceError::Read(other()), Exit::RunTime),
        ];
        for (source, expected) in table {
            assert_eq!(
                exit_of(&Failure::Capture {
                    path: path(),
                    source
                }),
                expected
            );
        }
    }

    #[test]
    fn failures_of_splitting_have_these_codes() {
        let listen = |kind| {
            SplitIoError::Daemon(DaemonError::Listen {
                setting: "--listen",
                address: address(),
                source: io_error(kind),
            })
        };
        let table = [
            (
                SplitIoError::File {
                    path: path(),
                    source: io_error(io::ErrorKind::NotFound),
                },
                Exit::Usage,
            ),
            (
                SplitIoError::Content {
                    path: path(),
                    reason: text(),
                },
                Exit::Usage,
            ),
            (
                SplitIoError::Setting {
                    setting: "--upstream",
                    reason: text(),
                },
                Exit::Usage,
            ),
            (
                SplitIoError::Daemon(DaemonError::Busy {
                    setting: "--listen",
                    address: address(),
                }),
                Exit::Busy,
            ),
            (SplitIoError::CacheBusy { path: path() }, Exit::Busy),
            (listen(io::ErrorKind::PermissionDenied), Exit::Privilege),
            (listen(io::ErrorKind::AddrNotAvailable), Exit::Usage),
            (listen(io::ErrorKind::Other), Exit::RunTime),
            (
                SplitIoError::System {
                    what: "threads",
                    source: other(),
                },
                Exit::RunTime,
            ),
        ];
        for (error, expected) in table {
            assert_eq!(exit_of(&Failure::Split(error)), expected);
        }
    }

    #[test]
    fn failures_of_dns_have_these_codes() {
        let listen = |kind| DnsError::Listen {
            address: address(),
            source: io_error(kind),
        };
        let table = [
            (
                DnsError::Setting {
                    setting: "dns.zone",
                    reason: text(),
                },
                Exit::Usage,
            ),
            (
                DnsError::Content {
                    path: path(),
                    reason: text(),
                },
                Exit::Usage,
            ),
            (
                DnsError::File {
                    path: path(),
                    source: io_error(io::ErrorKind::NotFound),
                },
                Exit::Usage,
            ),
            (listen(io::ErrorKind::AddrInUse), Exit::Busy),
            (listen(io::ErrorKind::PermissionDenied), Exit::Privilege),
            (listen(io::ErrorKind::AddrNotAvailable), Exit::Usage),
            (listen(io::ErrorKind::Other), Exit::RunTime),
            (DnsError::Library(text()), Exit::RunTime),
        ];
        for (error, expected) in table {
            assert_eq!(exit_of(&Failure::Dns(error)), expected);
        }
        let beneath = BrokerError::Dns(listen(io::ErrorKind::AddrInUse));
        assert_eq!(exit_of(&Failure::Broker(beneath)), Exit::Busy);
        let refused = Failure::Certificate { name: text() };
        assert_eq!(exit_of(&refused), Exit::RunTime);
        let not_served = Failure::NotServed {
            name: text(),
            found: text(),
        };
        assert_eq!(exit_of(&not_served), Exit::RunTime);
    }
}
