//! A stretch of a server's access log, as section 5.1.1 of the thesis makes traces: GET with status
//! 200 alone, and one object for each pair of URL and size.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use tandem_testbed::LabError;

/// Where the logs are unless the caller says: below `$TANDEM_DATA`, or beside the project.
const PLACE: &str = "../shared/data";

/// The logs that are known, and at which request a stretch by day begins.
pub(crate) const LOGS: [Log; 2] = [
    Log {
        name: "nasa",
        file: "nasa-1995-08-01.tsv",
        // Noon in Florida on that day: the log's first second is midnight there.
        begins: Begins::AtSecond(807_256_800 + 12 * 3600),
    },
    Log {
        name: "semicomplete",
        file: "semicomplete-2015-05.tsv",
        // Its first line is of ten in the morning.
        begins: Begins::AtOnce,
    },
];

/// A log.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Log {
    /// What rows call it.
    pub(crate) name: &'static str,
    file: &'static str,
    begins: Begins,
}

#[derive(Debug, Clone, Copy)]
enum Begins {
    AtOnce,
    /// Seconds since 1970.
    AtSecond(u64),
}

/// Requests one after the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Trace {
    /// Sizes of the objects, each once.
    pub(crate) objects: Vec<u64>,
    /// Which object each request asks for.
    pub(crate) requests: Vec<usize>,
}

/// The directory with logs: that which is given, or the usual one.
pub(crate) fn directory(given: Option<&Path>) -> PathBuf {
    match given {
        Some(directory) => directory.to_owned(),
        None => std::env::var_os("TANDEM_DATA")
            .map_or_else(|| PathBuf::from(PLACE), PathBuf::from)
            .join("logs"),
    }
}

impl Log {
    /// The stretch of this many bytes of bodies; `None` where there is no such file.
    ///
    /// # Errors
    /// `Io`; `Usage` for a line that is no request.
    pub(crate) fn stretch(&self, logs: &Path, bytes: u64) -> Result<Option<Trace>, LabError> {
        let path = logs.join(self.file);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(LabError::io(format!("read {}", path.display()))(error)),
        };
        Trace::of(&text, self.begins, bytes)
            .map(Some)
            .map_err(|line| {
                LabError::usage(
                    format!("{}, line {line}", path.display()),
                    "is not time, method, URL, status and bytes with tabs between",
                )
            })
    }
}

impl Trace {
    /// Out of a log's lines, a heading first; `Err` is the number of a line that does not read.
    fn of(text: &str, begins: Begins, bytes: u64) -> Result<Self, usize> {
        let mut known: HashMap<(&str, u64), usize> = HashMap::new();
        let mut trace = Self {
            objects: Vec::new(),
            requests: Vec::new(),
        };
        let mut sum = 0;
        for (index, line) in text.lines().enumerate().skip(1) {
            let fields: Vec<&str> = line.split('\t').collect();
            let [time, method, url, status, size] = fields[..] else {
                return Err(index + 1);
            };
            let begun = match begins {
                Begins::AtOnce => true,
                Begins::AtSecond(second) => time.parse::<u64>().map_err(|_| index + 1)? >= second,
            };
            // A size that is a hyphen is that of an answer without a body.
            let size = size.parse().unwrap_or(0);
            if !begun || method != "GET" || status != "200" || size == 0 {
                continue;
            }
            if sum + size > bytes {
                break;
            }
            sum += size;
            let next = trace.objects.len();
            let object = *known.entry((url, size)).or_insert(next);
            if object == next {
                trace.objects.push(size);
            }
            trace.requests.push(object);
        }
        Ok(trace)
    }

    /// Bytes of all bodies.
    pub(crate) fn bytes(&self) -> u64 {
        self.requests
            .iter()
            .map(|object| self.objects[*object])
            .sum()
    }

    /// What a cache that forgets nothing could save: all bytes by those of the objects.
    pub(crate) fn redundancy(&self) -> f64 {
        let distinct: u64 = self.objects.iter().sum();
        self.bytes() as f64 / distinct.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "time\tmethod\turl\tstatus\tbytes\n\
        10\tGET\t/early\t200\t1\n\
        20\tGET\t/a\t200\t5\n\
        21\tHEAD\t/a\t200\t5\n\
        22\tGET\t/a\t304\t0\n\
        23\tGET\t/a\t200\t6\n\
        24\tGET\t/a\t200\t5\n\
        25\tGET\t/b\t200\t-\n\
        26\tGET\t/c\t200\t100\n";

    #[test]
    fn an_object_is_a_url_with_a_size() {
        let trace = Trace::of(LOG, Begins::AtSecond(20), 50).unwrap();
        assert_eq!(trace.objects, [5, 6]);
        assert_eq!(trace.requests, [0, 1, 0]);
        assert_eq!(trace.bytes(), 16);
        assert!((trace.redundancy() - 16.0 / 11.0).abs() < 1e-9);
    }

    #[test]
    fn a_line_that_is_no_request_is_named() {
        assert_eq!(Trace::of("h\nx\n", Begins::AtOnce, 1), Err(2));
        let timeless = LOG.replace("20\tGET", "noon\tGET");
        assert_eq!(Trace::of(&timeless, Begins::AtSecond(20), 50), Err(3));
    }
}
