//! TLS as far as it is in clear: records, handshake messages, hellos, certificate lists and
//! staples, of SSL 3.0 to TLS 1.3 and its drafts; and what others have opened of TLS 1.3.
//!
//! It is not a TLS stack: nothing is decrypted, no state machine is enforced beyond "where does the
//! clear part end". The SSL 2.0 record format is recognised and refused.
//!
//! Every file here has the same anatomy: limits, view (validated once, then infallible), owned form
//! where one is needed, writer, tests. A view written again is the same bytes.

pub mod certificate;
mod certificate_entries;
pub mod client_hello;
pub mod extension;
pub mod handshake;
mod reader;
pub mod record;
pub mod server_hello;
pub mod stream;
mod version;
mod writer;

pub use certificate::{CertificateList, CertificateStatus};
pub use certificate_entries::CertificateEntry;
pub use client_hello::{ClientHello, ClientHelloRepr};
pub use extension::{Extension, ExtensionType, Extensions};
pub use handshake::HandshakeType;
pub use record::{ContentType, Record, RecordHeader, Records};
pub use server_hello::{ServerHello, ServerHelloRepr};
pub use stream::{HandshakeScan, HandshakeScanner, MessageSpan, ScanEnd};
pub use version::ProtocolVersion;
