//! The libraries that are found in the process, which of them made a context, and what is
//! registered with it: the extension, and the key log's callback.
//!
//! The extension is registered at the last moment, when the first connection is made from a
//! context: what a program registers itself under the same number comes earlier and stays. All ways
//! from a context to a connection are interposed (`interpose`), so no other thread can be reading a
//! context's list of extensions while it grows: whoever reads it came this way and found it grown.
//! What QUIC has besides since 3.5 (`SSL_new_listener`, `SSL_accept_connection`) is not: a
//! connection of QUIC announces and releases nothing.
//!
//! Invariants: a context is only ever given to functions of the library that made it, reading its
//! method apart. Where that library is known, nothing here takes the dynamic linker's lock, for
//! which new connections and handshakes of all threads would wait.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::key_log::KeyLog;
use crate::loader::Object;
use crate::lock::Lock;
use crate::openssl::{Certificate, Connection, Context, Functions};
use crate::originals::Originals;
use crate::quietly::quietly;
use crate::settings;

/// `SSL_EXT_TLS_ONLY`, `_TLS_IMPLEMENTATION_ONLY` (not DTLS) and `_CLIENT_HELLO`. Not
/// `_TLS1_2_AND_BELOW_ONLY`: whether old versions are possible is asked for each hello, and the one
/// after a HelloRetryRequest has to repeat the first (RFC 8446, section 4.1.2).
const WHERE: c_uint = 0x0001 | 0x0004 | 0x0080;

/// A library with OpenSSL's interface: OpenSSL, or something else with functions of its names.
pub(crate) struct Library {
    object: Object,
    pub(crate) originals: Originals,
    method_of_context: Option<unsafe extern "C" fn(*const Context) -> *const c_void>,
    method_of_connection: Option<unsafe extern "C" fn(*const Connection) -> *const c_void>,
    /// `None` where the interface is not that of OpenSSL 1.1.1 or 3.x.
    functions: Option<Functions>,
    /// `None` also where no key is to leave the program.
    pub(crate) key_log: Option<KeyLog>,
}

/// The libraries that were found, for ever: an entry is set once and never freed.
static KNOWN: [AtomicPtr<Library>; 8] = [const { AtomicPtr::new(ptr::null_mut()) }; 8];

fn known() -> impl Iterator<Item = &'static Library> {
    // SAFETY: null, or from a box that was leaked before it was stored here.
    KNOWN
        .iter()
        .filter_map(|entry| unsafe { entry.load(Ordering::Acquire).as_ref() })
}

impl Library {
    fn new(object: Object) -> Self {
        let functions = Functions::of(&object);
        // SAFETY: both are declared so in all versions; what has the functions is OpenSSL 1.1.1 or
        // 3.x.
        unsafe {
            Self {
                key_log: functions
                    .as_ref()
                    .zip(settings::socket())
                    .and_then(|_| KeyLog::of(&object, logged)),
                originals: Originals::of(&object),
                method_of_context: object.function(c"SSL_CTX_get_ssl_method"),
                method_of_connection: object.function(c"SSL_get_ssl_method"),
                functions,
                object,
            }
        }
    }

    /// Looks for libraries that have been loaded since.
    fn look_for_more() {
        for object in Object::defining(c"SSL_new") {
            if known().any(|library| library.object == object) {
                continue;
            }
            let library = Box::into_raw(Box::new(Self::new(object)));
            let kept = KNOWN.iter().any(|entry| {
                let set = entry.compare_exchange(
                    ptr::null_mut(),
                    library,
                    Ordering::Release,
                    Ordering::Relaxed,
                );
                set.is_ok()
            });
            if !kept {
                // SAFETY: from `into_raw` above, and stored nowhere.
                drop(unsafe { Box::from_raw(library) });
            }
        }
    }

    /// The library for which this holds.
    pub(crate) fn find(owns: impl Fn(&Self) -> bool) -> Option<&'static Self> {
        known().find(|library| owns(library)).or_else(|| {
            Self::look_for_more();
            known().find(|library| owns(library))
        })
    }

    /// Whether this library made the context: its method is a table in the library that made it.
    ///
    /// # Safety
    /// A context of some library.
    pub(crate) unsafe fn made_context(&self, context: *const Context) -> bool {
        // SAFETY: reads a pointer near the start of the context; contexts of all libraries are
        // larger.
        self.method_of_context
            .is_some_and(|method| self.object.contains(unsafe { method(context) }))
    }

    /// Whether this library made the connection.
    ///
    /// # Safety
    /// A connection of some library.
    pub(crate) unsafe fn made_connection(&self, connection: *const Connection) -> bool {
        // SAFETY: as for a context.
        self.method_of_connection
            .is_some_and(|method| self.object.contains(unsafe { method(connection) }))
    }

    /// Sees to it that connections from this context announce, and release their keys.
    ///
    /// # Safety
    /// A context of this library.
    pub(crate) unsafe fn prepare(&'static self, context: *mut Context) {
        static LOCK: Lock = Lock::new();
        if let Some(key_log) = &self.key_log {
            // SAFETY: as the caller promises; one thread at a time.
            LOCK.hold(std::process::id(), || unsafe { key_log.listen(context) });
        }
        let (Some(functions), Some(number)) = (&self.functions, settings::extension()) else {
            return;
        };
        let number = c_uint::from(number);
        let library = ptr::from_ref(self).cast_mut().cast();
        // SAFETY: as the caller promises; one thread at a time, and the callbacks and their
        // argument live for ever.
        LOCK.hold(std::process::id(), || unsafe {
            if (functions.has_extension)(context, number) == 0 {
                (functions.add_extension)(
                    context,
                    number,
                    WHERE,
                    add,
                    free,
                    library,
                    ptr::null(),
                    ptr::null_mut(),
                );
            }
        });
    }
}

/// OpenSSL asks for the extension's body: 1 with one, 0 for none.
unsafe extern "C" fn add(
    connection: *mut Connection,
    _: c_uint,
    _: c_uint,
    body: *mut *const u8,
    len: *mut usize,
    _: *mut Certificate,
    _: usize,
    _: *mut c_int,
    library: *mut c_void,
) -> c_int {
    let announced = quietly(|| {
        // SAFETY: `prepare` registered a library that lives for ever, and the connection is one of
        // that library's.
        let announcement = unsafe {
            let library = library.cast::<Library>().as_ref()?;
            library.functions.as_ref()?.announcement(connection)
        };
        match announcement {
            Ok(body) => {
                settings::say(format_args!("announced {} bytes of references", body.len()));
                Some(body)
            }
            Err(silence) => {
                settings::say(format_args!("announced nothing: {silence}"));
                None
            }
        }
    });
    let Some(announced) = announced else {
        return 0;
    };
    // SAFETY: a new block of that length is filled; OpenSSL gives places for both results, and the
    // block back to `free`.
    unsafe {
        let block = libc::malloc(announced.len()).cast::<u8>();
        if block.is_null() {
            return 0;
        }
        ptr::copy_nonoverlapping(announced.as_ptr(), block, announced.len());
        *body = block;
        *len = announced.len();
    }
    1
}

/// OpenSSL has copied the body.
unsafe extern "C" fn free(
    _: *mut Connection,
    _: c_uint,
    _: c_uint,
    body: *const u8,
    _: *mut c_void,
) {
    // SAFETY: the block that `add` gave, once.
    unsafe { libc::free(body.cast_mut().cast()) };
}

/// OpenSSL has a line for the key log. The program's own callback is called as OpenSSL would call
/// it.
unsafe extern "C-unwind" fn logged(connection: *const Connection, line: *const c_char) {
    // SAFETY: `prepare` set this with a context of a library that was found, and the connection is
    // one of that context's; the line ends with a zero byte and lives during this call.
    unsafe {
        let found = quietly(|| {
            let library = Library::find(|library| library.made_connection(connection))?;
            let key_log = library.key_log.as_ref()?;
            Some((key_log, key_log.own(connection)))
        });
        let Some((key_log, own)) = found else {
            return;
        };
        if let Some(own) = own {
            own(connection, line);
        }
        quietly(|| key_log.release(connection, CStr::from_ptr(line)));
    }
}
