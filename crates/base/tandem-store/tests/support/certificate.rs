//! Builds X.509 certificates for tests: well-formed DER (RFC 5280) with a signature of zeros, since
//! nothing here verifies one.
//!
//! Not a certificate authority. Invariant: the same fields give the same bytes.
#![allow(dead_code, reason = "each test program uses its own part of this")]

/// What may be chosen about a certificate; the rest is fixed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Certificate<'a> {
    /// The issuer's only name.
    pub(crate) issuer: &'a str,
    /// The subject's only name.
    pub(crate) common_name: &'a str,
    /// Alternative names; without any there is no such extension.
    pub(crate) dns_names: &'a [&'a str],
    /// Start of validity as a GeneralizedTime.
    pub(crate) not_before: &'a str,
    /// End of validity as a GeneralizedTime.
    pub(crate) not_after: &'a str,
    /// Tells apart what is otherwise the same.
    pub(crate) serial: u32,
}

impl Default for Certificate<'_> {
    fn default() -> Self {
        Self {
            issuer: "Test Issuer",
            common_name: "Test Subject",
            dns_names: &[],
            not_before: "20200101000000Z",
            not_after: "20991231235959Z",
            serial: 1,
        }
    }
}

impl Certificate<'_> {
    /// The certificate's bytes.
    pub(crate) fn der(&self) -> Vec<u8> {
        // sha256WithRSAEncryption, 1.2.840.113549.1.1.11, and NULL.
        let algorithm = sequence(&[
            value(
                0x06,
                &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x0b],
            ),
            value(0x05, &[]),
        ]);
        // rsaEncryption, 1.2.840.113549.1.1.1, and a key of modulus 0x00c1 and exponent 3.
        let key_algorithm = sequence(&[
            value(
                0x06,
                &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01],
            ),
            value(0x05, &[]),
        ]);
        let key = sequence(&[value(0x02, &[0x00, 0xc1]), value(0x02, &[0x03])]);
        let mut fields = vec![
            value(0xa0, &value(0x02, &[2])),
            value(0x02, &[&[0][..], &self.serial.to_be_bytes()].concat()),
            algorithm.clone(),
            name(self.issuer),
            sequence(&[
                value(0x18, self.not_before.as_bytes()),
                value(0x18, self.not_after.as_bytes()),
            ]),
            name(self.common_name),
            sequence(&[key_algorithm, bit_string(&key)]),
        ];
        if !self.dns_names.is_empty() {
            let names: Vec<Vec<u8>> = self
                .dns_names
                .iter()
                .map(|name| value(0x82, name.as_bytes()))
                .collect();
            // subjectAltName, 2.5.29.17.
            let extension = sequence(&[
                value(0x06, &[0x55, 0x1d, 0x11]),
                value(0x04, &sequence(&names)),
            ]);
            fields.push(value(0xa3, &sequence(&[extension])));
        }
        sequence(&[sequence(&fields), algorithm, bit_string(&[0; 64])])
    }
}

fn value(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len();
    let mut der = vec![tag];
    if length < 0x80 {
        der.push(u8::try_from(length).expect("below 128"));
    } else {
        let bytes = u32::try_from(length)
            .expect("a test's certificate")
            .to_be_bytes();
        let start = bytes
            .iter()
            .position(|&byte| byte != 0)
            .expect("128 or more");
        der.push(0x80 | u8::try_from(bytes.len() - start).expect("four at most"));
        der.extend_from_slice(&bytes[start..]);
    }
    der.extend_from_slice(content);
    der
}

fn sequence(parts: &[Vec<u8>]) -> Vec<u8> {
    value(0x30, &parts.concat())
}

fn bit_string(content: &[u8]) -> Vec<u8> {
    value(0x03, &[&[0][..], content].concat())
}

fn name(common_name: &str) -> Vec<u8> {
    // commonName, 2.5.4.3.
    let attribute = sequence(&[
        value(0x06, &[0x55, 0x04, 0x03]),
        value(0x0c, common_name.as_bytes()),
    ]);
    sequence(&[value(0x31, &attribute)])
}
