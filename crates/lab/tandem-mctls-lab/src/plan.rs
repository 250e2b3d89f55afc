//! How much of each part is measured.
//!
//! The paper's own figures where it gives them: 10 Mbit/s and 20 ms for each link, files of 0.5,
//! 4.9 and 185 kB (percentiles 10, 50 and 99 of objects of web pages) and of 10 MB.

use tandem_testbed::{Effort, LinkSpec};

/// Files over a link.
#[derive(Clone, Debug)]
pub(crate) struct Transfers {
    pub(crate) link: LinkSpec,
    /// Bytes.
    pub(crate) sizes: Vec<u32>,
    pub(crate) trials: u32,
    pub(crate) order: Order,
}

/// Which transfers run at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// None.
    OneByOne,
    /// Those of all arms, each over links of its own: where they take so long that the processor
    /// has nothing to do.
    AtOnce,
}

/// How much.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// Middleboxes, of handshakes and first bytes.
    pub(crate) middleboxes: Vec<usize>,
    /// Contexts of handshakes.
    pub(crate) contexts: Vec<u8>,
    pub(crate) handshake_trials: u32,
    /// Contexts of first bytes, with one middlebox.
    pub(crate) first_byte_contexts: Vec<u8>,
    pub(crate) first_byte_trials: u32,
    pub(crate) transfers: Vec<Transfers>,
    pub(crate) pages: u32,
    /// Connections in a batch, and batches.
    pub(crate) batch: u32,
    pub(crate) batches: u32,
    /// Contexts of connections.
    pub(crate) batch_contexts: Vec<u8>,
    pub(crate) bulk_bytes: u32,
    pub(crate) bulk_trials: u32,
}

impl Plan {
    pub(crate) fn of(effort: Effort) -> Self {
        match effort {
            Effort::Full => Self {
                middleboxes: vec![0, 1, 2, 4],
                contexts: vec![1, 4, 8, 16],
                handshake_trials: 3,
                first_byte_contexts: vec![1, 4, 8, 10, 12, 14, 16],
                first_byte_trials: 10,
                transfers: vec![
                    over(rate(1), &[500, 4_900, 185_000], 5),
                    Transfers {
                        order: Order::AtOnce,
                        ..over(rate(1), &[10_000_000], 1)
                    },
                    over(paper(), &[185_000], 5),
                    over(paper(), &[10_000_000], 2),
                    over(rate(100), &[10_000_000], 3),
                    over(LinkSpec::preset("cell-modem"), &[4_900, 185_000], 3),
                ],
                pages: 10,
                batch: 100,
                batches: 7,
                batch_contexts: vec![1, 4, 8, 16],
                bulk_bytes: 100_000_000,
                bulk_trials: 5,
            },
            Effort::Quick => Self {
                middleboxes: vec![0, 1, 2],
                contexts: vec![1, 4],
                handshake_trials: 1,
                first_byte_contexts: vec![1, 16],
                first_byte_trials: 3,
                transfers: vec![over(rate(1), &[4_900], 1), over(rate(100), &[1_000_000], 1)],
                pages: 1,
                batch: 20,
                batches: 2,
                batch_contexts: vec![1],
                bulk_bytes: 8_000_000,
                bulk_trials: 2,
            },
        }
    }

    /// All links, each once.
    pub(crate) fn links(&self) -> Vec<LinkSpec> {
        let mut links = vec![paper(), fast()];
        for transfers in &self.transfers {
            if !links.contains(&transfers.link) {
                links.push(transfers.link.clone());
            }
        }
        links
    }
}

fn over(link: LinkSpec, sizes: &[u32], trials: u32) -> Transfers {
    Transfers {
        link,
        sizes: sizes.to_vec(),
        trials,
        order: Order::OneByOne,
    }
}

/// The paper's link.
pub(crate) fn paper() -> LinkSpec {
    rate(10)
}

/// The paper's with another rate, Mbit/s.
fn rate(mega: u64) -> LinkSpec {
    LinkSpec {
        name: format!("{mega} Mbit/s, 20 ms"),
        up: Some(mega * 1_000_000),
        down: Some(mega * 1_000_000),
        delay_ms: Some(20.0),
        ..LinkSpec::default()
    }
}

/// For what only counts bytes.
pub(crate) fn fast() -> LinkSpec {
    LinkSpec {
        name: "1 Gbit/s, no delay".to_owned(),
        up: Some(1_000_000_000),
        down: Some(1_000_000_000),
        delay_ms: Some(0.0),
        ..LinkSpec::default()
    }
}
