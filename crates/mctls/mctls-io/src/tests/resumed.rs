//! Legs that are resumed: between parties that know each other, and between no others.

use std::sync::Arc;
use std::time::Duration;

use mctls::config::{PathMode, Right};
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;

use super::legs::shake;
use super::pki::pki;
use super::{
    BODY, Pair, Task, client_settings, forwards, middlebox, middlebox_settings, middlebox_with,
    received, server, session,
};
use crate::tickets::{LegClient, LegServer, MAX_AGE};
use crate::tls::Tls;
use crate::{Backends, Choice, Client, KeyExchange, NextHop, Part, tls};

use Right::{Read, Write};

/// Connects by a middlebox, and has data pass both ways: rights hold, whatever legs are.
async fn connected(client: &Client, first: &str, server: &mut Task<super::Accepted>) -> Pair {
    let stream = TcpStream::connect(first).await.expect("connected");
    let to = server.address.clone();
    let connected = client.connect_over(stream, &to, "server.test").await;
    let mut pair = Pair {
        client: session(connected),
        server: session(server.next().await),
    };
    let sent = pair.client.sender.send(BODY, b"question").await;
    sent.expect("sent");
    assert_eq!(received(&mut pair.server).await.payload, b"question");
    let sent = pair.server.sender.send(BODY, b"answer").await;
    sent.expect("sent");
    assert_eq!(received(&mut pair.client).await.payload, b"answer");
    pair
}

/// Whether the client's and the server's leg to the only middlebox were resumed.
fn resumed(pair: &Pair) -> [bool; 2] {
    [&pair.client, &pair.server].map(|session| session.receiver.resumed() == [true])
}

fn client(via: &str, key_exchange: KeyExchange) -> Client {
    let mut settings = client_settings(&[via], &[[Read, Write]], PathMode::Required);
    settings.key_exchange = key_exchange;
    Client::new(settings).expect("settings that can be used")
}

#[tokio::test]
async fn legs_between_parties_that_know_each_other_are_resumed() {
    for key_exchange in [KeyExchange::Hybrid, KeyExchange::Classical] {
        let mut server = server().await;
        let one = middlebox(1, forwards).await;
        let known = client(&one.address, key_exchange);
        let mut all = Vec::new();
        for _ in 0..3 {
            all.push(resumed(&connected(&known, &one.address, &mut server).await));
        }
        assert_eq!(all, [[false, false], [true, true], [true, true]]);
        // Another client knows nobody; the middlebox knows the server all the same.
        let new = client(&one.address, key_exchange);
        let pair = connected(&new, &one.address, &mut server).await;
        assert_eq!(resumed(&pair), [false, true]);
    }
}

#[tokio::test]
async fn tickets_are_of_no_use_to_others_and_cost_no_session() {
    let mut server = server().await;
    let one = middlebox(1, forwards).await;
    // The same name at the same place, and another certificate: a ticket that it cannot know.
    let settings = super::MiddleboxSettings {
        identity: pki().renewed(),
        ..middlebox_settings(1, forwards)
    };
    let other = middlebox_with(settings).await;
    let known = client(&one.address, KeyExchange::Classical);
    let mut all = Vec::new();
    for first in [&one.address, &other.address, &other.address, &one.address] {
        all.push(resumed(&connected(&known, first, &mut server).await)[0]);
    }
    // The last ticket was the other one's.
    assert_eq!(all, [false, false, true, false]);
}

#[tokio::test]
async fn a_server_behind_the_address_of_another_is_not_taken_for_it() {
    let [mut left, mut right] = [server().await, server().await];
    let addresses = vec![left.address.clone(), right.address.clone()];
    let second = Duration::from_secs(1);
    let backends = Backends::new(addresses, Choice::RoundRobin, 20 * second, second);
    let settings = super::MiddleboxSettings {
        next: NextHop::OneOf(Arc::new(backends)),
        ..middlebox_settings(1, forwards)
    };
    let one = middlebox_with(settings).await;
    let known = client(&one.address, KeyExchange::Classical);
    for _ in 0..2 {
        for server in [&mut left, &mut right] {
            let stream = TcpStream::connect(&one.address).await.expect("connected");
            let named = "203.0.113.1:443";
            let client = known.connect_over(stream, named, "server.test").await;
            let pair = Pair {
                client: session(client),
                server: session(server.next().await),
            };
            assert!(!resumed(&pair)[1], "the ticket was another server's");
        }
    }
}

/// Who verifies otherwise does not take over what another has verified.
#[test]
fn a_ticket_is_for_who_has_verified_the_certificate() {
    let config = tls::middlebox_server(&pki().middlebox(1));
    let server = LegServer::new(config.expect("a configuration"));
    let config = || tls::client_leg(pki().roots(), KeyExchange::Classical);
    let one = LegClient::new(config().expect("a configuration"));
    let other = one.sharing(config().expect("a configuration"));
    let is_resumed = |client: &LegClient| {
        let name = ServerName::try_from("box-1.test").expect("a name");
        let client = client.connect(name, Part::EndToEnd);
        let mut client = client.expect("a session");
        let mut server = server.accept(Part::EndToEnd).expect("a session");
        shake(&mut client, &mut server);
        client.is_resumed()
    };
    assert_eq!([&one, &one, &other].map(is_resumed), [false, true, false]);
}

/// The other side's bound is none of the client's: this one resumes for as long as TLS does.
#[test]
fn a_client_sees_certificates_again_in_time_however_often_it_resumed() {
    let config = tls::middlebox_server(&pki().middlebox(1));
    let config = Arc::new(config.expect("a configuration"));
    let client = tls::client_leg(pki().roots(), KeyExchange::Classical);
    let client = LegClient::new(client.expect("a configuration"));
    let is_resumed = || {
        let name = ServerName::try_from("box-1.test").expect("a name");
        let mut leg = client.connect(name, Part::EndToEnd).expect("a session");
        let mut server = Tls::server(&config, Part::EndToEnd).expect("a session");
        shake(&mut leg, &mut server);
        leg.is_resumed()
    };
    assert!(!is_resumed(), "nothing is known");
    client.age(MAX_AGE / 2);
    assert!(is_resumed(), "by a ticket of the first");
    client.age(MAX_AGE / 2);
    assert!(!is_resumed(), "what came with the second is as old");
}
