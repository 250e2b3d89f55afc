//! `tandem keygen`: the key's form, the file's mode, and that no key is ever overwritten.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::support::common;
use common::{run, tandem};

#[test]
fn a_key_is_64_hexadecimal_digits_and_never_the_same_twice() {
    let first = run(&mut tandem(&["keygen"])).succeeded().to_owned();
    let second = run(&mut tandem(&["keygen"])).succeeded().to_owned();
    assert_ne!(first, second);
    for key in [first, second] {
        let digits = key.strip_suffix('\n').unwrap();
        assert_eq!(digits.len(), 64);
        assert!(
            digits.bytes().all(|byte| byte.is_ascii_hexdigit()),
            "{digits}"
        );
    }
}

#[test]
fn a_key_file_is_its_owners_alone_and_is_not_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("key");
    let path_text = path.to_str().unwrap();

    assert_eq!(run(&mut tandem(&["keygen", path_text])).succeeded(), "");
    let key = fs::read_to_string(&path).unwrap();
    assert_eq!(key.len(), 65);
    assert_eq!(
        fs::metadata(&path).unwrap().permissions().mode() & 0o777,
        0o600
    );

    let again = run(&mut tandem(&["keygen", path_text]));
    assert!(
        again.failed_with(2).contains("not overwritten"),
        "{again:?}"
    );
    assert_eq!(fs::read_to_string(&path).unwrap(), key);
}

#[test]
fn the_folder_of_a_key_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tandem/key");
    run(&mut tandem(&["keygen", path.to_str().unwrap()])).succeeded();
    assert!(path.is_file());
}

#[test]
fn a_folder_in_a_folder_that_is_not_there_is_a_matter_of_usage() {
    let ran = run(&mut tandem(&["keygen", "/nowhere/at/all/key"]));
    assert!(
        ran.failed_with(2).starts_with("/nowhere/at/all/key: "),
        "{ran:?}"
    );
}

#[test]
fn a_keys_names_are_public_and_the_same_each_time() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("key");
    fs::write(&path, "00112233445566778899aabbccddeeff".repeat(2)).unwrap();
    let path = path.to_str().unwrap();
    let printed = run(&mut tandem(&["keygen", "--names", path]))
        .succeeded()
        .to_owned();
    let again = run(&mut tandem(&["keygen", "--names", path]))
        .succeeded()
        .to_owned();
    assert_eq!(printed, again);
    let lines: Vec<&str> = printed.lines().collect();
    assert!(matches!(
        lines[..],
        [client, server] if client.starts_with("client-side ") && server.starts_with("server-side ")
    ));
    assert_ne!(lines[0][12..], lines[1][12..]);
    assert!(!printed.contains("00112233"), "{printed}");
    let none = run(&mut tandem(&["keygen", "--names", "/nowhere/key"]));
    assert!(none.failed_with(2).contains("/nowhere/key"), "{none:?}");
}
