//! A flood from one network leaves everybody else served, at the origin and at a volunteer; and
//! where it is silent, its own neighbours, too.

use std::net::{Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::process::Stdio;

use crate::common::group::{Helper, acquaint};
use crate::common::line::Line;
use crate::common::server::body;
use crate::common::{Site, eventually, ran, value};
use tandem_barnraising::{Peer, PublicKey};
use tandem_channel::{ChannelKey, ClientChannel, Connector, KeyName, Pin};
use tandem_split::Payload;
use tandem_split::message::{Channel, Encodings, Greeting, Message, Miss};
use tandem_split_io::SPLIT;
use tandem_split_io::volunteer::Volunteer;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};

/// Places at whatever is flooded,
const PLACES: usize = 48;
/// those that a /16 of strangers may have of an origin's: two thirds of what is not reserved,
const SHARE: usize = 24;
/// those of a volunteer for other volunteers,
const PEERS: usize = 256;
/// and the connections of a flood.
const FLOOD: u8 = 200;

/// What the channels of a flood do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Nothing, once they are open.
    Silent,
    /// They say what they are there for, and nothing more.
    Greeting,
    /// They ask for something that nobody has.
    Asking,
}

/// From an address of loopback, which is a /8.
async fn connected(from: [u8; 4], to: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().expect("a socket");
    let from = SocketAddr::from((Ipv4Addr::from(from), 0));
    socket.bind(from).expect("an address of this machine");
    socket.connect(to).await.expect("it listens")
}

/// Opens channels to whoever has this key, with another of its own.
fn connector(to: KeyName) -> Connector {
    let key = ChannelKey::fleeting().expect("random bytes");
    Connector::new(SPLIT, &key, Pin::to(to)).expect("TLS")
}

/// Those channels of a flood that are taken, each from its address.
async fn flood(
    to: SocketAddr,
    kind: Kind,
    from: impl Iterator<Item = ([u8; 4], Connector)>,
) -> Vec<ClientChannel> {
    let nowhere = Payload::new(&b"nowhere"[..]).expect("short").name();
    let mut said = Vec::new();
    let greeting = Greeting::new(Channel::Misses, Encodings::DEFAULT);
    Message::Greeting(greeting).write(&mut said);
    // It is answered by as much.
    let mut answer = vec![0; said.len()];
    match kind {
        Kind::Silent => (said, answer) = (Vec::new(), Vec::new()),
        Kind::Greeting => {}
        Kind::Asking => {
            Message::Miss(Miss::Payload(nowhere)).write(&mut said);
            answer.push(0);
        }
    }
    let mut open = Vec::new();
    for (from, connector) in from {
        let stream = connected(from, to).await;
        let Ok(mut channel) = connector.open(stream).await else {
            continue;
        };
        let answered = async {
            channel.write_all(&said).await?;
            channel.flush().await?;
            channel.read_exact(&mut answer).await
        };
        if answered.await.is_ok() {
            open.push(channel);
        }
    }
    open
}

#[test]
fn channels_of_one_network_and_key_leave_the_origin_to_others() {
    for kind in [Kind::Silent, Kind::Greeting, Kind::Asking] {
        let site = Site::with_channels(PLACES);
        let one = connector(site.origin_key);
        let from = (0..FLOOD).map(|subnet| ([127, 9, subnet, 1], one.clone()));
        let open = site.runtime().block_on(flood(site.origin, kind, from));
        // Its volunteer comes from another /16, and for the first time.
        let out = ran(&mut site.curl("/bytes/300000/1"));
        assert!(out.stdout == body(300_000, 1), "{kind:?}");
        let refused = site.origin_counts("tandem_split_origin_refused_channels");
        let displaced = site.origin_counts("tandem_split_origin_displaced_channels");
        match kind {
            Kind::Silent | Kind::Greeting => {
                assert!(displaced > 0, "they made room for each other")
            }
            Kind::Asking => {
                assert!(refused > 0);
                assert!(open.len() <= SHARE, "{}", open.len());
            }
        }
    }
}

#[test]
fn a_key_has_no_more_of_the_origin_by_coming_from_many_networks() {
    let site = Site::with_channels(PLACES);
    let one = connector(site.origin_key);
    let from = (1..=60).map(|network| ([127, network, 0, 1], one.clone()));
    let open = site
        .runtime()
        .block_on(flood(site.origin, Kind::Asking, from));
    assert!(open.len() <= PLACES / 2, "{}", open.len());
    assert!(site.origin_counts("tandem_split_origin_refused_channels") > 0);
}

#[test]
fn a_volunteer_that_has_served_has_a_place_where_strangers_hold_all_of_theirs() {
    let site = Site::with_channels(PLACES);
    let served = || assert!(ran(&mut site.curl("/bytes/300000/1")).stdout == body(300_000, 1));
    served();
    let from = (1..=60).map(|network| ([127, network, 9, 1], connector(site.origin_key)));
    let open = site
        .runtime()
        .block_on(flood(site.origin, Kind::Asking, from));
    assert!(open.len() > PLACES / 2, "{}", open.len());
    assert!(site.origin_counts("tandem_split_origin_refused_channels") > 0);
    served();
}

#[test]
fn who_has_asked_for_something_keeps_its_place_against_its_own_network() {
    let site = Site::with_channels(PLACES);
    // Slowly, so that it goes on behind the flood.
    let mut client = site.curl("/bytes/6000000/1");
    client
        .args(["--limit-rate", "1500k"])
        .stdout(Stdio::piped());
    let client = client.spawn().expect("curl");
    eventually("it has asked", || {
        site.origin_counts("tandem_split_origin_requests") > 0
    });
    let from = (0..FLOOD).map(|_| ([127, 0, 0, 1], connector(site.origin_key)));
    let open = site
        .runtime()
        .block_on(flood(site.origin, Kind::Silent, from));
    assert!(site.origin_counts("tandem_split_origin_displaced_channels") > 0);
    let out = client.wait_with_output().expect("curl ends");
    assert!(out.stdout == body(6_000_000, 1), "{} were open", open.len());
}

#[test]
fn a_client_that_is_slow_to_take_the_end_of_its_answer_keeps_no_place_from_others() {
    let site = Site::with_channels(PLACES);
    assert!(ran(&mut site.curl("/bytes/1000000/1")).stdout == body(1_000_000, 1));
    let sealed = || site.origin_counts("tandem_split_origin_body_bytes");
    let line = Line::to(&site, 20_000);
    let mut curl = site.curl_at(line.address, "/bytes/1000000/1");
    curl.args(["--header", "Connection: close"])
        .stdout(Stdio::piped());
    let client = curl.spawn().expect("curl");
    eventually("all has been said", || sealed() == 2_000_000);
    let flood = |count: u8| {
        let from = (0..count).map(|_| ([127, 0, 0, 1], connector(site.origin_key)));
        site.runtime()
            .block_on(flood(site.origin, Kind::Asking, from))
    };
    // Its neighbours have all that there is, and none of them goes for another.
    let open = flood(FLOOD);
    assert!(open.len() < FLOOD.into());
    eventually("its place is another's", || !flood(1).is_empty());
    line.lets_pass(u64::MAX);
    let out = client.wait_with_output().expect("curl ends");
    assert!(out.stdout == body(1_000_000, 1));
}

#[test]
fn a_member_has_half_of_a_volunteers_port_for_others_and_none_without_a_question() {
    let site = Site::new();
    let group = [Helper::start(&site, None)];
    let key = ChannelKey::fleeting().expect("random bytes");
    let to = group[0].member;
    let member = Peer::at(PublicKey(key.name().bytes()), group[0].peers);
    acquaint(&group, &[member]);
    let pin = Pin::to(KeyName::from_bytes(to.key.0));
    let connector = Connector::new(SPLIT, &key, pin).expect("TLS");
    let flood = |kind, networks: RangeInclusive<u8>| {
        let from = networks.map(|network| ([127, network, 0, 1], connector.clone()));
        site.runtime().block_on(flood(group[0].peers, kind, from))
    };
    let silent = flood(Kind::Greeting, 1..=200);
    let asking = flood(Kind::Asking, 1..=200);
    assert!(silent.len() > PEERS / 2, "they made room for each other");
    assert!(asking.len() <= PEERS / 2, "{}", asking.len());
    assert!(asking.len() > PEERS / 4, "{}", asking.len());
}

#[test]
fn silent_clients_keep_a_volunteer_neither_from_others_nor_from_their_own_address() {
    let site = Site::new();
    let settings = crate::common::volunteer_settings(site.origin, site.origin_key, None);
    let bound = site.runtime().block_on(Volunteer::bind(settings));
    let bound = bound.expect("the volunteer starts").limited_to(PLACES);
    let (address, numbers) = (bound.address().expect("bound"), bound.numbers());
    site.runtime().spawn(bound.serve());
    let silent = site.runtime().block_on(async {
        let mut silent = Vec::new();
        for _ in 0..FLOOD {
            silent.push(connected([127, 9, 0, 1], address).await);
        }
        silent
    });
    for from in ["127.0.0.1", "127.9.0.1"] {
        let mut curl = site.curl_at(address, "/bytes/300000/1");
        let out = ran(curl.args(["--interface", &format!("host!{from}")]));
        assert!(out.stdout == body(300_000, 1), "{from}");
    }
    let displaced = value(&numbers, "tandem_split_volunteer_displaced_clients");
    assert!(displaced > 0, "{} were open", silent.len());
}
