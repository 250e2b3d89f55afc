//! The rules and limits of the client side put to work: a connection that was taken in goes on into
//! the tunnel, to its server from here, or nowhere.
//!
//! Is not: the decision ([`Rules`]), nor what happens in the tunnel.
//!
//! Invariants: nothing of a connection crosses the tunnel before it is decided; that waits for the
//! client's hello where a rule goes by its name, and no longer than [`NAME_WAIT`]; no byte of the
//! client is lost by it.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tandem_engine::PeerId;
use tandem_link::tunnel::{Open, Target};
use tandem_tunnel::{
    Action, Allowed, Decision, FirstFlight, Hello, Rules, ServerName, Standing, WayOut,
};
use tokio::io::AsyncReadExt as _;
use tokio::time::{Instant, timeout_at};

use super::Accepted;
use super::passing_on::PassingOn;
use crate::board::{Board, Tally};
use crate::dial::{Dialer, OwnAddresses};
use crate::endpoint::Endpoint;
use crate::limits::{ClientLimits, Meter};

/// How long a client may take for a hello that is waited for. As long as a relay holds one
/// (`tandem_tunnel::CLIENT_HOLD`): it is on this side of the link.
const NAME_WAIT: Duration = tandem_tunnel::CLIENT_HOLD;

/// See the module.
pub(crate) struct Gate {
    rules: Rules,
    limits: Option<Arc<ClientLimits>>,
    board: Arc<Board>,
    /// For programs of this machine.
    own_dialer: Arc<Dialer>,
    /// For other machines, which do not get at this one's own services in this way.
    dialer: Arc<Dialer>,
    passing_on: PassingOn,
}

impl Gate {
    /// Connections to servers from here carry this mark.
    pub(crate) fn new(
        rules: Rules,
        limits: Option<Arc<ClientLimits>>,
        board: Arc<Board>,
        mark: Option<u32>,
    ) -> Self {
        let dialer = |own| {
            let dialer = Dialer::new(Allowed::everything(), WayOut::Own, Arc::clone(&board));
            Arc::new(dialer.marked(mark).with_own_addresses(own))
        };
        Self {
            rules,
            limits,
            own_dialer: dialer(OwnAddresses::AsAllowed),
            dialer: dialer(OwnAddresses::Never),
            board,
            passing_on: PassingOn::new(),
        }
    }

    /// What passes connections on.
    pub(super) fn passing_on(&self) -> &PassingOn {
        &self.passing_on
    }

    /// Whether a client that waits for the word may be told that it is connected. Where that
    /// depends on its hello, it may.
    pub(super) fn permits(&self, client: IpAddr, target: &Target) -> bool {
        match self.rules.decide(client, target, ServerName::Awaited) {
            Decision::Now(Action::Refuse) => {
                self.count_refusal(client, target);
                false
            }
            Decision::Now(Action::Tunnel) => self.has_bytes(client),
            Decision::Now(Action::Direct) | Decision::WithName => true,
        }
    }

    /// The connection, if it is to go through the tunnel. Otherwise the rest has been seen to.
    pub(crate) async fn pass(&self, mut accepted: Accepted) -> Option<Accepted> {
        let action = match self.decide(&accepted, ServerName::Awaited) {
            Decision::Now(action) => action,
            Decision::WithName => {
                let Ok(name) = hello(&mut accepted).await else {
                    // The client has broken it off.
                    return None;
                };
                let name = name
                    .as_deref()
                    .map_or(ServerName::Unsaid, ServerName::Known);
                match self.decide(&accepted, name) {
                    Decision::Now(action) => action,
                    // There is nothing more to wait for.
                    Decision::WithName => Action::Refuse,
                }
            }
        };
        let client = accepted.client.ip();
        match action {
            Action::Tunnel if self.has_bytes(client) => Some(accepted),
            Action::Tunnel => {
                drop(Endpoint::new(accepted.stream));
                None
            }
            Action::Direct => {
                self.board.count(Tally::RelaysDirect, 1);
                tracing::debug!(%client, target = %accepted.target, "by the rules: direct");
                self.pass_on(accepted);
                None
            }
            Action::Refuse => {
                self.count_refusal(client, &accepted.target);
                // The client sees a reset.
                drop(Endpoint::new(accepted.stream));
                None
            }
        }
    }

    /// What becomes of a client's datagrams to this target. There is no hello to wait for.
    pub(crate) fn decide_on_datagrams(&self, client: IpAddr, target: &Target) -> Action {
        match self.rules.decide(client, target, ServerName::Unsaid) {
            Decision::Now(Action::Tunnel) if self.has_bytes(client) => Action::Tunnel,
            Decision::Now(Action::Direct) => Action::Direct,
            Decision::Now(Action::Tunnel) => Action::Refuse,
            Decision::Now(Action::Refuse) | Decision::WithName => {
                self.count_refusal(client, target);
                Action::Refuse
            }
        }
    }

    /// What counts for a client in the tunnel, if it is limited.
    pub(crate) fn meter(&self, client: IpAddr) -> Option<Meter> {
        self.limits.as_ref().map(|limits| limits.meter(client))
    }

    /// Whether the client may use the link today; one that may not is counted.
    fn has_bytes(&self, client: IpAddr) -> bool {
        let standing = self.limits.as_ref().map(|limits| limits.standing(client));
        match standing {
            None | Some(Standing::Within) => true,
            Some(Standing::Reached | Standing::AtLimit) => {
                self.board.count(Tally::RelaysRefusedByLimit, 1);
                tracing::debug!(%client, "refused: it has reached its limit");
                false
            }
        }
    }

    fn decide(&self, accepted: &Accepted, name: ServerName<'_>) -> Decision {
        let client = accepted.client.ip();
        self.rules.decide(client, &accepted.target, name)
    }

    /// The connection goes to its server from here, as the tunnel is down.
    pub(crate) fn pass_without_tunnel(&self, accepted: Accepted) {
        self.board.count(Tally::RelaysPassedWithoutTunnel, 1);
        let (client, target) = (accepted.client, &accepted.target);
        tracing::debug!(%client, %target, "without a tunnel it goes directly");
        self.pass_on(accepted);
    }

    fn pass_on(&self, accepted: Accepted) {
        let Accepted {
            stream,
            target,
            client,
            first,
            came: _,
        } = accepted;
        let dialer = self.dialer_of(client.ip());
        let connect = async move { dialer.dial(Open::to(target), PeerId::OTHER_END).await };
        self.passing_on.start(stream, first, connect);
    }

    /// What makes connections from here for this client.
    pub(crate) fn dialer_of(&self, client: IpAddr) -> Arc<Dialer> {
        let is_own = client.to_canonical().is_loopback();
        let dialer = if is_own {
            &self.own_dialer
        } else {
            &self.dialer
        };
        Arc::clone(dialer)
    }

    fn count_refusal(&self, client: IpAddr, target: &Target) {
        self.board.count(Tally::RelaysRefusedByRule, 1);
        tracing::debug!(%client, %target, "refused by the rules");
    }
}

/// The name in the client's hello; `None` if it says none, or not in time. What is read of the
/// client is kept.
///
/// # Errors
/// The connection has failed.
async fn hello(accepted: &mut Accepted) -> io::Result<Option<String>> {
    let end = Instant::now() + NAME_WAIT;
    let mut flight = FirstFlight::default();
    loop {
        match flight.read(&accepted.first) {
            Hello::Named(name) => return Ok(Some(name)),
            Hello::Unnamed => return Ok(None),
            Hello::Unfinished => {}
        }
        match timeout_at(end, accepted.stream.read_buf(&mut accepted.first)).await {
            // The end, which is read again, or too late.
            Ok(Ok(0)) | Err(_) => return Ok(None),
            Ok(read) => _ = read?,
        }
    }
}
