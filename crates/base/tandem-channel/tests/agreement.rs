//! What two ends agree on: the pinned keys, the protocol's name, and the key exchange that it asks
//! for.

use std::sync::Arc;

use rustls::NamedGroup;
use tandem_channel::{
    Acceptor, Admission, ChannelKey, Connector, KeyExchange, Pin, Protocol, holder,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

const CLASSICAL: Protocol = Protocol {
    name: b"test/1",
    key_exchange: KeyExchange::Classical,
};
const HYBRID: Protocol = Protocol {
    name: b"test/1",
    key_exchange: KeyExchange::Hybrid,
};

const OTHER: Protocol = Protocol {
    name: b"test/2",
    key_exchange: KeyExchange::Classical,
};

/// The group that both ends agreed on, after a byte has crossed; an error if they did not agree.
async fn agreed(client: Protocol, server: Protocol) -> std::io::Result<NamedGroup> {
    let own = ChannelKey::fleeting().expect("a key");
    let other = ChannelKey::fleeting().expect("a key");
    let acceptor = Acceptor::new(server, &other, Admission::Any).expect("TLS");
    let connector = Connector::new(client, &own, Pin::to(other.name())).expect("TLS");
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let accepted = tokio::spawn(async move {
        let (stream, _) = listener.accept().await?;
        let sent = Arc::default();
        let mut channel = acceptor.open(stream, Arc::clone(&sent)).await?;
        channel.write_all(b"x").await?;
        channel.flush().await?;
        assert!(sent.load(std::sync::atomic::Ordering::Relaxed) > 1);
        Ok::<_, std::io::Error>(holder(&channel))
    });
    let mut channel = connector.open(TcpStream::connect(address).await?).await?;
    assert_eq!(channel.read_u8().await?, b'x');
    let shown = accepted.await.expect("it does not panic")?;
    assert_eq!(shown, Some(own.name()));
    let group = channel.get_ref().1.negotiated_key_exchange_group();
    Ok(group.expect("the handshake is over").name())
}

#[tokio::test]
async fn the_key_exchange_is_the_one_that_the_protocol_asks_for() {
    let hybrid = agreed(HYBRID, HYBRID).await.expect("they agree");
    assert_eq!(hybrid, NamedGroup::X25519MLKEM768);
    let classical = agreed(CLASSICAL, CLASSICAL).await.expect("they agree");
    assert_eq!(classical, NamedGroup::X25519);
}

#[tokio::test]
async fn a_hybrid_end_does_not_fall_back() {
    assert!(agreed(CLASSICAL, HYBRID).await.is_err());
    assert!(agreed(HYBRID, CLASSICAL).await.is_err());
}

#[tokio::test]
async fn one_service_is_not_taken_for_another() {
    assert!(agreed(CLASSICAL, OTHER).await.is_err());
    assert!(agreed(OTHER, CLASSICAL).await.is_err());
}
