//! Unmodified clients shake hands with the origin's TLS, for each suite: here the test itself encrypts what the origin's TLS leaves in its parts.

mod common;

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::thread;

use aes::cipher::{Block, BlockCipherEncrypt as _, KeyInit as _};
use aes::{Aes128Enc, Aes256Enc};
use tandem_split_io::tls::identity::Identity;
use tandem_split_io::tls::parts::Record;
use tandem_split_io::tls::server::{Endpoint, Site};

use common::pki::Pki;
use common::ran;

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\nhello\n";

/// `IV | AES-CBC(content | MAC | padding)` (RFC 5246, 6.2.3.2).
fn sealed(key: &[u8], content_type: u8, mac: &[u8], content: &[u8]) -> Vec<u8> {
    let mut plain = [content, mac].concat();
    let padding = 15 - plain.len() % 16;
    plain.extend(std::iter::repeat_n(padding as u8, padding + 1));
    let mut fragment = vec![0x77; 16];
    for chunk in plain.chunks_exact(16) {
        let mut block: Block<Aes128Enc> = [0; 16].into();
        for (index, to) in block.iter_mut().enumerate() {
            *to = chunk[index] ^ fragment[fragment.len() - 16 + index];
        }
        match key.len() {
            16 => Aes128Enc::new_from_slice(key)
                .expect("a key")
                .encrypt_block(&mut block),
            _ => Aes256Enc::new_from_slice(key)
                .expect("a key")
                .encrypt_block(&mut block),
        }
        fragment.extend_from_slice(&block);
    }
    let mut record = vec![content_type, 3, 3];
    record.extend((fragment.len() as u16).to_be_bytes());
    record.extend(fragment);
    record
}

fn serve(mut stream: TcpStream, site: &Site) {
    let mut endpoint = Endpoint::new(site).expect("random bytes");
    let mut exposed = Vec::new();
    let mut buffer = [0; 4096];
    let mut answered = false;
    loop {
        while let Some(record) = endpoint.poll_record() {
            let bytes = match record {
                Record::Clear(bytes) => bytes,
                Record::Authenticated {
                    key,
                    content_type,
                    mac,
                    content,
                } => {
                    exposed = key.unwrap_or(exposed);
                    sealed(&exposed, content_type, &mac, &content)
                }
            };
            if stream.write_all(&bytes).is_err() {
                return;
            }
        }
        if answered {
            return;
        }
        match stream.read(&mut buffer) {
            Ok(0) | Err(_) => return,
            Ok(len) => {
                if endpoint.receive(&buffer[..len]).is_err() {
                    answered = true;
                }
            }
        }
        if endpoint.received().ends_with(b"\r\n\r\n") {
            endpoint.send(ANSWER).expect("established");
            endpoint.close();
            answered = true;
        }
    }
}

fn start(pki: &Pki) -> SocketAddr {
    let identity = Identity::load(&pki.certificate, &pki.key).expect("a good certificate");
    assert_eq!(identity.host(), "split.test");
    let site = Site::new(&identity).expect("it fits");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound");
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let site = site.clone();
            thread::spawn(move || serve(stream, &site));
        }
    });
    address
}

#[test]
fn curl_gets_the_answer_by_every_suite() {
    let pki = Pki::new();
    let address = start(&pki);
    for suite in [
        "ECDHE-RSA-AES128-SHA",
        "ECDHE-RSA-AES256-SHA",
        "ECDHE-RSA-AES128-SHA256",
        "ECDHE-RSA-AES256-SHA384",
    ] {
        let out = ran(Command::new("curl").args([
            "--silent",
            "--show-error",
            "--noproxy",
            "*",
            "--ciphers",
            &format!("{suite}:@SECLEVEL=0"),
            "--cacert",
            pki.ca(),
            "--resolve",
            &format!("split.test:{}:127.0.0.1", address.port()),
            &format!("https://split.test:{}/", address.port()),
        ]));
        assert_eq!(out.stdout, b"hello\n", "{suite}: {out:?}");
    }
}

#[test]
fn openssl_resumes_a_session_and_is_held_to_the_extended_master_secret() {
    let pki = Pki::new();
    let address = start(&pki);
    let connect = address.to_string();
    let out = ran(Command::new("openssl").args([
        "s_client",
        "-connect",
        &connect,
        "-servername",
        "split.test",
        "-CAfile",
        pki.ca(),
        "-reconnect",
        "-tls1_2",
        "-cipher",
        "ECDHE-RSA-AES128-SHA",
    ]));
    let text = String::from_utf8_lossy(&out.stdout);
    assert!(text.contains("Verify return code: 0 (ok)"), "{text}");
    assert!(text.contains("Extended master secret: yes"), "{text}");
    assert_eq!(text.matches("\nReused, ").count(), 5, "{text}");

    let out = Command::new("openssl")
        .args(["s_client", "-connect", &connect, "-no_ems", "-tls1_2"])
        .output()
        .expect("openssl runs");
    assert!(
        !out.status.success(),
        "without the extended master secret: refused"
    );
}
