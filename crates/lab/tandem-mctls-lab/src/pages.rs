//! Web pages: sizes of their objects by a published distribution, in the order in which each
//! connection asks for them.
//!
//! Sizes are drawn from the percentiles that the paper gives for the objects of the 500 most
//! visited sites of 2015: 10 % up to 0.5 kB, 50 % up to 4.9 kB, 99 % up to 185 kB; between them by
//! straight lines in the logarithm, from 100 bytes on, to 1 MB at the end. The paper does not say
//! how many objects its pages have: here 10 to 100, in even steps of the logarithm, and six
//! connections, as browsers open to a host. As in the paper each object waits for the one before
//! it on its connection.

use rand::Rng as _;
use rand_pcg::Pcg64Mcg;

/// Shares of objects, and their largest sizes in bytes.
const SIZES: [(f64, f64); 5] = [
    (0.0, 100.0),
    (0.10, 500.0),
    (0.50, 4_900.0),
    (0.99, 185_000.0),
    (1.0, 1_000_000.0),
];

/// Connections to the server.
const CONNECTIONS: usize = 6;

/// Objects of the smallest and the largest page.
const OBJECTS: (f64, f64) = (10.0, 100.0);

/// A page: for each connection, bytes of its objects in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Page(pub(crate) Vec<Vec<u32>>);

impl Page {
    /// So many pages.
    pub(crate) fn draw(count: u32, seed: u64) -> Vec<Self> {
        let mut chance = Pcg64Mcg::new(u128::from(seed));
        let last = f64::from(count.max(2) - 1);
        (0..count)
            .map(|number| {
                let (few, many) = OBJECTS;
                let objects = few * (many / few).powf(f64::from(number) / last);
                let mut connections = vec![Vec::new(); CONNECTIONS];
                // The first object is what the others are named in.
                for object in 0..objects.round() as usize {
                    let at = chance.random_range(0..CONNECTIONS);
                    let at = if object == 0 { 0 } else { at };
                    connections[at].push(size(chance.random()));
                }
                connections.retain(|objects| !objects.is_empty());
                Self(connections)
            })
            .collect()
    }

    /// Sizes of all objects.
    pub(crate) fn objects(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().flatten().copied()
    }
}

/// The size below which this share of objects is.
fn size(share: f64) -> u32 {
    let pairs = SIZES.windows(2);
    let mut between = pairs.filter(|pair| share <= pair[1].0);
    let Some([below, above]) = between.next() else {
        return SIZES[4].1 as u32;
    };
    let way = (share - below.0) / (above.0 - below.0);
    // At most a million.
    (below.1 * (above.1 / below.1).powf(way)).round() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_the_percentiles_that_they_are_drawn_from() {
        for (share, bytes) in SIZES {
            assert_eq!(f64::from(size(share)), bytes);
        }
        assert!((1_000..2_000).contains(&size(0.3)));
    }

    #[test]
    fn pages_grow_and_are_the_same_each_time() {
        let pages = Page::draw(5, 1);
        let count = |page: &Page| page.objects().count();
        let counts: Vec<usize> = pages.iter().map(count).collect();
        assert_eq!(counts, [10, 18, 32, 56, 100]);
        assert_eq!(pages, Page::draw(5, 1));
        assert_ne!(pages, Page::draw(5, 2));
    }
}
