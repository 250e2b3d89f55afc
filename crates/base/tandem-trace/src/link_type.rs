//! From a frame to the IP packet in it.
//!
//! Not IP itself: what follows the link's own header is handed on unread. Read are Ethernet (with
//! VLAN tags, security group tags, MPLS labels and PPPoE), the two Linux "cooked" headers, PPP, raw
//! IP and the loopback headers of the BSDs; every other link type is refused by its name.
//!
//! Numbers and layouts: draft-ietf-opsawg-pcaplinktype; IEEE 802.1Q; RFC 2516 (PPPoE); RFC 1661 and
//! 1662 (PPP); RFC 3032 (MPLS); draft-smith-kandula-sxp (security group tags).

const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;
const ETHERTYPE_PPPOE_SESSION: u16 = 0x8864;
/// 802.1Q, 802.1ad (QinQ), and the tag that older equipment puts outside.
const ETHERTYPE_VLAN: [u16; 3] = [0x8100, 0x88a8, 0x9100];
const ETHERTYPE_MPLS_UNICAST: u16 = 0x8847;
const ETHERTYPE_MPLS_MULTICAST: u16 = 0x8848;
/// Carries the tag of a security group (SGT).
const ETHERTYPE_CISCO_METADATA: u16 = 0x8909;
/// Address families of a loopback header: IPv4 everywhere; IPv6 on Linux, NetBSD, FreeBSD and
/// macOS.
const LOOPBACK_FAMILIES: [u32; 5] = [2, 10, 24, 28, 30];
/// Tags, sessions and label stacks in a row that are skipped; equipment stacks two.
const MAX_TAGS: usize = 6;
/// Labels in one stack. Networks use up to five.
const MAX_LABELS: usize = 16;

/// Why a frame holds no IP packet for us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoPacket {
    /// The link type is not read.
    LinkType,
    /// Another protocol than IP.
    NotIp,
    /// The frame ends inside the link's header.
    Cut,
    /// A packet may be in it, inside something that is not read; its name.
    Unread(&'static str),
}

/// The IP packet in a frame of this link type, with whatever follows it.
pub(crate) fn ip_packet(link_type: u16, frame: &[u8]) -> Result<&[u8], NoPacket> {
    match link_type {
        0 | 108 => loopback(frame),
        1 => ethernet(frame),
        9 => ppp(frame),
        // 12 and 14 are how some systems write 101.
        12 | 14 | 101 | 228 | 229 => Ok(frame),
        113 => by_ethertype(field(frame, 14)?, rest(frame, 16)?),
        276 => by_ethertype(field(frame, 0)?, rest(frame, 20)?),
        _ => Err(NoPacket::LinkType),
    }
}

/// The IP packet in an Ethernet frame.
pub(crate) fn ethernet(frame: &[u8]) -> Result<&[u8], NoPacket> {
    by_ethertype(field(frame, 12)?, rest(frame, 14)?)
}

/// The IP packet behind an EtherType: tags, labels and sessions are passed over.
pub(crate) fn by_ethertype(mut ethertype: u16, mut payload: &[u8]) -> Result<&[u8], NoPacket> {
    for _ in 0..MAX_TAGS {
        (ethertype, payload) = match ethertype {
            ETHERTYPE_IPV4 | ETHERTYPE_IPV6 => return Ok(payload),
            // | version, type, code 1+1 | session 2 | length 2 | PPP protocol 2 | packet
            ETHERTYPE_PPPOE_SESSION => {
                let (protocol, packet) = ppp_header(rest(payload, 6)?)?;
                (ppp_ethertype(protocol)?, packet)
            }
            ETHERTYPE_MPLS_UNICAST | ETHERTYPE_MPLS_MULTICAST => match labelled(payload)? {
                Labelled::Ip(packet) => return Ok(packet),
                Labelled::Ethernet(frame) => (field(frame, 12)?, rest(frame, 14)?),
            },
            // | version 1 | length 1 | option 2 | security group 2 | EtherType 2 |
            ETHERTYPE_CISCO_METADATA => (field(payload, 6)?, rest(payload, 8)?),
            tag if ETHERTYPE_VLAN.contains(&tag) => (field(payload, 2)?, rest(payload, 4)?),
            other => return Err(ethertype_name(other).map_or(NoPacket::NotIp, NoPacket::Unread)),
        }
    }
    Err(NoPacket::Unread("too many tags or labels"))
}

/// EtherTypes that carry other frames or packets and are not read.
fn ethertype_name(ethertype: u16) -> Option<&'static str> {
    Some(match ethertype {
        0x22f3 => "TRILL",
        0x4305 => "B.A.T.M.A.N.",
        0x88e5 => "MACsec",
        0x88e7 => "provider backbone bridging",
        0x8903 => "FabricPath",
        0x8926 => "VN-Tag",
        0x893f => "E-Tag",
        0x894f => "Network Service Header",
        _ => return None,
    })
}

/// What is behind MPLS labels.
pub(crate) fn mpls(bytes: &[u8]) -> Result<&[u8], NoPacket> {
    by_ethertype(ETHERTYPE_MPLS_UNICAST, bytes)
}

enum Labelled<'a> {
    Ip(&'a [u8]),
    Ethernet(&'a [u8]),
}

/// | label 20, class 3, bottom 1, TTL 8 | ... | packet; what the packet is, no label says (RFC 4928):
/// an IP version, or a pseudowire's control word, whose first four bits are zero (RFC 4385).
fn labelled(mut bytes: &[u8]) -> Result<Labelled<'_>, NoPacket> {
    for _ in 0..MAX_LABELS {
        let is_bottom = bytes.get(2).ok_or(NoPacket::Cut)? & 1 == 1;
        bytes = rest(bytes, 4)?;
        if is_bottom {
            return match bytes.first().ok_or(NoPacket::Cut)? >> 4 {
                4 | 6 => Ok(Labelled::Ip(bytes)),
                0 => Ok(Labelled::Ethernet(rest(bytes, 4)?)),
                _ => Err(NoPacket::Unread("MPLS pseudowires without control word")),
            };
        }
    }
    Err(NoPacket::Unread("too many tags or labels"))
}

/// The IP packet in a PPP frame.
pub(crate) fn ppp(frame: &[u8]) -> Result<&[u8], NoPacket> {
    let (protocol, packet) = ppp_header(frame)?;
    by_ethertype(ppp_ethertype(protocol)?, packet)
}

/// A frame's protocol, and what follows it. Address and control (RFC 1662) may be there or
/// compressed away; so may the protocol's first byte, which is zero.
fn ppp_header(frame: &[u8]) -> Result<(u16, &[u8]), NoPacket> {
    let frame = frame.strip_prefix(&[0xff, 0x03]).unwrap_or(frame);
    match frame.first() {
        None => Err(NoPacket::Cut),
        Some(&byte) if byte & 1 == 1 => Ok((u16::from(byte), rest(frame, 1)?)),
        Some(_) => Ok((field(frame, 0)?, rest(frame, 2)?)),
    }
}

/// The EtherType of what a PPP protocol number stands for (IANA, "PPP DLL Protocol Numbers").
fn ppp_ethertype(protocol: u16) -> Result<u16, NoPacket> {
    match protocol {
        0x0021 => Ok(ETHERTYPE_IPV4),
        0x0057 => Ok(ETHERTYPE_IPV6),
        0x0281 => Ok(ETHERTYPE_MPLS_UNICAST),
        0x003d => Err(NoPacket::Unread("PPP multilink")),
        0x0053 | 0x0055 => Err(NoPacket::Unread("encrypted PPP")),
        0x002d | 0x002f | 0x0061..=0x0069 | 0x00fb | 0x00fd => {
            Err(NoPacket::Unread("compressed PPP"))
        }
        _ => Err(NoPacket::NotIp),
    }
}

fn loopback(frame: &[u8]) -> Result<&[u8], NoPacket> {
    let family = frame.first_chunk::<4>().ok_or(NoPacket::Cut)?;
    // Type 0 is in the byte order of the machine that captured, which the file does not tell; type
    // 108 is big-endian.
    let is_ip = LOOPBACK_FAMILIES.contains(&u32::from_le_bytes(*family))
        || LOOPBACK_FAMILIES.contains(&u32::from_be_bytes(*family));
    if is_ip {
        rest(frame, 4)
    } else {
        Err(NoPacket::NotIp)
    }
}

/// Two bytes at an offset.
pub(crate) fn field(bytes: &[u8], at: usize) -> Result<u16, NoPacket> {
    let field = bytes.get(at..).and_then(|bytes| bytes.first_chunk::<2>());
    field
        .map(|field| u16::from_be_bytes(*field))
        .ok_or(NoPacket::Cut)
}

/// What follows an offset.
pub(crate) fn rest(bytes: &[u8], from: usize) -> Result<&[u8], NoPacket> {
    bytes.get(from..).ok_or(NoPacket::Cut)
}

/// The registry's name of a link type that is not read, so that a user knows what was captured.
pub(crate) fn name(link_type: u16) -> &'static str {
    match link_type {
        3 => "AX25",
        6 => "IEEE802_5",
        7 => "ARCNET_BSD",
        8 => "SLIP",
        10 => "FDDI",
        50 => "PPP_HDLC",
        51 => "PPP_ETHER",
        100 => "ATM_RFC1483",
        104 => "C_HDLC",
        105 => "IEEE802_11",
        107 => "FRELAY",
        117 => "PFLOG",
        119 => "IEEE802_11_PRISM",
        122 => "IP_OVER_FC",
        123 => "SUNATM",
        127 => "IEEE802_11_RADIOTAP",
        129 => "ARCNET_LINUX",
        143 => "DOCSIS",
        144 => "LINUX_IRDA",
        147..=162 => "USER0 to USER15",
        163 => "IEEE802_11_AVS",
        166 => "PPP_PPPD",
        169 => "GPRS_LLC",
        187 | 201 => "BLUETOOTH_HCI_H4",
        189 => "USB_LINUX",
        192 => "PPI",
        195 => "IEEE802_15_4_WITHFCS",
        204 => "PPP_WITH_DIR",
        205 => "C_HDLC_WITH_DIR",
        220 => "USB_LINUX_MMAPPED",
        226 => "IPNET",
        227 => "CAN_SOCKETCAN",
        230 => "IEEE802_15_4_NOFCS",
        239 => "NFLOG",
        240 => "NETANALYZER",
        247 => "INFINIBAND",
        249 => "USBPCAP",
        251 => "BLUETOOTH_LE_LL",
        252 => "WIRESHARK_UPPER_PDU",
        253 => "NETLINK",
        258 => "PKTAP",
        270 => "LORATAP",
        271 => "VSOCK",
        273 => "DOCSIS31_XRA31",
        _ => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKET: [u8; 3] = [0x45, 1, 2];

    fn with(header: &[u8]) -> Vec<u8> {
        [header, &PACKET].concat()
    }

    #[test]
    fn every_link_type_that_is_read_leads_to_the_packet() {
        let addresses = [0xaa; 12];
        let ethernet = |rest: &[u8]| with(&[&addresses, rest].concat());
        let cooked = |protocol: &[u8]| with(&[&[0; 14], protocol].concat());
        let table = [
            (0, with(&[2, 0, 0, 0])),
            (0, with(&[0, 0, 0, 30])),
            (108, with(&[0, 0, 0, 24])),
            (1, ethernet(&[0x08, 0])),
            (1, ethernet(&[0x86, 0xdd])),
            (1, ethernet(&[0x81, 0, 0, 5, 0x08, 0])),
            (1, ethernet(&[0x88, 0xa8, 0, 5, 0x81, 0, 0, 6, 0x86, 0xdd])),
            (1, ethernet(&[0x88, 0x64, 0x11, 0, 0, 1, 0, 5, 0, 0x21])),
            // A security group tag.
            (1, ethernet(&[0x89, 0x09, 1, 1, 0, 1, 0, 7, 0x08, 0])),
            // One label and two, and a pseudowire behind one.
            (1, ethernet(&[0x88, 0x47, 0, 1, 0x01, 64])),
            (1, ethernet(&[0x88, 0x48, 0, 1, 0, 64, 0, 2, 0x01, 64])),
            (
                1,
                ethernet(
                    &[
                        &[0x88, 0x47, 0, 1, 0x01, 64, 0, 0, 0, 0][..],
                        &[9; 12],
                        &[8, 0],
                    ]
                    .concat(),
                ),
            ),
            (9, with(&[0xff, 3, 0, 0x21])),
            (9, with(&[0, 0x57])),
            (9, with(&[0x21])),
            (12, with(&[])),
            (101, with(&[])),
            (228, with(&[])),
            (229, with(&[])),
            (113, cooked(&[0x08, 0])),
            (113, cooked(&[0x81, 0, 0, 9, 0x08, 0])),
            (276, with(&[&[0x86, 0xdd][..], &[0; 18]].concat())),
        ];
        for (link_type, frame) in table {
            assert_eq!(
                ip_packet(link_type, &frame),
                Ok(&PACKET[..]),
                "type {link_type}: {frame:x?}"
            );
        }
    }

    #[test]
    fn every_link_type_is_safe_on_frames_cut_anywhere() {
        let frame = [0x81; 64];
        for link_type in [0, 1, 9, 12, 14, 101, 108, 113, 228, 229, 276] {
            for len in 0..frame.len() {
                let _ = ip_packet(link_type, &frame[..len]);
            }
        }
        assert_eq!(ip_packet(1, &[0; 13]), Err(NoPacket::Cut));
        assert_eq!(ip_packet(9, &[]), Err(NoPacket::Cut));
    }

    #[test]
    fn other_protocols_and_link_types_are_told_apart() {
        let arp = [&[0; 12][..], &[8, 6], &[0; 28]].concat();
        assert_eq!(ip_packet(1, &arp), Err(NoPacket::NotIp));
        let many_tags = [&[0; 12][..], &[0x81, 0, 0, 1].repeat(9), &[8, 0]].concat();
        let too_many = Err(NoPacket::Unread("too many tags or labels"));
        assert_eq!(ip_packet(1, &many_tags), too_many);
        let labels = [&[0; 12][..], &[0x88, 0x47], &[0; 99]].concat();
        assert_eq!(ip_packet(1, &labels), too_many);
        let fabric = [&[0; 12][..], &[0x89, 0x03, 0, 0]].concat();
        assert_eq!(ip_packet(1, &fabric), Err(NoPacket::Unread("FabricPath")));
        assert_eq!(ip_packet(105, &arp), Err(NoPacket::LinkType));
        assert_eq!(name(105), "IEEE802_11");
        assert_eq!(name(9999), "unknown");
    }
}
