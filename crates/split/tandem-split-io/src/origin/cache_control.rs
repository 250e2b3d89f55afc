//! What a response's Cache-Control says: may anybody have it? (RFC 9111, 5.2)
//!
//! Is not: how long it may be kept. The origin keeps nothing by it.
//!
//! Invariants: what is not well-formed, or has `private` or `no-store` anywhere, in whatever
//! spelling, counts as private: other programs may read it so.

/// Whether a line lets anybody have the response.
pub(super) fn is_public(line: &[u8]) -> bool {
    line.is_ascii() && is_list(line) && !is_withheld(line)
}

/// Whether a word stands in it that keeps the response from caches, whatever stands between its
/// letters: quotes, `\`, `_`.
fn is_withheld(line: &[u8]) -> bool {
    let letters: Vec<u8> = line
        .iter()
        .filter(|byte| byte.is_ascii_alphanumeric())
        .map(|byte| byte.to_ascii_lowercase())
        .collect();
    let contains = |word: &[u8]| letters.windows(word.len()).any(|part| part == word);
    contains(b"private") || contains(b"nostore")
}

/// Whether it is a list of directives: each a token, or a token, `=`, and a token or a quoted
/// string. One with a quote escaped in it is none: that is in doubt.
fn is_list(line: &[u8]) -> bool {
    let mut rest = line.trim_ascii_start();
    loop {
        let (name, after) = split_token(rest);
        rest = match after.strip_prefix(b"=") {
            Some(argument) if !name.is_empty() => match after_argument(argument) {
                Some(after) => after,
                None => return false,
            },
            Some(_) | None => after,
        };
        // Elements may be empty (RFC 9110, 5.6.1.2).
        match rest.trim_ascii_start().split_first() {
            None => return true,
            Some((b',', after)) => rest = after.trim_ascii_start(),
            Some(_) => return false,
        }
    }
}

/// What follows a directive's argument, if it is one.
fn after_argument(bytes: &[u8]) -> Option<&[u8]> {
    match bytes.strip_prefix(b"\"") {
        Some(quoted) => {
            let end = quoted.iter().position(|byte| *byte == b'"')?;
            Some(&quoted[end + 1..])
        }
        None => {
            let (token, after) = split_token(bytes);
            (!token.is_empty()).then_some(after)
        }
    }
}

/// The token at the front, which may be empty, and the rest (RFC 9110, 5.6.2).
fn split_token(bytes: &[u8]) -> (&[u8], &[u8]) {
    let len = bytes.iter().take_while(|byte| is_in_token(**byte)).count();
    bytes.split_at(len)
}

fn is_in_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn well_formed_directives_of_any_name_are_public() {
        for line in [
            "",
            "public",
            "max-age=60, public",
            "\tmax-age=60\t,\tpublic ",
            "Max-Age=\"60\",s-maxage=60",
            "no-cache",
            "no-cache=\"Set-Cookie, ETag\", must-revalidate",
            ", public,, immutable,",
            "community=\"UCI\"",
        ] {
            assert!(is_public(line.as_bytes()), "{line:?}");
        }
    }

    #[test]
    fn what_says_that_it_is_private_or_may_say_so_is() {
        for line in [
            "private",
            "max-age=60,Private",
            "NO-STORE",
            "private=\"x\"",
            "no-store=1",
            "\"private\"",
            "'private'",
            "max-age=60, \"no-store\"",
            "max-age=\"private\"",
            "max-age=private",
            "public=\"a, private, b\"",
            "public=\"pri\\vate\"",
            "public=\"a\\\", private\"",
            "public private",
            "public\tprivate",
            "public\t,\tprivate",
            "max-age=1;private",
            "max-age=1; private",
            "private;",
            "private:",
            "private =x",
            "=private",
            "no_store",
            "no store",
            "nostore",
            "max-age=60, no-store=\"",
        ] {
            assert!(!is_public(line.as_bytes()), "{line:?}");
        }
        assert!(!is_public(b"public, pri\xc2\xadvate"));
    }

    #[test]
    fn what_is_not_well_formed_is_private_whatever_it_says() {
        for line in [
            "public max-age=60",
            "max-age=60; public",
            "max-age = 60",
            "max-age=",
            "=60",
            "\"public\"",
            "public=\"",
            "public=\"a\"b",
            "public=\"a\\\"b\"",
            "public/1",
            "{}",
        ] {
            assert!(!is_public(line.as_bytes()), "{line:?}");
        }
        assert!(!is_public(b"public=\"\xff\""));
    }
}
