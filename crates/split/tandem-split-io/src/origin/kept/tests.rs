//! Which body stands for which answer, and what makes room.

use std::time::Duration;

use http_body_util::BodyExt as _;

use super::*;

fn kept(most: u64) -> Kept {
    let numbers = Numbers {
        bytes: Number::gauge("bytes", "bytes"),
        confirmed: Number::counter("confirmed", "answers"),
        named: Number::counter("named", "bytes"),
    };
    let kept = Kept::new(numbers);
    kept.limit(most);
    kept
}

/// Bytes that an answer without headers takes beside its body: what selects it has no values.
fn beside(target: &str) -> u64 {
    OVERHEAD + (target.len() + ALWAYS_SELECTING.concat().len()) as u64
}

fn request(target: &str, headers: &[(&str, &str)]) -> Request {
    Request {
        method: "GET".to_owned(),
        target: target.to_owned(),
        port: None,
        headers: headers
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_vec()))
            .collect(),
        body: Coding::None,
        keeps: true,
        awaits_continue: false,
        knows_chunks: true,
    }
}

fn asks(target: &str, headers: &[(&str, &str)]) -> Question {
    Question::of(&request(target, headers)).expect("a plain one")
}

fn headers(fields: &[(&'static str, &'static str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in fields {
        headers.append(*name, HeaderValue::from_static(value));
    }
    headers
}

/// Begins to pass on an answer.
fn recorded(
    kept: &Kept,
    question: &Question,
    headers: &HeaderMap,
    len: Option<u64>,
) -> Option<Recording> {
    let nothing = http_body_util::Empty::new().map_err(|never| match never {});
    let mut response = Response::new(nothing.boxed_unsync());
    response.headers_mut().clone_from(headers);
    let before = kept.find(question);
    let mut answer = Answer::coming(response, Some(question.clone()), before);
    answer.len = len;
    kept.record(&mut answer, Instant::now())
}

/// Passes on an answer of one piece, and says whether it could be kept.
fn answered(kept: &Kept, question: &Question, headers: &HeaderMap, body: &[u8]) -> bool {
    let Some(recording) = recorded(kept, question, headers, Some(body.len() as u64)) else {
        return false;
    };
    let list = recording.names_of(body);
    let list = list.unwrap_or_else(|| Arc::new(List::of(body).expect("short")));
    match recording.with(body.to_vec(), list, Instant::now()) {
        Some(recording) => kept.keep(recording),
        None => return false,
    }
    true
}

fn has(kept: &Kept, question: &Question) -> Option<Vec<u8>> {
    let body = kept.find(question)?;
    let pieces = body.pieces.iter();
    Some(pieces.flat_map(|piece| piece.bytes.to_vec()).collect())
}

#[test]
fn only_a_plain_get_is_answered_with_what_is_kept() {
    assert!(Question::of(&request("/", &[("Accept", "*/*")])).is_some());
    for name in ["Range", "If-None-Match", "IF-MODIFIED-SINCE", "If-Range"] {
        assert!(
            Question::of(&request("/", &[(name, "x")])).is_none(),
            "{name}"
        );
    }
    let post = Request {
        method: "POST".to_owned(),
        ..request("/", &[])
    };
    let with_body = Request {
        body: Coding::Length(1),
        ..request("/", &[])
    };
    for other in [post, with_body] {
        assert!(Question::of(&other).is_none(), "{other:?}");
    }
}

#[test]
fn a_body_is_for_those_alone_whose_requests_agree_in_what_selected_it() {
    let kept = kept(1 << 20);
    let vary = headers(&[("vary", "Accept-Language, X-Unheard"), ("etag", "\"1\"")]);
    let base = [("Host", "a"), ("Accept-Encoding", "gzip")];
    let with = |more: &[(&'static str, &'static str)]| asks("/", &[&base[..], more].concat());
    let german = with(&[("Accept-Language", "de")]);
    assert!(answered(&kept, &german, &vary, b"Tag"));
    assert_eq!(has(&kept, &german), Some(b"Tag".to_vec()));
    let same = with(&[("accept-language", "de"), ("User-Agent", "x")]);
    assert_eq!(has(&kept, &same), Some(b"Tag".to_vec()));
    for other in [
        with(&[("Accept-Language", "fr")]),
        with(&[]),
        with(&[("Accept-Language", "de"), ("Accept-Language", "de")]),
        asks("/", &[("Host", "a"), ("Accept-Language", "de")]),
        asks(
            "/",
            &[
                ("Host", "a"),
                ("Accept-Encoding", "br"),
                ("Accept-Language", "de"),
            ],
        ),
        asks(
            "/",
            &[
                ("Host", "b"),
                ("Accept-Encoding", "gzip"),
                ("Accept-Language", "de"),
            ],
        ),
        asks("/?", &[&base[..], &[("Accept-Language", "de")]].concat()),
    ] {
        assert_eq!(has(&kept, &other), None, "{other:?}");
    }
    // Another language stands beside it, a new body in its place.
    assert!(answered(
        &kept,
        &with(&[("Accept-Language", "fr")]),
        &vary,
        b"jour"
    ));
    assert!(answered(&kept, &german, &vary, b"Woche"));
    assert_eq!(has(&kept, &german), Some(b"Woche".to_vec()));
    assert_eq!(kept.lock().count, 2);
    let star = headers(&[("vary", "accept, *")]);
    assert!(!answered(&kept, &with(&[]), &star, b"x"));
}

#[test]
fn only_a_strong_tag_of_a_settled_file_confirms() {
    let date = "Tue, 15 Nov 1994 12:45:26 GMT";
    let later = "Tue, 15 Nov 1994 12:45:27 GMT";
    for (fields, is_trusted) in [
        (&[("etag", "\"1\"")][..], true),
        (&[("etag", "\"\"")], true),
        (&[("etag", "W/\"1\"")], false),
        (&[("etag", "1")], false),
        (&[("etag", "\"1")], false),
        (&[("etag", "\"")], false),
        (&[("etag", "\"1\", \"2\"")], false),
        (&[("etag", "\"1\""), ("etag", "\"2\"")], false),
        (&[("last-modified", date)], false),
        (&[], false),
        (
            &[("etag", "\"1\""), ("last-modified", date), ("date", date)],
            false,
        ),
        (
            &[("etag", "\"1\""), ("last-modified", date), ("date", later)],
            true,
        ),
        (
            &[("etag", "\"1\""), ("last-modified", later), ("date", date)],
            false,
        ),
        // Nobody says when the answer was made.
        (&[("etag", "\"1\""), ("last-modified", date)], false),
    ] {
        assert_eq!(
            strong_tag(&headers(fields)).is_some(),
            is_trusted,
            "{fields:?}"
        );
    }
    let kept = kept(1 << 20);
    let question = asks("/", &[]);
    assert!(answered(
        &kept,
        &question,
        &headers(&[("etag", "\"1\"")]),
        b"x"
    ));
    let body = kept.find(&question).expect("kept");
    assert!(
        !body.is_confirmed_by(&headers(&[])),
        "which body it is about is not said"
    );
    assert!(body.is_confirmed_by(&headers(&[("etag", "\"1\"")])));
    for other in ["\"2\"", "W/\"1\""] {
        assert!(
            !body.is_confirmed_by(&headers(&[("etag", other)])),
            "{other}"
        );
    }
}

#[test]
fn a_304_has_the_last_word_on_headers_but_for_those_of_the_bytes() {
    let kept = kept(1 << 20);
    let question = asks("/", &[]);
    let before = headers(&[
        ("etag", "\"1\""),
        ("content-type", "text/html"),
        ("content-encoding", "gzip"),
        ("cache-control", "max-age=1"),
        ("cache-control", "public"),
    ]);
    assert!(answered(&kept, &question, &before, b"x"));
    let newer = headers(&[
        ("cache-control", "no-cache"),
        ("content-length", "0"),
        ("content-encoding", "br"),
        ("date", "now"),
    ]);
    let merged = kept.find(&question).expect("kept").headers_with(&newer);
    let expected = headers(&[
        ("etag", "\"1\""),
        ("content-type", "text/html"),
        ("content-encoding", "gzip"),
        ("cache-control", "no-cache"),
        ("date", "now"),
    ]);
    assert_eq!(merged, expected);
}

#[test]
fn names_are_taken_over_for_the_same_bytes_at_the_same_place_alone() {
    let kept = kept(1 << 20);
    let (question, none) = (asks("/", &[]), HeaderMap::new());
    assert!(answered(&kept, &question, &none, b"one"));
    let first = kept.find(&question).expect("kept");
    let recording = recorded(&kept, &question, &none, None).expect("short");
    assert!(recording.names_of(b"two").is_none() && recording.names_of(b"on").is_none());
    let list = recording.names_of(b"one").expect("the same");
    assert!(Arc::ptr_eq(&list, &first.pieces[0].list));
    let recording = recording.with(b"one".to_vec(), list, Instant::now());
    let recording = recording.expect("short");
    assert!(
        recording.names_of(b"one").is_none(),
        "it is the first, not the second"
    );
    kept.keep(recording);
    let second = kept.find(&question).expect("kept");
    assert!(!Arc::ptr_eq(&first, &second), "another body");
    assert!(
        Arc::ptr_eq(&second.pieces[0], &first.pieces[0]),
        "held once"
    );
}

#[test]
fn what_was_asked_for_once_makes_no_room_at_the_cost_of_what_was_asked_for_again() {
    let each = 10_000;
    let kept = kept(20 * (each + beside("/?99")));
    let body = vec![7; each as usize];
    let none = HeaderMap::new();
    let popular: Vec<Question> = (0..10).map(|n| asks(&format!("/p{n}"), &[])).collect();
    for question in popular.iter().chain(&popular) {
        assert!(answered(&kept, question, &none, &body));
    }
    for number in 0..100 {
        assert!(answered(
            &kept,
            &asks(&format!("/?{number}"), &[]),
            &none,
            &body
        ));
        let state = kept.lock();
        assert!(state.bytes <= state.most && state.once <= state.bytes);
        assert_eq!(kept.numbers.bytes.value(), state.bytes);
    }
    assert!(
        popular
            .iter()
            .all(|question| has(&kept, question).is_some())
    );
    assert_eq!(has(&kept, &asks("/?0", &[])), None);
    assert!(has(&kept, &asks("/?99", &[])).is_some());
    // All of them popular: the one that was wanted the longest ago goes.
    for number in 0..15 {
        let question = asks(&format!("/q{number}"), &[]);
        assert!(answered(&kept, &question, &none, &body) && has(&kept, &question).is_some());
    }
    assert_eq!(has(&kept, &popular[0]), None);
    kept.limit(0);
    let State {
        bytes, once, count, ..
    } = *kept.lock();
    assert_eq!((bytes, once, count), (0, 0, 0));
    assert!(
        !answered(&kept, &popular[0], &none, b"x"),
        "nothing is kept"
    );
}

#[test]
fn a_body_that_is_too_long_or_the_ninth_of_its_target_is_not_kept() {
    let kept = kept(4 * (1000 + beside("/")));
    let (question, none) = (asks("/", &[]), HeaderMap::new());
    assert!(answered(&kept, &question, &none, &[0; 1000]));
    assert!(!answered(&kept, &question, &none, &[0; 1001]));
    // As long as hyper lets a server say that a body is.
    assert!(recorded(&kept, &question, &none, Some(u64::MAX - 2)).is_none());
    let recording = recorded(&kept, &question, &none, None).expect("who knows");
    let list = Arc::new(List::of(&[0; 1001]).expect("short"));
    assert!(
        recording
            .with(vec![0; 1001], list, Instant::now())
            .is_none(),
        "its length was not told"
    );
    let kept = kept_variants();
    assert_eq!(kept.lock().count, MAX_VARIANTS);
    kept.forget(&asks("/", &[("Accept-Encoding", "9")]));
    assert_eq!(kept.lock().count, MAX_VARIANTS - 1);
}

fn kept_variants() -> Kept {
    let kept = kept(1 << 20);
    for number in 0..=MAX_VARIANTS + 1 {
        let question = asks("/", &[("Accept-Encoding", &number.to_string())]);
        assert!(answered(&kept, &question, &HeaderMap::new(), b"x"));
    }
    kept
}

#[test]
fn bodies_on_their_way_are_bounded_together_and_the_slowest_make_room() {
    let part = 1000 + beside("/000");
    let each = 900 + beside("/000");
    let kept = kept(4 * part);
    let list = Arc::new(List::of(&[0; 900]).expect("short"));
    let question = |number: usize| asks(&format!("/{number:03}"), &[]);
    let start = Instant::now();
    let later = |seconds| start + Duration::from_secs(seconds);
    let begun =
        |number: usize| recorded(&kept, &question(number), &HeaderMap::new(), None).expect("short");
    let most = (BODY_PART + ON_THEIR_WAY) * part;
    let count = usize::try_from(most / each).expect("few");
    let slow = |number: usize| {
        let with_first = begun(number).with(vec![0; 500], Arc::clone(&list), later(1));
        with_first.expect("there is room")
    };
    let mut slow: Vec<Recording> = (0..count).map(slow).collect();
    let fast = begun(200).with(vec![0; 900], Arc::clone(&list), later(100));
    kept.keep(fast.expect("there is room"));
    assert_eq!(has(&kept, &question(200)), Some(vec![0; 900]));
    // With the rest of each, there is too much of them.
    let held_before = kept.held.load(Ordering::Relaxed);
    assert!(held_before <= most);
    let last = slow.pop().expect("some");
    let last = last.with(vec![0; 400], Arc::clone(&list), later(100));
    let last = last.expect("there is room, or others make some");
    let fresh: Vec<Recording> = (0..count)
        .filter_map(|number| begun(300 + number).with(vec![0; 900], Arc::clone(&list), later(101)))
        .collect();
    assert!(kept.held.load(Ordering::Relaxed) <= most);
    assert!(!fresh.is_empty());
    for recording in slow {
        let more = recording.with(vec![0; 400], Arc::clone(&list), later(102));
        assert!(more.is_none(), "it was slower, and is gone");
    }
    drop((last, fresh));
    assert_eq!(kept.held.load(Ordering::Relaxed), each, "what is kept");
    assert!(kept.lock().unfinished.is_empty());
}

#[test]
fn a_body_that_clients_are_still_sent_makes_room_like_any_other() {
    let part = 1000 + beside("/000");
    let kept = kept(4 * part);
    let question = |number: usize| asks(&format!("/{number:03}"), &[]);
    let held: Vec<Held> = (0..100)
        .map(|number| {
            assert!(answered(
                &kept,
                &question(number),
                &HeaderMap::new(),
                &[0; 900]
            ));
            let body = kept.find(&question(number)).expect("it is kept");
            let request = request("/", &[]);
            match Answer::kept(&body, &HeaderMap::new(), request).content {
                Content::Kept(held) => held,
                Content::Coming(_) => panic!("it is kept"),
            }
        })
        .collect();
    let there = held.iter().filter(|held| held.piece(0).is_some()).count();
    assert_eq!(there, kept.lock().count);
    assert!(kept.held.load(Ordering::Relaxed) <= 4 * part);
    assert!(held.iter().all(|held| held.piece(1).is_none()));
}

#[test]
fn heads_count_and_keep_no_buffer_that_they_came_in() {
    let long = "x".repeat(5000);
    let (target, question) = (
        format!("/{long}"),
        asks(&format!("/{long}"), &[("Host", &long)]),
    );
    let kept = kept(1 << 20);
    // As hyper gives them: a slice of what was read.
    let buffer = Bytes::from(vec![b'v'; 100_000]);
    let mut headers = HeaderMap::new();
    let slice = HeaderValue::from_maybe_shared(buffer.slice(..3000)).expect("letters");
    headers.insert("x-long", slice);
    assert!(!buffer.is_unique());
    assert!(answered(&kept, &question, &headers, b"x"));
    drop(headers);
    assert!(buffer.is_unique(), "what is kept has memory of its own");
    let head = beside(&target) + 5000 + 3000 + "x-long".len() as u64;
    assert_eq!(kept.lock().bytes, 1 + head);
    assert_eq!(kept.held.load(Ordering::Relaxed), 1 + head);
}

#[test]
fn a_body_whose_end_nobody_can_tell_from_a_cut_is_not_kept() {
    let nothing = http_body_util::Empty::new().map_err(|never| match never {});
    let mut response = Response::new(nothing.boxed_unsync());
    response.extensions_mut().insert(EndsByClose);
    let question = asks("/", &[]);
    let mut answer = Answer::coming(response, Some(question), None);
    assert!(kept(1 << 20).record(&mut answer, Instant::now()).is_none());
}

#[test]
fn what_another_origin_was_permitted_stands_for_no_answer() {
    let kept = kept(1 << 20);
    let [one, other] =
        ["https://a.test", "https://b.test"].map(|origin| asks("/", &[("Origin", origin)]));
    assert!(answered(&kept, &one, &headers(&[("etag", "\"1\"")]), b"x"));
    assert!(kept.find(&one).is_some());
    assert!(kept.find(&other).is_none());
}

#[tokio::test]
async fn who_asks_for_what_another_asks_for_already_may_wait_for_that_answer() {
    let kept = kept(1 << 20);
    let asked = asks("/", &[("Host", "a"), ("User-Agent", "one")]);
    let Asking::First(first) = kept.asking(&asked) else {
        panic!("nobody has asked");
    };
    for other in [
        asks("/other", &[("Host", "a")]),
        asks("/", &[("Host", "a"), ("Accept-Encoding", "gzip")]),
    ] {
        assert!(matches!(kept.asking(&other), Asking::First(_)), "{other:?}");
    }
    let same = asks("/", &[("User-Agent", "two"), ("Host", "a")]);
    let Asking::Later(later) = kept.asking(&same) else {
        panic!("it is on its way");
    };
    drop(first);
    later.wait().await;
    assert!(kept.lock().asked_first.is_empty());
    assert!(matches!(kept.asking(&same), Asking::First(_)));
}

#[tokio::test]
async fn all_who_wait_find_the_body_once_it_is_kept_and_go_on_when_it_is_given_up() {
    let kept = kept(1 << 20);
    for is_kept in [true, false] {
        let asked = asks(&format!("/{is_kept}"), &[]);
        let Asking::First(first) = kept.asking(&asked) else {
            panic!("nobody has asked");
        };
        let recording = recorded(&kept, &asked, &HeaderMap::new(), Some(3));
        let recording = recording.expect("short").awaited(Some(first));
        let waiting: Vec<Later> = (0..3)
            .map(|_| match kept.asking(&asked) {
                Asking::Later(later) => later,
                Asking::Alone | Asking::First(_) => panic!("it is on its way"),
            })
            .collect();
        if is_kept {
            let list = Arc::new(List::of(b"one").expect("short"));
            let recording = recording.with(b"one".to_vec(), list, Instant::now());
            kept.keep(recording.expect("short"));
        } else {
            drop(recording);
        }
        for later in waiting {
            later.wait().await;
            assert_eq!(has(&kept, &asked).is_some(), is_kept);
        }
        assert!(kept.lock().asked_first.is_empty());
    }
}

#[test]
fn nobody_waits_again_for_what_was_awaited_in_vain_until_it_is_kept() {
    let kept = kept(1 << 20);
    let asked = asks("/", &[("Host", "a")]);
    kept.note_awaited_in_vain(&asked);
    assert!(matches!(kept.asking(&asked), Asking::Alone));
    assert!(matches!(
        kept.asking(&asks("/", &[("Host", "b")])),
        Asking::First(_)
    ));
    assert!(answered(&kept, &asked, &HeaderMap::new(), b"x"));
    assert!(matches!(kept.asking(&asked), Asking::First(_)));
    for number in 0..2 * MAX_IN_VAIN {
        kept.note_awaited_in_vain(&asks(&format!("/{number}"), &[]));
        assert!(kept.lock().in_vain.len() <= MAX_IN_VAIN);
    }
    kept.limit(0);
    assert!(matches!(kept.asking(&asked), Asking::Alone));
}
