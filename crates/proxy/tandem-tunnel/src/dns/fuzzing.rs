//! What must hold for any bytes that a client, the peer or a resolver sends.

use std::sync::Arc;
use std::time::Duration;

use tandem_link::tunnel::{DnsAnswer, DnsQuery};
use tandem_wire::Instant;

use super::{Age, Answer, Asked, Cache, Found, Heard, Question, Request, Transport, hear, read};

/// The question of those checks that have an answer as input: `a.test`, type A, with EDNS.
const QUERY: &[u8] = b"\x01\x02\x01\0\0\x01\0\0\0\0\0\x01\x01a\x04test\0\0\x01\0\x01\
    \0\0\x29\x04\xd0\0\0\x80\0\0\0";
const QUERY_ID: u16 = 0x0102;

/// What a client, the peer or a resolver says, by the first byte.
pub fn tunnel_dns(data: &[u8]) {
    let Some((&speaker, bytes)) = data.split_first() else {
        return;
    };
    match speaker % 4 {
        0 => from_client(bytes),
        1 => {
            if let Ok(crossed) = DnsQuery::parse(bytes)
                && let Ok(question) = Question::of_link(&crossed)
            {
                assert_eq!(question.to_link(), crossed);
                assert!(question.message(QUERY_ID).is_some());
            }
        }
        2 => {
            let request = request();
            if let Heard::Answer(crossed) = hear(request.question(), QUERY_ID, bytes) {
                let mut written = Vec::new();
                crossed.write(&mut written);
                assert_eq!(DnsAnswer::parse(&written), Ok(crossed.clone()));
                // A name that points into the header is another one at the near side.
                if let Ok(answer) = Answer::of_link(request.question(), crossed) {
                    replies(&request, answer);
                }
            }
        }
        _ => {
            let request = request();
            if let Ok(crossed) = DnsAnswer::parse(bytes)
                && let Ok(answer) = Answer::of_link(request.question(), crossed)
            {
                replies(&request, answer);
            }
        }
    }
}

fn request() -> Request {
    match read(QUERY, Transport::Udp) {
        Asked::Question(request) => request,
        Asked::Nothing | Asked::Refused(_) => panic!("it is a question"),
    }
}

fn from_client(bytes: &[u8]) {
    for transport in [Transport::Udp, Transport::Tcp] {
        let request = match read(bytes, transport) {
            Asked::Nothing => continue,
            Asked::Refused(reply) => {
                // To what is an answer nothing is said.
                assert!(reply[..2] == bytes[..2] && reply[2] & 0x80 != 0 && bytes[2] & 0x80 == 0);
                assert!(reply.len() <= 512);
                continue;
            }
            Asked::Question(request) => request,
        };
        let crossed = request.question().to_link();
        let question = Question::of_link(&crossed).expect("ours");
        assert_eq!(question.to_link(), crossed);
        assert_eq!(question.key(), request.question().key());
        let failure = request.failure().expect("it is short");
        assert_eq!(failure[..2], bytes[..2]);
    }
}

/// Replies with an answer that may be anything, as it comes and as it is kept.
fn replies(request: &Request, answer: Answer) {
    let answer = Arc::new(answer);
    let key = request.question().key();
    let mut cache = Cache::default();
    cache.keep(key.clone(), Arc::clone(&answer), Instant::ZERO);
    let kept = cache.find(&key, Instant::ZERO);
    if let Found::Answer(_, age) = kept {
        assert_eq!(age, Age::Kept(Duration::ZERO));
        let later = Instant::ZERO + Duration::from_secs(2 * 86_400);
        assert_eq!(cache.find(&key, later), Found::Nothing);
        assert_eq!(cache.bytes(), 0);
    }
    for age in [Age::New, Age::Kept(Duration::from_secs(9)), Age::Stale] {
        if let Some(reply) = request.reply(&answer, age) {
            assert!((12..=1232).contains(&reply.len()));
            assert_eq!(reply[..2], QUERY_ID.to_be_bytes());
        }
    }
}
