//! The files of the mix `modern`: what web pages load today, by type and size.
//!
//! HTTP Archive, Web Almanac 2025, chapter Page Weight, desktop pages of July 2025
//! (<https://almanac.httparchive.org/en/2025/page-weight>). Requests of each type: those of the
//! median page. Sizes: the 10th, 25th, 50th, 75th and 90th percentile of single responses for
//! images, scripts and fonts. For style sheets and HTML the chapter has percentiles of a page's
//! bytes only: these are divided by the number of the median page's files. As transferred, so
//! after compression; a kilobyte has 1,024 bytes.
//!
//! Each percentile stands for the responses nearer to it than to the next. What lies above the
//! 90th, and video, audio and data, are left out, so the mean is too low for the web as a whole.

use crate::file::FileSpec;

/// The share of the responses of a type that each percentile stands for: 10, 25, 50, 75, 90.
const BANDS: [f64; 5] = [0.175, 0.2, 0.25, 0.2, 0.175];

/// A type of response.
struct Type {
    name: &'static str,
    /// Of the median page.
    requests: f64,
    /// The percentiles, hundredths of a KiB.
    sizes: [u64; 5],
    /// Files of the median page that share each size.
    files: u64,
}

const TYPES: [Type; 5] = [
    Type {
        name: "script",
        requests: 23.0,
        sizes: [40, 120, 460, 2_180, 8_350],
        files: 1,
    },
    Type {
        name: "image",
        requests: 17.0,
        // The chapter rounds the smallest, mostly tracking pixels, to 0 kB.
        sizes: [25, 100, 800, 4_800, 18_300],
        files: 1,
    },
    Type {
        name: "style",
        requests: 8.0,
        sizes: [1_000, 3_800, 8_300, 16_100, 27_400],
        files: 8,
    },
    Type {
        name: "font",
        requests: 4.0,
        sizes: [900, 1_500, 2_300, 4_700, 7_900],
        files: 1,
    },
    Type {
        name: "html",
        requests: 3.0,
        sizes: [600, 1_400, 3_500, 7_800, 15_200],
        files: 3,
    },
];

/// Each file with how often it is asked for, as a share of all requests.
pub(crate) fn files() -> impl Iterator<Item = (f64, FileSpec)> {
    let all: f64 = TYPES.iter().map(|one| one.requests).sum();
    TYPES.iter().flat_map(move |one| {
        let sized = BANDS.iter().zip(one.sizes).zip(1_u32..);
        sized.map(move |((band, size), number)| {
            let spec = FileSpec {
                name: format!("{}_{number}", one.name),
                bytes: (size * 1_024 + 50 * one.files) / (100 * one.files),
            };
            (one.requests / all * band, spec)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shares_are_those_of_the_source_and_add_up_to_the_whole() {
        let files: Vec<(f64, FileSpec)> = files().collect();
        assert_eq!(files.len(), 25);
        let share = |name: &str| -> f64 {
            let of = files.iter().filter(|(_, file)| file.name.starts_with(name));
            of.map(|(share, _)| share).sum()
        };
        assert!((share("") - 1.0).abs() < 1e-9);
        for (name, requests) in [
            ("script", 23.0),
            ("image", 17.0),
            ("style", 8.0),
            ("font", 4.0),
            ("html", 3.0),
        ] {
            assert!((share(name) - requests / 55.0).abs() < 1e-9, "{name}");
        }
    }

    #[test]
    fn the_median_and_the_mean_are_as_documented() {
        let mut files: Vec<(f64, FileSpec)> = files().collect();
        files.sort_by_key(|(_, file)| file.bytes);
        let mut reached = 0.0;
        let median = files.iter().find(|(share, _)| {
            reached += share;
            reached >= 0.5
        });
        assert_eq!(median.expect("half of all").1.bytes, 8_192);
        let mean: f64 = files
            .iter()
            .map(|(share, file)| share * file.bytes as f64)
            .sum();
        // 28.2 kB: docs/measuring.md.
        assert!((mean - 28_206.0).abs() < 1.0, "{mean}");
        let largest = files.last().expect("files");
        assert_eq!(largest.1.name, "image_5");
        assert_eq!(largest.1.bytes, 187_392);
    }
}
