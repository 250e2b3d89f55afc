//! The file of `--tariff`: what the link costs.
//!
//! Is not: what stands in it ([`tandem_tunnel::Tariff`]).
//!
//! Invariant: an error is one line that names the file.

use std::path::Path;

use tandem_tunnel::Tariff;

use super::SettingsError;

/// Reads the file.
///
/// # Errors
/// It cannot be read, or is no tariff.
pub(crate) fn load(path: &Path) -> Result<Tariff, SettingsError> {
    let text = std::fs::read_to_string(path).map_err(|source| SettingsError::TariffFile {
        path: path.to_owned(),
        source,
    })?;
    Tariff::parse(&text).map_err(|error| SettingsError::Tariff {
        path: path.to_owned(),
        error,
    })
}
