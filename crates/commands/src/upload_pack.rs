//! `git upload-pack`: serves one fetch on standard input and output.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use packrace_os::clock::RealClock;
use packrace_os::trace;
use packrace_server::error::{Error, ErrorKind};
use packrace_server::stdio::StreamSink;
use packrace_server::subject::{CallMode, ProtocolVersion, Subject};
use packrace_server::transfers::Transfer;
use packrace_server::upload;
use packrace_store::{FetchMissing, Repository};

use crate::call::Call;
use crate::call::discovery::in_directory;
use crate::call::environment::Environment;
use crate::call::fatal::Fatal;
use crate::call::printable::harmless;
use crate::call::streams::OutputSink;
use crate::call::users;
use crate::options::UploadPackOptions;
use crate::trace2::packets::traced;

/// Requested pipe buffer; Linux allows 1 MiB to every user (`/proc/sys/fs/pipe-max-size`).
const PIPE_BYTES: usize = 1 << 20;

/// Implements `git upload-pack`.
pub fn run(call: &Call, args: &UploadPackOptions) -> Result<(), Fatal> {
    let directory = args.directory.clone().or_else(|| call.globals.git_dir.clone());
    let directory = directory.ok_or_else(|| Fatal::usage("you must name a directory"))?;
    let directory = if args.strict { directory } else { expand_home(&directory, &call.environment) };
    let mode = mode(args.http_backend_info_refs, args.stateless_rpc);
    let fetch = upload::UploadPack {
        subject: subject(call, &directory, args.strict, mode, Some(call.server_fetcher()))?,
        hook_environment: call.environment.for_upload_hooks(&call.globals),
        bundles: None,
    };
    call.environment.booleans.check(&["GIT_REF_PARANOIA"])?;
    let config = fetch.subject.repository.config();
    config.need_values(&["core.logAllRefUpdates", "transfer.hideRefs", "uploadpack.hideRefs"])?;
    config.need_protected_values(&["uploadpack.packObjectsHook"])?;
    trace::negotiated(fetch.subject.version as u8);
    let timeout = (args.timeout > 0).then(|| Duration::from_secs(args.timeout));
    let input = call.streams.source(timeout).map_err(Fatal::new)?;
    let (mut input, mut client) = traced(call, "upload-pack", input, client(call)?);
    let served = upload::upload_pack(&fetch, &mut input, &mut client, &RealClock::default());
    if call.ends_process {
        // At exit the kernel unmaps all packs together, which is cheaper than one by one.
        std::mem::forget(fetch);
    }
    served.map_err(failed)
}

/// Of a damaged repository, the words of the two processes that git would have run. In git, what the first says goes to the client
/// only, which may have asked for no side-band.
fn failed(error: Error) -> Fatal {
    if error.kind() != ErrorKind::Corrupt || !error.is_of_pack() {
        return error.into();
    }
    let lines = harmless(&error.lines()) + "error: git upload-pack: git-pack-objects died with error.\n";
    let aborting = "git upload-pack: aborting due to possible repository corruption on the remote side.";
    Fatal::new(aborting).after(lines)
}

/// The output, through a pipe that can hold one batch.
pub(crate) fn client(call: &Call) -> Result<StreamSink<OutputSink<'_>>, Fatal> {
    let sink = call.streams.sink().map_err(Fatal::new)?;
    sink.enlarge_pipe(PIPE_BYTES);
    Ok(StreamSink::new(sink))
}

/// The call mode that the two options select.
pub(crate) fn mode(advertises: bool, is_stateless: bool) -> CallMode {
    match (advertises, is_stateless) {
        (true, _) => CallMode::Advertise,
        (false, true) => CallMode::StatelessRpc,
        (false, false) => CallMode::Stateful,
    }
}

/// The subject of a call on standard input and output.
pub(crate) fn subject(
    call: &Call,
    directory: &Path,
    is_strict: bool,
    mode: CallMode,
    fetcher: Option<Arc<dyn FetchMissing>>,
) -> Result<Subject, Fatal> {
    let namespace = call.environment.namespace(&call.globals)?;
    let mut options = call.open_options()?;
    options.strict = is_strict;
    // As in git: configuration and hooks of another owner are not trusted.
    options.check_ownership = true;
    // The variable is about repositories of whoever calls, not about the one that is served.
    options.ref_storage = None;
    options.fetcher = fetcher;
    let mut repository = Repository::open(&in_directory(call, directory)?, &options)?;
    if repository.git_dir() == repository.common_dir() {
        // Git's process goes there.
        repository.show_as(".".into());
    }
    // As in git, a wrong value ends the command also where it does not matter.
    repository.config().boolean("core.bare")?;
    repository.config().need_values_to_open()?;
    Ok(Subject {
        repository: Arc::new(repository),
        version: ProtocolVersion::from_environment(&call.environment.protocol),
        mode,
        namespace,
        agent: call.environment.agent(),
        transfer: Transfer::unlisted(call.environment.session_id.clone()),
        host: Arc::default(),
        confinement: Default::default(),
        paths: Default::default(),
    })
}

/// `~/x` is below the home directory, `~user/x` below the home directory in `/etc/passwd`. A path whose home
/// is unknown stays unchanged, and does not exist.
pub(crate) fn expand_home(path: &Path, environment: &Environment) -> PathBuf {
    let mut parts = path.components();
    let Some(Component::Normal(first)) = parts.next() else { return path.to_owned() };
    let home = match first.as_bytes().strip_prefix(b"~") {
        None => None,
        Some(b"") => environment.home().cloned(),
        Some(user) => users::named(user).and_then(|user| user.home),
    };
    home.map_or_else(|| path.to_owned(), |home| home.join(parts.as_path()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn homes() {
        let environment = Environment::default();
        for path in ["a/~b", "/~", "~no such user/a", "~/a", "a"] {
            assert_eq!(expand_home(Path::new(path), &environment), Path::new(path));
        }
    }
}
