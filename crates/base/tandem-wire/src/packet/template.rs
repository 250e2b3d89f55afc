//! The headers of a packet, kept as the template of another segment from the same end of its flow.

use super::TcpPacket;
use crate::error::PacketError;
use crate::ip::{self, IpLayout};

/// The headers of the packet that was kept last.
#[derive(Clone, Debug, Default)]
pub struct Template {
    headers: Vec<u8>,
    ip: Option<IpLayout>,
}

impl Template {
    /// Keeps the headers of this packet, in place of those before. Costs a copy of them.
    pub fn keep(&mut self, packet: &TcpPacket<'_>) {
        self.headers.clear();
        self.headers
            .extend_from_slice(&packet.bytes[..packet.header_len()]);
        self.ip = Some(packet.ip);
    }

    /// These headers as a packet without payload. Its TCP checksum is still that of the packet with
    /// its payload; [`TcpPacket::rebuilt`] makes it right.
    ///
    /// # Errors
    /// [`PacketError::Truncated`] where nothing was kept.
    pub fn packet(&self) -> Result<Vec<u8>, PacketError> {
        let ip = self.ip.ok_or(PacketError::Truncated)?;
        let mut packet = self.headers.clone();
        ip::finish_header(ip.version, &mut packet, ip.header_len)?;
        Ok(packet)
    }

    /// Bytes of memory in use, about.
    #[must_use]
    pub fn footprint(&self) -> usize {
        self.headers.len()
    }
}
