//! Valkey's and Redis's protocol, version 2: commands out, replies in
//! (<https://valkey.io/topics/protocol/>).
//!
//! ```text
//!   command:  *COUNT\r\n  then for each word  $LENGTH\r\n WORD \r\n
//!   reply:    +TEXT\r\n | -ERROR\r\n | :NUMBER\r\n | $LENGTH\r\n BYTES \r\n | *COUNT\r\n REPLIES
//!             $-1\r\n and *-1\r\n: nothing
//! ```
//!
//! Is not: a connection. Invariants: replies are read as bytes of a stranger: a line, a string, a
//! list and all of a reply have bounds, nothing is taken on the word of a length, and a list has no
//! list in it.

use std::io::{self, BufRead, Read as _};

/// The longest line: errors say what is wrong in some hundred bytes.
const MAX_LINE: usize = 1_024;

/// The longest string: a note, sealed.
pub(crate) const MAX_STRING: usize = 36 << 10;

/// Most strings of a list, as many as are asked for.
pub(crate) const MAX_LIST: usize = 64;

/// A reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reply {
    /// It is done.
    Done,
    /// It is not, for this reason.
    Refused(String),
    /// These; what is not a string is left out.
    List(Vec<Vec<u8>>),
}

/// Adds a command to what is to be sent.
pub(crate) fn write(out: &mut Vec<u8>, words: &[&[u8]]) {
    out.extend(format!("*{}\r\n", words.len()).into_bytes());
    for word in words {
        out.extend(format!("${}\r\n", word.len()).into_bytes());
        out.extend(*word);
        out.extend(b"\r\n");
    }
}

/// Reads a reply.
///
/// # Errors
/// The connection fails, or what comes is no reply within the bounds.
pub(crate) fn read(from: &mut impl BufRead) -> io::Result<Reply> {
    match item(from)? {
        Item::Other | Item::String(_) => Ok(Reply::Done),
        Item::Error(why) => Ok(Reply::Refused(why)),
        Item::List(count) => {
            let mut list = Vec::new();
            for _ in 0..count {
                match item(from)? {
                    Item::String(bytes) => list.push(bytes),
                    Item::Other | Item::Error(_) => {}
                    Item::List(_) => return Err(malformed()),
                }
            }
            Ok(Reply::List(list))
        }
    }
}

enum Item {
    Other,
    Error(String),
    String(Vec<u8>),
    List(usize),
}

fn item(from: &mut impl BufRead) -> io::Result<Item> {
    let line = line(from)?;
    let (kind, rest) = line.split_first().ok_or_else(malformed)?;
    match kind {
        b'+' | b':' => Ok(Item::Other),
        b'-' => Ok(Item::Error(readable(rest))),
        b'$' => match length(rest, MAX_STRING)? {
            None => Ok(Item::Other),
            Some(length) => string(from, length).map(Item::String),
        },
        b'*' => match length(rest, MAX_LIST)? {
            None => Ok(Item::Other),
            Some(count) => Ok(Item::List(count)),
        },
        _ => Err(malformed()),
    }
}

/// Without its end.
fn line(from: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    let bounded = u64::try_from(MAX_LINE).unwrap_or(u64::MAX);
    from.by_ref().take(bounded).read_until(b'\n', &mut line)?;
    match line.strip_suffix(b"\r\n") {
        Some(line) => Ok(line.to_vec()),
        None if line.len() < MAX_LINE && !line.ends_with(b"\n") => {
            Err(io::ErrorKind::UnexpectedEof.into())
        }
        None => Err(malformed()),
    }
}

/// `None`: there is nothing.
fn length(text: &[u8], max: usize) -> io::Result<Option<usize>> {
    if text == b"-1" {
        return Ok(None);
    }
    let is_number = (1..=9).contains(&text.len()) && text.iter().all(u8::is_ascii_digit);
    let number = std::str::from_utf8(text).ok().filter(|_| is_number);
    let number = number.and_then(|text| text.parse().ok());
    number
        .filter(|number| *number <= max)
        .map(Some)
        .ok_or_else(malformed)
}

fn string(from: &mut impl BufRead, length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; length + 2];
    from.read_exact(&mut bytes)?;
    match bytes.ends_with(b"\r\n") {
        true => {
            bytes.truncate(length);
            Ok(bytes)
        }
        false => Err(malformed()),
    }
}

/// What may stand in a log.
fn readable(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    // What follows repeats the command, and a login is one.
    let text = text.split(", with args").next().unwrap_or_default();
    let shown = text.chars().filter(|c| !c.is_control());
    shown.take(120).collect()
}

fn malformed() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        "what answers is no Valkey or Redis server, or sends more than was asked for",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_does_not_repeat_a_password() {
        let refused = b"ERR unknown command 'AUTH', with args beginning with: 'tandem' 'secret' ";
        assert_eq!(readable(refused), "ERR unknown command 'AUTH'");
    }

    fn reply(bytes: &[u8]) -> io::Result<Reply> {
        let mut left = bytes;
        let reply = read(&mut left)?;
        assert!(left.is_empty(), "{left:?}");
        Ok(reply)
    }

    #[test]
    fn a_command_is_counted_words() {
        let mut out = Vec::new();
        write(&mut out, &[b"LPUSH", b"key", b"\0\r\n"]);
        assert_eq!(out, b"*3\r\n$5\r\nLPUSH\r\n$3\r\nkey\r\n$3\r\n\0\r\n\r\n");
    }

    #[test]
    fn replies_are_read() {
        let list = |items: &[&[u8]]| Reply::List(items.iter().map(|it| it.to_vec()).collect());
        for (bytes, expected) in [
            (&b"+OK\r\n"[..], Reply::Done),
            (b":12\r\n", Reply::Done),
            (b"$-1\r\n", Reply::Done),
            (b"*-1\r\n", Reply::Done),
            (b"$2\r\nab\r\n", Reply::Done),
            (
                b"-OOM no\x07 room\r\n",
                Reply::Refused("OOM no room".to_owned()),
            ),
            (b"*0\r\n", list(&[])),
            (b"*2\r\n$1\r\na\r\n$2\r\n\r\n\r\n", list(&[b"a", b"\r\n"])),
            (b"*3\r\n:1\r\n$-1\r\n$1\r\nb\r\n", list(&[b"b"])),
        ] {
            assert_eq!(reply(bytes).expect("a reply"), expected, "{bytes:?}");
        }
    }

    #[test]
    fn what_is_cut_off_or_beyond_the_bounds_is_no_reply() {
        let eof = io::ErrorKind::UnexpectedEof;
        let kind = |bytes: &[u8]| reply(bytes).expect_err("no reply").kind();
        for bytes in [
            &b""[..],
            b"+OK",
            b"$3\r\nab",
            b"*1\r\n",
            b"*2\r\n$1\r\na\r\n",
        ] {
            assert_eq!(kind(bytes), eof, "{bytes:?}");
        }
        let long_line = [b"+", &[b'a'; 2_000][..], b"\r\n"].concat();
        for bytes in [
            &b"\r\n"[..],
            b"+OK\n",
            b"?\r\n",
            b"HTTP/1.1 400 Bad Request\r\n",
            b"$+1\r\na\r\n",
            b"$ 1\r\na\r\n",
            b"$-2\r\n",
            b"$\r\n",
            b"$99999999999\r\n",
            b"$40000\r\n",
            b"*65\r\n",
            b"$1\r\nabc\r\n",
            b"*1\r\n*1\r\n$1\r\na\r\n",
            &long_line,
        ] {
            assert_eq!(kind(bytes), io::ErrorKind::InvalidData, "{bytes:?}");
        }
    }
}
