//! Relays of the test's own: one that counts, and one that does what a bad volunteer would.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

const APPLICATION_DATA: u8 = 23;
/// Bytes of what a large record has at least, header aside: more than half of what it may. A page
/// that a browser opens first has none.
const LARGE: usize = 8 << 10;

/// Counts what comes back from where it leads, and the records of TLS that go there.
pub(crate) struct Counting {
    pub(crate) address: SocketAddr,
    pub(crate) came_back: Arc<AtomicU64>,
    went: Arc<AtomicU64>,
    open: Arc<Mutex<Vec<TcpStream>>>,
}

impl Counting {
    pub(crate) fn start(to: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("bound");
        let came_back = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&came_back);
        let went = Arc::new(AtomicU64::new(0));
        let records = Arc::clone(&went);
        let open = Arc::new(Mutex::new(Vec::new()));
        let opened = Arc::clone(&open);
        thread::spawn(move || {
            for near in listener.incoming().flatten() {
                let Ok(far) = TcpStream::connect(to) else {
                    continue;
                };
                let (counter, records) = (Arc::clone(&counter), Arc::clone(&records));
                let (near2, far2) = both(&near, &far);
                let (near3, far3) = both(&near, &far);
                opened
                    .lock()
                    .expect("nobody panics there")
                    .extend([near3, far3]);
                thread::spawn(move || pass_records(near2, far2, &records));
                thread::spawn(move || {
                    pass(far, near, |len| {
                        counter.fetch_add(len as u64, Ordering::Relaxed);
                    });
                });
            }
        });
        Self {
            address,
            came_back,
            went,
            open,
        }
    }

    /// How many protected records have gone to where it leads.
    pub(crate) fn records(&self) -> u64 {
        self.went.load(Ordering::Relaxed)
    }

    /// How many connections were taken since they were last cut.
    pub(crate) fn connections(&self) -> usize {
        self.open.lock().expect("nobody panics there").len() / 2
    }

    /// Ends every connection that there is.
    pub(crate) fn cut_all(&self) {
        for stream in self.open.lock().expect("nobody panics there").drain(..) {
            // It may have ended by itself.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.came_back.load(Ordering::Relaxed)
    }
}

fn both(near: &TcpStream, far: &TcpStream) -> (TcpStream, TcpStream) {
    (
        near.try_clone().expect("a descriptor"),
        far.try_clone().expect("a descriptor"),
    )
}

/// Passes on records of TLS, and counts those that are protected.
fn pass_records(mut from: TcpStream, mut to: TcpStream, count: &AtomicU64) {
    let mut record = vec![0; 5];
    while from.read_exact(&mut record[..5]).is_ok() {
        let len = usize::from(u16::from_be_bytes([record[3], record[4]]));
        record.resize(5 + len, 0);
        if from.read_exact(&mut record[5..]).is_err() || to.write_all(&record).is_err() {
            break;
        }
        if record[0] == APPLICATION_DATA {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}

fn pass(mut from: TcpStream, mut to: TcpStream, count: impl Fn(usize)) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(len @ 1..) = from.read(&mut buffer) {
        count(len);
        if to.write_all(&buffer[..len]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}

/// What becomes of the server's large records: a file's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Harm {
    /// One bit of the third.
    Flip,
    /// The third does not come.
    Drop,
    /// The third and the fourth change places.
    Reorder,
    /// The third comes twice.
    Replay,
    /// The connection ends after the third, in good order.
    Truncate,
    /// As with a flip, and nothing more is taken: what the client says then and the end of the
    /// connection come together, while the volunteer still writes.
    Clog,
    /// Nothing comes after the third.
    Stall,
}

impl Harm {
    /// Those after which the connection ends by itself.
    pub(crate) const ENDING: [Self; 5] = [
        Self::Flip,
        Self::Drop,
        Self::Reorder,
        Self::Replay,
        Self::Truncate,
    ];
}

/// A way to the volunteer on which the server's records are harmed.
pub(crate) fn harmful(to: SocketAddr, harm: Harm) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound");
    thread::spawn(move || {
        for near in listener.incoming().flatten() {
            let Ok(far) = TcpStream::connect(to) else {
                continue;
            };
            let (near2, far2) = both(&near, &far);
            if harm == Harm::Clog {
                let clogged = thread::spawn(move || harm_records(far, near, harm));
                thread::spawn(move || pass_last_words_late(near2, far2, &clogged));
            } else {
                thread::spawn(move || pass(near2, far2, |_| {}));
                thread::spawn(move || harm_records(far, near, harm));
            }
        }
    });
    address
}

fn pass_last_words_late(mut from: TcpStream, mut to: TcpStream, clogged: &JoinHandle<()>) {
    let mut last_words = Vec::new();
    let mut buffer = vec![0; 64 << 10];
    while let Ok(len @ 1..) = from.read(&mut buffer) {
        if clogged.is_finished() {
            last_words.extend_from_slice(&buffer[..len]);
        } else if to.write_all(&buffer[..len]).is_err() {
            return;
        }
    }
    // Much that came was not read: the close resets.
    let _ = to.write_all(&last_words);
}

fn harm_records(mut from: TcpStream, mut to: TcpStream, harm: Harm) {
    let mut number = 0;
    let mut kept = Vec::new();
    loop {
        let mut record = vec![0; 5];
        if from.read_exact(&mut record).is_err() {
            break;
        }
        let len = usize::from(u16::from_be_bytes([record[3], record[4]]));
        record.resize(5 + len, 0);
        if from.read_exact(&mut record[5..]).is_err() {
            break;
        }
        let is_large = record[0] == APPLICATION_DATA && len >= LARGE;
        number += usize::from(is_large);
        let is_third = is_large && number == 3;
        let out = match harm {
            Harm::Flip if is_third => {
                record[40] ^= 1;
                record
            }
            Harm::Drop if is_third => continue,
            Harm::Replay if is_third => [record.clone(), record].concat(),
            Harm::Reorder if is_third => {
                kept = record;
                continue;
            }
            Harm::Reorder if is_large && number == 4 => {
                [record, std::mem::take(&mut kept)].concat()
            }
            Harm::Truncate if is_third => {
                let _ = to.write_all(&record);
                break;
            }
            Harm::Clog if is_third => {
                record[40] ^= 1;
                let _ = to.write_all(&record);
                return;
            }
            Harm::Stall if is_third => {
                let _ = to.write_all(&record);
                let _ = std::io::copy(&mut from, &mut std::io::sink());
                return;
            }
            Harm::Flip
            | Harm::Drop
            | Harm::Replay
            | Harm::Reorder
            | Harm::Truncate
            | Harm::Clog
            | Harm::Stall => record,
        };
        if to.write_all(&out).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}
