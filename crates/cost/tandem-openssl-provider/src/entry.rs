//! Where OpenSSL enters: the one exported function, and what the provider has.
//!
//! Specification: provider-base(7).

use std::ffi::{CStr, c_int, c_void};
use std::ptr;

use crate::abi::{Algorithm, Core, Dispatch, Item, Param, each, kind, row};
use crate::guard::guard;
use crate::provider::{Provider, reason};
use crate::{decoder, key, signature};

/// Makes the provider. OpenSSL calls this once for each of its library contexts that loads it.
///
/// # Safety
/// As provider-base(7) says: all pointers are OpenSSL's.
#[unsafe(export_name = "OSSL_provider_init")]
pub(crate) unsafe extern "C" fn init(
    handle: *const c_void,
    functions: *const Dispatch,
    own: *mut *const Dispatch,
    provider: *mut *mut c_void,
) -> c_int {
    guard(0, || {
        // SAFETY: both are OpenSSL's.
        let Some(core) = (unsafe { Core::new(handle, functions) }) else {
            return 0;
        };
        let made = Box::into_raw(Box::new(Provider::new(core)));
        // SAFETY: OpenSSL has a place for each.
        unsafe {
            own.write(FUNCTIONS.as_ptr());
            provider.write(made.cast());
        }
        1
    })
}

static FUNCTIONS: [Dispatch; 6] = [
    row!(1024, teardown, fn(*mut c_void)),
    row!(1025, described_params, fn(*mut c_void) -> *const Param),
    row!(1026, params, fn(*mut c_void, *mut Param) -> c_int),
    row!(
        1027,
        query,
        fn(*mut c_void, c_int, *mut c_int) -> *const Algorithm
    ),
    row!(1029, reasons, fn(*mut c_void) -> *const Item),
    Dispatch::END,
];

static PARAMS: [Param; 4] = [
    Param::described(c"name", kind::TEXT_POINTER),
    Param::described(c"version", kind::TEXT_POINTER),
    Param::described(c"status", kind::UNSIGNED),
    Param::END,
];

const VERSION: &CStr =
    match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
        Ok(version) => version,
        Err(_) => c"",
    };

unsafe extern "C" fn described_params(_: *mut c_void) -> *const Param {
    PARAMS.as_ptr()
}

/// What `openssl list -providers` shows.
unsafe extern "C" fn params(_: *mut c_void, list: *mut Param) -> c_int {
    guard(0, || {
        let mut is_right = true;
        let answer = |name: &CStr, param: &mut Param| {
            // SAFETY: the parameter is OpenSSL's.
            is_right &= unsafe {
                match name.to_bytes() {
                    b"name" => param.set_pointer(c"Tandem keys of key servers"),
                    b"version" => param.set_pointer(VERSION),
                    b"status" => param.set_number(1),
                    _ => true,
                }
            };
        };
        // SAFETY: the list is OpenSSL's.
        unsafe { each(list, answer) };
        c_int::from(is_right)
    })
}

static REASONS: [Item; 5] = [
    Item {
        id: reason::SIGN_FAILED,
        text: c"sign failed".as_ptr(),
    },
    Item {
        id: reason::KEY_FILE,
        text: c"the key server key".as_ptr(),
    },
    Item {
        id: reason::SETTINGS,
        text: c"settings of the key servers".as_ptr(),
    },
    Item {
        id: reason::REFUSED,
        text: c"not for this key".as_ptr(),
    },
    Item {
        id: 0,
        text: ptr::null(),
    },
];

unsafe extern "C" fn teardown(provider: *mut c_void) {
    guard((), || {
        if !provider.is_null() {
            // SAFETY: `init` made it; OpenSSL ends it once.
            drop(unsafe { Box::from_raw(provider.cast::<Provider>()) });
        }
    });
}

unsafe extern "C" fn reasons(_: *mut c_void) -> *const Item {
    REASONS.as_ptr()
}

unsafe extern "C" fn query(
    _: *mut c_void,
    operation: c_int,
    no_cache: *mut c_int,
) -> *const Algorithm {
    // SAFETY: OpenSSL has a place for it, or none.
    if let Some(no_cache) = unsafe { no_cache.as_mut() } {
        *no_cache = 0;
    }
    match operation {
        10 => key::ALGORITHMS.as_ptr(),
        12 => signature::ALGORITHMS.as_ptr(),
        13 => signature::CIPHERS.as_ptr(),
        21 => decoder::ALGORITHMS.as_ptr(),
        _ => ptr::null(),
    }
}
