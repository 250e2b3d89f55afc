//! The kinds of file that are met: a secret that is written once, a small text that somebody else
//! changes, and one that is written anew with each change.

use std::fs::{File, Permissions};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use tempfile::{NamedTempFile, PersistError};

use crate::error::DnsError;

/// The bytes of a secret, or nothing if there is no such file.
///
/// Others must not be able to read it, or it is none.
pub(crate) fn read_secret(path: &Path) -> Result<Option<Vec<u8>>, DnsError> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(DnsError::file(path, error)),
    };
    let mode = file
        .metadata()
        .map_err(|error| DnsError::file(path, error))?
        .mode();
    if mode & 0o077 != 0 {
        return Err(DnsError::content(
            path,
            format!(
                "others may read this key; if they have not: chmod 600 {}",
                path.display()
            ),
        ));
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)
        .map_err(|error| DnsError::file(path, error))?;
    Ok(Some(bytes))
}

/// Writes a secret that is not there yet: whole or not at all, for its owner alone.
pub(crate) fn write_secret(path: &Path, bytes: &[u8]) -> Result<(), DnsError> {
    write(path, bytes, NamedTempFile::persist_noclobber)
}

/// Writes a small file anew: whole or not at all, for its owner alone.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> Result<(), DnsError> {
    write(path, bytes, NamedTempFile::persist)
}

/// Writes a file beside its place, and `put`s it there.
fn write<'a>(
    path: &'a Path,
    bytes: &[u8],
    put: impl FnOnce(NamedTempFile, &'a Path) -> Result<File, PersistError>,
) -> Result<(), DnsError> {
    let written = || {
        let folder = folder_of(path);
        let mut file = tempfile::Builder::new()
            .permissions(Permissions::from_mode(0o600))
            .tempfile_in(folder)?;
        file.write_all(bytes)?;
        file.as_file().sync_all()?;
        put(file, path).map_err(|error| error.error)?;
        File::open(folder)?.sync_all()
    };
    written().map_err(|error| DnsError::file(path, error))
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        Some(_) | None => Path::new("."),
    }
}

/// The lines of a small text, without blank ones; none if there is no such file.
pub(crate) fn lines(path: &Path, most_bytes: u64) -> std::io::Result<Vec<String>> {
    let mut text = String::new();
    match File::open(path) {
        Ok(file) => file.take(most_bytes).read_to_string(&mut text)?,
        Err(error) if error.kind() == ErrorKind::NotFound => 0,
        Err(error) => return Err(error),
    };
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    Ok(lines.map(str::to_owned).collect())
}
