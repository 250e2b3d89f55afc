//! tandem-dht: who of a site's volunteers has a payload, by libp2p's Kademlia: the distributed hash
//! table of the thesis's section 4.3.
//!
//! ```text
//!   volunteer --holders(digest)--> Kademlia --get_providers--> members --> those of them who have said that they have it
//!             --holds(digest)----> Kademlia --provider record--> the members closest to the digest
//! ```
//!
//! Is: another answer to the question that [`Directory`] asks, beside placement. Is not: a network
//! of its own: members of the site's list are the only nodes, each under the key that the list has
//! for it; nor a way for payloads, which go over the volunteers' channels.
//!
//! Invariants: who is no member is not spoken to, and a provider who is none is not named; tables,
//! questions and announcements are bounded; whatever goes wrong here costs time that whoever asks
//! has bounded.
//!
//! Specification: Maymounkov and Mazieres, "Kademlia", 2002; libp2p's kad-dht, under a protocol
//! name of its own.

mod announced;
mod identity;
mod node;
mod task;

pub use node::Kademlia;
#[cfg(doc)]
use tandem_split_io::volunteer::Directory;
