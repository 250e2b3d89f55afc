//! Whom looks have found to change records, across a restart.
//!
//! Is not: who is barred, nor what of it is left after a restart: the roster says so.
//!
//! Invariant: while something is held against somebody, the database hears once a minute what the
//! clocks show: a wall clock that was set longer ago has no say when the broker is killed.

use std::collections::BTreeMap;
use std::net::IpAddr;

use tandem_barnraising::roster::Bar;

use super::State;
use crate::database::Clocks;
use crate::moment::wall;

/// Seconds after which the database hears of the clocks.
const EVERY: u64 = 60;

/// By their addresses.
pub(super) type Bars = BTreeMap<IpAddr, Bar>;

impl State {
    /// Takes in what was held when the database was written last.
    pub(super) fn restore_bars(&mut self, kept: Vec<Bar>, ended: Clocks) {
        let now = self.clock.steady();
        // A clock that was set back does not show how long it was.
        let off = wall().0.saturating_sub(ended.wall.0);
        for bar in kept {
            self.roster.put_bar(bar.resumed(ended.steady, off, now));
            self.bars_written.insert(bar.address, bar);
        }
    }

    pub(super) fn bars(&self) -> Bars {
        let bars = self.roster.bars();
        bars.map(|bar| (bar.address, bar)).collect()
    }

    /// Whether the database is to be written because of them.
    pub(super) fn is_time_for_bars(&self) -> bool {
        let bars = self.bars();
        let since = self.clock.steady().0.saturating_sub(self.written.0);
        bars != self.bars_written || !bars.is_empty() && since >= EVERY
    }
}

/// What leads to these from those.
pub(super) fn since(bars: &Bars, before: &Bars) -> Vec<(IpAddr, Option<Bar>)> {
    let new = bars
        .iter()
        .filter(|(address, bar)| before.get(address) != Some(bar))
        .map(|(address, bar)| (*address, Some(*bar)));
    let gone = before
        .keys()
        .filter(|address| !bars.contains_key(address))
        .map(|address| (*address, None));
    new.chain(gone).collect()
}
