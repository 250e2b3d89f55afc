//! Handshake messages put together from the fragments of handshake records.
//!
//! ```text
//! | type 1 | length 3 | body |     many in one record, or one over many records
//! ```
//!
//! Not a record reader: it gets fragments in order. Invariant: it holds at most the limit given; a
//! message that says it is longer is refused before its bytes are held.
//!
//! RFC 5246, section 7.4.

/// Bytes of type and length.
const HEADER_LEN: usize = 4;

/// A message announces more bytes than are held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooLong;

/// The part of a message that came so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Messages {
    buffer: Vec<u8>,
}

impl Messages {
    /// Bytes held.
    pub(crate) fn held(&self) -> usize {
        self.buffer.len()
    }

    /// Takes a fragment, and gives each message that is whole now to `each`: type, body.
    pub(crate) fn push(
        &mut self,
        fragment: &[u8],
        limit: usize,
        mut each: impl FnMut(u8, &[u8]),
    ) -> Result<(), TooLong> {
        if self.buffer.is_empty() {
            // The common case: whole messages in one record. Nothing is copied.
            let rest = drain(fragment, limit, &mut each)?;
            self.buffer.extend_from_slice(rest);
        } else {
            self.buffer.extend_from_slice(fragment);
            let rest = drain(&self.buffer, limit, &mut each)?.len();
            let taken = self.buffer.len() - rest;
            self.buffer.drain(..taken);
        }
        Ok(())
    }
}

/// Gives whole messages away; what is left starts a message that is not whole.
fn drain<'a>(
    mut bytes: &'a [u8],
    limit: usize,
    each: &mut impl FnMut(u8, &[u8]),
) -> Result<&'a [u8], TooLong> {
    while let Some(&[message_type, high, middle, low]) = bytes.first_chunk::<HEADER_LEN>() {
        let len = u32::from_be_bytes([0, high, middle, low]) as usize;
        if len > limit {
            return Err(TooLong);
        }
        let Some(body) = bytes.get(HEADER_LEN..HEADER_LEN + len) else {
            break;
        };
        each(message_type, body);
        bytes = bytes.get(HEADER_LEN + len..).unwrap_or_default();
    }
    Ok(bytes)
}

/// Bytes of a message with its header.
pub(crate) fn whole_len(body: &[u8]) -> usize {
    HEADER_LEN + body.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(fragments: &[&[u8]], limit: usize) -> (Vec<(u8, Vec<u8>)>, usize, bool) {
        let (mut messages, mut found) = (Messages::default(), Vec::new());
        let refused = fragments.iter().any(|fragment| {
            messages
                .push(fragment, limit, |kind, body| {
                    found.push((kind, body.to_vec()))
                })
                .is_err()
        });
        (found, messages.held(), refused)
    }

    #[test]
    fn messages_come_out_however_they_are_cut() {
        let stream = [1, 0, 0, 2, 8, 9, 14, 0, 0, 0, 11, 0, 0, 3, 1, 2, 3, 4, 0, 0];
        let expected = (
            vec![(1, vec![8, 9]), (14, vec![]), (11, vec![1, 2, 3])],
            3,
            false,
        );
        for step in 1..=stream.len() {
            let fragments: Vec<&[u8]> = stream.chunks(step).collect();
            assert_eq!(all(&fragments, 10), expected, "step {step}");
        }
    }

    #[test]
    fn a_message_longer_than_the_limit_is_refused_before_it_is_held() {
        let (found, held, refused) = all(&[&[14, 0, 0, 0, 11, 0], &[0, 11]], 10);
        assert_eq!(found, [(14, vec![])]);
        assert!(refused && held <= 8);
    }
}
