//! What a bad volunteer does to records, done by a relay between a client and an honest volunteer.
//!
//! Is not: a volunteer. It has no key; what takes one to do is [`super::swap`]'s.
//!
//! Only large records are harmed, the third of them on each connection, so that a page opens and
//! its file is what suffers.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;

use tandem_testbed::LabError;

/// What becomes of the third large record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Harm {
    /// One bit of it is another.
    Flip,
    /// It does not come.
    Drop,
    /// It comes after the fourth.
    Reorder,
    /// It comes twice.
    Replay,
    /// It is the last, and the connection ends in good order.
    Truncate,
    /// It is the last, and the connection stays open.
    Stall,
}

const APPLICATION_DATA: u8 = 23;
/// Bytes of what a large record has at least, header aside: more than half of what it may.
const LARGE: usize = 8 << 10;
const WHICH: usize = 3;

/// A relay to the volunteer `to` that does harm. It lasts as long as the process.
pub(super) fn harmful_relay(to: SocketAddr, harm: Harm) -> Result<SocketAddr, LabError> {
    let failed = LabError::io("listen for a harmful relay");
    let listener = TcpListener::bind("127.0.0.1:0");
    let (listener, address) = listener
        .and_then(|listener| listener.local_addr().map(|address| (listener, address)))
        .map_err(failed)?;
    thread::spawn(move || {
        for near in listener.incoming().flatten() {
            // A client for whom nothing can be opened sees its connection closed.
            let _ = relay(near, to, harm);
        }
    });
    Ok(address)
}

fn relay(near: TcpStream, to: SocketAddr, harm: Harm) -> io::Result<()> {
    let far = TcpStream::connect(to)?;
    let (mut near_again, mut far_again) = (near.try_clone()?, far.try_clone()?);
    thread::spawn(move || {
        let _ = io::copy(&mut near_again, &mut far_again);
        let _ = far_again.shutdown(Shutdown::Write);
    });
    thread::spawn(move || {
        let (mut far, mut near) = (far, near);
        let _ = pass(&mut far, &mut near, harm);
        let _ = near.shutdown(Shutdown::Write);
    });
    Ok(())
}

fn pass(from: &mut TcpStream, to: &mut TcpStream, harm: Harm) -> io::Result<()> {
    let mut number = 0;
    let mut kept = Vec::new();
    loop {
        let mut record = vec![0; 5];
        from.read_exact(&mut record)?;
        let len = usize::from(u16::from_be_bytes([record[3], record[4]]));
        record.resize(5 + len, 0);
        from.read_exact(&mut record[5..])?;
        let is_large = record[0] == APPLICATION_DATA && len >= LARGE;
        number += usize::from(is_large);
        match harm {
            _ if !is_large || number < WHICH => to.write_all(&record)?,
            Harm::Reorder if number == WHICH => kept = record,
            Harm::Reorder => {
                to.write_all(&record)?;
                to.write_all(&std::mem::take(&mut kept))?;
            }
            _ if number > WHICH => to.write_all(&record)?,
            Harm::Drop => {}
            Harm::Flip => {
                record[40] ^= 1;
                to.write_all(&record)?;
            }
            Harm::Replay => {
                to.write_all(&record)?;
                to.write_all(&record)?;
            }
            Harm::Truncate => return to.write_all(&record),
            Harm::Stall => {
                to.write_all(&record)?;
                io::copy(from, &mut io::sink())?;
                return Ok(());
            }
        }
    }
}
