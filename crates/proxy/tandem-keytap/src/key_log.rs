//! OpenSSL's key log (`SSL_CTX_set_keylog_callback`): our callback, which is set with a context,
//! and the program's own, which is called first.
//!
//! Is not: what is made of a line (`release`), nor which library a connection is of (`library`).
//!
//! Invariants: the program's callback sees every line that it would see; the program gets its own
//! callback back when it asks.

use std::ffi::{CStr, c_char, c_int, c_long, c_void};
use std::ptr;

use tandem_record_key::{SERVER_RANDOM_LEN, Suite};

use crate::loader::Object;
use crate::openssl::{Connection, Context, Quic};
use crate::release::{End, Handshake, release};
use crate::settings;

/// `SSL_CIPHER`.
#[repr(C)]
struct Cipher([u8; 0]);

/// `SSL_CTX_keylog_cb_func`.
pub(crate) type Callback = unsafe extern "C-unwind" fn(*const Connection, *const c_char);

pub(crate) type Set = unsafe extern "C-unwind" fn(*mut Context, Option<Callback>);
pub(crate) type Get = unsafe extern "C-unwind" fn(*const Context) -> Option<Callback>;
type NewIndex = unsafe extern "C" fn(
    c_int,
    c_long,
    *mut c_void,
    *const c_void,
    *const c_void,
    *const c_void,
) -> c_int;

/// `CRYPTO_EX_INDEX_SSL_CTX` of `<openssl/crypto.h>`.
const OF_CONTEXTS: c_int = 1;

/// The functions that the key log needs.
pub(crate) struct KeyLog {
    ours: Callback,
    set: Set,
    get: Get,
    set_data: unsafe extern "C" fn(*mut Context, c_int, *mut c_void) -> c_int,
    data: unsafe extern "C" fn(*const Context, c_int) -> *mut c_void,
    context: unsafe extern "C" fn(*const Connection) -> *mut Context,
    quic: Quic,
    is_server: unsafe extern "C" fn(*const Connection) -> c_int,
    pending_cipher: unsafe extern "C" fn(*const Connection) -> *const Cipher,
    number: unsafe extern "C" fn(*const Cipher) -> u16,
    server_random: unsafe extern "C" fn(*const Connection, *mut u8, usize) -> usize,
    /// Where a context keeps the program's callback.
    index: c_int,
}

impl KeyLog {
    /// With this callback of ours, which lives for ever.
    ///
    /// # Safety
    /// The object is OpenSSL 1.1.1 or 3.x.
    pub(crate) unsafe fn of(object: &Object, ours: Callback) -> Option<Self> {
        // SAFETY: each type is the one that the headers of these versions declare under that name;
        // the functions that an index may have are all left out.
        unsafe {
            let new_index: NewIndex = object.function(c"CRYPTO_get_ex_new_index")?;
            let none = ptr::null();
            Some(Self {
                ours,
                set: object.function(c"SSL_CTX_set_keylog_callback")?,
                get: object.function(c"SSL_CTX_get_keylog_callback")?,
                set_data: object.function(c"SSL_CTX_set_ex_data")?,
                data: object.function(c"SSL_CTX_get_ex_data")?,
                context: object.function(c"SSL_get_SSL_CTX")?,
                quic: Quic::of(object),
                is_server: object.function(c"SSL_is_server")?,
                pending_cipher: object.function(c"SSL_get_pending_cipher")?,
                number: object.function(c"SSL_CIPHER_get_protocol_id")?,
                server_random: object.function(c"SSL_get_server_random")?,
                index: match new_index(OF_CONTEXTS, 0, ptr::null_mut(), none, none, none) {
                    index @ 0.. => index,
                    _ => return None,
                },
            })
        }
    }

    /// Sees to it that connections from this context log their keys here.
    ///
    /// To keep a callback for the first time moves what the context has for programs. So this one
    /// is kept at once, even if there is none: before the context's first connection, no other
    /// thread reads that in a handshake. One that is set later goes to the same place.
    ///
    /// # Safety
    /// A context of this library, which one thread at a time has in hand.
    pub(crate) unsafe fn listen(&self, context: *mut Context) {
        // SAFETY: as the caller promises; the callback lives for ever.
        unsafe {
            if !self.listens(context) && self.keep(context, (self.get)(context)) {
                (self.set)(context, Some(self.ours));
            }
        }
    }

    /// As `SSL_CTX_set_keylog_callback`: what the program wants is called from ours, where ours is
    /// set.
    ///
    /// # Safety
    /// A context of this library, and a callback of the program.
    pub(crate) unsafe fn set(&self, context: *mut Context, callback: Option<Callback>) {
        // SAFETY: as the caller promises.
        unsafe {
            if !(self.listens(context) && self.keep(context, callback)) {
                (self.set)(context, callback);
            }
        }
    }

    /// As `SSL_CTX_get_keylog_callback`.
    ///
    /// # Safety
    /// A context of this library.
    pub(crate) unsafe fn get(&self, context: *const Context) -> Option<Callback> {
        // SAFETY: as the caller promises.
        unsafe {
            if self.listens(context) {
                self.kept(context)
            } else {
                (self.get)(context)
            }
        }
    }

    /// # Safety
    /// A context of this library.
    unsafe fn listens(&self, context: *const Context) -> bool {
        // SAFETY: as the caller promises.
        let set = unsafe { (self.get)(context) };
        set.is_some_and(|callback| ptr::fn_addr_eq(callback, self.ours))
    }

    /// # Safety
    /// A context of this library.
    unsafe fn keep(&self, context: *mut Context, callback: Option<Callback>) -> bool {
        let callback = callback.map_or(ptr::null_mut(), |callback| callback as *mut c_void);
        // SAFETY: as the caller promises; the index is this library's.
        unsafe { (self.set_data)(context, self.index, callback) == 1 }
    }

    /// # Safety
    /// A context of this library.
    unsafe fn kept(&self, context: *const Context) -> Option<Callback> {
        // SAFETY: as the caller promises; what is kept is null or came from `keep`, and a null
        // pointer is no callback (the layout of `Option` of a pointer to a function).
        unsafe { std::mem::transmute((self.data)(context, self.index)) }
    }

    /// The program's own callback for this connection's lines.
    ///
    /// # Safety
    /// A connection of this library.
    pub(crate) unsafe fn own(&self, connection: *const Connection) -> Option<Callback> {
        // SAFETY: as the caller promises.
        unsafe { self.kept((self.context)(connection)) }
    }

    /// There is a line for the key log: hands over the key that follows from it, if one leaves.
    ///
    /// # Safety
    /// A connection of this library, during its handshake.
    pub(crate) unsafe fn release(&self, connection: *const Connection, line: &CStr) -> Option<()> {
        // SAFETY: as the caller promises.
        if unsafe { self.quic.has(connection) } {
            // Its records have keys that follow otherwise (RFC 9001, section 5.1).
            return None;
        }
        let mut server_random = [0; SERVER_RANDOM_LEN];
        // SAFETY: as the caller promises; a cipher is a table of the library; at most as many bytes
        // are written as the array has.
        let (end, number, copied) = unsafe {
            let end = match (self.is_server)(connection) {
                0 => End::Client,
                _ => End::Server,
            };
            let cipher = (self.pending_cipher)(connection);
            if cipher.is_null() {
                return None;
            }
            let place = server_random.as_mut_ptr();
            let copied = (self.server_random)(connection, place, SERVER_RANDOM_LEN);
            (end, (self.number)(cipher), copied)
        };
        if copied != SERVER_RANDOM_LEN {
            return None;
        }
        let handshake = Handshake {
            end,
            suite: Suite::from_number(number)?,
            server_random,
        };
        let outcome = release(settings::socket()?, &handshake, line.to_bytes())?;
        settings::say(format_args!("{outcome}"));
        Some(())
    }
}
