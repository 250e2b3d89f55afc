//! Certificate lists and staples by hand and at random.

use super::*;
use proptest::prelude::*;

#[test]
fn certificates_and_their_places() {
    let body = [0, 0, 10, 0, 0, 3, 1, 2, 3, 0, 0, 1, 9];
    let list = CertificateList::parse(&body).expect("well formed");
    let items: Vec<_> = list.iter().map(|item| (item.der, item.range())).collect();
    assert_eq!(items, [(&[1, 2, 3][..], 6..9), (&[9], 12..13)]);
    assert_eq!(list.range(), 3..13);
    assert!(!list.is_empty());
    let mut again = Vec::new();
    list.write(&mut again);
    assert_eq!(again, body);
}

/// RFC 5246, section 7.4.6: a client without a certificate sends an empty list.
#[test]
fn an_empty_list_is_a_list() {
    let list = CertificateList::parse(&[0, 0, 0]).expect("well formed");
    assert!(list.is_empty());
    assert_eq!(list.iter().next(), None);
}

#[test]
fn lengths_that_do_not_add_up_are_refused() {
    for (body, error) in [
        (&[][..], TlsError::Truncated),
        (&[0, 0], TlsError::Truncated),
        (&[0, 0, 1], TlsError::Truncated),
        (&[0, 0, 0, 0], TlsError::TrailingBytes),
        (&[0, 0, 2, 0, 0], TlsError::Truncated),
        (&[0, 0, 3, 0, 0, 0], TlsError::BadLength),
        (&[0, 0, 4, 0, 0, 2, 1], TlsError::Truncated),
        (&[0, 0, 5, 0, 0, 1, 1, 0], TlsError::Truncated),
        (&[0xff, 0xff, 0xff, 0, 0, 1, 1], TlsError::Truncated),
    ] {
        assert_eq!(CertificateList::parse(body), Err(error), "{body:?}");
    }
}

#[test]
fn a_list_of_tiny_entries_is_bounded() {
    let mut body = Vec::new();
    write_certificates(&mut body, std::iter::repeat_n(&[1][..], MAX_CERTIFICATES))
        .expect("it fits");
    assert_eq!(
        CertificateList::parse(&body)
            .expect("well formed")
            .iter()
            .count(),
        MAX_CERTIFICATES
    );
    body.clear();
    write_certificates(
        &mut body,
        std::iter::repeat_n(&[1][..], MAX_CERTIFICATES + 1),
    )
    .expect("it fits");
    assert_eq!(CertificateList::parse(&body), Err(TlsError::TooMany));
}

#[test]
fn a_write_that_fails_leaves_nothing_behind() {
    let mut out = vec![5];
    let half = vec![0; 1 << 23];
    assert_eq!(
        write_certificates(&mut out, [&half[..], &half]),
        Err(TlsError::FieldTooLong)
    );
    assert_eq!(out, [5]);
}

#[test]
fn staples() {
    let one = [1, 0, 0, 2, 8, 9];
    assert_eq!(
        CertificateStatus::parse(&one),
        Ok(CertificateStatus::Ocsp(&[8, 9]))
    );
    let multi = [2, 0, 0, 8, 0, 0, 2, 8, 9, 0, 0, 0];
    let status = CertificateStatus::parse(&multi).expect("well formed");
    let CertificateStatus::OcspMulti(responses) = status else {
        panic!("{status:?}")
    };
    let items: Vec<_> = responses
        .iter()
        .map(|item| (item.der, item.range()))
        .collect();
    assert_eq!(items, [(&[8, 9][..], 7..9), (&[], 12..12)]);
    for body in [&one[..], &multi] {
        let mut again = Vec::new();
        CertificateStatus::parse(body)
            .expect("well formed")
            .write(&mut again);
        assert_eq!(again, body);
    }
    for (body, error) in [
        (&[][..], TlsError::Truncated),
        (&[1, 0, 0], TlsError::Truncated),
        (&[1, 0, 0, 0], TlsError::BadLength),
        (&[1, 0, 0, 1, 9, 9], TlsError::TrailingBytes),
        (&[2, 0, 0, 2, 0, 0], TlsError::Truncated),
        (&[3, 0, 0, 1, 9], TlsError::UnknownStatusType(3)),
    ] {
        assert_eq!(CertificateStatus::parse(body), Err(error), "{body:?}");
    }
}

proptest! {
    #[test]
    fn what_is_written_parses_as_the_same(
        ders in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..400), 0..5),
    ) {
        let mut body = Vec::new();
        write_certificates(&mut body, ders.iter().map(Vec::as_slice)).expect("it fits");
        let list = CertificateList::parse(&body).expect("well formed");
        let found: Vec<_> = list.iter().map(|item| item.der.to_vec()).collect();
        prop_assert_eq!(found, ders);
        crate::fuzzing::certificate_list(&body);
    }

    #[test]
    fn no_input_panics(bytes in proptest::collection::vec(0..4_u8, 0..60)) {
        crate::fuzzing::certificate_list(&bytes);
    }
}
