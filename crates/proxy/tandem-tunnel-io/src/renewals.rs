//! The questions after sites' next chains with their sockets: the client side's tasks that ask, and
//! the server side's looks at sites.
//!
//! Is not: who is asked after, and when (`tandem-engine`), or what a question says
//! (`tandem-tunnel`).
//!
//! Invariants: no tunnel is made for a question, and none is woken; each question ends in bounded
//! time; questions under way are bounded in number, and looks go where connections through the
//! tunnel may go.

use std::sync::Arc;
use std::time::Duration;

use tandem_daemon::places::{Places, Share};
use tandem_engine::{Look, PeerId, Seen, Wanted};
use tandem_link::tunnel::{Ending, MAX_RENEWAL_ANSWER, MAX_RENEWAL_QUERY, Malformed, Open, Target};
use tandem_tunnel::renewal::{self, Step};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::{Instant, sleep, timeout};

use crate::board::Tally;
use crate::dial::Dialer;
use crate::keeper::{Keeper, Leased};
use crate::shared::Shared;
use crate::transport::{Receiving, Sending, Stream, Tunnel};
use crate::whole::{read_question, read_whole, write_answer, write_whole};

/// Between two looks at what the tunnel has carried. They cost the line nothing.
const INTERVAL: Duration = Duration::from_secs(5);
/// For a question and its answer: a chain takes seconds on a thin line, and a few are asked after
/// at a time.
const PATIENCE: Duration = Duration::from_secs(120);
/// For a site to be found, to be connected to and to show its chain.
const LOOK: Duration = Duration::from_secs(10);
/// Questions that are answered at a time, of all client sides together, which share them.
const MAX_LOOKS: usize = 16;
/// Bytes that are read of a site at a time.
const PIECE: usize = 4_096;

/// The client side: asks after what is due, for ever.
pub(crate) async fn ask_ahead<T: Tunnel>(keeper: Arc<Keeper<T>>, shared: Arc<Shared>) {
    let mut carried = (0, 0);
    let mut since = Instant::now();
    loop {
        sleep(INTERVAL).await;
        let Some(tunnel) = keeper.now() else {
            continue;
        };
        let counts = tunnel.counts();
        let now = (counts.sent_datagrams, counts.received_datagrams);
        if now != carried {
            (carried, since) = (now, Instant::now());
        }
        for wanted in shared.renewals_due(since.elapsed()) {
            let (keeper, shared) = (Arc::clone(&keeper), Arc::clone(&shared));
            tokio::spawn(async move {
                // Without an answer it is asked again after a while.
                let _ = timeout(PATIENCE, ask(&keeper, &shared, &wanted)).await;
            });
        }
    }
}

async fn ask<T: Tunnel>(keeper: &Keeper<T>, shared: &Shared, wanted: &Wanted) -> Option<()> {
    let question = renewal::question(wanted)?;
    let Leased {
        mut stream,
        lease: _lease,
    } = keeper.stream().await?;
    shared.board.count(Tally::RenewalsAsked, 1);
    stream.sending.lower_priority();
    write_whole(&mut stream.sending, &question).await.ok()?;
    let answer = read_whole(&mut stream.receiving, &[], MAX_RENEWAL_ANSWER).await;
    let crossed = question.len() + answer.as_ref().map_or(0, Vec::len);
    shared.board.count(Tally::RenewalLinkBytes, crossed);
    if shared.renewed(wanted, &answer?).is_err() {
        stream.receiving.stop(Ending::Malformed.code());
    }
    Some(())
}

/// The server side: looks at sites.
pub(crate) struct Looks {
    dialer: Arc<Dialer>,
    shared: Arc<Shared>,
    places: Arc<Places<PeerId>>,
}

impl Looks {
    pub(crate) fn new(dialer: Arc<Dialer>, shared: Arc<Shared>, share: Share) -> Self {
        Self {
            dialer,
            shared,
            places: Places::new(MAX_LOOKS, share),
        }
    }

    /// Answers the question, of this peer, of which `begun` has come.
    pub(crate) async fn serve<S: Sending, R: Receiving>(
        &self,
        (mut stream, peer): (Stream<S, R>, PeerId),
        begun: &[u8],
    ) {
        if let Err(ending) = self.answer((&mut stream, peer), begun).await {
            stream.break_off(ending);
        }
    }

    async fn answer<S: Sending, R: Receiving>(
        &self,
        (stream, peer): (&mut Stream<S, R>, PeerId),
        begun: &[u8],
    ) -> Result<(), Ending> {
        let question = read_question(&mut stream.receiving, begun, MAX_RENEWAL_QUERY).await?;
        // Until the answer is on its way: a peer that does not take it holds a place, and no more.
        let _place = self.places.take(peer).ok_or(Ending::Overloaded)?;
        let mut random = [0; 32];
        getrandom::fill(&mut random).map_err(|_| Ending::Overloaded)?;
        let step = self.shared.read_renewal(&question, random);
        let answer = match step.map_err(|Malformed| Ending::Malformed)? {
            Step::Answer(answer) => answer,
            Step::Look(target, mut look) => {
                self.shared.board.count(Tally::RenewalsLookedFor, 1);
                let seen = self.look((target, peer), &mut look).await;
                self.shared.renewal_answer(&look, seen)
            }
        };
        // Handshakes go first.
        stream.sending.lower_priority();
        write_answer(&mut stream.sending, &answer, PATIENCE).await
    }

    /// The list that the site shows. What is begun with it ends here.
    async fn look(&self, (target, peer): (Target, PeerId), look: &mut Look) -> Option<Vec<u8>> {
        let looking = async {
            let mut server = self.dialer.dial(Open::to(target), peer).await.ok()?;
            server.write_all(look.hello()).await.ok()?;
            let mut piece = [0; PIECE];
            loop {
                let length = server.read(&mut piece).await.ok()?;
                match (length, look.read(piece.get(..length)?)) {
                    (_, Seen::Chain(list)) => return Some(list),
                    (0, _) | (_, Seen::NoChain) => return None,
                    (_, Seen::Nothing) => {}
                }
            }
        };
        timeout(LOOK, looking).await.ok().flatten()
    }
}

#[cfg(test)]
mod tests {
    use tandem_engine::Role;
    use tandem_link::tunnel::RenewalQuery;
    use tandem_tunnel::{Allowed, Handshakes, WayOut};

    use super::*;
    use crate::board::Facts;
    use crate::config::{ClientCertificates, Renewals};
    use crate::shared::{Held, Keys};
    use crate::whole::tests::{Full, Rest};

    fn looks(store: &tempfile::TempDir) -> Looks {
        let facts = Facts {
            role: "server-side",
            link: String::new(),
        };
        let held = Held {
            store: store.path(),
            authorities: None,
            renewals: Renewals::AtVisits,
            client_certificates: ClientCertificates::default(),
            shared: None,
        };
        let shared = Shared::open(
            Role::ServerSide,
            held,
            Handshakes::Shortened,
            Keys::default(),
            facts,
        );
        let shared = shared.expect("a store");
        let board = Arc::clone(&shared.board);
        let dialer = Dialer::new(Allowed::everything(), WayOut::Own, board);
        Looks::new(Arc::new(dialer), shared, Share::All)
    }

    #[tokio::test(start_paused = true)]
    async fn a_place_is_held_until_the_answer_is_taken_or_given_up() {
        let store = tempfile::tempdir().expect("a directory");
        let looks = Arc::new(looks(&store));
        let mut question = Vec::new();
        let target = Target::new("unknown.example", 443).expect("a name");
        let written = RenewalQuery {
            target,
            held: [0; 4],
        }
        .write(&mut question);
        written.expect("short");
        let ask = || {
            let (looks, question, sending) =
                (Arc::clone(&looks), question.clone(), Full::default());
            let stream = Stream {
                sending: sending.clone(),
                receiving: Rest::End,
            };
            let served =
                tokio::spawn(
                    async move { looks.serve((stream, PeerId::OTHER_END), &question).await },
                );
            (served, sending)
        };
        // A site that nobody has shown here is answered at once, and nobody takes the answer.
        let held: Vec<_> = (0..MAX_LOOKS).map(|_| ask()).collect();
        let (served, refused) = ask();
        served.await.expect("no panic");
        assert_eq!(refused.reset_with(), Some(Ending::Overloaded.code()));
        assert!(
            held.iter()
                .all(|(_, sending)| sending.reset_with().is_none())
        );
        for (served, sending) in held {
            served.await.expect("no panic");
            assert_eq!(sending.reset_with(), Some(Ending::TimedOut.code()));
        }
        let (served, sending) = ask();
        served.await.expect("no panic");
        assert_eq!(sending.reset_with(), Some(Ending::TimedOut.code()));
    }
}
