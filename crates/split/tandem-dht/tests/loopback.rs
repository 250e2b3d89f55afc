//! Five nodes on loopback: what one announces all find, from members alone.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tandem_barnraising::{Peer, PublicKey};
use tandem_channel::ChannelKey;
use tandem_daemon::DaemonError;
use tandem_dht::Kademlia;
use tandem_split_io::SplitIoError;
use tandem_split_io::volunteer::Directory as _;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

type List = watch::Sender<Arc<[Peer]>>;

struct Node {
    table: Arc<Kademlia>,
    list: List,
    member: Peer,
}

impl Node {
    /// On some port that is free, with the one below it for volunteers that are not there.
    fn start() -> Self {
        let key = ChannelKey::fleeting().expect("random bytes");
        for _ in 0..100 {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
            let listen = listener.local_addr().expect("bound");
            drop(listener);
            let peers = SocketAddr::new(listen.ip(), listen.port() - 1);
            let (list, members) = watch::channel(Arc::default());
            match Kademlia::start(&key, &[listen], members) {
                Ok(table) => {
                    let member = Peer::at(PublicKey(key.name().bytes()), peers);
                    return Self {
                        table,
                        list,
                        member,
                    };
                }
                Err(SplitIoError::Daemon(DaemonError::Busy { .. })) => {}
                Err(error) => panic!("{error}"),
            }
        }
        panic!("no free port")
    }

    async fn finds(&self, digest: &[u8; 32]) -> Vec<Peer> {
        timeout(Duration::from_secs(20), self.table.holders(digest))
            .await
            .expect("an answer")
    }

    /// Asks until these are found: an announcement is on its way.
    async fn comes_to_find(&self, digest: &[u8; 32], expected: &[Peer]) {
        let start = Instant::now();
        loop {
            let mut found = self.finds(digest).await;
            found.sort_by_key(|member| member.key);
            if found == expected {
                return;
            }
            assert!(
                start.elapsed() < Duration::from_secs(30),
                "{found:?} instead of {expected:?}"
            );
            sleep(Duration::from_millis(20)).await;
        }
    }
}

fn nodes(count: usize) -> Vec<Node> {
    (0..count).map(|_| Node::start()).collect()
}

fn acquaint(nodes: &[&Node]) {
    let all: Arc<[Peer]> = nodes.iter().map(|node| node.member).collect();
    for node in nodes {
        node.list.send_replace(Arc::clone(&all));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_one_announces_all_find_and_what_nobody_has_nobody_finds() {
    let nodes = nodes(5);
    acquaint(&nodes.iter().collect::<Vec<_>>());
    assert_eq!(nodes[4].finds(&[9; 32]).await, Vec::new());
    for (number, node) in nodes.iter().enumerate() {
        node.table.holds(&[number as u8; 32]);
    }
    for (number, node) in nodes.iter().enumerate() {
        for other in nodes.iter().filter(|other| other.member != node.member) {
            other
                .comes_to_find(&[number as u8; 32], &[node.member])
                .await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_leaves_the_list_is_named_no_more_and_who_was_never_on_it_is_not_heard() {
    let nodes = nodes(5);
    let (stranger, members) = nodes.split_last().expect("five");
    let members: Vec<&Node> = members.iter().collect();
    acquaint(&members);
    // The stranger has a list of its own, with all.
    let all: Vec<Peer> = nodes.iter().map(|node| node.member).collect();
    stranger.list.send_replace(all.into());
    stranger.table.holds(&[1; 32]);
    members[0].table.holds(&[1; 32]);
    members[1]
        .comes_to_find(&[1; 32], &[members[0].member])
        .await;
    assert_eq!(stranger.finds(&[1; 32]).await, Vec::new());
    assert_eq!(members[2].finds(&[1; 32]).await, [members[0].member]);

    acquaint(&members[1..]);
    assert_eq!(members[1].finds(&[1; 32]).await, Vec::new());
    // Two who have it are both named, to whoever comes back as well.
    acquaint(&members);
    members[3].table.holds(&[1; 32]);
    let start = Instant::now();
    while !members[2]
        .finds(&[1; 32])
        .await
        .contains(&members[3].member)
    {
        assert!(start.elapsed() < Duration::from_secs(30));
        sleep(Duration::from_millis(20)).await;
    }
}
