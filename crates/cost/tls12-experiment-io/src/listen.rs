//! Connections that come in: a thread each, within a limit.

use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::{Failure, MAX_CONNECTIONS};

/// Serves until the listener fails. What ends a connection goes to standard error; connections
/// beyond the limit are closed.
pub(crate) fn serve(
    listener: &TcpListener,
    answer: impl Fn(TcpStream) -> Result<(), Failure> + Send + Sync + 'static,
) -> Result<(), Failure> {
    let answer = Arc::new(answer);
    let running = Arc::new(AtomicUsize::new(0));
    for socket in listener.incoming() {
        let socket = socket.map_err(Failure::socket("accept a connection"))?;
        if running.load(Ordering::Relaxed) >= MAX_CONNECTIONS {
            continue;
        }
        running.fetch_add(1, Ordering::Relaxed);
        let (answer, running) = (Arc::clone(&answer), Arc::clone(&running));
        std::thread::spawn(move || {
            if let Err(failure) = answer(socket) {
                eprintln!("{failure}");
            }
            running.fetch_sub(1, Ordering::Relaxed);
        });
    }
    Ok(())
}
