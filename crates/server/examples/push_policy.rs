//! A policy that looks at the objects which a push brings: none may be larger than a limit.
//! `cargo run -p packrace-server --example push_policy -- FOLDER`

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use packrace_pack::plan::plan;
use packrace_pack::{NoProgress, PackRequest, RequestObjects};
use packrace_server::embed::{Git, ReceiveHook, ReceivedPush};
use packrace_store::cache_bytes;
use packrace_store::refs::Target;

/// Refuses objects above this size.
#[derive(Debug)]
struct LargestObject(u64);

impl LargestObject {
    /// Says how many objects a push brings; an error names one that is too large.
    fn check(&self, push: &ReceivedPush<'_>) -> Result<(), Box<dyn std::error::Error>> {
        // What the new values reach and the present refs do not; the refs still have their old values.
        let mut haves = Vec::new();
        push.repository.refs().snapshot(&[b"refs/"])?.visit(b"refs/", &mut |record| {
            if let Target::Direct { id, .. } = record.target {
                haves.push(id);
            }
            ControlFlow::Continue(())
        })?;
        let wants = push.refs.iter().map(|pushed| pushed.new).filter(|id| !id.is_null()).collect();
        let request = PackRequest { wants, haves, threads: 1, ..PackRequest::default() };
        let snapshot = push.repository.snapshot()?;
        let objects = Arc::new(RequestObjects::new(snapshot.clone()));
        let brought = plan(&objects, &request, &NoProgress)?.ids();
        push.say(&format!("{} new objects\n", brought.len()));
        let mut reader = snapshot.reader(cache_bytes::FEW_OBJECTS);
        for id in brought {
            match reader.kind_and_size(&id)? {
                Some((kind, bytes)) if bytes > self.0 => {
                    let limit = self.0;
                    return Err(format!("{kind} {id} has {bytes} bytes; at most {limit} are allowed").into());
                }
                _ => {}
            }
        }
        Ok(())
    }
}

impl ReceiveHook for LargestObject {
    fn pre_receive(&self, push: &ReceivedPush<'_>) -> Result<(), String> {
        self.check(push).map_err(|error| error.to_string())
    }

    fn post_receive(&self, _: &ReceivedPush<'_>) {}
}

/// Everybody may push to the repositories of this folder, but no object above 1 MiB.
pub fn serve(folder: &Path) -> std::io::Result<Git> {
    Git::builder(folder)
        .receive_hook(LargestObject(1 << 20))
        .settings(|settings| settings.pushing.is_allowed = true)
        .build()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args().nth(1).ok_or("usage: push_policy FOLDER")?;
    let app = axum::Router::new().fallback_service(serve(Path::new(&folder))?.http());
    tokio::runtime::Runtime::new()?.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        println!("http://{}/", listener.local_addr()?);
        Ok(axum::serve(listener, app).await?)
    })
}
