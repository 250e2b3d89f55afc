//! File systems that are small or read-only, for one thread: in a mount namespace that the thread
//! makes and that ends with it.
//!
//! Not for those who may not do that: then a test says that it is skipped.

use std::path::Path;

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use tempfile::TempDir;

/// Runs `test` with a file system of its own, of `kibibytes`.
pub(crate) fn with_small_disk(kibibytes: u32, test: impl FnOnce(&Path) + Send + 'static) {
    let home = TempDir::new().expect("a directory");
    let path = home.path().to_owned();
    let thread =
        std::thread::spawn(move || mount_small_disk(&path, kibibytes).map(|()| test(&path)));
    match thread.join() {
        Ok(Ok(())) => {}
        Ok(Err(error)) => {
            tandem_testkit::skipped(format_args!("cannot mount a file system: {error}"))
        }
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

fn mount_small_disk(path: &Path, kibibytes: u32) -> nix::Result<()> {
    let none = None::<&str>;
    unshare(CloneFlags::CLONE_NEWNS)?;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)?;
    let options = format!("size={kibibytes}k,mode=700");
    mount(
        Some("tmpfs"),
        path,
        Some("tmpfs"),
        MsFlags::empty(),
        Some(options.as_str()),
    )
}

/// Makes what is at `path`, a directory or a file, read-only for the thread that is in
/// [`with_small_disk`].
pub(crate) fn make_read_only(path: &Path) {
    let none = None::<&str>;
    mount(Some(path), path, none, MsFlags::MS_BIND, none).expect("in a namespace of its own");
    let flags = MsFlags::MS_BIND | MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY;
    mount(none, path, none, flags, none).expect("in a namespace of its own");
}
