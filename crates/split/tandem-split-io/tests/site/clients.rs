//! Unmodified clients get what the server behind the origin says, through a volunteer.

use std::process::Command;

use crate::common::server::body;
use crate::common::{Site, ran, tried};

#[test]
fn curl_gets_every_kind_of_answer_by_every_suite() {
    let site = Site::new();
    for suite in [
        "ECDHE-RSA-AES128-SHA",
        "ECDHE-RSA-AES256-SHA",
        "ECDHE-RSA-AES128-SHA256",
        "ECDHE-RSA-AES256-SHA384",
    ] {
        let out = ran(site
            .curl("/bytes/40000/1")
            .args(["--ciphers", &format!("{suite}:@SECLEVEL=0")]));
        assert!(out.stdout == body(40_000, 1), "{suite}");
    }
    for (path, len, seed) in [
        ("/bytes/0/2", 0, 2),
        ("/bytes/1/3", 1, 3),
        ("/bytes/16384/4", 16384, 4),
        ("/chunked/100000/5", 100_000, 5),
        ("/chunked/3000000/6", 3_000_000, 6),
    ] {
        for round in ["cold", "warm"] {
            let out = ran(&mut site.curl(path));
            assert!(out.stdout == body(len, seed), "{path} {round}");
        }
    }
    let out = ran(site.curl("/bytes/1000/7").arg("--head"));
    let head = String::from_utf8_lossy(&out.stdout).to_lowercase();
    assert!(head.contains("content-length: 1000"), "{head}");
    let missing = tried(site.curl("/nowhere").args(["--write-out", "%{http_code}"]));
    assert_eq!(missing.stdout, b"not here\n404");
    let upload = body(200_000, 8);
    let file = site.pki.path().join("upload");
    std::fs::write(&file, &upload).expect("ours");
    let data = format!("@{}", file.display());
    let out = ran(site.curl("/echo").args(["--data-binary", &data]));
    assert!(out.stdout == upload);
    assert_eq!(
        site.origin_counts("tandem_split_origin_refused_by_clients"),
        0
    );
    assert_eq!(site.origin_counts("tandem_split_origin_forged_records"), 0);
}

#[test]
fn openssl_resumes_a_session_and_is_held_to_the_extended_master_secret() {
    let site = Site::new();
    let connect = site.volunteer.to_string();
    let out = ran(Command::new("openssl")
        .args([
            "s_client",
            "-connect",
            &connect,
            "-servername",
            "split.test",
        ])
        .args(["-CAfile", site.pki.ca(), "-reconnect", "-tls1_2"])
        .args(["-cipher", "ECDHE-RSA-AES128-SHA"]));
    let text = String::from_utf8_lossy(&out.stdout);
    assert!(text.contains("Verify return code: 0 (ok)"), "{text}");
    assert!(text.contains("Extended master secret: yes"), "{text}");
    assert_eq!(text.matches("\nReused, ").count(), 5, "{text}");

    for refused in [
        &["-no_ems", "-tls1_2"][..],
        &["-tls1_3"],
        &["-tls1_2", "-cipher", "ECDHE-RSA-AES128-GCM-SHA256"],
        &["-tls1_2", "-cipher", "AES128-SHA"],
    ] {
        let out = tried(
            Command::new("openssl")
                .args(["s_client", "-connect", &connect])
                .args(refused),
        );
        assert!(!out.status.success(), "{refused:?}");
    }
}

#[test]
fn python_and_gnutls_read_it_too() {
    let site = Site::new();
    let port = site.volunteer.port();
    let script = format!(
        "import ssl, socket, http.client\n\
         context = ssl.create_default_context(cafile={:?})\n\
         sock = socket.create_connection(('127.0.0.1', {port}))\n\
         tls = context.wrap_socket(sock, server_hostname='split.test')\n\
         for path, length in (('/bytes/300000/1', 300000), ('/bytes/300000/1', 300000), ('/bytes/5/2', 5)):\n\
         \x20   connection = http.client.HTTPConnection('split.test', {port})\n\
         \x20   connection.sock = tls\n\
         \x20   connection.request('GET', path)\n\
         \x20   assert len(connection.getresponse().read()) == length\n\
         print(tls.version(), tls.cipher()[0])\n",
        site.pki.ca()
    );
    let out = ran(Command::new("python3").args(["-c", &script]));
    let text = String::from_utf8_lossy(&out.stdout);
    assert!(text.starts_with("TLSv1.2 ECDHE-RSA-AES"), "{text}");

    let get = format!(
        "(printf 'GET /bytes/50/3 HTTP/1.1\\r\\nHost: split.test\\r\\nConnection: close\\r\\n\\r\\n') | \
         gnutls-cli --port {port} --sni-hostname split.test --verify-hostname split.test --x509cafile {} 127.0.0.1",
        site.pki.ca()
    );
    let out = ran(Command::new("sh").args(["-c", &get]));
    let text = String::from_utf8_lossy(&out.stdout);
    assert!(
        text.contains("HTTP/1.1 200 OK") && text.contains("The certificate is trusted"),
        "{text}"
    );
}
