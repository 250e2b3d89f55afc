//! Vectors with their length before them (RFC 8446, section 3.4), written.

use crate::error::TlsError;

pub(super) fn vec8(out: &mut Vec<u8>, bytes: &[u8]) -> Result<(), TlsError> {
    let len = u8::try_from(bytes.len()).map_err(|_| TlsError::FieldTooLong)?;
    out.push(len);
    out.extend_from_slice(bytes);
    Ok(())
}

pub(super) fn vec16(out: &mut Vec<u8>, bytes: &[u8]) -> Result<(), TlsError> {
    let len = u16::try_from(bytes.len()).map_err(|_| TlsError::FieldTooLong)?;
    out.extend_from_slice(&len.to_be_bytes());
    out.extend_from_slice(bytes);
    Ok(())
}

pub(super) fn u24(out: &mut Vec<u8>, number: usize) -> Result<(), TlsError> {
    let number = u32::try_from(number)
        .ok()
        .filter(|number| *number < 1 << 24)
        .ok_or(TlsError::FieldTooLong)?;
    let [_, low @ ..] = number.to_be_bytes();
    out.extend_from_slice(&low);
    Ok(())
}

pub(super) fn vec24(out: &mut Vec<u8>, bytes: &[u8]) -> Result<(), TlsError> {
    u24(out, bytes.len())?;
    out.extend_from_slice(bytes);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_bytes_hold_what_is_below_two_to_the_24th() {
        let mut out = Vec::new();
        u24(&mut out, (1 << 24) - 1).expect("it fits");
        assert_eq!(u24(&mut out, 1 << 24), Err(TlsError::FieldTooLong));
        assert_eq!(out, [0xff; 3]);
    }
}
