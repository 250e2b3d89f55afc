//! Which parts of `splitting.jsonl` are wanted, and whether every byte was the server's.

use tandem_report::split_row::{Part, SplitRow};
use tandem_testbed::LabError;
use tandem_testbed::rows::Rows;

/// The parts of these names; all of them where there is no name.
///
/// # Errors
/// `Usage` for a name that is none.
pub(crate) fn parts(names: &[String]) -> Result<Vec<Part>, LabError> {
    if names.is_empty() {
        return Ok(Part::ALL.to_vec());
    }
    let known = || Part::ALL.map(Part::name).join(", ");
    names
        .iter()
        .map(|name| {
            Part::ALL
                .into_iter()
                .find(|part| part.name() == name)
                .ok_or_else(|| {
                    LabError::usage(
                        format!("part {name}"),
                        format!("is none of the evaluation's: {}", known()),
                    )
                })
        })
        .collect()
}

/// # Errors
/// `BytesDiffer` or `TrialsFailed` where something of that kind is in them.
pub(crate) fn verdict(rows: &Rows<SplitRow>) -> Result<(), LabError> {
    let all = rows.all();
    let trials = all.len();
    let differing = all.iter().filter(|row| row.ok && !row.identical).count();
    if differing > 0 {
        return Err(LabError::BytesDiffer {
            differing,
            trials,
            rows: rows.path().to_owned(),
        });
    }
    let failed = all.iter().filter(|row| !row.ok).count();
    match all.iter().find_map(|row| row.error.clone()) {
        Some(why) => Err(LabError::TrialsFailed {
            failed,
            trials,
            why,
        }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_known_by_the_names_that_rows_have() {
        for part in Part::ALL {
            let named = parts(&[part.name().to_owned()]).unwrap_or_default();
            assert_eq!(named, [part]);
            let in_rows = serde_json::to_value(part).unwrap_or_default();
            assert_eq!(in_rows.as_str(), Some(part.name()));
        }
        assert_eq!(parts(&[]).unwrap_or_default(), Part::ALL);
        let unknown = parts(&["everything".to_owned()]);
        assert!(matches!(unknown, Err(LabError::Usage { .. })));
    }
}
