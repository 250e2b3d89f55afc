//! A small file that is written whole or not at all, for its owner alone.
//!
//! Is not: its content.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;

use tempfile::NamedTempFile;

/// What may stand in its place already.
pub(crate) enum Over {
    /// Nothing: a file that is there stays, and is an error.
    Nothing,
    /// Another file, which goes.
    Another,
}

/// Writes it beside its place and puts it there, on the disk.
pub(crate) fn write(path: &Path, bytes: &[u8], over: Over) -> io::Result<()> {
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        Some(_) | None => Path::new("."),
    };
    // Its owner's alone, as the library makes it.
    let mut file = NamedTempFile::new_in(folder)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    match over {
        Over::Nothing => file.persist_noclobber(path),
        Over::Another => file.persist(path),
    }
    .map_err(|error| error.error)?;
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_written_leaves_nothing() {
        let folder = tempfile::tempdir().expect("a directory");
        let path = folder.path().join("key");
        write(&path, b"one", Over::Nothing).expect("room");
        write(&path, b"two", Over::Nothing).expect_err("there is one");
        write(&path, b"three", Over::Another).expect("room");
        assert_eq!(std::fs::read(&path).expect("there"), b"three");
        let all = std::fs::read_dir(folder.path()).expect("ours");
        assert_eq!(all.count(), 1);
    }
}
