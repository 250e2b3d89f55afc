//! `libtandem_openssl_provider.so`: lets programs on OpenSSL 3 (nginx, Apache, HAProxy) use private
//! keys of a key server, unmodified.
//!
//! Is: a provider, loaded by `openssl.cnf` beside the default one. OpenSSL hands a provider the
//! whole message that is to be signed, so the key server can tell what it signs; an engine or
//! PKCS #11 would give it a digest. Is not: a provider of anything else; what is no key of a key
//! server stays with the default provider. It links no library of OpenSSL.
//!
//! ```text
//! nginx --> libssl --EVP_DigestSign--> libcrypto --> | provider: message, scheme | --> key server
//! ```
//!
//! Invariants:
//! - A key file is read, and refused where it is wrong, before a server forks. Connections are made
//!   with the first signature, by the process that signs.
//! - A message that is not one of a TLS handshake is not sent.
//! - Nothing panics across the C boundary: a function has a `guard`, or cannot panic. `unsafe` is
//!   in `abi`, `entry`, `key`, `decoder` and `signature`, which move values between C and the rest.
//!
//! In words: `docs/keyserver.md`, `docs/adr/0041-openssl-provider.md`.

mod abi;
mod choice;
mod decoder;
mod entry;
#[doc(hidden)]
pub mod fuzzing;
mod guard;
mod key;
mod key_file;
mod provider;
mod public_key;
mod signature;
