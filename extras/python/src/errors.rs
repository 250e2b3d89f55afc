//! Errors as exceptions of Python.
//!
//! Is not: the classes, which are Python's (`python/mctls/_errors.py`); whom to blame, which is a
//! report's to say.

use mctls::error::{Breach, Misuse, Policy};
use mctls::party::Position;
use mctls_io::{Error, Part};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use tandem_mc::McError;
use tandem_mc::report::{Outcome, Report};

/// An exception of one of the classes in `mctls._errors`.
pub(crate) struct Failure<'a> {
    /// The name of its class.
    pub(crate) class: &'a str,
    pub(crate) words: &'a str,
    pub(crate) middlebox: Option<&'a str>,
    pub(crate) suspects: Vec<&'a str>,
    pub(crate) context: Option<&'a str>,
}

impl Failure<'_> {
    pub(crate) fn raise(&self, py: Python<'_>) -> PyErr {
        let made = py.import("mctls._errors").and_then(|module| {
            let class = module.getattr(self.class)?;
            class.call1((
                self.words,
                self.middlebox,
                self.suspects.clone(),
                self.context,
            ))
        });
        made.map_or_else(|error| error, PyErr::from_value)
    }

    /// One without anybody's name.
    pub(crate) fn plain<'a>(class: &'a str, words: &'a str) -> Failure<'a> {
        Failure {
            class,
            words,
            middlebox: None,
            suspects: Vec::new(),
            context: None,
        }
    }
}

/// What an argument or a file was refused for.
pub(crate) fn refused(error: &McError) -> PyErr {
    PyValueError::new_err(error.to_string().replace("--via", "via"))
}

/// Raises what has ended a session, or a call. `report` has taken it over.
pub(crate) fn raise(py: Python<'_>, error: &Error, report: &Report) -> PyErr {
    match error {
        Error::Io(error) => {
            return std::io::Error::new(error.kind(), error.to_string()).into();
        }
        Error::Settings(_)
        | Error::Address(_)
        | Error::Configuration(_)
        | Error::Session(mctls::Error::Caller(Misuse::Context(_))) => {
            return PyValueError::new_err(error.to_string());
        }
        Error::Session(_)
        | Error::Tls { .. }
        | Error::TimedOut(..)
        | Error::PlainTls
        | Error::Name(..)
        | Error::NotPermitted(_)
        | Error::Blocked
        | Error::Refused
        | Error::Interrupted => {}
    }
    let name = |number: u8| {
        let party = report.middleboxes.iter().find(|one| one.position == number);
        party.map(|party| party.name.as_str())
    };
    let words = report.problem.clone().unwrap_or_else(|| error.to_string());
    let middlebox = report.ended_by.or(about(error)).and_then(name);
    let context = report.overstepped_in.and_then(|id| {
        let row = report.contexts.iter().find(|row| row.id == id);
        row.map(|row| row.name.as_str())
    });
    Failure {
        class: class(error, report.outcome),
        words: &words,
        middlebox,
        suspects: report.suspects.iter().copied().filter_map(name).collect(),
        context,
    }
    .raise(py)
}

/// The middlebox that an error is about.
fn about(error: &Error) -> Option<u8> {
    let position: Position = match error {
        Error::Tls {
            part: Part::Leg(position),
            ..
        }
        | Error::TimedOut(Part::Leg(position), _)
        | Error::Name(position, _)
        | Error::Session(
            mctls::Error::Policy(Policy::TooLittle(position, _))
            | mctls::Error::Peer(
                Breach::Stripped(position, _)
                | Breach::MiddleboxCertificate(position)
                | Breach::Author(position),
            ),
        ) => *position,
        _ => return None,
    };
    Some(position.number())
}

fn class(error: &Error, outcome: Outcome) -> &'static str {
    match (error, outcome) {
        (Error::TimedOut(..), _) => "MctlsTimeoutError",
        (Error::Name(..), _)
        | (
            Error::Tls {
                source: rustls::Error::InvalidCertificate(_),
                ..
            },
            _,
        ) => "MctlsCertVerificationError",
        (_, Outcome::Blocked) => "MctlsBlockedError",
        (_, Outcome::Overstepped) => "MctlsForgedError",
        (Error::Session(mctls::Error::Peer(Breach::Truncated)), _) => "MctlsTruncatedError",
        (
            Error::Session(
                mctls::Error::Policy(Policy::Refused | Policy::TooLittle(..))
                | mctls::Error::Peer(Breach::Stripped(..)),
            ),
            _,
        ) => "MctlsRefusedError",
        _ => "MctlsError",
    }
}
