//! What the peer says became of a delta, and what is made of that.
//!
//! Is not: the answers themselves, which the writer counts. Invariant: a delta is answered once.

use tandem_link::tunnel::{Malformed, Miss};
use tandem_store::Store;

use super::Joined;
use crate::output::Context;
use crate::writer::What;

impl Joined {
    /// The peer says what became of our delta.
    pub(super) fn answered<S: Store>(
        &mut self,
        missed: Option<Miss>,
        cx: &mut Context<'_, S>,
    ) -> Result<(), Malformed> {
        let following = self.following.as_ref();
        if missed.is_some()
            && self.writer.awaits_answer(What::Hello)
            && following.is_some_and(|following| following.connection.has_recalled())
        {
            // A far side that has lost the hello has lost what answered it.
            self.say(None, cx);
        }
        let what = self.writer.answered(missed).ok_or(Malformed)?;
        self.learn_answer(what, missed, cx);
        if let (What::ServerFlight, Some(_), Some(following)) = (what, missed, &mut self.following)
        {
            following.connection.server_flight_passes();
            self.conclude_if_over(cx);
        }
        Ok(())
    }

    /// The peer goes on after our delta: it has rebuilt it.
    pub(super) fn goes_on<S: Store>(&mut self, cx: &mut Context<'_, S>) {
        if let Some(what) = self.writer.goes_on() {
            self.learn_answer(what, None, cx);
        }
    }

    fn learn_answer<S: Store>(&self, what: What, missed: Option<Miss>, cx: &mut Context<'_, S>) {
        match (what, missed) {
            (What::Hello, None) => cx.engine.hello_rebuilt(),
            (What::Hello, Some(_)) => cx.engine.hello_missed(),
            (What::ClientFlight, Some(_)) => match (&self.following, self.written_chain) {
                (Some(following), _) => {
                    let streams = following.streams();
                    following.connection.client_was_missed(streams, cx.engine);
                }
                (None, Some(chain)) => cx.engine.client_chain_lacking(chain),
                (None, None) => {}
            },
            (What::ClientFlight, None) | (What::ServerFlight, _) => {}
        }
    }
}
