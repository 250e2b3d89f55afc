//! The frame of all work in the program's threads: a panic ends in it, the thread is not cancelled
//! within it, and `errno` is what it was.
//!
//! Why not cancelled: a call that writes or sends is a point where a thread that somebody cancels
//! (`pthread_cancel`) unwinds. Rust ends the process where such an unwinding meets it. So the
//! thread goes on, and is cancelled at the program's next point of that kind.
//!
//! Is not: around OpenSSL's functions that the program called, nor around its own callbacks. There
//! it may be cancelled as without this library: their types are `C-unwind`, and nothing that would
//! have to be dropped is in the frames that call them.

use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

/// `<pthread.h>`, in glibc and musl.
const PTHREAD_CANCEL_DISABLE: c_int = 1;

unsafe extern "C" {
    /// POSIX; the crate `libc` does not declare it for Linux. Both C libraries take a null pointer
    /// where the old state is not wanted.
    fn pthread_setcancelstate(state: c_int, old: *mut c_int) -> c_int;
}

/// Does the work.
pub(crate) fn quietly<T>(work: impl FnOnce() -> Option<T>) -> Option<T> {
    let mut state = PTHREAD_CANCEL_DISABLE;
    // SAFETY: the state and `errno` are this thread's; one number is written.
    let errno = unsafe {
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &raw mut state);
        *libc::__errno_location()
    };
    let done = catch_unwind(AssertUnwindSafe(work)).ok().flatten();
    // SAFETY: as above; the state is the one that was found.
    unsafe {
        *libc::__errno_location() = errno;
        pthread_setcancelstate(state, ptr::null_mut());
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state() -> c_int {
        let mut state = 0;
        // SAFETY: one number is written, and the state is set to what it was.
        unsafe {
            pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &raw mut state);
            pthread_setcancelstate(state, ptr::null_mut());
        }
        state
    }

    #[test]
    fn the_thread_is_not_cancelled_meanwhile_and_finds_everything_as_it_was() {
        // SAFETY: this thread's.
        let errno = || unsafe { libc::__errno_location() };
        let before = state();
        assert_ne!(before, PTHREAD_CANCEL_DISABLE);
        // SAFETY: as above.
        unsafe { *errno() = 7 };
        let within = quietly(|| {
            // SAFETY: as above.
            unsafe { *errno() = 8 };
            quietly(|| Some(())).map(|()| state())
        });
        assert_eq!(within, Some(PTHREAD_CANCEL_DISABLE));
        // SAFETY: as above.
        assert_eq!(unsafe { *errno() }, 7);
        assert_eq!(quietly(|| -> Option<()> { panic!("on purpose") }), None);
        assert_eq!(state(), before);
    }
}
