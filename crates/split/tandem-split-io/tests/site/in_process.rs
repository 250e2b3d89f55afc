//! The example of a site that is split in process serves curl through a volunteer.

#[path = "../../examples/in_process.rs"]
mod example;

use crate::common::pki::Pki;
use crate::common::{ran, tried, value};

#[test]
fn a_service_in_this_process_is_split() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let pki = Pki::new();
    let listen = "127.0.0.1:0".parse().expect("an address");
    let origin = runtime
        .block_on(example::site(
            pki.certificate.clone(),
            pki.key.clone(),
            listen,
        ))
        .expect("it starts");
    let numbers = origin.numbers();
    let (address, key) = (origin.address().expect("bound"), origin.key());
    runtime.spawn(origin.serve());
    let (volunteer, at_volunteer) = crate::common::start_volunteer(&runtime, address, key, None);
    let curl = |path: &str| crate::common::curl(&pki, volunteer, path);

    assert_eq!(ran(&mut curl("/")).stdout, b"<h1>Split in process</h1>\n");
    for _ in 0..2 {
        assert_eq!(ran(&mut curl("/map")).stdout.len(), 1 << 20);
    }
    let head = ran(curl("/map").arg("--head"));
    let head = String::from_utf8_lossy(&head.stdout).to_lowercase();
    assert!(head.contains("content-length: 1048576"), "{head}");
    let sent = ran(curl("/length")
        .args(["--header", "Transfer-Encoding: chunked"])
        .args(["--data-binary", &format!("@{}", pki.ca())]));
    let len = std::fs::metadata(pki.ca()).expect("a file").len();
    assert_eq!(sent.stdout, format!("{len}\n").into_bytes());
    let missing = tried(curl("/nowhere").args(["--write-out", "%{http_code}"]));
    assert_eq!(missing.stdout, b"not here\n404");

    // One megabyte, in chunks that are all alike: the volunteer asks for one of them, and for the
    // list of their names.
    assert!(value(&numbers, "tandem_split_origin_body_bytes") > 2 << 20);
    assert!(value(&numbers, "tandem_split_origin_sent_bytes") < 100_000);
    assert!(value(&at_volunteer, "tandem_split_volunteer_misses") > 0);
}
