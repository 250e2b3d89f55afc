//! The types and numbers of OpenSSL's interface for providers, as far as this one needs them.
//!
//! Is not: a binding to libcrypto, which this library does not link; OpenSSL hands over the
//! functions that a provider may call (`Core`).
//!
//! Specification: the manual pages provider(7), provider-base(7), OSSL_PARAM(3); the numbers are in
//! `openssl/core_dispatch.h` and the same in every OpenSSL 3.

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::ptr;

/// A function of either side; each number stands for one type.
pub(crate) type Function = unsafe extern "C" fn();

/// OSSL_DISPATCH: a function by its number. A table ends with [`Dispatch::END`].
#[repr(C)]
pub(crate) struct Dispatch {
    pub(crate) id: c_int,
    pub(crate) function: Option<Function>,
}

impl Dispatch {
    pub(crate) const END: Self = Self {
        id: 0,
        function: None,
    };
}

/// A row of a table: the function must have this type.
macro_rules! row {
    ($id:expr, $function:expr, fn($($argument:ty),* $(,)?) $(-> $result:ty)?) => {
        $crate::abi::Dispatch {
            id: $id,
            // SAFETY: the type that OpenSSL calls it as is that of its number, which stands here.
            function: Some(unsafe {
                std::mem::transmute::<
                    unsafe extern "C" fn($($argument),*) $(-> $result)?,
                    $crate::abi::Function,
                >($function)
            }),
        }
    };
}
pub(crate) use row;

/// OSSL_ALGORITHM: an implementation by its names. A table ends with [`Algorithm::END`].
#[repr(C)]
pub(crate) struct Algorithm {
    names: *const c_char,
    properties: *const c_char,
    functions: *const Dispatch,
    description: *const c_char,
}

// SAFETY: it points to what is static and never changes.
unsafe impl Sync for Algorithm {}

impl Algorithm {
    pub(crate) const END: Self = Self {
        names: ptr::null(),
        properties: ptr::null(),
        functions: ptr::null(),
        description: ptr::null(),
    };

    pub(crate) const fn new(
        names: &'static CStr,
        properties: &'static CStr,
        functions: &'static [Dispatch],
    ) -> Self {
        Self {
            names: names.as_ptr(),
            properties: properties.as_ptr(),
            functions: functions.as_ptr(),
            description: ptr::null(),
        }
    }
}

/// OSSL_ITEM: a text by its number.
#[repr(C)]
pub(crate) struct Item {
    pub(crate) id: c_uint,
    pub(crate) text: *const c_char,
}

// SAFETY: it points to what is static and never changes.
unsafe impl Sync for Item {}

/// What a parameter holds.
pub(crate) mod kind {
    use std::ffi::c_uint;

    pub(crate) const INTEGER: c_uint = 1;
    pub(crate) const UNSIGNED: c_uint = 2;
    pub(crate) const TEXT: c_uint = 4;
    pub(crate) const BYTES: c_uint = 5;
    pub(crate) const TEXT_POINTER: c_uint = 6;
}

/// Parts of a key that OpenSSL means.
pub(crate) mod select {
    use std::ffi::c_int;

    pub(crate) const PRIVATE_KEY: c_int = 0x01;
    pub(crate) const PUBLIC_KEY: c_int = 0x02;
}

/// OSSL_PARAM: a value by its name, in either direction. A list ends with [`Param::END`].
#[repr(C)]
pub(crate) struct Param {
    key: *const c_char,
    kind: c_uint,
    data: *mut c_void,
    size: usize,
    returned: usize,
}

// SAFETY: those that are static are descriptions, without data.
unsafe impl Sync for Param {}

impl Param {
    pub(crate) const END: Self = Self {
        key: ptr::null(),
        kind: 0,
        data: ptr::null_mut(),
        size: 0,
        returned: 0,
    };

    /// Says that there is a parameter of this name.
    pub(crate) const fn described(key: &'static CStr, kind: c_uint) -> Self {
        Self {
            key: key.as_ptr(),
            kind,
            data: ptr::null_mut(),
            size: 0,
            returned: usize::MAX,
        }
    }

    /// With these bytes, for as long as they are there. Whoever gets it does not write.
    pub(crate) fn of(key: &'static CStr, kind: c_uint, bytes: &[u8]) -> Self {
        Self {
            data: bytes.as_ptr().cast_mut().cast(),
            size: bytes.len(),
            ..Self::described(key, kind)
        }
    }

    /// With an `int`, which C reads where it lies, aligned.
    pub(crate) fn integer(key: &'static CStr, number: &'static c_int) -> Self {
        Self {
            data: (&raw const *number).cast_mut().cast(),
            size: size_of::<c_int>(),
            ..Self::described(key, kind::INTEGER)
        }
    }

    /// With a text. OpenSSL reads up to the zero byte behind it.
    pub(crate) fn text(key: &'static CStr, text: &'static CStr) -> Self {
        Self::of(key, kind::TEXT, text.to_bytes())
    }

    /// An object by the place of its pointer, from which it may be taken.
    pub(crate) fn reference(place: *mut *mut c_void) -> Self {
        Self {
            data: place.cast(),
            size: size_of::<*mut c_void>(),
            ..Self::described(c"reference", kind::BYTES)
        }
    }

    /// The value of a text that OpenSSL gives.
    ///
    /// # Safety
    /// The parameter comes from OpenSSL and points to what it says.
    pub(crate) unsafe fn as_text(&self) -> Option<String> {
        if self.kind != kind::TEXT || self.data.is_null() {
            return None;
        }
        // SAFETY: `size` bytes are there, without the zero byte behind them.
        let bytes = unsafe { std::slice::from_raw_parts(self.data.cast::<u8>(), self.size) };
        let text = bytes.split(|&byte| byte == 0).next()?;
        Some(String::from_utf8_lossy(text).into_owned())
    }

    /// The value of an `int`.
    ///
    /// # Safety
    /// As for [`Param::as_text`].
    pub(crate) unsafe fn as_integer(&self) -> Option<c_int> {
        let is_int = matches!(self.kind, kind::INTEGER | kind::UNSIGNED)
            && self.size == size_of::<c_int>()
            && !self.data.is_null();
        // SAFETY: that many bytes are there; they need not be aligned.
        is_int.then(|| unsafe { self.data.cast::<c_int>().read_unaligned() })
    }

    /// Answers with a number; `false` where there is no room.
    ///
    /// # Safety
    /// As for [`Param::as_text`].
    pub(crate) unsafe fn set_number(&mut self, number: usize) -> bool {
        let Ok(number) = u32::try_from(number) else {
            return false;
        };
        self.returned = size_of::<u32>();
        if self.data.is_null() {
            return true;
        }
        if !matches!(self.kind, kind::INTEGER | kind::UNSIGNED) {
            return false;
        }
        match self.size {
            4 => {
                // SAFETY: four bytes are there.
                unsafe { self.data.cast::<u32>().write_unaligned(number) };
                true
            }
            8 => {
                self.returned = 8;
                // SAFETY: eight bytes are there.
                unsafe { self.data.cast::<u64>().write_unaligned(u64::from(number)) };
                true
            }
            _ => false,
        }
    }

    /// Answers with a text that stays; `false` where it is not wanted so.
    ///
    /// # Safety
    /// As for [`Param::as_text`].
    pub(crate) unsafe fn set_pointer(&mut self, text: &'static CStr) -> bool {
        self.returned = text.count_bytes();
        if self.kind != kind::TEXT_POINTER || self.data.is_null() {
            return false;
        }
        // SAFETY: there is room for a pointer.
        unsafe {
            self.data
                .cast::<*const c_char>()
                .write_unaligned(text.as_ptr())
        };
        true
    }

    /// Answers with bytes; `false` where there is no room, whose size is said then, too. A text has
    /// a zero byte behind it as far as there is room.
    ///
    /// # Safety
    /// As for [`Param::as_text`].
    pub(crate) unsafe fn set_bytes(&mut self, kind: c_uint, bytes: &[u8]) -> bool {
        self.returned = bytes.len();
        if self.data.is_null() {
            return true;
        }
        if self.kind != kind || self.size < bytes.len() {
            return false;
        }
        let to = self.data.cast::<u8>();
        // SAFETY: there is room for them, and they lie elsewhere.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
        if kind == self::kind::TEXT && self.size > bytes.len() {
            // SAFETY: there is room for one byte more.
            unsafe { to.add(bytes.len()).write(0) };
        }
        true
    }
}

/// The parameters of a list, each with its name.
///
/// # Safety
/// The list comes from OpenSSL, ends with an entry without a name, and is not in use elsewhere.
pub(crate) unsafe fn each(list: *mut Param, mut act: impl FnMut(&CStr, &mut Param)) {
    let mut at = list;
    // SAFETY: the list goes on until an entry without a name.
    while let Some(param) = unsafe { at.as_mut() } {
        if param.key.is_null() {
            return;
        }
        // SAFETY: names end with a zero byte.
        act(unsafe { CStr::from_ptr(param.key) }, param);
        // SAFETY: the last entry is behind this one.
        at = unsafe { at.add(1) };
    }
}

/// OSSL_CALLBACK: takes parameters.
pub(crate) type Callback = unsafe extern "C" fn(*const Param, *mut c_void) -> c_int;

type NewError = unsafe extern "C" fn(*const c_void);
type SetError = unsafe extern "C" fn(*const c_void, u32, *const c_char, *mut c_void);
type CoreParams = unsafe extern "C" fn(*const c_void, *mut Param) -> c_int;
type BioGets = unsafe extern "C" fn(*mut c_void, *mut c_char, c_int) -> c_int;
type BioRead = unsafe extern "C" fn(*mut c_void, *mut c_void, usize, *mut usize) -> c_int;

/// What OpenSSL's core does for a provider.
#[derive(Clone, Copy)]
pub(crate) struct Core {
    handle: *const c_void,
    new_error: NewError,
    set_error: SetError,
    params: CoreParams,
    gets: BioGets,
    read: BioRead,
}

// SAFETY: the handle lives as long as the provider, and OpenSSL lets any thread use it.
unsafe impl Send for Core {}
// SAFETY: likewise.
unsafe impl Sync for Core {}

impl Core {
    /// From the core's table; `None` where a function is missing.
    ///
    /// # Safety
    /// Both come from OpenSSL.
    pub(crate) unsafe fn new(handle: *const c_void, table: *const Dispatch) -> Option<Self> {
        let find = |id: c_int| -> Option<Function> {
            let mut at = table;
            loop {
                // SAFETY: the table goes on until the number zero.
                let row = unsafe { at.as_ref() }?;
                match row.id {
                    0 => return None,
                    other if other == id => return row.function,
                    // SAFETY: another row is behind this one.
                    _ => at = unsafe { at.add(1) },
                }
            }
        };
        let (params, new_error, set_error) = (find(2)?, find(5)?, find(7)?);
        let (read, gets) = (find(42)?, find(49)?);
        // SAFETY: these are the types of these numbers, in this order: core_get_params,
        // core_new_error, core_vset_error, BIO_read_ex, BIO_gets.
        unsafe {
            Some(Self {
                handle,
                params: std::mem::transmute::<Function, CoreParams>(params),
                new_error: std::mem::transmute::<Function, NewError>(new_error),
                set_error: std::mem::transmute::<Function, SetError>(set_error),
                gets: std::mem::transmute::<Function, BioGets>(gets),
                read: std::mem::transmute::<Function, BioRead>(read),
            })
        }
    }

    /// Puts an error on OpenSSL's stack of this thread: one of the provider's reasons, and details.
    pub(crate) fn raise(self, reason: u32, details: &str) {
        // A format that names no argument reads none. C passes its `va_list` as a pointer, or in
        // a register where that is all it has; what it points to is not read.
        let mut no_arguments = [0_usize; 8];
        let format = CString::new(details.replace('%', "%%")).unwrap_or_default();
        // SAFETY: the handle is the core's own; the format names no argument.
        unsafe {
            (self.new_error)(self.handle);
            (self.set_error)(
                self.handle,
                reason,
                format.as_ptr(),
                no_arguments.as_mut_ptr().cast(),
            );
        }
    }

    /// The value of this provider's section of openssl.cnf.
    pub(crate) fn setting(self, name: &'static CStr) -> Option<String> {
        let mut value: *const c_char = ptr::null();
        let mut params = [
            Param {
                data: (&raw mut value).cast(),
                size: size_of::<*const c_char>(),
                ..Param::described(name, kind::TEXT_POINTER)
            },
            Param::END,
        ];
        // SAFETY: a list with its end; the first entry has room for a pointer.
        let found = unsafe { (self.params)(self.handle, params.as_mut_ptr()) };
        if found != 1 || value.is_null() {
            return None;
        }
        // SAFETY: the core's own text, which ends with a zero byte.
        let value = unsafe { CStr::from_ptr(value) };
        Some(value.to_string_lossy().into_owned())
    }

    /// The next line, or as much of it as there is room for; `None` at the end.
    ///
    /// # Safety
    /// `file` is a BIO that OpenSSL has handed over.
    pub(crate) unsafe fn line(self, file: *mut c_void, room: &mut [u8]) -> Option<&[u8]> {
        let size = c_int::try_from(room.len()).ok()?;
        // SAFETY: there is room for `size` bytes.
        let read = unsafe { (self.gets)(file, room.as_mut_ptr().cast(), size) };
        let read = usize::try_from(read).ok().filter(|&read| read > 0)?;
        room.get(..read)
    }

    /// What is left of a file, as far as there is room; `None` where there is more.
    ///
    /// # Safety
    /// `file` is a BIO that OpenSSL has handed over.
    pub(crate) unsafe fn rest(self, file: *mut c_void, room: &mut [u8]) -> Option<&[u8]> {
        let mut filled = 0;
        while let Some(free) = room.get_mut(filled..).filter(|free| !free.is_empty()) {
            let mut read = 0;
            // SAFETY: there is room for so many bytes.
            let ended = unsafe {
                (self.read)(file, free.as_mut_ptr().cast(), free.len(), &raw mut read) != 1
            };
            if ended || read == 0 {
                return room.get(..filled);
            }
            filled += read;
        }
        None
    }
}
