//! Volunteers that come and go, and what clients know of them.

use super::{Party, Simulation};
use crate::chance::Shape;
use crate::events::Event;
use crate::model::{Choice, Churn};
use crate::time::Time;

impl Simulation<'_> {
    pub(super) fn leave(&mut self, number: u32) {
        let Some(Churn { return_with, .. }) = self.scenario.churn else {
            return;
        };
        self.there -= 1;
        let rules = &self.scenario.rules;
        let (unlisted, forgotten) = (rules.unlisted_after_seconds, rules.forgotten_after_seconds);
        let dead = rules.dead_address_seconds;
        for request in std::mem::take(&mut self.volunteer(number).active) {
            self.outcome.dead_addresses += 1;
            self.origin_open -= 1;
            let client = self.client_of(request);
            self.clients[client as usize].volunteer = self.draw(client);
            self.open_later(request, dead);
        }
        self.origin.cancel_all(Party::Proofs(number));
        self.origin.cancel_all(Party::Misses(number));
        let (bits, rules) = (self.scenario.volunteer_bits, &self.scenario.rules);
        self.volunteers[number as usize].leave(bits, rules, return_with);
        let session = self.session(number);
        let at = |seconds| self.now + Time::from_seconds(seconds);
        let (unlisted, forgotten) = (at(unlisted), at(forgotten));
        self.events.push(unlisted, Event::Unlist(session));
        self.events.push(forgotten, Event::Forget(session));
        self.return_later(number);
    }

    pub(super) fn come_back(&mut self, number: u32) {
        self.there += 1;
        self.volunteer(number).is_there = true;
        self.members.add(number);
        let seconds = self.scenario.rules.listed_after_seconds;
        let at = self.now + Time::from_seconds(seconds);
        let session = self.session(number);
        self.events.push(at, Event::List(session));
        self.leave_later(number);
    }

    pub(super) fn leave_later(&mut self, number: u32) {
        if let Some(churn) = self.scenario.churn {
            let at = self.now + self.churn.span(churn.session_seconds, churn.shape);
            self.events.push(at, Event::Leave(number));
        }
    }

    pub(super) fn return_later(&mut self, number: u32) {
        if let Some(churn) = self.scenario.churn {
            let span = self.churn.span(churn.absence_seconds, Shape::Exponential);
            self.events.push(self.now + span, Event::Return(number));
        }
    }

    /// A volunteer out of the name's addresses, for a client.
    pub(super) fn draw(&mut self, client: u32) -> Option<u32> {
        let listed = self.listed.all();
        if listed.is_empty() {
            return None;
        }
        let place = match self.scenario.choice {
            Choice::AtRandom => self.choice.index(listed.len()),
            Choice::InTurn => client as usize % listed.len(),
        };
        Some(listed[place])
    }
}
