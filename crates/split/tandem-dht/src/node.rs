//! A volunteer's node, as its volunteer sees it: a question, an announcement.
//!
//! Is not: the network, which a task has (`task`).
//!
//! Invariant: neither waits for the network but the question, which whoever asks gives up when he
//! likes.

use std::net::SocketAddr;
use std::sync::Arc;

use tandem_barnraising::Peer;
use tandem_channel::ChannelKey;
use tandem_split_io::SplitIoError;
use tandem_split_io::volunteer::{Directory, Holders, Members};
use tokio::sync::{mpsc, oneshot};

use crate::task::{self, Node, Question};

/// Announcements that wait for the task; more are forgotten.
const ANNOUNCEMENTS: usize = 4096;
/// Questions that wait for it.
const QUESTIONS: usize = 1024;

/// See above. Dropping it ends the task.
#[derive(Debug)]
pub struct Kademlia {
    questions: mpsc::Sender<Question>,
    announcements: mpsc::Sender<[u8; 32]>,
}

impl Kademlia {
    /// Starts the node of the volunteer with this key, among these members, at these addresses, of
    /// which `[::]` has IPv4, too. Must be called within a runtime.
    ///
    /// # Errors
    /// The address cannot be listened on.
    pub fn start(
        key: &ChannelKey,
        listen: &[SocketAddr],
        members: Members,
    ) -> Result<Arc<Self>, SplitIoError> {
        let (questions, asked) = mpsc::channel(QUESTIONS);
        let (announcements, announced) = mpsc::channel(ANNOUNCEMENTS);
        let node = Node::new(key, listen, members)?;
        tokio::spawn(task::run(node, asked, announced));
        Ok(Arc::new(Self {
            questions,
            announcements,
        }))
    }

    async fn ask(&self, digest: &[u8; 32]) -> Vec<Peer> {
        let (answer, answered) = oneshot::channel();
        let question = Question {
            digest: *digest,
            answer,
        };
        if self.questions.send(question).await.is_err() {
            return Vec::new();
        }
        answered.await.unwrap_or_default()
    }
}

impl Directory for Kademlia {
    fn holders<'a>(&'a self, digest: &'a [u8; 32]) -> Holders<'a> {
        Box::pin(self.ask(digest))
    }

    fn holds(&self, digest: &[u8; 32]) {
        // One that finds no room is asked for at the origin by whoever needs it.
        let _ = self.announcements.try_send(*digest);
    }
}
