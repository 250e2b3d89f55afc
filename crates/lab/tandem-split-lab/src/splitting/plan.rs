//! How much is measured: files, requests, trials and links, in full and in brief.

use tandem_testbed::effort::Effort;
use tandem_testbed::links::LinkSpec;

/// The amounts.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// Bytes of the files of figures 5-4 and 5-5.
    pub(crate) sizes: Vec<u64>,
    /// New files of each.
    pub(crate) size_trials: u32,
    /// Bytes of bodies in a stretch of a trace: 10 MB, as in the thesis.
    pub(crate) trace_bytes: u64,
    /// Requests of a trace that are measured together.
    pub(crate) block: usize,
    /// Files of figure 5-6.
    pub(crate) latency_files: usize,
    /// The largest of them, bytes: it bounds the time on a slow link.
    pub(crate) latency_largest: u64,
    /// How many volunteers at once.
    pub(crate) volunteers: Vec<u32>,
    /// What each gives its clients, kB each second: 2 Mbit/s.
    pub(crate) volunteer_rate: u32,
    /// Bytes of the file that everybody wants from volunteers.
    pub(crate) popular_bytes: u64,
    /// How often each client wants it.
    pub(crate) popular_times: usize,
    /// Bytes of the file that is fetched without volunteers.
    pub(crate) direct_bytes: u64,
    /// Of each number of volunteers.
    pub(crate) scaling_trials: u32,
    /// Links over which volunteers grow in number.
    pub(crate) scaling_links: Vec<LinkSpec>,
    /// Bytes of files by which the origin's processor time is measured.
    pub(crate) processor_sizes: Vec<u64>,
    /// Requests for each by each way.
    pub(crate) processor_trials: u32,
    /// Bytes of the file by which a volunteer's is measured.
    pub(crate) throughput_bytes: u64,
    /// Requests for it by each way.
    pub(crate) throughput_trials: u32,
}

/// The link on which bytes and processors are measured: fast, since bytes are the same on all.
pub(crate) fn fast() -> LinkSpec {
    LinkSpec::preset("tcdl-10")
}

/// The thesis's origin has an ADSL line that sends 160 kbit/s. What it receives, and its delay, the
/// thesis does not say.
pub(crate) fn adsl() -> LinkSpec {
    LinkSpec {
        up: Some(1_500_000),
        down: Some(160_000),
        delay_ms: Some(15.0),
        ..LinkSpec::preset("adsl-160")
    }
}

impl Plan {
    /// All of it, or some minutes' worth.
    pub(crate) fn of(effort: Effort) -> Self {
        let full = Self {
            sizes: vec![
                100, 300, 1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000,
                10_000_000,
            ],
            size_trials: 3,
            trace_bytes: 10_000_000,
            block: 40,
            latency_files: 60,
            latency_largest: 150_000,
            volunteers: vec![1, 2, 5, 10, 20],
            volunteer_rate: 250,
            popular_bytes: 1_000_000,
            popular_times: 2,
            direct_bytes: 200_000,
            scaling_trials: 2,
            scaling_links: vec![adsl(), LinkSpec::preset("inmarsat-64"), fast()],
            processor_sizes: vec![10_000, 1_000_000],
            processor_trials: 20,
            throughput_bytes: 32_000_000,
            throughput_trials: 10,
        };
        match effort {
            Effort::Full => full,
            Effort::Quick => Self {
                sizes: vec![100, 10_000, 1_000_000],
                size_trials: 1,
                trace_bytes: 1_000_000,
                latency_files: 3,
                latency_largest: 20_000,
                volunteers: vec![1, 5],
                popular_times: 1,
                direct_bytes: 50_000,
                scaling_trials: 1,
                scaling_links: vec![adsl()],
                processor_sizes: vec![1_000_000],
                processor_trials: 2,
                throughput_bytes: 4_000_000,
                throughput_trials: 2,
                ..full
            },
        }
    }
}
