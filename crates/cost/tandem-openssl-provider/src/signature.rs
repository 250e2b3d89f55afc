//! OpenSSL's signatures: the message of a handshake goes to a key server, which signs it.
//!
//! Is not: a signature of a digest, or of a message that comes in parts; libssl asks for neither.
//!
//! Invariants: what is asked before a message is there (lengths, whether a digest is possible) is
//! answered without a key server. A combination of padding, digest and key that TLS does not have
//! is refused.
//!
//! Specification: provider-signature(7).

use std::ffi::{CStr, c_char, c_int, c_uchar, c_void};
use std::sync::Arc;

use crate::abi::{Algorithm, Core, Dispatch, Param, each, kind, row};
use crate::choice::{Choice, Digest};
use crate::guard::guard;
use crate::key::{self, Key};
use crate::provider::{Provider, reason};

pub(crate) static ALGORITHMS: [Algorithm; 4] = [
    Algorithm::new(
        c"RSA:rsaEncryption:1.2.840.113549.1.1.1",
        c"provider=tandem",
        &FUNCTIONS,
    ),
    Algorithm::new(c"ECDSA", c"provider=tandem", &FUNCTIONS),
    Algorithm::new(c"ED25519:1.3.101.112", c"provider=tandem", &FUNCTIONS),
    Algorithm::END,
];

/// Decryption, which is refused: without it, OpenSSL would say no more than that it is not there.
pub(crate) static CIPHERS: [Algorithm; 2] = [
    Algorithm::new(
        c"RSA:rsaEncryption:1.2.840.113549.1.1.1",
        c"provider=tandem",
        &DECRYPTION,
    ),
    Algorithm::END,
];

static FUNCTIONS: [Dispatch; 9] = [
    row!(1, new, fn(*mut c_void, *const c_char) -> *mut c_void),
    row!(2, refuse, fn(*mut c_void, *mut c_void, *mut Param) -> c_int),
    row!(
        3,
        never,
        fn(*mut c_void, *mut c_uchar, *mut usize, usize, *const c_uchar, usize) -> c_int
    ),
    row!(
        8,
        begin,
        fn(*mut c_void, *const c_char, *mut c_void, *mut Param) -> c_int
    ),
    row!(
        11,
        sign,
        fn(*mut c_void, *mut c_uchar, *mut usize, usize, *const c_uchar, usize) -> c_int
    ),
    row!(16, free, fn(*mut c_void)),
    row!(20, set, fn(*mut c_void, *mut Param) -> c_int),
    row!(21, settable, fn(*mut c_void, *mut c_void) -> *const Param),
    Dispatch::END,
];

static DECRYPTION: [Dispatch; 5] = [
    row!(1, new, fn(*mut c_void, *const c_char) -> *mut c_void),
    row!(4, refuse, fn(*mut c_void, *mut c_void, *mut Param) -> c_int),
    row!(
        5,
        never,
        fn(*mut c_void, *mut c_uchar, *mut usize, usize, *const c_uchar, usize) -> c_int
    ),
    row!(6, free, fn(*mut c_void)),
    Dispatch::END,
];

/// A signature that is wanted.
struct Wanted {
    core: Core,
    key: Option<Arc<Key>>,
    choice: Choice,
}

unsafe extern "C" fn new(provider: *mut c_void, _: *const c_char) -> *mut c_void {
    guard(std::ptr::null_mut(), || {
        // SAFETY: OpenSSL hands over this provider.
        let Some(provider) = (unsafe { provider.cast::<Provider>().as_ref() }) else {
            return std::ptr::null_mut();
        };
        let wanted = Wanted {
            core: provider.core,
            key: None,
            choice: Choice::default(),
        };
        Box::into_raw(Box::new(wanted)).cast()
    })
}

unsafe extern "C" fn free(wanted: *mut c_void) {
    guard((), || {
        if !wanted.is_null() {
            // SAFETY: it comes from `new`; OpenSSL frees it once.
            drop(unsafe { Box::from_raw(wanted.cast::<Wanted>()) });
        }
    });
}

/// A digest alone, or a secret of RSA key exchange: a key server does neither.
unsafe extern "C" fn refuse(wanted: *mut c_void, _: *mut c_void, _: *mut Param) -> c_int {
    guard(0, || {
        // SAFETY: it comes from `new`.
        if let Some(wanted) = unsafe { wanted.cast::<Wanted>().as_ref() } {
            let what = "a key server signs messages of TLS handshakes and does nothing else";
            wanted.core.raise(reason::REFUSED, what);
        }
        0
    })
}

unsafe extern "C" fn never(
    _: *mut c_void,
    _: *mut c_uchar,
    _: *mut usize,
    _: usize,
    _: *const c_uchar,
    _: usize,
) -> c_int {
    0
}

unsafe extern "C" fn begin(
    wanted: *mut c_void,
    digest: *const c_char,
    key: *mut c_void,
    params: *mut Param,
) -> c_int {
    guard(0, || {
        // SAFETY: it comes from `new`; that one thread at a time uses it is the duty of whoever
        // calls OpenSSL.
        let Some(wanted) = (unsafe { wanted.cast::<Wanted>().as_mut() }) else {
            return 0;
        };
        // SAFETY: a key of this provider, or none where the last one is meant.
        if let Some(key) = unsafe { key::share(key) } {
            wanted.key = Some(key);
        }
        let name = if digest.is_null() {
            String::new()
        } else {
            // SAFETY: OpenSSL's names end with a zero byte.
            unsafe { CStr::from_ptr(digest) }
                .to_string_lossy()
                .into_owned()
        };
        let Some(key) = &wanted.key else {
            return 0;
        };
        wanted.choice = Choice::default();
        if !wanted.choice.set_digest(key.public.kind, &name) {
            let what = format!("no key server signs with {name:?} and this key");
            wanted.core.raise(reason::REFUSED, &what);
            return 0;
        }
        // SAFETY: `params` are OpenSSL's.
        unsafe { apply(wanted, params) }
    })
}

static SETTABLE: [Param; 4] = [
    Param::described(c"pad-mode", kind::TEXT),
    Param::described(c"saltlen", kind::TEXT),
    Param::described(c"mgf1-digest", kind::TEXT),
    Param::END,
];

unsafe extern "C" fn settable(_: *mut c_void, _: *mut c_void) -> *const Param {
    SETTABLE.as_ptr()
}

unsafe extern "C" fn set(wanted: *mut c_void, params: *mut Param) -> c_int {
    guard(0, || {
        // SAFETY: as in `begin`.
        match unsafe { wanted.cast::<Wanted>().as_mut() } {
            // SAFETY: `params` are OpenSSL's.
            Some(wanted) => unsafe { apply(wanted, params) },
            None => 0,
        }
    })
}

/// # Safety
/// `params` is null or a list of OpenSSL's.
unsafe fn apply(wanted: &mut Wanted, params: *mut Param) -> c_int {
    let choice = &mut wanted.choice;
    let mut is_right = true;
    let take = |name: &CStr, param: &mut Param| {
        // SAFETY: the parameter is OpenSSL's. A number stands for itself in a text.
        let value = unsafe {
            param
                .as_text()
                .or_else(|| param.as_integer().map(|it| it.to_string()))
        };
        is_right &= match (name.to_bytes(), value) {
            (b"pad-mode", Some(mode)) => choice.set_padding(&mode),
            (b"saltlen", Some(len)) => choice.set_salt(&len),
            (b"mgf1-digest", Some(digest)) => Digest::of_name(&digest) == choice.digest(),
            (b"pad-mode" | b"saltlen" | b"mgf1-digest", None) => false,
            _ => true,
        };
    };
    // SAFETY: as the caller says.
    unsafe { each(params, take) };
    if !is_right {
        let what = "a padding that TLS does not have";
        wanted.core.raise(reason::REFUSED, what);
    }
    c_int::from(is_right)
}

unsafe extern "C" fn sign(
    wanted: *mut c_void,
    to: *mut c_uchar,
    len: *mut usize,
    room: usize,
    message: *const c_uchar,
    message_len: usize,
) -> c_int {
    guard(0, || {
        // SAFETY: as in `begin`; `len` points to a length.
        let (wanted, len) = match unsafe { (wanted.cast::<Wanted>().as_ref(), len.as_mut()) } {
            (Some(wanted), Some(len)) => (wanted, len),
            _ => return 0,
        };
        let Some(key) = &wanted.key else {
            return 0;
        };
        if to.is_null() {
            *len = key.public.max_signature();
            return 1;
        }
        let message = if message.is_null() {
            &[]
        } else {
            // SAFETY: so many bytes are there.
            unsafe { std::slice::from_raw_parts(message, message_len) }
        };
        let Some(scheme) = wanted.choice.scheme(key.public.kind) else {
            wanted
                .core
                .raise(reason::REFUSED, "a padding that TLS does not have");
            return 0;
        };
        match key.client.sign(key.public.id, scheme, message) {
            Ok(signature) if signature.len() <= room => {
                // SAFETY: there is room for it.
                unsafe { std::ptr::copy_nonoverlapping(signature.as_ptr(), to, signature.len()) };
                *len = signature.len();
                1
            }
            Ok(_) => {
                wanted
                    .core
                    .raise(reason::SIGN_FAILED, "the signature is too long");
                0
            }
            Err(error) => {
                wanted.core.raise(reason::SIGN_FAILED, &error.to_string());
                0
            }
        }
    })
}
