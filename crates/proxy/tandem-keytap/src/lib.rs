//! `libtandem_keytap.so`: loaded into an unmodified program that uses OpenSSL, it announces the
//! client certificate (CII), and releases handshake keys of TLS 1.3 to the program's own proxy.
//!
//! Is: the client's part of McVeety's certificate intention indication (thesis of 2009, sections
//! 2.4.2 and 3.2.5.1) for every program that finds OpenSSL 1.1.1 or 3.x as a shared library, by
//! `LD_PRELOAD` and without being rebuilt. Is not: a TLS stack, a proxy, or needed by either; the
//! server ignores the extension, and so does everything else where no proxy is on the way.
//!
//! ```text
//! CII   extension 0x009a of the ClientHello: reference{1..32}, 16 bytes each, nothing before, between or after them
//!         reference = the first 16 bytes of SHA-256 over a certificate's DER
//!         one for each certificate of the client's Certificate message, in its order: the client's own first
//! ```
//!
//! That is the layout of the thesis's other lists of references (CPI, possession answer). The
//! extension is part of the transcript: proxies read it and leave it as it is.
//!
//! Invariants:
//! - No key leaves unless the environment names a socket; no secret does at all (`release`).
//! - The program behaves as without it, but for that extension. What is announced is what OpenSSL
//!   would send at that moment; where that cannot be found out, nothing is.
//! - No dependency on OpenSSL: in a program without it nothing happens, and it may come in later
//!   (`dlopen`).
//! - Nothing happens in a process that runs with somebody else's rights (`AT_SECURE`).
//! - No panic leaves it, no thread of the program is cancelled within its work, and it writes
//!   nothing unless `TANDEM_KEYTAP_LOG` asks for it.
//! - It exports what it interposes and nothing else.
//!
//! Unsafe code is what the ABIs ask for: OpenSSL's (`openssl`, `originals`, `key_log`, `library`,
//! `interpose`), the dynamic linker's (`loader`) and the C library's (`quietly`,
//! `system`). What can be decided without it is decided in the other files.

mod announcement;
mod interpose;
mod key_log;
mod library;
mod loader;
mod lock;
mod openssl;
mod originals;
mod quietly;
mod release;
mod settings;
mod system;
