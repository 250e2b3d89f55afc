//! `tandem estimate`: a capture in, what Tandem would save out.

use std::fs::File;
use std::io::{self, IsTerminal, Read, Write};
use std::path::Path;

use tandem_estimate::{BitRate, DamageClass, Options};

use crate::cli::EstimateArgs;
use crate::exit::Failure;
use crate::output;

pub(crate) fn run(arguments: &EstimateArgs) -> Result<(), Failure> {
    let options = Options {
        link_rate: arguments
            .link_rate
            .map(|rate| BitRate::from(rate.bits_per_second())),
        ..Options::default()
    };
    let path = &arguments.file;
    let (reader, length) = open(path)?;
    let mut progress = Progress {
        length,
        is_shown: io::stderr().is_terminal(),
    };
    let outcome = tandem_estimate::estimate(reader, &options, &mut |read| progress.show(read));
    progress.end();
    let outcome = outcome.map_err(|source| Failure::Capture {
        path: path.clone(),
        source,
    })?;
    if arguments.json {
        output::print_json(&outcome)?;
    } else {
        output::print(&tandem_estimate::render(&outcome))?;
    }
    // The figures are there all the same; the exit code says that they are not of the whole file.
    match outcome
        .damage
        .iter()
        .find(|damage| damage.class() == DamageClass::File)
    {
        Some(damage) => Err(Failure::ReadInPart {
            path: path.clone(),
            damage: damage.to_string(),
        }),
        None => Ok(()),
    }
}

/// The capture and, for a file, its length in bytes; `-` is standard input.
fn open(path: &Path) -> Result<(Box<dyn Read>, Option<u64>), Failure> {
    if path.as_os_str() == "-" {
        return Ok((Box::new(io::stdin().lock()), None));
    }
    let file = File::open(path).map_err(|source| Failure::file(path, source))?;
    let length = file
        .metadata()
        .ok()
        .filter(std::fs::Metadata::is_file)
        .map(|about| about.len());
    Ok((Box::new(file), length))
}

/// How far a long file has been read, for somebody who waits at a terminal.
struct Progress {
    length: Option<u64>,
    is_shown: bool,
}

impl Progress {
    fn show(&mut self, read: u64) {
        const MEBIBYTE: u64 = 1 << 20;
        if !self.is_shown {
            return;
        }
        let line = match self.length {
            Some(length) if length > 0 => format!("{} %", read.min(length) * 100 / length),
            Some(_) | None => format!("{} MiB", read / MEBIBYTE),
        };
        // A terminal that takes no more is no reason to stop.
        let _ = write!(io::stderr(), "\rreading: {line}");
    }

    fn end(&mut self) {
        if self.is_shown {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}
