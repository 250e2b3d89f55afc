//! What is recognised of a client in its hellos, and what of one is taken for fresh.

use super::*;
use crate::samples::{message, noise, packed, record};
use crate::transcript::Handshake;
use tandem_delta::pieces::gather;

/// A hello with these suites and extensions, each its type and its data.
fn hello(seed: u8, suites: &[u16], extensions: &[(u16, Vec<u8>)]) -> Vec<u8> {
    let mut body = vec![3, 3];
    body.extend(noise(32, seed));
    body.push(32);
    body.extend(noise(32, seed.wrapping_add(1)));
    body.extend((2 * suites.len() as u16).to_be_bytes());
    suites
        .iter()
        .for_each(|suite| body.extend(suite.to_be_bytes()));
    body.extend([1, 0]);
    let block: Vec<u8> = extensions
        .iter()
        .flat_map(|(kind, data)| {
            let length = (data.len() as u16).to_be_bytes();
            [&kind.to_be_bytes()[..], &length, data].concat()
        })
        .collect();
    body.extend((block.len() as u16).to_be_bytes());
    body.extend(block);
    message(1, &body)
}

fn read<T>(stream: &[u8], look: impl FnOnce(Hello<'_>) -> T) -> T {
    let mut handshake = Handshake::new();
    handshake.client_sent(stream);
    look(handshake.hello(stream).expect("a whole hello"))
}

fn client_of(hello: &[u8]) -> Profile {
    read(&record(22, hello), |hello| hello.client)
}

#[test]
fn a_client_is_recognised_by_what_does_not_vary_in_its_hellos() {
    let share = |seed| (51, [&[0, 36, 0, 29, 0, 32][..], &noise(32, seed)].concat());
    let versions = || (43, vec![4, 3, 4, 3, 3]);
    let one = hello(1, &[0x1301, 0xc02f], &[versions(), share(5)]);
    let again = hello(
        9,
        &[0x2a2a, 0x1301, 0xc02f],
        &[(0x3a3a, vec![]), share(7), (21, vec![0; 60]), versions()],
    );
    assert_eq!(client_of(&one), client_of(&again));
    let other_suites = hello(1, &[0xc02f, 0x1301], &[versions(), share(5)]);
    assert_ne!(client_of(&one).suites, client_of(&other_suites).suites);
    let more = hello(1, &[0x1301, 0xc02f], &[versions(), share(5), (5, vec![1])]);
    assert_eq!(client_of(&one).suites, client_of(&more).suites);
    assert_ne!(client_of(&one).extensions, client_of(&more).extensions);
}

#[test]
fn what_is_another_in_each_hello_is_not_taken_for_steady_in_any_records() {
    let (share, steady) = (noise(90, 40), noise(70, 50));
    let extensions = [(10, steady.clone()), (51, share.clone()), (16, vec![7; 9])];
    let message = hello(1, &[0x1301], &extensions);
    for size in [1 << 14, 50] {
        let stream = packed(std::slice::from_ref(&message), size);
        let found = read(&stream, |hello| {
            assert_eq!(hello.bytes, stream);
            gather(&hello.steady, &stream).into_owned()
        });
        let around = [
            // Version; suites and compression methods, the block's length, one extension, and the
            // header of the shares; the last extension.
            &[3, 3][..],
            &[0, 2, 0x13, 1, 1, 0, 0, 181, 0, 10, 0, 70],
            &steady,
            &[0, 51, 0, 90, 0, 16, 0, 9],
            &[7; 9],
        ];
        assert_eq!(found, around.concat(), "{size}");
    }
}

#[test]
fn what_follows_a_hello_is_no_part_of_it() {
    let stream = record(22, &hello(1, &[0x1301], &[]));
    let more = [&stream[..], &record(23, &[1; 30])].concat();
    read(&more, |hello| assert_eq!(hello.bytes, stream));
}
