//! Capture files as IP packets: pcap and pcapng, also gzipped, of the link types that the test data
//! has.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a test reads files; the crate does not"
)]

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use pcap_parser::pcapng::Block;
use pcap_parser::traits::PcapNGPacketBlock;
use pcap_parser::{Linktype, PcapBlockOwned, PcapError, create_reader};

/// The folder with the captures; `None`, and a note, where this machine has none.
pub(crate) fn captures_folder() -> Option<PathBuf> {
    tandem_testkit::data("captures")
}

/// All capture files below `folder`, sorted.
pub(crate) fn capture_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("the folder is readable") {
            let path = entry.expect("the entry is readable").path();
            let name = path
                .file_name()
                .map(|name| name.to_string_lossy().into_owned())
                .unwrap_or_default();
            if path.is_dir() {
                folders.push(path);
            } else if [".pcap", ".pcapng", ".pcap.gz", ".pcapng.gz"]
                .iter()
                .any(|end| name.ends_with(end))
            {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}

/// The IP packets of a capture in order; frames of other protocols are left out.
pub(crate) fn ip_packets(path: &Path) -> Vec<Vec<u8>> {
    let file = File::open(path).expect("the capture is readable");
    let source: Box<dyn Read + Send> = if path.extension().is_some_and(|end| end == "gz") {
        Box::new(GzDecoder::new(file))
    } else {
        Box::new(file)
    };
    let mut reader = create_reader(1 << 20, source).expect("a capture format that is known");
    let mut links = Vec::new();
    let mut packets = Vec::new();
    loop {
        match reader.next() {
            Ok((consumed, block)) => {
                match block {
                    PcapBlockOwned::LegacyHeader(header) => links.push(header.network),
                    PcapBlockOwned::Legacy(packet) => {
                        packets.extend(ip_of_frame(links[0], packet.data))
                    }
                    PcapBlockOwned::NG(Block::InterfaceDescription(interface)) => {
                        links.push(interface.linktype)
                    }
                    PcapBlockOwned::NG(Block::EnhancedPacket(packet)) => {
                        packets.extend(ip_of_frame(
                            links[packet.if_id as usize],
                            packet.packet_data(),
                        ));
                    }
                    PcapBlockOwned::NG(Block::SimplePacket(packet)) => {
                        packets.extend(ip_of_frame(links[0], packet.packet_data()));
                    }
                    PcapBlockOwned::NG(_) => {}
                }
                reader.consume(consumed);
            }
            Err(PcapError::Eof) => return packets,
            Err(PcapError::Incomplete(_)) => reader.refill().expect("the capture is readable"),
            Err(error) => panic!("{}: {error:?}", path.display()),
        }
    }
}

fn ip_of_frame(link: Linktype, frame: &[u8]) -> Option<Vec<u8>> {
    let packet = match link {
        Linktype::ETHERNET => ip_of_ethernet(frame.get(12..)?)?,
        Linktype::LINUX_SLL => ip_of_ethernet(frame.get(14..)?)?,
        // "Linux cooked" of the second kind: 20 bytes, the EtherType first.
        Linktype(276) => match frame.first_chunk()? {
            [0x08, 0x00] | [0x86, 0xdd] => frame.get(20..)?,
            _ => return None,
        },
        Linktype::RAW | Linktype::IPV4 | Linktype::IPV6 => frame,
        // BSD loopback: an address family in front.
        Linktype::NULL | Linktype::LOOP => frame.get(4..)?,
        other => panic!("link type {} is not handled", other.0),
    };
    matches!(packet.first()? >> 4, 4 | 6).then(|| packet.to_vec())
}

/// What follows an EtherType, VLAN tags skipped.
fn ip_of_ethernet(mut rest: &[u8]) -> Option<&[u8]> {
    loop {
        let (ether_type, after) = rest.split_first_chunk()?;
        match u16::from_be_bytes(*ether_type) {
            0x0800 | 0x86dd => return Some(after),
            0x8100 | 0x88a8 => rest = after.get(2..)?,
            _ => return None,
        }
    }
}
