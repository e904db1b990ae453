//! Framing: pkt-lines, the side-band in them, and capability lists.

pub mod capabilities;
pub mod demultiplexer;
pub mod packets;
pub mod pkt_line;
mod refused;
pub mod sideband;
