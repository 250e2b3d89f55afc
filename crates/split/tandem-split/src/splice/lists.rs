//! The lists of the objects that queued runs name.
//!
//! Is: which list is asked for, here, or lost. Is not: a cache of lists, which is the caller's;
//! only the last one is kept beyond its run, since a long body comes as several.
//!
//! Invariant: at most [`MAX_LISTS`] lists are asked for ahead, and one more for the run in front.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::list_for;
use crate::message::Run;
use crate::name::ObjectName;
use crate::object::List;
use crate::want::Want;

/// Most lists that are held for runs that wait, each up to 2 MiB: a client that asks for several
/// files at once is served without waiting for each list by itself.
const MAX_LISTS: usize = 4;

/// Where a list is.
#[derive(Clone)]
pub(super) enum ListState {
    Waiting,
    Here(Arc<List>),
    Lost,
}

struct Known {
    state: ListState,
    /// Runs in the queue that need it.
    runs: usize,
}

#[derive(Default)]
pub(super) struct Lists {
    known: BTreeMap<ObjectName, Known>,
    last: Option<Arc<List>>,
}

impl Lists {
    /// Whether a list may be asked for ahead.
    pub(super) fn has_room(&self) -> bool {
        self.known.len() < MAX_LISTS
    }

    /// Counts a run, and says what to ask for.
    pub(super) fn add(&mut self, run: &Run) -> Option<Want> {
        if let Some(known) = self.known.get_mut(&run.object) {
            known.runs += 1;
            return None;
        }
        let last = self.last.as_ref().filter(|list| list.name() == run.object);
        let state = last.map_or(ListState::Waiting, |list| ListState::Here(Arc::clone(list)));
        let want = last.is_none().then(|| list_for(run));
        self.known.insert(run.object, Known { state, runs: 1 });
        want
    }

    /// The list of a run that was counted.
    pub(super) fn state(&self, object: ObjectName) -> ListState {
        self.known
            .get(&object)
            .map_or(ListState::Lost, |known| known.state.clone())
    }

    /// Takes a list. Says whether it was waited for.
    pub(super) fn give(&mut self, list: &Arc<List>) -> bool {
        self.set(list.name(), ListState::Here(Arc::clone(list)))
    }

    /// Nobody has this one.
    pub(super) fn lose(&mut self, object: ObjectName) {
        self.set(object, ListState::Lost);
    }

    fn set(&mut self, object: ObjectName, state: ListState) -> bool {
        let waiting = self
            .known
            .get_mut(&object)
            .filter(|known| matches!(known.state, ListState::Waiting));
        let was_waiting = waiting.is_some();
        if let Some(known) = waiting {
            known.state = state;
        }
        was_waiting
    }

    /// A run that was counted is done.
    pub(super) fn remove(&mut self, object: ObjectName) {
        let Some(known) = self.known.get_mut(&object) else {
            return;
        };
        known.runs -= 1;
        if let ListState::Here(list) = &known.state {
            self.last = Some(Arc::clone(list));
        }
        if known.runs == 0 {
            self.known.remove(&object);
        }
    }

    pub(super) fn clear(&mut self) {
        self.known.clear();
        self.last = None;
    }
}
