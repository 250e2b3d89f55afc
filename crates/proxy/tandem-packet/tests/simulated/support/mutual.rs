//! Connections in which the client shows a certificate too: what is said, proxies that know the
//! client's chain, what came of it.

use std::time::Duration;

use tandem_netsim::{Host, World};
use tandem_packet::{ClientCertificates, Config, Role, WireFormat};

use super::outcome::BOTH;
use super::tls::{self, Conversation, Layout};
use super::{CLIENT_SIDE, Closes, ProxyElement, SERVER_SIDE, Scenario, config, teach_client};

/// Both proxies go by what the servers' side publishes.
pub const BY_FILTER: ClientCertificates = ClientCertificates::Filter {
    rate: tandem_engine::filter::Rate::DEFAULT,
};

/// The client's chain: certificates of these sizes.
pub const SIZES: [usize; 2] = [871, 905];

pub fn client_chain() -> Vec<Vec<u8>> {
    client_chain_of(0)
}

/// The chain of another client, of the same sizes.
pub fn client_chain_of(client: u64) -> Vec<Vec<u8>> {
    (40 + 2 * client..)
        .zip(SIZES)
        .map(|(seed, size)| tls::noise(size, seed))
        .collect()
}

pub fn conversation_in(layout: Layout) -> Conversation {
    let hello = tls::client_hello(Some(super::NAME), 100);
    Conversation::mutual(hello, &tls::chain(&[926, 900]), &client_chain(), layout)
}

/// What a client of this number says.
pub fn conversation_of(client: u64) -> Conversation {
    let hello = tls::client_hello(Some(super::NAME), 100);
    let (chain, layout) = (tls::chain(&[926, 900]), Layout::MessageARecord);
    Conversation::mutual(hello, &chain, &client_chain_of(client), layout)
}

pub fn conversation() -> Conversation {
    conversation_in(Layout::MessageARecord)
}

/// Both proxies there, each knowing the client's chain where it is named in `knowing`; the client's
/// side knows the server's.
pub fn scenario(wire: WireFormat, conversation: Conversation, knowing: &[usize]) -> Scenario {
    let mut scenario = Scenario::with(wire, conversation);
    scenario.closes = Closes::AtTheEnd;
    for (index, proxy) in [
        (CLIENT_SIDE, &mut scenario.client_side),
        (SERVER_SIDE, &mut scenario.server_side),
    ] {
        if knowing.contains(&index)
            && let Some(proxy) = proxy
        {
            teach_client(proxy.proxy.store_mut(), &client_chain());
        }
    }
    scenario
}

/// What one reference in place of the chain spares at least, frame and all.
pub const MIN_SPARED: i64 = 871 + 905 + 6 - 17 - 30;

/// The same with proxies that were told this.
pub fn told(mut scenario: Scenario, wire: WireFormat, how: ClientCertificates) -> Scenario {
    for (proxy, role) in [
        (&mut scenario.client_side, Role::ClientSide),
        (&mut scenario.server_side, Role::ServerSide),
    ] {
        if let Some(proxy) = proxy {
            let store = std::mem::take(proxy.proxy.store_mut());
            let config = Config {
                client_certificates: how,
                ..config(role, wire)
            };
            *proxy = ProxyElement::new(config, store);
        }
    }
    scenario
}

pub fn told_of(index: usize, how: ClientCertificates) -> Config {
    let role = if index == CLIENT_SIDE {
        Role::ClientSide
    } else {
        Role::ServerSide
    };
    Config {
        client_certificates: how,
        ..config(role, WireFormat::Safe)
    }
}

/// Another connection of this world, on other ports, once all before it are over: the same servers
/// and proxies, and a client that says this.
pub fn another(mut world: World, number: u16, said: &Conversation) -> World {
    let (client, server) = said.scripts();
    let template = Scenario::with(WireFormat::Safe, said.clone());
    let (mut from, to) = (template.client, template.server);
    from.local.set_port(40_000 + number);
    world = world
        .with_client(Host::client(from, to.local).with_script(client))
        .with_server(Host::server(to).with_script(server));
    world.connect();
    world
        .run_until(Duration::from_secs(3_000), |world| {
            let mut ends = world.clients().iter().zip(world.servers());
            ends.all(|(client, server)| client.script().is_done() && server.script().is_done())
        })
        .expect("it completes");
    let received = world.servers().last().map(|server| server.received());
    assert!(received == Some(said.from_client.as_slice()));
    world
}
