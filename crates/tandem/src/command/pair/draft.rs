//! A file that is written beside its place and then put there in one step.
//!
//! Is not: its content.
//!
//! Invariants: until it is kept, what stands in its place stays; dropped, it leaves nothing; kept,
//! it is on the disk whole.

use std::fs::{self, File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use tempfile::{Builder, NamedTempFile};

use crate::exit::Failure;

/// What may stand in its place already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Over {
    /// Nothing: a file that has come meanwhile stays.
    Nothing,
    /// Another file, which goes.
    Another,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Draft {
    temporary: NamedTempFile,
    place: PathBuf,
    over: Over,
}

impl Draft {
    /// An empty one, for `path`, with these permissions.
    ///
    /// # Errors
    /// The folder is not there, or nothing can be written to it.
    pub(super) fn new(path: &Path, permissions: u32, over: Over) -> Result<Self, Failure> {
        // What a link leads to is replaced, not the link.
        let place = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let folder = folder(&place);
        let failed = |source| Failure::file(path, source);
        let mut builder = Builder::new();
        builder
            .prefix(".tandem-")
            .permissions(Permissions::from_mode(0o600));
        let temporary = builder.tempfile_in(folder).map_err(failed)?;
        let wanted = Permissions::from_mode(permissions);
        temporary
            .as_file()
            .set_permissions(wanted)
            .map_err(failed)?;
        Ok(Self {
            temporary,
            place,
            over,
        })
    }

    /// Gives it this content.
    ///
    /// # Errors
    /// The disk is full, for instance.
    pub(super) fn write(&mut self, text: &str) -> Result<(), Failure> {
        let written = self.temporary.as_file().set_len(0).and_then(|()| {
            io::Seek::rewind(self.temporary.as_file_mut())?;
            self.temporary.write_all(text.as_bytes())?;
            self.temporary.as_file().sync_all()
        });
        written.map_err(|source| Failure::file(&self.place, source))
    }

    /// Puts it into its place.
    ///
    /// # Errors
    /// There is a file now where there was none.
    pub(super) fn keep(self) -> Result<(), Failure> {
        let Self {
            temporary,
            place,
            over,
        } = self;
        let kept = match over {
            Over::Nothing => temporary.persist_noclobber(&place),
            Over::Another => temporary.persist(&place),
        };
        let in_place = kept.map(drop).map_err(|error| error.error);
        in_place
            .and_then(|()| File::open(folder(&place))?.sync_all())
            .map_err(|source| Failure::file(&place, source))
    }
}

/// The folder in which a file is.
fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        Some(_) | None => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> usize {
        fs::read_dir(folder).expect("ours").count()
    }

    #[test]
    fn a_draft_that_is_dropped_leaves_all_as_it_was() {
        let folder = tempfile::tempdir().expect("a directory");
        let path = folder.path().join("key");
        fs::write(&path, "old").expect("ours");
        let mut draft = Draft::new(&path, 0o600, Over::Another).expect("a draft");
        draft.write("new").expect("room");
        assert_eq!(names(folder.path()), 2);
        drop(draft);
        assert_eq!(fs::read_to_string(&path).expect("there"), "old");
        assert_eq!(names(folder.path()), 1);
    }

    #[test]
    fn a_draft_that_is_kept_is_all_that_is_there_with_its_permissions() {
        let folder = tempfile::tempdir().expect("a directory");
        let path = folder.path().join("key");
        for (text, over) in [("first", Over::Nothing), ("2nd", Over::Another)] {
            let mut draft = Draft::new(&path, 0o640, over).expect("a draft");
            draft.write("something longer, which goes").expect("room");
            draft.write(text).expect("room");
            draft.keep().expect("its place");
            assert_eq!(fs::read_to_string(&path).expect("there"), text);
            assert_eq!(names(folder.path()), 1);
        }
        let mode = fs::metadata(&path).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o640);
    }

    #[test]
    fn a_file_that_came_meanwhile_stays() {
        let folder = tempfile::tempdir().expect("a directory");
        let path = folder.path().join("key");
        let mut draft = Draft::new(&path, 0o600, Over::Nothing).expect("a draft");
        draft.write("mine").expect("room");
        fs::write(&path, "theirs").expect("ours");
        draft.keep().expect_err("it is there");
        assert_eq!(fs::read_to_string(&path).expect("there"), "theirs");
        assert_eq!(names(folder.path()), 1);
    }
}
