//! What the tests of the program share: running it, hosts, servers, clients and pairs of proxies.
//!
//! Is not: a test. The folders beside this one are a test program each.

#![allow(
    dead_code,
    unused_imports,
    reason = "each test program uses a part of this"
)]

pub(crate) mod common;
pub(crate) mod real;
pub(crate) mod resolver;
pub(crate) mod split_site;
pub(crate) mod split_zone;
pub(crate) mod tunnel_net;
pub(crate) mod tunnel_pair;
