//! OpenSSL's key management: a key whose private half is at a key server.
//!
//! Is not: a key that can be made, changed, imported, or exported with its private half. A public
//! half can be: OpenSSL compares it with the certificate's.
//!
//! Specification: provider-keymgmt(7).

use std::ffi::{CStr, c_int, c_void};
use std::ptr;
use std::sync::Arc;

use tandem_keyclient::Client;
use tandem_keyserver::KeyKind;

use crate::abi::{Algorithm, Callback, Dispatch, Param, each, kind, row, select};
use crate::guard::guard;
use crate::public_key::{Numbers, PublicKey};

/// A key.
pub(crate) struct Key {
    pub(crate) public: PublicKey,
    pub(crate) client: Client,
}

/// OpenSSL's names of these types of keys: the default provider's, so that what is asked for by
/// them is found here, too.
pub(crate) static ALGORITHMS: [Algorithm; 4] = [
    Algorithm::new(
        c"RSA:rsaEncryption:1.2.840.113549.1.1.1",
        c"provider=tandem",
        &RSA,
    ),
    Algorithm::new(
        c"EC:id-ecPublicKey:1.2.840.10045.2.1",
        c"provider=tandem",
        &EC,
    ),
    Algorithm::new(c"ED25519:1.3.101.112", c"provider=tandem", &ED25519),
    Algorithm::END,
];

macro_rules! functions {
    ($operation:expr) => {
        [
            row!(1, new, fn(*mut c_void) -> *mut c_void),
            row!(8, load, fn(*mut *mut c_void, usize) -> *mut c_void),
            row!(10, free, fn(*mut c_void)),
            row!(11, params, fn(*mut c_void, *mut Param) -> c_int),
            row!(12, described_params, fn(*mut c_void) -> *const Param),
            row!(20, $operation, fn(c_int) -> *const std::ffi::c_char),
            row!(21, has, fn(*const c_void, c_int) -> c_int),
            row!(
                23,
                matches,
                fn(*const c_void, *const c_void, c_int) -> c_int
            ),
            row!(
                42,
                export,
                fn(*mut c_void, c_int, Callback, *mut c_void) -> c_int
            ),
            row!(43, exported, fn(c_int) -> *const Param),
            Dispatch::END,
        ]
    };
}

static RSA: [Dispatch; 11] = functions!(rsa_operation);
static EC: [Dispatch; 11] = functions!(ec_operation);
static ED25519: [Dispatch; 11] = functions!(ed25519_operation);

unsafe extern "C" fn rsa_operation(_: c_int) -> *const std::ffi::c_char {
    c"RSA".as_ptr()
}

unsafe extern "C" fn ec_operation(_: c_int) -> *const std::ffi::c_char {
    c"ECDSA".as_ptr()
}

unsafe extern "C" fn ed25519_operation(_: c_int) -> *const std::ffi::c_char {
    c"ED25519".as_ptr()
}

/// What OpenSSL holds: a key, or room for one. It makes room where it would like to import a key,
/// which cannot be done here; without room it would call that a lack of memory.
struct Holder(Option<Arc<Key>>);

/// The pointer that OpenSSL gets.
pub(crate) fn held(key: Option<Arc<Key>>) -> *mut c_void {
    Box::into_raw(Box::new(Holder(key))).cast()
}

/// The key, where there is one.
///
/// # Safety
/// `key` is null, or a pointer of [`held`] that [`free`] has not got yet.
pub(crate) unsafe fn share(key: *const c_void) -> Option<Arc<Key>> {
    // SAFETY: as the caller says.
    unsafe { key.cast::<Holder>().as_ref() }?.0.clone()
}

unsafe extern "C" fn new(_: *mut c_void) -> *mut c_void {
    guard(ptr::null_mut(), || held(None))
}

/// Takes the key that a decoder has made: the reference is a pointer to its pointer.
unsafe extern "C" fn load(reference: *mut *mut c_void, size: usize) -> *mut c_void {
    if reference.is_null() || size != size_of::<*mut c_void>() {
        return ptr::null_mut();
    }
    // SAFETY: it points into `decoder`, which frees only what is left there.
    unsafe { ptr::replace(reference, ptr::null_mut()) }
}

pub(crate) unsafe extern "C" fn free(key: *mut c_void) {
    guard((), || {
        if !key.is_null() {
            // SAFETY: it comes from `held`; OpenSSL frees it once.
            drop(unsafe { Box::from_raw(key.cast::<Holder>()) });
        }
    });
}

/// The private half counts as there: OpenSSL asks whether it can sign.
unsafe extern "C" fn has(key: *const c_void, _: c_int) -> c_int {
    // SAFETY: a key of this provider.
    guard(0, || c_int::from(unsafe { share(key) }.is_some()))
}

unsafe extern "C" fn matches(one: *const c_void, other: *const c_void, _: c_int) -> c_int {
    guard(0, || {
        // SAFETY: both are keys of this provider.
        let (one, other) = unsafe { (share(one), share(other)) };
        match (one, other) {
            (Some(one), Some(other)) => c_int::from(one.public == other.public),
            _ => 0,
        }
    })
}

static PARAMS: [Param; 6] = [
    Param::described(c"bits", kind::INTEGER),
    Param::described(c"security-bits", kind::INTEGER),
    Param::described(c"max-size", kind::INTEGER),
    Param::described(c"default-digest", kind::TEXT),
    Param::described(c"group", kind::TEXT),
    Param::END,
];

unsafe extern "C" fn described_params(_: *mut c_void) -> *const Param {
    PARAMS.as_ptr()
}

unsafe extern "C" fn params(key: *mut c_void, list: *mut Param) -> c_int {
    guard(0, || {
        // SAFETY: a key of this provider.
        let Some(key) = (unsafe { share(key) }) else {
            return 0;
        };
        let public = &key.public;
        let mut is_right = true;
        let answer = |name: &CStr, param: &mut Param| {
            // SAFETY: the parameter is OpenSSL's.
            is_right &= unsafe {
                match name.to_bytes() {
                    b"bits" => param.set_number(public.bits()),
                    b"security-bits" => param.set_number(public.security_bits()),
                    b"max-size" => param.set_number(public.max_signature()),
                    b"default-digest" => match digest_of(public.kind) {
                        Some(digest) => param.set_bytes(kind::TEXT, digest),
                        None => true,
                    },
                    b"group" => match group_of(public.kind) {
                        Some(group) => param.set_bytes(kind::TEXT, group.to_bytes()),
                        None => true,
                    },
                    _ => true,
                }
            };
        };
        // SAFETY: the list is OpenSSL's.
        unsafe { each(list, answer) };
        c_int::from(is_right)
    })
}

/// The digest of signatures for which none is named.
fn digest_of(kind: KeyKind) -> Option<&'static [u8]> {
    match kind {
        KeyKind::Rsa | KeyKind::P256 => Some(b"SHA256"),
        KeyKind::P384 => Some(b"SHA384"),
        KeyKind::P521 => Some(b"SHA512"),
        KeyKind::Ed25519 => None,
    }
}

/// OpenSSL's name of the curve.
fn group_of(kind: KeyKind) -> Option<&'static CStr> {
    match kind {
        KeyKind::P256 => Some(c"prime256v1"),
        KeyKind::P384 => Some(c"secp384r1"),
        KeyKind::P521 => Some(c"secp521r1"),
        KeyKind::Rsa | KeyKind::Ed25519 => None,
    }
}

static EXPORTED: [Param; 5] = [
    Param::described(c"n", kind::UNSIGNED),
    Param::described(c"e", kind::UNSIGNED),
    Param::described(c"group", kind::TEXT),
    Param::described(c"pub", kind::BYTES),
    Param::END,
];

unsafe extern "C" fn exported(selection: c_int) -> *const Param {
    if selection & select::PRIVATE_KEY == 0 {
        EXPORTED.as_ptr()
    } else {
        ptr::null()
    }
}

/// Hands over the public half. What asks for the private one, too, gets nothing, and signs with
/// this provider instead.
unsafe extern "C" fn export(
    key: *mut c_void,
    selection: c_int,
    callback: Callback,
    argument: *mut c_void,
) -> c_int {
    guard(0, || {
        // SAFETY: a key of this provider.
        let Some(key) = (unsafe { share(key) }) else {
            return 0;
        };
        if selection & select::PRIVATE_KEY != 0 {
            return 0;
        }
        let public = (selection & select::PUBLIC_KEY != 0).then_some(&key.public.numbers);
        let mut list = Vec::new();
        let group = group_of(key.public.kind);
        list.extend(group.map(|group| Param::text(c"group", group)));
        let mut numbers = Vec::new();
        match public {
            Some(Numbers::Rsa { modulus, exponent }) => {
                numbers.extend([(c"n", native(modulus)), (c"e", native(exponent))]);
            }
            Some(Numbers::Point(point)) => list.push(Param::of(c"pub", kind::BYTES, point)),
            None => {}
        }
        list.extend(
            numbers
                .iter()
                .map(|(name, number)| Param::of(name, kind::UNSIGNED, number)),
        );
        list.push(Param::END);
        // SAFETY: a list with its end, whose data outlive the call.
        unsafe { callback(list.as_ptr(), argument) }
    })
}

/// A number in the machine's order of bytes, as parameters have it.
fn native(big_endian: &[u8]) -> Vec<u8> {
    let mut number = big_endian.to_vec();
    if cfg!(target_endian = "little") {
        number.reverse();
    }
    number
}
