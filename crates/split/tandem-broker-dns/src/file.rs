//! The kinds of file that are met: a secret that is written once, a small text that somebody else
//! changes, and one that is written anew with each change.

use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use tandem_file::Over;

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
    tandem_file::write(path, bytes, Over::Nothing).map_err(|error| DnsError::file(path, error))
}

/// Writes a small file anew: whole or not at all, for its owner alone.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> Result<(), DnsError> {
    tandem_file::write(path, bytes, Over::Another).map_err(|error| DnsError::file(path, error))
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
