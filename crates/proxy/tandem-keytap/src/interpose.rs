//! The functions that this library exports: each stands before OpenSSL's function of its name.
//!
//! Is not: a decision; each prepares the context that it is given (`library`) and calls the
//! function that it stands before.
//!
//! Invariant: the function that is stood before is called, once, with the same arguments, whatever
//! else happens; where there is none, the answer is that function's for a failure.
//! A thread that is cancelled within it unwinds through here as if this library were not there.

use std::ffi::c_int;
use std::ptr;

use crate::key_log::Callback;
use crate::library::Library;
use crate::loader;
use crate::openssl::{Bio, Connection, Context};
use crate::originals::{NewBio, Originals};
use crate::quietly::quietly;
use crate::settings;

/// Prepares the context, if it is one; the library that made it.
///
/// # Safety
/// Null, or a context of some library.
unsafe fn enter(context: *mut Context) -> Option<&'static Library> {
    quietly(|| {
        // SAFETY: as the caller promises; it is prepared by the library that made it.
        unsafe {
            let library = maker(context)?;
            library.prepare(context);
            Some(library)
        }
    })
}

/// The library that made the context, if it is one.
///
/// # Safety
/// Null, or a context of some library.
unsafe fn maker(context: *const Context) -> Option<&'static Library> {
    // SAFETY: not null, so a context.
    quietly(|| unsafe {
        if context.is_null() {
            return None;
        }
        Library::find(|library| library.made_context(context))
    })
}

/// The function that this library stands before: of the library that is meant, or of the likeliest
/// where that is not known.
fn real<F>(library: Option<&Library>, function: impl Fn(&Originals) -> Option<F>) -> Option<F> {
    match library {
        Some(library) => function(&library.originals),
        None => quietly(|| {
            let any = || function(&Library::find(|_| true)?.originals);
            function(&Originals::of_linker()).or_else(any)
        }),
    }
}

/// `SSL_new`.
///
/// # Safety
/// As the function of this name in OpenSSL.
#[unsafe(export_name = "SSL_new")]
pub(crate) unsafe extern "C-unwind" fn ssl_new(context: *mut Context) -> *mut Connection {
    // SAFETY: declared so in all versions; called as the caller calls this.
    unsafe {
        match real(enter(context), |it| it.new) {
            Some(real) => real(context),
            None => ptr::null_mut(),
        }
    }
}

/// `SSL_set_SSL_CTX`.
///
/// # Safety
/// As the function of this name in OpenSSL.
#[unsafe(export_name = "SSL_set_SSL_CTX")]
pub(crate) unsafe extern "C-unwind" fn ssl_set_ssl_ctx(
    connection: *mut Connection,
    context: *mut Context,
) -> *mut Context {
    // SAFETY: declared so in all versions; called as the caller calls this.
    unsafe {
        // Without a context the connection goes back to its first one, which came this way before.
        let library = if !context.is_null() {
            enter(context)
        } else if !connection.is_null() {
            quietly(|| Library::find(|library| library.made_connection(connection)))
        } else {
            None
        };
        match real(library, |it| it.set_context) {
            Some(real) => real(connection, context),
            None => ptr::null_mut(),
        }
    }
}

/// `SSL_CTX_set_keylog_callback`.
///
/// # Safety
/// As the function of this name in OpenSSL.
#[unsafe(export_name = "SSL_CTX_set_keylog_callback")]
pub(crate) unsafe extern "C-unwind" fn set_keylog_callback(
    context: *mut Context,
    callback: Option<Callback>,
) {
    // SAFETY: declared so in all versions; called as the caller calls this.
    unsafe {
        let library = maker(context);
        if let Some(key_log) = library.and_then(|library| library.key_log.as_ref()) {
            key_log.set(context, callback);
        } else if let Some(real) = real(library, |it| it.set_key_log) {
            real(context, callback);
        }
    }
}

/// `SSL_CTX_get_keylog_callback`.
///
/// # Safety
/// As the function of this name in OpenSSL.
#[unsafe(export_name = "SSL_CTX_get_keylog_callback")]
pub(crate) unsafe extern "C-unwind" fn get_keylog_callback(
    context: *const Context,
) -> Option<Callback> {
    // SAFETY: declared so in all versions; called as the caller calls this.
    unsafe {
        let library = maker(context);
        match library.and_then(|library| library.key_log.as_ref()) {
            Some(key_log) => key_log.get(context),
            None => real(library, |it| it.key_log)?(context),
        }
    }
}

/// `BIO_new_ssl`, which makes a connection without calling `SSL_new` by its name.
///
/// # Safety
/// As the function of this name in OpenSSL.
#[unsafe(export_name = "BIO_new_ssl")]
pub(crate) unsafe extern "C-unwind" fn bio_new_ssl(
    context: *mut Context,
    client: c_int,
) -> *mut Bio {
    // SAFETY: declared so in all versions; called as the caller calls this.
    unsafe {
        match real(enter(context), |it| it.new_ssl_bio) {
            Some(real) => real(context, client),
            None => ptr::null_mut(),
        }
    }
}

/// `BIO_new_ssl_connect`, alike.
///
/// # Safety
/// As the function of this name in OpenSSL.
#[unsafe(export_name = "BIO_new_ssl_connect")]
pub(crate) unsafe extern "C-unwind" fn bio_new_ssl_connect(context: *mut Context) -> *mut Bio {
    // SAFETY: declared so in all versions; called as the caller calls this.
    unsafe { new_bio(context, |it| it.new_connect_bio) }
}

/// `BIO_new_buffer_ssl_connect`, alike.
///
/// # Safety
/// As the function of this name in OpenSSL.
#[unsafe(export_name = "BIO_new_buffer_ssl_connect")]
pub(crate) unsafe extern "C-unwind" fn bio_new_buffer_ssl_connect(
    context: *mut Context,
) -> *mut Bio {
    // SAFETY: declared so in all versions; called as the caller calls this.
    unsafe { new_bio(context, |it| it.new_buffered_connect_bio) }
}

/// # Safety
/// As the function, which takes a context and gives a BIO.
unsafe fn new_bio(
    context: *mut Context,
    function: impl Fn(&Originals) -> Option<NewBio>,
) -> *mut Bio {
    // SAFETY: as the caller promises.
    unsafe {
        match real(enter(context), function) {
            Some(real) => real(context),
            None => ptr::null_mut(),
        }
    }
}

/// The linker calls this when it has loaded the library, before the program has threads of its own.
#[cfg(not(test))]
#[used]
// SAFETY: the section holds pointers to functions of this type.
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn() = start;

#[cfg_attr(
    test,
    allow(dead_code, reason = "the linker calls it in the shared object alone")
)]
extern "C" fn start() {
    // None of this library's own panics is expected, and none is to be seen. A Rust program's own
    // hook is another one.
    quietly(|| {
        std::panic::set_hook(Box::new(|_| {}));
        settings::start(loader::privileges());
        Some(())
    });
}
