//! The options area of a TCP header as a validated view.
//!
//! Specifications: RFC 9293, section 3.2 (form, MSS), RFC 7323 (window scale, timestamps), RFC 2018
//! (SACK), RFC 2385 (MD5), RFC 5925 (AO), RFC 8684 (multipath), RFC 7413 (Fast Open), RFC 6994
//! (experiments).

use crate::error::PacketError;
use crate::seq::Seq;

/// Option kinds (IANA, "TCP Option Kind Numbers").
pub(super) mod kind {
    pub(crate) const END_OF_LIST: u8 = 0;
    pub(crate) const NOP: u8 = 1;
    pub(crate) const MAXIMUM_SEGMENT_SIZE: u8 = 2;
    pub(crate) const WINDOW_SCALE: u8 = 3;
    pub(crate) const SACK_PERMITTED: u8 = 4;
    pub(crate) const SACK: u8 = 5;
    pub(crate) const TIMESTAMPS: u8 = 8;
    pub(crate) const MD5: u8 = 19;
    pub(crate) const AUTHENTICATION: u8 = 29;
    pub(crate) const MULTIPATH: u8 = 30;
    pub(crate) const FAST_OPEN: u8 = 34;
    pub(crate) const EXPERIMENT_1: u8 = 253;
    pub(crate) const EXPERIMENT_2: u8 = 254;
}

/// The timestamps option (RFC 7323, section 3.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Timestamps {
    /// TSval: the sender's clock, in ticks of its own choosing.
    pub value: u32,
    /// TSecr: the last TSval received from the other side.
    pub echo: u32,
}

/// One option. `data` and the like are the bytes after kind and length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcpOption<'a> {
    /// Padding between options.
    Nop,
    /// The end; what follows in the area is ignored.
    EndOfList,
    /// Largest segment that the sender takes, in bytes of payload.
    MaximumSegmentSize(u16),
    /// Shift of the window field; 14 at most has a meaning (RFC 7323, section 2.3).
    WindowScale(u8),
    /// SACK may be used.
    SackPermitted,
    /// Edges of received blocks, 8 bytes each.
    Sack(&'a [u8]),
    /// Timestamps.
    Timestamps(Timestamps),
    /// TCP-MD5 digest.
    Md5(&'a [u8]),
    /// TCP-AO.
    Authentication(&'a [u8]),
    /// Multipath TCP.
    Multipath(&'a [u8]),
    /// Fast Open cookie; empty asks for one.
    FastOpen(&'a [u8]),
    /// Shared experimental option (RFC 6994).
    Experiment {
        /// 253 or 254.
        kind: u8,
        /// ExID: the first 16 bits; an experiment of 32 bits has its other half in `data`.
        id: u16,
        /// What follows the 16 bits.
        data: &'a [u8],
    },
    /// Any other kind, or a known one of unexpected length.
    Other {
        /// Its kind.
        kind: u8,
        /// Its data.
        data: &'a [u8],
    },
}

/// A validated options area; iterates over its options up to and including
/// [`TcpOption::EndOfList`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpOptions<'a> {
    area: &'a [u8],
    rest: &'a [u8],
}

impl<'a> TcpOptions<'a> {
    /// Validates an area.
    ///
    /// # Errors
    /// [`PacketError::BadOptions`] where a length is below 2 or reaches past the end.
    pub fn parse(area: &'a [u8]) -> Result<Self, PacketError> {
        let mut rest = area;
        while let [kind, after @ ..] = rest {
            rest = match *kind {
                kind::END_OF_LIST => break,
                kind::NOP => after,
                _ => {
                    let len = after.first().copied().filter(|len| *len >= 2);
                    len.and_then(|len| rest.get(usize::from(len)..))
                        .ok_or(PacketError::BadOptions)?
                }
            };
        }
        Ok(Self { area, rest: area })
    }

    /// The view of an area that is already known to be well formed.
    pub(crate) fn validated(area: &'a [u8]) -> Self {
        Self { area, rest: area }
    }

    /// The whole area, whatever was iterated already.
    #[must_use]
    pub fn as_bytes(&self) -> &'a [u8] {
        self.area
    }

    /// Data of the first experimental option (either kind) with this ExID, without the ExID.
    #[must_use]
    pub fn experiment(&self, id: u16) -> Option<&'a [u8]> {
        Self::validated(self.area).find_map(|option| match option {
            TcpOption::Experiment {
                id: found, data, ..
            } if found == id => Some(data),
            _ => None,
        })
    }

    /// The first timestamps option.
    #[must_use]
    #[inline]
    pub fn timestamps(&self) -> Option<Timestamps> {
        // The layout that nearly every segment of a connection with timestamps has (RFC 7323,
        // appendix A).
        if let &[1, 1, 8, 10, a, b, c, d, e, f, g, h, ..] = self.area {
            return Some(Timestamps {
                value: u32::from_be_bytes([a, b, c, d]),
                echo: u32::from_be_bytes([e, f, g, h]),
            });
        }
        Self::validated(self.area).find_map(|option| match option {
            TcpOption::Timestamps(timestamps) => Some(timestamps),
            _ => None,
        })
    }
}

/// Where in a well-formed area the first timestamps option begins.
pub(super) fn timestamps_at(area: &[u8]) -> Option<usize> {
    let mut rest = area;
    loop {
        match split_first(rest)? {
            (TcpOption::Timestamps(_), _) => return Some(area.len() - rest.len()),
            (TcpOption::EndOfList, _) => return None,
            (_, after) => rest = after,
        }
    }
}

impl Timestamps {
    /// An options area with these alone, in the layout that nearly every segment has (RFC 7323,
    /// appendix A).
    #[must_use]
    pub fn alone(self) -> [u8; 12] {
        let mut area = [kind::NOP; 12];
        self.write(&mut area[2..]);
        area
    }

    /// The options of an area, with these in its first timestamps option; as they are where there
    /// is none.
    #[must_use]
    pub fn within(self, area: &[u8]) -> Vec<u8> {
        let mut area = area.to_vec();
        if let Some(at) = timestamps_at(&area) {
            self.write(&mut area[at..]);
        }
        area
    }

    /// Writes the option at the front of `area`, which has room for it: kind 8, length 10, TSval,
    /// TSecr (RFC 7323, section 3.2).
    pub(super) fn write(self, area: &mut [u8]) {
        area[..2].copy_from_slice(&[kind::TIMESTAMPS, 10]);
        area[2..6].copy_from_slice(&self.value.to_be_bytes());
        area[6..10].copy_from_slice(&self.echo.to_be_bytes());
    }
}

/// What follows the last byte of each block that a SACK option reports (RFC 2018, section 3).
pub fn sack_ends(blocks: &[u8]) -> impl Iterator<Item = Seq> + '_ {
    blocks
        .as_chunks()
        .0
        .iter()
        .map(|&[_, _, _, _, a, b, c, d]| Seq(u32::from_be_bytes([a, b, c, d])))
}

impl<'a> Iterator for TcpOptions<'a> {
    type Item = TcpOption<'a>;

    #[inline]
    fn next(&mut self) -> Option<TcpOption<'a>> {
        let (option, after) = split_first(self.rest)?;
        self.rest = match option {
            TcpOption::EndOfList => &[],
            _ => after,
        };
        Some(option)
    }
}

impl std::iter::FusedIterator for TcpOptions<'_> {}

/// The first option and what follows it; `None` at the end and where the length is wrong.
#[inline]
pub(super) fn split_first(area: &[u8]) -> Option<(TcpOption<'_>, &[u8])> {
    let (&kind, rest) = area.split_first()?;
    match kind {
        kind::END_OF_LIST => return Some((TcpOption::EndOfList, rest)),
        kind::NOP => return Some((TcpOption::Nop, rest)),
        _ => {}
    }
    let len = usize::from(*rest.first()?);
    let data = area.get(2..len)?;
    Some((decode(kind, data), &area[len..]))
}

fn decode(kind: u8, data: &[u8]) -> TcpOption<'_> {
    match (kind, data) {
        (kind::MAXIMUM_SEGMENT_SIZE, &[a, b]) => {
            TcpOption::MaximumSegmentSize(u16::from_be_bytes([a, b]))
        }
        (kind::WINDOW_SCALE, &[shift]) => TcpOption::WindowScale(shift),
        (kind::SACK_PERMITTED, []) => TcpOption::SackPermitted,
        (kind::SACK, blocks) if !blocks.is_empty() && blocks.len().is_multiple_of(8) => {
            TcpOption::Sack(blocks)
        }
        (kind::TIMESTAMPS, &[a, b, c, d, e, f, g, h]) => TcpOption::Timestamps(Timestamps {
            value: u32::from_be_bytes([a, b, c, d]),
            echo: u32::from_be_bytes([e, f, g, h]),
        }),
        (kind::MD5, digest) => TcpOption::Md5(digest),
        (kind::AUTHENTICATION, data) => TcpOption::Authentication(data),
        (kind::MULTIPATH, data) => TcpOption::Multipath(data),
        (kind::FAST_OPEN, cookie) => TcpOption::FastOpen(cookie),
        (kind::EXPERIMENT_1 | kind::EXPERIMENT_2, &[a, b, ref data @ ..]) => {
            TcpOption::Experiment {
                kind,
                id: u16::from_be_bytes([a, b]),
                data,
            }
        }
        (kind, data) => TcpOption::Other { kind, data },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_a_linux_syn() {
        let area = [
            2, 4, 5, 0xb4, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0, 1, 3, 3, 7,
        ];
        let options: Vec<_> = TcpOptions::parse(&area).expect("well formed").collect();
        assert_eq!(
            options,
            [
                TcpOption::MaximumSegmentSize(1460),
                TcpOption::SackPermitted,
                TcpOption::Timestamps(Timestamps { value: 1, echo: 0 }),
                TcpOption::Nop,
                TcpOption::WindowScale(7),
            ]
        );
    }

    #[test]
    fn every_kind_is_told_apart() {
        let area = [
            5, 10, 1, 2, 3, 4, 5, 6, 7, 8, 19, 3, 9, 29, 4, 1, 2, 30, 3, 0, 34, 2, 253, 5, 0x12,
            0x34, 7, 254, 3, 1, 77, 2, 0, 2, 99,
        ];
        let options: Vec<_> = TcpOptions::parse(&area).expect("well formed").collect();
        assert_eq!(
            options,
            [
                TcpOption::Sack(&[1, 2, 3, 4, 5, 6, 7, 8]),
                TcpOption::Md5(&[9]),
                TcpOption::Authentication(&[1, 2]),
                TcpOption::Multipath(&[0]),
                TcpOption::FastOpen(&[]),
                TcpOption::Experiment {
                    kind: 253,
                    id: 0x1234,
                    data: &[7]
                },
                TcpOption::Other {
                    kind: 254,
                    data: &[1]
                },
                TcpOption::Other {
                    kind: 77,
                    data: &[]
                },
                TcpOption::EndOfList,
            ]
        );
        let options = TcpOptions::parse(&area).expect("well formed");
        assert_eq!(options.experiment(0x1234), Some(&[7][..]));
        assert_eq!(options.experiment(0x1235), None);
    }

    #[test]
    fn blocks_that_are_not_whole_are_no_sack() {
        for area in [
            &[5, 2][..],
            &[5, 6, 1, 2, 3, 4],
            &[5, 11, 1, 2, 3, 4, 5, 6, 7, 8, 9],
        ] {
            let options: Vec<_> = TcpOptions::parse(area).expect("well formed").collect();
            let data = &area[2..];
            assert_eq!(options, [TcpOption::Other { kind: 5, data }]);
        }
    }

    #[test]
    fn timestamps_are_written_alone_or_where_others_were() {
        let new = Timestamps {
            value: 0x0102_0304,
            echo: 0x0506_0708,
        };
        let alone = new.alone();
        assert_eq!(alone, [1, 1, 8, 10, 1, 2, 3, 4, 5, 6, 7, 8]);
        let mut options = TcpOptions::parse(&alone).expect("well formed");
        assert_eq!(options.timestamps(), Some(new));
        options.next();
        assert_eq!(options.as_bytes(), alone);
        let area = [3, 3, 7, 8, 10, 0, 0, 0, 0, 0, 0, 0, 9, 1, 1, 1];
        let within = new.within(&area);
        assert_eq!(within, [3, 3, 7, 8, 10, 1, 2, 3, 4, 5, 6, 7, 8, 1, 1, 1]);
        assert_eq!(new.within(&[3, 3, 7, 1]), [3, 3, 7, 1]);
    }

    #[test]
    fn lengths_that_do_not_add_up_are_refused() {
        for area in [&[2][..], &[2, 0], &[2, 1], &[8, 10, 0], &[1, 1, 77, 3]] {
            assert_eq!(
                TcpOptions::parse(area),
                Err(PacketError::BadOptions),
                "{area:?}"
            );
        }
    }

    #[test]
    fn timestamps_in_any_place() {
        let usual = [1, 1, 8, 10, 0, 0, 0, 5, 0, 0, 0, 6];
        let late = [8, 10, 0, 0, 0, 5, 0, 0, 0, 6, 1, 1];
        let expected = Some(Timestamps { value: 5, echo: 6 });
        assert_eq!(
            TcpOptions::parse(&usual).expect("well formed").timestamps(),
            expected
        );
        assert_eq!(
            TcpOptions::parse(&late).expect("well formed").timestamps(),
            expected
        );
        assert_eq!(
            TcpOptions::parse(&[8, 3, 0])
                .expect("well formed")
                .timestamps(),
            None
        );
    }
}
