//! A server's flight of TLS 1.3 whose handshake key was released: opened at the server side, and
//! sealed again at the client side.
//!
//! ```text
//! server side   ServerHello [CCS] | records        --opening-->  ServerHello [CCS] | messages
//! client side   ServerHello [CCS] | messages       --message-->  ServerHello [CCS] | records
//! ```
//!
//! The second form, [`Opened`], has the shape of a flight in clear, and crosses like one: as a
//! delta against what the far side holds. Beside it cross key, IV and layout. Where it is the
//! client that has released the key, what is in clear crosses first, and the key comes from there.
//!
//! Where the server asks for a certificate, the client's flight after it crosses the same way, if
//! its key is there: opened at the client side, and sealed again at the server side.
//!
//! Is: the keys that wait for their connection (`keys`), and for which keys a connection waits
//! (`late`), whether a client's key is worth asking for (`offer`) and what the client's answer adds
//! to that (`answers`), the opening (`opening`), what is waited for behind a HelloRetryRequest
//! (`retry`), what is told of the flight (`message`), and when it is vouched for, and what becomes
//! of the client's (`crossed`). Is not: record protection (`tandem-seal`), nor the delta.
//!
//! Invariants: whatever is in doubt is not opened, and its records pass as they are; no rebuilt
//! byte leaves unless all of them have the digest of what the endpoint sent. So whatever a key
//! seals here, only what the endpoint itself has sealed with it leaves.

mod answers;
mod crossed;
mod keys;
mod late;
mod message;
mod offer;
mod opened;
mod opening;
mod retry;
mod server_hello;

pub(crate) use answers::{AnswerRead, AnswerReader, Answers};
pub(crate) use crossed::{ClientStep, Crossed};
pub(crate) use keys::{Randoms, ReleasedKeys, Sought};
pub(crate) use late::{Awaited, KeyClient, LateKeys, MAX_CLIENT_WAIT, MAX_WAIT, Wait};
pub(crate) use message::{SealedMessage, read_key, write_key};
pub use offer::KeyOffer;
pub(crate) use opened::{Opened, clear_len};
pub(crate) use opening::{Opening, Place, Progress, Unsealed};
pub(crate) use retry::{Behind, Retry};
pub(crate) use server_hello::ServerHelloRecord;
