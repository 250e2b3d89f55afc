//! A server that does what a test tells it, and requests written by hand.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::thread;

use super::Site;

/// A server that does with each connection what it is told.
pub(crate) fn server(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound");
    let serve = std::sync::Arc::new(serve);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let serve = std::sync::Arc::clone(&serve);
            thread::spawn(move || serve(stream));
        }
    });
    address
}

/// A request's head, byte by byte, so that nothing of its body is taken.
pub(crate) fn head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && matches!(stream.read(&mut byte), Ok(1)) {
        head.push(byte[0]);
    }
    String::from_utf8_lossy(&head).to_lowercase()
}

/// What `python3` hears after it has said all this at once, on one connection of TLS.
pub(crate) fn said_at_once(site: &Site, text: &[u8]) -> String {
    said(site, &[text], "")
}

/// The same, each part said when the answer before it ends in `answer`. The connection must end in
/// good order, by a close of TLS.
pub(crate) fn said(site: &Site, parts: &[&[u8]], answer: &str) -> String {
    let script = "import ssl, socket, sys\n\
         ca, port, answer = sys.argv[1], int(sys.argv[2]), sys.argv[3].encode()\n\
         context = ssl.create_default_context(cafile=ca)\n\
         tls = context.wrap_socket(socket.create_connection(('127.0.0.1', port)),\n\
         \x20   server_hostname='split.test', suppress_ragged_eofs=False)\n\
         *parts, last = sys.stdin.buffer.read().split(b'\\0')\n\
         heard = b''\n\
         for part in parts:\n\
         \x20   tls.sendall(part)\n\
         \x20   while not heard.endswith(answer):\n\
         \x20       data = tls.recv(65536)\n\
         \x20       if not data: sys.exit('closed early')\n\
         \x20       heard += data\n\
         tls.sendall(last)\n\
         while True:\n\
         \x20   data = tls.recv(65536)\n\
         \x20   if not data: break\n\
         \x20   heard += data\n\
         sys.stdout.buffer.write(heard)\n";
    let mut python = Command::new("python3")
        .args(["-c", script, site.pki.ca()])
        .args([site.volunteer.port().to_string().as_str(), answer])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3 runs");
    let mut input = python.stdin.take().expect("a pipe");
    input.write_all(&parts.join(&b'\0')).expect("it reads");
    drop(input);
    let out = python.wait_with_output().expect("it ends");
    assert!(out.status.success(), "{out:?}");
    String::from_utf8_lossy(&out.stdout).into_owned()
}
