//! What makes a middlebox for HTTP a page of code: a [`HttpService`] is shown heads and bodies, and
//! says what becomes of them; [`OverHttp`] does the rest.
//!
//! Is not: a service of its own, nor the protocol of middleboxes ([`mctls_io::Service`]).
//!
//! Invariants: what a service leaves alone goes on as the very bytes; what is no HTTP that can be
//! read safely is blocked, since others might read it otherwise; a body that is recoded ends as its
//! original did, in one message; a session that grants a service less than it needs is refused.

use mctls::config::{Configuration, Context, Right};
use mctls::party::{Direction, Position};
use mctls::record::{MAX_PARTS, MAX_PAYLOAD_LEN};
use mctls_io::{Consent, Pace, Service, Verdict};

use crate::http::{Event, Head, LAST_CHUNK, Messages, Reader, Side, Version, write_chunk};
use crate::layout::{OFFERS, Rights, needed, part_of};

/// What becomes of a head, or of a piece of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It goes on.
    Pass,
    /// The head goes on as the service has left it.
    Change,
    /// The same, and the body goes through [`HttpService::recode`], in chunks: nobody knows yet how
    /// long it will be.
    Recode,
    /// The same, and the service has written into the head how long it will be (`Content-Length`).
    Refill,
    /// The session ends.
    Block(&'static str),
}

/// A piece of a body that is recoded.
#[derive(Clone, Copy, Debug)]
pub enum Piece<'a> {
    /// More of it.
    Data(&'a [u8]),
    /// Its end.
    End,
}

/// A middlebox that understands HTTP. It is asked only about what it may read, and needs the right
/// to write for every [`Decision`] but to pass and to block.
pub trait HttpService: Send {
    /// Learns what client and server have agreed on, before anything else.
    fn joined(&mut self, position: Position, configuration: &Configuration) {
        let _ = (position, configuration);
    }

    /// A request's or response's head.
    fn head(&mut self, side: Side, head: &mut Head) -> Decision {
        let _ = (side, head);
        Decision::Pass
    }

    /// A piece of a body, without the framing of chunks.
    fn body(&mut self, side: Side, data: &[u8]) -> Decision {
        let _ = (side, data);
        Decision::Pass
    }

    /// What stands in place of a piece of a body, after [`Decision::Recode`].
    fn recode(&mut self, piece: Piece<'_>) -> Vec<u8> {
        match piece {
            Piece::Data(data) => data.to_vec(),
            Piece::End => Vec::new(),
        }
    }

    /// The end of a message whose body this middlebox is shown.
    fn end(&mut self, side: Side) {
        let _ = side;
    }

    /// What goes on in place of what is offered behind a request's head ([`crate::offers`]).
    fn offer(&mut self, offered: &[u8]) -> Option<Vec<u8>> {
        let _ = offered;
        None
    }

    /// How fast what waits may go on, from now on.
    fn pace(&self, direction: Direction) -> Option<Pace> {
        let _ = direction;
        None
    }
}

/// What happens to a message's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Body {
    AsItIs,
    /// It is to be recoded, and nothing of it has come: an answer to HEAD has none.
    Announced,
    Recoded,
    /// So much has to be put in its place.
    Refilled(u64),
}

/// One direction.
struct Way {
    side: Side,
    messages: Messages,
    body: Body,
}

impl Way {
    fn new(side: Side) -> Self {
        Self {
            side,
            messages: Messages::new(side, Reader::Middlebox),
            body: Body::AsItIs,
        }
    }
}

/// Why a session is blocked, for this middlebox's own log.
pub(crate) type Why = String;

/// Shows an [`HttpService`] the messages of one session.
pub struct OverHttp<S> {
    service: S,
    needs: Rights,
    requests: Way,
    responses: Way,
}

impl<S: HttpService> OverHttp<S> {
    /// For a session, with a service that needs these rights in the four contexts.
    pub fn new(service: S, needs: Rights) -> Self {
        Self {
            service,
            needs,
            requests: Way::new(Side::Requests),
            responses: Way::new(Side::Responses),
        }
    }

    pub(crate) const fn service_mut(&mut self) -> &mut S {
        &mut self.service
    }

    /// What goes on in place of this data, if anything else than itself does.
    pub(crate) fn pass(
        &mut self,
        direction: Direction,
        purpose: &str,
        data: &[u8],
    ) -> Result<Option<Vec<u8>>, Why> {
        let (way, other) = match direction {
            Direction::ToServer => (&mut self.requests, &mut self.responses),
            Direction::ToClient => (&mut self.responses, &mut self.requests),
        };
        let Some(part) = part_of(purpose, way.side) else {
            return Ok(match (direction, purpose) {
                (Direction::ToServer, OFFERS) => self.service.offer(data),
                _ => None,
            });
        };
        let writes = may_write(self.needs, purpose);
        // A writer holds a head back until it is whole: it may have to change it.
        let mut is_changed = writes && way.messages.is_within_head();
        let events = way.messages.push(part, data);
        let events = events.map_err(|wrong| wrong.to_string())?;
        is_changed |= writes && way.messages.is_within_head();
        let mut out = Vec::new();
        for event in events {
            match event {
                Event::Head { mut head, raw } => {
                    if let (Side::Requests, Some(method)) = (way.side, head.method()) {
                        other.messages.expect_answer(method);
                    }
                    way.body = Body::AsItIs;
                    match self.service.head(way.side, &mut head) {
                        Decision::Pass => out.extend(raw),
                        Decision::Change => {
                            is_changed = true;
                            out.extend(head.to_bytes());
                        }
                        Decision::Recode => {
                            is_changed = true;
                            way.body = Body::Announced;
                            head.remove("content-length");
                            head.remove("transfer-encoding");
                            // HTTP/1.0 has no chunks.
                            head.version = Version::Http11;
                            out.extend(head.with("Transfer-Encoding", "chunked").to_bytes());
                        }
                        Decision::Refill => {
                            is_changed = true;
                            head.remove("transfer-encoding");
                            let length = head.text("content-length").unwrap_or_default();
                            let length = length.parse().map_err(|_| MISFILLED)?;
                            way.body = Body::Refilled(length);
                            out.extend(head.to_bytes());
                        }
                        Decision::Block(why) => return Err(why.to_owned()),
                    }
                }
                Event::Framing(bytes) => match way.body {
                    Body::AsItIs => out.extend(bytes),
                    Body::Announced | Body::Recoded => way.body = Body::Recoded,
                    Body::Refilled(_) => {}
                },
                Event::Body(data) => {
                    if let Decision::Block(why) = self.service.body(way.side, &data) {
                        return Err(why.to_owned());
                    }
                    match way.body {
                        Body::AsItIs => out.extend(data),
                        Body::Announced | Body::Recoded => {
                            write_chunk(&self.service.recode(Piece::Data(&data)), &mut out);
                            way.body = Body::Recoded;
                            is_changed = true;
                        }
                        Body::Refilled(left) => {
                            let more = self.service.recode(Piece::Data(&data));
                            way.body = Body::Refilled(filled(left, &more)?);
                            out.extend(more);
                            is_changed = true;
                        }
                    }
                }
                Event::End => {
                    match way.body {
                        Body::Recoded => {
                            write_chunk(&self.service.recode(Piece::End), &mut out);
                            out.extend_from_slice(LAST_CHUNK);
                            is_changed = true;
                        }
                        Body::Refilled(left) => {
                            let more = self.service.recode(Piece::End);
                            if filled(left, &more)? > 0 {
                                return Err(MISFILLED.to_owned());
                            }
                            out.extend(more);
                            is_changed = true;
                        }
                        Body::AsItIs | Body::Announced => {}
                    }
                    way.body = Body::AsItIs;
                    self.service.end(way.side);
                }
            }
        }
        // Framing alone, within a body that is recoded, goes as well.
        is_changed |= matches!(way.body, Body::Recoded | Body::Refilled(_));
        Ok(is_changed.then_some(out))
    }
}

/// A service has put more or less in a body's place than it has said.
const MISFILLED: &str = "a body that is not as long as its head says";

/// How much of a body is left to be filled.
fn filled(left: u64, more: &[u8]) -> Result<u64, Why> {
    let more = u64::try_from(more.len()).unwrap_or(u64::MAX);
    left.checked_sub(more).ok_or_else(|| MISFILLED.to_owned())
}

/// Whether a service with these needs writes in a context with this purpose.
fn may_write(needs: Rights, purpose: &str) -> bool {
    needed(needs, purpose) == Right::Write
}

impl<S: HttpService> Service for OverHttp<S> {
    fn joined(&mut self, position: Position, configuration: &Configuration) -> Consent {
        let mut contexts = configuration.terms.contexts().iter();
        match contexts.all(|one| one.right(position) >= needed(self.needs, &one.purpose)) {
            true => {
                self.service.joined(position, configuration);
                Consent::Given
            }
            false => {
                tracing::info!("refused: a session that grants this middlebox less than it needs");
                Consent::Refused
            }
        }
    }

    fn pace(&self, direction: Direction) -> Option<Pace> {
        self.service.pace(direction)
    }

    fn inspect(&mut self, direction: Direction, context: &Context, data: &[u8]) -> Verdict {
        match self.pass(direction, &context.purpose, data) {
            Ok(None) => Verdict::Forward,
            Ok(Some(out)) if out.is_empty() => Verdict::Replace(vec![Vec::new()]),
            Ok(Some(out)) => {
                let parts = out.chunks(MAX_PAYLOAD_LEN).map(<[u8]>::to_vec);
                let parts: Vec<_> = parts.collect();
                if parts.len() > MAX_PARTS {
                    tracing::warn!("blocked: a record would have become too long");
                    return Verdict::Block;
                }
                Verdict::Replace(parts)
            }
            Err(why) => {
                tracing::info!("blocked: {why}");
                Verdict::Block
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use mctls::config::{Middlebox, Terms};
    use mctls::suite::Suite;

    use super::*;
    use crate::layout::{FOUR, Kind, contexts};

    /// Counts heads, cuts a header out, and doubles each byte of bodies.
    struct Doubles;

    impl HttpService for Doubles {
        fn head(&mut self, side: Side, head: &mut Head) -> Decision {
            match side {
                Side::Requests if head.text("X").is_some() => {
                    head.remove("X");
                    Decision::Change
                }
                Side::Requests => Decision::Pass,
                Side::Responses if head.has_known_end() => Decision::Recode,
                Side::Responses => Decision::Pass,
            }
        }

        fn recode(&mut self, piece: Piece<'_>) -> Vec<u8> {
            match piece {
                Piece::Data(data) => data.iter().flat_map(|byte| [*byte, *byte]).collect(),
                Piece::End => b"!".to_vec(),
            }
        }
    }

    fn doubles() -> OverHttp<Doubles> {
        OverHttp::new(Doubles, [Right::Write; 4])
    }

    fn passed(over: &mut OverHttp<Doubles>, direction: Direction, pieces: &[&[u8]]) -> String {
        let mut out = Vec::new();
        for piece in pieces {
            let changed = over.pass(direction, "all", piece).expect("good HTTP");
            out.extend(changed.unwrap_or_else(|| piece.to_vec()));
        }
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn what_a_service_leaves_alone_goes_on_as_the_very_bytes() {
        let odd = b"GET  /a HTTP/1.1\r\nhOST:x\r\n\r\n";
        let good = b"GET /a HTTP/1.1\r\nhOST:x\r\n\r\n";
        let mut over = doubles();
        assert_eq!(over.pass(Direction::ToServer, "all", good), Ok(None));
        assert!(over.pass(Direction::ToServer, "all", odd).is_err());
    }

    #[test]
    fn a_head_in_pieces_is_held_until_it_can_be_changed() {
        let whole = passed(
            &mut doubles(),
            Direction::ToServer,
            &[b"GET /a HTTP/1.1\r\nX: sec", b"ret\r\nHost: y\r\n\r", b"\n"],
        );
        assert_eq!(whole, "GET /a HTTP/1.1\r\nHost: y\r\n\r\n");
    }

    #[test]
    fn a_body_that_is_recoded_ends_where_its_original_ends_whatever_its_framing() {
        let expected = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        for pieces in [
            &[&b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\na"[..], b"bc"][..],
            &[
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r",
                b"\na\r\n2\r\nbc\r\n0",
                b"\r\n\r\n",
            ],
        ] {
            let out = passed(&mut doubles(), Direction::ToClient, pieces);
            let body = out.strip_prefix(expected).expect("the head that was made");
            assert_eq!(body, "2\r\naa\r\n4\r\nbbcc\r\n1\r\n!\r\n0\r\n\r\n");
        }
    }

    #[test]
    fn what_is_no_http_is_blocked() {
        let mut over = doubles();
        let verdict = over.pass(Direction::ToServer, FOUR[0], b"\x16\x03\x01 hello\r\n\r\n");
        assert!(verdict.is_err());
    }

    #[test]
    fn a_session_that_grants_less_than_is_needed_is_refused() {
        let one = Position::new(1).expect("a position");
        for (right, consent) in [
            (Right::None, Consent::Refused),
            (Right::Read, Consent::Given),
        ] {
            let mut contexts = contexts(4, 1).expect("a number that can be");
            contexts[0].rights = vec![right];
            let filter = Middlebox {
                name: "filter.example".into(),
                certificate: [0; 32],
            };
            let configuration = Configuration {
                suite: Suite::Aes128Gcm,
                terms: Terms::new([0; 32], vec![filter], contexts).expect("good terms"),
            };
            let mut over = OverHttp::new(Doubles, Kind::Filter.needs());
            assert_eq!(over.joined(one, &configuration), consent);
        }
    }
}
