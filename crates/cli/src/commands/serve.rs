//! `packrace serve`: every repository below a folder.

use std::io::{IsTerminal as _, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::fs::MetadataExt as _;

use packrace_server::admission::AdmissionSettings;
use packrace_server::pack_cache::CacheSettings;
use packrace_server::transport::serve::{inetd, serve};
use packrace_server::transport::settings::{Admin, Limits, NewRepositories, Pushing, Settings};
use packrace_store::Config;

use super::receive_pack::committer;
use super::{Fatal, in_directory, init};
use crate::args::{Globals, Serve};
use crate::environment::Environment;

/// Where HTTP is served when nothing is said.
const DEFAULT_HTTP: ([u8; 4], u16) = ([127, 0, 0, 1], 8417);

pub fn run(globals: &Globals, args: &Serve, environment: &Environment) -> Result<(), Fatal> {
    if !args.inetd || has_log_of_its_own() {
        let is_terminal = std::io::stderr().is_terminal();
        tracing_subscriber::fmt()
            .with_writer(std::io::stderr)
            .with_ansi(is_terminal)
            .with_target(false)
            .init();
    }
    let root = in_directory(globals, &args.root)?;
    let failed = |error| Fatal::new(format!("{}: {error}", root.display()));
    let settings = settings(globals, args, environment)?;
    if args.inetd {
        return inetd(&root, settings).map_err(failed);
    }
    let inherited = Environment::inherited_listeners()?;
    let nothing_said = args.http.is_none() && args.git.is_none() && inherited.is_empty();
    let settings = Settings { http: args.http.or(nothing_said.then(|| DEFAULT_HTTP.into())), ..settings };
    serve(&root, settings, inherited, |addresses| {
        let mut stdout = std::io::stdout().lock();
        for (scheme, address) in addresses {
            // Nobody has to listen.
            let _ = writeln!(stdout, "packrace: serving {} at {scheme}://{address}/", root.display());
        }
    })
    .map_err(failed)
}

/// Whether standard error is not the connection itself, as where inetd starts a server.
fn has_log_of_its_own() -> bool {
    let identity = |fd: BorrowedFd<'_>| {
        let file = std::fs::File::from(fd.try_clone_to_owned().ok()?);
        let metadata = file.metadata().ok()?;
        Some((metadata.dev(), metadata.ino()))
    };
    identity(std::io::stderr().as_fd()) != identity(std::io::stdin().as_fd())
}

/// What is served, and how: all but where.
fn settings(globals: &Globals, args: &Serve, environment: &Environment) -> Result<Settings, Fatal> {
    let limits = Limits::default();
    Ok(Settings {
        http: args.http,
        git: args.git,
        admin: Admin::default(),
        open: environment.open_options(globals)?,
        namespace: environment.namespace(globals)?,
        agent: environment.agent(),
        session_id: environment.session_id.clone(),
        limits: Limits {
            max_request_bytes: environment.max_request_buffer()?.unwrap_or(limits.max_request_bytes),
            ..limits
        },
        admission: AdmissionSettings::default(),
        cache: CacheSettings {
            directory: Some(environment.temporary_dir.clone()),
            ..CacheSettings::default()
        },
        hook_environment: environment.for_upload_hooks(globals),
        pushing: Pushing {
            is_allowed: args.allow_push,
            new_repositories: new_repositories(globals, args, environment)?,
            committer: committer(environment),
            hook_environment: environment.for_push_hooks(globals),
            temporary_dir: environment.temporary_dir.clone(),
        },
    })
}

/// What is made where a push finds nothing, if anything is: `packrace.createOnPush`, from where no repository can set it.
fn new_repositories(
    globals: &Globals,
    args: &Serve,
    environment: &Environment,
) -> Result<Option<NewRepositories>, Fatal> {
    let config = Config::outside(&environment.open_options(globals)?.config)?;
    if !args.allow_push || !config.boolean("packrace.createOnPush")?.unwrap_or(false) {
        return Ok(None);
    }
    let (options, head) = init::bare_prototype(globals, environment, None)?;
    Ok(Some(NewRepositories { options, head }))
}
