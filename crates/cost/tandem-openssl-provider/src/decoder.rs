//! OpenSSL's decoders: from the file that stands for a private key to a key, in two steps, as
//! OpenSSL does it for its own files.
//!
//! ```text
//!   file --> PEM: `from_pem` --> marked public key --> DER: `from_der` --> key
//! ```
//!
//! A decoder that finds nothing of its own answers that all is well, and others are asked.
//!
//! Specification: provider-decoder(7).

use std::ffi::{CStr, c_int, c_void};
use std::ptr;
use std::sync::Arc;

use crate::abi::{Algorithm, Callback, Dispatch, Param, kind, row, select};
use crate::guard::guard;
use crate::key::{self, Key};
use crate::key_file::{self, KeyFile, Step};
use crate::provider::{Provider, reason};
use crate::public_key::Family;

/// A decoder has the name of what it makes.
pub(crate) static ALGORITHMS: [Algorithm; 5] = [
    Algorithm::new(c"DER", c"provider=tandem,input=pem", &FROM_PEM),
    Algorithm::new(c"RSA:rsaEncryption:1.2.840.113549.1.1.1", MARKED, &RSA),
    Algorithm::new(c"EC:id-ecPublicKey:1.2.840.10045.2.1", MARKED, &EC),
    Algorithm::new(c"ED25519:1.3.101.112", MARKED, &ED25519),
    Algorithm::END,
];

const MARKED: &CStr = c"provider=tandem,input=der,structure=tandem";
const STRUCTURE: &CStr = c"tandem";

/// OSSL_OBJECT_PKEY.
static IS_KEY: c_int = 2;

/// Most bytes of a line that are read at once.
const LINE: usize = 1_024;

macro_rules! functions {
    ($decode:expr) => {
        [
            row!(1, new, fn(*mut c_void) -> *mut c_void),
            row!(2, free, fn(*mut c_void)),
            row!(10, does, fn(*mut c_void, c_int) -> c_int),
            row!(
                11,
                $decode,
                fn(
                    *mut c_void,
                    *mut c_void,
                    c_int,
                    Callback,
                    *mut c_void,
                    *mut c_void,
                    *mut c_void,
                ) -> c_int
            ),
            Dispatch::END,
        ]
    };
}

static FROM_PEM: [Dispatch; 5] = functions!(from_pem);
static RSA: [Dispatch; 5] = functions!(rsa);
static EC: [Dispatch; 5] = functions!(ec);
static ED25519: [Dispatch; 5] = functions!(ed25519);

/// A decoder has nothing but its provider.
unsafe extern "C" fn new(provider: *mut c_void) -> *mut c_void {
    provider
}

unsafe extern "C" fn free(_: *mut c_void) {}

/// Whether it finds what is asked for: a private key, or anything.
unsafe extern "C" fn does(_: *mut c_void, selection: c_int) -> c_int {
    c_int::from(selection == 0 || selection & select::PRIVATE_KEY != 0)
}

macro_rules! decoder {
    ($name:ident, $decode:expr) => {
        unsafe extern "C" fn $name(
            provider: *mut c_void,
            file: *mut c_void,
            _: c_int,
            callback: Callback,
            argument: *mut c_void,
            _: *mut c_void,
            _: *mut c_void,
        ) -> c_int {
            guard(0, || {
                // SAFETY: it is what `new` returned.
                let Some(provider) = (unsafe { provider.cast::<Provider>().as_ref() }) else {
                    return 0;
                };
                // SAFETY: the callback is OpenSSL's, the list has its end.
                let give = |list: &[Param]| unsafe { callback(list.as_ptr(), argument) };
                // SAFETY: OpenSSL hands over a BIO.
                unsafe { $decode(provider, file, give) }
            })
        }
    };
}

decoder!(from_pem, read_file);
decoder!(rsa, |provider, file, give| read_key(
    Family::Rsa,
    provider,
    file,
    give
));
decoder!(ec, |provider, file, give| read_key(
    Family::Ec,
    provider,
    file,
    give
));
decoder!(ed25519, |provider, file, give| read_key(
    Family::Ed25519,
    provider,
    file,
    give
));

/// # Safety
/// `file` is a BIO.
unsafe fn read_file(
    provider: &Provider,
    file: *mut c_void,
    give: impl Fn(&[Param]) -> c_int,
) -> c_int {
    let mut key_file = KeyFile::default();
    let mut room = [0; LINE];
    let step = loop {
        // SAFETY: `file` is a BIO.
        match unsafe { provider.core.line(file, &mut room) } {
            None => break key_file.end(),
            Some(line) => match key_file.push(line) {
                Step::More => {}
                step => break step,
            },
        }
    };
    match step {
        Step::More | Step::Foreign => 1,
        Step::Key(public, der) => {
            // What the second step says does not reach everybody: OpenSSL's file loader drops it.
            if let Err(error) = provider.client() {
                provider.core.raise(reason::SETTINGS, &error);
                return 0;
            }
            let Some(marked) = key_file::wrapped(&der) else {
                return 0;
            };
            give(&[
                Param::integer(c"type", &IS_KEY),
                Param::text(c"data-type", name_of(public.family())),
                Param::text(c"data-structure", STRUCTURE),
                Param::of(c"data", kind::BYTES, &marked),
                Param::END,
            ])
        }
        Step::Wrong(what) => {
            provider.core.raise(reason::KEY_FILE, what);
            0
        }
    }
}

/// # Safety
/// `file` is a BIO.
unsafe fn read_key(
    family: Family,
    provider: &Provider,
    file: *mut c_void,
    give: impl Fn(&[Param]) -> c_int,
) -> c_int {
    let mut room = vec![0; key_file::MAX_WRAPPED];
    // SAFETY: `file` is a BIO.
    let public = unsafe { provider.core.rest(file, &mut room) }.and_then(key_file::unwrapped);
    let Some(public) = public.filter(|public| public.family() == family) else {
        return 1;
    };
    // `read_file` has said what is wrong with them.
    let Ok(client) = provider.client() else {
        return 0;
    };
    let mut key = key::held(Some(Arc::new(Key { public, client })));
    let place: *mut *mut c_void = &raw mut key;
    let taken = give(&[
        Param::integer(c"type", &IS_KEY),
        Param::text(c"data-type", name_of(family)),
        Param::reference(place),
        Param::END,
    ]);
    // SAFETY: `key::load` has taken it from there, or has not; what is left is this function's.
    unsafe { key::free(ptr::read(place)) };
    taken
}

/// As key management has it.
fn name_of(family: Family) -> &'static CStr {
    match family {
        Family::Rsa => c"RSA",
        Family::Ec => c"EC",
        Family::Ed25519 => c"ED25519",
    }
}
