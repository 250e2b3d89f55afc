//! What the client side notes of a client's answer to a server's flight of TLS 1.3: whether it
//! shows a certificate, and whether that has crossed opened.
//!
//! Is not: the opening (`sealed_client`), or what is remembered (`sealed::answers`). Invariant:
//! only clients are noted that may hand in keys; nothing waits for an answer, and none is changed.

use tandem_store::{Site, Store};

use super::sealed::Sealed;
use super::{Connection, Streams};
use crate::engine::Engine;
use crate::peer::ClientChain;
use crate::sealed::{AnswerRead, AnswerReader, KeyClient};

/// Whose answer it is, and to whom.
#[derive(Debug, Clone)]
pub(super) struct Answering {
    pub(super) client: KeyClient,
    pub(super) site: Site,
}

/// Reads the answer of a client behind a flight that passes as it is, as far as its first record's
/// head. Of use as long as [`AnswerWatch::read`] says.
#[derive(Debug)]
pub struct AnswerWatch {
    answering: Answering,
    reader: AnswerReader,
}

impl AnswerWatch {
    /// The client has sent this. `false`: all is known.
    #[must_use]
    pub fn read<S: Store>(&mut self, bytes: &[u8], engine: &mut Engine<S>) -> bool {
        let Answering { client, site } = &self.answering;
        match self.reader.read(bytes) {
            AnswerRead::ToCome => return true,
            AnswerRead::Shows(repeats) => engine.answers.passed(*client, site, repeats),
            AnswerRead::ShowsNone => {}
        }
        false
    }
}

impl Connection {
    /// Client side, where the server's flight has passed as it is: what reads the client's answer
    /// on, unless all of that is known.
    pub fn watch_answer<S: Store>(
        &self,
        streams: Streams<'_>,
        engine: &mut Engine<S>,
    ) -> Option<AnswerWatch> {
        if let Sealed::Crossed(_) = self.sealed {
            return None;
        }
        let mut watch = AnswerWatch {
            answering: self.answering.clone()?,
            reader: AnswerReader::default(),
        };
        watch.read(streams.client, engine).then_some(watch)
    }

    /// Client side, where nothing more is followed: notes what came of the answer to a flight that
    /// has crossed opened.
    pub(super) fn note_answer<S: Store>(&self, engine: &mut Engine<S>) {
        let (Some(Answering { client, site }), Sealed::Crossed(_)) =
            (&self.answering, &self.sealed)
        else {
            return;
        };
        let shown = self.crossed_client_flight();
        let chain = shown.and_then(|shown| ClientChain::of(shown.flight, shown.bytes));
        match chain {
            Some(chain) => engine.answers.crossed(*client, site, chain.length()),
            None => engine.answers.in_vain(*client, site),
        }
    }
}
