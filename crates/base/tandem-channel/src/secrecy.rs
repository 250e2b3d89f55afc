//! Whether the file of a private key is open to every user of the machine.
//!
//! Is not: a refusal. A site's key that its server has always read must not stop it now; nor is a
//! group that may read it anybody's.

use std::fs::Metadata;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// What others than the owner and the group have to be kept from: reading, and writing.
const OTHERS: u32 = 0o006;

/// Warns in the log if every user of this machine may read or change this private key.
pub fn warn_if_exposed(path: &Path) {
    // What cannot be looked at is somebody else's to complain of: whoever reads it.
    if std::fs::metadata(path).is_ok_and(|file| is_exposed(&file)) {
        tracing::warn!(
            path = %path.display(),
            "every user of this machine may read or change this private key: chmod o= it, and replace it if somebody may have done so"
        );
    }
}

fn is_exposed(file: &Metadata) -> bool {
    file.permissions().mode() & OTHERS != 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;

    #[test]
    fn a_key_is_exposed_to_others_and_not_to_its_owner_and_group() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        for (mode, expected) in [
            (0o600, false),
            (0o640, false),
            (0o660, false),
            (0o604, true),
            (0o602, true),
            (0o644, true),
        ] {
            let permissions = Permissions::from_mode(mode);
            std::fs::set_permissions(file.path(), permissions).expect("ours");
            let metadata = std::fs::metadata(file.path()).expect("there");
            assert_eq!(is_exposed(&metadata), expected, "{mode:o}");
        }
    }
}
