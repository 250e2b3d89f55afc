//! The service alone: records go in one by one, as a relay hands them over, and a local fake stands
//! for the ICAP server.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use mctls::config::{Configuration, Context, Middlebox, Right, Terms};
use mctls::party::{Direction, Position};
use mctls::suite::Suite;
use mctls_io::middlebox::{HELD_LEN, MAX_WAITING};
use mctls_io::{Consent, Service as _, Verdict};
use tokio::time::timeout;

use super::{Icap, Rules};
use crate::layout::contexts;
use crate::settings::{BoxSettings, WhenDead};

/// Long enough for a busy machine.
const PATIENCE: Duration = Duration::from_secs(10);

const UNCHANGED: &str = "ICAP/1.0 204 No Content\r\n\r\n";

/// What a fake has been asked, each message with its body.
type Heard = Arc<Mutex<Vec<String>>>;

/// A fake that says this to each whole message, and its address.
fn fake(says: impl Fn(&str) -> String + Send + Sync + 'static) -> (String, Heard) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound").to_string();
    let heard = Heard::default();
    let (says, all) = (Arc::new(says), Arc::clone(&heard));
    // It ends with the process of the test.
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (says, all) = (Arc::clone(&says), Arc::clone(&all));
            let mut stream = stream.expect("a client");
            std::thread::spawn(move || {
                while let Some(message) = whole(&mut stream) {
                    let answer = match message.starts_with("OPTIONS") {
                        true => OPTIONS.to_owned(),
                        false => says(&message),
                    };
                    if !message.starts_with("OPTIONS") {
                        all.lock().expect("no panic with it").push(message);
                    }
                    // Whoever has gone need not be told.
                    let _ = stream.write_all(answer.as_bytes());
                }
            });
        }
    });
    (address, heard)
}

const OPTIONS: &str = "ICAP/1.0 200 OK\r\nMethods: REQMOD, RESPMOD\r\nAllow: 204\r\n\
    Encapsulated: null-body=0\r\n\r\n";

/// The next message; `None` at the end of the connection.
fn whole(stream: &mut TcpStream) -> Option<String> {
    let mut heard = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&heard);
        // Heads have no length of their own, and bodies come in chunks.
        let heads = text.matches("-hdr=").count();
        let is_whole = match text.contains("-body=") && !text.contains("null-body=") {
            true => text.ends_with("\r\n0\r\n\r\n"),
            false => text.matches("\r\n\r\n").count() > heads,
        };
        if is_whole && !text.is_empty() {
            return Some(text.into_owned());
        }
        match stream.read(&mut piece) {
            Ok(length @ 1..) => heard.extend_from_slice(&piece[..length]),
            Ok(_) | Err(_) => return None,
        }
    }
}

/// An answer with this message in it, with a body in chunks or none.
fn message(side: &str, head: &str, body: &str) -> String {
    let part = match body {
        "" => "null",
        _ => side,
    };
    let at = head.len();
    let body = match body {
        "" => String::new(),
        _ => format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len()),
    };
    format!("ICAP/1.0 200 OK\r\nEncapsulated: {side}-hdr=0, {part}-body={at}\r\n\r\n{head}{body}")
}

/// What a record takes at least where it waits.
const fn taken(data: &[u8]) -> usize {
    2 * data.len() + HELD_LEN
}

/// A relay's part: records wait in order, and what goes on is noted.
struct Relayed {
    icap: Icap,
    context: Context,
    direction: Direction,
    waiting: VecDeque<Vec<u8>>,
    /// What those take.
    held: usize,
    out: Vec<u8>,
    is_blocked: bool,
}

/// With these settings, and this right in the only context.
fn relayed(settings: &BoxSettings, right: Right, direction: Direction) -> Relayed {
    let one = Position::new(1).expect("a position");
    let mut contexts = contexts(1, 1).expect("a number that can be");
    contexts[0].rights = vec![right];
    let context = contexts[0].clone();
    let middlebox = Middlebox {
        name: "icap.example".into(),
        certificate: [0; 32],
    };
    let configuration = Configuration {
        suite: Suite::Aes128Gcm,
        terms: Terms::new([0; 32], vec![middlebox], contexts).expect("good terms"),
    };
    let mut icap = Icap::new(&Rules::of(settings).expect("good settings"));
    assert_eq!(icap.joined(one, &configuration), Consent::Given);
    Relayed {
        icap,
        context,
        direction,
        waiting: VecDeque::new(),
        held: 0,
        out: Vec::new(),
        is_blocked: false,
    }
}

/// One that asks this server about requests.
fn about_requests(address: &str, right: Right) -> Relayed {
    let settings = BoxSettings {
        reqmod: Some(format!("icap://{address}/s")),
        ..BoxSettings::default()
    };
    relayed(&settings, right, Direction::ToServer)
}

impl Relayed {
    /// Goes on until there is room for another record.
    async fn room(&mut self) {
        let room = poll_fn(|context| {
            loop {
                self.take();
                if self.held < MAX_WAITING || self.is_blocked {
                    return Poll::Ready(());
                }
                if self.icap.progress(context).is_pending() {
                    return Poll::Pending;
                }
            }
        });
        timeout(PATIENCE, room).await.expect("there is room again");
    }

    /// A record comes.
    fn give(&mut self, data: &[u8]) {
        let verdict = self.icap.inspect(self.direction, &self.context, data);
        if !self.waiting.is_empty() && verdict != Verdict::Block {
            assert_eq!(verdict, Verdict::Wait, "it overtakes what waits");
        }
        self.waiting.push_back(data.to_vec());
        self.held += taken(data);
        if verdict != Verdict::Wait {
            self.carry_out(verdict);
        }
    }

    fn carry_out(&mut self, verdict: Verdict) {
        let record = self.waiting.pop_front().expect("one waits");
        self.held -= taken(&record);
        match verdict {
            Verdict::Forward => self.out.extend(record),
            Verdict::Replace(parts) => self.out.extend(parts.concat()),
            Verdict::Block => self.is_blocked = true,
            Verdict::Wait => panic!("a verdict that is none"),
        }
    }

    /// Takes what may go, without waiting.
    fn take(&mut self) {
        while !self.waiting.is_empty()
            && !self.is_blocked
            && let Some(verdict) = self.icap.decide(self.direction)
        {
            self.carry_out(verdict);
        }
    }

    /// Goes on until it works, or does not.
    async fn until(&mut self, works: bool) {
        let until = poll_fn(|context| {
            while self.icap.progress(context).is_ready() {}
            match self.icap.works() == works {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        });
        timeout(PATIENCE / 2, until).await.expect("it changes");
    }

    /// Goes on until nothing waits, and gives what has gone on.
    async fn settled(&mut self) -> String {
        let settled = poll_fn(|context| {
            loop {
                self.take();
                if self.waiting.is_empty() || self.is_blocked {
                    return Poll::Ready(());
                }
                if self.icap.progress(context).is_pending() {
                    return Poll::Pending;
                }
            }
        });
        let settled = timeout(PATIENCE, settled).await;
        settled.expect("nothing waits for ever");
        String::from_utf8(std::mem::take(&mut self.out)).expect("text")
    }
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: page.example\r\n\r\n")
}

/// Says that requests for `/bad` are to be others, and that all else may pass.
fn replaces_bad(message_: &str) -> String {
    match message_.contains("/bad ") {
        true => message("req", &get("https://page.example/good"), ""),
        false => UNCHANGED.to_owned(),
    }
}

#[tokio::test]
async fn messages_in_one_record_are_each_asked_about() {
    let (address, heard) = fake(replaces_bad);
    let mut icap = about_requests(&address, Right::Write);
    icap.give((get("/1") + &get("/bad") + &get("/2")).as_bytes());
    let out = icap.settled().await;
    assert_eq!(out, get("/1") + &get("/good") + &get("/2"));
    assert_eq!(heard.lock().expect("no panic with it").len(), 3);
}

#[tokio::test]
async fn a_head_in_several_records_is_replaced_as_a_whole_or_not_at_all() {
    let (address, heard) = fake(replaces_bad);
    for right in [Right::Write, Right::Read] {
        let mut icap = about_requests(&address, right);
        let bad = get("/bad");
        for piece in bad.as_bytes().chunks(20) {
            icap.take();
            assert_eq!(icap.out, b"", "a part of a head that nobody has judged");
            icap.give(piece);
        }
        let out = icap.settled().await;
        match right {
            Right::Write => assert_eq!(out, get("/good")),
            _ => assert!(icap.is_blocked && out.is_empty(), "{out}"),
        }
    }
    let long = format!(
        "GET /1 HTTP/1.1\r\nHost: page.example\r\nX: {}\r\n\r\n",
        "x".repeat(40_000)
    );
    let mut icap = about_requests(&address, Right::Write);
    for piece in long.as_bytes().chunks(1 << 14) {
        icap.give(piece);
    }
    assert!(icap.settled().await == long, "the very bytes");
    assert_eq!(heard.lock().expect("no panic with it").len(), 3);
}

#[tokio::test]
async fn what_stands_in_a_messages_place_takes_nothing_of_the_next_with_it() {
    let (address, _) = fake(|message_: &str| match message_.contains("POST ") {
        true => message(
            "req",
            "POST https://page.example/b HTTP/1.1\r\n\r\n",
            "other",
        ),
        false => UNCHANGED.to_owned(),
    });
    let mut icap = about_requests(&address, Right::Write);
    let post = "POST /a HTTP/1.1\r\nHost: page.example\r\nContent-Length: 3\r\n\r\nabc";
    let both = post.to_owned() + &get("/2");
    let (first, second) = both.split_at(post.len() + 7);
    icap.give(&first.as_bytes()[..post.len() - 1]);
    icap.give(&first.as_bytes()[post.len() - 1..]);
    icap.give(second.as_bytes());
    let head = "POST /b HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
    let expected = format!("{head}5\r\nother\r\n0\r\n\r\n{}", get("/2"));
    assert_eq!(icap.settled().await, expected);
}

#[tokio::test]
async fn what_cannot_go_on_yet_may_still_be_replaced_where_much_waits() {
    let (says, waits) = channel::<()>();
    let waits = Mutex::new(waits);
    let (address, _) = fake(move |message_: &str| match message_.contains("POST ") {
        true => {
            let waits = waits.lock().expect("no panic with it");
            waits.recv().expect("the test says when");
            let head = "POST https://page.example/b HTTP/1.1\r\n\r\n";
            message("req", head, "other")
        }
        false => UNCHANGED.to_owned(),
    });
    let mut icap = about_requests(&address, Right::Write);
    icap.give(b"POST /a HTTP/1.1\r\nHost: page.example\r\nContent-Length: 3\r\n\r\nabc");
    let mut behind = String::new();
    while icap.held < MAX_WAITING {
        let get = get(&format!("/{}", "x".repeat(10_000)));
        icap.give(get.as_bytes());
        behind += &get;
    }
    icap.take();
    assert_eq!(
        icap.out, b"",
        "the end of a message is not through before its verdict"
    );
    says.send(()).expect("it waits");
    let head = "POST /b HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
    let expected = format!("{head}5\r\nother\r\n0\r\n\r\n{behind}");
    assert!(icap.settled().await == expected && !icap.is_blocked);
}

#[tokio::test]
async fn an_interim_head_in_two_records_is_not_asked_about() {
    let (address, heard) = fake(|_: &str| UNCHANGED.to_owned());
    let settings = BoxSettings {
        respmod: Some(format!("icap://{address}/s")),
        ..BoxSettings::default()
    };
    let mut icap = relayed(&settings, Right::Read, Direction::ToServer);
    icap.give(get("/1").as_bytes());
    assert_eq!(
        icap.settled().await,
        get("/1"),
        "there is no server for requests"
    );
    icap.direction = Direction::ToClient;
    let interim = "HTTP/1.1 100 Continue\r\n\r\n";
    icap.give(&interim.as_bytes()[..9]);
    icap.give(&interim.as_bytes()[9..]);
    // The final one may wait for what the client sends then.
    assert_eq!(icap.settled().await, interim);
    let text = interim.to_owned() + "HTTP/1.1 204 No Content\r\n\r\n";
    icap.give(&text.as_bytes()[..9]);
    icap.give(&text.as_bytes()[9..40]);
    icap.give(&text.as_bytes()[40..]);
    assert_eq!(icap.settled().await, text);
    assert_eq!(heard.lock().expect("no panic with it").len(), 1);
}

#[tokio::test]
async fn a_long_body_in_small_records_goes_on() {
    // It wants everything first.
    let (address, _) = fake(|_: &str| UNCHANGED.to_owned());
    for (size, count) in [(1, 2_000), (100, 2_000), (1 << 14, 40)] {
        let mut icap = about_requests(&address, Right::Write);
        let data = "x".repeat(size);
        let head = format!(
            "POST /a HTTP/1.1\r\nHost: page.example\r\nContent-Length: {}\r\n\r\n",
            size * count
        );
        icap.give(head.as_bytes());
        for _ in 0..count {
            icap.room().await;
            icap.give(data.as_bytes());
        }
        let out = icap.settled().await;
        assert!(out == head + &data.repeat(count), "{size}: the very bytes");
    }
}

#[tokio::test]
async fn a_head_in_more_records_than_can_wait_is_blocked() {
    let (address, _) = fake(|_: &str| UNCHANGED.to_owned());
    let mut icap = about_requests(&address, Right::Write);
    let head = "GET /a HTTP/1.1\r\n".to_owned() + &"X: y\r\n".repeat(100);
    for piece in head.as_bytes().chunks(1) {
        if icap.is_blocked {
            break;
        }
        assert!(icap.held < MAX_WAITING, "nothing more is taken");
        icap.give(piece);
    }
    assert!(icap.is_blocked);
}

#[tokio::test]
async fn each_response_is_shown_with_the_request_that_it_answers() {
    let (address, heard) = fake(|_: &str| UNCHANGED.to_owned());
    let settings = BoxSettings {
        respmod: Some(format!("icap://{address}/s")),
        ..BoxSettings::default()
    };
    let mut icap = relayed(&settings, Right::Read, Direction::ToServer);
    let paths: Vec<String> = (0..9).map(|number| format!("/{number}")).collect();
    for path in &paths {
        icap.give(get(path).as_bytes());
    }
    icap.direction = Direction::ToClient;
    for _ in &paths {
        icap.give(b"HTTP/1.1 204 No Content\r\n\r\n");
    }
    icap.settled().await;
    assert!(!icap.is_blocked);
    let heard = heard.lock().expect("no panic with it");
    assert_eq!(heard.len(), paths.len());
    for (asked, path) in heard.iter().zip(&paths) {
        let shown = format!("GET https://page.example{path} HTTP/1.1");
        assert!(
            asked.contains("req-hdr=0") && asked.contains(&shown),
            "{asked}"
        );
    }
}

#[tokio::test]
async fn it_works_while_the_server_has_to_do_something() {
    let (says, waits) = channel::<()>();
    let waits = Mutex::new(waits);
    let (address, _) = fake(move |_: &str| {
        let waits = waits.lock().expect("no panic with it");
        waits.recv().expect("the test says when");
        UNCHANGED.to_owned()
    });
    let mut icap = about_requests(&address, Right::Write);
    assert!(!icap.icap.works());
    let head = "POST /a HTTP/1.1\r\nHost: page.example\r\nContent-Length: 3\r\n\r\n";
    icap.give(head.as_bytes());
    icap.until(true).await;
    // It has heard all that has come.
    icap.until(false).await;
    icap.give(b"abc");
    icap.until(true).await;
    says.send(()).expect("it waits");
    assert_eq!(icap.settled().await, head.to_owned() + "abc");
    assert!(!icap.icap.works());
}

#[tokio::test]
async fn more_requests_than_can_be_kept_end_the_session() {
    let (address, _) = fake(|_: &str| UNCHANGED.to_owned());
    let settings = BoxSettings {
        respmod: Some(format!("icap://{address}/s")),
        ..BoxSettings::default()
    };
    let mut icap = relayed(&settings, Right::Read, Direction::ToServer);
    let mut given = 0;
    while !icap.is_blocked {
        icap.give(get(&format!("/{}", "x".repeat(10_000))).as_bytes());
        given += 1;
        assert!(given < 30, "their heads fill the memory");
    }
    assert!(given > 20);
}

/// A fake that does this with each connection on which the heads of a message have come, and with
/// the number of the connection.
fn with_each(does: impl Fn(TcpStream, usize) + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound").to_string();
    std::thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            let mut stream = stream.expect("a client");
            let mut heard = String::new();
            let mut byte = [0];
            while heard.matches("\r\n\r\n").count() < 2 && matches!(stream.read(&mut byte), Ok(1)) {
                heard.push(char::from(byte[0]));
                if heard.starts_with("OPTIONS") && heard.ends_with("\r\n\r\n") {
                    stream.write_all(OPTIONS.as_bytes()).expect("it listens");
                    heard.clear();
                }
            }
            does(stream, number);
        }
    });
    address
}

#[tokio::test]
async fn an_answer_that_came_before_the_connection_broke_is_heard() {
    // Where the answer happens to be read before more is written, all is well; so many times.
    for _ in 0..40 {
        let (told, hears) = channel();
        let (goes_on, may_go_on) = channel();
        let address = with_each(move |mut stream, _| {
            // A part of the body, which stays unread: that makes of the end a reset.
            let _ = stream.peek(&mut [0]);
            told.send(()).expect("the test listens");
            may_go_on.recv().expect("the test tells");
            let bad = message("req", "POST /other HTTP/1.1\r\n\r\n", "");
            stream.write_all(bad.as_bytes()).expect("it listens");
            drop(stream);
            told.send(()).expect("the test listens");
        });
        let settings = BoxSettings {
            reqmod: Some(format!("icap://{address}/s")),
            when_dead: WhenDead::FailOpen,
            ..BoxSettings::default()
        };
        let mut icap = relayed(&settings, Right::Read, Direction::ToServer);
        let head = "POST /a HTTP/1.1\r\nHost: page.example\r\nContent-Length: 40000\r\n\r\n";
        icap.give(head.as_bytes());
        icap.give(&[b'x'; 16_000]);
        let heard = poll_fn(|context| {
            let _ = icap.icap.progress(context);
            context.waker().wake_by_ref();
            match hears.try_recv() {
                Ok(()) => Poll::Ready(()),
                Err(_) => Poll::Pending,
            }
        });
        timeout(PATIENCE, heard)
            .await
            .expect("it hears the message");
        goes_on.send(()).expect("it waits");
        hears.recv().expect("it ends the connection");
        icap.give(&[b'x'; 12_000]);
        icap.give(&[b'x'; 12_000]);
        let out = icap.settled().await;
        assert!(icap.is_blocked, "{out:.60}");
    }
}

#[tokio::test]
async fn a_connection_that_ends_between_two_messages_is_no_failure() {
    let address = with_each(|mut stream, number| {
        stream.write_all(UNCHANGED.as_bytes()).expect("it listens");
        if number == 0 {
            // It ends as the next message comes.
            let _ = stream.peek(&mut [0]);
        }
    });
    let mut icap = about_requests(&address, Right::Write);
    for path in ["/1", "/2", "/3"] {
        icap.give(get(path).as_bytes());
        assert_eq!(icap.settled().await, get(path));
        assert!(!icap.is_blocked, "{path}");
    }
}
