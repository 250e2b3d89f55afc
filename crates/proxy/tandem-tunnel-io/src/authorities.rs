//! Reads the certificates of authorities that the operator gives (`--authorities`).
//!
//! Is not: a check of them: a wrong one costs nothing, since nobody shows it. Invariant: the file
//! is read whole or refused, with what to do.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use data_encoding::BASE64;
use tandem_engine::Authorities;

use crate::error::TunnelError;

/// Bytes of the largest file: all intermediate authorities of the public web take three.
const MAX_FILE: u64 = 16 << 20;

const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
const END: &str = "-----END CERTIFICATE-----";

/// Every certificate in PEM of this file; what is between them does not matter, so a table with
/// certificates in it will do.
///
/// # Errors
/// It cannot be read, is too large, or has no certificate, or half of one.
pub(crate) fn read(path: &Path) -> Result<Authorities, TunnelError> {
    let problem =
        |why: &str| TunnelError::setting("authorities", format!("{}: {why}", path.display()));
    let unreadable = |error: std::io::Error| problem(&error.to_string());
    let file = File::open(path).map_err(unreadable)?;
    let mut text = Vec::new();
    file.take(MAX_FILE + 1)
        .read_to_end(&mut text)
        .map_err(unreadable)?;
    if text.len() as u64 > MAX_FILE {
        return Err(problem("larger than 16 MiB; give it fewer certificates"));
    }
    let ders = certificates(&String::from_utf8_lossy(&text)).ok_or_else(|| {
        problem("a certificate in it is cut off or no Base64; fetch the file again")
    })?;
    Authorities::new(ders)
        .ok_or_else(|| problem("no certificate in PEM is in it; name a file that has some"))
}

/// The certificates in a text; `None` where one of them is not whole.
fn certificates(text: &str) -> Option<Vec<Vec<u8>>> {
    let blocks = text.split(BEGIN).skip(1);
    let decode = |block: &str| {
        let (body, _) = block.split_once(END)?;
        let digits: String = body.split_ascii_whitespace().collect();
        BASE64.decode(digits.as_bytes()).ok()
    };
    blocks.map(decode).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), text).expect("written");
        file
    }

    #[test]
    fn certificates_are_read_out_of_pem_and_out_of_a_table() {
        let one = format!("{BEGIN}\nb25l\n{END}");
        let pem = format!("# one\n{one}\r\n{BEGIN}\r\ndHdvIHR3byB0\r\nd28=\r\n{END}\r\n");
        let table =
            format!("name,pem\n\"A\",\"'{BEGIN}\ndHdvIHR3byB0d28=\n{END}'\"\n\"B\",\"'{one}'\"\n");
        let [pem, table] = [pem, table].map(|text| read(file(&text).path()).expect("read"));
        assert_eq!(pem.count(), 2);
        assert_eq!(pem, table);
    }

    #[test]
    fn a_file_without_whole_certificates_is_refused_with_what_to_do() {
        let cut = format!("{BEGIN}\nb25l\n");
        let noise = format!("{BEGIN}\nb25?\n{END}");
        for (text, expected) in [
            ("", "no certificate in PEM"),
            (&*cut, "cut off"),
            (&*noise, "no Base64"),
        ] {
            let refused = read(file(text).path()).expect_err("nothing to take");
            let refused = refused.to_string();
            assert!(refused.starts_with("authorities: "), "{refused}");
            assert!(refused.contains(expected), "{refused}");
        }
        let refused = read(Path::new("/nowhere/at/all")).expect_err("there is none");
        assert!(refused.to_string().contains("/nowhere/at/all: "));
    }
}
