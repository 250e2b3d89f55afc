//! What can go wrong with the firewall, a link or a lock, by who is at fault.
//!
//! Is not: an exit code; the programs have these.
//!
//! Invariant: each message is one line and says what to do.

use std::io;

/// Why rules could not be set or removed, or a daemon could not start.
#[derive(Debug, thiserror::Error)]
pub enum FirewallError {
    /// The name of the link is none. Fault: the user.
    #[error("link: {problem}")]
    LinkName {
        /// What is wrong with it and what would be right.
        problem: String,
    },
    /// The link is no interface of this machine.
    #[error("there is no network interface {link}; `ip link` lists those there are")]
    NoSuchInterface {
        /// The name that was given.
        link: String,
    },
    /// A capability is missing. Fault: how the program was started.
    #[error(
        "missing capabilities: {missing}; run it as root, or let systemd grant them \
         (in tunnel mode: /usr/share/doc/tandem/examples/tunnel-firewall.conf)"
    )]
    MissingCapability {
        /// The names of those that are missing.
        missing: String,
    },
    /// A program is missing.
    #[error("cannot find the program {program}; install the package {package}")]
    MissingTool {
        /// The program.
        program: String,
        /// Debian's package that holds it.
        package: &'static str,
    },
    /// The kernel lacks something that the rules need.
    #[error("{program} cannot use {feature} here: {reason}; enable {kernel_option} in the kernel")]
    MissingKernelFeature {
        /// `iptables` or `ip6tables`.
        program: String,
        /// The match or target.
        feature: &'static str,
        /// The kernel option to enable.
        kernel_option: &'static str,
        /// What the program said.
        reason: String,
    },
    /// The same daemon runs already.
    #[error("another tandem {role} runs on {link}; stop it first")]
    AlreadyRunning {
        /// `client-side` or `server-side`.
        role: &'static str,
        /// The link.
        link: String,
    },
    /// Setting or removing the firewall's rules failed.
    #[error("{program} failed: {reason}; see the rules with {program}-save")]
    Firewall {
        /// The program.
        program: String,
        /// What it said.
        reason: String,
    },
    /// A table cannot be shown, so that rules there could not be looked after.
    #[error(
        "{program}-save does not show the table {table}, which has rules that were made with nft; move those to a table of another name (`nft list ruleset` shows them)"
    )]
    Unlisted {
        /// `iptables` or `ip6tables`.
        program: &'static str,
        /// The table.
        table: &'static str,
    },
    /// Setting or removing routes failed.
    #[error("ip failed: {reason}; see `ip rule` and `ip route show table all`")]
    Routing {
        /// What the program said.
        reason: String,
    },
    /// Every mark is in use.
    #[error("the rules of other proxies use all marks; stop one of them")]
    NoMarkLeft,
    /// A call of the operating system failed.
    #[error("{doing} failed: {source}")]
    System {
        /// What was being done.
        doing: &'static str,
        /// The system's reason.
        source: io::Error,
    },
}

impl FirewallError {
    pub(crate) fn system(doing: &'static str, source: impl Into<io::Error>) -> Self {
        FirewallError::System {
            doing,
            source: source.into(),
        }
    }
}
