//! Waiting for a signal.
//!
//! Is not: the handlers; they are `tandem_daemon::signals`, and stand before anything is set up
//! that must be taken down.

use std::io::ErrorKind;
use std::os::fd::AsFd as _;
use std::os::unix::net;

use tandem_daemon::signals::Signals;
use tokio::io::Interest;
use tokio::net::UnixStream;

use crate::error::TunnelError;

/// Is ready when one of these signals comes, or has come since the last time.
///
/// # Errors
/// Signals cannot be waited for.
pub(crate) async fn arrival(signals: &Signals) -> Result<(), TunnelError> {
    let failed = TunnelError::system("waiting for signals");
    let descriptor = signals.as_fd().try_clone_to_owned().map_err(&failed)?;
    let stream = UnixStream::from_std(net::UnixStream::from(descriptor)).map_err(&failed)?;
    let look = || match signals.have_arrived() {
        true => Ok(()),
        false => Err(ErrorKind::WouldBlock.into()),
    };
    stream
        .async_io(Interest::READABLE, look)
        .await
        .map_err(&failed)
}
