//! Asks the server behind for what a client wants: whether what is kept still holds, where
//! something is; for the whole answer otherwise.
//!
//! Is not: what is kept, and what it stands for (`kept`).
//!
//! Invariant: a client that has asked for an answer gets one, and no word of the origin's own
//! question.

use hyper::StatusCode;

use super::super::Failed;
use super::super::body::RequestBody;
use super::super::http::{Refusal, Request};
use super::super::kept::{Answer, Question};
use super::super::upstream::Response;
use super::Session;

/// The condition that a kept body is asked for with (RFC 9110, 13.1.2).
const CONDITION: &str = "If-None-Match";

impl Session {
    /// Waits for the head of the answer. Nothing if the client has gone before its end.
    pub(super) async fn ask(
        &mut self,
        request: Request,
        body: RequestBody,
    ) -> Result<Option<Result<Answer, Refusal>>, Failed> {
        let question = Question::of(&request);
        let held = question
            .as_ref()
            .and_then(|asked| self.shared.kept.find(asked));
        let tag = held.as_ref().and_then(|held| held.tag());
        let (Some(asked), Some(held), Some(tag)) = (&question, &held, tag) else {
            let coming = self.ask_plainly(request, body).await?;
            return Ok(coming.map(|coming| coming.map(|it| Answer::coming(it, question, held))));
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
            return Ok(Some(Ok(Answer::kept(held, response.headers()))));
        }
        self.shared.kept.forget(asked);
        let coming = self.ask_plainly(request, RequestBody::none()).await?;
        Ok(coming.map(|coming| coming.map(|it| Answer::coming(it, question, None))))
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
