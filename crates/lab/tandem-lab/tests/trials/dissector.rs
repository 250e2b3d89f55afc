//! The Wireshark dissector (`extras/wireshark/tandem.lua`), run by `tshark`: over captures of the
//! lab's own, over messages made by hand as the formats' descriptions say, and over garbage.
//!
//! Is not: a test of the formats; that the proxies understand each other is shown elsewhere.
//! Skipped, with a message, where there is no `tshark`; the first test needs root besides.

use std::borrow::Cow;
use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::common;
use pcap_file::DataLink;
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketBlock;
use pcap_file::pcapng::blocks::interface_description::InterfaceDescriptionBlock;
use tandem_lab::lane::{Lane, LaneSpec};
use tandem_report::arm::Arm;
use tandem_testbed::endpoints::Endpoints;
use tandem_testbed::{LabError, LinkSpec, pki};
use tandem_wire::{SegmentRepr, Seq, TcpFlags};

/// A capture, and `tshark` with the dissector to read it.
struct Reader {
    file: PathBuf,
}

impl Reader {
    /// `None`, and a line that says so, where there is no `tshark`.
    fn new(file: PathBuf) -> Option<Self> {
        tandem_testkit::has(&["tshark"]).then_some(Self { file })
    }

    /// What it prints with these arguments. The dissector must not have failed.
    fn run(&self, arguments: &[&str]) -> String {
        let script =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../extras/wireshark/tandem.lua");
        let output = Command::new("tshark")
            .args(["-n", "-X", &format!("lua_script:{}", script.display())])
            .arg("-r")
            .arg(&self.file)
            .args(arguments)
            // No settings of whoever runs the test.
            .env("HOME", self.file.parent().expect("a file lies in a folder"))
            .env_remove("XDG_CONFIG_HOME")
            .output()
            .expect("it was there a moment ago");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        assert!(!said.contains("Lua"), "{said}");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(!text.contains("Lua Error"), "{text}");
        text
    }

    /// The values of these fields in the packets that `filter` lets through: a row each, columns in
    /// order, several values with commas between.
    fn fields(&self, filter: &str, names: &[&str]) -> Vec<Vec<String>> {
        let mut arguments = vec!["-Y", filter, "-T", "fields"];
        names.iter().for_each(|name| arguments.extend(["-e", name]));
        self.run(&arguments)
            .lines()
            .map(|line| line.split('\t').map(str::to_owned).collect())
            .collect()
    }
}

fn numbers(list: &str) -> Vec<u64> {
    list.split(',')
        .filter(|word| !word.is_empty())
        .map(|word| word.parse().expect("a number"))
        .collect()
}

/// A warm handshake's capture.
fn captured(
    arm: Arm,
    endpoints: &Endpoints,
    directory: &Path,
    exe: &Path,
) -> Result<(PathBuf, u64), LabError> {
    let chain = pki::issue(directory, arm.name(), &endpoints.chain_spec())?;
    let file = directory.join(format!("{}.pcapng", arm.name()));
    let link = LinkSpec {
        name: "test".to_owned(),
        up: Some(10_000_000),
        down: Some(10_000_000),
        delay_ms: Some(2.0),
        ..LinkSpec::default()
    };
    let spec = LaneSpec {
        experiment: "dissector",
        link_name: "test",
        link: link.config()?,
        arm,
        endpoints,
        chain: &chain,
        client: None,
        exe,
        seed: 1,
        capture: Some(file.clone()),
    };
    let mut lane = Lane::build(&spec, Duration::from_secs(30))?;
    lane.warm_up()?;
    // On a busy machine a flight may cross as it is; a further one shows that it was that.
    for _ in 0..3 {
        lane.trial()?;
    }
    lane.finish()?;
    // Each certificate with its length before it.
    Ok((file, chain.sizes.iter().map(|size| *size as u64 + 3).sum()))
}

#[test]
fn the_messages_of_real_proxies_are_shown_with_their_values() -> Result<(), LabError> {
    const NAME: &str = "the_messages_of_real_proxies_are_shown_with_their_values";
    let Some(exe) = common::tandem(NAME) else {
        return Ok(());
    };
    let directory = tempfile::tempdir().expect("a place for temporary files");
    let endpoints = Endpoints::three();

    let (file, chain) = captured(Arm::Packet, &endpoints, directory.path(), &exe)?;
    let Some(safe) = Reader::new(file) else {
        return Ok(());
    };
    for (option, direction) in [(1, "443"), (2, "443"), (3, "443")] {
        let side = if option == 2 { "srcport" } else { "dstport" };
        let filter = format!("tandem.option == {option} && tcp.{side} == {direction}");
        let seen = safe.fields(&filter, &["tandem.version", "tandem.option.tag"]);
        assert!(!seen.is_empty(), "{filter}");
        for row in &seen {
            assert!(numbers(&row[0])[0] >= 1, "{row:?}");
            assert_eq!(row[1].len(), 14, "seven bytes: {row:?}");
        }
        // And by no other side.
        let others = format!("tandem.option == {option} && !(tcp.{side} == {direction})");
        assert_eq!(safe.fields(&others, &["frame.number"]).len(), 0);
    }
    let names = [
        "tandem.frame.length",
        "tcp.len",
        "tandem.frame.span",
        "tandem.add.length",
        "tandem.copy.length",
        "tandem.reference",
        "tandem.frame.saved",
        "tandem.tsval",
        "tcp.options.timestamp.tsval",
        "tandem.frame.check",
        "frame.comment",
    ];
    // The first flight is compressed, and takes more than one segment.
    let frames = safe.fields("tandem.frame == 1 && !tandem.inflate", &names);
    assert!(!frames.is_empty(), "none of three flights was rewritten");
    for row in &frames {
        let [length, payload, span, saved] = [0, 1, 2, 6].map(|column| numbers(&row[column])[0]);
        assert_eq!(length, payload, "{row:?}");
        assert_eq!(span - length, saved, "{row:?}");
        let rebuilt: u64 = [3, 4]
            .iter()
            .flat_map(|column| numbers(&row[*column]))
            .sum();
        assert_eq!(rebuilt, span, "{row:?}");
        let copied: u64 = numbers(&row[4]).iter().sum();
        assert!(copied >= chain, "{row:?}");
        assert!(
            row[5].split(',').all(|reference| reference.len() == 32),
            "{row:?}"
        );
        let [own, shifted] = [7, 8].map(|column| numbers(&row[column])[0]);
        assert_eq!(own, (shifted + (1 << 30)) % (1 << 32), "{row:?}");
        assert_eq!(row[9].len(), 16, "{row:?}");
        // The capture's own comment says the same.
        let words = format!("frame: {length} bytes in place of {span} of the server's flight: ");
        assert!(row[10].contains(&words), "{row:?}");
    }
    assert_eq!(safe.fields("tandem.malformed", &["frame.number"]).len(), 0);
    let presences = safe.fields("tandem.option == 1", &["frame.comment"]);
    assert!(
        presences
            .iter()
            .all(|row| row[0].contains("Tandem, presence: ")),
        "{presences:?}"
    );

    let (file, _) = captured(Arm::PacketMcveety, &endpoints, directory.path(), &exe)?;
    let thesis = Reader { file };
    let said = thesis.fields("tandem.mcveety.possession", &["tandem.mcveety.possession"]);
    let sent = thesis.fields(
        "tandem.mcveety.reference && tcp.srcport == 443",
        &["tandem.mcveety.reference"],
    );
    assert!(!sent.is_empty(), "none of three flights was compressed");
    for row in said.iter().chain(&sent) {
        assert_eq!(row[0].split(',').count(), 3, "{row:?}");
        assert_eq!(
            row[0], said[0][0],
            "what is said to be held is what is referred to"
        );
    }
    assert_eq!(
        thesis.fields("tandem.malformed", &["frame.number"]).len(),
        0
    );
    Ok(())
}

/// IPv4's header and TCP's without options.
const HEADERS: usize = 20 + 20;

#[test]
fn every_kind_that_the_proxies_use_has_its_entry_in_the_dissector() {
    let read = |path: &str| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../..")
            .join(path);
        std::fs::read_to_string(path).expect("it is part of the source")
    };
    let dissector = read("extras/wireshark/tandem.lua");
    let entries = |table: &str| -> Vec<u8> {
        dissector
            .split(&format!("\nlocal {table} = {{"))
            .nth(1)
            .and_then(|rest| rest.split("\n}").next())
            .expect("the dissector has this table")
            .lines()
            .filter_map(|line| {
                line.trim()
                    .strip_prefix('[')?
                    .split(']')
                    .next()?
                    .parse()
                    .ok()
            })
            .collect()
    };
    let numbers = |path: &str, before: &str, between: &str| -> Vec<u8> {
        read(path)
            .lines()
            .filter_map(|line| line.trim().strip_prefix(before)?.split_once(between))
            .filter_map(|(_, number)| number.trim_end_matches([';', ',']).parse().ok())
            .collect()
    };
    let options = numbers(
        "crates/proxy/tandem-link/src/inband/option.rs",
        "const ",
        ": u8 = ",
    );
    let frames = numbers(
        "crates/proxy/tandem-link/src/inband/frame.rs",
        "Sender::",
        " => ",
    );
    assert!(
        options.len() >= 4 && !frames.is_empty(),
        "{options:?} {frames:?}"
    );
    let missing: Vec<&u8> = options
        .iter()
        .filter(|kind| !entries("OPTIONS").contains(kind))
        .collect();
    assert_eq!(missing, [&0; 0], "options without an entry");
    let missing: Vec<&u8> = frames
        .iter()
        .filter(|kind| !entries("FRAMES").contains(kind))
        .collect();
    assert_eq!(missing, [&0; 0], "frames without an entry");
}

/// One direction of a connection, for packets made by hand.
#[derive(Clone, Copy)]
struct FlowDirection {
    source: SocketAddr,
    destination: SocketAddr,
}

impl FlowDirection {
    /// From the server to the client with this port.
    fn down(port: u16) -> Self {
        Self {
            source: SocketAddr::from(([10, 0, 0, 2], 443)),
            destination: SocketAddr::from(([10, 0, 0, 1], port)),
        }
    }

    fn up(port: u16) -> Self {
        let Self {
            source,
            destination,
        } = Self::down(port);
        Self {
            source: destination,
            destination: source,
        }
    }

    fn packet(self, seq: u32, flags: TcpFlags, options: &[u8], payload: &[u8]) -> Vec<u8> {
        let mut packet = SegmentRepr {
            source: self.source,
            destination: self.destination,
            seq: Seq(seq),
            ack: Seq(1),
            flags,
            window: 1_000,
            options: vec![1; options.len()],
            payload: payload.to_vec(),
            hop_limit: 64,
        }
        .build();
        // Past the writer, which refuses options that no TCP would send. Checksums are not looked
        // at.
        packet[HEADERS..HEADERS + options.len()].copy_from_slice(options);
        packet
    }
}

/// An option as `tandem-link` describes it: type, body; the tag is seven bytes of 0xee.
fn option(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = u8::try_from(12 + body.len()).expect("it fits an option");
    [&[253, length, 0x54, 0x44, 0x10 | kind], body, &[0xee; 7]].concat()
}

/// A frame as `tandem-link` and `tandem-delta` describe it: 20 literal bytes, 500 of a first
/// reference from its byte 7, 400 of a second.
fn frame() -> Vec<u8> {
    let mut delta = vec![2];
    delta.extend([0xaa; 16]);
    delta.extend([0xbb; 16]);
    // Lengths are doubled; the odd ones are copies. 20, 500 and 400 in seven bits a byte, least
    // significant first.
    delta.push(20 << 1);
    delta.extend([0x11; 20]);
    delta.extend([0xe9, 0x07, 0, 7]);
    delta.extend([0xa1, 0x06, 1, 0]);
    let length = u8::try_from(delta.len()).expect("short");
    // It stands for 920 bytes.
    let mut frame = vec![0x11, 0x98, 0x07, length];
    frame.append(&mut delta);
    frame.extend([0xcc; 8]);
    frame
}

/// A frame of the second version: 20 literal bytes, 400 of a reference from its byte 7, 64 of the
/// number 5, and 436 that are compressed into three against the number 6 and the reference.
fn second_frame() -> Vec<u8> {
    let mut delta = vec![1];
    delta.extend([0xaa; 16]);
    // Twice the length, and the kind.
    delta.push(20 << 1);
    delta.extend([0x11; 20]);
    delta.extend([0xa1, 0x06, 0, 7]);
    delta.extend([0x81, 0x01, 5 << 1 | 1, 0]);
    delta.extend([0, 0xb4, 0x03, 2, 6 << 1 | 1, 0, 3, 0x77, 0x88, 0x99]);
    let length = u8::try_from(delta.len()).expect("short");
    let mut frame = vec![0x21, 0x98, 0x07, length];
    frame.append(&mut delta);
    frame.extend([0xcc; 8]);
    frame
}

/// A publication as `tandem-link` describes it: one in 256, over two chains, three bytes of filter.
fn publication() -> Vec<u8> {
    let mut publication = vec![
        0x13, 0xab, 0xcd, 0xef, 0x01, 0x80, 0x02, 2, 3, 0x77, 0x88, 0x99,
    ];
    publication.extend([0xcc; 8]);
    publication
}

/// The thesis's flight in which one certificate is known and one is not, in one record.
fn compressed() -> Vec<u8> {
    let mut body = vec![1];
    body.extend([0xaa; 16]);
    body.extend([2, 0, 0, 5]);
    body.extend([0x30; 5]);
    let mut record = vec![22, 3, 3, 0, u8::try_from(body.len() + 4).expect("short")];
    record.extend([0x99, 0, 0, u8::try_from(body.len()).expect("short")]);
    record.append(&mut body);
    record
}

/// A ClientHello whose client announces a chain of two, and to which the thesis's proxy has added
/// what is held.
fn hello() -> Vec<u8> {
    let mut extensions = vec![0, 0x9a, 0, 32];
    extensions.extend([[0xaa; 16], [0xbb; 16]].as_flattened());
    extensions.extend([0, 0x99, 0, 16]);
    extensions.extend([0xcc; 16]);
    let mut body = vec![3, 3];
    body.extend([1; 32]);
    // No session, one suite, no compression.
    body.extend([0, 0, 2, 0xc0, 0x2f, 1, 0, 0]);
    body.push(u8::try_from(extensions.len()).expect("short"));
    body.append(&mut extensions);
    let length = u8::try_from(body.len()).expect("short");
    let mut record = vec![22, 3, 1, 0, length + 4, 1, 0, 0, length];
    record.append(&mut body);
    record
}

/// A ServerHello to which the thesis's proxy has added what is held.
fn answer() -> Vec<u8> {
    let mut body = vec![3, 3];
    body.extend([2; 32]);
    // No session, the suite, no compression, one extension.
    body.extend([0, 0xc0, 0x2f, 0, 0, 20, 0, 0x99, 0, 16]);
    body.extend([0xdd; 16]);
    let length = u8::try_from(body.len()).expect("short");
    let mut record = vec![22, 3, 3, 0, length + 4, 2, 0, 0, length];
    record.append(&mut body);
    record
}

/// Writes a capture; each packet with how much of it was cut off.
fn write(file: &Path, packets: &[(Vec<u8>, usize)]) {
    let file = File::create(file).expect("a writable folder");
    let mut writer = PcapNgWriter::new(file).expect("writable");
    let interface = InterfaceDescriptionBlock {
        linktype: DataLink::RAW,
        snaplen: 0,
        options: Vec::new(),
    };
    writer.write_pcapng_block(interface).expect("writable");
    for (index, (packet, cut)) in packets.iter().enumerate() {
        let block = EnhancedPacketBlock {
            interface_id: 0,
            timestamp: Duration::from_millis(index as u64),
            original_len: u32::try_from(packet.len()).expect("a packet"),
            data: Cow::Borrowed(&packet[..packet.len() - cut]),
            options: Vec::new(),
        };
        writer.write_pcapng_block(block).expect("writable");
    }
}

#[test]
fn compressed_literals_and_numbers_are_shown_with_their_dictionaries() {
    let directory = tempfile::tempdir().expect("a place for temporary files");
    let file = directory.path().join("second.pcapng");
    let Some(reader) = Reader::new(file.clone()) else {
        return;
    };
    let (syn, ack) = (TcpFlags::SYN, TcpFlags::ACK);
    let packets = [
        FlowDirection::up(1).packet(0, syn, &option(1, &[]), &[]),
        FlowDirection::down(1).packet(1_000, ack, &[], &second_frame()),
    ];
    write(&file, &packets.map(|packet| (packet, 0)));
    let frames = reader.fields(
        "tandem.frame",
        &[
            "tandem.version",
            "tandem.frame.span",
            "tandem.add",
            "tandem.copy.length",
            "tandem.copy.reference",
            "tandem.inflate.length",
            "tandem.inflate.dictionary",
            "tandem.inflate",
        ],
    );
    assert_eq!(frames.len(), 1);
    let aa = "aa".repeat(16);
    let dictionaries = format!("number 6,{}…", &aa[..16]);
    let expected = [
        "2",
        "920",
        &"11".repeat(20),
        "400,64",
        &aa,
        "436",
        &dictionaries,
        "778899",
    ];
    assert_eq!(frames[0][..], expected);
    assert_eq!(
        reader.fields("tandem.malformed", &["frame.number"]).len(),
        0
    );
}

#[test]
fn each_message_made_by_hand_is_shown_with_its_values() {
    let directory = tempfile::tempdir().expect("a place for temporary files");
    let file = directory.path().join("hand.pcapng");
    let Some(reader) = Reader::new(file.clone()) else {
        return;
    };
    let (syn, ack) = (TcpFlags::SYN, TcpFlags::ACK);
    let whole = frame();
    let thesis = compressed();
    let hint: Vec<u8> = (1..=8).collect();
    let packets = [
        FlowDirection::up(1).packet(0, syn, &option(1, &[]), &[]),
        FlowDirection::down(1).packet(0, syn.with(ack), &option(2, &[]), &[]),
        FlowDirection::up(1).packet(1, ack, &option(3, &hint), &[]),
        // A frame in one segment, then another in two.
        FlowDirection::down(1).packet(1_000, ack, &[], &whole),
        FlowDirection::down(1).packet(3_000, ack, &[], &whole[..30]),
        FlowDirection::down(1).packet(3_030, ack, &[], &whole[30..]),
        FlowDirection::up(1).packet(1, ack, &option(4, &[]), &[]),
        // A later version's type, and a version that is not known yet.
        FlowDirection::up(1).packet(1, ack, &option(9, &[5, 6, 7, 8]), &[]),
        // No connection in which an option was seen, and a frame all the same.
        FlowDirection::down(2).packet(1_000, ack, &[], &whole),
        // The thesis's, in one segment and in two.
        FlowDirection::down(3).packet(1, ack, &[], &thesis),
        FlowDirection::down(3).packet(1_000, ack, &[], &thesis[..20]),
        FlowDirection::down(3).packet(1_020, ack, &[], &thesis[20..]),
        FlowDirection::up(4).packet(1, ack, &[], &hello()),
        FlowDirection::down(4).packet(1, ack, &[], &answer()),
        // Who goes by what the other publishes, and a publication; the second is cut, and so none.
        FlowDirection::up(5).packet(0, syn, &option(1, &[9, 8, 7, 6]), &[]),
        FlowDirection::down(5).packet(1, ack, &[], &publication()),
        FlowDirection::down(5).packet(1, ack, &[], &publication()[..19]),
    ];
    write(&file, &packets.map(|packet| (packet, 0)));

    let options = reader.fields(
        "tandem.option",
        &[
            "frame.number",
            "tandem.version",
            "tandem.option",
            "tandem.option.tag",
        ],
    );
    let tag = "ee".repeat(7);
    let expected = [
        ("1", "1"),
        ("2", "2"),
        ("3", "3"),
        ("7", "4"),
        ("8", "9"),
        ("15", "1"),
    ];
    for (row, (packet, kind)) in options.iter().zip(expected) {
        assert_eq!(row[..], [packet, "1", kind, &tag]);
    }
    assert_eq!(options.len(), expected.len());
    let held = reader.fields(
        "tandem.option.held",
        &["frame.number", "tandem.option.held"],
    );
    assert_eq!(held.len(), 1);
    assert_eq!(held[0][1].replace(',', ""), "0102030405060708");
    let unknown = reader.fields("tandem.option == 9", &["tandem.option.body"]);
    assert_eq!(unknown, [["05060708"]]);

    let frames = reader.fields(
        "tandem.frame",
        &[
            "frame.number",
            "tandem.frame.span",
            "tandem.frame.length",
            "tandem.add",
            "tandem.copy.length",
            "tandem.copy.offset",
            "tandem.copy.reference",
            "tandem.frame.check",
            "tandem.frame.segment",
        ],
    );
    let (first, second) = ("aa".repeat(16), "bb".repeat(16));
    let length = whole.len().to_string();
    for (row, (packet, segments)) in frames.iter().zip([("4", ""), ("6", "5,6"), ("9", "")]) {
        let expected = [
            packet,
            "920",
            &length,
            &"11".repeat(20),
            "500,400",
            "7,0",
            &format!("{first},{second}"),
            &"cc".repeat(8),
            segments,
        ];
        assert_eq!(row[..], expected);
    }
    assert_eq!(frames.len(), 3);
    assert_eq!(
        reader.fields("tandem.incomplete", &["frame.number"]),
        [["5"]]
    );

    let thesis = reader.fields(
        "tandem.mcveety.entry",
        &[
            "frame.number",
            "tandem.mcveety.entry",
            "tandem.mcveety.reference",
            "tandem.mcveety.certificate",
        ],
    );
    for (row, packet) in thesis.iter().zip(["10", "12"]) {
        assert_eq!(row[..], [packet, "1,2", &first, "3030303030"]);
    }
    assert_eq!(thesis.len(), 2);
    assert_eq!(
        reader.fields("tandem.malformed", &["frame.number"]).len(),
        0
    );
    let announced = [
        "frame.number",
        "tandem.intention",
        "tandem.mcveety.possession",
    ];
    let both = format!("{first},{second}");
    assert_eq!(
        reader.fields("tandem.intention", &announced),
        [["13", &both, &"cc".repeat(16)]]
    );
    assert_eq!(
        reader.fields(
            "tandem.mcveety.possession && tcp.srcport == 443",
            &announced
        ),
        [["14", "", &"dd".repeat(16)]]
    );
    let published = reader.fields(
        "tandem.holdings",
        &[
            "frame.number",
            "tandem.holdings",
            "tandem.filter.one_in",
            "tandem.filter.chains",
            "tandem.filter.bits",
        ],
    );
    assert_eq!(published[0][..], ["15", "0x09080706", "", "", ""]);
    assert_eq!(published[1][..], ["16", "0xabcdef01", "256", "2", "778899"]);
    assert_eq!(published.len(), 2);
    let line = reader.run(&["-Y", "frame.number == 4"]);
    assert!(line.contains("[Tandem: flight: "), "{line}");
}

/// Numbers that look like chance, the same in each run.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        // xorshift64 (Marsaglia 2003).
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 >> 8
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    fn bytes(&mut self, most: usize) -> Vec<u8> {
        (0..self.below(most + 1))
            .map(|_| self.next() as u8)
            .collect()
    }
}

#[test]
fn garbage_raises_no_error_in_the_dissector() {
    let directory = tempfile::tempdir().expect("a place for temporary files");
    let file = directory.path().join("garbage.pcapng");
    let Some(reader) = Reader::new(file.clone()) else {
        return;
    };
    let mut noise = Noise(0x1234_5678_9abc_def1);
    let good = [frame(), second_frame(), compressed(), hello(), answer()];
    let ack = TcpFlags::ACK;
    // In these connections an option was seen, so that what looks like a frame is taken for one.
    let mut packets: Vec<(Vec<u8>, usize)> = (0..8)
        .map(|port| {
            (
                FlowDirection::up(port).packet(0, TcpFlags::SYN, &option(1, &[]), &[]),
                0,
            )
        })
        .collect();
    let mut seq = 1;
    for message in &good {
        for end in 1..message.len() {
            seq += 5_000;
            packets.push((
                FlowDirection::down(1).packet(seq, ack, &[], &message[..end]),
                0,
            ));
            // Cut by whoever captured.
            let packet = FlowDirection::down(9).packet(seq, ack, &[], message);
            packets.push((packet, end));
        }
        for at in 0..message.len() {
            for value in [0, 0xff, message[at] ^ 1, message[at] ^ 0x80] {
                seq += 5_000;
                let mut bad = message.clone();
                bad[at] = value;
                packets.push((FlowDirection::down(2).packet(seq, ack, &[], &bad), 0));
            }
        }
    }
    for round in 0..1_500 {
        let direction = FlowDirection::down(u16::try_from(round % 16).expect("small"));
        let mut payload = match noise.below(4) {
            0 => vec![0x11],
            1 => vec![0x16, 3, 3, 0, noise.next() as u8, 0x99, 0, 0],
            2 => vec![0x16, 3, 1, 0, noise.next() as u8, 1, 0, 0],
            _ => Vec::new(),
        };
        payload.extend(noise.bytes(300));
        let mut options = match noise.below(3) {
            0 => vec![253, noise.below(30) as u8, 0x54, 0x44],
            1 => option(noise.below(16) as u8, &vec![7; noise.below(6) * 4]),
            _ => Vec::new(),
        };
        options.extend(noise.bytes(8));
        options.truncate(40);
        options.resize(options.len().next_multiple_of(4), 0);
        // Now and then one segment goes on where the last ended.
        seq += if noise.below(2) == 0 { 0 } else { 7_000 };
        let packet = direction.packet(seq, ack, &options, &payload);
        seq += u32::try_from(payload.len()).expect("short");
        let cut = noise.below(4).saturating_sub(2) * noise.below(packet.len() - 20);
        packets.push((packet, cut));
    }
    write(&file, &packets);
    // The whole tree of every packet, in one pass and in two.
    let once = reader.run(&["-V"]);
    reader.run(&["-2", "-O", "tandem"]);
    assert!(once.contains("Tandem"), "garbage is looked at");
    assert!(
        !reader
            .fields("tandem.malformed", &["frame.number"])
            .is_empty()
    );
}
