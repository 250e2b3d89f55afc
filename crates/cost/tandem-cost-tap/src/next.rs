//! The function that one of this library's stands before.

use std::ffi::{CStr, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// Names under which OpenSSL's objects are loaded; a module that a server loads later may keep them
/// out of the global order.
const OBJECTS: [&CStr; 4] = [
    c"libssl.so.3",
    c"libcrypto.so.3",
    c"libssl.so.1.1",
    c"libcrypto.so.1.1",
];

/// One function, looked up once.
pub(crate) struct Next {
    name: &'static CStr,
    address: AtomicPtr<c_void>,
}

impl Next {
    pub(crate) const fn new(name: &'static CStr) -> Self {
        Self {
            name,
            address: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// The function; `None` where there is none.
    ///
    /// # Safety
    /// `F` is the type of a pointer to a function as C declares the one of this name.
    pub(crate) unsafe fn find<F: Copy>(&self) -> Option<F> {
        const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
        let mut address = self.address.load(Ordering::Relaxed);
        if address.is_null() {
            address = look_up(self.name);
            self.address.store(address, Ordering::Relaxed);
        }
        // SAFETY: POSIX (dlsym) has pointers to functions and to data of one size and form; the
        // type is as the caller promises.
        (!address.is_null()).then(|| unsafe { std::mem::transmute_copy(&address) })
    }
}

fn look_up(name: &CStr) -> *mut c_void {
    // SAFETY: RTLD_NEXT is a handle that is always open; the name ends with a zero byte.
    let next = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    if !next.is_null() {
        return next;
    }
    OBJECTS
        .iter()
        .find_map(|object| {
            // SAFETY: the name ends with a zero byte; RTLD_NOLOAD loads nothing. The handle is
            // never closed, so what is found stays.
            let found = unsafe {
                let handle = libc::dlopen(object.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
                match handle.is_null() {
                    true => handle,
                    false => libc::dlsym(handle, name.as_ptr()),
                }
            };
            (!found.is_null()).then_some(found)
        })
        .unwrap_or(ptr::null_mut())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_found_once_and_one_that_is_missing_never() {
        type GetPid = unsafe extern "C" fn() -> libc::pid_t;
        let next = Next::new(c"getpid");
        // SAFETY: as `<unistd.h>` declares it; it may be called at any time.
        let pid = unsafe { next.find::<GetPid>().expect("the C library has it")() };
        assert_eq!(u32::try_from(pid), Ok(std::process::id()));
        let missing = Next::new(c"tandem_has_no_such_function");
        // SAFETY: it is not there.
        assert!(unsafe { missing.find::<GetPid>() }.is_none());
    }
}
