//! `git upload-pack`: one conversation on standard input and output.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use packrace_os::clock::RealClock;
use packrace_server::stdio::StreamSink;
use packrace_server::subject::{CallMode, ProtocolVersion, Subject};
use packrace_server::transfers::Transfer;
use packrace_server::upload;
use packrace_store::Repository;

use crate::call::Call;
use crate::call::discovery::in_directory;
use crate::call::environment::Environment;
use crate::call::fatal::Fatal;
use crate::call::streams::OutputSink;
use crate::call::users;
use crate::options::UploadPackOptions;

/// The pipe buffer that is asked for; Linux lets everybody have 1 MiB (`/proc/sys/fs/pipe-max-size`).
const PIPE_BYTES: usize = 1 << 20;

/// Does what `git upload-pack` does.
pub fn run(call: &Call, args: &UploadPackOptions) -> Result<(), Fatal> {
    let directory = args.directory.clone().or_else(|| call.globals.git_dir.clone());
    let directory = directory.ok_or_else(|| Fatal::usage("you must name a directory"))?;
    let directory = if args.strict { directory } else { expand_home(&directory, &call.environment) };
    let mode = mode(args.http_backend_info_refs, args.stateless_rpc);
    let fetch = upload::UploadPack {
        subject: subject(call, &directory, args.strict, mode)?,
        hook_environment: call.environment.for_upload_hooks(&call.globals),
    };
    let timeout = (args.timeout > 0).then(|| Duration::from_secs(args.timeout));
    let mut input = call.streams.source(timeout).map_err(Fatal::new)?;
    let mut client = client(call)?;
    let served = upload::upload_pack(&fetch, &mut input, &mut client, &RealClock::default());
    if call.ends_process {
        // The kernel takes the maps of all packs back at once, which costs less than one after the other.
        std::mem::forget(fetch);
    }
    Ok(served?)
}

/// The way out, through a pipe that holds what one batch fills.
pub(crate) fn client(call: &Call) -> Result<StreamSink<OutputSink<'_>>, Fatal> {
    let sink = call.streams.sink().map_err(Fatal::new)?;
    sink.enlarge_pipe(PIPE_BYTES);
    Ok(StreamSink::new(sink))
}

/// How a call is carried, as two options say it.
pub(crate) fn mode(advertises: bool, is_stateless: bool) -> CallMode {
    match (advertises, is_stateless) {
        (true, _) => CallMode::Advertise,
        (false, true) => CallMode::StatelessRpc,
        (false, false) => CallMode::Stateful,
    }
}

/// What a call on standard input and output is about.
pub(crate) fn subject(
    call: &Call,
    directory: &Path,
    is_strict: bool,
    mode: CallMode,
) -> Result<Subject, Fatal> {
    let namespace = call.environment.namespace(&call.globals)?;
    let mut options = call.open_options()?;
    options.strict = is_strict;
    // As git: what its owner has configured, and his hooks, are not ours to run.
    options.check_ownership = true;
    let repository = Repository::open(&in_directory(call, directory)?, &options)?;
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

/// `~/x` is below the home directory, `~user/x` below the one that `/etc/passwd` names. A path without such a home
/// stays as it is, and leads nowhere.
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
