//! One question to DNS: which middleboxes a domain proposes.
//!
//! Is not: a resolver, which is the system's or the user's; validation: what comes is a proposal
//! whoever wrote it. Invariant: an answer or a [`Silence`] within [`PATIENCE`].

use std::fs::File;
use std::io::Read as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use hickory_net::NetError;
use hickory_net::runtime::TokioRuntimeProvider;
use hickory_net::tcp::TcpClientStream;
use hickory_net::udp::UdpClientStream;
use hickory_net::xfer::{DnsExchange, DnsHandle as _, FirstAnswer as _};
use hickory_proto::op::{DnsRequestOptions, DnsResponse, Query};
use hickory_proto::rr::{Name, RecordType};
use tokio::time::timeout;

use super::records::proposals;
use super::{PATIENCE, Proposal, Silence, Wrong};

/// How long before a server is asked again.
const RETRY: Duration = Duration::from_millis(500);
/// Most name servers (resolv.conf(5)).
const MAX_SERVERS: usize = 3;
/// The system's resolver, and how much of the file is read.
const SYSTEM: &str = "/etc/resolv.conf";
const MAX_SYSTEM: u64 = 1 << 16;
const PORT: u16 = 53;

/// Asks these name servers, or the system's where there is none, until one answers.
///
/// # Errors
/// [`Silence`]: nobody has answered, or the domain proposes nothing.
pub async fn ask(
    servers: &[SocketAddr],
    name: &str,
) -> Result<Vec<Result<Proposal, Wrong>>, Silence> {
    let broken = |error: &dyn std::fmt::Display| Silence::Broken(error.to_string());
    let mut name = Name::from_ascii(name).map_err(|error| broken(&error))?;
    name.set_fqdn(true);
    let system;
    let servers = match servers.is_empty() {
        true => {
            system = of_system(Path::new(SYSTEM));
            &system
        }
        false => servers,
    };
    let share = PATIENCE / u32::try_from(servers.len().max(1)).unwrap_or(u32::MAX);
    let asking = timeout(PATIENCE, async {
        let mut outcome = Err(Silence::Late);
        for server in servers {
            outcome = match answer(*server, &name, share).await {
                Ok(answer) => proposals(&answer),
                Err(NetError::Timeout) => Err(Silence::Late),
                Err(error) => Err(broken(&error)),
            };
            match &outcome {
                Ok(_) | Err(Silence::Nothing | Silence::Many(_)) => break,
                Err(Silence::Refused(_) | Silence::Late | Silence::Broken(_)) => {}
            }
        }
        outcome
    });
    asking.await.unwrap_or(Err(Silence::Late))
}

/// A server's answer, within this time over UDP, in which it is asked some times.
async fn answer(server: SocketAddr, name: &Name, share: Duration) -> Result<DnsResponse, NetError> {
    // The last of its clones takes with it what works for an exchange.
    let provider = TokioRuntimeProvider::default();
    let udp = UdpClientStream::builder(server, provider.clone()).with_timeout(Some(share));
    let answer = exchange(&udp.exchange(), name).await?;
    if !answer.metadata.truncation {
        return Ok(answer);
    }
    let tcp = TcpClientStream::exchange(server, None, PATIENCE, None, provider.clone()).await?;
    exchange(&tcp, name).await
}

async fn exchange(
    exchange: &DnsExchange<TokioRuntimeProvider>,
    name: &Name,
) -> Result<DnsResponse, NetError> {
    let mut options = DnsRequestOptions::default();
    options.retry_interval = RETRY;
    options.case_randomization = true;
    let query = Query::query(name.clone(), RecordType::SVCB);
    exchange.lookup(query, options).first_answer().await
}

/// The name servers of this file; without one, this machine.
fn of_system(path: &Path) -> Vec<SocketAddr> {
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(MAX_SYSTEM).read_to_string(&mut text));
    if let Err(error) = read {
        tracing::debug!(path = %path.display(), %error, "no resolver is named");
    }
    let named = text.lines().filter_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let address = (words.next() == Some("nameserver")).then(|| words.next())?;
        address?.parse::<IpAddr>().ok()
    });
    let mut servers: Vec<IpAddr> = named.take(MAX_SERVERS).collect();
    if servers.is_empty() {
        servers.push(Ipv4Addr::LOCALHOST.into());
    }
    let sockets = servers.into_iter().map(|ip| SocketAddr::new(ip, PORT));
    sockets.collect()
}

/// The address of a name server out of its text, `ADDR[:PORT]`.
///
/// # Errors
/// It is none.
pub fn server(text: &str) -> Result<SocketAddr, &'static str> {
    let ip = text.parse::<IpAddr>().map(|ip| SocketAddr::new(ip, PORT));
    ip.or_else(|_| text.parse())
        .map_err(|_| "write ADDR or ADDR:PORT, such as 192.0.2.53")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_systems_name_servers_are_those_of_its_file() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        for (text, expected) in [
            ("", &["127.0.0.1:53"][..]),
            (
                "nameserver nonsense\n#nameserver 192.0.2.9\n",
                &["127.0.0.1:53"],
            ),
            (
                "search a\nnameserver 192.0.2.1\nnameserver ::1\n",
                &["192.0.2.1:53", "[::1]:53"],
            ),
        ] {
            std::fs::write(file.path(), text).expect("ours");
            let servers = of_system(file.path());
            let servers: Vec<String> = servers.iter().map(ToString::to_string).collect();
            assert_eq!(servers, expected, "{text:?}");
        }
        assert_eq!(of_system(Path::new("/nonexistent")).len(), 1);
    }

    #[test]
    fn a_name_server_is_an_address() {
        for (text, expected) in [
            ("192.0.2.53", Some("192.0.2.53:53")),
            ("127.0.0.1:5353", Some("127.0.0.1:5353")),
            ("::1", Some("[::1]:53")),
            ("[::1]:5353", Some("[::1]:5353")),
            ("dns.example", None),
            ("", None),
        ] {
            let server = server(text).ok().map(|one| one.to_string());
            assert_eq!(server.as_deref(), expected, "{text:?}");
        }
    }
}
