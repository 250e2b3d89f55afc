//! What a volunteer believes of its broker, and what it keeps of it.

use std::net::IpAddr;
use std::sync::Mutex;

use tandem_barnraising::PublicKey;
use tandem_channel::{Acceptor, Admission};
use tokio::net::TcpListener;

use super::*;

fn broker() -> ChannelKey {
    ChannelKey::from_seed(&[7; 32]).expect("a key")
}

fn uri() -> SiteUri {
    let key = broker().name();
    format!("barnraising://broker.example/www.example.org#{key}")
        .parse()
        .expect("well-formed")
}

fn list(version: u64, issued: u64, signer: &ChannelKey) -> Vec<u8> {
    let address = IpAddr::from([192, 0, 2, version as u8]);
    let list = List {
        site: uri().site,
        version,
        issued: UnixTime(issued),
        ends: UnixTime(issued + 1_000),
        members: vec![Peer::at(
            PublicKey([version as u8; 32]),
            (address, 1).into(),
        )],
    };
    list.signed(Form::All, |message| signer.sign(message).expect("it signs"))
        .expect("one member")
}

fn welcome(list: Vec<u8>) -> Welcome {
    Welcome {
        renew: 60,
        origin: "origin.example:7443".to_owned(),
        origin_key: PublicKey([3; 32]),
        list,
    }
}

fn version(known: &Known) -> Option<u64> {
    known.list.as_ref().map(|held| held.list.version)
}

/// So many seconds after some beginning, where the wall clock shows what it likes.
fn now(steady: u64, wall: u64) -> Now {
    static START: std::sync::LazyLock<Instant> = std::sync::LazyLock::new(Instant::now);
    Now {
        steady: *START + Duration::from_secs(steady),
        wall: UnixTime(wall),
    }
}

#[test]
fn a_list_counts_if_the_broker_has_signed_it_and_never_after_a_newer_one() {
    let known = take(
        &uri(),
        None,
        welcome(list(8, 5_000, &broker())),
        now(0, 5_500),
    );
    assert_eq!(version(&known), Some(8));
    let replayed = take(
        &uri(),
        Some(&known),
        welcome(list(7, 5_400, &broker())),
        now(0, 5_500),
    );
    assert_eq!(version(&replayed), Some(8), "an older one, replayed");
    let stranger = ChannelKey::fleeting().expect("a key");
    let forged = take(
        &uri(),
        Some(&known),
        welcome(list(9, 5_400, &stranger)),
        now(0, 5_500),
    );
    assert_eq!(version(&forged), Some(8), "somebody else's");
    let newer = take(
        &uri(),
        Some(&known),
        welcome(list(9, 5_400, &broker())),
        now(0, 5_500),
    );
    assert_eq!(version(&newer), Some(9));
    let silent = take(&uri(), Some(&newer), welcome(Vec::new()), now(0, 5_500));
    assert_eq!(version(&silent), Some(9), "held already");
}

#[test]
fn a_list_counts_for_its_life_from_its_arrival_whatever_the_wall_clock_says() {
    for wall in [0, 5_500, 1_000_000] {
        let arrived = now(10, wall);
        let known = take(&uri(), None, welcome(list(8, 5_000, &broker())), arrived);
        assert_eq!(known.members(arrived).len(), 1);
        assert_eq!(known.members(now(1_009, 1_000_000)).len(), 1);
        assert!(known.members(now(1_010, 0)).is_empty());
        // What counts no more is asked for again, and counts anew.
        let wish = |seconds| wish(Some(&known), 0, Told::default(), now(seconds, wall)).held;
        assert_eq!((wish(1_009), wish(1_010)), (8, 0));
        let same = welcome(list(8, 5_000, &broker()));
        let again = take(&uri(), Some(&known), same, now(1_010, wall));
        assert_eq!(again.members(now(1_011, wall)).len(), 1);
    }
}

#[test]
fn a_list_from_the_cache_counts_by_the_wall_clock() {
    let folder = tempfile::tempdir().expect("a directory");
    let path = folder.path().join(KEPT);
    let known = take(&uri(), None, welcome(list(8, 5_000, &broker())), now(0, 0));
    std::fs::write(&path, written(&uri(), &known)).expect("ours");
    let kept = read(&path, &uri()).expect("as it was written");
    assert_eq!(kept.members(now(5_000, 5_999)).len(), 1);
    assert!(kept.members(now(0, 6_000)).is_empty());
}

#[test]
fn what_is_kept_is_of_one_uri_and_keeps_older_lists_out() {
    let folder = tempfile::tempdir().expect("a directory");
    let path = folder.path().join(KEPT);
    assert!(read(&path, &uri()).is_none());
    let known = take(
        &uri(),
        None,
        welcome(list(8, 5_000, &broker())),
        now(0, 5_500),
    );
    let bytes = written(&uri(), &known);
    std::fs::write(&path, &bytes).expect("ours");
    let kept = read(&path, &uri()).expect("as it was written");
    assert_eq!(kept.origin, known.origin);
    assert_eq!(kept.renew, known.renew);
    // By now the list has ended: nobody is asked by it, and none that is older comes back.
    assert_eq!(version(&kept), Some(8));
    assert!(kept.members(Now::read()).is_empty());
    let now = wall().0;
    let older = take(
        &uri(),
        Some(&kept),
        welcome(list(7, now, &broker())),
        Now::read(),
    );
    assert_eq!(version(&older), Some(8));

    let other: SiteUri = uri()
        .to_string()
        .replace("www", "ftp")
        .parse()
        .expect("well-formed");
    assert!(read(&path, &other).is_none(), "another site's");
    for cut in [0, 10, bytes.len() / 2, bytes.len() - 1] {
        std::fs::write(&path, &bytes[..cut]).expect("ours");
        assert!(read(&path, &uri()).is_none(), "{cut}");
    }
    let mut forged = bytes.clone();
    *forged.last_mut().expect("long") ^= 1;
    std::fs::write(&path, &forged).expect("ours");
    let kept = read(&path, &uri()).expect("the origin is known all the same");
    assert_eq!(version(&kept), None);
}

#[test]
fn waits_grow_to_their_bound_and_differ() {
    let bound = Duration::from_secs(60);
    let most = bound.mul_f64(1.25);
    let waits: Vec<Duration> = (1..40).map(|failures| backoff(failures, bound)).collect();
    assert!(
        waits.iter().all(|wait| (FIRST_WAIT..most).contains(wait)),
        "{waits:?}"
    );
    assert!(waits[0] < Duration::from_secs(2));
    assert!(waits[20..].iter().all(|wait| *wait >= bound));
    assert!(waits[20..].iter().any(|wait| *wait != waits[20]));
    assert!(backoff(u32::MAX, bound) < most);
}

/// What a broker was asked: which form of lists each join reads.
type Forms = Arc<Mutex<Vec<Form>>>;

/// A broker on loopback, and what it is asked. One of an `Older` Tandem makes nothing of a question
/// of a kind that it does not know, and ends the channel.
async fn door(knows: Knows) -> (SiteUri, Forms) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let port = listener.local_addr().expect("bound").port();
    let acceptor = Acceptor::new(BROKER, &broker(), Admission::Any).expect("TLS");
    let asked = Forms::default();
    let noted = Arc::clone(&asked);
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.expect("it is there");
            let mut channel = acceptor.open(stream, Arc::default()).await.expect("TLS");
            let mut question = vec![0; channel.read_u32().await.expect("a length") as usize];
            channel.read_exact(&mut question).await.expect("a question");
            let question = Question::parse(&question).expect("whole");
            let Wish::Join(join) = question.wish else {
                panic!("{question:?}");
            };
            noted.lock().expect("ours").push(join.form);
            if knows == Knows::OneAddress && join.form == Form::All {
                continue;
            }
            let answer = Answer::Welcome(welcome(Vec::new())).write();
            channel.write_u32(answer.len() as u32).await.expect("open");
            channel.write_all(&answer).await.expect("open");
            channel.shutdown().await.expect("open");
        }
    });
    let text = uri().to_string();
    let uri = text.replace("broker.example", &format!("127.0.0.1:{port}"));
    (uri.parse().expect("well-formed"), asked)
}

#[tokio::test]
async fn a_broker_of_an_older_tandem_is_asked_as_before_and_from_one_address_alone() {
    for (knows, expected) in [
        (Knows::Addresses, vec![Form::All; 2]),
        (Knows::OneAddress, vec![Form::All, Form::One]),
    ] {
        let (uri, asked) = door(knows).await;
        let key = ChannelKey::fleeting().expect("a key");
        let access = BrokerAccess::new(uri, &key, Vec::new()).expect("TLS");
        // Both by IPv4, as loopback has one address of IPv6 at most.
        let seat = Seat {
            family: Family::V4,
            peers: 0,
            problem: None,
        };
        let mut seats = [seat.clone(), seat];
        let told = Told::default();
        let round = access.ask_for(&mut seats, None, told, Wanted::All).await;
        assert!(matches!(round, Round::Welcome(_)), "{round:?}");
        assert_eq!(*asked.lock().expect("ours"), expected);
        assert_eq!(seats[0].problem, None);
        let is_told = seats[1].problem.is_some();
        assert_eq!(is_told, knows == Knows::OneAddress);
    }
}

#[test]
fn a_seat_is_wanted_for_each_family_that_is_listened_on() {
    let sockets = |texts: &[&str]| -> Vec<SocketAddr> {
        let parsed = texts.iter().map(|text| text.parse().expect("an address"));
        parsed.collect()
    };
    let wanted = |listen: &[&str], peers: &[&str]| {
        let seats = seats(&sockets(listen), &sockets(peers));
        let shown = seats.iter().map(|seat| (seat.family, seat.peers));
        shown.collect::<Vec<_>>()
    };
    let (four, six) = (Family::V4, Family::V6);
    assert_eq!(wanted(&["0.0.0.0:443"], &["[::]:7"]), [(four, 7)]);
    assert_eq!(wanted(&["[::]:443"], &["[::]:7"]), [(four, 7), (six, 7)]);
    assert_eq!(wanted(&["[::]:443"], &["0.0.0.0:7"]), [(four, 7), (six, 0)]);
    assert_eq!(wanted(&["[2001:db8::1]:443"], &[]), [(six, 0)]);
    let each = ["[2001:db8::1]:443", "192.0.2.1:443", "192.0.2.2:443"];
    let peers = ["192.0.2.1:8", "[2001:db8::1]:9"];
    assert_eq!(wanted(&each, &peers), [(four, 8), (six, 9)]);
}

#[test]
fn after_each_failure_another_broker_is_tried_first_whatever_order_a_resolver_gives() {
    let brokers: [SocketAddr; 2] = [8, 9].map(|host| ([192, 0, 2, host], 8470).into());
    let first = |failures: usize, resolved: [usize; 2]| {
        let mut addresses = resolved.map(|index| brokers[index]);
        in_turn(&mut addresses, failures);
        addresses[0]
    };
    for failures in 0..4 {
        let one = first(failures, [0, 1]);
        assert_eq!(first(failures, [1, 0]), one);
        assert_ne!(first(failures + 1, [1, 0]), one);
    }
    let v6: SocketAddr = "[2001:db8::1]:8470".parse().expect("an address");
    let mut addresses = [v6, brokers[1], brokers[0]];
    in_turn(&mut addresses, 0);
    assert_eq!(addresses, [brokers[0], brokers[1], v6], "IPv4 comes first");
    in_turn(&mut [], 3);
}
