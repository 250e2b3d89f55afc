//! The functions that this library stands before, as another object has them.
//!
//! Is not: which object is meant (`library`), nor what is done before a call (`interpose`).
//!
//! Invariant: they are looked up once for each object: a lookup takes the dynamic linker's lock,
//! for which all threads of a program would wait at every new connection.

use std::ffi::{CStr, c_int, c_void};

use crate::key_log::{Get, Set};
use crate::loader::{Object, as_function, next};
use crate::openssl::{Bio, Connection, Context};

type New = unsafe extern "C-unwind" fn(*mut Context) -> *mut Connection;
type SetContext = unsafe extern "C-unwind" fn(*mut Connection, *mut Context) -> *mut Context;
type NewSslBio = unsafe extern "C-unwind" fn(*mut Context, c_int) -> *mut Bio;
pub(crate) type NewBio = unsafe extern "C-unwind" fn(*mut Context) -> *mut Bio;

/// Each `None` where there is no function of that name.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Originals {
    pub(crate) new: Option<New>,
    pub(crate) set_context: Option<SetContext>,
    pub(crate) set_key_log: Option<Set>,
    pub(crate) key_log: Option<Get>,
    pub(crate) new_ssl_bio: Option<NewSslBio>,
    pub(crate) new_connect_bio: Option<NewBio>,
    pub(crate) new_buffered_connect_bio: Option<NewBio>,
}

impl Originals {
    /// Those of an object, or of one that it depends on.
    pub(crate) fn of(object: &Object) -> Self {
        Self::by(|name| object.address(name))
    }

    /// Those that the linker would take if this library were not there, as far as it can say
    /// without knowing the caller.
    pub(crate) fn of_linker() -> Self {
        Self::by(next)
    }

    fn by(address: impl Fn(&CStr) -> *mut c_void) -> Self {
        // SAFETY: each type is the one that the headers of all versions declare under that name.
        unsafe {
            Self {
                new: as_function(address(c"SSL_new")),
                set_context: as_function(address(c"SSL_set_SSL_CTX")),
                set_key_log: as_function(address(c"SSL_CTX_set_keylog_callback")),
                key_log: as_function(address(c"SSL_CTX_get_keylog_callback")),
                new_ssl_bio: as_function(address(c"BIO_new_ssl")),
                new_connect_bio: as_function(address(c"BIO_new_ssl_connect")),
                new_buffered_connect_bio: as_function(address(c"BIO_new_buffer_ssl_connect")),
            }
        }
    }
}
