//! `packrace upload-pack`: one conversation on standard input and output.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use packrace_os::clock::RealClock;
use packrace_os::source::FdSource;
use packrace_server::stdio::StreamSink;
use packrace_server::subject::{Mode, ProtocolVersion, Subject};
use packrace_server::transfers::Transfer;
use packrace_server::upload;
use packrace_store::Repository;

use crate::args::{Globals, UploadPack};
use crate::discovery::in_directory;
use crate::environment::Environment;
use crate::fatal::Fatal;
use crate::users;

pub fn run(globals: &Globals, args: &UploadPack, environment: &Environment) -> Result<(), Fatal> {
    let directory = args.directory.clone().or_else(|| globals.git_dir.clone());
    let directory = directory.ok_or_else(|| Fatal::usage("you must name a directory"))?;
    let directory = if args.strict { directory } else { expand_home(&directory, environment) };
    let mode = mode(args.http_backend_info_refs, args.stateless_rpc);
    let call = upload::UploadPack {
        subject: subject(globals, environment, &directory, args.strict, mode)?,
        hook_environment: environment.for_upload_hooks(globals),
    };
    let timeout = (args.timeout > 0).then(|| Duration::from_secs(args.timeout));
    let mut input = FdSource::stdin(timeout).map_err(Fatal::new)?;
    let mut client = StreamSink::stdout().map_err(Fatal::new)?;
    let served = upload::upload_pack(&call, &mut input, &mut client, &RealClock::default());
    // The process ends, and the kernel takes the maps of all packs back at once, which costs less than one after the other.
    std::mem::forget(call);
    Ok(served?)
}

/// How a call is carried, as two options say it.
pub(super) fn mode(advertises: bool, is_stateless: bool) -> Mode {
    match (advertises, is_stateless) {
        (true, _) => Mode::Advertise,
        (false, true) => Mode::StatelessRpc,
        (false, false) => Mode::Stateful,
    }
}

/// What a call on standard input and output is about.
pub(super) fn subject(
    globals: &Globals,
    environment: &Environment,
    directory: &Path,
    is_strict: bool,
    mode: Mode,
) -> Result<Subject, Fatal> {
    let namespace = environment.namespace(globals)?;
    let mut options = environment.open_options(globals)?;
    options.strict = is_strict;
    // As git: what its owner has configured, and his hooks, are not ours to run.
    options.check_ownership = true;
    let repository = Repository::open(&in_directory(globals, directory)?, &options)?;
    Ok(Subject {
        repository: Arc::new(repository),
        version: ProtocolVersion::from_environment(&environment.protocol),
        mode,
        namespace,
        agent: environment.agent(),
        transfer: Transfer::unlisted(environment.session_id.clone()),
        host: Arc::default(),
        confinement: Default::default(),
        paths: Default::default(),
    })
}

/// `~/x` is below the home directory, `~user/x` below the one that `/etc/passwd` names. A path without such a home
/// stays as it is, and leads nowhere.
pub(super) fn expand_home(path: &Path, environment: &Environment) -> PathBuf {
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
