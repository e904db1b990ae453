//! Calls of upload-pack: connects the outputs of a session to refs, plans and segments. Blocking: a transport
//! calls it on a thread of its own.

mod bundle_uri;
mod features;
mod fetch_trace;
mod filter;
mod hook;
mod object_info;
mod packfile_uris;
mod send_pack;
mod serve;
mod settings;
mod show_refs;
mod wants;

use std::ffi::OsString;
use std::io::Read;

use packrace_os::clock::Clock;

use crate::bundles::KeptBundles;
use crate::error::Error;
use crate::send::outbox::ClientSink;
use crate::subject::Subject;
pub use features::{BlobUri, blob_uris, uris_of};

/// One call of upload-pack.
#[derive(Debug, Clone)]
pub struct UploadPack {
    /// The repository, and how it is served.
    pub subject: Subject,
    /// Variables that `uploadpack.packObjectsHook` gets in addition to those of this process.
    pub hook_environment: Vec<(OsString, OsString)>,
    /// The bundles that the server keeps, if it offers them to this client.
    pub bundles: Option<KeptBundles>,
}

/// Serves one call, from the advertisement to the end. `Ok` is exit code 0; an error was already sent to the
/// client wherever the protocol has a message for it.
pub fn upload_pack(
    call: &UploadPack,
    input: &mut (dyn Read + Send),
    client: &mut dyn ClientSink,
    clock: &dyn Clock,
) -> Result<(), Error> {
    serve::Upload::new(call, client, clock)?.serve(input)
}
