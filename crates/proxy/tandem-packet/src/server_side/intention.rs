//! The confirmation of a client's CII at the server-side proxy: which of the certificates that the
//! hello names are stored (McVeety 2009, section 3.2.5, steps 2 to 4).
//!
//! Is not: the reading of a CII (`tandem-engine`), nor the thesis's way to confirm, which is the
//! writer's. Invariants: nothing is said where nothing is stored; a confirmation rides on what the
//! server sends anyway, and alone only where a flight is held that would else come first.

use tandem_delta::Reference;
use tandem_link::inband::option;
use tandem_store::Store;
use tandem_wire::TcpPacket;

use super::Agreed;
use crate::context::Context;
use crate::format::Format;
use crate::output::Direction;
use crate::segment;

/// How many segments carry the confirmation: one more in case the first is lost.
const COPIES: u8 = 2;

/// What is to be said of the client's certificates.
#[derive(Debug, Default)]
pub(super) enum Confirmation {
    /// The hello is not complete yet.
    #[default]
    Pending,
    /// An option, so many times more.
    ByOption(Vec<u8>, u8),
    /// The thesis's: these references, in the ServerHello.
    InHello(Vec<Reference>),
    /// Nothing.
    Nothing,
}

impl Confirmation {
    /// What the ServerHello is to say.
    pub(super) fn in_hello(&self) -> &[Reference] {
        match self {
            Self::InHello(stored) => stored,
            Self::Pending | Self::ByOption(..) | Self::Nothing => &[],
        }
    }
}

impl Agreed {
    /// Reads the hello's CII, once it is complete.
    pub(super) fn consider_intention<S: Store>(&mut self, cx: &mut Context<'_, S>) {
        if !matches!(self.confirmation, Confirmation::Pending)
            || !self.common.watch.hello_is_complete()
        {
            return;
        }
        self.confirmation = Confirmation::Nothing;
        let (connection, streams) = self.common.watch.parts();
        let Some((stored, by_name)) = connection.intention_held(streams, cx.engine) else {
            return;
        };
        self.confirmation = if cx.config.wire.shows_itself() {
            let option = option::held(cx.key, self.common.id, self.common.version, stored.0);
            Confirmation::ByOption(option, COPIES)
        } else {
            Confirmation::InHello(by_name)
        };
    }

    /// The segment of the server's with the confirmation, where one is to be given and there is
    /// room.
    pub(super) fn with_confirmation<S>(
        &mut self,
        packet: &TcpPacket<'_>,
        cx: &Context<'_, S>,
    ) -> Option<Vec<u8>> {
        let Confirmation::ByOption(option, copies @ 1..) = &mut self.confirmation else {
            return None;
        };
        let edited = segment::with_proxy_option(packet, option, cx.config.limits.mtu)?;
        *copies -= 1;
        Some(edited)
    }

    /// Gives the confirmation by itself, before a flight that is held from this segment on, if it
    /// was not given yet.
    pub(super) fn confirm_alone<S>(&mut self, packet: &TcpPacket<'_>, cx: &mut Context<'_, S>) {
        let Confirmation::ByOption(option, copies @ COPIES) = &mut self.confirmation else {
            return;
        };
        *copies -= 1;
        if let Some(alone) = segment::lone_option(packet, packet.seq(), option) {
            cx.out.inject(Direction::ToLink, alone);
        }
    }
}
