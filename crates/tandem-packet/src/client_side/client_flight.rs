//! The client's answer to the server's flight, at the client-side proxy: when it is held, and on what ground it is written shorter.
//!
//! Is not: the writing (`writer`), nor the grounds themselves (`tandem-engine`). Invariants: nothing is held but after a
//! CertificateRequest, and nothing longer than until the client has shown a chain of which the far side is believed to hold
//! nothing; a flow in which either direction was not rebuilt is not altered any more.

use tandem_engine::intention::HeldBits;
use tandem_engine::{Believed, ClientChain, Reference};
use tandem_store::Store;
use tandem_wire::TcpPacket;

use super::Agreed;
use crate::config::{ClientCertificates, WireFormat};
use crate::context::{Context, Toward};
use crate::output::{Event, Owed};
use crate::watch::{Progress, Shown};
use crate::writer::{Aim, Ground, Terms};

impl Agreed {
    /// The client sends something: where that is the answer to a request for a certificate, the writer is to have it.
    pub(super) fn expect_flight<S: Store>(
        &mut self,
        packet: &TcpPacket<'_>,
        cx: &mut Context<'_, S>,
    ) {
        let harmless = match cx.config.wire {
            WireFormat::Safe => !self.is_stripped,
            WireFormat::Mcveety(_) => true,
        };
        let wanted = match cx.config.client_certificates {
            ClientCertificates::None => false,
            ClientCertificates::Persistent => true,
            ClientCertificates::Cii { .. } => !self.confirmed.is_empty(),
        };
        let from = self.watch.next(Toward::Server);
        if wanted
            && harmless
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
