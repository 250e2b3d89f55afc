//! A network namespace for a test, which leaves the machine's own as it is.

use nix::sched::{CloneFlags, unshare};

/// Carries out these checks in a network of their thread and of the programs that it runs.
pub(crate) fn in_own_network(checks: impl FnOnce() + Send + 'static) {
    let checked = std::thread::spawn(|| {
        unshare(CloneFlags::CLONE_NEWNET).expect("root may");
        checks();
    });
    checked.join().expect("the checks hold");
}
