//! Where log lines go: standard error, filtered, for people or as JSON.
//!
//! Is not: what is logged; that is each crate's, and no key or plaintext is ever among it.

use std::io::IsTerminal;

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// What is logged where nothing else is asked for. What the DNS library thinks of strangers'
/// answers is in what we say of them.
const DEFAULT_FILTER: &str = "info,hickory_net=error,hickory_proto=error";

/// Why logging cannot be set up: which setting is wrong, and what would be right.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct LoggingError(pub String);

/// Sets up logging for the rest of the program; `None` stands for the defaults, `info` and `text`.
///
/// # Errors
/// The filter or the format is not one.
pub fn start(filter: Option<&str>, format: Option<&str>) -> Result<(), LoggingError> {
    let filter = filter.unwrap_or(DEFAULT_FILTER);
    let targets = targets(filter)?;
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    let chosen = tracing_subscriber::registry().with(targets);
    let started = match format.unwrap_or("text") {
        "text" => chosen.with(lines.with_target(false)).try_init(),
        "json" => chosen.with(lines.json()).try_init(),
        other => {
            return Err(LoggingError(format!(
                "log-format: {other:?} is neither `text` nor `json`"
            )));
        }
    };
    started.map_err(|error| LoggingError(format!("log: {error}")))
}

/// What a filter lets through: levels, each for a module or for all others, with commas between.
fn targets(filter: &str) -> Result<Targets, LoggingError> {
    let parts: Vec<&str> = filter.split(',').map(str::trim).collect();
    if let Some(part) = parts.iter().find(|part| !is_directive(part)) {
        return Err(LoggingError(format!(
            "log: {part:?} is not a level; use error, warn, info, debug, trace or off"
        )));
    }
    parts.join(",").parse().map_err(|error| {
        LoggingError(format!(
            "log: {filter:?} is not a filter ({error}); use `info` or `info,tandem_packet=debug`"
        ))
    })
}

/// Whether this is a level, or one for a module. The filter itself takes a misspelt level for a
/// module's name, and then logs nothing.
fn is_directive(part: &str) -> bool {
    // An empty text parses as a level, too.
    let is_level = !part.is_empty() && part.parse::<LevelFilter>().is_ok();
    is_level || part.contains('=')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_level_is_no_directive() {
        for good in ["info", "WARN", "off", "tandem_packet=debug", " debug"] {
            assert!(targets(good).is_ok(), "{good}");
        }
        for bad in ["debgu", "tandem_packet", "", "info,", "tandem_packet=debgu"] {
            assert!(targets(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_module_may_have_a_level_of_its_own() {
        use tracing::Level;
        let chosen = targets("info, tandem_packet=debug").expect("a filter");
        assert!(chosen.would_enable("tandem_packet::flow", &Level::DEBUG));
        assert!(!chosen.would_enable("tandem_packet::flow", &Level::TRACE));
        assert!(chosen.would_enable("tandem_link", &Level::INFO));
        assert!(!chosen.would_enable("tandem_link", &Level::DEBUG));
        let chosen = targets(DEFAULT_FILTER).expect("a filter");
        assert!(!chosen.would_enable("hickory_net", &Level::WARN));
    }
}
