//! The dynamic linker's ABI: which loaded objects define a function, and with whose rights the
//! process runs.
//!
//! Is not: anything about OpenSSL. The linker finds a function for a program in the program's own
//! order, in which this library stands first; which definition it stands before depends on the
//! caller, and a program can hold several (a plugin with an OpenSSL of its own). So all definitions
//! are looked for, under whatever name their objects were loaded, and the caller of this module
//! chooses.
//!
//! Invariant: nothing is ever loaded that is not loaded yet.

use std::ffi::{CStr, CString, c_int, c_void};
use std::ops::Range;
use std::slice;

use crate::settings::Privileges;

/// A loaded object, kept loaded as long as this value lives.
#[derive(Debug)]
pub(crate) struct Object {
    /// What `dlopen` gave; an address as a number, so that threads may share it.
    handle: usize,
    /// Where it is in memory. The linker maps an object as a whole, so nothing else is between its
    /// parts.
    extent: Range<usize>,
}

impl Object {
    /// All loaded objects that define this function themselves, apart from the program (what it
    /// defines stands before this library) and from this library.
    pub(crate) fn defining(function: &CStr) -> Vec<Self> {
        let own = Self::defining as fn(&CStr) -> Vec<Self> as usize;
        loaded()
            .into_iter()
            .filter(|it| !it.extent.contains(&own))
            .filter_map(Self::open)
            // Looked up in an object, a function may also come from one that it depends on.
            .filter(|object| object.contains(object.address(function)))
            .collect()
    }

    /// The object of this name if it is still loaded.
    fn open(loaded: Loaded) -> Option<Self> {
        // SAFETY: the name ends with a zero byte; RTLD_NOLOAD loads nothing, so no constructor
        // runs.
        let handle =
            unsafe { libc::dlopen(loaded.name.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
        // Made only then: whatever is dropped closes its handle.
        (!handle.is_null()).then(|| Self {
            handle: handle as usize,
            extent: loaded.extent,
        })
    }

    /// A function of this object or of those that it depends on. Takes the linker's lock.
    ///
    /// # Safety
    /// `F` is the type of a pointer to a function as C declares the one of this name.
    pub(crate) unsafe fn function<F: Copy>(&self, name: &CStr) -> Option<F> {
        // SAFETY: as the caller promises.
        unsafe { as_function(self.address(name)) }
    }

    /// Whether an address lies in this object.
    pub(crate) fn contains(&self, address: *const c_void) -> bool {
        self.extent.contains(&(address as usize))
    }

    /// The same as [`Self::function`], null for `None`.
    pub(crate) fn address(&self, name: &CStr) -> *mut c_void {
        // SAFETY: the handle is open as long as `self` lives; the name ends with a zero byte.
        unsafe { libc::dlsym(self.handle as *mut c_void, name.as_ptr()) }
    }
}

impl PartialEq for Object {
    fn eq(&self, other: &Self) -> bool {
        self.extent == other.extent
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        // SAFETY: the handle was opened once for this value and is closed once.
        unsafe { libc::dlclose(self.handle as *mut c_void) };
    }
}

/// The definition that the linker would take if this library were not there, as far as it can say
/// without knowing the caller; null where there is none.
pub(crate) fn next(name: &CStr) -> *mut c_void {
    // SAFETY: RTLD_NEXT is a handle that is always open; the name ends with a zero byte.
    unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) }
}

/// The function at an address, if it is not null.
///
/// # Safety
/// `F` is the type of a pointer to the function at this address.
pub(crate) unsafe fn as_function<F: Copy>(address: *mut c_void) -> Option<F> {
    const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
    // SAFETY: POSIX (dlsym) has pointers to functions and to data of one size and form; the type is
    // as the caller promises.
    (!address.is_null()).then(|| unsafe { std::mem::transmute_copy(&address) })
}

/// With whose rights the process runs.
pub(crate) fn privileges() -> Privileges {
    // SAFETY: reads a number that the kernel has left for the process.
    Privileges::from_at_secure(unsafe { libc::getauxval(libc::AT_SECURE) })
}

/// What the linker says of a loaded object.
struct Loaded {
    name: CString,
    extent: Range<usize>,
}

/// All loaded objects but the program.
fn loaded() -> Vec<Loaded> {
    let mut loaded: Vec<Loaded> = Vec::new();
    // SAFETY: the function is called during this call alone, with the pointer that stands beside
    // it.
    unsafe { libc::dl_iterate_phdr(Some(note), (&raw mut loaded).cast()) };
    loaded
}

unsafe extern "C" fn note(object: *mut libc::dl_phdr_info, _: usize, loaded: *mut c_void) -> c_int {
    // SAFETY: `loaded` passes its own vector, and the linker one of its entries.
    let (loaded, object) = unsafe { (&mut *loaded.cast::<Vec<Loaded>>(), &*object) };
    if object.dlpi_name.is_null() || object.dlpi_phdr.is_null() {
        return 0;
    }
    // SAFETY: the linker's names end with a zero byte, there are as many headers as it says, and
    // both live during this call.
    let (name, headers) = unsafe {
        let headers = slice::from_raw_parts(object.dlpi_phdr, usize::from(object.dlpi_phnum));
        (CStr::from_ptr(object.dlpi_name), headers)
    };
    let parts = || {
        let parts = headers.iter().filter(|it| it.p_type == libc::PT_LOAD);
        parts.map(|it| {
            let start = (object.dlpi_addr as usize).wrapping_add(it.p_vaddr as usize);
            start..start.wrapping_add(it.p_memsz as usize)
        })
    };
    let start = parts().map(|part| part.start).min();
    let end = parts().map(|part| part.end).max();
    if let (false, Some(start), Some(end)) = (name.is_empty(), start, end) {
        loaded.push(Loaded {
            name: name.to_owned(),
            extent: start..end,
        });
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_found_by_what_it_defines_itself() {
        let found = Object::defining(c"getauxval");
        assert_eq!(found.len(), 1, "the C library, and none that uses it");
        let libc_function = libc::getauxval as unsafe extern "C" fn(libc::c_ulong) -> libc::c_ulong;
        assert!(found[0].contains(libc_function as *const c_void));
        assert!(!found[0].contains(loaded as fn() -> Vec<Loaded> as *const c_void));
        assert_eq!(Object::defining(c"tandem_has_no_such_function"), []);
    }

    #[test]
    fn an_object_is_where_the_linker_says() {
        // The linker itself is asked, which takes its lock for that.
        for object in loaded() {
            // SAFETY: all fields are pointers, for which zero is a value; any address may be asked
            // for.
            let (known, found) = unsafe {
                let mut found: libc::Dl_info = std::mem::zeroed();
                let last = object.extent.end.saturating_sub(1);
                (libc::dladdr(last as *const c_void, &raw mut found), found)
            };
            if known != 0 {
                let base = found.dli_fbase as usize;
                // It begins with a page.
                assert!(
                    base.abs_diff(object.extent.start) < 0x1_0000,
                    "{:?}",
                    object.name
                );
            }
        }
    }

    #[test]
    fn a_function_is_what_was_looked_up() {
        type GetPid = unsafe extern "C" fn() -> libc::pid_t;
        let found = Object::defining(c"getpid");
        // SAFETY: as `<unistd.h>` declares it.
        let function = unsafe { found[0].function::<GetPid>(c"getpid") };
        // SAFETY: getpid may be called at any time.
        let pid = unsafe { function.expect("the C library has it")() };
        assert_eq!(u32::try_from(pid), Ok(std::process::id()));
    }

    #[test]
    fn tests_run_with_their_own_rights() {
        assert_eq!(privileges(), Privileges::Own);
    }
}
