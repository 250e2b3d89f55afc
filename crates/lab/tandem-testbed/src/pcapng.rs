//! A pcapng file of what was offered to the link, with a comment on each packet and one on the
//! whole.
//!
//! Two interfaces: 0 is the link's end at the client-side gateway, 1 that at the server-side one.
//! Packets are raw IP, stamped when they reached the link, not when they had been sent.
//!
//! Specification: draft-ietf-opsawg-pcapng.

use std::borrow::Cow;
use std::fs::File;
use std::io::BufWriter;
use std::path::PathBuf;

use pcap_file::DataLink;
use pcap_file::PcapError;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::pcapng::blocks::section_header::{SectionHeaderBlock, SectionHeaderOption};
use pcap_file::pcapng::{PcapNgBlock, PcapNgWriter};
use tandem_netsim::link::Direction;
use tandem_trace::Moment;

use crate::error::LabError;

/// What wrote the file.
const PROGRAM: &str = concat!("tandem lab ", env!("CARGO_PKG_VERSION"));

/// Timestamps count in 10^-9 s (pcapng, option if_tsresol), which is what the writer writes.
const NANOSECONDS: u8 = 9;

/// A capture to be written.
#[derive(Debug, Clone)]
pub struct CaptureFile {
    /// Where; a file that exists is written over.
    pub path: PathBuf,
    /// What the section's header says of the capture: what was done, nothing of the machine or the
    /// day.
    pub about: String,
}

/// A file under way.
pub(crate) struct LinkCapture {
    writer: PcapNgWriter<BufWriter<File>>,
    what: String,
}

impl LinkCapture {
    /// Makes the file.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn create(capture: &CaptureFile) -> Result<Self, LabError> {
        let what = format!("write {}", capture.path.display());
        let file = File::create(&capture.path).map_err(LabError::io(what.clone()))?;
        let section = SectionHeaderBlock {
            options: vec![
                SectionHeaderOption::Comment(Cow::Owned(capture.about.clone())),
                SectionHeaderOption::UserApplication(Cow::Borrowed(PROGRAM)),
            ],
            ..SectionHeaderBlock::default()
        };
        let mut capture = Self {
            writer: PcapNgWriter::with_section_header(BufWriter::new(file), section)
                .map_err(|error| io(&what, error))?,
            what,
        };
        for name in ["link, client side", "link, server side"] {
            let interface = InterfaceDescriptionBlock {
                linktype: DataLink::RAW,
                snaplen: 0,
                options: vec![
                    InterfaceDescriptionOption::IfName(Cow::Borrowed(name)),
                    InterfaceDescriptionOption::IfTsResol(NANOSECONDS),
                ],
            };
            capture.write(interface)?;
        }
        Ok(capture)
    }

    /// Adds a packet.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn packet(
        &mut self,
        at: Moment,
        direction: Direction,
        packet: &[u8],
        comment: &str,
    ) -> Result<(), LabError> {
        let block = EnhancedPacketBlock {
            interface_id: match direction {
                Direction::Up => 0,
                Direction::Down => 1,
            },
            timestamp: at.since_epoch(),
            original_len: u32::try_from(packet.len()).unwrap_or(u32::MAX),
            data: Cow::Borrowed(packet),
            options: vec![EnhancedPacketOption::Comment(Cow::Borrowed(comment))],
        };
        self.write(block)
    }

    fn write<'a>(&mut self, block: impl PcapNgBlock<'a>) -> Result<(), LabError> {
        self.writer
            .write_pcapng_block(block)
            .map(|_| ())
            .map_err(|error| io(&self.what, error))
    }
}

impl std::fmt::Debug for LinkCapture {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LinkCapture")
            .field("what", &self.what)
            .finish_non_exhaustive()
    }
}

fn io(what: &str, error: PcapError) -> LabError {
    let source = match error {
        PcapError::IoError(source) => source,
        other => std::io::Error::other(other.to_string()),
    };
    LabError::Io {
        what: what.to_owned(),
        source,
    }
}
