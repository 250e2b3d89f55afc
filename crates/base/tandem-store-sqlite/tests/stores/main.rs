//! The store on disk: the same as in memory, and what disks, other processes and old versions do to
//! it.

mod support;

mod access;
mod admin;
mod carried_over;
mod damaged;
mod disks;
mod lasting;
mod same_as_memory;
mod schemas;
mod web_chains;
