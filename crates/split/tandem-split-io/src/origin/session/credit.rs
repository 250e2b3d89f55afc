//! How far the origin works ahead of its client, and the wait for its turn to do so.
//!
//! Is not: a pace for clients that take what they get: a piece is sealed while the client takes the
//! one before.
//!
//! Invariants: what is sealed and not taken is within the window, but for heads; whoever waits for
//! credit, a limit or its turn hears the client meanwhile, and stops when the volunteer is gone;
//! whoever waits for credit or a limit says how much of an upload was taken; who is queued for its
//! turn writes nothing, so that no turn waits for a volunteer.

use std::future::pending;
use std::io;
use std::pin::pin;
use std::time::Duration;

use tandem_split::Error;
use tandem_split::credit::{CONTENT, Window};
use tandem_split::cut::PIECE_LEN;
use tokio::time::{Instant, sleep_until};

use super::super::Failed;
use super::super::hearing::{Taken, Telling};
use super::super::work::Turn;
use super::Session;

/// How long a client may take for what the volunteer tells of at once: half a megabyte, over a line
/// of 2.4 kbit/s. The volunteer ends one that takes nothing long before.
const PATIENCE: Duration = Duration::from_secs(1800);
/// How long one piece takes that goes through a volunteer of the first version, which tells
/// nothing: 4 MiB each second.
const PIECE_TIME: Duration = Duration::from_millis(250);

/// How much has been sealed, and what is known of what was taken.
pub(in crate::origin) struct Credit {
    telling: Telling,
    window: Window,
    taken: Taken,
}

impl Credit {
    pub(in crate::origin) fn new(telling: Telling, taken: Taken) -> Self {
        Self {
            telling,
            window: Window::new(CONTENT),
            taken,
        }
    }

    /// Whether so many bytes more may be sealed.
    pub(super) fn covers(&mut self, bytes: usize) -> Result<bool, Failed> {
        if self.telling == Telling::Both {
            let taken = *self.taken.borrow_and_update();
            self.window.note_taken(taken).map_err(Error::from)?;
        }
        Ok(self.window.has_room(bytes as u64))
    }

    /// So many more have been sealed.
    pub(super) fn note_sealed(&mut self, bytes: usize) {
        self.window.note_sent(bytes as u64);
    }

    /// Waits for the end of the channel: nobody takes anything any more. One of the first version
    /// is known to be gone when nothing can be written to it.
    async fn is_gone(&mut self) -> Failed {
        match self.telling {
            Telling::Both => while self.taken.changed().await.is_ok() {},
            Telling::Nobody => pending().await,
        }
        Failed::Io(io::ErrorKind::UnexpectedEof.into())
    }

    /// Waits for more of it.
    async fn grows(&mut self, since: Instant) -> Result<(), Failed> {
        match self.telling {
            Telling::Both => {
                let changed = self.taken.changed().await;
                // Nobody takes anything any more.
                changed.map_err(|_| Failed::Io(io::ErrorKind::UnexpectedEof.into()))
            }
            Telling::Nobody => {
                sleep_until(since + PIECE_TIME).await;
                self.window.suppose_taken(PIECE_LEN as u64);
                Ok(())
            }
        }
    }
}

impl Session {
    /// Waits until so many bytes more may be sealed.
    pub(super) async fn await_credit(&mut self, bytes: usize) -> Result<(), Failed> {
        let mut since = Instant::now();
        while !self.credit.covers(bytes)? {
            self.flush().await?;
            let hears = self.inward.has_more();
            tokio::select! {
                grown = self.credit.grows(since) => {
                    grown?;
                    since = Instant::now();
                }
                stepped = self.inward.step(), if hears => stepped?,
                () = sleep_until(since + PATIENCE) => return Err(Failed::Stalled),
            }
        }
        Ok(())
    }

    /// Waits for the volunteer's limits, and for the turn to seal so many bytes.
    pub(super) async fn await_turn(&mut self, bytes: usize) -> Result<Turn, Failed> {
        let reserved = self.account.reserve(bytes as u64);
        self.await_limit(reserved.delay()).await?;
        let mut turn = pin!(reserved.turn());
        loop {
            let hears = self.inward.has_more();
            tokio::select! {
                biased;
                turn = &mut turn => return Ok(turn),
                failed = self.credit.is_gone() => return Err(failed),
                stepped = self.inward.step(), if hears => stepped?,
            }
        }
    }

    /// Waits for as long as a limit asks for.
    pub(super) async fn await_limit(&mut self, delay: Duration) -> Result<(), Failed> {
        if delay.is_zero() {
            return Ok(());
        }
        let until = Instant::now() + delay;
        loop {
            let hears = self.inward.has_more();
            tokio::select! {
                biased;
                () = sleep_until(until) => return Ok(()),
                failed = self.credit.is_gone() => return Err(failed),
                stepped = self.inward.step(), if hears => stepped?,
            }
            self.tell().await?;
        }
    }

    /// Tells the volunteer how much of the client's records has been taken, when it is time.
    pub(super) async fn tell(&mut self) -> Result<(), Failed> {
        if self.inward.owes_receipt() {
            self.flush().await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use tandem_split::message::{Message, Progress, Read};

    use super::super::super::hearing::{Ear, hearing};
    use super::*;

    fn full(telling: Telling) -> (Credit, Ear) {
        let (ear, _, taken) = hearing(telling);
        let mut credit = Credit::new(telling, taken);
        assert!(matches!(credit.covers(PIECE_LEN), Ok(true)));
        credit.note_sealed(PIECE_LEN);
        assert!(matches!(credit.covers(PIECE_LEN), Ok(false)));
        (credit, ear)
    }

    #[tokio::test(start_paused = true)]
    async fn for_a_volunteer_that_tells_nothing_a_piece_goes_out_each_quarter_of_a_second() {
        let (mut credit, _ear) = full(Telling::Nobody);
        let start = Instant::now();
        for _ in 0..8 {
            assert!(credit.grows(Instant::now()).await.is_ok());
            assert!(matches!(credit.covers(PIECE_LEN), Ok(true)));
            credit.note_sealed(PIECE_LEN);
        }
        assert_eq!(start.elapsed(), 8 * PIECE_TIME);
    }

    #[tokio::test(start_paused = true)]
    async fn a_volunteer_that_is_gone_or_lies_gives_no_credit() {
        let (mut credit, mut ear) = full(Telling::Both);
        let told = Message::Progress(Progress::Taken(200_000));
        assert!(ear.take(&told).await.is_some());
        assert!(credit.grows(Instant::now()).await.is_ok());
        assert!(matches!(credit.covers(PIECE_LEN), Ok(true)));
        for lie in [199_999, PIECE_LEN as u64 + 1] {
            let told = Message::Progress(Progress::Taken(lie));
            assert!(ear.take(&told).await.is_some());
            assert!(matches!(credit.covers(1), Err(Failed::Split(_))));
        }
        drop(ear);
        assert!(credit.grows(Instant::now()).await.is_err());
    }

    #[tokio::test]
    async fn a_volunteer_sends_no_more_records_than_it_has_credit_for() {
        let (mut ear, mut records, _taken) = hearing(Telling::Both);
        let bytes = [&[23, 3, 3, 0x3f, 0xfb][..], &[7; 0x3ffb]].concat();
        let Ok(Read::Whole(record, _)) = Message::read(&bytes) else {
            panic!("it is a record");
        };
        for _ in 0..16 {
            assert!(ear.take(&record).await.is_some());
        }
        assert!(ear.take(&record).await.is_none());
        for taken in 1..=4 {
            assert_eq!(records.poll_receipt(), None);
            assert!(records.recv().await.is_some());
            assert_eq!(records.owe_receipt(), taken == 4);
        }
        assert_eq!(records.poll_receipt(), Some(4 << 14));
        assert!(ear.take(&record).await.is_some());
        let end = Message::Progress(Progress::End);
        assert!(ear.take(&end).await.is_some());
        assert!(ear.take(&record).await.is_none(), "it has ended");
        for _ in 0..13 {
            assert!(records.recv().await.is_some());
        }
        assert!(records.recv().await.is_none());
    }

    #[tokio::test]
    async fn a_volunteer_that_says_something_is_there_until_its_channel_ends() {
        let (ear, _, taken) = hearing(Telling::Both);
        let mut credit = Credit::new(Telling::Both, taken);
        let mut ear = Some(ear);
        let gone = credit.is_gone();
        let mut gone = pin!(gone);
        let told = Message::Progress(Progress::Taken(0));
        for _ in 0..3 {
            if let Some(ear) = &mut ear {
                assert!(ear.take(&told).await.is_some());
            }
            tokio::select! {
                biased;
                _ = &mut gone => panic!("it is there"),
                () = tokio::task::yield_now() => {}
            }
        }
        drop(ear.take());
        assert!(matches!(gone.await, Failed::Io(_)));
    }
}
