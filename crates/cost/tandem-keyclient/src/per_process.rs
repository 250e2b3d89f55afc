//! A value for each process that uses a structure: its own, and those that are forked from it.
//!
//! Is not: shared memory. A forked process has a copy of all that was there, as it was at that
//! moment: a lock that another thread held then stays locked in it, and who was counted is not
//! there to leave. So it takes a new value, and leaves the others alone.
//!
//! ```text
//!   value of the first process -> value of a fork of it -> value of a fork of that
//! ```

use std::sync::OnceLock;

/// Begins with the value of the process that makes it.
#[derive(Debug)]
pub(crate) struct PerProcess<T> {
    process: u32,
    value: T,
    next: OnceLock<Box<Self>>,
}

impl<T: Default> PerProcess<T> {
    pub(crate) fn new(process: u32) -> Self {
        Self {
            process,
            value: T::default(),
            next: OnceLock::new(),
        }
    }

    /// The value of the process with this identifier.
    pub(crate) fn of(&self, process: u32) -> &T {
        let mut each = self;
        while each.process != process {
            each = each.next.get_or_init(|| Box::new(Self::new(process)));
        }
        &each.value
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr;
    use std::sync::Mutex;

    #[test]
    fn a_fork_finds_nothing_locked_that_its_parent_had_locked() {
        let values = PerProcess::<Mutex<u32>>::new(7);
        let mut of_parent = values.of(7).lock().expect("it is free");
        *of_parent = 1;
        assert_eq!(*values.of(8).lock().expect("it is free"), 0);
        assert_eq!(*values.of(9).lock().expect("it is free"), 0);
        assert!(values.of(7).try_lock().is_err());
    }

    #[test]
    fn a_process_finds_the_same_value_each_time() {
        let values = PerProcess::<u32>::new(7);
        for process in [7, 8, 9] {
            assert!(ptr::eq(values.of(process), values.of(process)));
        }
        assert!(!ptr::eq(values.of(8), values.of(9)));
        assert!(!ptr::eq(values.of(7), values.of(8)));
    }
}
