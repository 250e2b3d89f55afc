//! The native half of the Python package `mctls`: sessions of mctls13 that block, without the
//! interpreter's lock.
//!
//! Is not: the package's face, which is Python (`python/mctls`); the protocol (`crates/mctls`).

mod errors;
mod http;
mod session;
mod trust;

use pyo3::prelude::*;

/// The module `mctls._native`.
#[pymodule]
mod _native {
    #[pymodule_export]
    use crate::http::{Answer, request_head};
    #[pymodule_export]
    use crate::session::{Session, accept, connect};
    #[pymodule_export]
    use crate::trust::{Identity, Roots};
}
