//! Asks the server behind for what a client wants: whether what is kept still holds, where
//! something is; for the whole answer otherwise.
//!
//! Is not: what is kept, and what it stands for (`kept`).
//!
//! Invariant: a client that has asked for an answer gets one, and no word of the origin's own
//! question.

use std::io;
use std::time::Duration;

use http_body_util::combinators::UnsyncBoxBody;
use hyper::StatusCode;
use hyper::body::{Body as _, Bytes};
use hyper::header::ETAG;
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
                Asking::First(turn) => first = Some(turn),
                Asking::Later(later) => {
                    let waited = async {
                        drop(timeout(TOGETHER, later.wait()).await);
                        Ok::<(), Refusal>(())
                    };
                    match self.hear_while(waited).await? {
                        Some(Ok(())) => held = find(&self.shared.kept),
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
    /// 9110, 13.1.5).
    pub(super) async fn ask_for_rest(&mut self, held: &Held, from: u64) -> Result<Rest, Failed> {
        let tag = held.tag.as_ref().ok_or(Failed::Changed)?;
        let mut request = held.request.clone();
        let range = format!("bytes={from}-").into_bytes();
        request.headers.push(("Range".to_owned(), range));
        let condition = ("If-Range".to_owned(), tag.as_bytes().to_vec());
        request.headers.push(condition);
        let response = match self.ask_plainly(request, RequestBody::none()).await? {
            Some(Ok(response)) => response,
            Some(Err(_)) => return Err(Failed::Changed),
            None => return Err(Failed::Io(io::ErrorKind::UnexpectedEof.into())),
        };
        let (parts, body) = response.into_parts();
        let len = body.size_hint().exact();
        let extent = content_range::extent(parts.status, &parts.headers, len);
        let is_rest = extent.first == from
            && extent.end == End::OfFile
            && len == Some(held.len - from)
            && parts.status == StatusCode::PARTIAL_CONTENT
            && parts.headers.get_all(ETAG).iter().all(|it| it == tag)
            && response::is_public(&parts.headers);
        if !is_rest {
            return Err(Failed::Changed);
        }
        Ok(Rest { body, extent })
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
