//! Volunteers ask each other before the origin: what that saves, and that nobody among them can do
//! more than cost a moment.

use std::collections::HashMap;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tandem_barnraising::placement::OWNERS;
use tandem_barnraising::{Peer, PublicKey};
use tandem_channel::{Acceptor, Admission, ChannelKey, Connector, KeyName, Pin, ServerChannel};
use tandem_split::message::{
    Absent, Channel, Encodings, Found, Greeting, Message, Miss, Progress, Side,
};
use tandem_split::{Decoder, Payload, PayloadName};
use tandem_split_io::SPLIT;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::time::{sleep, timeout};

use crate::common::group::{Helper, acquaint};
use crate::common::server::body;
use crate::common::{Site, all_print, eventually, ran};

const CHUNK: usize = 16384;
/// Chunks that come with a list that is lacking.
const AHEAD: u64 = 8;

fn helpers(site: &Site, count: usize) -> Vec<Helper> {
    (0..count).map(|_| Helper::start(site, None)).collect()
}

fn total(helpers: &[Helper], name: &str) -> u64 {
    helpers.iter().map(|helper| helper.counts(name)).sum()
}

#[test]
fn the_origin_is_asked_for_each_thing_by_its_owners_alone() {
    let site = Site::new();
    let group = helpers(&site, 5);
    acquaint(&group, &[]);
    // Three objects of 64 chunks at most, and their lists.
    let chunks = 150;
    let path = format!("/bytes/{}/1", chunks * CHUNK);
    let curls = group
        .iter()
        .map(|helper| site.curl_at(helper.address, &path));
    all_print(curls, &body(chunks * CHUNK, 1));
    // The lists, and the certificate, are things too. Some chunks come with each list.
    let things = (chunks + 3 + 1) as u64;
    let asked = site.origin_counts("tandem_split_origin_misses");
    assert!(
        (things - 3 * AHEAD..=things * OWNERS as u64).contains(&asked),
        "{asked} questions for {things} things"
    );
    assert_eq!(asked, total(&group, "misses"));
    assert!(total(&group, "peer_hits") >= things * 2);
    assert_eq!(total(&group, "peer_wrong"), 0);
    let payload_bytes = (chunks * CHUNK) as u64;
    assert!(total(&group, "peer_received_bytes") > 2 * payload_bytes);
    assert!(total(&group, "peer_sent_bytes") > total(&group, "peer_received_bytes"));
    // Whoever was served has it himself now.
    for helper in &group {
        let before = helper.counts("peer_misses") + helper.counts("misses");
        assert!(ran(&mut site.curl_at(helper.address, &path)).stdout == body(chunks * CHUNK, 1));
        assert_eq!(
            helper.counts("peer_misses") + helper.counts("misses"),
            before
        );
    }
}

#[test]
fn a_member_that_cannot_be_reached_at_one_address_is_asked_at_the_other() {
    let site = Site::new();
    let six = "[::1]:0".parse().expect("an address");
    let group = [
        Helper::start(&site, None),
        Helper::start_at(&site, None, six),
    ];
    // Nobody listens at its address of IPv4 any more.
    let gone = {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        listener.local_addr().expect("bound")
    };
    let both = group[1].member.and(gone);
    assert_eq!(
        both.addresses().next(),
        Some(gone),
        "it is asked there first"
    );
    let members: Arc<[Peer]> = [group[0].member, both].into();
    for helper in &group {
        helper.members.send_replace(Arc::clone(&members));
    }
    let path = format!("/bytes/{}/1", 20 * CHUNK);
    assert!(ran(&mut site.curl_at(group[0].address, &path)).stdout == body(20 * CHUNK, 1));
    assert!(group[0].counts("peer_hits") > 0);
    assert_eq!(group[0].counts("peer_failures"), 0);
}

#[test]
fn a_new_file_of_up_to_eight_chunks_crosses_with_its_list_whoever_meets_it_first() {
    let site = Site::new();
    let group = helpers(&site, 4);
    acquaint(&group, &[]);
    for helper in &group {
        // What belongs to the connection is there from now on.
        assert!(ran(&mut site.curl_at(helper.address, "/bytes/10/1")).stdout == body(10, 1));
    }
    let len = AHEAD as usize * CHUNK;
    let files = 6;
    let asked = || site.origin_counts("tandem_split_origin_misses");
    let hits = || total(&group, "peer_hits");
    let (asked_before, hits_before) = (asked(), hits());
    for file in 0..files {
        let seed = 100 + file as u64;
        let path = format!("/bytes/{len}/{seed}");
        for helper in 0..group.len() {
            let helper = &group[(file + helper) % group.len()];
            assert!(ran(&mut site.curl_at(helper.address, &path)).stdout == body(len, seed));
        }
    }
    // One question for each file, for its list and all its chunks; where a volunteer did not answer
    // in time, on a busy machine, those that gave it up have asked as well.
    let asked = asked() - asked_before;
    let most = (files * group.len()) as u64;
    assert!((files as u64..=most).contains(&asked), "{asked} questions");
    // The others have it from whoever has the list. What comes before it is asked for is no hit.
    let hits = hits() - hits_before;
    assert!(hits >= files as u64, "{hits} hits");
    assert_eq!(total(&group, "peer_wrong"), 0);
    assert_eq!(total(&group, "failed_clients"), 0);
}

#[test]
fn two_who_each_take_the_other_for_the_owner_ask_the_origin() {
    let site = Site::new();
    let group = helpers(&site, 2);
    for (one, other) in [(0, 1), (1, 0)] {
        let member = group[other].member;
        group[one].members.send_replace(Arc::new([member]));
    }
    // Each answers the other only if the other is a member for it, which is so; neither finds
    // itself on the list.
    let path = format!("/bytes/{}/1", 20 * CHUNK);
    let curls = group
        .iter()
        .map(|helper| site.curl_at(helper.address, &path));
    all_print(curls, &body(20 * CHUNK, 1));
    assert!(site.origin_counts("tandem_split_origin_misses") <= 2 * 22);
}

#[test]
fn joins_and_leaves_under_load_cost_no_client_anything() {
    let site = Site::new();
    let stay = helpers(&site, 3);
    acquaint(&stay, &[]);
    let (done, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for (number, helper) in stay.iter().enumerate() {
            let (site, done, is_over) = (&site, &done, &is_over);
            scope.spawn(move || {
                for round in 0.. {
                    if is_over.load(Ordering::Relaxed) {
                        return;
                    }
                    // Some that others have had, some that nobody has had.
                    let seed = if round % 2 == 0 {
                        round
                    } else {
                        1000 * number + round
                    };
                    let path = format!("/bytes/300000/{seed}");
                    let out = ran(&mut site.curl_at(helper.address, &path));
                    assert!(out.stdout == body(300_000, seed as u64), "{path}");
                    done.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        // A panic here must end the others, too.
        let ending = EndsAll(&is_over);
        let mut passing: Vec<Helper> = Vec::new();
        for step in 0..8 {
            let before = done.load(Ordering::Relaxed);
            eventually("clients are served all the while", || {
                done.load(Ordering::Relaxed) >= before + 4
            });
            match step % 4 {
                // Somebody comes, and then somebody more.
                0 | 1 => passing.push(Helper::start(&site, None)),
                // One goes without a word: the list still has it.
                2 => drop(passing.pop().expect("two came")),
                // The list learns of it, and another goes that the list has lost already.
                _ => {
                    let gone = passing.pop();
                    tell(&stay, &passing);
                    drop(gone);
                }
            }
            if step % 4 < 2 {
                tell(&stay, &passing);
            }
        }
        drop(ending);
    });
    assert!(total(&stay, "peer_hits") > 0);
    assert_eq!(total(&stay, "failed_clients"), 0);
    assert_eq!(total(&stay, "peer_wrong"), 0);
}

struct EndsAll<'a>(&'a AtomicBool);

impl Drop for EndsAll<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// All who are there know of all who are there.
fn tell(stay: &[Helper], passing: &[Helper]) {
    let members: Vec<Peer> = passing.iter().map(|helper| helper.member).collect();
    acquaint(stay, &members);
    for helper in passing {
        let all = stay[0].members.borrow().clone();
        helper.members.send_replace(all);
    }
}

/// Somebody with a key and a port, who does what `answer` does with each channel.
struct Impostor {
    member: Peer,
    channels: Arc<AtomicUsize>,
    _runtime: Runtime,
}

impl Impostor {
    fn start<F>(answer: impl Fn(ServerChannel) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let runtime = Runtime::new().expect("a runtime");
        let key = ChannelKey::fleeting().expect("random bytes");
        let acceptor = Acceptor::new(SPLIT, &key, Admission::Any).expect("TLS");
        let listener = runtime
            .block_on(tokio::net::TcpListener::bind("127.0.0.1:0"))
            .expect("a free port");
        let peers = listener.local_addr().expect("bound");
        let channels = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&channels);
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                if let Ok(channel) = acceptor.open(stream, Arc::default()).await {
                    counted.fetch_add(1, Ordering::Relaxed);
                    tokio::spawn(answer(channel));
                }
            }
        });
        Self {
            member: member(&key, peers),
            channels,
            _runtime: runtime,
        }
    }
}

fn member(key: &ChannelKey, peers: SocketAddr) -> Peer {
    Peer::at(PublicKey(key.name().bytes()), peers)
}

/// Greets as it should, and answers every question for a payload with other bytes, for a list with
/// nothing.
async fn lie(mut channel: ServerChannel) {
    let mut decoder = Decoder::new(Side::Volunteer);
    let mut buffer = vec![0; 16 << 10];
    while let Ok(len @ 1..) = channel.read(&mut buffer).await {
        assert_eq!(decoder.push(&buffer[..len]), len);
        let mut out = Vec::new();
        while let Ok(Some(message)) = decoder.next_message() {
            match message {
                Message::Greeting(greeting) => greeting.answer(Encodings::DEFAULT).write(&mut out),
                Message::Miss(Miss::Payload(PayloadName::Sha256(digest))) => {
                    let at = out.len();
                    let payload = Payload::new(vec![7; 1000]).expect("short");
                    Message::Found(Found::new(&payload)).write(&mut out);
                    out[at + 6..at + 38].copy_from_slice(&digest);
                }
                Message::Miss(miss) => {
                    Message::Absent(Absent(miss)).write(&mut out);
                }
                other => panic!("{other:?}"),
            }
        }
        if channel.write_all(&out).await.is_err() || channel.flush().await.is_err() {
            return;
        }
    }
}

#[test]
fn who_lies_is_counted_and_passed_over_and_no_client_notices() {
    let site = Site::new();
    let group = helpers(&site, 2);
    let liar = Impostor::start(lie);
    acquaint(&group, &[liar.member]);
    let len = 100 * CHUNK;
    let path = format!("/bytes/{len}/1");
    for helper in &group {
        assert!(ran(&mut site.curl_at(helper.address, &path)).stdout == body(len, 1));
        assert!(helper.counts("peer_wrong") > 0);
        assert_eq!(helper.counts("failed_clients"), 0);
    }
    let wrong = total(&group, "peer_wrong");
    let other = format!("/bytes/{len}/2");
    for helper in &group {
        assert!(ran(&mut site.curl_at(helper.address, &other)).stdout == body(len, 2));
    }
    assert_eq!(total(&group, "peer_wrong"), wrong, "it is not asked again");
    assert_eq!(liar.channels.load(Ordering::Relaxed), group.len());
}

#[test]
fn who_answers_some_and_keeps_others_waiting_is_passed_over_too() {
    let site = Site::new();
    let group = helpers(&site, 1);
    let len = 800 * CHUNK;
    // Gives half of the chunks, one after the other, so that it is never silent for long, and says
    // nothing of the others: about 200 of all would be asked of it in vain if it were never
    // passed over.
    let chunks: HashMap<PayloadName, Payload> = body(len, 1)
        .chunks(CHUNK)
        .map(|chunk| Payload::new(chunk).expect("short"))
        .map(|payload| (payload.name(), payload))
        .filter(|(name, _)| name.as_bytes()[0] % 2 == 0)
        .collect();
    let (chunks, withheld) = (Arc::new(chunks), Arc::new(AtomicUsize::new(0)));
    let count = Arc::clone(&withheld);
    let miser = Impostor::start(move |channel| {
        keep_waiting(channel, Arc::clone(&chunks), Arc::clone(&count))
    });
    acquaint(&group, &[miser.member]);
    let start = Instant::now();
    let path = format!("/bytes/{len}/1");
    assert!(ran(&mut site.curl_at(group[0].address, &path)).stdout == body(len, 1));
    // After ten seconds it is asked again, and then after twenty.
    let withheld = withheld.load(Ordering::Relaxed);
    assert!(
        withheld < 100 || start.elapsed() > Duration::from_secs(30),
        "{withheld}"
    );
    assert!(group[0].counts("peer_failures") > 0);
    assert_eq!(group[0].counts("failed_clients"), 0);
}

async fn keep_waiting(
    mut channel: ServerChannel,
    chunks: Arc<HashMap<PayloadName, Payload>>,
    withheld: Arc<AtomicUsize>,
) {
    let mut decoder = Decoder::new(Side::Volunteer);
    let mut buffer = vec![0; 16 << 10];
    while let Ok(len @ 1..) = channel.read(&mut buffer).await {
        assert_eq!(decoder.push(&buffer[..len]), len);
        let (mut out, mut given) = (Vec::new(), Vec::new());
        while let Ok(Some(message)) = decoder.next_message() {
            match message {
                Message::Greeting(greeting) => greeting.answer(Encodings::DEFAULT).write(&mut out),
                Message::Miss(Miss::Payload(name)) => match chunks.get(&name) {
                    Some(payload) => given.push(payload),
                    None => {
                        withheld.fetch_add(1, Ordering::Relaxed);
                    }
                },
                Message::Miss(miss) => Absent(miss).write(&mut out),
                other => panic!("{other:?}"),
            }
        }
        for payload in given {
            sleep(Duration::from_millis(50)).await;
            Message::Found(Found::new(payload)).write(&mut out);
            if channel.write_all(&out).await.is_err() || channel.flush().await.is_err() {
                return;
            }
            out.clear();
        }
        if channel.write_all(&out).await.is_err() || channel.flush().await.is_err() {
            return;
        }
    }
}

/// Says each second that what is asked for is coming, and gives one of the chunks each ten seconds
/// that it is asked for and has.
async fn trickle(mut channel: ServerChannel, chunks: Arc<HashMap<PayloadName, Payload>>) {
    let mut decoder = Decoder::new(Side::Volunteer);
    let mut buffer = vec![0; 16 << 10];
    let mut asked = Vec::new();
    for tenths in 0_u32.. {
        let mut out = Vec::new();
        match timeout(Duration::from_millis(100), channel.read(&mut buffer)).await {
            Ok(Ok(len @ 1..)) => assert_eq!(decoder.push(&buffer[..len]), len),
            Ok(_) => return,
            Err(_) => {}
        }
        while let Ok(Some(message)) = decoder.next_message() {
            match message {
                Message::Greeting(greeting) => greeting.answer(Encodings::DEFAULT).write(&mut out),
                Message::Miss(Miss::Payload(name)) => asked.push(name),
                Message::Miss(Miss::Object { .. }) => {}
                other => panic!("{other:?}"),
            }
        }
        let is_greeted = decoder.greeting().is_some();
        if is_greeted && tenths % 10 == 0 {
            Message::Progress(Progress::Coming).write(&mut out);
        }
        if is_greeted && tenths % 100 == 0 {
            let given = asked.iter().position(|name| chunks.contains_key(name));
            if let Some(name) = given.map(|at| asked.remove(at)) {
                Message::Found(Found::new(&chunks[&name])).write(&mut out);
            }
        }
        if channel.write_all(&out).await.is_err() || channel.flush().await.is_err() {
            return;
        }
    }
}

/// How long a file takes through a volunteer whose only peer trickles, and that it is asked nothing
/// more afterwards.
fn trickled(chunks: HashMap<PayloadName, Payload>, len: usize) -> Duration {
    let chunks = Arc::new(chunks);
    let hostile = Impostor::start(move |channel| trickle(channel, Arc::clone(&chunks)));
    costs_once(hostile, len)
}

/// The same with somebody else as the only peer.
fn costs_once(hostile: Impostor, len: usize) -> Duration {
    let site = Site::new();
    let group = helpers(&site, 1);
    acquaint(&group, &[hostile.member]);
    let start = Instant::now();
    let path = format!("/bytes/{len}/1");
    let mut curl = site.curl_at(group[0].address, &path);
    assert!(ran(curl.args(PATIENT)).stdout == body(len, 1));
    let took = start.elapsed();
    assert!(group[0].counts("peer_failures") > 0);
    let asked = group[0].counts("peer_misses");
    let path = format!("/bytes/{len}/2");
    assert!(ran(&mut site.curl_at(group[0].address, &path)).stdout == body(len, 2));
    assert_eq!(group[0].counts("peer_misses"), asked, "for five minutes");
    assert_eq!(group[0].counts("failed_clients"), 0);
    took
}

/// A client that waits longer than the volunteer.
const PATIENT: [&str; 2] = ["--max-time", "300"];

#[test]
fn who_says_that_it_is_coming_and_gives_nothing_costs_half_a_minute_once() {
    let took = trickled(HashMap::new(), 60 * CHUNK);
    // A list or the first chunks, and no more than one of both.
    let range = Duration::from_secs(29)..Duration::from_secs(50);
    assert!(range.contains(&took), "{took:?}");
}

/// Says once that things are coming, then that it lacks one of them, and nothing of the others.
async fn promise(mut channel: ServerChannel) {
    let mut decoder = Decoder::new(Side::Volunteer);
    let mut buffer = vec![0; 16 << 10];
    let mut first = None;
    loop {
        let mut out = Vec::new();
        match timeout(Duration::from_secs(1), channel.read(&mut buffer)).await {
            Ok(Ok(len @ 1..)) => assert_eq!(decoder.push(&buffer[..len]), len),
            Ok(_) => return,
            Err(_) => {
                if let Some(miss) = first.take() {
                    Message::Absent(Absent(miss)).write(&mut out);
                }
            }
        }
        while let Ok(Some(message)) = decoder.next_message() {
            match message {
                Message::Greeting(greeting) => {
                    greeting.answer(Encodings::DEFAULT).write(&mut out);
                    Message::Progress(Progress::Coming).write(&mut out);
                }
                Message::Miss(miss @ Miss::Object { .. }) => {
                    Message::Absent(Absent(miss)).write(&mut out);
                }
                Message::Miss(miss) => first = first.or(Some(miss)),
                other => panic!("{other:?}"),
            }
        }
        if channel.write_all(&out).await.is_err() || channel.flush().await.is_err() {
            return;
        }
    }
}

#[test]
fn who_falls_silent_after_it_has_said_that_it_is_coming_costs_twenty_seconds_once() {
    // Of the chunks that do not come with the list, some are asked of it, fewer than are excused.
    let took = costs_once(Impostor::start(promise), (AHEAD as usize + 15) * CHUNK);
    assert!(took < Duration::from_secs(40), "{took:?}");
}

#[test]
fn who_gives_a_little_all_the_time_costs_a_minute_once() {
    let len = 60 * CHUNK;
    let chunks = body(len, 1)
        .chunks(CHUNK)
        .map(|chunk| Payload::new(chunk).expect("short"))
        .map(|payload| (payload.name(), payload))
        .collect();
    let took = trickled(chunks, len);
    // If it is asked for the list, too, it has given nothing by then.
    assert!(took < Duration::from_secs(90), "{took:?}");
}

#[test]
fn who_asks_is_told_that_the_origin_is_asked_if_it_knows_that_word() {
    let site = Site::new();
    // Takes connections, and says nothing.
    let deaf = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let to_origin = deaf.local_addr().expect("bound");
    let loopback = "127.0.0.1:0".parse().expect("an address");
    let helper = Helper::behind(to_origin, site.origin_key, None, loopback);
    let key = ChannelKey::fleeting().expect("random bytes");
    let asker = member(&key, "127.0.0.1:1".parse().expect("an address"));
    helper.members.send_replace(Arc::new([asker]));
    let pin = Pin::to(KeyName::from_bytes(helper.member.key.0));
    let connector = Connector::new(SPLIT, &key, pin).expect("TLS");
    let runtime = Runtime::new().expect("a runtime");
    for (version, word) in [(4, &b"C\x03\x03\0\0"[..]), (3, &b""[..])] {
        let mut question = Vec::new();
        let greeting = Greeting {
            version,
            ..Greeting::new(Channel::Misses, Encodings::DEFAULT)
        };
        greeting.write(&mut question);
        Message::Miss(Miss::Payload(PayloadName::sha256(b"lacking"))).write(&mut question);
        let heard = runtime.block_on(async {
            let stream = TcpStream::connect(helper.peers).await?;
            let mut channel = connector.open(stream).await?;
            channel.write_all(&question).await?;
            let mut heard = Vec::new();
            // The second word would come later, and only if something had come from the origin.
            let reading = channel.read_to_end(&mut heard);
            let _ = timeout(Duration::from_secs(4), reading).await;
            Ok::<_, std::io::Error>(heard)
        });
        let heard = heard.expect("a member's channel opens");
        let (greeted, said) = heard.split_at(9);
        assert_eq!(greeted[5], version, "{heard:?}");
        assert_eq!(said, word, "version {version}");
    }
}

#[test]
fn who_is_dead_or_silent_costs_a_moment_once() {
    let site = Site::new();
    let key = ChannelKey::fleeting().expect("random bytes");
    let dead = {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        member(&key, listener.local_addr().expect("bound"))
    };
    // Takes connections, and not even TLS is spoken.
    let deaf = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let key = ChannelKey::fleeting().expect("random bytes");
    let deaf_member = member(&key, deaf.local_addr().expect("bound"));
    // Opens the channel, hears the questions, and says nothing.
    let silent = Impostor::start(|mut channel| async move {
        let mut heard = Vec::new();
        let _ = channel.read_to_end(&mut heard).await;
    });
    for at_fault in [dead, deaf_member, silent.member] {
        let group = helpers(&site, 1);
        acquaint(&group, &[at_fault]);
        let len = 60 * CHUNK;
        let seed = at_fault.addresses().map(|one| u64::from(one.port())).sum();
        let path = format!("/bytes/{len}/{seed}");
        let start = Instant::now();
        assert!(ran(&mut site.curl_at(group[0].address, &path)).stdout == body(len, seed));
        let took = start.elapsed();
        // A second for the list or the first chunks; that and the second half of the window are all
        // that may wait for it.
        assert!(took < Duration::from_secs(8), "{took:?}");
        let failures = group[0].counts("peer_failures");
        assert!(failures > 0, "{at_fault:?}");
        // For ten seconds it is not asked again; nothing here takes as long, unless the machine is
        // very busy.
        let other = format!("/bytes/{len}/{}", seed + 1);
        let asked = group[0].counts("peer_misses");
        assert!(ran(&mut site.curl_at(group[0].address, &other)).stdout == body(len, seed + 1));
        if start.elapsed() < Duration::from_secs(9) {
            assert_eq!(group[0].counts("peer_misses"), asked);
        }
        assert_eq!(group[0].counts("failed_clients"), 0);
    }
}

#[test]
fn who_is_no_member_is_refused_and_who_was_one_is_heard_no_more() {
    let site = Site::new();
    let group = helpers(&site, 1);
    let helper = &group[0];
    let path = format!("/bytes/{CHUNK}/1");
    assert!(ran(&mut site.curl_at(helper.address, &path)).stdout == body(CHUNK, 1));
    let name = PayloadName::sha256(&body(CHUNK, 1));
    let runtime = Runtime::new().expect("a runtime");
    let stranger = ChannelKey::fleeting().expect("random bytes");
    let connector = Connector::new(
        SPLIT,
        &stranger,
        Pin::to(KeyName::from_bytes(helper.member.key.0)),
    )
    .expect("TLS");
    let mut question = Vec::new();
    Greeting::new(Channel::Misses, Encodings::DEFAULT).write(&mut question);
    Message::Miss(Miss::Payload(name)).write(&mut question);
    let asks = || async {
        let stream = TcpStream::connect(helper.peers).await?;
        let mut channel = connector.open(stream).await?;
        channel.write_all(&question).await?;
        Ok::<_, std::io::Error>(channel)
    };
    let answer = |len: usize| {
        runtime.block_on(async {
            let mut answer = Vec::new();
            if let Ok(channel) = asks().await {
                let mut channel = channel.take(len as u64);
                let _ = timeout(Duration::from_secs(20), channel.read_to_end(&mut answer)).await;
            }
            answer
        })
    };
    // In TLS 1.3 a client learns of its refusal only when it reads.
    assert_eq!(answer(1), b"");
    eventually("it is counted", || helper.counts("refused_peers") == 1);

    // Greeting, then the payload with its head.
    let whole = 9 + 5 + 33 + CHUNK;
    let stranger_member = member(&stranger, "127.0.0.1:1".parse().expect("an address"));
    acquaint(&group, &[stranger_member]);
    assert_eq!(answer(whole).len(), whole);

    // A client's connection does not pass by this port.
    let mut greeting = Vec::new();
    Greeting::new(Channel::Connection, Encodings::DEFAULT).write(&mut greeting);
    let connections = site.origin_counts("tandem_split_origin_connections");
    let after = runtime.block_on(async {
        let stream = TcpStream::connect(helper.peers).await?;
        let mut channel = connector.open(stream).await?;
        channel.write_all(&greeting).await?;
        let mut said = Vec::new();
        let _ = channel.read_to_end(&mut said).await;
        Ok::<_, std::io::Error>(said)
    });
    assert_eq!(after.expect("a member's channel opens").len(), 9);
    assert_eq!(
        site.origin_counts("tandem_split_origin_connections"),
        connections
    );

    // Who has a channel open when he is taken off the list gets no more answers.
    let mut channel = runtime.block_on(asks()).expect("still a member");
    let mut first = vec![0; whole];
    runtime
        .block_on(channel.read_exact(&mut first))
        .expect("an answer");
    acquaint(&group, &[]);
    let mut again = Vec::new();
    Message::Miss(Miss::Payload(name)).write(&mut again);
    let more = runtime.block_on(async {
        let _ = channel.write_all(&again).await;
        let mut more = Vec::new();
        let _ = channel.read_to_end(&mut more).await;
        more
    });
    assert_eq!(more, b"");
}
