//! What must hold for whatever heads an origin reads, and for a body in chunks.
//!
//! Is not: a second reader of them. What is looked for is looked for in its plain spelling alone.

mod request;
mod response;

pub use request::origin_request;
pub use response::origin_response;

/// The site of the origin that reads.
const HOST: &str = "split.test";
