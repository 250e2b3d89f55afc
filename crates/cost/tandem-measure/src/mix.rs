//! What is asked for: one page, files of one size, the file mix of SPECweb96, that of web pages of
//! today (`modern`), or a list of URLs.
//!
//! SPECweb96 (<https://www.spec.org/osg/web96/workload.html>): files below 1 kB are 35 % of the
//! requests, to 10 kB 50 %, to 100 kB 14 %, to 1 MB 1 %; each class has nine sizes, 1 to 9 times
//! 102.4 bytes, 1, 10 or 100 kB. Within a class they follow a Poisson distribution around the
//! midpoint: here that of mean 5, cut to 1 to 9. One directory of 36 files; the mean is 14.6 kB.

use core::fmt;

use rand::{Rng as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;

use crate::file::FileSpec;
use crate::modern;

/// Share of each class, per cent.
const CLASSES: [u32; 4] = [35, 50, 14, 1];
/// Sizes in each class.
const SIZES: u64 = 9;
/// The mean of the Poisson distribution within a class: the middle one of nine.
const MIDPOINT: f64 = 5.0;
/// The largest file of a fixed size, bytes.
const MAX_FIXED: u64 = 1 << 30;

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mix {
    /// The URL itself.
    Page,
    /// `fixed_BYTES` below the URL.
    Fixed(u64),
    /// `classC_N` below the URL, C from 0 to 3, N from 1 to 9.
    SpecWeb96,
    /// `TYPE_N` below the URL, TYPE one of five, N from 1 to 5.
    Modern,
    /// Each of these paths as often as it is in the list. Not empty.
    Paths(Vec<String>),
}

/// Why a mix was not understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MixError {
    /// The size after `fixed:` is not a number of bytes, at most 1 GiB.
    Size(String),
    /// No path is in the list.
    NoPath,
    /// A line of the list, by its number, is no path.
    Path(usize),
    /// A line of the list, by its number, is a URL of another server.
    Elsewhere(usize),
}

impl fmt::Display for MixError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Size(text) => write!(
                f,
                "fixed:{text} is no size; give bytes, at most {MAX_FIXED}, as in fixed:10240"
            ),
            Self::NoPath => f.write_str("has no path; give one a line, as in /index.html"),
            Self::Path(line) => write!(
                f,
                "line {line} is neither a path nor a URL; a path begins with / and has no spaces"
            ),
            Self::Elsewhere(line) => write!(
                f,
                "line {line} is a URL of another server; only the server of the URL on the command \
                 line is measured"
            ),
        }
    }
}

impl core::error::Error for MixError {}

impl Mix {
    /// A name of a mix, `specweb96`, `modern` or `fixed:BYTES`; `None` where it is none of them, so
    /// that it may be a file with URLs.
    ///
    /// # Errors
    /// `Size`.
    pub fn named(text: &str) -> Result<Option<Self>, MixError> {
        match text {
            "specweb96" => return Ok(Some(Self::SpecWeb96)),
            "modern" => return Ok(Some(Self::Modern)),
            _ => {}
        }
        let Some(size) = text.strip_prefix("fixed:") else {
            return Ok(None);
        };
        match size.parse() {
            Ok(bytes) if bytes <= MAX_FIXED => Ok(Some(Self::Fixed(bytes))),
            Ok(_) | Err(_) => Err(MixError::Size(size.to_owned())),
        }
    }

    /// A list of paths, or of URLs of `origin` (`https://HOST:PORT`), one a line; empty lines and
    /// those that begin with `#` count for nothing.
    ///
    /// # Errors
    /// `NoPath`, `Path`, `Elsewhere`.
    pub fn paths(text: &str, origin: &str) -> Result<Self, MixError> {
        let mut paths = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if !line.bytes().all(|byte| byte.is_ascii_graphic()) {
                return Err(MixError::Path(number));
            }
            let path = match line.contains("://") && !line.starts_with('/') {
                true => match line.strip_prefix(origin) {
                    Some("") => "/",
                    Some(path) if path.starts_with('/') => path,
                    Some(_) | None => return Err(MixError::Elsewhere(number)),
                },
                false => line,
            };
            if !path.starts_with('/') {
                return Err(MixError::Path(number));
            }
            // What is behind # is never sent (RFC 9110, section 7.1).
            paths.push(path.split('#').next().unwrap_or_default().to_owned());
        }
        if paths.is_empty() {
            return Err(MixError::NoPath);
        }
        Ok(Self::Paths(paths))
    }

    /// The files that a server needs for it, where they follow from the mix.
    #[must_use]
    pub fn files(&self) -> Vec<FileSpec> {
        match self {
            Self::Page | Self::Paths(_) => Vec::new(),
            Self::Fixed(bytes) => vec![fixed(*bytes)],
            Self::SpecWeb96 => (0..4)
                .flat_map(|class| (1..=SIZES).map(move |size| file(class, size)))
                .collect(),
            Self::Modern => modern::files().map(|(_, file)| file).collect(),
        }
    }
}

fn fixed(bytes: u64) -> FileSpec {
    FileSpec {
        name: format!("fixed_{bytes}"),
        bytes,
    }
}

fn file(class: u32, size: u64) -> FileSpec {
    FileSpec {
        name: format!("class{class}_{size}"),
        bytes: size * 10_u64.pow(class) * 1_024 / 10,
    }
}

/// Paths in the order in which one client asks for them.
#[derive(Debug, Clone)]
pub struct Requests {
    random: Pcg64Mcg,
    /// Paths, and the share of all up to and with each, growing to 1.
    choices: Vec<(f64, String)>,
}

impl Requests {
    /// `base` is the URL's path.
    #[must_use]
    pub fn new(mix: &Mix, base: &str, seed: u64) -> Self {
        let folder = base.strip_suffix('/').unwrap_or(base);
        let below = |name: &str| format!("{folder}/{name}");
        let weighed: Vec<(f64, String)> = match mix {
            Mix::Page => vec![(1.0, base.to_owned())],
            Mix::Fixed(bytes) => vec![(1.0, below(&fixed(*bytes).name))],
            Mix::SpecWeb96 => (0..)
                .zip(CLASSES)
                .flat_map(|(class, share)| {
                    weights().map(move |(size, weight)| {
                        (f64::from(share) * weight, file(class, size).name)
                    })
                })
                .map(|(weight, name)| (weight, below(&name)))
                .collect(),
            Mix::Modern => modern::files()
                .map(|(share, file)| (share, below(&file.name)))
                .collect(),
            Mix::Paths(paths) => paths.iter().map(|path| (1.0, path.clone())).collect(),
        };
        let whole: f64 = weighed.iter().map(|(weight, _)| weight).sum();
        let mut reached = 0.0;
        let choices = weighed
            .into_iter()
            .map(|(weight, path)| {
                reached += weight / whole;
                (reached, path)
            })
            .collect();
        Self {
            random: Pcg64Mcg::seed_from_u64(seed),
            choices,
        }
    }

    /// The next path.
    pub fn next_path(&mut self) -> &str {
        let at: f64 = self.random.random();
        let place = self.choices.partition_point(|(reached, _)| *reached <= at);
        // Sums of fractions may end a little below 1.
        let place = place.min(self.choices.len().saturating_sub(1));
        self.choices.get(place).map_or("/", |(_, path)| path)
    }
}

/// The sizes of a class, and each one's share of the class.
fn weights() -> impl Iterator<Item = (u64, f64)> {
    let mut weight = 1.0;
    let weights: Vec<f64> = (1..=SIZES)
        .map(|size| {
            weight *= MIDPOINT / size as f64;
            weight
        })
        .collect();
    let whole: f64 = weights.iter().sum();
    (1..)
        .zip(weights)
        .map(move |(size, weight)| (size, weight / whole))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(mix: &Mix, base: &str, number: usize) -> Vec<String> {
        let mut requests = Requests::new(mix, base, 3);
        (0..number)
            .map(|_| requests.next_path().to_owned())
            .collect()
    }

    #[test]
    fn the_classes_have_the_shares_of_specweb96() {
        let drawn = drawn(&Mix::SpecWeb96, "/", 100_000);
        for (class, percent) in [(0, 35.0), (1, 50.0), (2, 14.0), (3, 1.0)] {
            let name = format!("/class{class}_");
            let found = drawn.iter().filter(|path| path.starts_with(&name)).count();
            assert!(
                (found as f64 / 1_000.0 - percent).abs() < 0.5,
                "{class}: {found}"
            );
        }
    }

    #[test]
    fn the_middle_of_a_class_is_asked_for_most() {
        let weights: Vec<f64> = weights().map(|(_, weight)| weight).collect();
        assert_eq!(weights.len(), 9);
        assert!((weights.iter().sum::<f64>() - 1.0).abs() < 1e-9);
        // Poisson of mean 5: 4 and 5 are equal, and the largest.
        assert!((weights[3] - weights[4]).abs() < 1e-9);
        assert!(weights.iter().all(|weight| *weight <= weights[4] + 1e-9));
        assert!(weights[0] < weights[1] && weights[7] > weights[8]);
    }

    #[test]
    fn the_files_have_the_sizes_of_specweb96() {
        let files = Mix::SpecWeb96.files();
        let size = |name: &str| {
            files
                .iter()
                .find(|file| file.name == name)
                .expect("a file of this name")
                .bytes
        };
        assert_eq!(files.len(), 36);
        assert_eq!(
            ["class0_1", "class0_9", "class1_1", "class2_9", "class3_9"].map(size),
            [102, 921, 1_024, 92_160, 921_600]
        );
    }

    #[test]
    fn what_is_asked_for_lies_below_the_url() {
        assert_eq!(drawn(&Mix::Page, "/a/b", 1), ["/a/b"]);
        assert_eq!(drawn(&Mix::Fixed(10), "/a/", 1), ["/a/fixed_10"]);
        assert_eq!(drawn(&Mix::Fixed(10), "/a", 1), ["/a/fixed_10"]);
        let list = "# two\n/x\n\nhttps://a:8443/y?z=1#part\n";
        let paths = Mix::paths(list, "https://a:8443").expect("two paths");
        let drawn = drawn(&paths, "/a", 1_000);
        let x = drawn.iter().filter(|path| *path == "/x").count();
        assert!((400..600).contains(&x), "{x}");
        assert!(drawn.iter().all(|path| path == "/x" || path == "/y?z=1"));
    }

    #[test]
    fn modern_files_are_asked_for_by_their_shares() {
        let mut files = Mix::Modern.files();
        assert_eq!(files.len(), 25);
        files.sort_by(|a, b| a.name.cmp(&b.name));
        files.dedup_by(|a, b| a.name == b.name);
        assert_eq!(files.len(), 25, "names are different");
        let drawn = drawn(&Mix::Modern, "/m/", 100_000);
        let share = |prefix: &str| {
            let of = drawn.iter().filter(|path| path.starts_with(prefix));
            of.count() as f64 / 100_000.0
        };
        assert!((share("/m/script_") - 23.0 / 55.0).abs() < 0.01);
        assert!((share("/m/image_5") - 17.0 / 55.0 * 0.175).abs() < 0.005);
        assert!((share("/m/") - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_wrong_mix_says_what_is_wrong() {
        assert_eq!(Mix::named("pages.txt"), Ok(None));
        assert_eq!(Mix::named("fixed:64"), Ok(Some(Mix::Fixed(64))));
        for size in ["", "-1", "1k", "1073741825"] {
            let wrong = Mix::named(&format!("fixed:{size}"));
            assert_eq!(wrong, Err(MixError::Size(size.to_owned())));
        }
        assert_eq!(Mix::named("modern"), Ok(Some(Mix::Modern)));
        let paths = |text| Mix::paths(text, "https://a");
        assert_eq!(paths("# none\n"), Err(MixError::NoPath));
        assert_eq!(paths("/a\nb\n"), Err(MixError::Path(2)));
        assert_eq!(
            paths("/a\r\nHost: b\r\n"),
            Err(MixError::Path(2)),
            "a path is no way to add a header"
        );
        for other in ["https://b/", "http://a/", "https://a.b/", "https://a:1/x"] {
            assert_eq!(paths(other), Err(MixError::Elsewhere(1)), "{other}");
        }
        assert_eq!(paths("https://a"), Ok(Mix::Paths(vec!["/".to_owned()])));
    }
}
