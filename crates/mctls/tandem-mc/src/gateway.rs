//! Two gateways, with which a browser and a web server that know nothing of contexts use them:
//! [`client`] takes plain HTTP on this machine, [`server`] speaks plain HTTP to a server behind it.
//!
//! Is not: interception. The client's gateway serves the names that it was told of, over plain
//! HTTP, and opens no TLS connection of anybody's. Invariants: what comes in two readings is
//! refused; an answer that was cut short cannot be taken for a whole one.

pub mod client;
pub mod server;

use crate::http::{Event, Head, LAST_CHUNK, Messages, Part, Reader, Side, Wrong, write_chunk};

/// Who a message's `Via` names.
const VIA: &str = "1.1 tandem-mc";
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

/// Takes out what is of one connection alone, and says who passes it on.
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
    *head = head.clone().with("Via", VIA);
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

/// The answer to one request.
struct Answer {
    messages: Messages,
    has_no_body: bool,
    is_interim: bool,
    /// It ends with its connection, and goes on in chunks, so that its end can be told.
    is_open_ended: bool,
}

impl Answer {
    fn new(method: &str) -> Self {
        let mut messages = Messages::new(Side::Responses, Reader::Endpoint);
        messages.expect_answer(method);
        Self {
            messages,
            has_no_body: method == "HEAD",
            is_interim: false,
            is_open_ended: false,
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

    fn onward(&mut self, event: Event) -> Vec<Onward> {
        match event {
            Event::Head { mut head, .. } => {
                let status = head.status().unwrap_or_default();
                self.is_interim = status < 200;
                pass_on(&mut head);
                let is_measured = ["content-length", "transfer-encoding"]
                    .iter()
                    .any(|name| head.values(name).next().is_some());
                let has_no_body = self.has_no_body || matches!(status, 100..=199 | 204 | 304);
                self.is_open_ended = !is_measured && !has_no_body;
                if self.is_open_ended {
                    head = head.with("Transfer-Encoding", "chunked");
                }
                vec![Onward::Head(head)]
            }
            Event::Body(data) if self.is_open_ended => {
                let mut chunk = Vec::new();
                write_chunk(&data, &mut chunk);
                vec![Onward::Body(chunk)]
            }
            Event::Framing(bytes) | Event::Body(bytes) => vec![Onward::Body(bytes)],
            Event::End if self.is_interim => Vec::new(),
            Event::End if self.is_open_ended => {
                vec![Onward::Body(LAST_CHUNK.to_vec()), Onward::End]
            }
            Event::End => vec![Onward::End],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let open = out(&mut Answer::new("GET"), "HTTP/1.1 200 OK\r\n\r\nabc");
        let expected = "HTTP/1.1 200 OK\r\nVia: 1.1 tandem-mc\r\nTransfer-Encoding: chunked\r\n\r\n\
            3\r\nabc\r\n0\r\n\r\n.";
        assert_eq!(open, expected);
        let length = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc";
        assert!(out(&mut Answer::new("GET"), length).ends_with("\r\n\r\nabc."));
        let early = format!("HTTP/1.1 103 Early Hints\r\n\r\n{length}");
        assert_eq!(out(&mut Answer::new("GET"), &early).matches('.').count(), 5);
        let none = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n";
        assert!(out(&mut Answer::new("HEAD"), none).ends_with("\r\n\r\n."));
        assert!(
            !out(&mut Answer::new("GET"), none).ends_with('.'),
            "cut short"
        );
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
