//! `tandem keygen`: 32 random bytes as 64 hexadecimal digits; and the public names of such a key.
//!
//! Invariants: the key comes from the operating system; a file that holds it is readable by its
//! owner only from the moment it exists; an existing file stays as it is.

use std::path::Path;
use std::{fs, io};

use tandem_file::Over;
use tandem_packet_io::config::{Key, read_key};
use tandem_tunnel_io::config::names;

use crate::cli::KeygenArgs;
use crate::exit::Failure;
use crate::output;

pub(crate) fn run(arguments: &KeygenArgs) -> Result<(), Failure> {
    if let Some(path) = &arguments.names {
        let names = names(&read_key(path)?)?;
        return output::print(&format!(
            "client-side {}\nserver-side {}",
            names.client_side, names.server_side
        ));
    }
    let digits = Key::from_bytes(random()?).to_hex();
    match &arguments.file {
        None => output::print(&digits),
        Some(path) => {
            write_new(path, &digits).map_err(|source| match source.kind() {
                io::ErrorKind::AlreadyExists => Failure::Usage(format!(
                    "{}: exists and is not overwritten; remove it first, or name another file",
                    path.display()
                )),
                _ => Failure::file(path, source),
            })?;
            eprintln!("{}: written; copy it to the other proxy", path.display());
            Ok(())
        }
    }
}

/// The bytes of a new key.
pub(super) fn random() -> Result<[u8; Key::LEN], Failure> {
    let mut key = [0; Key::LEN];
    getrandom::fill(&mut key).map_err(|error| Failure::Random(error.to_string()))?;
    Ok(key)
}

/// The file and, where only that is missing, its folder.
fn write_new(path: &Path, digits: &str) -> io::Result<()> {
    if let Some(folder) = path.parent().filter(|folder| !folder.exists()) {
        // Where it fails, the file says why.
        let _ = fs::create_dir(folder);
    }
    tandem_file::write(path, format!("{digits}\n").as_bytes(), Over::Nothing)
}
