//! An options area under construction.
//!
//! Invariant: the bytes in use are whole options with no end-of-list mark and no padding at the
//! end; the rest of the 40 bytes are NOPs, so that any prefix rounded up to 4 is a valid area.

use super::options::{kind, split_first, timestamps_at};
use super::{MAX_OPTIONS_LEN, TcpOption, TcpOptions, Timestamps};
use crate::error::{NoRoom, PacketError};

/// Builds an options area of at most 40 bytes, padded with NOPs to a multiple of 4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionsBuf {
    bytes: [u8; MAX_OPTIONS_LEN],
    used: usize,
}

impl OptionsBuf {
    /// An empty area.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            bytes: [kind::NOP; MAX_OPTIONS_LEN],
            used: 0,
        }
    }

    /// The options of an existing area. An end-of-list mark, what follows it, and padding at the
    /// end are dropped: they come back as NOPs.
    ///
    /// # Errors
    /// [`PacketError::OptionsLength`] for more than 40 bytes, [`PacketError::BadOptions`] where
    /// they do not add up.
    pub fn from_bytes(area: &[u8]) -> Result<Self, PacketError> {
        if area.len() > MAX_OPTIONS_LEN {
            return Err(PacketError::OptionsLength);
        }
        TcpOptions::parse(area)?;
        Ok(Self::filtered(area, |_| true))
    }

    /// Copies the options of a well-formed area of at most 40 bytes that `keep` wants.
    fn filtered(area: &[u8], keep: impl Fn(&TcpOption<'_>) -> bool) -> Self {
        let mut buf = Self::new();
        let mut end = 0;
        let mut rest = area;
        while let Some((option, after)) = split_first(rest) {
            let raw = &rest[..rest.len() - after.len()];
            rest = after;
            match option {
                TcpOption::EndOfList => break,
                option if !keep(&option) => continue,
                option => {
                    buf.bytes[buf.used..buf.used + raw.len()].copy_from_slice(raw);
                    buf.used += raw.len();
                    if option != TcpOption::Nop {
                        end = buf.used;
                    }
                }
            }
        }
        buf.used = end;
        buf
    }

    /// Appends bytes that are whole options (kind, length, data).
    ///
    /// # Errors
    /// [`NoRoom`] where the area would exceed 40 bytes; nothing is appended then.
    pub fn push_raw(&mut self, options: &[u8]) -> Result<(), NoRoom> {
        if options.len() > self.room() {
            return Err(NoRoom);
        }
        self.bytes[self.used..self.used + options.len()].copy_from_slice(options);
        self.used += options.len();
        Ok(())
    }

    /// Appends an experimental option of kind 253 (RFC 6994): 4 bytes and the data.
    ///
    /// # Errors
    /// [`NoRoom`] where the area would exceed 40 bytes; nothing is appended then.
    pub fn push_experiment(&mut self, id: u16, data: &[u8]) -> Result<(), NoRoom> {
        if data.len() + 4 > self.room() {
            return Err(NoRoom);
        }
        let len = u8::try_from(data.len() + 4).map_err(|_| NoRoom)?;
        let [a, b] = id.to_be_bytes();
        self.push_raw(&[kind::EXPERIMENT_1, len, a, b])?;
        self.push_raw(data)
    }

    /// Appends a timestamps option: 10 bytes.
    ///
    /// # Errors
    /// [`NoRoom`] where the area would exceed 40 bytes; nothing is appended then.
    pub fn push_timestamps(&mut self, timestamps: Timestamps) -> Result<(), NoRoom> {
        let mut option = [0; 10];
        timestamps.write(&mut option);
        self.push_raw(&option)
    }

    /// Appends a maximum segment size option: 4 bytes.
    ///
    /// # Errors
    /// [`NoRoom`] where the area would exceed 40 bytes; nothing is appended then.
    pub fn push_maximum_segment_size(&mut self, size: u16) -> Result<(), NoRoom> {
        let [a, b] = size.to_be_bytes();
        self.push_raw(&[kind::MAXIMUM_SEGMENT_SIZE, 4, a, b])
    }

    /// The same area less every experimental option (kind 253 or 254) with this ExID.
    #[must_use]
    pub fn without_experiment(&self, id: u16) -> Self {
        Self::filtered(
            &self.bytes[..self.used],
            |option| !matches!(option, TcpOption::Experiment { id: found, .. } if *found == id),
        )
    }

    /// Overwrites the first timestamps option in place; returns what it held, `None` where there is
    /// none.
    pub fn set_timestamps(&mut self, timestamps: Timestamps) -> Option<Timestamps> {
        let old = self.options().timestamps()?;
        let at = timestamps_at(&self.bytes[..self.used])?;
        timestamps.write(&mut self.bytes[at..]);
        Some(old)
    }

    /// Length of [`Self::as_slice`]: a multiple of 4, at most 40.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.used.next_multiple_of(4)
    }

    /// Whether there is no option.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// Bytes that may still be pushed.
    #[must_use]
    pub const fn room(&self) -> usize {
        MAX_OPTIONS_LEN - self.used
    }

    /// The area, padded.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.len()]
    }

    /// A view on the area.
    #[must_use]
    pub fn options(&self) -> TcpOptions<'_> {
        TcpOptions::validated(self.as_slice())
    }
}

impl Default for OptionsBuf {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const USUAL: [u8; 12] = [1, 1, 8, 10, 0, 0, 0, 5, 0, 0, 0, 6];

    #[test]
    fn what_is_added_can_be_removed() {
        for len in 0..=24 {
            let mut buf = OptionsBuf::from_bytes(&USUAL).expect("well formed");
            assert_eq!((buf.len(), buf.room()), (12, 28));
            buf.push_experiment(0x7a11, &vec![9; len]).expect("room");
            assert_eq!(buf.len(), (12 + 4 + len).next_multiple_of(4));
            assert_eq!(buf.options().experiment(0x7a11), Some(&vec![9; len][..]));
            let area = OptionsBuf::from_bytes(buf.as_slice()).expect("well formed");
            assert_eq!(area.without_experiment(0x7a12), area);
            assert_eq!(area.without_experiment(0x7a11).as_slice(), USUAL);
        }
    }

    #[test]
    fn a_full_area_refuses_and_stays_as_it_is() {
        let mut buf = OptionsBuf::from_bytes(&USUAL).expect("well formed");
        let before = buf;
        assert_eq!(buf.push_experiment(1, &[0; 25]), Err(NoRoom));
        assert_eq!(buf.push_raw(&[0; 29]), Err(NoRoom));
        assert_eq!(buf, before);
        buf.push_raw(&[77; 28]).expect("room");
        assert_eq!((buf.len(), buf.room()), (40, 0));
        assert_eq!(
            OptionsBuf::from_bytes(&[1; 44]),
            Err(PacketError::OptionsLength)
        );
    }

    #[test]
    fn options_are_pushed_one_behind_the_other() {
        let mut buf = OptionsBuf::new();
        assert!(buf.is_empty());
        buf.push_maximum_segment_size(1460).expect("room");
        buf.push_timestamps(Timestamps { value: 1, echo: 2 })
            .expect("room");
        assert!(!buf.is_empty());
        assert_eq!(
            buf.as_slice(),
            [2, 4, 5, 0xb4, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2, 1, 1]
        );
        buf.push_raw(&[1; 24]).expect("room");
        assert_eq!(buf.push_maximum_segment_size(1460), Err(NoRoom));
        assert_eq!(buf.push_timestamps(Timestamps::default()), Err(NoRoom));
    }

    #[test]
    fn timestamps_are_set_in_place() {
        let mut buf = OptionsBuf::from_bytes(&USUAL).expect("well formed");
        let old = buf.set_timestamps(Timestamps { value: 7, echo: 8 });
        assert_eq!(old, Some(Timestamps { value: 5, echo: 6 }));
        assert_eq!(buf.as_slice(), [1, 1, 8, 10, 0, 0, 0, 7, 0, 0, 0, 8]);
        assert_eq!(
            OptionsBuf::new().set_timestamps(Timestamps::default()),
            None
        );
    }

    #[test]
    fn an_end_of_list_becomes_padding() {
        let buf = OptionsBuf::from_bytes(&[3, 3, 7, 0]).expect("well formed");
        assert_eq!(buf.as_slice(), [3, 3, 7, 1]);
        let buf = OptionsBuf::from_bytes(&[3, 3, 7, 0, 99, 99, 99, 99]).expect("well formed");
        assert_eq!(buf.as_slice(), [3, 3, 7, 1]);
        assert!(
            OptionsBuf::from_bytes(&[0, 0, 0, 0])
                .expect("well formed")
                .is_empty()
        );
    }
}
