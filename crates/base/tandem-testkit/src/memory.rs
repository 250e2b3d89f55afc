//! Searches bytes, and the memory of a process, for secrets: either half of one, as it is or in
//! hexadecimal digits.
//!
//! Is not: a search for what was derived from them.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;

/// Bytes that are read at a time.
const PIECE: usize = 1 << 20;

/// Bytes of a page.
const PAGE: usize = 1 << 12;

/// What is looked for.
#[derive(Debug)]
pub struct Patterns {
    patterns: Vec<Vec<u8>>,
    /// Which first two bytes a pattern has: most places are passed over by it.
    begins: Vec<bool>,
}

impl Patterns {
    /// Of these secrets, each of 8 bytes at least.
    #[must_use]
    pub fn of(secrets: &[Vec<u8>]) -> Self {
        let halves = secrets
            .iter()
            .flat_map(|secret| secret.chunks(secret.len() / 2));
        let patterns: Vec<Vec<u8>> = halves
            .flat_map(|half| {
                let digits: String = half.iter().map(|byte| format!("{byte:02x}")).collect();
                let upper = digits.to_ascii_uppercase();
                [half.to_vec(), digits.into_bytes(), upper.into_bytes()]
            })
            .collect();
        let mut begins = vec![false; 1 << 16];
        for pattern in &patterns {
            begins[begin(pattern[0], pattern[1])] = true;
        }
        Self { patterns, begins }
    }

    /// Whether one of them is in these bytes.
    #[must_use]
    pub fn are_in(&self, bytes: &[u8]) -> bool {
        let mut at = 0;
        while at + 1 < bytes.len() {
            let (one, two) = (bytes[at], bytes[at + 1]);
            // Most memory is empty. A pattern may begin with the last zeros of a page.
            if at % PAGE == 0 && bytes[at..].starts_with(&[0; PAGE]) {
                at += PAGE - 64;
                continue;
            }
            let begins_here = |pattern: &Vec<u8>| bytes[at..].starts_with(pattern);
            if self.begins[begin(one, two)] && self.patterns.iter().any(begins_here) {
                return true;
            }
            at += 1;
        }
        false
    }

    /// Whether one of them is in the memory that this process can write to.
    ///
    /// # Panics
    /// If none of it can be read.
    #[must_use]
    #[track_caller]
    pub fn are_in_process(&self, pid: u32) -> bool {
        let maps = fs::read_to_string(format!("/proc/{pid}/maps")).expect("it runs");
        let memory = File::open(format!("/proc/{pid}/mem")).expect("it is ours");
        let longest = self.patterns.iter().map(Vec::len).max().unwrap_or_default();
        let (mut piece, mut read) = (vec![0; PIECE + longest], 0);
        for line in maps.lines() {
            let mut words = line.split_ascii_whitespace();
            let (range, rights) = (
                words.next().expect("a range"),
                words.next().expect("rights"),
            );
            let (start, end) = range.split_once('-').expect("two addresses");
            let [start, end] = [start, end].map(|it| u64::from_str_radix(it, 16).expect("digits"));
            if !rights.starts_with("rw") {
                continue;
            }
            for at in (start..end).step_by(PIECE) {
                // What cannot be read is no memory of the process's own.
                let wanted = usize::try_from(end - at)
                    .unwrap_or(piece.len())
                    .min(piece.len());
                let Ok(len) = memory.read_at(&mut piece[..wanted], at) else {
                    continue;
                };
                read += len;
                if self.are_in(&piece[..len]) {
                    return true;
                }
            }
        }
        assert!(read > 0, "nothing of process {pid} could be read");
        false
    }
}

fn begin(one: u8, two: u8) -> usize {
    usize::from(u16::from_be_bytes([one, two]))
}
