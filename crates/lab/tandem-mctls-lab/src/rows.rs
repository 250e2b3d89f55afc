//! Which parts of `mctls.jsonl` are wanted, and whether all of its rows went well.

use tandem_report::mctls_row::{McPart, McRow};
use tandem_testbed::LabError;

/// The parts of these names; all of them where there is no name.
///
/// # Errors
/// `Usage` for a name that is none.
pub(crate) fn parts(names: &[String]) -> Result<Vec<McPart>, LabError> {
    if names.is_empty() {
        return Ok(McPart::ALL.to_vec());
    }
    let named = |name: &String| {
        let found = McPart::ALL.into_iter().find(|part| part.name() == name);
        found.ok_or_else(|| {
            let known = McPart::ALL.map(McPart::name).join(", ");
            LabError::usage(
                format!("part {name}"),
                format!("the parts of the evaluation are {known}"),
            )
        })
    };
    names.iter().map(named).collect()
}

/// # Errors
/// `TrialsFailed` where one of them has failed.
pub(crate) fn verdict(rows: &[McRow]) -> Result<(), LabError> {
    let failed = rows.iter().filter(|row| !row.ok).count();
    match rows.iter().find_map(|row| row.error.clone()) {
        Some(why) => Err(LabError::TrialsFailed {
            failed,
            trials: rows.len(),
            why,
        }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_known_by_name() {
        for part in McPart::ALL {
            let named = parts(&[part.name().to_owned()]).unwrap_or_default();
            assert_eq!(named, [part]);
        }
        assert_eq!(parts(&[]).unwrap_or_default(), McPart::ALL);
        let unknown = parts(&["everything".to_owned()]);
        assert!(matches!(unknown, Err(LabError::Usage { .. })));
    }
}
