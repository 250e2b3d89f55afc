//! tandem-split-io: SSL splitting's adapter to the world: the origin and the volunteer, with their
//! sockets, files and tasks.
//!
//! Is not: the messages between the two, nor how a record is put together from them.
//!
//! Invariants: the origin's key never leaves it, nor any key that authenticates; what a volunteer
//! serves, a client's own TLS checks.
//!
//! # A site in your own program
//!
//! [`origin::Origin`] serves what a server of HTTP/1.1 answers, or what a service in the same
//! process does: one of hyper 1, or of tower (axum) by `hyper_util::service::TowerToHyperService`.
//! It needs a certificate (RSA, for exactly one host) and a port to which volunteers come.
//!
//! ```no_run
//! use http_body_util::Full;
//! use hyper::body::Bytes;
//! use hyper::service::service_fn;
//! use hyper::{Request, Response};
//! use tandem_split_io::origin::{Origin, RequestBody, Resumption, Settings, Upstream};
//!
//! async fn answer(_: Request<RequestBody>) -> Result<Response<Full<Bytes>>, std::io::Error> {
//!     Ok(Response::new(Full::from("hello\n")))
//! }
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let origin = Origin::bind(Settings {
//!     listen: "0.0.0.0:7443".parse()?,
//!     upstream: Upstream::service(service_fn(answer)),
//!     certificate: "site.pem".into(),
//!     key: "site.key".into(),
//!     channel_key: None,
//!     admitted: None,
//!     resumption: Resumption::Offered,
//! })
//! .await?;
//! println!("tandem split volunteer --origin HERE:7443 --origin-key {}", origin.key());
//! origin.serve().await;
//! # Ok(())
//! # }
//! ```
//!
//! Who sends clients to volunteers by DNS has to keep them from certificates for the name: look
//! at it by `tandem_broker_dns::check` before [`origin::Origin::serve`], as `tandem split origin`
//! does.
//!
//! Everything that such a service answers is public: volunteers read it. Cookie and Authorization
//! never reach it; an answer that sets a cookie, or says `private` or `no-store`, becomes a 403.
//! What does not change is sent to volunteers once: it is known by its digest, not by its URL,
//! so that no header of a cache is needed. `examples/in_process.rs` is a whole program;
//! [`origin::Origin::watch`] tells it what is served. With [`origin::Resumption::Off`] no ticket
//! tells volunteers that a client has come before.

pub mod error;
#[doc(hidden)]
pub mod fuzzing;
mod greet;
pub mod origin;
mod places;
pub mod tls;
pub mod volunteer;

pub use error::SplitIoError;
pub use greet::SPLIT;
