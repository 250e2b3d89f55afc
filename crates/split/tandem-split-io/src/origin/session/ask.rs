//! Asks the server behind for what a client wants: whether what is kept still holds, where
//! something is; for the whole answer otherwise.
//!
//! Is not: what is kept, and what it stands for (`kept`).
//!
//! Invariant: a client that has asked for an answer gets one, and no word of the origin's own
//! question.

use std::io;
use std::time::Duration;

use http_body_util::BodyExt as _;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::StatusCode;
use hyper::body::{Body as _, Buf as _, Bytes};
use hyper::header::{ETAG, HeaderMap, HeaderValue};
use tandem_split::cut::{End, Extent};
use tokio::time::timeout;

use super::super::body::RequestBody;
use super::super::http::{Refusal, Request};
use super::super::kept::{Answer, Asking, Held, Kept, Question};
use super::super::upstream::{Fault, Response};
use super::super::{Failed, content_range, response};
use super::Session;

/// The condition that a kept body is asked for with (RFC 9110, 13.1.2).
const CONDITION: &str = "If-None-Match";

/// How long a client waits for an answer that another is being given, so that several volunteers
/// that meet a new file at once have the server asked once.
const TOGETHER: Duration = Duration::from_secs(1);

/// The end of a body, from the server.
pub(super) struct Rest {
    pub(super) body: UnsyncBoxBody<Bytes, Fault>,
    pub(super) extent: Extent,
}

impl Session {
    /// Waits for the head of the answer. Nothing if the client has gone before its end.
    pub(super) async fn ask(
        &mut self,
        request: Request,
        body: RequestBody,
    ) -> Result<Option<Result<Answer, Refusal>>, Failed> {
        let question = Question::of(&request);
        let find = |kept: &Kept| question.as_ref().and_then(|asked| kept.find(asked));
        let mut held = find(&self.shared.kept);
        let mut first = None;
        if let (Some(asked), None) = (&question, &held) {
            match self.shared.kept.asking(asked) {
                Asking::Alone => {}
                Asking::First(turn) => first = Some(turn),
                Asking::Later(later) => {
                    let waited = async {
                        drop(timeout(TOGETHER, later.wait()).await);
                        Ok::<(), Refusal>(())
                    };
                    match self.hear_while(waited).await? {
                        Some(Ok(())) => {
                            held = find(&self.shared.kept);
                            if held.is_none() {
                                self.shared.kept.note_awaited_in_vain(asked);
                            }
                        }
                        Some(Err(refusal)) => return Ok(Some(Err(refusal))),
                        None => return Ok(None),
                    }
                }
            }
        }
        let tag = held.as_ref().and_then(|held| held.tag());
        let (Some(asked), Some(held), Some(tag)) = (&question, &held, tag) else {
            let coming = self.ask_plainly(request, body).await?;
            let answer = |it| Answer::coming(it, question, held).awaited(first);
            return Ok(coming.map(|coming| coming.map(answer)));
        };
        let mut conditional = request.clone();
        let condition = (CONDITION.to_owned(), tag.as_bytes().to_vec());
        conditional.headers.push(condition);
        let response = match self.ask_plainly(conditional, body).await? {
            Some(Ok(response)) => response,
            Some(Err(refusal)) => return Ok(Some(Err(refusal))),
            None => return Ok(None),
        };
        if response.status() != StatusCode::NOT_MODIFIED {
            let before = Some(held.clone());
            return Ok(Some(Ok(Answer::coming(response, question, before))));
        }
        if held.is_confirmed_by(response.headers()) {
            self.shared.kept.numbers().confirmed.add(1);
            let answer = Answer::kept(held, response.headers(), request);
            return Ok(Some(Ok(answer)));
        }
        self.shared.kept.forget(asked);
        let coming = self.ask_plainly(request, RequestBody::none()).await?;
        Ok(coming.map(|coming| coming.map(|it| Answer::coming(it, question, None))))
    }

    /// Asks for what is behind the first `from` bytes of a body that has made room meanwhile (RFC
    /// 9110, 13.1.5). A server that sends the whole is read over up to there.
    pub(super) async fn ask_for_rest(&mut self, held: &Held, from: u64) -> Result<Rest, Failed> {
        let tag = held.tag.as_ref().ok_or(Failed::Changed)?;
        let mut request = held.request.clone();
        if from > 0 {
            let range = format!("bytes={from}-").into_bytes();
            request.headers.push(("Range".to_owned(), range));
            let condition = ("If-Range".to_owned(), tag.as_bytes().to_vec());
            request.headers.push(condition);
        }
        let response = match self.ask_plainly(request, RequestBody::none()).await? {
            Some(Ok(response)) => response,
            Some(Err(_)) => return Err(Failed::Changed),
            None => return Err(Failed::Io(io::ErrorKind::UnexpectedEof.into())),
        };
        let (parts, body) = response.into_parts();
        let len = body.size_hint().exact();
        let wanted = Wanted {
            tag,
            from,
            len: held.len,
        };
        let mut over = wanted.skipped(parts.status, &parts.headers, len)?;
        let body = body.map_frame(move |frame| {
            frame.map_data(|mut data| {
                let skipped = data.len().min(usize::try_from(over).unwrap_or(usize::MAX));
                data.advance(skipped);
                over -= skipped as u64;
                data
            })
        });
        let end = End::OfFile;
        Ok(Rest {
            body: body.boxed_unsync(),
            extent: Extent { first: from, end },
        })
    }

    async fn ask_plainly(
        &mut self,
        request: Request,
        body: RequestBody,
    ) -> Result<Option<Result<Response, Refusal>>, Failed> {
        let asked = self.shared.upstream.clone().ask(request, body);
        self.hear_while(asked).await
    }
}

/// The end of a body of which a client has the beginning.
struct Wanted<'a> {
    tag: &'a HeaderValue,
    from: u64,
    len: u64,
}

impl Wanted<'_> {
    /// How many bytes at the front of this response are not of it. The response has to be of the
    /// very same version, and to say so: it goes on where another one was broken off (RFC 9110,
    /// 15.3.7).
    fn skipped(
        &self,
        status: StatusCode,
        headers: &HeaderMap,
        len: Option<u64>,
    ) -> Result<u64, Failed> {
        let mut tags = headers.get_all(ETAG).iter();
        let is_same = (tags.next(), tags.next()) == (Some(self.tag), None);
        if !is_same || !response::is_public(headers) {
            return Err(Failed::Changed);
        }
        if status == StatusCode::OK && len == Some(self.len) {
            return Ok(self.from);
        }
        let extent = content_range::extent(status, headers, len);
        let is_rest = status == StatusCode::PARTIAL_CONTENT
            && extent.first == self.from
            && extent.end == End::OfFile
            && len == self.len.checked_sub(self.from);
        if is_rest { Ok(0) } else { Err(Failed::Changed) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_goes_on_with_the_very_same_version_alone() {
        let tag = HeaderValue::from_static("\"a\"");
        let wanted = Wanted {
            tag: &tag,
            from: 60,
            len: 100,
        };
        let skipped = |status: StatusCode, fields: &[(&'static str, &'static str)], len| {
            let mut headers = HeaderMap::new();
            for (name, value) in fields {
                headers.append(*name, HeaderValue::from_static(value));
            }
            wanted.skipped(status, &headers, Some(len)).ok()
        };
        let (same, range) = (("etag", "\"a\""), ("content-range", "bytes 60-99/100"));
        let (part, whole) = (StatusCode::PARTIAL_CONTENT, StatusCode::OK);
        assert_eq!(skipped(part, &[same, range], 40), Some(0));
        assert_eq!(skipped(whole, &[same], 100), Some(60));
        assert_eq!(skipped(whole, &[same], 101), None);
        assert_eq!(skipped(StatusCode::NOT_FOUND, &[same], 100), None);
        for (other, len) in [("bytes 59-99/100", 41), ("bytes 60-98/100", 39)] {
            let range = ("content-range", other);
            assert_eq!(skipped(part, &[same, range], len), None, "{other}");
        }
        for not_same in [
            &[][..],
            &[("etag", "\"b\"")],
            &[("etag", "W/\"a\"")],
            &[same, same],
            &[same, ("cache-control", "private")],
        ] {
            assert_eq!(skipped(whole, not_same, 100), None, "{not_same:?}");
            let with_range = [not_same, &[range]].concat();
            assert_eq!(skipped(part, &with_range, 40), None, "{not_same:?}");
        }
    }
}
