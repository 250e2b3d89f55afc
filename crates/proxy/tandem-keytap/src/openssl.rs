//! OpenSSL's ABI: the functions that are called, and what they say of the chain that a client would
//! send.
//!
//! Is: what OpenSSL 1.1.1 and 3.x have in common, looked up at run time. Is not: a decision about
//! what is announced (`announcement`), nor which of several libraries is asked (`library`).
//!
//! Invariant: a connection is left as it was found.

use std::ffi::{c_int, c_long, c_uint, c_ulong, c_void};
use std::ptr;

use crate::announcement::{self, Offer, Silence};
use crate::loader::Object;

/// `SSL_CTX`.
#[repr(C)]
pub(crate) struct Context([u8; 0]);
/// `SSL`.
#[repr(C)]
pub(crate) struct Connection([u8; 0]);
/// `BIO`.
#[repr(C)]
pub(crate) struct Bio([u8; 0]);
/// `X509`.
#[repr(C)]
pub(crate) struct Certificate([u8; 0]);
#[repr(C)]
struct Key([u8; 0]);
#[repr(C)]
struct Stack([u8; 0]);

type Add = unsafe extern "C" fn(
    *mut Connection,
    c_uint,
    c_uint,
    *mut *const u8,
    *mut usize,
    *mut Certificate,
    usize,
    *mut c_int,
    *mut c_void,
) -> c_int;
type Free = unsafe extern "C" fn(*mut Connection, c_uint, c_uint, *const u8, *mut c_void);
type AddExtension = unsafe extern "C" fn(
    *mut Context,
    c_uint,
    c_uint,
    Add,
    Free,
    *mut c_void,
    *const c_void,
    *mut c_void,
) -> c_int;
type IsQuic = unsafe extern "C" fn(*const Connection) -> c_int;
type Control<T> = unsafe extern "C" fn(*mut T, c_int, c_long, *mut c_void) -> c_long;

/// From `<openssl/ssl.h>`, with these values since 1.0.2 or longer.
const SSL_CTRL_MODE: c_int = 33;
const SSL_CTRL_GET_EXTRA_CHAIN_CERTS: c_int = 82;
const SSL_CTRL_CHAIN: c_int = 88;
const SSL_CTRL_BUILD_CERT_CHAIN: c_int = 105;
const SSL_CTRL_GET_CHAIN_CERTS: c_int = 115;
const SSL_CTRL_GET_MIN_PROTO_VERSION: c_int = 130;
const SSL_CTRL_GET_MAX_PROTO_VERSION: c_int = 131;
const SSL_MODE_NO_AUTO_CHAIN: c_long = 8;
const SSL_BUILD_CHAIN_FLAG_IGNORE_ERROR: c_long = 8;

/// Whether a connection is QUIC's: `SSL_is_quic`, since OpenSSL 3.2.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Quic(Option<IsQuic>);

impl Quic {
    /// # Safety
    /// The object is OpenSSL 1.1.1 or 3.x.
    pub(crate) unsafe fn of(object: &Object) -> Self {
        // SAFETY: the type is the one that the headers of these versions declare under that name.
        Self(unsafe { object.function(c"SSL_is_quic") })
    }

    /// OpenSSL calls back while it holds the lock of a connection of QUIC. So this, which takes no
    /// lock, has to be asked before functions that do: `SSL_get_options`, `SSL_ctrl`.
    ///
    /// # Safety
    /// A connection of this library.
    pub(crate) unsafe fn has(self, connection: *const Connection) -> bool {
        // SAFETY: as the caller promises.
        self.0
            .is_some_and(|is_quic| unsafe { is_quic(connection) } != 0)
    }
}

/// The functions that the extension needs.
pub(crate) struct Functions {
    pub(crate) has_extension: unsafe extern "C" fn(*const Context, c_uint) -> c_int,
    pub(crate) add_extension: AddExtension,
    quic: Quic,
    control_context: Control<Context>,
    control: Control<Connection>,
    options: unsafe extern "C" fn(*const Connection) -> c_ulong,
    context: unsafe extern "C" fn(*const Connection) -> *mut Context,
    certificate: unsafe extern "C" fn(*const Connection) -> *mut Certificate,
    private_key: unsafe extern "C" fn(*const Connection) -> *mut Key,
    finished: unsafe extern "C" fn(*const Connection, *mut u8, usize) -> usize,
    stack_len: unsafe extern "C" fn(*const Stack) -> c_int,
    stack_at: unsafe extern "C" fn(*const Stack, c_int) -> *mut Certificate,
    encode: unsafe extern "C" fn(*mut Certificate, *mut *mut u8) -> c_int,
    mark_errors: unsafe extern "C" fn() -> c_int,
    forget_errors: unsafe extern "C" fn() -> c_int,
}

impl Functions {
    pub(crate) fn of(object: &Object) -> Option<Self> {
        // SAFETY: each type is the one that the headers of OpenSSL 1.1.1 and 3.x declare under that
        // name; `SSL_get_options` has 64 bits in 3.x, of which the lower 32 are wanted, and
        // a stack's elements are certificates where this is used.
        unsafe {
            let version: unsafe extern "C" fn() -> c_ulong =
                object.function(c"OpenSSL_version_num")?;
            // 2.x is LibreSSL. From 4.0 on a registered extension that then says nothing can end a
            // handshake with ECH.
            if !matches!(version(), 0x1010_1000..0x1010_2000 | 0x3000_0000..0x4000_0000) {
                return None;
            }
            Some(Self {
                has_extension: object.function(c"SSL_CTX_has_client_custom_ext")?,
                add_extension: object.function(c"SSL_CTX_add_custom_ext")?,
                quic: Quic::of(object),
                control_context: object.function(c"SSL_CTX_ctrl")?,
                control: object.function(c"SSL_ctrl")?,
                options: object.function(c"SSL_get_options")?,
                context: object.function(c"SSL_get_SSL_CTX")?,
                certificate: object.function(c"SSL_get_certificate")?,
                private_key: object.function(c"SSL_get_privatekey")?,
                finished: object.function(c"SSL_get_finished")?,
                stack_len: object.function(c"OPENSSL_sk_num")?,
                stack_at: object.function(c"OPENSSL_sk_value")?,
                encode: object.function(c"i2d_X509")?,
                mark_errors: object.function(c"ERR_set_mark")?,
                forget_errors: object.function(c"ERR_pop_to_mark")?,
            })
        }
    }

    /// What a hello that this connection is about to send announces.
    ///
    /// # Safety
    /// The connection is one of this library's, and this thread's.
    pub(crate) unsafe fn announcement(
        &self,
        connection: *mut Connection,
    ) -> Result<Vec<u8>, Silence> {
        // SAFETY: as the caller promises.
        if unsafe { self.quic.has(connection) } {
            return Err(Silence::Quic);
        }
        // SAFETY: as the caller promises.
        let (certificate, key) = unsafe {
            (
                (self.certificate)(connection),
                (self.private_key)(connection),
            )
        };
        if certificate.is_null() || key.is_null() {
            return Err(Silence::NoCertificate);
        }
        // SAFETY: as the caller promises; these controls take no pointer.
        let offer = unsafe {
            let control = |command| (self.control)(connection, command, 0, ptr::null_mut());
            Offer {
                lowest: control(SSL_CTRL_GET_MIN_PROTO_VERSION),
                highest: control(SSL_CTRL_GET_MAX_PROTO_VERSION),
                options: (self.options)(connection),
            }
        };
        if !offer.shows_certificates() {
            return Err(Silence::NewVersionsOnly);
        }
        let mut nothing = 0;
        // SAFETY: as the caller promises; at most 0 bytes are written.
        if unsafe { (self.finished)(connection, &raw mut nothing, 0) } > 0 {
            return Err(Silence::Renegotiation);
        }
        // SAFETY: as the caller promises; the certificate is the connection's, and its own chain
        // ends before anything else happens to it.
        let chain = unsafe {
            let mut chain = vec![self.der(certificate)];
            chain.extend(self.issuers(connection)?);
            chain
        };
        let chain: Option<Vec<Vec<u8>>> = chain.into_iter().collect();
        announcement::body(&chain.ok_or(Silence::UnknownChain)?)
    }

    /// What follows the client's certificate in its Certificate message: the chain set with the
    /// certificate, else the context's extra certificates, else what OpenSSL finds in the store
    /// of trusted certificates, unless it is told not to.
    ///
    /// # Safety
    /// As for [`Self::announcement`], and a certificate is set.
    unsafe fn issuers(&self, connection: *mut Connection) -> Result<Vec<Option<Vec<u8>>>, Silence> {
        let mut stack: *mut Stack = ptr::null_mut();
        let place = (&raw mut stack).cast();
        // SAFETY: as the caller promises; the two controls that take a pointer write one pointer to
        // it, and what that points to belongs to the connection or its context and outlives
        // this function.
        unsafe {
            (self.control)(connection, SSL_CTRL_GET_CHAIN_CERTS, 0, place);
            if stack.is_null() {
                let context = (self.context)(connection);
                // 1: the extra certificates alone, not the context's chain.
                (self.control_context)(context, SSL_CTRL_GET_EXTRA_CHAIN_CERTS, 1, place);
            }
            if !stack.is_null() {
                return Ok(self.encodings(stack));
            }
            if (self.control)(connection, SSL_CTRL_MODE, 0, ptr::null_mut())
                & SSL_MODE_NO_AUTO_CHAIN
                != 0
            {
                return Ok(Vec::new());
            }
            self.built(connection)
        }
    }

    /// The chain that OpenSSL builds by itself, by letting it build it now and taking the result
    /// out again: later it builds the same.
    ///
    /// # Safety
    /// As for [`Self::issuers`], and no chain is set.
    unsafe fn built(&self, connection: *mut Connection) -> Result<Vec<Option<Vec<u8>>>, Silence> {
        let none: *mut c_void = ptr::null_mut();
        let mut stack: *mut Stack = ptr::null_mut();
        // SAFETY: as the caller promises; the chain lives until it is replaced by none, after it
        // was read.
        unsafe {
            // A chain that does not verify is sent all the same, and nobody is to find its errors.
            (self.mark_errors)();
            let flags = SSL_BUILD_CHAIN_FLAG_IGNORE_ERROR;
            let result = (self.control)(connection, SSL_CTRL_BUILD_CERT_CHAIN, flags, none);
            (self.forget_errors)();
            if result <= 0 {
                return Err(Silence::UnknownChain);
            }
            (self.control)(
                connection,
                SSL_CTRL_GET_CHAIN_CERTS,
                0,
                (&raw mut stack).cast(),
            );
            if stack.is_null() {
                return Err(Silence::UnknownChain);
            }
            let encodings = self.encodings(stack);
            (self.control)(connection, SSL_CTRL_CHAIN, 0, none);
            Ok(encodings)
        }
    }

    /// # Safety
    /// A stack of certificates of this library.
    unsafe fn encodings(&self, stack: *const Stack) -> Vec<Option<Vec<u8>>> {
        // SAFETY: as the caller promises; the index is below the length.
        unsafe {
            (0..(self.stack_len)(stack))
                .map(|index| self.der((self.stack_at)(stack, index)))
                .collect()
        }
    }

    /// # Safety
    /// A certificate of this library.
    unsafe fn der(&self, certificate: *mut Certificate) -> Option<Vec<u8>> {
        // SAFETY: as the caller promises; without a place only the length is computed, and the
        // place has that length then.
        unsafe {
            let len = usize::try_from((self.encode)(certificate, ptr::null_mut())).ok()?;
            let mut der = vec![0; len];
            let mut place = der.as_mut_ptr();
            let written = (self.encode)(certificate, &raw mut place);
            (usize::try_from(written) == Ok(len)).then_some(der)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// How often options were asked for.
    static ASKED: AtomicU32 = AtomicU32::new(0);

    unsafe extern "C" fn yes(_: *const Connection) -> c_int {
        1
    }

    unsafe extern "C" fn no(_: *const Connection) -> c_int {
        0
    }

    /// Without TLS 1.0, 1.1 and 1.2.
    unsafe extern "C" fn options(_: *const Connection) -> c_ulong {
        ASKED.fetch_add(1, Ordering::Relaxed);
        0x0400_0000 | 0x1000_0000 | 0x0800_0000
    }

    unsafe extern "C" fn certificate(_: *const Connection) -> *mut Certificate {
        ptr::dangling_mut()
    }

    unsafe extern "C" fn no_certificate(_: *const Connection) -> *mut Certificate {
        ptr::null_mut()
    }

    unsafe extern "C" fn key(_: *const Connection) -> *mut Key {
        ptr::dangling_mut()
    }

    unsafe extern "C" fn control<T>(_: *mut T, _: c_int, _: c_long, _: *mut c_void) -> c_long {
        0
    }

    // What is not called here.

    unsafe extern "C" fn has_extension(_: *const Context, _: c_uint) -> c_int {
        0
    }

    unsafe extern "C" fn add_extension(
        _: *mut Context,
        _: c_uint,
        _: c_uint,
        _: Add,
        _: Free,
        _: *mut c_void,
        _: *const c_void,
        _: *mut c_void,
    ) -> c_int {
        0
    }

    unsafe extern "C" fn context(_: *const Connection) -> *mut Context {
        ptr::null_mut()
    }

    unsafe extern "C" fn finished(_: *const Connection, _: *mut u8, _: usize) -> usize {
        0
    }

    unsafe extern "C" fn stack_len(_: *const Stack) -> c_int {
        0
    }

    unsafe extern "C" fn stack_at(_: *const Stack, _: c_int) -> *mut Certificate {
        ptr::null_mut()
    }

    unsafe extern "C" fn encode(_: *mut Certificate, _: *mut *mut u8) -> c_int {
        0
    }

    unsafe extern "C" fn mark() -> c_int {
        0
    }

    fn functions() -> Functions {
        Functions {
            has_extension,
            add_extension,
            quic: Quic(Some(no)),
            control_context: control,
            control,
            options,
            context,
            certificate,
            private_key: key,
            finished,
            stack_len,
            stack_at,
            encode,
            mark_errors: mark,
            forget_errors: mark,
        }
    }

    #[test]
    fn options_are_asked_for_last_and_never_of_quic_whose_lock_is_held_then() {
        let silence = |functions: Functions| {
            ASKED.store(0, Ordering::Relaxed);
            // SAFETY: these functions look at no connection.
            let silence = unsafe { functions.announcement(ptr::dangling_mut()) };
            (silence, ASKED.load(Ordering::Relaxed))
        };
        let of_quic = Functions {
            quic: Quic(Some(yes)),
            ..functions()
        };
        assert_eq!(silence(of_quic), (Err(Silence::Quic), 0));
        let without_certificate = Functions {
            certificate: no_certificate,
            ..functions()
        };
        assert_eq!(
            silence(without_certificate),
            (Err(Silence::NoCertificate), 0)
        );
        let before_3_2 = Functions {
            quic: Quic(None),
            ..functions()
        };
        for of_tcp in [functions(), before_3_2] {
            assert_eq!(silence(of_tcp), (Err(Silence::NewVersionsOnly), 1));
        }
    }
}
