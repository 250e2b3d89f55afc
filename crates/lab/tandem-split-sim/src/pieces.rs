//! What a page is cut into, and to whom each piece belongs.
//!
//! A piece is a chunk: what volunteers ask each other and the origin for. Each belongs to two
//! volunteers, by rendezvous hashing over those that are members; the first chunks of a megabyte
//! come with its list, and belong to whom the list belongs to (`docs/adr/0010-sharing.md`).

use std::ops::Range;

use crate::chance::mixed;
use crate::model::{Calibration, Rules, Unfit};

/// Of a body, for which there is one list.
const LIST_BYTES: u64 = 1 << 20;
/// How many volunteers keep each piece.
pub(crate) const OWNERS: usize = 2;

/// A page as the simulation goes by it.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) bodies: Vec<Body>,
    pub(crate) pieces: Vec<Piece>,
    /// Volunteers, those to whom something belongs first.
    rankings: Vec<Vec<u32>>,
}

#[derive(Debug)]
pub(crate) struct Body {
    pub(crate) bytes: u64,
    /// Bytes that leave the origin for a client by HTTPS.
    pub(crate) whole: u64,
    /// Through a volunteer: authentication data.
    pub(crate) proof: u64,
    /// Its pieces' numbers.
    pub(crate) pieces: Range<u32>,
}

#[derive(Debug)]
pub(crate) struct Piece {
    /// Bytes of the body.
    pub(crate) bytes: u64,
    /// Bytes that leave the origin for a volunteer that asks for it.
    pub(crate) miss: u64,
    ranking: usize,
}

impl Page {
    pub(crate) fn new(
        bodies: &[u64],
        calibration: &Calibration,
        rules: &Rules,
        volunteers: u32,
        seed: u64,
    ) -> Result<Self, Unfit> {
        let mut page = Self {
            bodies: Vec::new(),
            pieces: Vec::new(),
            rankings: Vec::new(),
        };
        for bytes in bodies {
            let cost = calibration.cost(*bytes)?;
            let first = counted(page.pieces.len());
            let missed = cost.cold - cost.warm;
            // Shares that add up, whatever their size.
            let until = |at: u64| missed * at / bytes;
            for cut in cuts(*bytes, rules) {
                if cut.has_ranking_of_its_own {
                    let key = mixed(seed, page.rankings.len() as u64);
                    page.rankings.push(ranking(key, volunteers));
                }
                page.pieces.push(Piece {
                    bytes: cut.range.end - cut.range.start,
                    miss: (until(cut.range.end) - until(cut.range.start)).max(1),
                    ranking: page.rankings.len() - 1,
                });
            }
            page.bodies.push(Body {
                bytes: *bytes,
                whole: cost.https,
                proof: cost.warm,
                pieces: first..counted(page.pieces.len()),
            });
        }
        Ok(page)
    }

    pub(crate) fn piece(&self, number: u32) -> &Piece {
        &self.pieces[number as usize]
    }

    /// To whom a piece belongs among these members, whom to ask first first.
    pub(crate) fn owners(
        &self,
        piece: u32,
        is_member: impl Fn(u32) -> bool,
    ) -> impl Iterator<Item = u32> {
        let ranking = &self.rankings[self.piece(piece).ranking];
        let members = ranking.iter().copied();
        members.filter(move |one| is_member(*one)).take(OWNERS)
    }
}

/// How many there are: bodies, pieces, volunteers, each of which has a number of 32 bits.
pub(crate) fn counted(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

/// A chunk of a body.
#[derive(Debug, PartialEq, Eq)]
struct Cut {
    range: Range<u64>,
    /// Not so for those that come with a list, but for the first of them.
    has_ranking_of_its_own: bool,
}

/// Where a body is cut.
fn cuts(bytes: u64, rules: &Rules) -> Vec<Cut> {
    let piece = rules.piece_bytes.max(1);
    let with_list = piece * rules.pieces_with_list;
    let mut cuts = Vec::new();
    let mut start = 0;
    while start < bytes {
        let after_list = start % LIST_BYTES;
        let list_ends = start - after_list + LIST_BYTES;
        let end = (start + piece).min(list_ends).min(bytes);
        cuts.push(Cut {
            range: start..end,
            has_ranking_of_its_own: after_list == 0 || after_list >= with_list,
        });
        start = end;
    }
    cuts
}

fn ranking(key: u64, volunteers: u32) -> Vec<u32> {
    let mut ranking: Vec<u32> = (0..volunteers).collect();
    ranking.sort_by_cached_key(|volunteer| mixed(key, u64::from(*volunteer)));
    ranking
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::SizeCost;

    #[test]
    fn a_body_is_cut_into_chunks_of_which_the_first_belong_to_whom_the_list_does() {
        let cut = |bytes| -> (Vec<u64>, usize) {
            let cuts = cuts(bytes, &Rules::default());
            let owned = cuts.iter().filter(|cut| cut.has_ranking_of_its_own).count();
            let lengths = cuts.iter().map(|cut| cut.range.end - cut.range.start);
            (lengths.collect(), owned)
        };
        let chunk = 16 << 10;
        assert_eq!(cut(100), (vec![100], 1));
        assert_eq!(cut(chunk + 1), (vec![chunk, 1], 1));
        assert_eq!(cut(9 * chunk).1, 2);
        let (megabyte, owned) = cut(1 << 20);
        assert_eq!((megabyte.len(), owned), (64, 57));
        let (more, owned) = cut((1 << 20) + 5);
        assert_eq!((more[64], more.len(), owned), (5, 65, 58));
    }

    #[test]
    fn pieces_cost_together_what_their_body_costs() {
        let cost = |body, cold| SizeCost {
            body,
            https: cold,
            warm: 1_000,
            cold,
        };
        let calibration = Calibration {
            sizes: vec![cost(100, 1_111), cost(1_000_000, 1_050_007)],
            https_seconds: 0.0,
            warm_seconds: 0.0,
            cold_seconds: 0.0,
        };
        let rules = Rules::default();
        let page = Page::new(&[700_001], &calibration, &rules, 3, 1).expect("fits");
        let missed: u64 = page.pieces.iter().map(|piece| piece.miss).sum();
        let cost = calibration.cost(700_001).expect("between");
        assert_eq!(missed, cost.cold - cost.warm);
        let bytes: u64 = page.pieces.iter().map(|piece| piece.bytes).sum();
        assert_eq!(bytes, 700_001);
    }

    #[test]
    fn who_leaves_moves_his_own_share_alone() {
        let page = Page {
            bodies: Vec::new(),
            pieces: vec![Piece {
                bytes: 1,
                miss: 1,
                ranking: 0,
            }],
            rankings: vec![ranking(7, 100)],
        };
        let owners =
            |gone: Option<u32>| -> Vec<u32> { page.owners(0, |one| Some(one) != gone).collect() };
        let all = owners(None);
        assert_eq!(all.len(), OWNERS);
        for gone in 0..100 {
            let left = owners(Some(gone));
            if all.contains(&gone) {
                assert!(left.len() == OWNERS && !left.contains(&gone));
                assert!(left.iter().filter(|one| all.contains(one)).count() == OWNERS - 1);
            } else {
                assert_eq!(left, all);
            }
        }
    }
}
