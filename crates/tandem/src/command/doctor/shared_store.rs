//! Whether the server that several server sides share can be used (docs/adr/0039-shared-store.md).
//!
//! Is not: the look itself ([`tandem_shared_store::examine`]).

use std::time::Duration;

use tandem_packet_io::config::Key;
use tandem_shared_store::{Access, Fault, examine};

use super::report::Check;

const NAME: &str = "shared-store";

/// A tunnel that has come up waits for notes no longer (`tandem-tunnel-io/src/shared.rs`).
const PATIENCE: Duration = Duration::from_millis(50);

/// Looks at it as the server side would use it.
pub(super) fn check(access: &Access, key: Option<&Key>) -> Check {
    // Without a key the proxy does not start; the names of lists are others, and that is all.
    let key = key.map_or(&[0; 32], Key::bytes);
    of(&access.address.to_string(), examine(access, key))
}

fn of(address: &str, outcome: Result<Duration, Fault>) -> Check {
    let fault = match outcome {
        Ok(round_trip) if round_trip <= PATIENCE => {
            let found = format!("{address} takes and gives notes within {round_trip:.1?}");
            return Check::ok(NAME, found);
        }
        Ok(round_trip) => {
            return Check::warning(
                NAME,
                format!("{address} is slow: it takes {round_trip:.0?} to answer"),
                "run it near this machine: tunnels wait 50 ms for what it knows, and then start \
                 without",
            );
        }
        Err(fault) => fault,
    };
    let (found, to_do) = said(fault);
    Check::problem(
        NAME,
        format!("{address} {found}; client sides that move are cold"),
        to_do,
    )
}

/// What a fault means, after the address, and what to do.
fn said(fault: Fault) -> (String, &'static str) {
    let own = |found: &str| found.to_owned();
    match fault {
        Fault::NotThere(why) => (
            format!("cannot be reached: {why}"),
            "is Valkey or Redis running, does it listen there (`bind`, `port`, `unixsocket`), and \
             does the firewall let it through?",
        ),
        Fault::NameNotFound(why) => (
            format!("cannot be looked up: {why}"),
            "correct the name in --shared-store, or give the address",
        ),
        Fault::SocketNotPermitted => (
            own("may not be used by this user"),
            "run this as the user that the proxy runs as; give it the socket by `unixsocketperm \
             770` and the group",
        ),
        Fault::Silent => (
            own("does not answer within a second"),
            "is it overloaded or stopped, does a firewall drop packets to it, or is rediss:// for a \
             port without TLS? `valkey-cli --latency`",
        ),
        Fault::NotThis(why) => (
            format!("is no Valkey or Redis server, or only one of you speaks TLS: {why}"),
            "correct the port in --shared-store: `tls-port` there wants rediss://, `port` redis://",
        ),
        Fault::NotTrusted(why) => (
            format!("shows a certificate that is not accepted: {why}"),
            "compare --shared-store-trust with the authority of `tls-cert-file` there, and the name \
             in --shared-store with the certificate's",
        ),
        Fault::WantsCertificate => (
            own("wants a certificate of this side, which has none"),
            "`tls-auth-clients no` there, and a password",
        ),
        Fault::WantsPassword => (
            own("wants a password"),
            "put it in a file, --shared-store-password FILE",
        ),
        Fault::WrongPassword => (
            own("does not know this user or password"),
            "compare the file of --shared-store-password with `requirepass` or `ACL LIST` there",
        ),
        Fault::TakesNoPassword => (
            own("has no password, and takes none"),
            "set one there (`requirepass`), or leave --shared-store-password out",
        ),
        Fault::TooOldForUsers => (
            own("is too old for users with names"),
            "install Redis 6 or newer, or Valkey; or leave USER@ out of --shared-store",
        ),
        Fault::UnknownCommand(why) => (
            format!("is too old, or a command has been renamed: {why}"),
            "install Valkey, or Redis 6 or newer; remove `rename-command`",
        ),
        Fault::Protected => (
            own("is in protected mode, and talks to its own machine only"),
            "set a password there (`requirepass`), and --shared-store-password here",
        ),
        Fault::NoDatabase => (
            own("has no database of this number"),
            "name a lower one in --shared-store, or raise `databases` there",
        ),
        Fault::NotPermitted(why) => (
            format!("lets this user not do what is needed: {why}"),
            "`ACL SETUSER` there: ~tandem:* +ping +select +lpush +ltrim +expire +lrange",
        ),
        Fault::Replica => (
            own("is a replica, and takes no notes"),
            "name the primary server, or a name that leads to it after a failover",
        ),
        Fault::Starting => (
            own("is still starting"),
            "wait; if it stays so, see its log",
        ),
        Fault::Full => (
            own("has no memory left for notes"),
            "`maxmemory-policy allkeys-lru` there, or a higher `maxmemory`",
        ),
        Fault::DiskFails => (
            own("cannot write its file, and takes no notes"),
            "make room on its disk; notes need no file: `save \"\"`, `stop-writes-on-bgsave-error \
             no`",
        ),
        Fault::Refuses(why) => (format!("refuses: {why}"), "see its log"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::report::Verdict;
    use super::*;

    #[test]
    fn a_slow_server_is_a_warning_and_one_that_cannot_be_used_a_problem_with_what_to_do() {
        let check = of("host:6379", Ok(Duration::from_micros(310)));
        assert_eq!(check.verdict, Verdict::Ok);
        assert_eq!(
            check.found,
            "host:6379 takes and gives notes within 310.0µs"
        );
        let check = of("host:6379", Ok(Duration::from_millis(80)));
        assert_eq!(check.verdict, Verdict::Warning);
        assert_eq!(check.found, "host:6379 is slow: it takes 80ms to answer");
        let check = of("host:6379", Err(Fault::Full));
        assert_eq!(check.verdict, Verdict::Problem);
        assert_eq!(
            check.found,
            "host:6379 has no memory left for notes; client sides that move are cold"
        );
        assert!(check.to_do.is_some_and(|it| it.contains("allkeys-lru")));
    }
}
