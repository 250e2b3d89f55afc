//! Programs that stand in place of the firewall's own, and do something else first.
//!
//! Is not: a daemon that uses them.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use super::{Net, wait_until};

/// What to run something under that gets a shell script in place of this program; the script gets
/// the real one's path.
pub(crate) fn in_place_of(net: &Net, program: &str, script: &str) -> Vec<String> {
    let folder = net.path(&format!("instead-{program}"));
    fs::create_dir_all(&folder).expect("a writable folder");
    let real = ["/usr/sbin", "/sbin", "/usr/bin"]
        .map(|place| PathBuf::from(place).join(program))
        .into_iter()
        .find(|path| path.is_file())
        .expect("it is installed");
    let file = folder.join(program);
    fs::write(
        &file,
        format!("#!/bin/sh\nREAL={}\n{script}\n", real.display()),
    )
    .expect("writable");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("ours");
    let path = format!("PATH={}:/usr/sbin:/usr/bin:/sbin:/bin", folder.display());
    vec!["env".to_owned(), path]
}

/// Holds a program up as long as it lives.
pub(crate) struct Hold {
    holds: PathBuf,
    reached: PathBuf,
    ended: PathBuf,
}

impl Hold {
    /// One for an input with these words, in a script for [`in_place_of`].
    pub(crate) fn of(net: &Net, words: &str) -> (Self, String) {
        let hold = Self {
            holds: net.path("holds"),
            reached: net.path("reached"),
            ended: net.path("ended"),
        };
        fs::write(&hold.holds, "").expect("writable");
        let (holds, reached) = (hold.holds.display(), hold.reached.display());
        let ended = hold.ended.display();
        let script = format!(
            r#"input=$(cat)
end=:
case "$input" in *"{words}"*) end=': >{ended}'; : >{reached}; while [ -e {holds} ]; do sleep 0.05; done;; esac
printf '%s\n' "$input" | "$REAL" "$@"
status=$?
eval "$end"
exit $status"#
        );
        (hold, script)
    }

    /// Waits until something is held up.
    #[track_caller]
    pub(crate) fn wait(&self) {
        wait_until("it is held up", || self.reached.exists());
    }

    /// Lets it go, and waits for its end.
    #[track_caller]
    pub(crate) fn release(self) {
        let ended = self.ended.clone();
        drop(self);
        wait_until("what was held up ends", || ended.exists());
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.holds);
        let _ = fs::remove_file(&self.reached);
    }
}
