//! Where log lines go: standard error, filtered, for people or as JSON.
//!
//! Is not: what is logged; that is each crate's, and no key or plaintext is ever among it.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

use crate::exit::Failure;

/// What is logged where nothing else is asked for.
const DEFAULT_FILTER: &str = "info";

/// Sets up logging for the rest of the program; `None` stands for the defaults, `info` and `text`.
///
/// # Errors
/// [`Failure::Usage`] for a filter or format that is none.
pub(crate) fn start(filter: Option<&str>, format: Option<&str>) -> Result<(), Failure> {
    let filter = filter.unwrap_or(DEFAULT_FILTER);
    let parsed = EnvFilter::builder().parse(filter).map_err(|error| {
        Failure::Usage(format!(
            "log: {filter:?} is no filter ({error}); try `info` or `info,tandem_packet=debug`"
        ))
    })?;
    let lines = tracing_subscriber::fmt()
        .with_env_filter(parsed)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    let started = match format.unwrap_or("text") {
        "text" => lines.with_target(false).try_init(),
        "json" => lines.json().try_init(),
        other => {
            return Err(Failure::Usage(format!(
                "log-format: {other:?} is neither `text` nor `json`"
            )));
        }
    };
    started.map_err(|error| Failure::Usage(format!("log: {error}")))
}
