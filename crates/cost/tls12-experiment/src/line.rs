//! One end's connection below the handshake: what comes in, what goes out, under which keys.
//!
//! Is not: what may be sent when.

use std::collections::VecDeque;

use tandem_wire::tls::{ContentType, ProtocolVersion, record};

use crate::error::{Error, Misuse};
use crate::protect::{Keys, Sealer};
use crate::record::{Incoming, Received, write_change, write_clear};

const WARNING: u8 = 1;
const FATAL: u8 = 2;
const CLOSE_NOTIFY: u8 = 0;

#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) incoming: Incoming,
    sealer: Option<Sealer>,
    out: Vec<u8>,
    received: VecDeque<Received>,
}

impl Line {
    pub(crate) const fn new() -> Self {
        Self {
            incoming: Incoming::new(),
            sealer: None,
            out: Vec::new(),
            received: VecDeque::new(),
        }
    }

    /// What is to be sent.
    pub(crate) fn take_output(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.out)
    }

    pub(crate) fn take_received(&mut self) -> Option<Received> {
        self.received.pop_front()
    }

    pub(crate) fn hand_out(&mut self, received: Received) {
        self.received.push_back(received);
    }

    /// Sends handshake messages, in as few records as they fit.
    pub(crate) fn send(&mut self, messages: &[u8]) -> Result<(), Misuse> {
        match &mut self.sealer {
            None => {
                write_clear(&mut self.out, messages);
                Ok(())
            }
            Some(sealer) => sealer.seal(ContentType::Handshake, messages, &mut self.out),
        }
    }

    /// Says that what follows is protected, and protects it.
    pub(crate) fn change(&mut self, keys: &Keys) {
        write_change(&mut self.out);
        self.protect(keys);
    }

    /// Protects what follows without saying so.
    pub(crate) fn protect(&mut self, keys: &Keys) {
        self.sealer = Some(Sealer::new(keys));
    }

    /// Sends what follows in clear again: nobody has opened the first flight.
    pub(crate) fn unprotect(&mut self) {
        self.sealer = None;
    }

    pub(crate) fn data(&mut self, data: &[u8]) -> Result<(), Misuse> {
        let sealer = self.sealer.as_mut().ok_or(Misuse::NotOpen)?;
        sealer.seal(ContentType::ApplicationData, data, &mut self.out)
    }

    pub(crate) fn close(&mut self) {
        self.alert(WARNING, CLOSE_NOTIFY);
    }

    /// Tells the other end why the connection ends.
    pub(crate) fn fail(&mut self, error: &Error) {
        if let Some(alert) = error.alert() {
            self.alert(FATAL, alert);
        }
    }

    fn alert(&mut self, level: u8, alert: u8) {
        let alert = [level, alert];
        match &mut self.sealer {
            None => record::write_records(
                &mut self.out,
                ContentType::Alert,
                ProtocolVersion::TLS1_2,
                &alert,
            ),
            // Where even that does not seal, the end of the connection has to do.
            Some(sealer) => drop(sealer.seal(ContentType::Alert, &alert, &mut self.out)),
        }
    }
}
