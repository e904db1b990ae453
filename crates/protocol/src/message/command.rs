//! The beginning of a request in version 2: a command and capabilities (gitprotocol-v2, "Command Request").

use packrace_object::HashKind;

use crate::wire::pkt_line::{DELIM, write_data, write_text};

/// What a client states with every command. Omit what the server did not offer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClientCapabilities {
    /// The value of `agent=`.
    pub agent: Option<String>,
    /// The hash of the client's repository.
    pub hash: Option<HashKind>,
    /// The value of `session-id=`.
    pub session_id: Option<String>,
    /// `server-option=` lines: no NUL, no newline, at most 65,000 bytes each.
    pub server_options: Vec<Vec<u8>>,
}

/// Appends the command, its capabilities and the delimiter before the arguments.
pub fn write_command(out: &mut Vec<u8>, name: &str, capabilities: &ClientCapabilities) {
    write_text(&format!("command={name}"), out);
    if let Some(agent) = &capabilities.agent {
        write_text(&format!("agent={agent}"), out);
    }
    if let Some(session_id) = &capabilities.session_id {
        write_text(&format!("session-id={session_id}"), out);
    }
    if let Some(hash) = capabilities.hash {
        write_text(&format!("object-format={hash}"), out);
    }
    for option in &capabilities.server_options {
        write_data(&[b"server-option=", option.as_slice(), b"\n"].concat(), out);
    }
    out.extend_from_slice(DELIM);
}
