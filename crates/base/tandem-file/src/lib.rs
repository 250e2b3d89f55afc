//! A file that is written beside its place and then put there in one step.
//!
//! Is not: its content.
//!
//! Invariants: until it is kept, what stands in its place stays; dropped, it leaves nothing; kept,
//! it is on the disk whole.
#![forbid(unsafe_code)]

use std::fs::{self, File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use tempfile::{Builder, NamedTempFile};

/// What may stand in its place already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Over {
    /// Nothing: a file that has come meanwhile stays.
    Nothing,
    /// Another file, which goes.
    Another,
}

/// See the module.
#[derive(Debug)]
pub struct Draft {
    temporary: NamedTempFile,
    place: PathBuf,
    over: Over,
}

impl Draft {
    /// An empty one, for `path`, with these permissions.
    ///
    /// # Errors
    /// The folder is not there, or nothing can be written to it.
    pub fn new(path: &Path, permissions: u32, over: Over) -> io::Result<Self> {
        // What a link leads to is replaced, not the link.
        let place = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let folder = folder(&place);
        let mut builder = Builder::new();
        builder
            .prefix(".tandem-")
            .permissions(Permissions::from_mode(0o600));
        let temporary = builder.tempfile_in(folder)?;
        let wanted = Permissions::from_mode(permissions);
        temporary.as_file().set_permissions(wanted)?;
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
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.temporary.as_file().set_len(0)?;
        io::Seek::rewind(self.temporary.as_file_mut())?;
        self.temporary.write_all(bytes)?;
        self.temporary.as_file().sync_all()
    }

    /// Puts it into its place.
    ///
    /// # Errors
    /// There is a file now where there was none.
    pub fn keep(self) -> io::Result<()> {
        let Self {
            temporary,
            place,
            over,
        } = self;
        let kept = match over {
            Over::Nothing => temporary.persist_noclobber(&place),
            Over::Another => temporary.persist(&place),
        };
        kept.map_err(|error| error.error)?;
        File::open(folder(&place))?.sync_all()
    }
}

/// Writes a file for its owner alone, whole or not at all.
///
/// # Errors
/// It cannot be written, or there is one already and nothing may be.
pub fn write(path: &Path, bytes: &[u8], over: Over) -> io::Result<()> {
    let mut draft = Draft::new(path, 0o600, over)?;
    draft.write(bytes)?;
    draft.keep()
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
        draft.write(b"new").expect("room");
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
            draft.write(b"something longer, which goes").expect("room");
            draft.write(text.as_bytes()).expect("room");
            draft.keep().expect("its place");
            assert_eq!(fs::read_to_string(&path).expect("there"), text);
            assert_eq!(names(folder.path()), 1);
        }
        let mode = fs::metadata(&path).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o640);
    }

    #[test]
    fn what_cannot_be_written_leaves_nothing() {
        let folder = tempfile::tempdir().expect("a directory");
        let path = folder.path().join("key");
        write(&path, b"one", Over::Nothing).expect("room");
        write(&path, b"two", Over::Nothing).expect_err("there is one");
        write(&path, b"three", Over::Another).expect("room");
        assert_eq!(fs::read(&path).expect("there"), b"three");
        assert_eq!(names(folder.path()), 1);
    }

    #[test]
    fn a_file_that_came_meanwhile_stays() {
        let folder = tempfile::tempdir().expect("a directory");
        let path = folder.path().join("key");
        let mut draft = Draft::new(&path, 0o600, Over::Nothing).expect("a draft");
        draft.write(b"mine").expect("room");
        fs::write(&path, "theirs").expect("ours");
        draft.keep().expect_err("it is there");
        assert_eq!(fs::read_to_string(&path).expect("there"), "theirs");
        assert_eq!(names(folder.path()), 1);
    }
}
