//! The secrets that a server logs (SSLKEYLOGFILE), as it logs them: through a pipe with a name, so
//! that nobody has to look again and again.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

/// A program that has not logged by then never will.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct KeyLog {
    lines: Receiver<String>,
    known: HashMap<String, (Vec<u8>, Vec<u8>)>,
}

impl KeyLog {
    /// That of one connection, read from here on. Whoever writes waits for this.
    pub(crate) fn of(pipe: &Path) -> Self {
        let (sender, lines) = mpsc::channel();
        let pipe = pipe.to_owned();
        std::thread::spawn(move || {
            let pipe = File::open(&pipe).expect("a pipe");
            for line in BufReader::new(pipe).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Self {
            lines,
            known: HashMap::new(),
        }
    }

    /// The client's random and the secret of this label.
    pub(crate) fn wait_for(&mut self, label: &str) -> (Vec<u8>, Vec<u8>) {
        while !self.known.contains_key(label) {
            let line = self
                .lines
                .recv_timeout(PATIENCE)
                .unwrap_or_else(|_| panic!("{label} is logged"));
            if let [label, random, secret] = line.split(' ').collect::<Vec<_>>()[..] {
                self.known
                    .insert(label.to_owned(), (bytes(random), bytes(secret)));
            }
        }
        self.known[label].clone()
    }
}

fn bytes(hexadecimal: &str) -> Vec<u8> {
    hexadecimal
        .as_bytes()
        .chunks(2)
        .map(|pair| {
            let pair = std::str::from_utf8(pair).expect("ASCII");
            u8::from_str_radix(pair, 16).expect("hexadecimal")
        })
        .collect()
}
