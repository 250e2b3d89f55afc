//! The thread that writes, so that no handshake ever waits for a disk: a commit may take a second
//! on a worn memory card.
//!
//! Not here: what to write and when. Invariant: at most one job is under way; the owner learns of
//! its end by asking.

use core::time::Duration;
use std::io;
use std::path::Path;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread::{self, JoinHandle};

use rusqlite::Connection;

use crate::database::Fault;
use crate::files::Identity;
use crate::rows::Batch;

/// Something to do to the database.
#[derive(Debug)]
pub(crate) enum Job {
    /// Write these rows.
    Write(Batch),
    /// Leave nothing of what was deleted: empty the journal, give free pages back.
    Scrub,
    /// Let the file have at most so many pages: how tests fill a disk.
    #[cfg(test)]
    LimitPages(u32),
}

/// The thread, and the way to it.
#[derive(Debug)]
pub(crate) struct Writer {
    jobs: Option<SyncSender<Job>>,
    answers: Receiver<Result<(), Fault>>,
    thread: Option<JoinHandle<()>>,
    is_busy: bool,
}

impl Writer {
    /// Starts the thread.
    pub(crate) fn start(mut connection: Connection, path: &Path) -> io::Result<Self> {
        let path = path.to_owned();
        let opened = Identity::of(&path);
        let (jobs, to_do) = mpsc::sync_channel::<Job>(1);
        let (done, answers) = mpsc::sync_channel(1);
        let work = move || {
            while let Ok(job) = to_do.recv() {
                // A file without a name takes every write, and is gone with the process.
                let answer = if Identity::of(&path) == opened {
                    perform(&job, &mut connection)
                } else {
                    Err(Fault::Removed)
                };
                // The rows go before the answer: their bytes would be counted twice.
                drop(job);
                if done.send(answer).is_err() {
                    return;
                }
            }
        };
        let thread = thread::Builder::new()
            .name("tandem-store".to_owned())
            .spawn(work)?;
        Ok(Self {
            jobs: Some(jobs),
            answers,
            thread: Some(thread),
            is_busy: false,
        })
    }

    /// Whether a job is under way, or its answer was not asked for.
    pub(crate) const fn is_busy(&self) -> bool {
        self.is_busy
    }

    /// Gives it a job. To be called while it is not busy.
    pub(crate) fn give(&mut self, job: Job) {
        debug_assert!(!self.is_busy, "one job at a time");
        if let Some(jobs) = &self.jobs {
            // The thread ends only when the way to it is closed; if it panicked, the answer will
            // say so.
            drop(jobs.try_send(job));
            self.is_busy = true;
        }
    }

    /// The answer to the job under way, if it comes within `wait`.
    pub(crate) fn answer(&mut self, wait: Duration) -> Option<Result<(), Fault>> {
        if !self.is_busy {
            return None;
        }
        let answer = match self.answers.recv_timeout(wait) {
            Ok(answer) => answer,
            Err(mpsc::RecvTimeoutError::Timeout) => return None,
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                Err(Fault::Corrupt("the writer ended".to_owned()))
            }
        };
        self.is_busy = false;
        Some(answer)
    }
}

impl Drop for Writer {
    /// Ends the thread, and waits for it unless it is stuck on a disk that does not answer.
    fn drop(&mut self) {
        self.jobs = None;
        if !self.is_busy
            && let Some(thread) = self.thread.take()
        {
            drop(thread.join());
        }
    }
}

fn perform(job: &Job, connection: &mut Connection) -> Result<(), Fault> {
    match job {
        Job::Write(batch) => Ok(batch.write(connection)?),
        Job::Scrub => scrub(connection),
        #[cfg(test)]
        Job::LimitPages(pages) => {
            Ok(connection.pragma_update_and_check(None, "max_page_count", pages, |_| Ok(()))?)
        }
    }
}

fn scrub(connection: &Connection) -> Result<(), Fault> {
    // This pragma gives back one page for each row that is read.
    let mut vacuum = connection.prepare("PRAGMA incremental_vacuum")?;
    let mut rows = vacuum.query([])?;
    while rows.next()?.is_some() {}
    let is_busy: i64 =
        connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))?;
    if is_busy == 0 {
        Ok(())
    } else {
        Err(Fault::Disk(
            "somebody is still reading what was deleted".to_owned(),
        ))
    }
}
