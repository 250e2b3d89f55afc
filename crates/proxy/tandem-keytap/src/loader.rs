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

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr;

use crate::settings::Privileges;

/// A loaded object, kept loaded as long as this value lives.
#[derive(Debug)]
pub(crate) struct Object {
    /// What `dlopen` gave; an address as a number, so that threads may share it.
    handle: usize,
    /// Where the object begins in memory.
    base: usize,
}

impl Object {
    /// All loaded objects that define this function themselves, apart from the program (what it
    /// defines stands before this library) and from this library.
    pub(crate) fn defining(function: &CStr) -> Vec<Self> {
        let own = home(Self::defining as fn(&CStr) -> Vec<Self> as usize).map(|home| home.base);
        names()
            .iter()
            .filter_map(|name| Self::loaded(name))
            .filter(|object| {
                // Looked up in an object, a function may also come from one that it depends on.
                let defined_in = home(object.address(function) as usize).map(|home| home.base);
                defined_in == Some(object.base) && defined_in != own
            })
            .collect()
    }

    /// The object of this name if it is loaded.
    fn loaded(name: &CStr) -> Option<Self> {
        // SAFETY: the name ends with a zero byte; RTLD_NOLOAD loads nothing, so no constructor
        // runs.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
        if handle.is_null() {
            return None;
        }
        let mut object = Self {
            handle: handle as usize,
            base: 0,
        };
        let mut map: *const LinkMap = ptr::null();
        // SAFETY: the handle is open; RTLD_DI_LINKMAP writes one pointer.
        let result = unsafe { libc::dlinfo(handle, libc::RTLD_DI_LINKMAP, (&raw mut map).cast()) };
        if result != 0 || map.is_null() {
            return None;
        }
        // SAFETY: the linker's entry lives as long as the object is loaded, which the handle sees
        // to; its first fields are public.
        let dynamic = unsafe { (*map).dynamic };
        object.base = home(dynamic as usize)?.base;
        Some(object)
    }

    /// A function of this object or of those that it depends on.
    ///
    /// # Safety
    /// `F` is the type of a pointer to a function as C declares the one of this name.
    pub(crate) unsafe fn function<F: Copy>(&self, name: &CStr) -> Option<F> {
        // SAFETY: as the caller promises.
        unsafe { as_function(self.address(name)) }
    }

    /// Whether an address lies in this object.
    pub(crate) fn contains(&self, address: *const c_void) -> bool {
        home(address as usize).is_some_and(|home| home.base == self.base)
    }

    fn address(&self, name: &CStr) -> *mut c_void {
        // SAFETY: the handle is open as long as `self` lives; the name ends with a zero byte.
        unsafe { libc::dlsym(self.handle as *mut c_void, name.as_ptr()) }
    }
}

impl PartialEq for Object {
    fn eq(&self, other: &Self) -> bool {
        self.base == other.base
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        // SAFETY: the handle was opened once for this value and is closed once.
        unsafe { libc::dlclose(self.handle as *mut c_void) };
    }
}

/// The definition that the linker would take if this library were not there, as far as it can say
/// without knowing the caller.
///
/// # Safety
/// As for [`Object::function`].
pub(crate) unsafe fn next<F: Copy>(name: &CStr) -> Option<F> {
    // SAFETY: RTLD_NEXT is a handle that is always open; the name ends with a zero byte; the type
    // is as the caller promises.
    unsafe { as_function(libc::dlsym(libc::RTLD_NEXT, name.as_ptr())) }
}

/// # Safety
/// `F` is the type of a pointer to the function at this address.
unsafe fn as_function<F: Copy>(address: *mut c_void) -> Option<F> {
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

/// The public beginning of the linker's entry for an object (`struct link_map` of `<link.h>`).
#[repr(C)]
struct LinkMap {
    bias: usize,
    name: *const c_char,
    dynamic: *const c_void,
}

/// The object that an address lies in.
struct Home {
    base: usize,
}

fn home(address: usize) -> Option<Home> {
    // SAFETY: all fields are pointers, for which zero is a value.
    let mut found: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: any address may be asked for; the answer goes to a structure of the right type.
    let known = unsafe { libc::dladdr(address as *const c_void, &raw mut found) };
    (known != 0).then_some(Home {
        base: found.dli_fbase as usize,
    })
}

/// The names of all loaded objects but the program.
fn names() -> Vec<CString> {
    let mut names: Vec<CString> = Vec::new();
    // SAFETY: the function is called during this call alone, with the pointer that stands beside
    // it.
    unsafe { libc::dl_iterate_phdr(Some(note), (&raw mut names).cast()) };
    names
}

unsafe extern "C" fn note(object: *mut libc::dl_phdr_info, _: usize, names: *mut c_void) -> c_int {
    // SAFETY: `names` passes its own vector, and the linker one of its entries.
    let (names, name) = unsafe { (&mut *names.cast::<Vec<CString>>(), (*object).dlpi_name) };
    if !name.is_null() {
        // SAFETY: the linker's names end with a zero byte and live during this call.
        let name = unsafe { CStr::from_ptr(name) };
        if !name.is_empty() {
            names.push(name.to_owned());
        }
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
        assert!(!found[0].contains(names as fn() -> Vec<CString> as *const c_void));
        assert_eq!(Object::defining(c"tandem_has_no_such_function"), []);
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
