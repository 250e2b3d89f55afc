//! A network namespace for a test, which leaves the machine's own as it is; and rules there as
//! programs of nftables make them.

use std::os::fd::AsRawFd as _;

use nix::errno::Errno;
use nix::sched::{CloneFlags, unshare};
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, socket,
};

use crate::family::Family;
use crate::rules::Table;

/// Carries out these checks in a network of their thread and of the programs that it runs.
pub(crate) fn in_own_network(checks: impl FnOnce() + Send + 'static) {
    let checked = std::thread::spawn(|| {
        unshare(CloneFlags::CLONE_NEWNET).expect("root may");
        checks();
    });
    checked.join().expect("the checks hold");
}

/// A chain of somebody else's, to which nothing leads.
pub(crate) const FOREIGN: &str = "foreign";

/// Adds to the table, in the chain [`FOREIGN`], what `nft add rule` makes of `rt ip nexthop`: the
/// programs of iptables have no words for that.
pub(crate) fn add_foreign_rule(family: Family, table: Table) {
    let nested = |kind, value: &[u8]| attribute(kind | NESTED, value);
    let table = format!("{}\0", table.name());
    let (table, chain) = (table.as_bytes(), format!("{FOREIGN}\0"));
    let chain = chain.as_bytes();
    // The next hop's address (2: key, 1) into a register (1: destination, 8).
    let data = [(1, 8_u32), (2, 1)].map(|(kind, value)| attribute(kind, &value.to_be_bytes()));
    let expression = [attribute(1, b"rt\0"), nested(2, &data.concat())].concat();
    let expressions = nested(4, &nested(1, &expression));
    // The numbers of messages and attributes are those of include/uapi/linux/netfilter/nf_tables.h.
    let message = |kind: u16, attributes: &[Vec<u8>]| {
        let kind = (NFTABLES << 8) | kind;
        message(kind, REQUEST | CREATE, family, 0, &attributes.concat())
    };
    let batch = |kind| message_of_batch(kind, family);
    let text = [
        batch(0x10),
        message(0, &[attribute(1, table)]),
        message(3, &[attribute(1, table), attribute(3, chain)]),
        message(6, &[attribute(1, table), attribute(2, chain), expressions]),
        batch(0x11),
    ]
    .concat();
    let socket = socket(
        AddressFamily::Netlink,
        SockType::Raw,
        SockFlag::SOCK_CLOEXEC,
        SockProtocol::NetlinkNetFilter,
    )
    .expect("root may");
    send(socket.as_raw_fd(), &text, MsgFlags::empty()).expect("the kernel takes it");
    // It has been dealt with by now, and there are answers to what fails alone.
    let mut answer = [0; 256];
    let answered = recv(socket.as_raw_fd(), &mut answer, MsgFlags::MSG_DONTWAIT);
    assert_eq!(answered, Err(Errno::EAGAIN), "{answer:?}");
}

/// `NFNL_SUBSYS_NFTABLES`.
const NFTABLES: u16 = 10;
/// `NLM_F_REQUEST`.
const REQUEST: u16 = 1;
/// `NLM_F_CREATE`.
const CREATE: u16 = 0x400;
/// `NLA_F_NESTED`.
const NESTED: u16 = 0x8000;

/// The begin or end of a batch, which takes effect whole or not at all.
fn message_of_batch(kind: u16, family: Family) -> Vec<u8> {
    message(kind, REQUEST, family, NFTABLES, &[])
}

/// `struct nlmsghdr`, `struct nfgenmsg`, and attributes.
fn message(kind: u16, flags: u16, family: Family, resource: u16, attributes: &[u8]) -> Vec<u8> {
    let len = u32::try_from(20 + attributes.len()).expect("short");
    let version = match family {
        Family::V4 => libc::AF_INET,
        Family::V6 => libc::AF_INET6,
    };
    [
        &len.to_ne_bytes()[..],
        &kind.to_ne_bytes(),
        &flags.to_ne_bytes(),
        &[0_u8; 8],
        &[u8::try_from(version).expect("small"), 0],
        &resource.to_be_bytes(),
        attributes,
    ]
    .concat()
}

/// `struct nlattr` and its value.
fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let len = u16::try_from(4 + value.len()).expect("short");
    let mut bytes = [&len.to_ne_bytes()[..], &kind.to_ne_bytes(), value].concat();
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}
