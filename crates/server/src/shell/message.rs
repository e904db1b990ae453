//! The messages between `packrace shell` and a running server over a Unix socket.
//!
//! The shell sends one message, and with its first byte the standard input, output and error (SCM_RIGHTS):
//!
//! | offset | bytes | |
//! |---|---|---|
//! | 0 | 8 | `prshell`, and the version of this format, 1 |
//! | 8 | 2 | length of all that follows; like all numbers, big-endian |
//! | 10 | 1 | the service: `u` for upload-pack, `r` for receive-pack |
//! | 11 | 1 | the version of git's protocol: 0, 1 or 2 |
//! | 12 | … | the served folder, the path of the repository, the user, address and port of the client: each its length in 2 bytes, and that many bytes; an unknown address is empty |
//!
//! The server answers with [`READY`]. It uses no descriptor before the shell has sent [`GO`], so that the
//! shell may decline and serve alone. After that the shell sends nothing; its end ends the session. At the
//! end, the server sends
//!
//! | bytes | |
//! |---|---|
//! | 1 | 0 for success, else 1 |
//! | 2 | length of the text |
//! | … | text for standard error |

use std::ffi::OsStr;
use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::command::ShellCommand;
use super::session::ShellRequest;
use crate::service::call::Service;
use crate::subject::ProtocolVersion;

/// The start of a message.
const MAGIC: [u8; 8] = *b"prshell\x01";

/// Bytes that the length does not count.
pub(super) const HEAD_BYTES: usize = 10;

/// The longest message: two paths, and short fields.
pub(super) const MAX_MESSAGE_BYTES: usize = 10 << 10;

/// The server is ready to serve.
pub(super) const READY: u8 = b'R';

/// The server may serve.
pub(super) const GO: u8 = b'G';

/// The longest text at the end of a session.
const MAX_TEXT_BYTES: usize = 4 << 10;

/// Bytes before the text at the end of a session.
pub(super) const END_HEAD_BYTES: usize = 3;

/// The message for a request, of the folder at `root`. `None` if it is too long.
pub(super) fn encode(root: &Path, request: &ShellRequest) -> Option<Vec<u8>> {
    let ShellRequest { command, user, version, client } = request;
    let client = client.map(|client| client.to_string()).unwrap_or_default();
    let mut body = vec![
        match command.service {
            Service::UploadPack => b'u',
            Service::ReceivePack => b'r',
        },
        match version {
            ProtocolVersion::V0 => 0,
            ProtocolVersion::V1 => 1,
            ProtocolVersion::V2 => 2,
        },
    ];
    for text in [root.as_os_str().as_bytes(), &command.path, user.as_bytes(), client.as_bytes()] {
        body.extend_from_slice(&u16::try_from(text.len()).ok()?.to_be_bytes());
        body.extend_from_slice(text);
    }
    let length = u16::try_from(body.len()).ok()?;
    let message = [&MAGIC[..], &length.to_be_bytes(), &body].concat();
    (message.len() <= MAX_MESSAGE_BYTES).then_some(message)
}

/// How many bytes follow a head; `None` if it is invalid.
pub(super) fn body_bytes(head: &[u8]) -> Option<usize> {
    let &[high, low] = head.strip_prefix(&MAGIC)? else { return None };
    Some(usize::from(u16::from_be_bytes([high, low])))
        .filter(|length| HEAD_BYTES + length <= MAX_MESSAGE_BYTES)
}

/// The folder and the request behind a head. `None` unless all bytes are understood.
pub(super) fn decode(body: &[u8]) -> Option<(PathBuf, ShellRequest)> {
    let [service, version, rest @ ..] = body else { return None };
    let mut rest = rest;
    let service = match service {
        b'u' => Service::UploadPack,
        b'r' => Service::ReceivePack,
        _ => return None,
    };
    let version = match version {
        0 => ProtocolVersion::V0,
        1 => ProtocolVersion::V1,
        2 => ProtocolVersion::V2,
        _ => return None,
    };
    let mut text = || {
        let (length, behind) = rest.split_first_chunk::<2>()?;
        let (text, behind) = behind.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
        rest = behind;
        Some(text)
    };
    let root = PathBuf::from(OsStr::from_bytes(text()?));
    let command = ShellCommand::new(service, text()?.to_vec())?.ok()?;
    let user = std::str::from_utf8(text()?).ok().filter(|user| !user.is_empty())?.to_owned();
    let client = std::str::from_utf8(text()?).ok()?;
    let client: Option<SocketAddr> = match client {
        "" => None,
        client => Some(client.parse().ok()?),
    };
    rest.is_empty().then_some((root, ShellRequest { command, user, version, client }))
}

/// The server's message at the end of a session.
pub(super) fn encode_end(ended: &Result<(), String>) -> Vec<u8> {
    let (code, text) = match ended {
        Ok(()) => (0, ""),
        Err(text) => (1, text.as_str()),
    };
    let text = &text.as_bytes()[..text.len().min(MAX_TEXT_BYTES)];
    let [high, low] = (text.len() as u16).to_be_bytes();
    [&[code, high, low], text].concat()
}

/// How a session ended, and the length of the text about it; `None` if the head is invalid.
pub(super) fn decode_end(head: [u8; END_HEAD_BYTES]) -> Option<(bool, usize)> {
    let [code @ (0 | 1), high, low] = head else { return None };
    let length = usize::from(u16::from_be_bytes([high, low]));
    (length <= MAX_TEXT_BYTES).then_some((code == 0, length))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> ShellRequest {
        ShellRequest {
            command: ShellCommand::parse(b"git-receive-pack '/a\xff.git'").unwrap(),
            user: "alice".to_owned(),
            version: ProtocolVersion::V2,
            client: Some("[2001:db8::1]:50122".parse().unwrap()),
        }
    }

    #[test]
    fn messages_come_back() {
        let plain = ShellCommand::parse(b"git-upload-pack 'a'").unwrap();
        let nobody = ShellRequest { command: plain, version: ProtocolVersion::V0, client: None, ..request() };
        for request in [request(), nobody] {
            let message = encode(Path::new("/srv/git"), &request).unwrap();
            let (head, body) = message.split_at(HEAD_BYTES);
            assert_eq!(body_bytes(head), Some(body.len()));
            assert_eq!(decode(body), Some(("/srv/git".into(), request)));
        }
        let long = ShellRequest { user: "x".repeat(MAX_MESSAGE_BYTES), ..request() };
        assert_eq!(encode(Path::new("/"), &long), None);
        let longer = ShellRequest { user: "x".repeat(70_000), ..request() };
        assert_eq!(encode(Path::new("/"), &longer), None);
    }

    #[test]
    fn what_is_no_message_is_none() {
        let message = encode(Path::new("/srv/git"), &request()).unwrap();
        let (head, body) = message.split_at(HEAD_BYTES);
        for end in 0..body.len() {
            assert_eq!(decode(&body[..end]), None, "{end}");
        }
        assert_eq!(decode(&[body, b"x"].concat()), None);
        for at in 0..body.len() {
            for byte in 0..=255 {
                let mut changed = body.to_vec();
                changed[at] = byte;
                let _ = decode(&changed);
            }
        }
        assert_eq!(body_bytes(&head[..9]), None);
        assert_eq!(body_bytes(b"prshell\x02\0\x10"), None);
        assert_eq!(body_bytes(b"prshell\x01\xff\xff"), None);
        // Requests that the shell refuses are refused here, too.
        let path = |path: &str| {
            let mut request = request();
            request.command.path = path.into();
            decode(&encode(Path::new("/"), &request).unwrap()[HEAD_BYTES..])
        };
        assert_eq!((path(""), path("~a"), path("-a")), (None, None, None));
        assert!(path("a").is_some());
    }

    #[test]
    fn ends_come_back() {
        let check = |ended: Result<(), String>, text: &str| {
            let sent = encode_end(&ended);
            let (head, behind) = sent.split_first_chunk().unwrap();
            assert_eq!(decode_end(*head), Some((ended.is_ok(), text.len())));
            assert_eq!(behind, text.as_bytes());
        };
        check(Ok(()), "");
        check(Err("no".into()), "no");
        check(Err("x".repeat(9999)), &"x".repeat(MAX_TEXT_BYTES));
        assert_eq!(decode_end([2, 0, 0]), None);
        assert_eq!(decode_end([1, 0xff, 0xff]), None);
    }
}
