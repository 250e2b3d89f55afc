//! Several server sides, and client sides with keys of their own: who moves from one server side to
//! another is warm there where they share a store, and at worst cold.

mod doorstep;
mod scale;
mod shares;
#[path = "../../../tandem-shared-store/tests/support/mod.rs"]
mod support;

use std::io;
use std::sync::Mutex;
use std::time::Instant;

use tandem_channel::{ChannelKey, End, KeyName};
use tandem_engine::PeerId;
use tandem_shared_store::{Address, Valkey};
use tandem_tunnel::{Recalled, SharedStore};

use super::tls::{identity, tls_server, visit};
use super::*;
use crate::transport::Tunnel as _;
use support::{RealServer, until};

/// A client side's own key.
fn own_key(number: u8) -> [u8; 32] {
    [100 + number; 32]
}

fn name(key: &[u8; 32], end: End) -> KeyName {
    ChannelKey::of_pair(key, end).expect("a key").name()
}

/// A server side of the fleet.
struct Place {
    shared: Arc<Shared>,
    address: SocketAddr,
    _doors: Arc<Doors>,
    _store: TempDir,
}

impl Place {
    /// For the client sides with the keys 1 and 2.
    fn open(shared_store: Option<&RealServer>) -> Self {
        let shared_store = shared_store.map(|server| {
            let shared: Arc<dyn SharedStore> = Arc::new(valkey_in(server));
            shared
        });
        Self::open_with(shared_store)
    }

    fn open_with(shared_store: Option<Arc<dyn SharedStore>>) -> Self {
        Self::open_on(&Line::default(), shared_store)
    }

    fn open_on(line: &Line, shared_store: Option<Arc<dyn SharedStore>>) -> Self {
        let sockets = Sockets::bind();
        let address = sockets.udp.local_addr().expect("bound");
        let store = tempfile::tempdir().expect("a directory");
        let shared = open_shared((Role::ServerSide, "server-side"), &store, shared_store);
        let clients = [1, 2].map(|number| name(&own_key(number), End::Client));
        let Sockets { udp, tcp } = sockets;
        let doors = Doors::open(&KEY, &clients.into(), (udp, Some(tcp)), line);
        let doors = Arc::new(doors.expect("it starts"));
        serve_doors(&doors, &shared, DnsServer::Nobody);
        Self {
            shared,
            address,
            _doors: doors,
            _store: store,
        }
    }

    fn counter(&self, name: &str) -> u64 {
        counter(&self.shared.board, name)
    }
}

fn valkey_in(server: &RealServer) -> Valkey {
    let address: Address = server.address().parse().expect("an address");
    Valkey::new(address.into(), &KEY)
}

/// A store of which the answers are held back until they are let go.
#[derive(Debug)]
struct Late {
    store: Valkey,
    answers: Arc<Mutex<Answers>>,
}

#[derive(Default)]
struct Answers(Vec<(Recalled, Vec<Vec<u8>>)>);

impl std::fmt::Debug for Answers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} answers", self.0.len())
    }
}

impl SharedStore for Late {
    fn start(&self) -> io::Result<()> {
        self.store.start()
    }

    fn note(&self, peer: PeerId, note: Vec<u8>) {
        self.store.note(peer, note);
    }

    fn recall(&self, peer: PeerId, then: Recalled) {
        let answers = Arc::clone(&self.answers);
        let keep = move |notes| {
            let mut answers = answers.lock().expect("nobody panics with it");
            answers.0.push((then, notes));
        };
        self.store.recall(peer, Box::new(keep));
    }

    fn flush(&self, within: Duration) {
        self.store.flush(within);
    }

    fn numbers(&self) -> Vec<(&'static str, u64)> {
        self.store.numbers()
    }

    fn state(&self) -> String {
        self.store.state()
    }
}

fn open_shared(
    (role, name): (Role, &'static str),
    store: &TempDir,
    shared: Option<Arc<dyn SharedStore>>,
) -> Arc<Shared> {
    let facts = Facts {
        role: name,
        link: String::new(),
    };
    let held = Held {
        store: store.path(),
        authorities: None,
        renewals: Renewals::AtVisits,
        client_certificates: ClientCertificates::default(),
        shared,
    };
    Shared::open(role, held, Handshakes::Shortened, Keys::default(), facts).expect("a store")
}

/// A client side, which remembers what it has seen, wherever its tunnel leads.
struct Mover {
    shared: Arc<Shared>,
    gate: Arc<Gate>,
    key: [u8; 32],
    _store: TempDir,
}

/// A client side at a server side.
struct Stay {
    keeper: Arc<Keeper<Any>>,
}

impl Mover {
    fn new(key: [u8; 32]) -> Self {
        let store = tempfile::tempdir().expect("a directory");
        let shared = open_shared((Role::ClientSide, "client-side"), &store, None);
        let limits = ClientLimits::open(Limits::default(), store.path());
        let gate = Gate::new(
            Rules::new(Vec::new()),
            limits,
            Arc::clone(&shared.board),
            None,
        );
        Self {
            shared,
            gate: Arc::new(gate),
            key,
            _store: store,
        }
    }

    fn go_to(&self, place: &Place, over: Over) -> Stay {
        self.stay_at(place.address, over)
    }

    fn stay_at(&self, address: SocketAddr, over: Over) -> Stay {
        let (line, server) = (Line::default(), name(&KEY, End::Server));
        let board = Arc::clone(&self.shared.board);
        let (_, link) = link_state(Arc::clone(&board));
        let keeper = match over {
            Over::Udp => {
                let client = quic::Client::to(&self.key, server, address, &line);
                let (keeper, keep) = Keeper::new(client.expect("it starts"), Blocked, link, board);
                tokio::spawn(keep);
                keeper
            }
            Over::Tcp => {
                let expected = quic::expected(&line);
                let client = tcp::Client::to(&self.key, server, (address, &line), &expected);
                let (keeper, keep) = Keeper::new(Blocked, client.expect("it starts"), link, board);
                tokio::spawn(keep);
                keeper
            }
        };
        Stay {
            keeper: Arc::new(keeper),
        }
    }

    /// A visit of the site; the bytes that its handshake took on the link, both ways.
    async fn visit(&self, stay: &Stay, site: SocketAddr) -> u64 {
        let before = self.shared.board.activity();
        visit(self.client(stay, site).await).await;
        let after = || self.shared.board.activity();
        until("it is reported", || {
            after().connections > before.connections
        });
        after().crossed_bytes - before.crossed_bytes
    }

    /// A client whose connection is taken in.
    async fn client(&self, stay: &Stay, site: SocketAddr) -> TcpStream {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        let client = TcpStream::connect(address).await.expect("it listens");
        let (stream, from) = listener.accept().await.expect("it came");
        let accepted = Accepted {
            stream,
            target: Target::Address(site),
            client: from,
            first: Vec::new(),
            came: Came::Asking,
        };
        admit(
            accepted,
            ClientAddresses::Kept,
            &self.gate,
            &stay.keeper,
            None,
            &self.shared,
        );
        client
    }

    fn misses(&self) -> u64 {
        self.shared.look();
        counter_or_zero(&self.shared.board, "tunnel_hellos_missed")
    }
}

fn counter_or_zero(board: &Board, name: &str) -> u64 {
    board.snapshot().counters.get(name).copied().unwrap_or(0)
}

/// Who visits a site thrice at one server side and once at another: the bytes of the second, third
/// and last visit, and how many of its hellos were missed.
struct Moved {
    at_home: [u64; 2],
    after: u64,
    misses: u64,
}

async fn moved(shared_store: Option<&RealServer>, site: SocketAddr, over: Over) -> Moved {
    let (home, away) = (Place::open(shared_store), Place::open(shared_store));
    let mover = Mover::new(own_key(1));
    let stay = mover.go_to(&home, over);
    mover.visit(&stay, site).await;
    let at_home = [
        mover.visit(&stay, site).await,
        mover.visit(&stay, site).await,
    ];
    // What the daemon's upkeep does each second.
    home.shared.look();
    home.shared.flush_shared_store(PATIENCE);
    drop(stay);
    let stay = mover.go_to(&away, over);
    let after = mover.visit(&stay, site).await;
    Moved {
        at_home,
        after,
        misses: mover.misses(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_side_that_moves_is_warm_where_the_store_is_shared_and_cold_where_not() {
    let folder = tempfile::tempdir().expect("a directory");
    let (Some((certificate, key)), Some(valkey)) = (identity(&folder), RealServer::start(&[]))
    else {
        return;
    };
    let site = tls_server(certificate, key).await;
    for over in [Over::Udp, Over::Tcp] {
        let alone = moved(None, site, over).await;
        let together = moved(Some(&valkey), site, over).await;
        eprintln!(
            "over {over}: at home {:?}, after the move {} shared, {} not shared",
            together.at_home, together.after, alone.after
        );
        // Alone, the hello is missed and the flight crosses whole.
        assert_eq!((alone.misses, together.misses), (1, 0));
        // What a visit leaves on its way is counted with the next one.
        let at_home = together.at_home.into_iter().max().unwrap_or_default();
        assert!(
            together.after <= at_home + 60,
            "{} after {at_home}",
            together.after
        );
        assert!(alone.after > together.after + 100, "{}", alone.after);
        valkey.ask(&["FLUSHALL"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_shared_store_connections_go_on_and_moves_are_cold() {
    let folder = tempfile::tempdir().expect("a directory");
    let (Some((certificate, key)), Some(mut valkey)) = (identity(&folder), RealServer::start(&[]))
    else {
        return;
    };
    let site = tls_server(certificate, key).await;
    let (home, away) = (Place::open(Some(&valkey)), Place::open(Some(&valkey)));
    let mover = Mover::new(own_key(1));
    let stay = mover.go_to(&home, Over::Udp);
    mover.visit(&stay, site).await;
    valkey.kill();
    // The tunnel that is up does not notice.
    mover.visit(&stay, site).await;
    home.shared.look();
    let state = || {
        home.shared.look();
        home.shared.board.snapshot().notes["shared_store"].clone()
    };
    until("the status says so", || state().starts_with("down: "));
    // A new one is up as soon as it would be without.
    let since = Instant::now();
    let stay = mover.go_to(&away, Over::Udp);
    mover.visit(&stay, site).await;
    assert!(
        since.elapsed() < Duration::from_secs(20),
        "{:?}",
        since.elapsed()
    );
    assert_eq!(mover.misses(), 1);
    valkey.start_again();
    until("it is in use again", || state() == "connected");
    let stay = mover.go_to(&home, Over::Udp);
    mover.visit(&stay, site).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shared_store_that_stands_still_holds_no_tunnel_up() {
    let folder = tempfile::tempdir().expect("a directory");
    let (Some((certificate, key)), Some(valkey)) = (identity(&folder), RealServer::start(&[]))
    else {
        return;
    };
    let site = tls_server(certificate, key).await;
    let place = Place::open(Some(&valkey));
    until("it is connected", || {
        place.shared.look();
        place.shared.board.snapshot().notes["shared_store"] == "connected"
    });
    valkey.signal("STOP");
    let mover = Mover::new(own_key(1));
    let stay = mover.go_to(&place, Over::Udp);
    mover.visit(&stay, site).await;
    mover.visit(&stay, site).await;
    assert_eq!(mover.misses(), 0);
    assert_eq!(place.counter("shared_store_recalls_late"), 1);
    valkey.signal("CONT");
}

#[tokio::test(flavor = "multi_thread")]
async fn notes_that_come_after_the_tunnel_is_up_are_taken_in() {
    let folder = tempfile::tempdir().expect("a directory");
    let (Some((certificate, key)), Some(valkey)) = (identity(&folder), RealServer::start(&[]))
    else {
        return;
    };
    let site = tls_server(certificate, key).await;
    let home = Place::open(Some(&valkey));
    let mover = Mover::new(own_key(1));
    let stay = mover.go_to(&home, Over::Udp);
    mover.visit(&stay, site).await;
    home.shared.flush_shared_store(PATIENCE);
    let answers = Arc::<Mutex<Answers>>::default();
    let away = Place::open_with(Some(Arc::new(Late {
        store: valkey_in(&valkey),
        answers: Arc::clone(&answers),
    })));
    let stay = mover.go_to(&away, Over::Udp);
    until("nobody waits for them", || {
        counter_or_zero(&away.shared.board, "shared_store_recalls_late") == 1
    });
    let next = || answers.lock().expect("nobody panics with it").0.pop();
    let mut come = None;
    until("they are there", || {
        come = next();
        come.is_some()
    });
    let (then, notes) = come.expect("they have come");
    then(notes);
    until("they are taken in", || {
        counter_or_zero(&away.shared.board, "shared_store_notes_used") > 0
    });
    mover.visit(&stay, site).await;
    assert_eq!(mover.misses(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn tunnels_that_are_up_take_no_places_from_those_that_come() {
    let place = Place::open(None);
    let (line, server) = (Line::default(), name(&KEY, End::Server));
    let expected = quic::expected(&line);
    // More than one address may have at a time on their way.
    let mut up = Vec::new();
    for _ in 0..6 {
        let client = tcp::Client::to(&KEY, server, (place.address, &line), &expected);
        let tunnel = soon(client.expect("it starts").connect()).await;
        up.push(tunnel.expect("it is up"));
    }
    until("all are up", || {
        counter_or_zero(&place.shared.board, "tunnels_up") == 6
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn client_sides_with_keys_of_their_own_are_admitted_by_name_and_kept_apart() {
    let folder = tempfile::tempdir().expect("a directory");
    let Some((certificate, key)) = identity(&folder) else {
        return;
    };
    let site = tls_server(certificate, key).await;
    let place = Place::open(None);
    // Names 1 and 2 are on the list, and the pair's own client side always is.
    for key in [own_key(1), own_key(2), KEY] {
        for over in [Over::Udp, Over::Tcp] {
            let mover = Mover::new(key);
            let stay = mover.go_to(&place, over);
            let cold = mover.visit(&stay, site).await;
            let warm = mover.visit(&stay, site).await;
            assert!(warm < cold, "{warm} after {cold}");
            assert_eq!(mover.misses(), 0);
        }
    }
    assert_eq!(place.shared.peers(), 3);
    let server = name(&KEY, End::Server);
    for key in [own_key(3), own_key(4)] {
        let line = Line::default();
        let by_udp = quic::Client::to(&key, server, place.address, &line).expect("it starts");
        let expected = quic::expected(&line);
        let by_tcp = tcp::Client::to(&key, server, (place.address, &line), &expected);
        // A client's handshake of TLS 1.3 is over before the server side has seen its key.
        if let Ok(tunnel) = soon(by_udp.connect()).await {
            soon(tunnel.closed()).await;
        }
        if let Ok(tunnel) = soon(by_tcp.expect("it starts").connect()).await {
            soon(tunnel.closed()).await;
        }
    }
    let up = place.counter("tunnels_up");
    assert_eq!(up, 6, "no stranger's");
    // A server side with another key is not the one.
    let by_udp = quic::Client::to(
        &own_key(1),
        name(&own_key(1), End::Server),
        place.address,
        &Line::default(),
    );
    let error = soon(by_udp.expect("it starts").connect()).await;
    assert!(matches!(error, Err(Lost::Refused(_))), "{error:?}");
}
