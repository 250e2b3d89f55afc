//! Two gateways, with which a browser and a web server that know nothing of contexts use them:
//! [`client`] takes plain HTTP on this machine, [`server`] speaks plain HTTP to a server behind it.
//!
//! Is not: interception. The client's gateway serves the names that it was told of, over plain
//! HTTP, and opens no TLS connection of anybody's. Invariants: what comes in two readings is
//! refused; an answer that was cut short cannot be taken for a whole one.

pub mod client;
pub mod server;

use crate::http::{
    Event, Head, LAST_CHUNK, Messages, Part, Reader, Side, Version, Wrong, write_chunk,
};

/// Headers of one connection (RFC 9110, section 7.6.1), and those of proxies.
const OF_A_HOP: [&str; 8] = [
    "connection",
    "keep-alive",
    "proxy-connection",
    "proxy-authenticate",
    "proxy-authorization",
    "te",
    "upgrade",
    "http2-settings",
];
/// Headers that say how long a message is, or for whom: they stay, whatever `Connection` lists.
const VITAL: [&str; 4] = ["host", "content-length", "transfer-encoding", "trailer"];

/// Takes out what is of one connection alone, and says who passes it on: in HTTP/1.1, whatever it
/// came in (RFC 9110, section 6.2).
fn pass_on(head: &mut Head) {
    let listed = head
        .values("connection")
        .flat_map(|value| value.split(|byte| *byte == b','));
    let listed = listed.map(|name| String::from_utf8_lossy(name).trim().to_ascii_lowercase());
    let listed: Vec<String> = listed
        .filter(|name| !VITAL.contains(&name.as_str()))
        .collect();
    for name in OF_A_HOP
        .into_iter()
        .chain(listed.iter().map(String::as_str))
    {
        head.remove(name);
    }
    let via = match std::mem::replace(&mut head.version, Version::Http11) {
        Version::Http10 => "1.0 tandem-mc",
        Version::Http11 => "1.1 tandem-mc",
    };
    *head = head.clone().with("Via", via);
}

/// An answer of a gateway's own, for people.
fn own_answer(status: u16, reason: &str, text: &str) -> (Head, Vec<u8>) {
    let body = format!("tandem mc gateway: {text}\n").into_bytes();
    let head = Head::response(status, reason)
        .with("Content-Type", "text/plain; charset=utf-8")
        .with("Content-Length", body.len().to_string())
        .with("Cache-Control", "no-store");
    (head, body)
}

/// A part of an answer that goes on.
enum Onward {
    Head(Head),
    Body(Vec<u8>),
    /// The answer is whole.
    End,
}

/// How an answer's body goes on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    AsItIs,
    /// It ends with its connection, and goes on in chunks, so that its end can be told.
    IntoChunks,
    /// To a client of HTTP/1.0, which knows no chunks: without them, up to the connection's end.
    Bare,
}

/// The answer to one request.
struct Answer {
    messages: Messages,
    has_no_body: bool,
    is_interim: bool,
    /// What its client speaks.
    version: Version,
    shape: Shape,
}

impl Answer {
    fn new(method: &str, version: Version) -> Self {
        let mut messages = Messages::new(Side::Responses, Reader::Endpoint);
        messages.expect_answer(method);
        Self {
            messages,
            has_no_body: method == "HEAD",
            is_interim: false,
            version,
            shape: Shape::AsItIs,
        }
    }

    /// Takes more of it.
    fn push(&mut self, part: Part, data: &[u8]) -> Result<Vec<Onward>, Wrong> {
        let events = self.messages.push(part, data)?;
        Ok(events
            .into_iter()
            .flat_map(|event| self.onward(event))
            .collect())
    }

    /// Takes the end of the connection.
    fn finish(&mut self) -> Result<Vec<Onward>, Wrong> {
        match self.messages.finish()? {
            Some(event) => Ok(self.onward(event)),
            None => Err(Wrong::Cut),
        }
    }

    /// Whether the connection has to break where the answer is cut short, since nothing else tells.
    const fn is_bare(&self) -> bool {
        matches!(self.shape, Shape::Bare)
    }

    fn onward(&mut self, event: Event) -> Vec<Onward> {
        match event {
            Event::Head { mut head, .. } => {
                let status = head.status().unwrap_or_default();
                self.is_interim = status < 200;
                // HTTP/1.0 has no interim answers (RFC 9110, section 15.2).
                if self.is_interim && self.version == Version::Http10 {
                    return Vec::new();
                }
                pass_on(&mut head);
                let has_no_body = self.has_no_body || matches!(status, 100..=199 | 204 | 304);
                let has = |name: &str| head.values(name).next().is_some();
                self.shape = match (self.version, has("transfer-encoding")) {
                    _ if has_no_body || has("content-length") => Shape::AsItIs,
                    (Version::Http11, true) => Shape::AsItIs,
                    (Version::Http11, false) => Shape::IntoChunks,
                    (Version::Http10, _) => Shape::Bare,
                };
                if self.version == Version::Http10 {
                    head.remove("transfer-encoding");
                    head.remove("trailer");
                }
                if self.shape == Shape::IntoChunks {
                    head = head.with("Transfer-Encoding", "chunked");
                }
                vec![Onward::Head(head)]
            }
            Event::Body(data) if self.shape == Shape::IntoChunks => {
                let mut chunk = Vec::new();
                write_chunk(&data, &mut chunk);
                vec![Onward::Body(chunk)]
            }
            Event::Framing(_) if self.shape == Shape::Bare => Vec::new(),
            Event::Framing(bytes) | Event::Body(bytes) => vec![Onward::Body(bytes)],
            Event::End if self.is_interim => Vec::new(),
            Event::End if self.shape == Shape::IntoChunks => {
                vec![Onward::Body(LAST_CHUNK.to_vec()), Onward::End]
            }
            Event::End => vec![Onward::End],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(method: &str) -> Answer {
        Answer::new(method, Version::Http11)
    }

    fn out(answer: &mut Answer, text: &str) -> String {
        let mut out = Vec::new();
        let mut onward = answer.push(Part::Whole, text.as_bytes()).expect("good");
        if let Ok(more) = answer.finish() {
            onward.extend(more);
        }
        for part in onward {
            match part {
                Onward::Head(head) => out.extend(head.to_bytes()),
                Onward::Body(bytes) => out.extend(bytes),
                Onward::End => out.extend(b"."),
            }
        }
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn an_answer_without_a_length_goes_on_in_chunks_and_others_as_they_are() {
        let open = out(&mut answer("GET"), "HTTP/1.1 200 OK\r\n\r\nabc");
        let expected = "HTTP/1.1 200 OK\r\nVia: 1.1 tandem-mc\r\nTransfer-Encoding: chunked\r\n\r\n\
            3\r\nabc\r\n0\r\n\r\n.";
        assert_eq!(open, expected);
        let length = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc";
        assert!(out(&mut answer("GET"), length).ends_with("\r\n\r\nabc."));
        let early = format!("HTTP/1.1 103 Early Hints\r\n\r\n{length}");
        assert_eq!(out(&mut answer("GET"), &early).matches('.').count(), 5);
        let none = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n";
        assert!(out(&mut answer("HEAD"), none).ends_with("\r\n\r\n."));
        assert!(!out(&mut answer("GET"), none).ends_with('.'), "cut short");
    }

    #[test]
    fn an_answer_to_http_1_0_has_no_chunks_and_ends_with_its_connection() {
        let mut old = Answer::new("GET", Version::Http10);
        let chunked = "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nTrailer: x\r\n\
            Transfer-Encoding: chunked\r\n\r\n3;a=b\r\nabc\r\n2\r\nde\r\n0\r\nx: y\r\n\r\n";
        let bare = "HTTP/1.1 200 OK\r\nVia: 1.1 tandem-mc\r\n\r\nabcde.";
        assert_eq!(out(&mut old, chunked), bare);
        let mut old = Answer::new("GET", Version::Http10);
        let open = "HTTP/1.0 200 OK\r\n\r\nabcde";
        assert_eq!(out(&mut old, open), bare.replace("1.1 t", "1.0 t"));
        assert!(old.is_bare(), "a cut is told by breaking off");
        let mut old = Answer::new("GET", Version::Http10);
        let length = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n";
        assert!(out(&mut old, &format!("{length}abc")).ends_with("\r\n\r\nabc."));
        assert!(!old.is_bare());
        let mut old = Answer::new("HEAD", Version::Http10);
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        assert!(!out(&mut old, head).contains("chunked"));
    }

    #[test]
    fn what_is_of_one_connection_alone_stays_there() {
        let mut head = Head::request("GET", "/")
            .with("Host", "a")
            .with("Connection", "x-own, Content-Length, close")
            .with("X-Own", "1")
            .with("Content-Length", "3")
            .with("Upgrade", "h2c")
            .with("Accept", "*/*");
        pass_on(&mut head);
        let names: Vec<&str> = head.headers.iter().map(|line| line.name.as_str()).collect();
        assert_eq!(names, ["Host", "Content-Length", "Accept", "Via"]);
    }
}
