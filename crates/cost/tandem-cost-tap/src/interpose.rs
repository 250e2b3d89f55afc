//! The functions that this library exports: each stands before OpenSSL's function of its name, and
//! times it as what `entry` says.
//!
//! Types are those of OpenSSL 3.0; 1.1.1 and later versions of 3 have the same ones. Where the
//! function is not found, the answer is that function's for a failure.

#![allow(non_snake_case, reason = "the functions have OpenSSL's names")]
#![allow(
    clippy::too_many_arguments,
    reason = "the functions have OpenSSL's arguments"
)]

use std::ffi::{c_char, c_int, c_long, c_uchar, c_uint, c_void};

use crate::board::{self, timed};
use crate::entry::Entry;
use crate::next::Next;

type Any = *mut c_void;
type Bytes = *mut c_uchar;
type Data = *const c_uchar;
type Length = *mut usize;
type Short = *mut c_int;
type Text = *const c_char;

/// Exports functions, each with the sum that it belongs to and how many bytes it works on.
macro_rules! tap {
    ($($entry:ident, $bytes:expr; $name:ident($($argument:ident: $type:ty),*) -> $result:ty, or $failed:expr;)*) => {$(
        /// Timed.
        ///
        /// # Safety
        /// As the function of this name in OpenSSL.
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C" fn $name($($argument: $type),*) -> $result {
            static NEXT: Next = Next::new(
                // SAFETY: the name has no zero byte but the one behind it.
                unsafe { std::ffi::CStr::from_bytes_with_nul_unchecked(concat!(stringify!($name), "\0").as_bytes()) },
            );
            type Function = unsafe extern "C" fn($($type),*) -> $result;
            // SAFETY: declared so in OpenSSL's headers; called as the caller calls this.
            unsafe {
                match NEXT.find::<Function>() {
                    Some(function) => timed(Entry::$entry, $bytes, || function($($argument),*)),
                    None => $failed,
                }
            }
        }
    )*};
}

/// A length that may be below zero where the caller is at fault.
fn length(number: impl TryInto<usize>) -> usize {
    number.try_into().unwrap_or(0)
}

const NULL: Any = std::ptr::null_mut();

// What programs call of libssl.
tap! {
    Handshake, 0; SSL_do_handshake(ssl: Any) -> c_int, or -1;
    Handshake, 0; SSL_accept(ssl: Any) -> c_int, or -1;
    Read, 0; SSL_read(ssl: Any, to: Any, size: c_int) -> c_int, or -1;
    Read, 0; SSL_read_ex(ssl: Any, to: Any, size: usize, read: Length) -> c_int, or 0;
    Read, 0; SSL_read_early_data(ssl: Any, to: Any, size: usize, read: Length) -> c_int, or 0;
    Read, 0; SSL_peek(ssl: Any, to: Any, size: c_int) -> c_int, or -1;
    Write, length(size); SSL_write(ssl: Any, from: Any, size: c_int) -> c_int, or -1;
    Write, size; SSL_write_ex(ssl: Any, from: Any, size: usize, written: Length) -> c_int, or 0;
    Other, 0; SSL_shutdown(ssl: Any) -> c_int, or -1;
    Other, 0; SSL_new(context: Any) -> Any, or NULL;
    Other, 0; SSL_free(ssl: Any) -> (), or ();
}

// The server's key.
tap! {
    PrivateKey, length(size); EVP_DigestSign(context: Any, to: Bytes, to_size: Length, from: Data, size: usize) -> c_int, or 0;
    PrivateKey, 0; EVP_DigestSignInit_ex(context: Any, key_context: *mut Any, digest: Text, library: Any, query: Text, key: Any, parameters: Any) -> c_int, or 0;
    PrivateKey, 0; EVP_DigestSignFinal(context: Any, to: Bytes, to_size: Length) -> c_int, or 0;
    PrivateKey, 0; EVP_PKEY_sign(context: Any, to: Bytes, to_size: Length, from: Data, size: usize) -> c_int, or 0;
    PrivateKey, 0; EVP_PKEY_decrypt(context: Any, to: Bytes, to_size: Length, from: Data, size: usize) -> c_int, or 0;
}

// Keys of one connection.
tap! {
    KeyAgreement, 0; EVP_PKEY_keygen_init(context: Any) -> c_int, or 0;
    KeyAgreement, 0; EVP_PKEY_keygen(context: Any, key: *mut Any) -> c_int, or 0;
    KeyAgreement, 0; EVP_PKEY_generate(context: Any, key: *mut Any) -> c_int, or 0;
    KeyAgreement, 0; EVP_PKEY_derive_init(context: Any) -> c_int, or 0;
    KeyAgreement, 0; EVP_PKEY_derive_set_peer(context: Any, peer: Any) -> c_int, or 0;
    KeyAgreement, 0; EVP_PKEY_derive(context: Any, to: Bytes, size: Length) -> c_int, or 0;
    KeyAgreement, 0; EVP_PKEY_encapsulate(context: Any, to: Bytes, to_size: Length, secret: Bytes, size: Length) -> c_int, or 0;
    KeyAgreement, 0; EVP_PKEY_decapsulate(context: Any, to: Bytes, to_size: Length, from: Data, size: usize) -> c_int, or 0;
    KeyAgreement, 0; EVP_PKEY_set1_encoded_public_key(key: Any, from: Data, size: usize) -> c_int, or 0;
    KeyAgreement, 0; EVP_PKEY_get1_encoded_public_key(key: Any, to: *mut Bytes) -> usize, or 0;
    KeyAgreement, 0; EVP_PKEY_CTX_new_from_pkey(library: Any, key: Any, query: Text) -> Any, or NULL;
    KeyAgreement, 0; EVP_PKEY_CTX_new_from_name(library: Any, name: Text, query: Text) -> Any, or NULL;
}

// Certificates.
tap! {
    Certificates, 0; X509_STORE_CTX_init(context: Any, store: Any, leaf: Any, chain: Any) -> c_int, or 0;
    Certificates, 0; X509_verify_cert(context: Any) -> c_int, or 0;
    Certificates, 0; i2d_X509(certificate: Any, to: *mut Bytes) -> c_int, or -1;
    Certificates, 0; d2i_X509(certificate: *mut Any, from: *mut Data, size: c_long) -> Any, or NULL;
}

// Secrets and keys.
tap! {
    KeyDerivation, 0; EVP_KDF_fetch(library: Any, name: Text, query: Text) -> Any, or NULL;
    KeyDerivation, 0; EVP_KDF_CTX_new(function: Any) -> Any, or NULL;
    KeyDerivation, 0; EVP_KDF_derive(context: Any, to: Bytes, size: usize, parameters: Any) -> c_int, or 0;
    KeyDerivation, 0; EVP_KDF_CTX_free(context: Any) -> (), or ();
    KeyDerivation, 0; EVP_Q_mac(library: Any, name: Text, query: Text, algorithm: Text, parameters: Any, key: Any, key_size: usize, from: Data, size: usize, to: Bytes, to_size: usize, written: Length) -> Bytes, or NULL.cast();
}

// Digests.
tap! {
    Digests, 0; EVP_MD_fetch(library: Any, name: Text, query: Text) -> Any, or NULL;
    Digests, 0; EVP_DigestInit_ex(context: Any, digest: Any, engine: Any) -> c_int, or 0;
    Digests, size; EVP_DigestUpdate(context: Any, from: Any, size: usize) -> c_int, or 0;
    Digests, 0; EVP_DigestFinal_ex(context: Any, to: Bytes, size: *mut c_uint) -> c_int, or 0;
    Digests, size; EVP_Digest(from: Any, size: usize, to: Bytes, to_size: *mut c_uint, digest: Any, engine: Any) -> c_int, or 0;
    Digests, 0; EVP_MD_CTX_copy_ex(to: Any, from: Any) -> c_int, or 0;
}

// Tickets. libssl protects records by the functions below that do not say in which direction.
tap! {
    Tickets, 0; EVP_CIPHER_fetch(library: Any, name: Text, query: Text) -> Any, or NULL;
    Tickets, 0; EVP_EncryptInit_ex(context: Any, cipher: Any, engine: Any, key: Data, iv: Data) -> c_int, or 0;
    Tickets, length(size); EVP_EncryptUpdate(context: Any, to: Bytes, to_size: Short, from: Data, size: c_int) -> c_int, or 0;
    Tickets, 0; EVP_EncryptFinal(context: Any, to: Bytes, size: Short) -> c_int, or 0;
    Tickets, 0; EVP_DecryptInit_ex(context: Any, cipher: Any, engine: Any, key: Data, iv: Data) -> c_int, or 0;
    Tickets, length(size); EVP_DecryptUpdate(context: Any, to: Bytes, to_size: Short, from: Data, size: c_int) -> c_int, or 0;
    Tickets, 0; EVP_DecryptFinal(context: Any, to: Bytes, size: Short) -> c_int, or 0;
    Tickets, 0; EVP_MAC_init(context: Any, key: Data, size: usize, parameters: Any) -> c_int, or 0;
    Tickets, size; EVP_MAC_update(context: Any, from: Data, size: usize) -> c_int, or 0;
    Tickets, 0; EVP_MAC_final(context: Any, to: Bytes, size: Length, limit: usize) -> c_int, or 0;
    Tickets, 0; HMAC_Init_ex(context: Any, key: Any, size: c_int, digest: Any, engine: Any) -> c_int, or 0;
    Tickets, size; HMAC_Update(context: Any, from: Data, size: usize) -> c_int, or 0;
    Tickets, 0; HMAC_Final(context: Any, to: Bytes, size: *mut c_uint) -> c_int, or 0;
}

// Records.
tap! {
    Records, 0; EVP_CipherInit_ex(context: Any, cipher: Any, engine: Any, key: Data, iv: Data, encrypts: c_int) -> c_int, or 0;
    Records, length(size); EVP_CipherUpdate(context: Any, to: Bytes, to_size: Short, from: Data, size: c_int) -> c_int, or 0;
    Records, 0; EVP_CipherFinal_ex(context: Any, to: Bytes, size: Short) -> c_int, or 0;
    Records, length(size); EVP_Cipher(context: Any, to: Bytes, from: Data, size: c_uint) -> c_int, or -1;
    Records, 0; EVP_CIPHER_CTX_ctrl(context: Any, kind: c_int, number: c_int, data: Any) -> c_int, or 0;
}

// Random numbers.
tap! {
    Random, length(size); RAND_bytes(to: Bytes, size: c_int) -> c_int, or 0;
    Random, size; RAND_bytes_ex(library: Any, to: Bytes, size: usize, strength: c_uint) -> c_int, or 0;
    Random, size; RAND_priv_bytes_ex(library: Any, to: Bytes, size: usize, strength: c_uint) -> c_int, or 0;
}

// The socket.
tap! {
    Socket, 0; BIO_read(bio: Any, to: Any, size: c_int) -> c_int, or -1;
    Socket, length(size); BIO_write(bio: Any, from: Any, size: c_int) -> c_int, or -1;
    Socket, 0; BIO_ctrl(bio: Any, kind: c_int, number: c_long, data: Any) -> c_long, or 0;
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
    board::start();
}
