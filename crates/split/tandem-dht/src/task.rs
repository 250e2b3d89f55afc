//! The task that has the network: questions and announcements go out, what others say comes in.
//!
//! Is not: Kademlia, which is libp2p's.
//!
//! Invariants: the table has the members of the list and nobody else; a question is answered with
//! the first members that are found, or with nobody when all have been heard, its time is up, or
//! too many are asked; what nobody waits for any more ends; the newest things stay announced.

use std::collections::{HashMap, HashSet, VecDeque};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use futures::StreamExt as _;
use libp2p_allow_block_list::AllowedPeers;
use libp2p_core::Transport as _;
use libp2p_core::transport::TransportError;
use libp2p_core::upgrade::Version;
use libp2p_identity::{Keypair, PeerId};
use libp2p_kad::store::{MemoryStore, MemoryStoreConfig};
use libp2p_kad::{
    BucketInserts, Config, Event, GetProvidersOk, Mode, QueryId, QueryResult, RecordKey,
    StoreInserts,
};
use libp2p_swarm::{NetworkBehaviour, StreamProtocol, Swarm, SwarmEvent};
use tandem_barnraising::Peer;
use tandem_barnraising::placement::owners;
use tandem_channel::ChannelKey;
use tandem_daemon::DaemonError;
use tandem_split_io::SplitIoError;
use tandem_split_io::volunteer::Members;
use tokio::sync::{mpsc, oneshot};
use tokio::time::MissedTickBehavior;

use crate::announced::{Announced, Noted};
use crate::identity;

/// What nodes say to each other to be of one kind.
const PROTOCOL: StreamProtocol = StreamProtocol::new("/tandem-split/kad/1");
/// How long opening a connection may take.
const OPEN: Duration = Duration::from_secs(5);
/// How long a question may take; whoever asks gives up before, as a rule.
const QUERY: Duration = Duration::from_secs(10);
/// How long a connection that nobody uses stays open.
const IDLE: Duration = Duration::from_secs(60);
/// Digests of which a node knows who has them: some 64 MB at most.
const KEYS: usize = 1 << 18;
/// Digests that it announces itself, at most: the rest of those is for others'.
const OWN_KEYS: usize = KEYS / 2;
/// Questions that are under way at a time; more are answered with nobody.
const ASKED: usize = 512;
/// How often it is looked for questions whose answers nobody waits for any more.
const LOOK: Duration = Duration::from_secs(1);
/// Announcements that are under way at a time.
const AT_ONCE: usize = 16;
/// Announcements that wait for those; more are forgotten.
const WAITING: usize = 1 << 14;
/// Members that are named in answer to a question.
const NAMED: usize = 3;

#[derive(NetworkBehaviour)]
#[behaviour(prelude = "libp2p_swarm::derive_prelude")]
struct Behaviour {
    members: libp2p_allow_block_list::Behaviour<AllowedPeers>,
    table: libp2p_kad::Behaviour<MemoryStore>,
}

/// Who has what has this digest? The answer is dropped where nobody waits for it any more.
pub(crate) struct Question {
    pub(crate) digest: [u8; 32],
    pub(crate) answer: oneshot::Sender<Vec<Peer>>,
}

/// See above.
pub(crate) struct Node {
    swarm: Swarm<Behaviour>,
    own: PeerId,
    members: Members,
    known: HashMap<PeerId, Peer>,
    asked: HashMap<QueryId, (RecordKey, oneshot::Sender<Vec<Peer>>)>,
    announcing: HashSet<QueryId>,
    to_announce: VecDeque<[u8; 32]>,
    announced: Announced,
}

impl Node {
    pub(crate) fn new(
        key: &ChannelKey,
        listen: &[SocketAddr],
        members: Members,
    ) -> Result<Self, SplitIoError> {
        let start = |error: &dyn std::fmt::Display| SplitIoError::System {
            what: "Kademlia",
            source: io::Error::other(error.to_string()),
        };
        let pair = Keypair::ed25519_from_bytes(*key.secret()).map_err(|error| start(&error))?;
        let own = pair.public().to_peer_id();
        let noise = libp2p_noise::Config::new(&pair).map_err(|error| start(&error))?;
        let transport = libp2p_tcp::tokio::Transport::new(libp2p_tcp::Config::new().nodelay(true))
            .upgrade(Version::V1Lazy)
            .authenticate(noise)
            .multiplex(libp2p_yamux::Config::default())
            .timeout(OPEN)
            .boxed();
        let store = MemoryStoreConfig {
            // Who has what is all that is kept; values are nobody's to leave here.
            max_records: 0,
            max_value_bytes: 0,
            max_provided_keys: KEYS,
            ..MemoryStoreConfig::default()
        };
        let mut config = Config::new(PROTOCOL);
        config
            .set_query_timeout(QUERY)
            .set_kbucket_inserts(BucketInserts::Manual)
            .set_record_filtering(StoreInserts::Unfiltered)
            .set_periodic_bootstrap_interval(None);
        let store = MemoryStore::with_config(own, store);
        let mut table = libp2p_kad::Behaviour::with_config(own, store, config);
        table.set_mode(Some(Mode::Server));
        let behaviour = Behaviour {
            members: libp2p_allow_block_list::Behaviour::default(),
            table,
        };
        let config = libp2p_swarm::Config::with_tokio_executor().with_idle_connection_timeout(IDLE);
        let mut swarm = Swarm::new(transport, behaviour, own, config);
        for listen in of_each_family(listen) {
            swarm
                .listen_on(identity::multiaddr(listen))
                .map_err(|error| cannot_listen(listen, error))?;
        }
        let mut node = Self {
            swarm,
            own,
            members,
            known: HashMap::new(),
            asked: HashMap::new(),
            announcing: HashSet::new(),
            to_announce: VecDeque::new(),
            announced: Announced::new(OWN_KEYS),
        };
        node.follow_list();
        Ok(node)
    }

    /// Makes the table's members those of the list.
    fn follow_list(&mut self) {
        let list = self.members.borrow_and_update().clone();
        let now: HashMap<PeerId, Peer> = list
            .iter()
            .filter_map(|member| Some((identity::node(&member.key)?, *member)))
            .filter(|(node, _)| *node != self.own)
            .collect();
        let behaviour = self.swarm.behaviour_mut();
        for (node, old) in &self.known {
            if now.get(node) != Some(old) {
                behaviour.table.remove_peer(node);
            }
            if !now.contains_key(node) {
                behaviour.members.disallow_peer(*node);
            }
        }
        for (node, member) in &now {
            if self.known.get(node) == Some(member) {
                continue;
            }
            for address in identity::addresses(member) {
                behaviour.members.allow_peer(*node);
                behaviour.table.add_address(node, address);
            }
        }
        self.known = now;
    }

    fn ask(&mut self, question: Question) {
        // A list that has come is followed before anything is asked by it.
        if self.members.has_changed().unwrap_or(false) {
            self.follow_list();
        }
        if self.asked.len() >= ASKED {
            self.forget_left();
        }
        if self.asked.len() >= ASKED {
            return;
        }
        let key = RecordKey::new(&question.digest);
        let table = &mut self.swarm.behaviour_mut().table;
        let query = table.get_providers(key.clone());
        self.asked.insert(query, (key, question.answer));
    }

    /// Ends the questions of those who have given up.
    fn forget_left(&mut self) {
        let table = &mut self.swarm.behaviour_mut().table;
        self.asked.retain(|id, (_, answer)| {
            if answer.is_closed()
                && let Some(mut query) = table.query_mut(id)
            {
                query.finish();
            }
            !answer.is_closed()
        });
    }

    fn announce(&mut self, digest: [u8; 32]) {
        if self.to_announce.len() >= WAITING {
            return;
        }
        if let Noted::New { oldest } = self.announced.note(digest) {
            if let Some(oldest) = oldest {
                let table = &mut self.swarm.behaviour_mut().table;
                table.stop_providing(&RecordKey::new(&oldest));
            }
            self.to_announce.push_back(digest);
            self.announce_more();
        }
    }

    fn announce_more(&mut self) {
        while self.announcing.len() < AT_ONCE
            && let Some(digest) = self.to_announce.pop_front()
        {
            if !self.announced.has(&digest) {
                continue;
            }
            let table = &mut self.swarm.behaviour_mut().table;
            match table.start_providing(RecordKey::new(&digest)) {
                Ok(query) => {
                    self.announcing.insert(query);
                }
                Err(error) => {
                    // Another time there may be room.
                    self.announced.forget(&digest);
                    tracing::debug!(?error, "something cannot be announced");
                }
            }
        }
    }

    fn hear(&mut self, event: SwarmEvent<BehaviourEvent>) {
        let SwarmEvent::Behaviour(BehaviourEvent::Table(Event::OutboundQueryProgressed {
            id,
            result,
            step,
            ..
        })) = event
        else {
            return;
        };
        if let QueryResult::GetProviders(Ok(GetProvidersOk::FoundProviders { key, providers })) =
            &result
        {
            self.answer(id, key, providers);
        }
        if step.last {
            // Whoever asked and has no answer is told of nobody, as the other end is dropped.
            self.asked.remove(&id);
            self.announcing.remove(&id);
            self.announce_more();
        }
    }

    /// The first members that are found are enough.
    fn answer(&mut self, id: QueryId, key: &RecordKey, providers: &HashSet<PeerId>) {
        let found: Vec<Peer> = providers
            .iter()
            .filter_map(|node| self.known.get(node).copied())
            .collect();
        if found.is_empty() {
            return;
        }
        if let Some((_, answer)) = self.asked.remove(&id) {
            // Not everybody asks the same one first.
            let order = [key.as_ref(), &self.own.to_bytes()].concat();
            let named = owners(&found, &order, NAMED).into_iter().copied().collect();
            // Whoever asked may have given up.
            let _ = answer.send(named);
        }
        if let Some(mut query) = self.swarm.behaviour_mut().table.query_mut(&id) {
            query.finish();
        }
    }
}

/// These, and any address of IPv4 where one of them is any of IPv6: libp2p listens for one family
/// at each.
fn of_each_family(listen: &[SocketAddr]) -> Vec<SocketAddr> {
    let any = |address: &&SocketAddr| address.is_ipv6() && address.ip().is_unspecified();
    let more = listen.iter().filter(any).filter_map(|six| {
        let has_v4 = |other: &SocketAddr| other.is_ipv4() && other.port() == six.port();
        let is_lacking = !listen.iter().any(has_v4);
        is_lacking.then(|| SocketAddr::from((Ipv4Addr::UNSPECIFIED, six.port())))
    });
    listen.iter().copied().chain(more).collect()
}

fn cannot_listen(address: SocketAddr, error: TransportError<io::Error>) -> SplitIoError {
    let setting = "--sharing kademlia, which listens one port above --peer-listen";
    let source = match error {
        TransportError::Other(source) => source,
        TransportError::MultiaddrNotSupported(_) => io::ErrorKind::Unsupported.into(),
    };
    DaemonError::listening(setting, address, source).into()
}

/// Runs a node until its volunteer drops the other ends.
pub(crate) async fn run(
    mut node: Node,
    mut questions: mpsc::Receiver<Question>,
    mut announcements: mpsc::Receiver<[u8; 32]>,
) {
    let mut is_followed = true;
    let mut look = tokio::time::interval(LOOK);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            question = questions.recv() => match question {
                Some(question) => node.ask(question),
                None => return,
            },
            Some(digest) = announcements.recv() => node.announce(digest),
            changed = node.members.changed(), if is_followed => match changed {
                Ok(()) => node.follow_list(),
                // The list stays what it is.
                Err(_) => is_followed = false,
            },
            _ = look.tick(), if !node.asked.is_empty() => node.forget_left(),
            event = node.swarm.select_next_some() => node.hear(event),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use libp2p_kad::store::RecordStore as _;
    use tandem_barnraising::PublicKey;
    use tokio::net::TcpListener;
    use tokio::sync::watch;
    use tokio::time::timeout;

    use super::*;

    /// A node that knows one other, which accepts connections and says nothing.
    async fn beside_a_silent_one() -> (Node, TcpListener) {
        let silent = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let listens = silent.local_addr().expect("bound");
        let key = || ChannelKey::fleeting().expect("random bytes");
        let peers = SocketAddr::new(listens.ip(), listens.port() - 1);
        let member = Peer::at(PublicKey(key().name().bytes()), peers);
        let (_, members) = watch::channel(Arc::from([member]));
        let any = "127.0.0.1:0".parse().expect("an address");
        let node = Node::new(&key(), &[any], members).expect("a port");
        (node, silent)
    }

    fn question(number: usize) -> (Question, oneshot::Receiver<Vec<Peer>>) {
        let mut digest = [0; 32];
        digest[..8].copy_from_slice(&number.to_be_bytes());
        let (answer, answered) = oneshot::channel();
        (Question { digest, answer }, answered)
    }

    #[tokio::test]
    async fn a_question_ends_with_whoever_has_asked_and_no_more_than_so_many_are_asked() {
        let (mut node, _silent) = beside_a_silent_one().await;
        let mut waiting = Vec::new();
        for number in 0..ASKED {
            let (question, answered) = question(number);
            node.ask(question);
            waiting.push(answered);
        }
        let (more, mut answered) = question(ASKED);
        node.ask(more);
        assert_eq!(node.asked.len(), ASKED);
        let gone = answered.try_recv();
        assert_eq!(gone, Err(oneshot::error::TryRecvError::Closed));
        // Who has left makes room, and its question is over for the network as well.
        waiting.truncate(1);
        let (more, _answered) = question(ASKED);
        node.ask(more);
        assert_eq!(node.asked.len(), 2);
        let ends = async {
            while node.swarm.behaviour().table.iter_queries().count() > 2 {
                let event = node.swarm.select_next_some().await;
                node.hear(event);
            }
        };
        let soon = timeout(QUERY / 4, ends).await;
        assert!(soon.is_ok(), "questions go on that nobody asks");
    }

    #[tokio::test]
    async fn the_newest_stays_announced_and_the_oldest_is_let_go_of() {
        let (mut node, _silent) = beside_a_silent_one().await;
        node.announced = Announced::new(3);
        for number in 0..5_u8 {
            node.announce([number; 32]);
        }
        let provided = |node: &mut Node| {
            let store = node.swarm.behaviour_mut().table.store_mut();
            let keys = store.provided().map(|record| record.key.to_vec()[0]);
            let mut keys: Vec<u8> = keys.collect();
            keys.sort_unstable();
            keys
        };
        assert_eq!(provided(&mut node), [2, 3, 4]);
        node.announce([0; 32]);
        assert_eq!(provided(&mut node), [0, 3, 4]);
    }
}
