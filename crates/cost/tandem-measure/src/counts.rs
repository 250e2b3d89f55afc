//! How many of what: connections, resumptions, requests, bytes, failures.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::event::{EarlyData, Exchange, Handshake, Means, OfferOutcome};
use crate::fault::Fault;
use crate::phase::Step;

/// Bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Bytes {
    /// Handed to TCP.
    pub sent: u64,
    /// Came from TCP.
    pub received: u64,
    /// In bodies of answers.
    pub body: u64,
}

/// How many of what.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Connections that were opened: `full`, `resumed` and `clear`.
    pub connections: u64,
    /// Full handshakes, refused resumptions among them.
    pub full: u64,
    /// Resumed sessions.
    pub resumed: u64,
    /// Connections without TLS.
    pub clear: u64,
    /// Offers of a session that the server answered with a full handshake.
    pub refused: u64,
    /// Connections that were to offer a session when the server had given none.
    pub nothing_to_offer: u64,
    /// Resumed sessions by the means.
    pub resumed_by: BTreeMap<Means, u64>,
    /// Requests that the server took with the hello.
    pub early_data_taken: u64,
    /// Requests that had to be sent again after the handshake.
    pub early_data_refused: u64,
    /// Requests answered with a status below 400.
    pub requests: u64,
    /// What crossed in all phases.
    pub bytes: Bytes,
    /// Failures by kind.
    pub errors: BTreeMap<Fault, u64>,
    /// The first failure of each kind in the words of the system or the TLS library.
    pub error_examples: BTreeMap<Fault, String>,
}

impl Counts {
    /// Counts a handshake.
    pub fn handshake(&mut self, handshake: &Handshake) {
        self.connections += 1;
        match handshake.offer {
            OfferOutcome::NotWanted => self.full += 1,
            OfferOutcome::NothingThere => {
                self.full += 1;
                self.nothing_to_offer += 1;
            }
            OfferOutcome::Refused => {
                self.full += 1;
                self.refused += 1;
            }
            OfferOutcome::WithoutTls => self.clear += 1,
            OfferOutcome::Taken(means) => {
                self.resumed += 1;
                *self.resumed_by.entry(means).or_default() += 1;
            }
        }
        match handshake.early_data {
            EarlyData::NotSent => {}
            EarlyData::Taken => self.early_data_taken += 1,
            EarlyData::Refused => self.early_data_refused += 1,
        }
        for step in &handshake.steps {
            self.step(step);
        }
    }

    /// Counts an answered request.
    pub fn exchange(&mut self, exchange: &Exchange) {
        self.requests += 1;
        self.bytes.body += exchange.body;
        for step in &exchange.steps {
            self.step(step);
        }
    }

    /// Counts a failure. Of each kind the first one's own words are kept.
    pub fn fault(&mut self, fault: Fault, detail: &str) {
        *self.errors.entry(fault).or_default() += 1;
        self.example(fault, detail);
    }

    fn example(&mut self, fault: Fault, detail: &str) {
        if !detail.is_empty() && !self.error_examples.contains_key(&fault) {
            self.error_examples.insert(fault, detail.to_owned());
        }
    }

    /// How many failures of any kind.
    #[must_use]
    pub fn failures(&self) -> u64 {
        self.errors.values().sum()
    }

    /// Adds all of another.
    pub fn add(&mut self, other: &Self) {
        self.connections += other.connections;
        self.full += other.full;
        self.resumed += other.resumed;
        self.clear += other.clear;
        self.refused += other.refused;
        self.nothing_to_offer += other.nothing_to_offer;
        self.early_data_taken += other.early_data_taken;
        self.early_data_refused += other.early_data_refused;
        self.requests += other.requests;
        self.bytes.sent += other.bytes.sent;
        self.bytes.received += other.bytes.received;
        self.bytes.body += other.bytes.body;
        for (means, count) in &other.resumed_by {
            *self.resumed_by.entry(*means).or_default() += count;
        }
        for (fault, count) in &other.errors {
            *self.errors.entry(*fault).or_default() += count;
        }
        for (fault, detail) in &other.error_examples {
            self.example(*fault, detail);
        }
    }

    fn step(&mut self, step: &Step) {
        self.bytes.sent += step.sent;
        self.bytes.received += step.received;
    }
}
