//! The circles of a graph: its strongly connected components of more than one node.
//!
//! Is not: anything about files. Tarjan's algorithm (1972), by recursion: a crate has hundreds of
//! files, not thousands.

/// The circles of the graph in which node `n` has arrows to `arrows[n]`; nodes in order, circles by
/// their first node.
pub(super) fn circles(arrows: &[Vec<usize>]) -> Vec<Vec<usize>> {
    let mut search = Search {
        arrows,
        seen: vec![None; arrows.len()],
        lowest: vec![0; arrows.len()],
        open: Vec::new(),
        next: 0,
        found: Vec::new(),
    };
    for node in 0..arrows.len() {
        if search.seen[node].is_none() {
            search.visit(node);
        }
    }
    search.found.sort();
    search.found
}

struct Search<'a> {
    arrows: &'a [Vec<usize>],
    /// When each node was seen first.
    seen: Vec<Option<usize>>,
    /// The earliest open node that each one reaches.
    lowest: Vec<usize>,
    /// Nodes whose circle is not known yet.
    open: Vec<usize>,
    next: usize,
    found: Vec<Vec<usize>>,
}

impl Search<'_> {
    fn visit(&mut self, node: usize) {
        let order = self.next;
        self.next += 1;
        self.seen[node] = Some(order);
        self.lowest[node] = order;
        self.open.push(node);
        for &used in &self.arrows[node] {
            match self.seen[used] {
                None => {
                    self.visit(used);
                    self.lowest[node] = self.lowest[node].min(self.lowest[used]);
                }
                Some(seen) if self.open.contains(&used) => {
                    self.lowest[node] = self.lowest[node].min(seen);
                }
                Some(_) => {}
            }
        }
        if self.lowest[node] == order {
            let at = self.open.iter().position(|&open| open == node);
            let mut circle = self.open.split_off(at.unwrap_or(self.open.len()));
            if circle.len() > 1 {
                circle.sort_unstable();
                self.found.push(circle);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn circles_are_found_and_what_only_leads_to_them_is_not() {
        // 0 -> 1 <-> 2 -> 3 -> 4 -> 5 -> 3, and 6 alone with itself.
        let arrows = [
            vec![1],
            vec![2],
            vec![1, 3],
            vec![4],
            vec![5],
            vec![3],
            vec![6],
        ];
        assert_eq!(circles(&arrows), [vec![1, 2], vec![3, 4, 5]]);
    }

    #[test]
    fn two_ways_to_the_same_node_are_no_circle() {
        assert!(circles(&[vec![1, 2], vec![3], vec![3], vec![]]).is_empty());
    }
}
