//! What sessions carry, who sees what of it, and who may refuse one.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mctls::config::{Configuration, Context, PathMode, Right, Terms};
use mctls::error::{Alert, Policy};
use mctls::party::{ContextId, Direction, Position};
use mctls::receiver::Provenance;
use mctls::record::{MAX_PARTS, MAX_PAYLOAD_LEN};
use tokio::net::TcpStream;

use super::pki::pki;
use super::{
    BODY, HEADERS, Scripted, Seen, client_settings, connect_with, forwards, listen, middlebox,
    middlebox_settings, middlebox_with, pair, received, says, server, server_settings, server_with,
};
use crate::{
    Client, Connected, Consent, Error, Fallback, Middlebox, MiddleboxSettings, Part, Server,
    Service, Timeouts, Verdict,
};

use Right::{None as No, Read, Write};

fn first() -> Position {
    Position::new(1).expect("a position")
}

#[tokio::test]
async fn data_crosses_without_a_middlebox() {
    let mut server = server().await;
    let mut pair = pair(&mut server, &[], &[], PathMode::Off).await;
    pair.client
        .sender
        .send(HEADERS, b"question")
        .await
        .expect("sent");
    assert_eq!(received(&mut pair.server).await.payload, b"question");
    pair.server
        .sender
        .send(BODY, b"answer")
        .await
        .expect("sent");
    assert_eq!(received(&mut pair.client).await.payload, b"answer");
}

#[tokio::test]
async fn each_middlebox_sees_what_it_was_granted_and_no_more() {
    let seen: [Seen; 2] = Default::default();
    let watch = |at: usize| {
        let seen = Arc::clone(&seen[at]);
        move || -> Box<dyn crate::Service> {
            Box::new(Scripted {
                seen: Arc::clone(&seen),
                verdict: Verdict::Forward,
            })
        }
    };
    let one = middlebox(1, watch(0)).await;
    let two = middlebox(2, watch(1)).await;
    let mut server = server().await;
    let via = [one.address.as_str(), two.address.as_str()];
    for path in [PathMode::Off, PathMode::Required] {
        let rights = [[Read, No], [Write, Read]];
        let mut pair = pair(&mut server, &via, &rights, path).await;
        pair.client
            .sender
            .send(HEADERS, b"headers")
            .await
            .expect("sent");
        pair.client.sender.send(BODY, b"body").await.expect("sent");
        for expected in ["headers", "body"] {
            let delivery = received(&mut pair.server).await;
            assert_eq!(delivery.payload, expected.as_bytes());
            assert_eq!(delivery.provenance, Provenance::Original);
        }
        pair.server.sender.send(BODY, b"back").await.expect("sent");
        assert_eq!(received(&mut pair.client).await.payload, b"back");
    }
    let taken = |at: usize| std::mem::take(&mut *seen[at].lock().expect("no panic with it"));
    let headers = (HEADERS, b"headers".to_vec());
    let (body, back) = ((BODY, b"body".to_vec()), (BODY, b"back".to_vec()));
    assert_eq!(taken(0), [headers.clone(), headers.clone()]);
    let all = [headers, body, back];
    assert_eq!(taken(1), [all.clone(), all].concat());
}

#[tokio::test]
async fn a_writers_change_arrives_with_its_name() {
    let parts = vec![b"other ".to_vec(), b"words".to_vec()];
    let one = middlebox(1, move || says(Verdict::Replace(parts.clone()))).await;
    let two = middlebox(2, forwards).await;
    let mut server = server().await;
    let via = [one.address.as_str(), two.address.as_str()];
    for path in [PathMode::Off, PathMode::Required] {
        let rights = [[Write, No], [Read, No]];
        let mut pair = pair(&mut server, &via, &rights, path).await;
        pair.client
            .sender
            .send(HEADERS, b"original")
            .await
            .expect("sent");
        pair.client
            .sender
            .send(BODY, b"untouched")
            .await
            .expect("sent");
        let changed = received(&mut pair.server).await;
        assert_eq!(changed.payload, b"other words");
        assert_eq!(changed.provenance, Provenance::ChangedBy(vec![first()]));
        assert_eq!(
            received(&mut pair.server).await.provenance,
            Provenance::Original
        );
    }
}

#[tokio::test]
async fn a_middlebox_that_blocks_is_named_to_both_ends() {
    let mut one = middlebox(1, || says(Verdict::Block)).await;
    let mut server = server().await;
    let via = [one.address.as_str()];
    let mut pair = pair(&mut server, &via, &[[Read, No]], PathMode::Off).await;
    pair.client
        .sender
        .send(HEADERS, b"GET /forbidden")
        .await
        .expect("sent");
    for session in [&mut pair.client, &mut pair.server] {
        // It stays.
        for _ in 0..2 {
            let received = session.receiver.recv().await;
            let Err(Error::Session(mctls::Error::Policy(ended))) = received else {
                panic!("a decision");
            };
            assert_eq!(ended, Policy::MiddleboxAlert(first(), Alert::Blocked));
        }
    }
    assert!(matches!(one.next().await, Err(Error::Blocked)));
}

#[tokio::test]
async fn a_server_may_reduce_rights_or_refuse_a_session() {
    let one = middlebox(1, || says(Verdict::Replace(vec![b"no".to_vec()]))).await;
    let mut settings = server_settings();
    settings.policy = Arc::new(|terms: &Terms| {
        let reduced = terms.clone().reduced(first(), HEADERS, No);
        Some(reduced)
    });
    let mut server = server_with(settings).await;
    let via = [one.address.as_str()];
    let mut pair = pair(&mut server, &via, &[[Write, No]], PathMode::Off).await;
    pair.client
        .sender
        .send(HEADERS, b"original")
        .await
        .expect("sent");
    assert_eq!(received(&mut pair.server).await.payload, b"original");
    let mut settings = server_settings();
    settings.policy = Arc::new(|_: &Terms| None);
    let mut strict = server_with(settings).await;
    let refused = connect_with(
        client_settings(&via, &[[Write, No]], PathMode::Off),
        &strict.address.clone(),
    )
    .await;
    let refusal = |error| matches!(error, Error::Session(mctls::Error::Policy(Policy::Refused)));
    assert!(refusal(refused.expect_err("it is refused")));
    assert!(refusal(strict.next().await.expect_err("it refuses")));
}

#[tokio::test]
async fn a_client_gives_up_where_the_server_leaves_less_than_it_makes_do_with() {
    let one = middlebox(1, forwards).await;
    let mut server = server_with({
        let mut settings = server_settings();
        settings.policy =
            Arc::new(|terms: &Terms| Some(terms.clone().reduced(first(), HEADERS, No)));
        settings
    })
    .await;
    let mut settings = client_settings(&[&one.address], &[[Read, Read]], PathMode::Off);
    settings.least = vec![vec![Read], vec![No]];
    let error = connect_with(settings, &server.address.clone()).await;
    let Err(Error::Session(mctls::Error::Policy(policy))) = error else {
        panic!("less than it makes do with");
    };
    assert_eq!(policy, Policy::TooLittle(first(), HEADERS));
    let Err(Error::Session(mctls::Error::Policy(told))) = server.next().await else {
        panic!("the client's decision");
    };
    assert_eq!(told, Policy::PeerAlert(Alert::AccessDenied));
}

/// A service that takes part only where it may read headers.
struct Demanding;

impl Service for Demanding {
    fn joined(&mut self, position: Position, configuration: &Configuration) -> Consent {
        let context = configuration.terms.context(HEADERS);
        match context.map(|context| context.right(position)) {
            Some(Read | Write) => Consent::Given,
            Some(No) | None => Consent::Refused,
        }
    }

    fn inspect(&mut self, _: Direction, _: &Context, _: &[u8]) -> Verdict {
        Verdict::Forward
    }
}

#[tokio::test]
async fn a_middlebox_that_does_not_take_part_is_named_to_both_ends() {
    let mut one = middlebox(1, || Box::new(Demanding)).await;
    let mut server = server().await;
    let settings = |rights| client_settings(&[&one.address], &[rights], PathMode::Off);
    let (willing, unwilling) = (settings([Read, No]), settings([No, Read]));
    let joined = connect_with(willing, &server.address.clone()).await;
    let (Ok(_client), Ok(_server)) = (joined, server.next().await) else {
        panic!("it takes part");
    };
    let ended = connect_with(unwilling, &server.address.clone()).await;
    for ended in [ended, server.next().await] {
        let Err(Error::Session(mctls::Error::Policy(policy))) = ended else {
            panic!("it does not take part");
        };
        assert_eq!(policy, Policy::MiddleboxAlert(first(), Alert::AccessDenied));
    }
    assert!(matches!(one.next().await, Err(Error::Refused)));
}

#[tokio::test]
async fn a_next_hop_of_a_middleboxs_own_stands_in_place_of_the_clients() {
    let mut server = server().await;
    let mut last = middlebox_settings(2, forwards);
    last.next = crate::NextHop::Fixed(server.address.clone());
    let last = middlebox_with(last).await;
    let mut near = middlebox_settings(1, forwards);
    near.next = crate::NextHop::Fixed(last.address.clone());
    // It asks nobody where it may connect to.
    near.permits = Arc::new(|_: &str| false);
    let near = middlebox_with(near).await;
    let nowhere = "192.0.2.1:443";
    for via in [
        vec![near.address.as_str(), nowhere],
        vec![near.address.as_str(), &last.address],
    ] {
        let settings = client_settings(&via, &[[Read, No], [Write, No]], PathMode::Required);
        let client = connect_with(settings, nowhere).await;
        let (mut client, mut served) =
            (super::session(client), super::session(server.next().await));
        client.sender.send(HEADERS, b"data").await.expect("sent");
        assert_eq!(received(&mut served).await.payload, b"data");
    }
}

#[tokio::test]
async fn a_next_hop_of_its_own_works_behind_one_without() {
    let mut server = server().await;
    let mut last = middlebox_settings(2, forwards);
    last.next = crate::NextHop::Fixed(server.address.clone());
    let last = middlebox_with(last).await;
    let near = middlebox(1, forwards).await;
    let via = [near.address.as_str(), last.address.as_str()];
    let settings = client_settings(&via, &[[Read, No], [Read, No]], PathMode::Off);
    let client = connect_with(settings, "192.0.2.1:443").await;
    let (mut client, mut served) = (super::session(client), super::session(server.next().await));
    client.sender.send(HEADERS, b"data").await.expect("sent");
    assert_eq!(received(&mut served).await.payload, b"data");
}

#[tokio::test]
async fn an_address_that_no_route_can_have_is_an_error() {
    let settings = client_settings(&["127.0.0.1:1"], &[[Read, No]], PathMode::Off);
    let client = Client::new(settings).expect("settings that can be used");
    let long = format!("{}:443", "a".repeat(252));
    for address in [long.as_str(), "", "m\u{fc}ller.example:443", "a\nb:443"] {
        let refused = client.connect(address, "server.test").await;
        let Err(Error::Address(named)) = refused else {
            panic!("{address:?}");
        };
        assert_eq!(named, address);
    }
}

#[test]
fn settings_that_no_session_can_have_are_refused() {
    let refused = |change: &dyn Fn(&mut crate::ClientSettings)| {
        let mut settings = client_settings(&["127.0.0.1:1"], &[[Read, No]], PathMode::Off);
        change(&mut settings);
        Client::new(settings).map(drop)
    };
    assert!(refused(&|_| {}).is_ok());
    assert!(refused(&|settings| settings.least = vec![vec![Read], vec![No]]).is_ok());
    let long = "a".repeat(256);
    let address = refused(&|settings| settings.via[0].address = long.clone());
    assert!(matches!(address, Err(Error::Address(_))));
    let wrong: [&dyn Fn(&mut crate::ClientSettings); 7] = [
        &|settings| {
            settings.via = vec![settings.via[0].clone(); 17];
            for context in &mut settings.contexts {
                context.rights = vec![Read; 17];
            }
        },
        &|settings| settings.via[0].name = "no name".into(),
        &|settings| settings.contexts[0].rights.push(Read),
        &|settings| settings.contexts.clear(),
        &|settings| settings.least = vec![vec![Read]],
        &|settings| settings.least = vec![vec![Read], vec![]],
        &|settings| settings.least = vec![vec![Write], vec![No]],
    ];
    for (at, change) in wrong.iter().enumerate() {
        assert!(matches!(refused(change), Err(Error::Settings(_))), "{at}");
    }
}

/// A server that speaks plain TLS alone.
async fn plain_server() -> super::Task<super::Accepted> {
    let mut settings = server_settings();
    settings.fallback = Fallback::PlainTls;
    let server = Server::new(&settings).expect("settings");
    listen(move |stream| {
        let server = server.clone().without_mc13();
        async move { server.accept(stream).await }
    })
    .await
}

#[tokio::test]
async fn plain_tls_is_fallen_back_to_by_policy_alone_and_is_not_opened() {
    let seen: Seen = Arc::default();
    let watched = Arc::clone(&seen);
    let one = middlebox(1, move || {
        Box::new(Scripted {
            seen: Arc::clone(&watched),
            verdict: Verdict::Block,
        })
    })
    .await;
    let mut server = plain_server().await;
    let via = [one.address.as_str()];
    let mut settings = client_settings(&via, &[[Write, Write]], PathMode::Off);
    let refused = connect_with(settings.clone(), &server.address).await;
    assert!(matches!(refused, Err(Error::PlainTls)));
    let _ = server.next().await;
    settings.fallback = Fallback::PlainTls;
    let Ok(Connected::Plain(mut client)) = connect_with(settings, &server.address).await else {
        panic!("plain TLS");
    };
    let Ok(Connected::Plain(mut served)) = server.next().await else {
        panic!("plain TLS");
    };
    client.send(b"question").await.expect("sent");
    assert_eq!(
        served.recv().await.expect("data"),
        Some(b"question".to_vec())
    );
    served.send(b"answer").await.expect("sent");
    assert_eq!(client.recv().await.expect("data"), Some(b"answer".to_vec()));
    client.close().await.expect("closed");
    assert_eq!(served.recv().await.expect("an end"), None);
    assert!(seen.lock().expect("no panic with it").is_empty());
}

#[tokio::test]
async fn a_certificate_without_the_use_of_middleboxes_is_refused() {
    let ordinary = Middlebox::new(&MiddleboxSettings {
        identity: pki().ordinary(),
        next: crate::NextHop::Named,
        permits: Arc::new(|_: &str| true),
        service: Arc::new(forwards),
        timeouts: Timeouts::default(),
    })
    .expect("settings");
    let one = listen(move |stream: TcpStream| {
        let ordinary = ordinary.clone();
        async move { ordinary.serve(stream).await }
    })
    .await;
    let server = server().await;
    let settings = client_settings(&[&one.address], &[[Read, No]], PathMode::Off);
    let refused = connect_with(settings, &server.address).await;
    let Err(Error::Tls { part, source }) = refused else {
        panic!("a leg that fails");
    };
    assert_eq!(part, Part::Leg(first()));
    let purpose = rustls::CertificateError::InvalidPurpose;
    assert_eq!(source, rustls::Error::InvalidCertificate(purpose));
}

#[tokio::test]
async fn a_middlebox_with_another_name_is_refused() {
    let one = middlebox(2, forwards).await;
    let server = server().await;
    let settings = client_settings(&[&one.address], &[[Read, No]], PathMode::Off);
    let refused = connect_with(settings, &server.address).await;
    let Err(Error::Tls { part, .. }) = refused else {
        panic!("a leg that fails");
    };
    assert_eq!(part, Part::Leg(first()));
}

#[tokio::test]
async fn a_middlebox_connects_only_where_its_policy_permits() {
    let mut one = middlebox(1, forwards).await;
    let settings = client_settings(&[&one.address], &[[Read, No]], PathMode::Off);
    let refused = connect_with(settings, "192.0.2.1:443").await;
    assert!(refused.is_err());
    let Err(Error::NotPermitted(to)) = one.next().await else {
        panic!("its policy");
    };
    assert_eq!(to, "192.0.2.1:443");
}

#[tokio::test]
async fn a_context_that_is_not_there_is_the_callers_fault() {
    let mut server = server().await;
    let mut pair = pair(&mut server, &[], &[], PathMode::Off).await;
    let refused = pair.client.sender.send(ContextId(9), b"data").await;
    assert!(matches!(
        refused,
        Err(Error::Session(mctls::Error::Caller(_)))
    ));
}

#[tokio::test]
async fn three_middleboxes_and_a_long_transfer_keep_every_byte() {
    let boxes = [
        middlebox(1, forwards).await,
        middlebox(2, forwards).await,
        middlebox(3, forwards).await,
    ];
    let via: Vec<&str> = boxes.iter().map(|task| task.address.as_str()).collect();
    let mut server = server().await;
    let rights = [[Read, Read], [Write, Write], [No, Read]];
    let pair = pair(&mut server, &via, &rights, PathMode::Required).await;
    let data: Vec<u8> = (0..8_000_000_u32).map(|at| (at / 251) as u8).collect();
    let mut sender = pair.client.sender;
    let sent = data.clone();
    let sending = tokio::spawn(async move {
        sender.send(BODY, &sent).await.expect("sent");
        sender.close().await.expect("closed");
    });
    let mut receiver = pair.server.receiver;
    let mut arrived = Vec::new();
    while let Some(delivery) = receiver.recv().await.expect("nothing is wrong") {
        assert_eq!(delivery.seen_by.len(), 3);
        arrived.extend(delivery.payload);
    }
    sending.await.expect("the sender is well");
    assert!(arrived == data);
}

#[tokio::test]
async fn a_middlebox_that_the_servers_authorities_do_not_know_is_refused() {
    let one = middlebox(1, forwards).await;
    let mut settings = server_settings();
    settings.middlebox_roots = Arc::new(rustls::RootCertStore::empty());
    let mut server = server_with(settings).await;
    let settings = client_settings(&[&one.address], &[[Read, No]], PathMode::Off);
    let refused = connect_with(settings, &server.address.clone()).await;
    assert!(refused.is_err());
    let Err(Error::Tls { part, .. }) = server.next().await else {
        panic!("a leg that fails");
    };
    assert_eq!(part, Part::NextHop);
}

/// Puts eight long records in the place of each, and counts.
struct Grows(Arc<AtomicUsize>);

impl Service for Grows {
    fn inspect(&mut self, _: Direction, _: &Context, _: &[u8]) -> Verdict {
        self.0.fetch_add(1, Ordering::SeqCst);
        Verdict::Replace(vec![vec![7; MAX_PAYLOAD_LEN]; MAX_PARTS])
    }
}

#[tokio::test]
async fn what_a_service_makes_longer_waits_for_its_reader() {
    const RECORDS: usize = 1000;
    const READ: usize = 100;
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let one = middlebox(1, move || Box::new(Grows(Arc::clone(&count)))).await;
    let mut server = server().await;
    let rights = &[[Write, No]];
    let ends = pair(&mut server, &[&one.address], rights, PathMode::Off).await;
    let (mut client, mut served) = (ends.client, ends.server);
    // All of them fit into the buffers on the way, and more than 300 into one read.
    for _ in 0..RECORDS {
        client.sender.send(HEADERS, b"x").await.expect("sent");
    }
    for _ in 0..READ {
        let length = received(&mut served).await.payload.len();
        assert_eq!(length, MAX_PARTS * MAX_PAYLOAD_LEN);
    }
    // What the system's own buffers hold (10 MB, 80 records) is not the middlebox's.
    let ahead = asked.load(Ordering::SeqCst) - READ;
    assert!(ahead < 150, "{ahead} records ahead of the reader");
}
