//! A WAN optimiser: one of two middleboxes, one at each end of a slow link. What has crossed before
//! crosses as a reference, and the far one restores the very records.
//!
//! Is not: the short form itself ([`mctls::short`]), which the middlebox around this does; here are
//! its settings. Invariant: without a key and the name of the other it does not start.

use std::path::Path;

use mctls_io::PairSettings;
use zeroize::Zeroizing;

use crate::error::McError;
use crate::layout::FOUR;
use crate::settings::BoxSettings;

/// How much is held by default, in bytes.
const MEMORY: usize = 128 << 20;

/// Less would hold next to nothing.
const MIN_MEMORY: usize = 1 << 20;

/// The length of a key in bytes; its file has two digits for each.
const KEY_LEN: usize = 32;

pub(super) fn pair(settings: &BoxSettings) -> Result<PairSettings, McError> {
    let (Some(name), Some(file)) = (&settings.peer, &settings.pair_key) else {
        return Err(McError::config(
            "a WAN optimiser needs `peer = \"NAME\"`, the name of the other one, and `pair-key = \
             \"FILE\"`, the same for both: openssl rand -hex 32",
        ));
    };
    let memory = settings.memory.unwrap_or(MEMORY);
    if memory < MIN_MEMORY {
        return Err(McError::config("memory: at least 1048576 bytes"));
    }
    let purposes = match &settings.shorten[..] {
        [] => vec![FOUR[3].to_owned()],
        some => some.to_vec(),
    };
    Ok(PairSettings {
        name: name.clone(),
        key: read_key(file)?,
        purposes,
        memory,
    })
}

fn read_key(path: &Path) -> Result<[u8; KEY_LEN], McError> {
    let text = std::fs::read_to_string(path).map_err(McError::file(path))?;
    let text = Zeroizing::new(text);
    key(text.trim()).ok_or_else(|| {
        McError::content(
            path,
            "no key: 64 hexadecimal digits, as of openssl rand -hex 32",
        )
    })
}

fn key(digits: &str) -> Option<[u8; KEY_LEN]> {
    if digits.len() != 2 * KEY_LEN || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let mut key = [0; KEY_LEN];
    for (at, byte) in key.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).ok()?;
    }
    Some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_64_digits_and_nothing_else() {
        let digits = "0123456789abcdefABCDEF".repeat(3);
        let found = key(&digits[..64]).expect("a key");
        assert_eq!(found[..4], [0x01, 0x23, 0x45, 0x67]);
        for wrong in [
            "",
            &digits[..63],
            &digits[..66],
            &"+1".repeat(32),
            &"\u{e9}".repeat(32),
        ] {
            assert_eq!(key(wrong), None, "{wrong}");
        }
    }
}
