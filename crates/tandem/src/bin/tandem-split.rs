//! `tandem-split`: what `tandem split` starts, so that a proxy's program carries nothing of it.
//!
//! Is not: anything else than its start; see the library beside it.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    tandem::splitting()
}
