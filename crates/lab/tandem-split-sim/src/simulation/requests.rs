//! Clients, and their requests from the first try to the last byte.

use super::{Job, Party, Request, Simulation, Stage};
use crate::events::Event;
use crate::model::Delivery;
use crate::pieces::counted;
use crate::time::Time;
use crate::volunteer::{Attempt, Gift, Holding, Receiver};

impl Simulation<'_> {
    /// A client connects, if the attempt is still the last one.
    pub(super) fn open(&mut self, attempt: Attempt) {
        if !self.is_last_attempt(attempt) {
            return;
        }
        let rules = &self.scenario.rules;
        let (retry, dead) = (rules.retry_seconds, rules.dead_address_seconds);
        let (places, volunteer_places) = (rules.origin_places, rules.volunteer_places as usize);
        let client = self.client_of(attempt.request);
        let mut volunteer = 0;
        let seconds = match self.scenario.delivery {
            Delivery::Https => self.calibration.https_seconds,
            Delivery::Split { .. } => {
                let Some(chosen) = self.clients[client as usize].volunteer else {
                    // No volunteer is known to be there.
                    self.clients[client as usize].volunteer = self.draw(client);
                    return self.open_later(attempt.request, retry);
                };
                let there = self.volunteer(chosen);
                let (is_there, active) = (there.is_there, there.active.len());
                if !is_there {
                    self.outcome.dead_addresses += 1;
                    self.clients[client as usize].volunteer = self.draw(client);
                    return self.open_later(attempt.request, dead);
                }
                if active >= volunteer_places {
                    self.outcome.refused_by_volunteers += 1;
                    self.clients[client as usize].volunteer = self.draw(client);
                    return self.open_later(attempt.request, retry);
                }
                volunteer = chosen;
                self.calibration.warm_seconds
            }
        };
        if self.origin_open >= places {
            self.outcome.refused_by_origin += 1;
            return self.open_later(attempt.request, retry);
        }
        self.origin_open += 1;
        if self.is_split() {
            self.volunteer(volunteer).active.insert(attempt.request);
        }
        let request = self.request(attempt.request);
        request.stage = Stage::Greeting;
        request.volunteer = volunteer;
        let at = self.now + Time::from_seconds(seconds);
        self.events.push(at, Event::Begin(attempt));
    }

    /// The request starts anew after a while.
    pub(super) fn open_later(&mut self, request: u32, seconds: f64) {
        let at = self.now + Time::from_seconds(seconds);
        self.request(request).attempt += 1;
        self.request(request).stage = Stage::Away;
        let attempt = self.attempt(request);
        self.events.push(at, Event::Open(attempt));
    }

    /// What the origin has for a client is ready to leave.
    pub(super) fn send_first(&mut self, attempt: Attempt) {
        if !self.is_last_attempt(attempt) {
            return;
        }
        let request = self.request(attempt.request);
        request.stage = Stage::OnLine;
        let volunteer = request.volunteer;
        let body = &self.page.bodies[self.body_of(attempt.request)];
        let (whole, proof) = (body.whole, body.proof);
        if self.is_split() {
            self.send_from_origin(Party::Proofs(volunteer), Job::Proof(attempt), proof);
        } else {
            let party = Party::Connection(attempt.request);
            self.send_from_origin(party, Job::Whole(attempt), whole);
        }
    }

    /// A volunteer has all that the origin sends for a client; it may lack pieces of the body.
    pub(super) fn look_for_pieces(&mut self, attempt: Attempt) {
        let by = self.request(attempt.request).volunteer;
        self.volunteer(by).is_used = true;
        let pieces = self.page.bodies[self.body_of(attempt.request)]
            .pieces
            .clone();
        let mut lacking = 0;
        for piece in pieces {
            let found = match &mut self.volunteer(by).holdings[piece as usize] {
                Holding::Held => Found::Held,
                Holding::Coming(coming) => {
                    coming.clients.push(attempt);
                    Found::Coming
                }
                Holding::Lacking => Found::Lacking,
            };
            match found {
                Found::Held => self.outcome.pieces.held += 1,
                Found::Coming => {
                    self.outcome.pieces.coming += 1;
                    lacking += 1;
                }
                Found::Lacking => {
                    self.fetch_for_client(by, piece, attempt);
                    lacking += 1;
                }
            }
        }
        let request = self.request(attempt.request);
        request.lacking = lacking;
        request.stage = Stage::Lacking;
        if lacking == 0 {
            self.serve(attempt);
        }
    }

    /// The volunteer has everything.
    pub(super) fn serve(&mut self, attempt: Attempt) {
        let request = self.request(attempt.request);
        request.stage = Stage::Serving;
        let volunteer = request.volunteer;
        let to = Receiver::Client(self.client_of(attempt.request));
        let bytes = self.page.bodies[self.body_of(attempt.request)].bytes;
        self.send_from_volunteer(volunteer, to, Gift::Body(attempt), bytes);
    }

    /// A client has a body.
    pub(super) fn done(&mut self, attempt: Attempt) {
        let (number, client) = (attempt.request, self.client_of(attempt.request));
        let body = &self.page.bodies[self.body_of(number)];
        let bytes = if self.is_split() {
            body.proof
        } else {
            body.whole
        };
        self.release(number);
        let waiting = &mut self.clients[client as usize];
        waiting.left -= 1;
        waiting.useful_bytes += bytes;
        if waiting.left == 0 {
            waiting.is_settled = true;
            self.useful_bytes += waiting.useful_bytes;
            self.latencies.push(self.now.since(waiting.came));
            self.unsettled -= 1;
            self.outcome.served += 1;
        } else if self.body_of(number) == 0 {
            for other in number + 1..number + counted(self.page.bodies.len()) {
                self.open(self.attempt(other));
            }
        }
    }

    pub(super) fn give_up(&mut self, client: u32) {
        if std::mem::replace(&mut self.clients[client as usize].is_settled, true) {
            return;
        }
        self.unsettled -= 1;
        self.outcome.gave_up += 1;
        let first = self.first_request(client);
        for number in first..first + counted(self.page.bodies.len()) {
            let attempt = self.attempt(number);
            let Request {
                stage, volunteer, ..
            } = *self.request(number);
            match stage {
                Stage::Away | Stage::Greeting | Stage::Lacking => {}
                Stage::OnLine if self.is_split() => {
                    self.origin
                        .cancel(Party::Proofs(volunteer), Job::Proof(attempt));
                }
                Stage::OnLine => {
                    self.origin
                        .cancel(Party::Connection(number), Job::Whole(attempt));
                }
                Stage::Serving => {
                    let line = &mut self.volunteer(volunteer).line;
                    line.cancel(Receiver::Client(client), Gift::Body(attempt));
                }
            }
            self.release(number);
        }
    }

    /// Whatever a request holds is others' from now on, and what is still under way for it is for
    /// nobody.
    pub(super) fn release(&mut self, number: u32) {
        let is_split = self.is_split();
        let request = self.request(number);
        let (stage, volunteer) = (request.stage, request.volunteer);
        request.stage = Stage::Away;
        request.attempt += 1;
        if stage != Stage::Away {
            self.origin_open -= 1;
            if is_split {
                self.volunteer(volunteer).active.remove(&number);
            }
        }
    }
}

/// What a volunteer finds where a piece should be.
enum Found {
    Held,
    Coming,
    Lacking,
}
