//! Runs the server's side of a fetch on the bytes of a file, or on a request of its own: `cargo run -p
//! packrace-protocol --example fetch -- REQUEST`. `GIT_TRACE_PACKET=1 git fetch` shows the bytes that a client
//! sends.
//!
//! The session asks; its driver answers. This one has no repository: there is one branch, and the pack is empty.

use std::io::Write as _;

use packrace_object::{HashKind, ObjectId};
use packrace_protocol::message::ls_refs;
use packrace_protocol::message::service::ServiceConfig;
use packrace_protocol::session::fetch_v2::Session;
use packrace_protocol::session::{Carriage, HavesAnswer, Input, Output};
use packrace_protocol::wire::pkt_line::{write_data, write_text};

/// An empty pack: its header and the hash of it.
const PACK: &[u8] =
    b"PACK\0\0\0\x02\0\0\0\0\x02\x9d\x08\x82\x3b\xd8\xa8\xea\xb5\x10\xad\x6a\xc7\x5c\x82\x3c\xfd\x3e\xd3\x1e";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let tip = ObjectId::from_hex(b"1112912053fabcdef0123456789abcdef0123456")?;
    let request = match std::env::args_os().nth(1) {
        Some(path) => std::fs::read(path)?,
        None => request(&tip.to_string()),
    };
    let mut answer = Vec::new();
    let mut session = Session::new(ServiceConfig::new("example/1.0", HashKind::Sha1), Carriage::Stateless);
    // Input may be cut anywhere.
    let mut pieces = request.chunks(7);
    loop {
        let input = match session.poll_output() {
            Output::Write(bytes) => {
                answer.extend_from_slice(&bytes);
                continue;
            }
            Output::NeedInput => pieces.next().map_or(Input::Eof, Input::Bytes),
            Output::NeedRefs(request) => {
                println!("refs are asked for: {request:?}");
                ls_refs::write_ref(&mut answer, (&tip).into(), b"refs/heads/main", None, None);
                Input::RefsSent
            }
            Output::CheckWants(wants) => {
                println!("wanted: {wants:?}");
                Input::WantsGranted
            }
            Output::CheckHaves(haves) => {
                println!("the client has: {haves:?}");
                let none = vec![false; haves.len()];
                Input::HavesChecked(HavesAnswer { known: none.clone(), implied: none.clone(), enough: none })
            }
            Output::NeedPack(request) => {
                println!("a pack is asked for: {request:?}");
                // Band 1 of a side-band carries the pack.
                write_data(&[b"\x01", PACK].concat(), &mut answer);
                answer.extend_from_slice(b"0000");
                Input::PackSent
            }
            Output::Done => break,
            other => return Err(format!("this example has no answer to {other:?}").into()),
        };
        if let Err(refusal) = session.handle(input) {
            answer.extend(session.wire(&refusal).unwrap_or_default());
            break;
        }
    }
    std::io::stdout().write_all(&answer)?;
    Ok(())
}

/// The request of a client that has nothing and wants one commit.
fn request(tip: &str) -> Vec<u8> {
    let mut request = Vec::new();
    write_text("command=fetch", &mut request);
    write_text("agent=example/1.0", &mut request);
    request.extend_from_slice(b"0001");
    write_text("ofs-delta", &mut request);
    write_text(&format!("want {tip}"), &mut request);
    write_text("done", &mut request);
    request.extend_from_slice(b"0000");
    request
}
