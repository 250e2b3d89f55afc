//! The same over the wire format of the authors' prototype (`docs/mctls12.md`, "The prototype's
//! wire format"): client, server and middlebox. **It is weaker still.**
//!
//! Is not: certificates of the prototype's own authority, which have no names as X.509 has them
//! today: whoever tries it issues certificates with RSA keys, and names in them.

mod auth;
mod endpoint;
mod middlebox;

use mctls12_prototype::Entropy;

pub use auth::{Nameless, identity};
pub use endpoint::{Session, accept, connect};
pub use mctls12_prototype::auth::{Identity, Party, Verify};
pub use mctls12_prototype::endpoint::Decide;
pub use middlebox::serve;

use crate::error::Error;
use crate::line::seed;

/// Random bytes for one session.
fn entropy() -> Result<Entropy, Error> {
    Ok(Entropy::new(&*seed()?))
}
