//! What was said in a connection, as the announcement's tests look at it: hellos, the Certificate
//! message, references.

use std::process::Command;

use tandem_wire::tls::stream::scan::messages;
use tandem_wire::tls::{CertificateList, ClientHello, ContentType, HandshakeType, Records};

use super::{Preload, program, run};

/// Both streams of a connection.
#[derive(Debug)]
pub(crate) struct Conversation {
    pub(crate) client: Vec<u8>,
    pub(crate) server: Vec<u8>,
}

/// The parts of a ClientHello that do not differ from one run of a program to the next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hello {
    version: u16,
    session_id_len: usize,
    cipher_suites: Vec<u8>,
    compression_methods: Vec<u8>,
    /// All of them in order; without the body where that is drawn for each connection, or pads the
    /// hello to a length.
    pub(crate) extensions: Vec<(u16, Vec<u8>)>,
}

/// padding (RFC 7685), whose length follows the others', and key_share, which is drawn.
const PADDING: u16 = 21;
const KEY_SHARE: u16 = 51;

impl Hello {
    fn parse(body: &[u8]) -> Self {
        let hello = ClientHello::parse(body).expect("a well-formed hello");
        let extensions = hello.extensions().map(|block| block.to_pairs());
        let extensions = extensions.unwrap_or_default().into_iter();
        Self {
            version: hello.legacy_version().0,
            session_id_len: hello.session_id().len(),
            cipher_suites: hello.cipher_suites_bytes().to_vec(),
            compression_methods: hello.compression_methods().to_vec(),
            extensions: extensions
                .map(|(number, body)| match number.0 {
                    PADDING | KEY_SHARE => (number.0, Vec::new()),
                    _ => (number.0, body),
                })
                .collect(),
        }
    }

    /// The body of the extension of this number.
    pub(crate) fn extension(&self, number: u16) -> Option<&[u8]> {
        let found = self.extensions.iter().find(|(other, _)| *other == number);
        found.map(|(_, body)| &body[..])
    }
}

impl Conversation {
    /// The client's hellos: one, or two after a HelloRetryRequest.
    #[track_caller]
    pub(crate) fn hellos(&self) -> Vec<Hello> {
        Records::new(&self.client)
            .map_while(Result::ok)
            .filter(|record| record.header.content_type == ContentType::Handshake)
            .filter_map(|record| {
                let fragment = &self.client[record.fragment_range()];
                let (&[kind, high, middle, low], body) = fragment.split_first_chunk()?;
                // An encrypted message begins with any byte, but hardly with one that looks like a
                // hello of just this length.
                let len = u32::from_be_bytes([0, high, middle, low]) as usize;
                (kind == HandshakeType::CLIENT_HELLO.0 && len == body.len())
                    .then(|| Hello::parse(body))
            })
            .collect()
    }

    /// The only hello.
    #[track_caller]
    pub(crate) fn hello(&self) -> Hello {
        let mut hellos = self.hellos();
        assert_eq!(hellos.len(), 1);
        hellos.remove(0)
    }

    /// The random of its hellos.
    #[track_caller]
    pub(crate) fn client_random(&self) -> [u8; 32] {
        last_random(&self.client, HandshakeType::CLIENT_HELLO)
    }

    /// The random of its ServerHello, behind a HelloRetryRequest if there is one.
    #[track_caller]
    pub(crate) fn server_random(&self) -> [u8; 32] {
        last_random(&self.server, HandshakeType::SERVER_HELLO)
    }

    /// The certificates that the client sent in clear, as DER, in their order.
    #[track_caller]
    pub(crate) fn sent(&self) -> Vec<Vec<u8>> {
        let scan = messages(&self.client);
        let message = scan
            .messages
            .iter()
            .find(|message| message.msg_type == HandshakeType::CERTIFICATE)
            .expect("the client was asked for a certificate");
        let body = message.body(&self.client);
        let list = CertificateList::parse(&body).expect("well-formed");
        list.iter().map(|item| item.der.to_vec()).collect()
    }
}

/// The random of the last hello in a stream.
#[track_caller]
fn last_random(stream: &[u8], hello: HandshakeType) -> [u8; 32] {
    let records = Records::new(stream).map_while(Result::ok);
    let fragments = records
        .filter(|record| record.header.content_type == ContentType::Handshake)
        .map(|record| &stream[record.fragment_range()]);
    let last = fragments.filter(|it| it.first() == Some(&hello.0)).last();
    // Behind the message's header and the version.
    let random = last.and_then(|hello| hello[6..].first_chunk());
    *random.expect("there is one")
}

/// What an announcement of these certificates has to say: computed by `openssl`, not by the code
/// under test.
pub(crate) fn references(chain: &[Vec<u8>]) -> Vec<u8> {
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let file = folder.path().join("certificate");
    let mut references = Vec::new();
    for der in chain {
        std::fs::write(&file, der).expect("writable");
        let mut digest: Command = program("openssl", Preload::No);
        let hash = run(digest.args(["dgst", "-sha256", "-binary"]).arg(&file)).stdout;
        references.extend_from_slice(&hash[..16]);
    }
    references
}

/// The body of the one extension that a hello has more than another, if they differ in nothing else
/// but padding.
#[track_caller]
pub(crate) fn differs_by(number: u16, without: &Hello, with: &Hello) -> Vec<u8> {
    let body = with.extension(number).expect("announced").to_vec();
    let mut rest = with.clone();
    rest.extensions.retain(|(other, _)| *other != number);
    let mut without = without.clone();
    for hello in [&mut rest, &mut without] {
        hello.extensions.retain(|(other, _)| *other != PADDING);
    }
    assert_eq!(rest, without);
    body
}
