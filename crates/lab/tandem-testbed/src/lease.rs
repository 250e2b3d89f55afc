//! A name that one running lab has for itself, a directory for its files, and what killed labs left
//! behind.
//!
//! A lease is a locked file in `/run/tandem-lab`: the kernel lets go of the lock when its holder
//! dies, however it dies, so what belongs to an unlocked name is a leftover. Namespaces are called
//! `tandem-<name>-<host>`; files lie in `/run/tandem-lab/<name>`. Nothing else tells a lab's things
//! from the machine's own.

use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};

use crate::error::LabError;
use crate::netns;

/// Where leases and the files of running labs are. Memory-backed on Debian, gone after a restart,
/// as namespaces are.
const ROOT: &str = "/run/tandem-lab";

/// The name of the topology that `lab up` leaves standing. No process holds its lease.
pub const STANDING: &str = "up";

/// Labs that may run side by side. Past it something is wrong, not busy.
const MAX_LABS: u32 = 1000;

/// A name of one's own, until dropped.
#[derive(Debug)]
pub struct Lease {
    name: String,
    remove: Belongings,
    _lock: Flock<File>,
}

/// What becomes of a lab's things when its lease ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Belongings {
    Go,
    Stay,
}

impl Lease {
    /// The first free name.
    ///
    /// # Errors
    /// `NotRoot`, `Io`, `Busy`.
    pub fn any() -> Result<Self, LabError> {
        require_root()?;
        for number in 1..=MAX_LABS {
            match Self::named(&number.to_string()) {
                Err(LabError::Busy { .. }) => {}
                other => return other,
            }
        }
        Err(LabError::Busy {
            what: "every name of a lab".to_owned(),
            remedy: "end running labs, then `tandem lab down`",
        })
    }

    /// This name, where nobody has it. What a dead holder left under it is removed first; not so
    /// for the standing lab, which has no holder.
    ///
    /// # Errors
    /// `NotRoot`, `Busy`, `Io`.
    pub fn named(name: &str) -> Result<Self, LabError> {
        require_root()?;
        fs::create_dir_all(ROOT).map_err(LabError::io(format!("make {ROOT}")))?;
        let path = lock_path(name);
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(LabError::io(format!("open {}", path.display())))?;
        let lock = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => lock,
            Err((_, Errno::EAGAIN)) => {
                return Err(LabError::Busy {
                    what: format!("the lab {name}"),
                    remedy: "wait for it to end, or end it",
                });
            }
            Err((_, errno)) => {
                return Err(LabError::Io {
                    what: format!("lock {}", path.display()),
                    source: errno.into(),
                });
            }
        };
        if name != STANDING {
            remove_belongings(name)?;
            let directory = directory(name);
            fs::create_dir_all(&directory)
                .map_err(LabError::io(format!("make {}", directory.display())))?;
        }
        Ok(Self {
            name: name.to_owned(),
            remove: if name == STANDING {
                Belongings::Stay
            } else {
                Belongings::Go
            },
            _lock: lock,
        })
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Ends the lease and leaves everything under its name where it is.
    pub fn leave_belongings(mut self) {
        self.remove = Belongings::Stay;
    }

    /// A directory of its own, removed when the lease ends.
    pub fn directory(&self) -> PathBuf {
        directory(&self.name)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        match self.remove {
            Belongings::Stay => return,
            Belongings::Go => {}
        }
        // What is left at this point is only what a panic or an error skipped. The lock file stays:
        // removing it would race with somebody who has just opened it and would then hold a
        // lock that nobody else can see.
        if let Err(error) = remove_belongings(&self.name) {
            tracing::warn!(%error, "could not clean up after the lab {}", self.name);
        }
    }
}

/// Files of the lab with this name.
pub fn directory(name: &str) -> PathBuf {
    Path::new(ROOT).join(name)
}

/// The name of a host's namespace.
pub fn namespace(name: &str, host: &str) -> String {
    format!("tandem-{name}-{host}")
}

/// Labs of which something exists: (name, whether somebody holds its lease).
///
/// # Errors
/// `Io`.
pub fn existing() -> Result<Vec<(String, bool)>, LabError> {
    let mut names: Vec<String> = Vec::new();
    for entry in netns::named()? {
        if let Some((name, _)) = entry
            .strip_prefix("tandem-")
            .and_then(|rest| rest.split_once('-'))
        {
            names.push(name.to_owned());
        }
    }
    if let Ok(entries) = fs::read_dir(ROOT) {
        for entry in entries.flatten() {
            if entry.path().is_dir() {
                names.push(entry.file_name().to_string_lossy().into_owned());
            }
        }
    }
    names.sort();
    names.dedup();
    Ok(names
        .into_iter()
        .map(|name| {
            let held = is_held(&name);
            (name, held)
        })
        .collect())
}

/// Ends the processes in a lab's namespaces, removes the namespaces and the files.
///
/// # Errors
/// `Io`, `Command`.
pub fn remove_belongings(name: &str) -> Result<(), LabError> {
    let prefix = format!("tandem-{name}-");
    let mut first_error = Ok(());
    for namespace in netns::named()? {
        if namespace.starts_with(&prefix) {
            let removed = netns::end_processes(&namespace).and_then(|()| netns::delete(&namespace));
            first_error = first_error.and(removed);
        }
    }
    let directory = directory(name);
    if directory.exists() {
        let removed = fs::remove_dir_all(&directory)
            .map_err(LabError::io(format!("remove {}", directory.display())));
        first_error = first_error.and(removed);
    }
    first_error
}

fn is_held(name: &str) -> bool {
    let Ok(file) = OpenOptions::new().write(true).open(lock_path(name)) else {
        return false;
    };
    matches!(
        Flock::lock(file, FlockArg::LockExclusiveNonblock),
        Err((_, Errno::EAGAIN))
    )
}

fn lock_path(name: &str) -> PathBuf {
    Path::new(ROOT).join(format!("{name}.lock"))
}

/// # Errors
/// `NotRoot`.
pub fn require_root() -> Result<(), LabError> {
    if nix::unistd::geteuid().is_root() {
        Ok(())
    } else {
        Err(LabError::NotRoot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netns::Namespace;

    #[test]
    fn a_killed_labs_things_are_found_and_removed_and_a_running_labs_are_not()
    -> Result<(), LabError> {
        if require_root().is_err() {
            return Ok(());
        }
        let running = Lease::any()?;
        assert!(running.directory().is_dir());
        assert!(existing()?.contains(&(running.name().to_owned(), true)));
        assert!(matches!(
            Lease::named(running.name()),
            Err(LabError::Busy { .. })
        ));

        let killed = Lease::any()?;
        let name = killed.name().to_owned();
        let namespace = Namespace::create(&super::namespace(&name, "client"))?;
        let mut sleeper = namespace.spawn(std::process::Command::new("sleep").arg("1000"))?;
        killed.leave_belongings();
        remove_belongings(&name)?;
        assert!(Namespace::open(namespace.name()).is_err());
        let status = sleeper.wait().map_err(LabError::io("wait for a process"))?;
        assert!(!status.success(), "what ran inside has been ended");
        assert!(running.directory().is_dir());
        Ok(())
    }
}
