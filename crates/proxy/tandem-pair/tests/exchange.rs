//! Both ends on the loopback interface: the key crosses once, to the one that has the invitation,
//! from the one that it names.

use std::net::SocketAddr;
use std::time::Duration;

use tandem_link::tunnel::Target;
use tandem_pair::{Guest, Handover, Invitation, Inviter, PairError, Received, Stranger, accept};
use tandem_wire::clock::UnixTime;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// For what has to happen soon: generous, since the machine may be busy.
const SOON: Duration = Duration::from_secs(60);

fn handover() -> Handover {
    Handover {
        key: [0x5a; 32].into(),
        port: 4433,
    }
}

async fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("bound");
    (listener, address)
}

fn inviter(address: SocketAddr) -> Inviter {
    Inviter::new(Target::Address(address), UnixTime(u64::MAX)).expect("TLS")
}

/// An end that waits, its invitation, and the strangers that come.
async fn waiting() -> (JoinHandle<Guest>, Invitation, UnboundedReceiver<Stranger>) {
    let (listener, address) = listen().await;
    let inviter = inviter(address);
    let invitation = inviter.invitation().clone();
    let (tell, told) = unbounded_channel();
    let waiting = tokio::spawn(inviter.guest(listener, move |stranger| {
        let _ = tell.send(stranger);
    }));
    (waiting, invitation, told)
}

/// Fetches while the other end hands over.
async fn fetched(waiting: JoinHandle<Guest>, invitation: &Invitation) -> Received {
    let handing = tokio::spawn(async move {
        let guest = waiting.await.expect("it does not panic");
        guest.hand_over(&handover()).await
    });
    let received = accept(invitation).await.expect("it is handed over");
    // Left to itself: it waits for the confirmation.
    drop(handing);
    received
}

#[tokio::test]
async fn the_key_crosses_and_both_ends_know_it() {
    let (waiting, invitation, _) = waiting().await;
    let handing = tokio::spawn(async move {
        let guest = waiting.await.expect("it does not panic");
        assert_eq!(guest.from().ip().to_string(), "127.0.0.1");
        guest.hand_over(&handover()).await
    });
    // As a person would carry it.
    let carried: Invitation = invitation.to_string().parse().expect("whole");
    let received = accept(&carried).await.expect("it is handed over");
    assert_eq!(received.handover, handover());
    assert_eq!(received.peer.to_string(), "127.0.0.1:4433");
    received
        .confirm()
        .await
        .expect("the other end waits for it");
    handing.await.expect("it ends").expect("it was confirmed");
}

#[tokio::test]
async fn an_invitation_works_once() {
    let (waiting, invitation, _) = waiting().await;
    let first = fetched(waiting, &invitation).await;
    // Also before the first one has confirmed.
    let again = accept(&invitation).await.expect_err("it is used up");
    assert!(matches!(again, PairError::Unreachable { .. }), "{again:?}");
    first.confirm().await.expect("the first one is served");
    let again = accept(&invitation).await.expect_err("it is used up");
    assert!(matches!(again, PairError::Unreachable { .. }), "{again:?}");
}

#[tokio::test]
async fn who_has_another_key_gets_nothing_and_gives_nothing() {
    let (listener, address) = listen().await;
    // Another run of the command, or somebody in between: at the invitation's address.
    let invitation = inviter(address).invitation().clone();
    let impostor = inviter(address);
    let waiting = tokio::spawn(impostor.guest(listener, |_| ()));
    let refused = accept(&invitation).await.expect_err("it is not the one");
    assert!(matches!(refused, PairError::WrongKey { .. }), "{refused:?}");
    assert!(!waiting.is_finished(), "the impostor took it for its guest");
    waiting.abort();
}

#[tokio::test]
async fn the_right_key_with_another_secret_is_a_stranger() {
    let (listener, address) = listen().await;
    let asked = inviter(address);
    let stranger = inviter(address);
    // The address and key of the first with the secret of the second: what somebody has who has
    // seen the first one's key cross, but not its invitation.
    let mut data = [asked.invitation(), stranger.invitation()].map(|one| {
        let text = one.to_string();
        let data = text.split_once('/').expect("it has one").1.to_owned();
        data_encoding::BASE32_NOPAD
            .decode(data.to_ascii_uppercase().as_bytes())
            .expect("base32")
    });
    let (first, second) = data.split_at_mut(1);
    first[0][32..48].copy_from_slice(&second[0][32..48]);
    let head = format!("tandem1:{address}");
    let checked: Vec<u8> = [head.as_bytes(), &first[0][..52]].concat();
    let check = <sha2::Sha256 as sha2::Digest>::digest(&checked);
    first[0][52..].copy_from_slice(&check[..4]);
    let text = data_encoding::BASE32_NOPAD.encode(&first[0]);
    let forged: Invitation = format!("{head}/{text}").parse().expect("well formed");

    let (tell, mut told) = unbounded_channel();
    let waiting = tokio::spawn(asked.guest(listener, move |who| {
        let _ = tell.send(who.from);
    }));
    let refused = accept(&forged).await.expect_err("it is not invited");
    assert!(
        matches!(refused, PairError::BrokenOff { .. }),
        "{refused:?}"
    );
    timeout(SOON, told.recv()).await.expect("it is said");
    assert!(!waiting.is_finished(), "it was let in");
    waiting.abort();
}

#[tokio::test]
async fn garbage_and_those_who_say_nothing_do_not_keep_the_guest_away() {
    let (waiting, invitation, mut strangers) = waiting().await;
    let address = invitation.address().to_string();
    let mut silent = Vec::new();
    for _ in 0..8 {
        silent.push(TcpStream::connect(&address).await.expect("it listens"));
    }
    for garbage in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        &[0; 100],
        b"\x16\x03\x01\xff\xff",
    ] {
        let mut stream = TcpStream::connect(&address).await.expect("it listens");
        stream.write_all(garbage).await.expect("it reads");
        stream.shutdown().await.expect("open");
        let mut answer = Vec::new();
        // An alert of TLS at most, or a reset.
        let _ = stream.read_to_end(&mut answer).await;
        assert!(answer.len() < 16, "{answer:?}");
        let told = timeout(SOON, strangers.recv()).await.expect("it is said");
        assert!(told.is_some(), "the end still waits");
    }
    let received = fetched(waiting, &invitation).await;
    received
        .confirm()
        .await
        .expect("the other end waits for it");
}

#[tokio::test]
async fn more_silent_strangers_than_there_are_places_do_not_keep_the_guest_away() {
    let (waiting, invitation, mut strangers) = waiting().await;
    let address = invitation.address().to_string();
    let mut silent = Vec::new();
    for _ in 0..80 {
        silent.push(TcpStream::connect(&address).await.expect("it listens"));
    }
    let received = timeout(SOON, fetched(waiting, &invitation)).await;
    let received = received.expect("it has a place");
    received
        .confirm()
        .await
        .expect("the other end waits for it");
    // It is told of the first of them, which had to go.
    let told = timeout(SOON, strangers.recv()).await.expect("it is said");
    let gone = told.expect("the first").why.to_string();
    assert!(gone.contains("others came"), "{gone}");
}

#[tokio::test]
async fn what_answers_and_is_something_else_is_told_from_nobody() {
    let (listener, address) = listen().await;
    let invitation = inviter(address).invitation().clone();
    let answering = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("it connects");
        let mut asked = [0; 5];
        stream.read_exact(&mut asked).await.expect("a hello");
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await
    });
    let foreign = accept(&invitation).await.expect_err("it is no TLS");
    assert!(matches!(foreign, PairError::Foreign { .. }), "{foreign:?}");
    let _ = answering.await.expect("it does not panic");
    let nobody = accept(&invitation).await.expect_err("nobody listens");
    assert!(
        matches!(nobody, PairError::Unreachable { .. }),
        "{nobody:?}"
    );
}

#[tokio::test]
async fn a_guest_that_goes_without_a_word_leaves_it_unconfirmed() {
    let (waiting, invitation, _) = waiting().await;
    let handing = tokio::spawn(async move {
        let guest = waiting.await.expect("it does not panic");
        guest.hand_over(&handover()).await
    });
    drop(accept(&invitation).await.expect("it is handed over"));
    let unconfirmed = handing.await.expect("it ends").expect_err("no word");
    assert!(
        matches!(unconfirmed, PairError::Unconfirmed { .. }),
        "{unconfirmed:?}"
    );
}

#[tokio::test]
async fn an_end_that_goes_before_the_key_is_sent_is_told_from_one_that_never_was() {
    let (waiting, invitation, _) = waiting().await;
    let going = tokio::spawn(async move { drop(waiting.await.expect("it does not panic")) });
    let broken = accept(&invitation).await.expect_err("no key came");
    assert!(matches!(broken, PairError::BrokenOff { .. }), "{broken:?}");
    going.await.expect("it ends");
}
