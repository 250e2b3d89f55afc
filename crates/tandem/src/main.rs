//! `tandem`: the program that an operator installs.
//!
//! Is not: anything else than its start; see the library beside it.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    tandem::proxies()
}
