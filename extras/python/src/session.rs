//! Sessions: made by a client or a server, sent and received on by any thread.
//!
//! Is not: HTTP ([`crate::http`]).
//!
//! Invariants: whoever waits has given up the interpreter's lock, and asks ten times a second for
//! signals and whether the session was closed; one thread sends and one receives at a time; after
//! an error the other side is told, and nothing more comes out.

use std::collections::HashMap;
use std::net::TcpStream;
use std::os::fd::FromRawFd as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::time::Duration;

use mctls::config::{Context, PathMode, Right, Terms};
use mctls::party::{ContextId, Position};
use mctls::receiver::{Delivery, Provenance};
use mctls::suite::Suite;
use mctls_io::blocking::{
    Client, Connected, Interrupt, Server, Session as Halves, SessionReceiver, SessionSender,
};
use mctls_io::{ClientSettings, Error, Fallback, KeyExchange, ServerSettings, Timeouts, Via};
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use tandem_mc::layout::{ALL, FOUR, OFFERS};
use tandem_mc::report::{Report, Seen, Word};
use tandem_mc::via::{Grants, ViaArgument, granted, with_rights};

use crate::errors::{Failure, raise, refused};
use crate::trust::{Identity, Roots};

/// How long the other side may take to hear why a session has ended.
const FAREWELL: Duration = Duration::from_secs(1);

/// Why a call that waits is to give up.
#[derive(Default)]
struct Signals {
    is_closed: AtomicBool,
    /// What a handler of signals has raised.
    raised: Mutex<Option<PyErr>>,
}

impl Signals {
    fn interrupt(self: &Arc<Self>) -> Interrupt {
        let signals = Arc::clone(self);
        Arc::new(move || {
            if signals.is_closed.load(Ordering::SeqCst) {
                return true;
            }
            match Python::attach(|py| py.check_signals()) {
                Ok(()) => false,
                Err(error) => {
                    if let Ok(mut raised) = signals.raised.lock() {
                        *raised = Some(error);
                    }
                    true
                }
            }
        })
    }

    /// What an interrupted call raises.
    fn take(&self) -> Option<PyErr> {
        if let Ok(mut raised) = self.raised.lock()
            && let Some(error) = raised.take()
        {
            return Some(error);
        }
        self.is_closed.load(Ordering::SeqCst).then(closed)
    }
}

fn closed() -> PyErr {
    // EBADF, as a closed socket has it.
    PyOSError::new_err((9, "the session is closed"))
}

/// A session. `None` where it was closed.
#[pyclass(frozen)]
pub(crate) struct Session {
    sender: Mutex<Option<SessionSender>>,
    receiver: Mutex<Option<SessionReceiver>>,
    terms: Terms,
    suite: Suite,
    certificate: Option<Vec<u8>>,
    report: Mutex<Report>,
    signals: Arc<Signals>,
}

/// A right, and whether the middlebox has seen and changed data.
type Granted = (String, bool, bool);

/// A record: the context's purpose, the data, who changed it, who saw it.
type Record<'py> = (String, Bound<'py, PyBytes>, Vec<String>, Vec<String>);

impl Session {
    fn new(halves: Halves, report: Report, signals: Arc<Signals>) -> Self {
        let configuration = halves.configuration;
        Self {
            sender: Mutex::new(Some(halves.sender)),
            receiver: Mutex::new(Some(halves.receiver)),
            terms: configuration.terms,
            suite: configuration.suite,
            certificate: halves.certificate.map(|leaf| leaf.to_vec()),
            report: Mutex::new(report),
            signals,
        }
    }

    fn report(&self) -> MutexGuard<'_, Report> {
        // What a report says stays true where a thread has panicked with it.
        self.report
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn failed(&self, py: Python<'_>, error: &Error) -> PyErr {
        if is_interrupted(error)
            && let Some(raised) = self.signals.take()
        {
            return raised;
        }
        let mut judged = self.report().clone();
        judged.failed(error);
        let raised = raise(py, error, &judged);
        if !matches!(error, Error::TimedOut(..)) {
            *self.report() = judged;
        }
        raised
    }

    fn names(&self, positions: &[Position]) -> Vec<String> {
        let boxes = self.terms.middleboxes();
        let names = positions.iter().map(|position| {
            let found = boxes.get(position.index());
            found.map_or_else(|| position.to_string(), |one| one.name.clone())
        });
        names.collect()
    }

    /// Runs `work` on one half without the interpreter's lock.
    fn on<H: Send, T: Send>(
        &self,
        py: Python<'_>,
        half: &Mutex<Option<H>>,
        work: impl FnOnce(&mut H) -> Result<T, Error> + Send,
    ) -> PyResult<T> {
        let done = py.detach(|| {
            if self.signals.is_closed.load(Ordering::SeqCst) {
                return Some(None);
            }
            let mut taken = match half.try_lock() {
                Ok(taken) => taken,
                Err(TryLockError::WouldBlock) => return None,
                Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            };
            let done = taken.as_mut().map(work);
            drop(taken);
            // Asked once the half is free: from then on, `close` drops it.
            if self.signals.is_closed.load(Ordering::SeqCst)
                && let Ok(mut taken) = half.try_lock()
            {
                *taken = None;
            }
            Some(done)
        });
        match done {
            None => Err(Failure::plain(
                "MctlsError",
                "another thread is in the same call on this session",
            )
            .raise(py)),
            Some(None) => Err(closed()),
            Some(Some(Ok(done))) => Ok(done),
            Some(Some(Err(error))) => Err(self.failed(py, &error)),
        }
    }

    /// Tells the others why a session ends, where they are still to be told.
    fn tell(&self, error: &Error) {
        if is_interrupted(error) || matches!(error, Error::TimedOut(..)) {
            return;
        }
        if let Some(alert) = error.alert()
            && let Ok(mut half) = self.sender.try_lock()
            && let Some(sender) = half.as_mut()
        {
            sender.set_timeout(Some(FAREWELL));
            sender.abort(alert);
        }
    }
}

#[pymethods]
impl Session {
    /// The purposes of the contexts.
    #[getter]
    fn contexts(&self) -> Vec<String> {
        let contexts = self.terms.contexts().iter();
        contexts.map(|context| context.purpose.clone()).collect()
    }

    /// How records are protected.
    #[getter]
    fn suite(&self) -> String {
        self.suite.to_string()
    }

    /// The server's certificate in DER, at its client.
    #[getter]
    fn certificate<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        let leaf = self.certificate.as_ref();
        leaf.map(|leaf| PyBytes::new(py, leaf))
    }

    /// Sends data in the context with this purpose.
    fn send(
        &self,
        py: Python<'_>,
        context: &str,
        data: &[u8],
        timeout: Option<f64>,
    ) -> PyResult<()> {
        let limit = limit(timeout)?;
        let mut contexts = self.terms.contexts().iter();
        let found = contexts.find(|one| one.purpose == context);
        let id = found
            .ok_or_else(|| PyValueError::new_err(format!("no context {context:?}")))?
            .id;
        self.on(py, &self.sender, |sender| {
            sender.set_timeout(limit);
            sender.send(id, data)
        })
    }

    /// The next record; `None` once the other side has said that this is all.
    fn recv<'py>(&self, py: Python<'py>, timeout: Option<f64>) -> PyResult<Option<Record<'py>>> {
        let limit = limit(timeout)?;
        let delivery = self.on(py, &self.receiver, |receiver| {
            receiver.set_timeout(limit);
            let received = receiver.recv();
            // A time-out of this call's own is not the end of the session.
            if let Err(error) = &received {
                self.tell(error);
            }
            received
        })?;
        let Some(delivery) = delivery else {
            return Ok(None);
        };
        let purpose = self.purpose(delivery.context);
        self.note(&purpose, &delivery);
        let changed = match &delivery.provenance {
            Provenance::Original => Vec::new(),
            Provenance::ChangedBy(positions) => self.names(positions),
        };
        let seen = self.names(&delivery.seen_by);
        let data = PyBytes::new(py, &delivery.payload);
        Ok(Some((purpose, data, changed, seen)))
    }

    /// Says that nothing more is sent.
    fn shutdown(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        let limit = limit(timeout)?;
        self.on(py, &self.sender, |sender| {
            sender.set_timeout(limit);
            sender.close()
        })
    }

    /// Ends all calls that wait, and the connection.
    fn close(&self, py: Python<'_>) {
        self.signals.is_closed.store(true, Ordering::SeqCst);
        py.detach(|| {
            // A half that is in use is dropped by its user.
            if let Ok(mut half) = self.sender.try_lock() {
                *half = None;
            }
            if let Ok(mut half) = self.receiver.try_lock() {
                *half = None;
            }
        });
    }

    /// Takes over what a server says of a request.
    fn note_request(&self, header: &str) {
        // The rest was seen here.
        let purposes = [FOUR[0], FOUR[1], ALL];
        let seen = Seen::of_header(header).only(&purposes);
        self.report().note(&seen);
    }

    /// For each context, what each middlebox may do and has done.
    fn grants(&self) -> Vec<(String, Vec<(String, Granted)>)> {
        let report = self.report();
        let rows = report.contexts.iter().map(|row| {
            let parties = report.middleboxes.iter().zip(&row.rights);
            let cells = parties.map(|(party, right)| {
                let right = match right {
                    Word::None => "none",
                    Word::Read => "read",
                    Word::Write => "write",
                };
                let (saw, changed) = (
                    row.saw.contains(&party.position),
                    row.changed.contains(&party.position),
                );
                (party.name.clone(), (right.to_owned(), saw, changed))
            });
            (row.name.clone(), cells.collect())
        });
        rows.collect()
    }

    /// The report that `tandem mc explain` reads, as JSON.
    fn report_json(&self) -> PyResult<String> {
        let written = serde_json::to_string_pretty(&*self.report());
        written.map_err(|error| PyValueError::new_err(error.to_string()))
    }
}

impl Session {
    fn purpose(&self, id: ContextId) -> String {
        let found = self.terms.context(id);
        found.map_or_else(|| id.to_string(), |context| context.purpose.clone())
    }

    fn note(&self, purpose: &str, delivery: &Delivery) {
        let mut seen = Seen::default();
        seen.note(purpose, delivery);
        self.report().note(&seen);
    }
}

fn is_interrupted(error: &Error) -> bool {
    matches!(error, Error::Io(error) if error.kind() == std::io::ErrorKind::Interrupted)
}

fn limit(seconds: Option<f64>) -> PyResult<Option<Duration>> {
    let Some(seconds) = seconds else {
        return Ok(None);
    };
    match Duration::try_from_secs_f64(seconds) {
        Ok(limit) if !limit.is_zero() => Ok(Some(limit)),
        Ok(_) | Err(_) => Err(PyValueError::new_err(
            "a time-out has to be a number of seconds above 0",
        )),
    }
}

fn timeouts(handshake: f64, idle: f64) -> PyResult<Timeouts> {
    let default = Timeouts::default();
    Ok(Timeouts {
        handshake: limit(Some(handshake))?.unwrap_or(default.handshake),
        idle: limit(Some(idle))?.unwrap_or(default.idle),
    })
}

/// A socket of Python's, which gives it up here: where arguments are refused before, it keeps it.
fn adopted(sock: &Bound<'_, PyAny>) -> PyResult<TcpStream> {
    let fd: i32 = sock.call_method0("detach")?.extract()?;
    if fd < 0 {
        return Err(closed());
    }
    // SAFETY: `mctls/_socket.py` passes a `socket.socket`, whose `detach` has returned this once:
    // this is the descriptor's only owner from now on.
    Ok(unsafe { TcpStream::from_raw_fd(fd) })
}

/// How a session's data is divided.
#[derive(FromPyObject)]
pub(crate) enum Division {
    /// Contexts of HTTP, so many.
    Http(u8),
    /// Contexts with these purposes.
    Named(Vec<String>),
}

/// Contexts with the rights of the middleboxes.
fn contexts(via: &[ViaArgument], division: Division) -> PyResult<Vec<Context>> {
    let names = match division {
        Division::Http(count) => {
            let contexts = granted(via, count).map_err(|error| refused(&error))?;
            if contexts.iter().any(|context| context.purpose == OFFERS) {
                return Err(PyValueError::new_err(
                    "a cache is for `tandem mc get` alone",
                ));
            }
            return Ok(contexts);
        }
        Division::Named(names) => names,
    };
    if via.iter().any(|one| matches!(one.grants, Grants::Kind(_))) {
        return Err(PyValueError::new_err(
            "the rights of a kind are for HTTP; write CONTEXT:read or CONTEXT:write",
        ));
    }
    let mut contexts = Vec::new();
    for (index, purpose) in names.iter().enumerate() {
        if names[..index].contains(purpose) {
            return Err(PyValueError::new_err(format!("two contexts {purpose:?}")));
        }
        let id = u8::try_from(index + 1);
        contexts.push(Context {
            id: ContextId(id.map_err(|_| PyValueError::new_err("more than 255 contexts"))?),
            purpose: purpose.clone(),
            path: PathMode::Off,
            rights: Vec::new(),
        });
    }
    with_rights(via, contexts).map_err(|error| refused(&error))
}

/// Connects to a server by middleboxes, over a socket to the first of them if there is one.
#[pyfunction]
#[pyo3(signature = (
    *, sock, address, server_hostname, via, contexts, accept_less, post_quantum, roots,
    middlebox_roots, handshake, idle
))]
#[expect(clippy::too_many_arguments, reason = "they have names in Python")]
pub(crate) fn connect(
    py: Python<'_>,
    sock: Option<&Bound<'_, PyAny>>,
    address: String,
    server_hostname: String,
    via: Vec<String>,
    contexts: Division,
    accept_less: bool,
    post_quantum: bool,
    roots: PyRef<'_, Roots>,
    middlebox_roots: PyRef<'_, Roots>,
    handshake: f64,
    idle: f64,
) -> PyResult<Session> {
    // First, so that it is closed in any case.
    let stream = sock.map(adopted).transpose()?;
    let via: Result<Vec<_>, _> = via.iter().map(|text| ViaArgument::parse(text)).collect();
    let via = via.map_err(PyValueError::new_err)?;
    let contexts = self::contexts(&via, contexts)?;
    let report = Report::planned(None, &via, &contexts);
    let least = match accept_less {
        true => Vec::new(),
        false => contexts.iter().map(|one| one.rights.clone()).collect(),
    };
    let signals = Arc::<Signals>::default();
    let settings = ClientSettings {
        roots: roots.store(),
        middlebox_roots: middlebox_roots.store(),
        via: via.into_iter().map(|one| one.via).collect(),
        contexts,
        least,
        suites: Suite::ALL.to_vec(),
        key_exchange: match post_quantum {
            true => KeyExchange::Hybrid,
            false => KeyExchange::Classical,
        },
        fallback: Fallback::Refuse,
        plain_protocols: Vec::new(),
        timeouts: timeouts(handshake, idle)?,
    };
    let interrupt = signals.interrupt();
    let connected = py.detach(|| {
        let client = Client::new(settings)?.interrupted_by(interrupt);
        match stream {
            None => client.connect(&address, &server_hostname),
            Some(stream) => client.connect_over(stream, &address, &server_hostname),
        }
    });
    session(py, connected, report, signals)
}

/// Takes a client's connection, as a server.
#[pyfunction]
#[pyo3(signature = (*, sock, identity, middlebox_roots, admitted, handshake, idle))]
pub(crate) fn accept(
    py: Python<'_>,
    sock: &Bound<'_, PyAny>,
    identity: PyRef<'_, Identity>,
    middlebox_roots: PyRef<'_, Roots>,
    admitted: Option<HashMap<String, HashMap<String, String>>>,
    handshake: f64,
    idle: f64,
) -> PyResult<Session> {
    let stream = adopted(sock)?;
    let admitted = admitted.map(Admitted::new).transpose()?;
    let settings = ServerSettings {
        identity: identity.parts(),
        middlebox_roots: middlebox_roots.store(),
        policy: Arc::new(move |terms: &Terms| match &admitted {
            None => Some(terms.clone()),
            Some(admitted) => admitted.answer(terms),
        }),
        fallback: Fallback::Refuse,
        plain_protocols: Vec::new(),
        timeouts: timeouts(handshake, idle)?,
    };
    let signals = Arc::<Signals>::default();
    let interrupt = signals.interrupt();
    let accepted = py.detach(|| {
        let server = Server::new(&settings)?.interrupted_by(interrupt);
        server.accept(stream)
    });
    session(py, accepted, Report::planned(None, &[], &[]), signals)
}

fn session(
    py: Python<'_>,
    connected: Result<Connected, Error>,
    mut report: Report,
    signals: Arc<Signals>,
) -> PyResult<Session> {
    let error = match connected {
        Ok(Connected::Session(halves)) => {
            let terms = &halves.configuration.terms;
            if report.contexts.is_empty() {
                report = Report::planned(None, &parties(terms), terms.contexts());
            }
            report.suite = Some(halves.configuration.suite.to_string());
            report.agreed(terms);
            return Ok(Session::new(*halves, report, signals));
        }
        // The settings refuse it before.
        Ok(Connected::Plain(_)) => Error::PlainTls,
        Err(error) => error,
    };
    if is_interrupted(&error)
        && let Some(raised) = signals.take()
    {
        return Err(raised);
    }
    report.failed(&error);
    Err(raise(py, &error, &report))
}

/// The middleboxes of a session, as its server knows them.
fn parties(terms: &Terms) -> Vec<ViaArgument> {
    let boxes = terms.middleboxes().iter();
    let parties = boxes.map(|one| ViaArgument {
        via: Via {
            address: String::new(),
            name: one.name.clone(),
        },
        grants: Grants::Some(Vec::new()),
        found_by: None,
    });
    parties.collect()
}

/// Which middleboxes a server admits, with which rights at most.
struct Admitted(HashMap<String, HashMap<String, Right>>);

impl Admitted {
    fn new(names: HashMap<String, HashMap<String, String>>) -> PyResult<Self> {
        let right = |text: String| match text.as_str() {
            "none" => Ok(Right::None),
            "read" => Ok(Right::Read),
            "write" => Ok(Right::Write),
            _ => Err(PyValueError::new_err("a right is none, read or write")),
        };
        let entries = names.into_iter().map(|(name, rights)| {
            let rights = rights.into_iter();
            let rights = rights.map(|(context, text)| Ok((context, right(text)?)));
            Ok((name, rights.collect::<PyResult<_>>()?))
        });
        Ok(Self(entries.collect::<PyResult<_>>()?))
    }

    /// `None`: the offer has a middlebox that is not admitted.
    fn answer(&self, offered: &Terms) -> Option<Terms> {
        let mut terms = offered.clone();
        for (position, entry) in offered.positions().zip(offered.middleboxes()) {
            let rights = self.0.get(&entry.name)?;
            for context in offered.contexts() {
                let most = rights.get(&context.purpose).copied();
                terms = terms.reduced(position, context.id, most.unwrap_or(Right::None));
            }
        }
        Some(terms)
    }
}
