//! `packrace upload-pack`: one conversation on standard input and output.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use packrace_os::clock::RealClock;
use packrace_os::count::Role;
use packrace_os::source::FdSource;
use packrace_server::engine::{self, Mode, ProtocolVersion};
use packrace_server::transport::stdio::SinkDoor;
use packrace_store::Repository;

use super::{Fatal, in_directory};
use crate::args::{Globals, UploadPack};
use crate::environment::Environment;

pub fn run(globals: &Globals, args: &UploadPack, environment: &Environment) -> Result<(), Fatal> {
    let directory = args.directory.clone().or_else(|| globals.git_dir.clone());
    let directory = directory.ok_or_else(|| Fatal::usage("you must name a directory"))?;
    let directory = if args.strict { directory } else { expand_home(&directory, environment) };
    let namespace = environment.namespace(globals)?;
    let mut options = environment.open_options(globals)?;
    options.strict = args.strict;
    let repository = Repository::open(&in_directory(globals, &directory)?, &options)?;
    let mode = match (args.http_backend_info_refs, args.stateless_rpc) {
        (true, _) => Mode::Advertise,
        (false, true) => Mode::StatelessRpc,
        (false, false) => Mode::Stateful,
    };
    let call = engine::UploadPack {
        repository: Arc::new(repository),
        version: ProtocolVersion::from_environment(&environment.protocol),
        mode,
        namespace,
        agent: environment.agent(),
        session_id: std::process::id().to_string(),
        hook_environment: environment.for_hooks(globals),
    };
    let timeout = (args.timeout > 0).then(|| Duration::from_secs(args.timeout));
    let mut input = FdSource::stdin(timeout).map_err(Fatal::new)?;
    let mut door = SinkDoor::stdout().map_err(Fatal::new)?;
    Ok(engine::upload_pack(&call, &mut input, &mut door, &RealClock::default())?)
}

/// Largest file of users that is searched.
const MAX_PASSWD_BYTES: u64 = 16 << 20;

/// `~/x` is below the home directory, `~user/x` below the one that `/etc/passwd` names. A path without such a home
/// stays as it is, and leads nowhere.
fn expand_home(path: &Path, environment: &Environment) -> PathBuf {
    let mut parts = path.components();
    let Some(Component::Normal(first)) = parts.next() else { return path.to_owned() };
    let home = match first.as_bytes().strip_prefix(b"~") {
        None => None,
        Some(b"") => environment.home().cloned(),
        Some(user) => packrace_os::read_file(Path::new("/etc/passwd"), Role::Config, MAX_PASSWD_BYTES)
            .ok()
            .and_then(|users| home_of(user, &users)),
    };
    home.map_or_else(|| path.to_owned(), |home| home.join(parts.as_path()))
}

/// The sixth field of a user's line (passwd(5)).
fn home_of(user: &[u8], users: &[u8]) -> Option<PathBuf> {
    let mut lines = users.split(|byte| *byte == b'\n').map(|line| line.split(|byte| *byte == b':'));
    let mut fields = lines.find(|fields| fields.clone().next() == Some(user))?;
    let home = fields.nth(5).filter(|home| !home.is_empty())?;
    Some(PathBuf::from(OsStr::from_bytes(home)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn homes() {
        let users = b"root:x:0:0:root:/root:/bin/sh\nann:x:7:7::/users/ann:\nbob:x:8\nsys:x:9:9:::\n";
        let check = |user: &str, expect: Option<&str>| {
            assert_eq!(home_of(user.as_bytes(), users), expect.map(PathBuf::from), "{user}");
        };
        check("root", Some("/root"));
        check("ann", Some("/users/ann"));
        check("bob", None);
        check("sys", None);
        check("an", None);
        let environment = Environment::default();
        for path in ["a/~b", "/~", "~no such user/a", "~/a", "a"] {
            assert_eq!(expand_home(Path::new(path), &environment), Path::new(path));
        }
    }
}
