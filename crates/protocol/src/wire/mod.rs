//! How bytes are cut: pkt-lines, the side-band in them, and capability lists.

pub mod capabilities;
pub mod pkt_line;
pub mod sideband;
