//! The site's certificate and key, read anew when their files have changed.
//!
//! Is not: an agent that gets certificates.
//!
//! Invariants: what does not fit, or is for another host, is not taken, and is tried again until it
//! fits: whoever renews writes one file after the other, and says last who may read them. Each
//! change is complained of once.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use super::Shared;
use crate::error::SplitIoError;
use crate::tls::identity::Identity;
use crate::tls::server::{Resumption, Site};
use tandem_channel::warn_if_exposed;

/// How often an origin looks whether the files of its certificate and key have changed.
pub const RELOAD: Duration = Duration::from_secs(2);

/// When the certificate and the key were changed last, content or permissions, in seconds and
/// nanoseconds.
type Changed = [Option<[i64; 4]>; 2];

/// See above.
#[derive(Debug)]
pub(super) struct Files {
    certificate: PathBuf,
    pub(super) key: PathBuf,
    resumption: Resumption,
    seen: Seen,
}

#[derive(Debug)]
struct Seen {
    /// As of what was taken last.
    taken: Changed,
    /// As of the last complaint.
    told: Changed,
}

impl Files {
    /// Reads them for the first time.
    pub(super) fn open(
        certificate: PathBuf,
        key: PathBuf,
        resumption: Resumption,
    ) -> Result<(Self, Site), SplitIoError> {
        // Before they are read: what changes meanwhile is read again.
        let taken = changed(&certificate, &key);
        let site = read(&certificate, &key, resumption)?;
        warn_if_exposed(&key);
        let seen = Seen { taken, told: taken };
        Ok((
            Self {
                certificate,
                key,
                resumption,
                seen,
            },
            site,
        ))
    }

    /// Keeps the site's certificate current for ever.
    pub(super) async fn keep_current(mut self, shared: Arc<Shared>) {
        loop {
            tokio::time::sleep(RELOAD).await;
            let (certificate, key, resumption) = (&self.certificate, &self.key, self.resumption);
            let looked = self.seen.look(changed(certificate, key), || {
                let site = read(certificate, key, resumption)?;
                if site.host() == shared.site().host() {
                    return Ok(site);
                }
                let reason = format!("is for another host, {}", site.host());
                Err(SplitIoError::content(certificate, reason))
            });
            match looked {
                Some(Ok(site)) => {
                    *shared.site.lock().unwrap_or_else(PoisonError::into_inner) = site;
                    tracing::info!("the certificate was read anew");
                    warn_if_exposed(key);
                }
                Some(Err(error)) => {
                    tracing::error!(%error, "the new certificate does not fit: the old one stays until it does");
                }
                None => {}
            }
        }
    }
}

impl Seen {
    /// What is read if something has changed since the last that was taken; an error once for each
    /// change.
    fn look<T, E>(
        &mut self,
        now: Changed,
        read: impl FnOnce() -> Result<T, E>,
    ) -> Option<Result<T, E>> {
        if now == self.taken {
            return None;
        }
        let result = read();
        if result.is_ok() {
            self.taken = now;
        }
        let is_told = std::mem::replace(&mut self.told, now) == now;
        (result.is_ok() || !is_told).then_some(result)
    }
}

fn read(certificate: &Path, key: &Path, resumption: Resumption) -> Result<Site, SplitIoError> {
    let identity = Identity::load(certificate, key)?;
    Site::new(&identity, resumption)
        .map_err(|error| SplitIoError::content(certificate, error.to_string()))
}

fn changed(certificate: &Path, key: &Path) -> Changed {
    let changed = |path: &Path| -> io::Result<[i64; 4]> {
        let file = std::fs::metadata(path)?;
        Ok([
            file.mtime(),
            file.mtime_nsec(),
            file.ctime(),
            file.ctime_nsec(),
        ])
    };
    [changed(certificate).ok(), changed(key).ok()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_yet_is_tried_again_and_complained_of_once() {
        let at = |time: i64| [Some([time; 4]), None];
        let mut seen = Seen {
            taken: at(1),
            told: at(1),
        };
        let mut look = |time: i64, result: Result<i64, ()>| seen.look(at(time), || result);
        assert_eq!(look(1, Ok(1)), None, "nothing has changed");
        assert_eq!(look(2, Err(())), Some(Err(())));
        assert_eq!(look(2, Err(())), None, "it was said");
        assert_eq!(look(3, Err(())), Some(Err(())), "something else is wrong");
        assert_eq!(look(3, Ok(3)), Some(Ok(3)), "the same files, readable now");
        assert_eq!(look(3, Ok(4)), None);
    }
}
