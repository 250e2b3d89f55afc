//! The proxy of McVeety's appendix B over TCP: it holds a client's certificate that goes ahead
//! until the server asks. What is held, and when it is played, `tls12_experiment::holder` says.

use std::io::Write;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use tls12_experiment::holder::Holder;

use crate::{Failure, listen, prepare, read_some};

/// Stands before a server until the listener fails.
///
/// # Errors
/// [`Failure::Socket`].
pub fn hold(listener: &TcpListener, server: SocketAddr) -> Result<(), Failure> {
    listen::serve(listener, move |socket| relay(socket, server))
}

fn relay(client: TcpStream, server: SocketAddr) -> Result<(), Failure> {
    let server = TcpStream::connect(server).map_err(Failure::socket("connect to the server"))?;
    prepare(&client)?;
    prepare(&server)?;
    let holder = Arc::new(Mutex::new(Holder::new()));
    let again = |socket: &TcpStream| {
        socket
            .try_clone()
            .map_err(Failure::socket("share a socket"))
    };
    let (from_server, to_client) = (again(&server)?, again(&client)?);
    let reading = Arc::clone(&holder);
    let down = std::thread::spawn(move || {
        copy(from_server, to_client, |bytes, out| {
            if let Ok(mut holder) = reading.lock() {
                holder.to_client(bytes);
            }
            out.extend_from_slice(bytes);
        })
    });
    let up = copy(client, server, |bytes, out| match holder.lock() {
        Ok(mut holder) => holder.to_server(bytes, out),
        Err(_) => out.extend_from_slice(bytes),
    });
    down.join().unwrap_or(Ok(())).and(up)
}

fn copy(
    mut from: TcpStream,
    mut to: TcpStream,
    mut change: impl FnMut(&[u8], &mut Vec<u8>),
) -> Result<(), Failure> {
    let mut buffer = [0; 1 << 14];
    loop {
        let count = read_some(&mut from, &mut buffer)?;
        if count == 0 {
            // The other direction may have ended the socket already.
            let _ = to.shutdown(Shutdown::Write);
            return Ok(());
        }
        let mut out = Vec::new();
        change(&buffer[..count], &mut out);
        to.write_all(&out).map_err(Failure::socket("write"))?;
    }
}
