//! AES in CBC mode under one key.
//!
//! Is: whole blocks in place. Is not: padding, MACs, the choice of an IV.
//!
//! Invariant: constant time: `aes` uses the processor's instructions where it has them, and bit slicing where not.
//!
//! Specifications: FIPS 197; SP 800-38A, section 6.2.

use aes::cipher::{Array, BlockModeDecrypt, BlockModeEncrypt, InnerIvInit, KeyInit};
use aes::{Aes128, Aes256};

use crate::error::Misuse;

/// Length of a block of AES, and of an IV, in bytes.
pub(crate) const BLOCK_LEN: usize = 16;

/// A key schedule. Boxed: it is made once a connection and has some hundreds of bytes.
pub(crate) enum CbcKey {
    Aes128(Box<Aes128>),
    Aes256(Box<Aes256>),
}

impl CbcKey {
    /// A schedule for a key of `expected` bytes, 16 or 32.
    pub(crate) fn new(expected: usize, key: &[u8]) -> Result<Self, Misuse> {
        let wrong = Misuse::KeyLength {
            expected,
            found: key.len(),
        };
        if key.len() != expected {
            return Err(wrong);
        }
        if let Ok(key) = <&[u8; 16]>::try_from(key) {
            return Ok(Self::Aes128(Box::new(Aes128::new(key.into()))));
        }
        let key = <&[u8; 32]>::try_from(key).map_err(|_| wrong)?;
        Ok(Self::Aes256(Box::new(Aes256::new(key.into()))))
    }

    /// Encrypts in place. What lies behind the last whole block stays as it is.
    pub(crate) fn encrypt(&self, iv: &[u8; BLOCK_LEN], bytes: &mut [u8]) {
        let blocks = Array::cast_slice_from_core_mut(bytes.as_chunks_mut().0);
        match self {
            Self::Aes128(key) => {
                cbc::Encryptor::inner_iv_init(key.as_ref(), iv.into()).encrypt_blocks(blocks);
            }
            Self::Aes256(key) => {
                cbc::Encryptor::inner_iv_init(key.as_ref(), iv.into()).encrypt_blocks(blocks);
            }
        }
    }

    /// Decrypts in place. What lies behind the last whole block stays as it is.
    pub(crate) fn decrypt(&self, iv: &[u8; BLOCK_LEN], bytes: &mut [u8]) {
        let blocks = Array::cast_slice_from_core_mut(bytes.as_chunks_mut().0);
        match self {
            Self::Aes128(key) => {
                cbc::Decryptor::inner_iv_init(key.as_ref(), iv.into()).decrypt_blocks(blocks);
            }
            Self::Aes256(key) => {
                cbc::Decryptor::inner_iv_init(key.as_ref(), iv.into()).decrypt_blocks(blocks);
            }
        }
    }
}
