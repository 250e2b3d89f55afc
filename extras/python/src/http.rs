//! HTTP over contexts, for an adapter: requests as bytes, and answers out of what arrives.
//!
//! Is not: a client. The parser is `tandem-mc`'s, and with it the rule that each part of an answer
//! comes in its own context.

use std::sync::Mutex;

use mctls::record::MAX_PAYLOAD_LEN;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use tandem_mc::http::{Event, Head, Messages, Part, Reader, Side, Wrong};
use tandem_mc::layout::part_of;

use crate::errors::Failure;

/// A request's head, as it is sent.
#[pyfunction]
pub(crate) fn request_head<'py>(
    py: Python<'py>,
    method: &str,
    target: &str,
    headers: Vec<(String, Vec<u8>)>,
) -> PyResult<Bound<'py, PyBytes>> {
    let mut head = Head::request(method, target);
    for (name, value) in headers {
        head = head.with(&name, value);
    }
    let bytes = head.to_bytes();
    // What is read again as something else has a line break or the like in it.
    let mut messages = Messages::new(Side::Requests, Reader::Endpoint);
    let read = messages.push(Part::Heads, &bytes);
    let is_same =
        |event: &Event| matches!(event, Event::Head { head: again, .. } if *again == head);
    match read {
        Ok(events) if events.first().is_some_and(is_same) => Ok(PyBytes::new(py, &bytes)),
        Ok(_) | Err(_) => Err(PyValueError::new_err(
            "a method, target or header that a request cannot have",
        )),
    }
}

/// How far an answer is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Awaited,
    Interim,
    Coming,
    Whole,
}

struct Reading {
    messages: Messages,
    stage: Stage,
}

/// The answer to one request, out of records.
#[pyclass(frozen)]
pub(crate) struct Answer(Mutex<Reading>);

/// Status, reason and headers.
type HeadParts = (u16, String, Vec<(String, Vec<u8>)>);

/// A head, a piece of the body, whether that is all.
type News<'py> = (Option<HeadParts>, Bound<'py, PyBytes>, bool);

#[pymethods]
impl Answer {
    #[new]
    fn new(method: &str) -> Self {
        let mut messages = Messages::new(Side::Responses, Reader::Endpoint);
        messages.expect_answer(method);
        Self(Mutex::new(Reading {
            messages,
            stage: Stage::Awaited,
        }))
    }

    /// Takes data of the context with this purpose; `None` for the end of the session.
    #[pyo3(signature = (purpose, data))]
    fn push<'py>(
        &self,
        py: Python<'py>,
        purpose: &str,
        data: Option<&[u8]>,
    ) -> PyResult<News<'py>> {
        let taken = match self.0.lock() {
            Ok(mut reading) => reading.take(purpose, data),
            Err(_) => Err(Wrong::Head),
        };
        match taken {
            Ok((head, body, is_whole)) => Ok((head, PyBytes::new(py, &body), is_whole)),
            Err(wrong) => {
                let class = match wrong {
                    Wrong::Cut => "MctlsTruncatedError",
                    _ => "MctlsError",
                };
                Err(Failure::plain(class, &format!("the server's answer: {wrong}")).raise(py))
            }
        }
    }
}

impl Reading {
    fn take(
        &mut self,
        purpose: &str,
        data: Option<&[u8]>,
    ) -> Result<(Option<HeadParts>, Vec<u8>, bool), Wrong> {
        let events = match data {
            None => self.messages.finish()?.into_iter().collect(),
            Some(data) => {
                let part = part_of(purpose, Side::Responses).ok_or(Wrong::Place)?;
                self.messages.push(part, data)?
            }
        };
        let (mut parts, mut body) = (None, Vec::with_capacity(MAX_PAYLOAD_LEN));
        for event in events {
            if self.stage == Stage::Whole {
                return Err(Wrong::Behind);
            }
            match event {
                Event::Head { head, .. } => {
                    let status = head.status().unwrap_or_default();
                    if (100..200).contains(&status) {
                        self.stage = Stage::Interim;
                        continue;
                    }
                    self.stage = Stage::Coming;
                    let reason = match &head.start {
                        tandem_mc::http::Start::Response { reason, .. } => reason.clone(),
                        tandem_mc::http::Start::Request { .. } => String::new(),
                    };
                    let lines = head.headers.into_iter();
                    let lines = lines.map(|line| (line.name, line.value));
                    parts = Some((status, reason, lines.collect()));
                }
                Event::Framing(_) => {}
                Event::Body(data) => body.extend(data),
                Event::End if self.stage == Stage::Interim => self.stage = Stage::Awaited,
                Event::End => self.stage = Stage::Whole,
            }
        }
        if data.is_none() && self.stage != Stage::Whole {
            return Err(Wrong::Cut);
        }
        Ok((parts, body, self.stage == Stage::Whole))
    }
}
