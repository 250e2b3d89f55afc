//! The lab with real programs and the real kernel, in network namespaces: its link, its trials, its
//! experiments.

#[path = "../common/mod.rs"]
mod common;

mod dissector;
mod experiment;
mod interop;
mod lane;
mod link;
mod situations;
mod soak;
mod standing;
mod survive;
mod visits;
