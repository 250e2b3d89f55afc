//! The client's answer to the server's flight, at the client-side proxy: when it is held, and on
//! what ground it is written shorter.
//!
//! Is not: the writing (`writer`), nor the grounds themselves (`tandem-engine`). Invariants:
//! nothing is held but after a CertificateRequest, and nothing longer than until the client has
//! shown a chain of which the far side is believed to hold nothing; a flow in which either
//! direction was not rebuilt is not altered any more.

use tandem_delta::Reference;
use tandem_engine::filter::{Filter, Holdings, Rate};
use tandem_engine::intention::HeldBits;
use tandem_engine::{Believed, ClientChain};
use tandem_link::inband::publication::{self, Publication};
use tandem_store::{Limits, Store};
use tandem_wire::TcpPacket;

use super::Agreed;
use crate::config::ClientCertificates;
use crate::context::{Context, Toward};
use crate::format::{Format, Ground};
use crate::output::{Event, Owed};
use crate::watch::{Progress, Shown};
use crate::writer::{Aim, Terms};

impl Agreed {
    /// The client sends something: where that is the answer to a request for a certificate, the
    /// writer is to have it.
    pub(super) fn expect_flight<S: Store>(
        &mut self,
        packet: &TcpPacket<'_>,
        cx: &mut Context<'_, S>,
    ) {
        // What was never harmless is no worse for it.
        let may_write = !cx.config.wire.is_harmless() || !self.is_stripped && cx.may_rewrite;
        let wanted = match cx.config.client_certificates {
            ClientCertificates::None => false,
            ClientCertificates::Persistent => true,
            ClientCertificates::Cii { .. } => !self.confirmed.is_empty(),
            ClientCertificates::Filter { .. } => cx.far.holds_any(),
        };
        let from = self.watch.next(Toward::Server);
        if wanted
            && may_write
            && !self.inbound.has_missed()
            && !packet.payload().is_empty()
            && !packet.seq().is_before(from)
            && self.watch.asks_for_certificate()
            && !self.watch.client_has_shown()
        {
            self.writer.arm(Aim {
                from,
                ground: Ground::Unseen,
            });
        }
    }

    /// The client may have shown its chain.
    pub(super) fn form_belief<S: Store>(&mut self, cx: &mut Context<'_, S>) {
        if !self.writer.awaits_belief() {
            return;
        }
        let believed = match self.watch.shown() {
            Shown::NotYet => return,
            Shown::Nothing => Believed::default(),
            Shown::Chain(chain) if cx.far.is_lacking(&chain.id()) => Believed::default(),
            Shown::Chain(chain) => self.believed(&chain, cx),
        };
        self.writer.believe(believed, cx.out);
    }

    fn believed<S: Store>(&self, chain: &ClientChain, cx: &mut Context<'_, S>) -> Believed {
        match cx.config.client_certificates {
            ClientCertificates::None => Believed::default(),
            ClientCertificates::Persistent => chain.remembered(cx.store),
            ClientCertificates::Cii { .. } => {
                chain.among(|reference| self.confirmed.contains(reference))
            }
            ClientCertificates::Filter { .. } if cx.far.holds(&chain.id()) => chain.whole(),
            ClientCertificates::Filter { .. } => Believed::default(),
        }
    }

    /// The far side may say what it holds: whether this is that.
    pub(super) fn takes_publication<S: Store>(
        &mut self,
        packet: &TcpPacket<'_>,
        cx: &mut Context<'_, S>,
    ) -> bool {
        let goes_by_filter = match cx.config.client_certificates {
            ClientCertificates::Filter { .. } => cx.config.wire.is_harmless(),
            ClientCertificates::None
            | ClientCertificates::Persistent
            | ClientCertificates::Cii { .. } => false,
        };
        if !goes_by_filter {
            return false;
        }
        let said = publication::read(cx.key, self.id, self.version, packet.payload());
        let Some(filter) = said.and_then(|said| filter_of(&said)) else {
            return false;
        };
        let holdings = Holdings(filter.salt());
        // One that was held up in the link may be older than what is known since; a connection has
        // one at most.
        if !std::mem::replace(&mut self.was_told, true) && holdings != cx.far.holdings() {
            cx.far.publishes(holdings, filter);
            cx.out.event(Event::FilterReceived);
        }
        true
    }

    /// Both Finished have passed: the client's chain is remembered, here or as what the far side
    /// has just learned.
    pub(super) fn learn_client<S: Store>(&mut self, cx: &mut Context<'_, S>) {
        let learned = match cx.config.client_certificates {
            ClientCertificates::None => None,
            ClientCertificates::Persistent | ClientCertificates::Cii { .. } => {
                let learned = self.watch.learn_client(cx.store, cx.wall);
                learned.inspect(|chain| cx.far.learned(chain))
            }
            ClientCertificates::Filter { .. } => match self.watch.shown() {
                // What is beyond the bounds is held nowhere.
                Shown::Chain(chain) if chain.length() <= Limits::default().object_bytes => {
                    cx.far.notes(chain.id());
                    Some(chain.id())
                }
                Shown::Chain(_) | Shown::Nothing | Shown::NotYet => None,
            },
        };
        if learned.is_some() {
            cx.out.event(Event::ClientChainLearned);
        }
    }

    /// The far side says which of the certificates that the client's hello names it holds.
    pub(super) fn confirm<S: Store>(&mut self, held: HeldBits, cx: &mut Context<'_, S>) {
        let ClientCertificates::Cii { extension } = cx.config.client_certificates else {
            return;
        };
        if let Some(intention) = self.watch.intention(extension) {
            self.confirm_all(intention.among(held), cx);
        }
    }

    /// The same by the certificates themselves; what is said again is no news.
    pub(super) fn confirm_all<S: Store>(&mut self, held: Vec<Reference>, cx: &mut Context<'_, S>) {
        if self.confirmed.is_empty() && !held.is_empty() {
            self.confirmed = held;
            cx.out.event(Event::IntentionConfirmed);
        }
    }

    /// What the client sent was not rebuilt.
    pub(super) fn disbelieve<S: Store>(&mut self, cx: &mut Context<'_, S>) {
        self.writer.send_originals(cx.config.limits.mtu, cx.out);
        self.judge_referral(cx);
        if let Shown::Chain(chain) = self.watch.shown() {
            cx.far.lacks(chain.id());
        }
    }

    /// Hands the segment to the writer.
    pub(super) fn write<S: Store>(
        &mut self,
        owed: Owed,
        packet: &TcpPacket<'_>,
        seen: Progress,
        cx: &mut Context<'_, S>,
    ) {
        let terms = Terms {
            key: cx.key,
            wire: cx.config.wire,
            limits: &cx.config.limits,
            flow: self.id,
            version: self.version,
            toward: Toward::Server,
            mss: self.server_mss,
            pace: self.timer.pace(cx.link),
            answer: &[],
        };
        self.writer.segment(
            owed,
            packet,
            (&self.watch, seen),
            terms,
            (cx.store, cx.now, cx.out),
        );
    }
}

/// The filter in a publication; `None` where its bits are none.
fn filter_of(said: &Publication<'_>) -> Option<Filter> {
    let rate = Rate::one_in(said.rate)?;
    Filter::parse(said.bits, said.count, said.holdings, rate)
}
