//! How an arm is carried out: what stands between the endpoints, and what these do. A row for each
//! arm.
//!
//! Is not: what an arm is called and how it is drawn, which `tandem-report` knows.

use std::time::Duration;

use tandem_netsim::link::LinkConfig;
use tandem_report::arm::{Arm, StoreState};

use tandem_testbed::endpoints::{
    Certificates, ClientProgram, Endpoints, Releases, ServerProgram, Sessions, Version,
};
use tandem_testbed::links::LinkFigures;
use tandem_testbed::openssl::Openssl;
use tandem_testbed::other::Other;
use tandem_testbed::proxies::{Mode, Prefer, Strategy};
use tandem_testbed::topology::Family;

/// How long nothing has crossed the link when the first data come after a rest. Whatever of a
/// tunnel changes with time has changed by then:
///
/// - QUIC's acknowledgements are out (a second at the most) and its timers stopped; quinn keeps
///   its window, its round trip and its datagram's size for as long as the connection lasts;
/// - both sides have looked at the silent connection: each 10 s (`transport/nudge.rs`), each 30 s
///   (`keeper/up.rs`);
/// - no TCP connection is left to be used again, and its traces are cleared before each trial;
/// - neighbours' addresses are old: 60 s (Linux, `gc_stale_time`);
/// - the gateways' connection tracking has forgotten the datagrams' way: 120 s (Linux,
///   `nf_conntrack_udp_timeout_stream`), the longest.
///
/// What lasts longer, QUIC's idle time-out of a day, ends the tunnel and is no rest. A rest of 23
/// hours is tried in simulated time (`docs/adr/0015-quic-transport.md`).
pub(crate) const REST: Duration = Duration::from_secs(130);

/// How an arm is carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Setup {
    arm: Arm,
    daemons: Daemons,
    /// What they do with clients' own chains.
    pub(crate) strategy: Strategy,
    ends: Ends,
    /// How long the link has carried nothing when a trial begins.
    pub(crate) rest: Duration,
}

/// What stands between the endpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Daemons {
    None,
    /// Daemons that are told nothing of the link.
    Queue(Mode),
    /// Those of tunnel mode, which are told its rates and its round trip.
    Tunnel,
    /// The same, with a server side that takes the keys that servers release.
    TunnelWithKeys,
    /// The same, with a client side that takes the keys that clients release.
    TunnelWithClientKeys(Prefer),
    /// Those of tunnel mode without deltas.
    Quic,
    /// Other programs.
    Other(Other),
}

/// What the endpoints do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ends {
    /// What the file says.
    Usual,
    /// The client comes back, and the session is resumed.
    Resume(Sessions),
    /// TLS 1.3.
    Tls13(Certificates),
}

impl Setup {
    /// The table of arms.
    pub(crate) fn of(arm: Arm) -> Self {
        let routed = Self {
            arm,
            daemons: Daemons::None,
            strategy: Strategy::Persistent,
            ends: Ends::Usual,
            rest: Duration::ZERO,
        };
        let proxied = Self {
            daemons: Daemons::Queue(Mode::Safe),
            ..routed
        };
        let other = |other| Self {
            daemons: Daemons::Other(other),
            ..routed
        };
        match arm {
            Arm::Plain => routed,
            Arm::PassThrough => Self {
                daemons: Daemons::Queue(Mode::PassThrough),
                ..routed
            },
            Arm::PacketCold | Arm::Packet => proxied,
            Arm::PacketNone => Self {
                strategy: Strategy::None,
                ..proxied
            },
            Arm::PacketCii => Self {
                strategy: Strategy::Cii,
                ..proxied
            },
            Arm::PacketFilter => Self {
                strategy: Strategy::Filter,
                ..proxied
            },
            Arm::PacketMcveety => Self {
                daemons: Daemons::Queue(Mode::Mcveety),
                strategy: Strategy::Cii,
                ..routed
            },
            Arm::Tunnel | Arm::TunnelCold => Self {
                daemons: Daemons::Tunnel,
                ..routed
            },
            Arm::TunnelAsleep => Self {
                daemons: Daemons::Tunnel,
                rest: REST,
                ..routed
            },
            Arm::Quic => Self {
                daemons: Daemons::Quic,
                ..routed
            },
            Arm::Ssh => other(Other::Ssh),
            Arm::QuicZstd => other(Other::QuicZstd),
            Arm::Hysteria => other(Other::Hysteria),
            Arm::Wireguard => other(Other::Wireguard),
            Arm::Resumption => Self {
                ends: Ends::Resume(Sessions::Tickets),
                ..routed
            },
            Arm::ResumptionId => Self {
                ends: Ends::Resume(Sessions::Identifiers),
                ..routed
            },
            Arm::PacketResumption => Self {
                ends: Ends::Resume(Sessions::Tickets),
                ..proxied
            },
            Arm::Tls13 => Self {
                ends: Ends::Tls13(Certificates::Whole),
                ..routed
            },
            Arm::PacketTls13 => Self {
                ends: Ends::Tls13(Certificates::Whole),
                ..proxied
            },
            Arm::TunnelTls13 => Self {
                daemons: Daemons::Tunnel,
                ends: Ends::Tls13(Certificates::Whole),
                ..routed
            },
            Arm::TunnelConsent => Self {
                daemons: Daemons::TunnelWithKeys,
                ends: Ends::Tls13(Certificates::Whole),
                ..routed
            },
            Arm::TunnelClientConsent | Arm::TunnelClientBytes => Self {
                daemons: Daemons::TunnelWithClientKeys(match arm {
                    Arm::TunnelClientBytes => Prefer::Bytes,
                    _ => Prefer::Time,
                }),
                ends: Ends::Tls13(Certificates::Whole),
                ..routed
            },
            Arm::Rfc8879 => Self {
                ends: Ends::Tls13(Certificates::Compressed),
                ..routed
            },
        }
    }

    /// What the daemons do on this link; `None` where there are none.
    pub(crate) fn mode(self, link: &LinkConfig) -> Option<Mode> {
        match self.daemons {
            Daemons::None => None,
            Daemons::Queue(mode) => Some(mode),
            Daemons::Tunnel => Some(Mode::Tunnel(LinkFigures::of(link))),
            Daemons::TunnelWithKeys => Some(Mode::TunnelWithKeys(LinkFigures::of(link))),
            Daemons::TunnelWithClientKeys(prefer) => {
                Some(Mode::TunnelWithClientKeys(LinkFigures::of(link), prefer))
            }
            Daemons::Quic => Some(Mode::Quic(LinkFigures::of(link))),
            Daemons::Other(other) => Some(Mode::Other(other, LinkFigures::of(link))),
        }
    }

    /// Whether other programs stand in the daemons' place.
    pub(crate) fn is_of_others(self) -> bool {
        matches!(self.daemons, Daemons::Other(_))
    }

    /// What the ends do, where a file has them do `usual`.
    pub(crate) fn endpoints(self, usual: &Endpoints) -> Endpoints {
        let mut endpoints = usual.clone();
        match self.ends {
            Ends::Usual => {}
            Ends::Resume(sessions) => endpoints.sessions = sessions,
            Ends::Tls13(certificates) => {
                endpoints.version = Version::Tls13;
                endpoints.certificates = certificates;
            }
        }
        endpoints
    }

    /// Why these endpoints cannot do it; `None` where they can.
    pub(crate) fn obstacle(self, usual: &Endpoints) -> Option<&'static str> {
        if self.is_of_others() && usual.family.family() == Family::V6 {
            return Some("is IPv4 only");
        }
        if self.rest > Duration::ZERO && usual.clients > 0 {
            return Some("rests before each trial, which takes too long with many clients");
        }
        match self.ends {
            Ends::Usual => None,
            Ends::Resume(_) => {
                let can = usual.client == ClientProgram::SClient
                    && usual.server == ServerProgram::Nginx
                    && usual.version != Version::Tls13;
                (!can).then_some("needs s_client, which can keep a session, nginx and TLS 1.2")
            }
            Ends::Tls13(Certificates::Compressed) => {
                let can = match (usual.client, usual.server) {
                    (ClientProgram::Rustls, ServerProgram::Rustls) => true,
                    (ClientProgram::SClient, ServerProgram::SServer) => {
                        usual.openssl == Openssl::Current
                    }
                    (_, _) => false,
                };
                (!can).then_some("needs rustls at both ends, or OpenSSL 3.5's own programs")
            }
            Ends::Tls13(Certificates::Whole)
                if self.releases_keys() == Some(Releases::Server)
                    && usual.server == ServerProgram::Rustls =>
            {
                Some("needs a server with the system's OpenSSL")
            }
            Ends::Tls13(Certificates::Whole)
                if self.releases_keys() == Some(Releases::Client)
                    && matches!(
                        usual.client,
                        ClientProgram::Rustls | ClientProgram::GnutlsCli
                    ) =>
            {
                Some("needs a client with OpenSSL")
            }
            Ends::Tls13(Certificates::Whole) => usual
                .suites
                .is_some()
                .then_some("has no use for cipher suites of TLS 1.2"),
        }
    }

    /// The program that it takes beside those of every arm.
    pub(crate) fn program(self) -> Option<&'static str> {
        match self.daemons {
            Daemons::None
            | Daemons::Queue(_)
            | Daemons::Tunnel
            | Daemons::TunnelWithKeys
            | Daemons::TunnelWithClientKeys(_)
            | Daemons::Quic => None,
            Daemons::Other(other) => Some(other.program()),
        }
    }

    /// Who releases handshake keys, if anybody.
    pub(crate) fn releases_keys(self) -> Option<Releases> {
        match self.daemons {
            Daemons::TunnelWithKeys => Some(Releases::Server),
            Daemons::TunnelWithClientKeys(_) => Some(Releases::Client),
            Daemons::None
            | Daemons::Queue(_)
            | Daemons::Tunnel
            | Daemons::Quic
            | Daemons::Other(_) => None,
        }
    }

    /// Whether a trial is a second visit of the same client.
    pub(crate) fn resumes(self) -> bool {
        matches!(self.ends, Ends::Resume(_))
    }

    /// Whether the server's chain crosses as references.
    pub(crate) fn replaces_chains(self) -> bool {
        let has_deltas = match self.daemons {
            Daemons::Queue(_)
            | Daemons::Tunnel
            | Daemons::TunnelWithKeys
            | Daemons::TunnelWithClientKeys(_) => true,
            Daemons::None | Daemons::Quic | Daemons::Other(_) => false,
        };
        has_deltas && self.ends == Ends::Usual && self.arm.store() == StoreState::Warm
    }

    /// Whether the proxies keep anything of clients.
    pub(crate) fn remembers_clients(self) -> bool {
        self.replaces_chains() && self.strategy != Strategy::None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_rests_for_each_of_a_crowd() {
        let mut endpoints = Endpoints::three();
        let obstacle = |endpoints: &Endpoints| {
            [Arm::Tunnel, Arm::TunnelAsleep].map(|arm| Setup::of(arm).obstacle(endpoints).is_some())
        };
        assert_eq!(obstacle(&endpoints), [false, false]);
        endpoints.clients = 10;
        assert_eq!(obstacle(&endpoints), [false, true]);
    }

    #[test]
    fn arms_with_proxies_are_those_that_the_report_takes_for_such() {
        for arm in Arm::ALL {
            let setup = Setup::of(arm);
            assert_eq!(setup.daemons != Daemons::None, arm.has_proxies(), "{arm:?}");
            let is_other = matches!(setup.daemons, Daemons::Quic | Daemons::Other(_));
            let is_ours = matches!(
                setup.daemons,
                Daemons::Tunnel | Daemons::TunnelWithKeys | Daemons::TunnelWithClientKeys(_)
            );
            let is_tunnel = is_ours || is_other;
            assert_eq!(is_tunnel, arm.is_tunnel(), "{arm:?}");
            let is_ours = setup.ends == Ends::Usual && !is_other;
            assert_eq!(!is_ours, arm.is_peer(), "{arm:?}");
        }
    }
}
