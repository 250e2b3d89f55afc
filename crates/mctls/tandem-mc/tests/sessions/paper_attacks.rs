//! The attacks of `docs/mctls12.md` over sockets: real endpoints, real middleboxes of which some
//! overstep, and somebody on each hop. The table in `mctls12` says what catches each of them, or
//! what harm arrives because nothing does.

use std::sync::{Arc, Mutex};

use mctls::config::Right;
use mctls::party::{Direction, Position};
use mctls12::attacks::{Act, Attack, Outcome, SCRIPT, Seen, Tamper, all, contexts};
use mctls12::auth::Verify;
use mctls12::endpoint::Decision;
use mctls12::error::Breach;
use mctls12::fuzzing::Anybody;
use mctls12::list::{Context, MiddleboxList, Place as Address};
use mctls12::receiver::Delivery;
use mctls12::record::Records;
use mctls12::rehearsal::{Crossing, Failure};
use mctls12::relay::Passing;
use mctls12_io::middlebox::{Consent, Service, Settings, Verdict, serve};
use mctls12_io::{Error, accept, connect};
use tandem_mc::certificates::For;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::timeout;

use super::{issued, listening, patience, roots};
use crate::common::Place;

const SERVER: &str = "page.example";

fn name(number: usize) -> String {
    format!("box-{number}.example")
}

#[tokio::test]
async fn each_attack_over_sockets_is_caught_by_what_the_table_names() {
    let place = Place::new();
    place.issue(SERVER, For::Server);
    for number in 1..=2 {
        place.issue(&name(number), For::Middlebox);
    }
    let mut wrong = Vec::new();
    for mut attack in all() {
        let nothing: Tamper = Box::new(|crossing| vec![crossing]);
        let tamper = std::mem::replace(&mut attack.tamper, nothing);
        let tamper = Arc::new(Mutex::new(tamper));
        let mut outcome = Outcome::default();
        for _ in 0..attack.sessions {
            assert!(outcome.failures.is_empty(), "{}: {outcome:?}", attack.name);
            let committed = committed(&place, &attack, &tamper);
            let in_time = timeout(2 * patience().handshake, committed).await;
            outcome = in_time.unwrap_or_else(|_| panic!("{}: nobody ends it", attack.name));
        }
        wrong.extend(attack.judge(&outcome).err());
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A session under attack, from its beginning to its end.
async fn committed(place: &Place, attack: &Attack, tamper: &Arc<Mutex<Tamper>>) -> Outcome {
    let boxes = attack.acts.len();
    let (path, mut ends) = path(boxes + 1, tamper);
    let (listener, mut next) = listening().await;
    let server = tokio::spawn(server(place, attack, listener));
    // From the server to the client: each listens before anybody is told of it.
    let (mut listed, mut middleboxes) = (Vec::new(), Vec::new());
    for number in (0..=boxes).rev() {
        let (listener, address) = listening().await;
        let ways = ends.pop().expect("one for each hop");
        tokio::spawn(hop(listener, next, number, path.clone(), ways));
        listed.insert(0, address);
        let (listener, address) = listening().await;
        next = address;
        if let Some(index) = number.checked_sub(1) {
            let seen = Arc::default();
            let settings = middlebox(place, number, attack.acts[index], Arc::clone(&seen));
            let serving = tokio::spawn(async move {
                let (stream, _) = listener.accept().await.expect("the hop before it");
                serve(stream, &settings).await
            });
            middleboxes.insert(0, (serving, seen));
        }
    }
    let client = client(list(attack, listed), Arc::new(roots(place))).await;
    let mut outcome = Outcome::default();
    outcome.failures.extend(failure(0, client));
    for (at, (serving, seen)) in (1..).zip(middleboxes) {
        let ended = serving.await.expect("it has not panicked");
        outcome.failures.extend(failure(at, ended));
        let seen: Arc<Mutex<Seen>> = seen;
        outcome.boxes.push(seen.lock().expect("no panic").clone());
    }
    let (arrived, ended) = server.await.expect("it has not panicked");
    outcome.failures.extend(failure(boxes + 1, ended));
    outcome.arrived = arrived;
    outcome
}

/// What the client proposes: each address is that of the hop before a party.
fn list(attack: &Attack, addresses: Vec<String>) -> MiddleboxList {
    let last = addresses.len();
    let places = (1..).zip(addresses).map(|(number, address)| Address {
        name: if number == last {
            SERVER.to_owned()
        } else {
            name(number)
        },
        address,
    });
    let mut places: Vec<Address> = places.collect();
    let server = places.pop().expect("a server");
    MiddleboxList::new(server, places, contexts(&attack.rights)).expect("in bounds")
}

/// Who has found what. Who cannot write to a neighbour any more has been cut off by it.
fn failure(at: usize, ended: Result<(), Error>) -> Option<Failure> {
    let error = match ended.err()? {
        Error::Session(error) => error,
        Error::Io(_) => Breach::Truncated.into(),
        other => panic!("party {at}: {other}"),
    };
    Some(Failure { at, error })
}

async fn client(list: MiddleboxList, verify: Arc<dyn Verify>) -> Result<(), Error> {
    let mut session = connect(list, verify, patience()).await?;
    for (context, data) in SCRIPT {
        session.sender.send(context, data).await?;
    }
    session.sender.close().await?;
    while session.receiver.recv().await?.is_some() {}
    Ok(())
}

/// What arrives at the server, and how its session ends.
fn server(
    place: &Place,
    attack: &Attack,
    listener: TcpListener,
) -> impl Future<Output = (Vec<Delivery>, Result<(), Error>)> + use<> {
    let identity = issued(place, SERVER);
    let verify: Arc<dyn Verify> = match attack.server_verifies {
        true => Arc::new(roots(place)),
        false => Arc::new(Anybody),
    };
    let decision = Decision {
        mode: attack.mode,
        rights: attack.server_rights.clone(),
    };
    async move {
        let mut arrived = Vec::new();
        let (stream, _) = listener.accept().await.expect("the hop before it");
        let all = async {
            let decide = |_: &MiddleboxList| Some(decision.clone());
            let mut session = accept(stream, identity, verify, decide, patience()).await?;
            while let Some(delivery) = session.receiver.recv().await? {
                arrived.push(delivery);
            }
            session.sender.close().await
        };
        let ended = all.await;
        (arrived, ended)
    }
}

fn middlebox(place: &Place, number: usize, act: Act, seen: Arc<Mutex<Seen>>) -> Settings {
    let service = move || -> Box<dyn Service> {
        let seen = Arc::clone(&seen);
        Box::new(Acting { act, seen })
    };
    Settings {
        identity: issued(place, &name(number)),
        permits: Arc::new(|_: &str| true),
        service: Arc::new(service),
        timeouts: patience(),
    }
}

/// Does what the table says.
struct Acting {
    act: Act,
    seen: Arc<Mutex<Seen>>,
}

impl Service for Acting {
    fn joined(&mut self, list: &MiddleboxList, _: Position, _: &[Right]) -> Consent {
        let mut seen = self.seen.lock().expect("no panic");
        seen.server.clone_from(&list.server().name);
        Consent::Given
    }

    fn inspect(&mut self, _: Direction, context: &Context, data: &[u8]) -> Verdict {
        let mut seen = self.seen.lock().expect("no panic");
        seen.data.push((context.id, data.to_vec()));
        match self.act {
            Act::Replace(purpose, data) if context.purpose == purpose => {
                Verdict::Replace(data.to_vec())
            }
            Act::Forward | Act::Replace(..) | Act::Overstep(_) => Verdict::Forward,
        }
    }

    fn overstep<'a>(&mut self, passing: Passing<'a>, out: &mut Vec<u8>) -> Option<Passing<'a>> {
        match self.act {
            Act::Overstep(overstep) if passing.data().is_some() => overstep(passing, out),
            Act::Forward | Act::Replace(..) | Act::Overstep(_) => Some(passing),
        }
    }
}

/// Bytes for one end of a hop; none of them: the stream ends.
type Way = UnboundedSender<Vec<u8>>;

/// Where each hop's bytes leave it: towards the server, towards the client.
type Ends = [UnboundedReceiver<Vec<u8>>; 2];

/// Somebody who is on all hops.
#[derive(Clone)]
struct OnPath {
    tamper: Arc<Mutex<Tamper>>,
    ways: Arc<Vec<[Way; 2]>>,
}

fn path(hops: usize, tamper: &Arc<Mutex<Tamper>>) -> (OnPath, Vec<Ends>) {
    let hops = (0..hops).map(|_| {
        let ((to_server, at_server), (to_client, at_client)) =
            (unbounded_channel(), unbounded_channel());
        ([to_server, to_client], [at_server, at_client])
    });
    let (ways, ends): (Vec<_>, Vec<_>) = hops.unzip();
    let path = OnPath {
        tamper: Arc::clone(tamper),
        ways: Arc::new(ways),
    };
    (path, ends)
}

impl OnPath {
    fn cross(&self, crossing: Crossing) {
        let mut tamper = self.tamper.lock().expect("no attack panics");
        for Crossing {
            hop,
            direction,
            record,
        } in tamper(crossing)
        {
            let mut bytes = Vec::new();
            record.write(&mut bytes);
            self.put(hop, direction, bytes);
        }
    }

    fn put(&self, hop: usize, direction: Direction, bytes: Vec<u8>) {
        let [to_server, to_client] = &self.ways[hop];
        let way = match direction {
            Direction::ToServer => to_server,
            Direction::ToClient => to_client,
        };
        // Whoever was to get it may have gone.
        let _ = way.send(bytes);
    }

    /// Takes what crosses a hop, until that ends.
    async fn take(&self, hop: usize, direction: Direction, mut from: OwnedReadHalf) {
        let mut records = Records::new();
        let mut buffer = vec![0; 1 << 14];
        while let Ok(length @ 1..) = from.read(&mut buffer).await {
            records.push(&buffer[..length]).expect("drained");
            while let Some(record) = records.next().expect("records") {
                self.cross(Crossing {
                    hop,
                    direction,
                    record,
                });
            }
        }
        self.put(hop, direction, Vec::new());
    }
}

async fn give(mut to: OwnedWriteHalf, mut end: UnboundedReceiver<Vec<u8>>) {
    while let Some(bytes) = end.recv().await {
        if bytes.is_empty() || to.write_all(&bytes).await.is_err() {
            break;
        }
    }
    let _ = to.shutdown().await;
}

/// One hop, from whoever connects to whoever is next.
async fn hop(listener: TcpListener, next: String, number: usize, path: OnPath, ends: Ends) {
    let (before, _) = listener.accept().await.expect("a client or middlebox");
    let behind = TcpStream::connect(next).await.expect("it listens");
    let (from_client, to_client) = before.into_split();
    let (from_server, to_server) = behind.into_split();
    let [at_server, at_client] = ends;
    tokio::join!(
        path.take(number, Direction::ToServer, from_client),
        path.take(number, Direction::ToClient, from_server),
        give(to_server, at_server),
        give(to_client, at_client),
    );
}
