//! What must hold of HMAC over a secret length: it is HMAC, and its compressions tell nothing.

use proptest::prelude::*;

use super::*;
use crate::seal::Keyed;
use crate::suite::MacHash;

/// A hash that counts its compressions.
struct Counted<B>(std::marker::PhantomData<B>);

#[derive(Clone)]
struct Count<S>(S, usize);

impl<S: Zeroize> Zeroize for Count<S> {
    fn zeroize(&mut self) {
        self.0.zeroize();
    }
}

impl<B: Blocks> Blocks for Counted<B> {
    type State = Count<B::State>;
    const BLOCK_LEN: usize = B::BLOCK_LEN;
    const DIGEST_LEN: usize = B::DIGEST_LEN;
    const LENGTH_LEN: usize = B::LENGTH_LEN;
    const START: Self::State = Count(B::START, 0);

    fn compress(state: &mut Self::State, blocks: &[u8]) {
        assert!(blocks.len().is_multiple_of(B::BLOCK_LEN));
        state.1 += blocks.len() / B::BLOCK_LEN;
        B::compress(&mut state.0, blocks);
    }

    fn digest(state: &Self::State) -> [u8; MAX_MAC_LEN] {
        B::digest(&state.0)
    }
}

/// For every secret length that a buffer of `longest` bytes may hide: the right MAC, by the same
/// number of compressions.
fn holds<B: Blocks>(hash: MacHash, longest: usize) {
    let bytes: Vec<u8> = (0..longest).map(|at| (at * 7) as u8).collect();
    let key = vec![0x5a; hash.digest_len()];
    let fixed = FixedHmac::<Counted<B>>::new(&key);
    let usual = Keyed::new(hash, &key);
    let header = [9; 13];
    let mut counts = Vec::new();
    for len in longest.saturating_sub(MAX_PADDING)..=longest {
        assert_eq!(
            fixed.mac(&header, &bytes, len),
            usual.mac(&[&header, &bytes[..len]]),
            "{len} of {longest}"
        );
        counts.push(fixed.inner(&header, &bytes, len).1.1);
    }
    counts.dedup();
    assert_eq!(counts.len(), 1, "{longest}: {counts:?}");
    // Enough for the longest, and none to spare.
    let needed = (13 + longest + 1 + B::LENGTH_LEN).div_ceil(B::BLOCK_LEN);
    assert_eq!(counts, [1 + needed]);
}

#[test]
fn the_number_of_compressions_tells_nothing_of_the_length() {
    // RFC 5246, section 6.2.3.2: "essentially the same amount of time whether or not the padding is
    // correct".
    for longest in (0..400).step_by(27).chain([1_500]) {
        holds::<Sha1Blocks>(MacHash::Sha1, longest);
        holds::<Sha256Blocks>(MacHash::Sha256, longest);
        holds::<Sha384Blocks>(MacHash::Sha384, longest);
    }
}

proptest! {
    #[test]
    fn it_is_hmac_for_any_key_and_message(
        key in proptest::collection::vec(any::<u8>(), 48),
        bytes in proptest::collection::vec(any::<u8>(), 0..600),
        shorter in 0..=MAX_PADDING,
    ) {
        let len = bytes.len().saturating_sub(shorter);
        let header = [3; 13];
        let parts: [&[u8]; 2] = [&header, &bytes[..len]];
        prop_assert_eq!(
            FixedHmac::<Sha1Blocks>::new(&key[..20]).mac(&header, &bytes, len),
            Keyed::new(MacHash::Sha1, &key[..20]).mac(&parts)
        );
        prop_assert_eq!(
            FixedHmac::<Sha256Blocks>::new(&key[..32]).mac(&header, &bytes, len),
            Keyed::new(MacHash::Sha256, &key[..32]).mac(&parts)
        );
        prop_assert_eq!(
            FixedHmac::<Sha384Blocks>::new(&key).mac(&header, &bytes, len),
            Keyed::new(MacHash::Sha384, &key).mac(&parts)
        );
    }
}
