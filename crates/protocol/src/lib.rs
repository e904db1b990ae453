//! Git's wire protocol without I/O: pkt-lines, side-band, messages and sessions.

#![forbid(unsafe_code)]
