//! `packrace serve`: serves every repository below a folder.

use std::io::{ErrorKind, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use packrace_commands::receive_pack::committer;
use packrace_commands::{Call, Environment, Fatal, in_directory, init, users};
use packrace_os::child::Confinement;
use packrace_os::count::Role;
use packrace_os::durable;
use packrace_remote::bucket::aws_files;
use packrace_remote::bucket::s3::S3Options;
use packrace_server::access::{Anyone, AuditLog, FilePolicy, LoadError};
use packrace_server::listen::{Scheme, inetd, serve_and_reload};
use packrace_server::program::ProgramHooks;
use packrace_server::settings::{BucketSettings, NewRepositories, Pushing, Settings};
use packrace_server::shell::ShellListener;
use packrace_server::ssh_keys::Ssh;
use packrace_server::tls::{Tls, TlsFiles};
use packrace_server::webhooks::Webhooks;
use packrace_store::{Config, HooksFrom, OpenOptions};

use crate::after_push::maintained;
use crate::args::Serve;
use crate::log;
use crate::process;
use crate::sandbox;
use packrace_server::serve_config::{BucketSource, Hooks, PushPolicy, ServeConfig, Setting, example};

/// Default HTTP address.
const DEFAULT_HTTP: ([u8; 4], u16) = ([127, 0, 0, 1], 8417);

pub fn run(call: Call, args: &Serve) -> Result<(), Fatal> {
    if args.print_config {
        // The reader may stop early.
        let _ = std::io::stdout().write_all(example(&defaults(&call.environment)).as_bytes());
        return Ok(());
    }
    // Files that are replaced later may be unreadable in the sandbox: the last readable configuration counts.
    let call = &Call { environment: call.environment.with_last_config(), ..call };
    let mut loaded = load_config(call, args)?;
    let log = (!args.inetd || has_log_of_its_own()).then(|| log::start(&loaded.log));
    let root = root(call, args, &loaded)?;
    let shown = loaded.bucket.url.as_ref().map_or_else(|| root.display().to_string(), ToString::to_string);
    let failed = |error| Fatal::new(format!("{shown}: {error}"));
    let settings = settings(call, &loaded)?;
    let config = args.config.as_ref().map(|path| in_directory(call, path)).transpose()?;
    // The sandbox allows no new sockets.
    let shell = loaded.listen.shell.as_deref().filter(|_| !args.inetd);
    let shell = shell.map(ShellListener::bind).transpose().map_err(Fatal::new)?;
    make_journal(&loaded)?;
    let webhooks = load_webhooks(&loaded)?.filter(|_| !args.inetd);
    let of_webhooks =
        |all: &Webhooks| loaded.events.webhooks.iter().chain(all.secret_files()).cloned().collect();
    let of_webhooks: Vec<PathBuf> = webhooks.as_deref().map(of_webhooks).unwrap_or_default();
    sandbox::begin(
        &loaded,
        &of_webhooks,
        &root,
        config.as_deref(),
        &settings.open.config,
        &call.environment,
    )?;
    if args.inetd {
        return inetd(&root, maintained(settings, config.as_deref(), &root)).map_err(failed);
    }
    packrace_os::process::return_large_values();
    let inherited = process::inherited_listeners()?;
    let has_https = settings.https.is_some() || inherited.iter().any(|(scheme, _)| *scheme == Scheme::Https);
    let has_ssh = settings.ssh.is_some() || inherited.iter().any(|(scheme, _)| *scheme == Scheme::Ssh);
    check_has_certificates(&settings, has_https)?;
    check_has_host_keys(&settings, has_ssh)?;
    let nothing_said =
        [settings.http, settings.https, settings.git, settings.ssh].iter().all(Option::is_none);
    let nothing_said = nothing_said && inherited.is_empty() && shell.is_none();
    let http = settings.http.or(nothing_said.then(|| DEFAULT_HTTP.into()));
    let settings = Settings { http, webhooks: webhooks.clone(), ..settings };
    let listening = |addresses: &[(&str, std::net::SocketAddr)]| {
        let mut stdout = std::io::stdout().lock();
        for (scheme, address) in addresses {
            // Standard output may be closed.
            let _ = match *scheme {
                "admin" => writeln!(stdout, "packrace: status page at http://{address}/-/"),
                _ => writeln!(stdout, "packrace: serving {shown} at {scheme}://{address}/"),
            };
        }
        process::tell_ready();
    };
    let reload = || {
        let settings = reload_settings(call, args, &mut loaded, (has_https, has_ssh), webhooks.as_deref());
        let settings = settings.inspect_err(|error| {
            tracing::error!("reload failed, settings unchanged: {}", error.message);
        });
        if let Some(log) = &log {
            // The log exists as long as the process.
            let _ = log.reload(log::filter(loaded.log.level));
        }
        settings.ok().map(|settings| Settings { http, ..settings })
    };
    serve_and_reload(&root, settings, inherited, shell, listening, reload).map_err(failed)
}

/// Creates the journal's directory, which the sandbox would not allow later.
fn make_journal(loaded: &ServeConfig) -> Result<(), Fatal> {
    let Some(dir) = &loaded.events.journal else { return Ok(()) };
    let made = durable::make_dir(dir, |mode| mode & !0o007, Role::Config);
    made.map(drop).map_err(|error| Fatal::new(format!("events.journal: {}: {error}", dir.display())))
}

/// The webhooks, if any are configured.
fn load_webhooks(loaded: &ServeConfig) -> Result<Option<Arc<Webhooks>>, Fatal> {
    let Some(file) = &loaded.events.webhooks else { return Ok(None) };
    if loaded.events.journal.is_none() {
        return Err(Fatal::new("events.webhooks: needs events.journal"));
    }
    if loaded.events.webhook_timeout.is_zero() {
        return Err(Fatal::new("events.webhook-timeout: must be greater than 0"));
    }
    let webhooks = Webhooks::load(file).map_err(|error| Fatal::new(format!("events.webhooks: {error}")))?;
    Ok(Some(Arc::new(webhooks)))
}

/// The served folder, or the cache of a bucket's repositories.
fn root(call: &Call, args: &Serve, loaded: &ServeConfig) -> Result<PathBuf, Fatal> {
    match (&loaded.bucket.url, &args.root) {
        (None, Some(root)) => in_directory(call, root),
        (None, None) => Err(Fatal::usage("serve: give a folder (ROOT) or a bucket (--bucket)")),
        (Some(_), Some(_)) => {
            Err(Fatal::usage("serve: give either a folder (ROOT) or a bucket (bucket.url), not both"))
        }
        (Some(_), None) if loaded.listen.shell.is_some() => {
            Err(Fatal::new("listen.shell: not supported with a bucket"))
        }
        // inetd starts a process per connection, and a cache belongs to one process.
        (Some(_), None) if args.inetd => Err(Fatal::new("--inetd: not supported with a bucket")),
        (Some(_), None) => {
            let needed = || Fatal::new("bucket.cache: required with a bucket");
            let cache = in_directory(call, loaded.bucket.cache.as_ref().ok_or_else(needed)?)?;
            // The sandbox would not allow it later.
            let made = durable::make_dir(&cache, |mode| mode, Role::Config);
            made.map_err(|error| Fatal::new(format!("bucket.cache: {}: {error}", cache.display())))?;
            Ok(cache)
        }
    }
}

/// Reads all settings again. Either all apply, except those that need a restart, or none does.
fn reload_settings(
    call: &Call,
    args: &Serve,
    running: &mut ServeConfig,
    (has_https, has_ssh): (bool, bool),
    webhooks: Option<&Webhooks>,
) -> Result<Settings, Fatal> {
    let mut next = running.clone();
    let (changed, stays) = next.reload(load_config(call, args)?);
    if let HooksFrom::Dir(dir) = &next.serve.hooks
        && let Err(error) = std::fs::read_dir(dir)
        && error.kind() == ErrorKind::PermissionDenied
    {
        let dir = dir.display();
        return Err(Fatal::new(format!(
            "serve.hooks: {dir}: {error}; the sandbox needs a restart to allow it"
        )));
    }
    let settings = settings(call, &next)?;
    check_has_certificates(&settings, has_https)?;
    check_has_host_keys(&settings, has_ssh)?;
    let webhooks =
        webhooks.zip(next.events.webhooks.as_deref()).map(|(webhooks, file)| webhooks.reload(file));
    let webhooks = webhooks.transpose().map_err(|error| Fatal::new(format!("events.webhooks: {error}")))?;
    let settings = Settings { webhooks: webhooks.map(Arc::new), ..settings };
    *running = next;
    let names =
        |settings: Vec<&Setting>| settings.iter().map(|setting| setting.key()).collect::<Vec<_>>().join(", ");
    match stays.is_empty() {
        true => tracing::info!("settings reloaded; changed: {}", names(changed)),
        false => tracing::warn!(
            "settings reloaded; changed: {}; restart needed for: {}",
            names(changed),
            names(stays)
        ),
    }
    Ok(settings)
}

/// HTTPS needs a certificate.
fn check_has_certificates(settings: &Settings, has_https: bool) -> Result<(), Fatal> {
    match has_https && settings.tls.is_none() {
        true => Err(Fatal::new("listen.https: needs tls.certificates")),
        false => Ok(()),
    }
}

/// SSH needs a permanent host key: clients would not recognize a key that is new at each start.
fn check_has_host_keys(settings: &Settings, has_ssh: bool) -> Result<(), Fatal> {
    match has_ssh && settings.ssh_keys.is_none() {
        true => Err(Fatal::new(
            "listen.ssh: needs ssh.host-keys; create one with: ssh-keygen -t ed25519 -N '' -f FILE",
        )),
        false => Ok(()),
    }
}

/// The default settings.
pub fn defaults(environment: &Environment) -> ServeConfig {
    let mut loaded = ServeConfig::default();
    loaded.cache.directory = Some(environment.temporary_dir.clone());
    loaded
}

/// The settings from file, environment and command line.
fn load_config(call: &Call, args: &Serve) -> Result<ServeConfig, Fatal> {
    let mut loaded = defaults(&call.environment);
    if let Some(path) = &args.config {
        take_config_file(call, path, &mut loaded)?;
    }
    if let Some(bytes) = call.environment.max_request_buffer()? {
        loaded.limits.max_request_bytes = bytes;
    }
    for (name, value) in &process::serve_variables() {
        loaded.take_variable(name, value).map_err(Fatal::new)?;
    }
    for assignment in &args.assignments {
        loaded.take_assignment(assignment).map_err(Fatal::new)?;
    }
    loaded.listen.http = args.http.or(loaded.listen.http);
    loaded.listen.https = args.https.or(loaded.listen.https);
    loaded.listen.git = args.git.or(loaded.listen.git);
    loaded.listen.ssh = args.ssh.or(loaded.listen.ssh);
    if let Some(url) = &args.bucket {
        loaded.bucket.url = Some(url.clone());
    }
    if let Some(cache) = &args.cache {
        loaded.bucket.cache = Some(in_directory(call, cache)?);
    }
    if let Some(bytes) = &args.cache_bytes {
        let assignment = format!("bucket.cache-bytes={bytes}");
        loaded.take_assignment(&assignment).map_err(|why| Fatal::usage(why.replacen("--set ", "--", 1)))?;
    }
    loaded.push.allowed |= args.allow_push;
    loaded.serve.read_only |= args.read_only;
    Ok(loaded)
}

/// Reads a configuration file.
pub fn take_config_file(call: &Call, path: &Path, loaded: &mut ServeConfig) -> Result<(), Fatal> {
    let path = in_directory(call, path)?;
    let name = path.display().to_string();
    let text = std::fs::read_to_string(&path).map_err(|error| {
        let is_denied = error.kind() == ErrorKind::PermissionDenied;
        let hint = if is_denied {
            " (restart the server: the sandbox denies access to a replaced file)"
        } else {
            ""
        };
        Fatal::new(format!("{name}: {error}{hint}"))
    })?;
    loaded.take_file(&name, &text).map_err(Fatal::new)
}

/// Whether standard error is not the connection itself, as it can be under inetd.
fn has_log_of_its_own() -> bool {
    let identity = |fd: BorrowedFd<'_>| {
        let file = std::fs::File::from(fd.try_clone_to_owned().ok()?);
        let metadata = file.metadata().ok()?;
        Some((metadata.dev(), metadata.ino()))
    };
    identity(std::io::stderr().as_fd()) != identity(std::io::stdin().as_fd())
}

/// The server settings for a configuration.
pub fn settings(call: &Call, loaded: &ServeConfig) -> Result<Settings, Fatal> {
    let ServeConfig {
        listen,
        tls,
        ssh,
        mut limits,
        admission,
        cache,
        repository_cache,
        maintenance,
        bundles,
        push,
        access,
        hooks,
        events,
        bucket,
        sandbox: _,
        serve,
        log: _,
    } = loaded.clone();
    let environment = &call.environment;
    // Their clients are limited instead.
    limits.exempt_addresses.extend(access.trusted_proxies.iter().copied());
    check_certificates_are_asked_for(loaded)?;
    let namespace = environment.namespace(&call.globals)?;
    check_bundles_are_possible(loaded, &namespace)?;
    let loaded_badly = |error: LoadError| Fatal::new(error.to_string());
    let policy = FilePolicy::load(&access).map_err(loaded_badly)?;
    let audit = access.audit_log.as_deref().map(AuditLog::open).transpose().map_err(loaded_badly)?;
    let may_push = push.allowed || policy.is_some();
    let has_api = policy.is_some() && bucket.url.is_none();
    let confinement = confinement(&hooks)?;
    Ok(Settings {
        http: listen.http,
        https: listen.https,
        tls: load_tls(&tls)?,
        ssh: listen.ssh,
        ssh_keys: Ssh::load(&ssh, &confinement).map_err(loaded_badly)?,
        git: listen.git,
        admin: listen.admin,
        bucket: bucket_settings(bucket, environment.home().map(PathBuf::as_path))?,
        open: OpenOptions { ref_storage: None, skips_broken_refs: false, ..call.open_options()? },
        namespace,
        agent: environment.agent(),
        session_id: environment.session_id.clone(),
        hosts: listen.hosts,
        rules: serve,
        limits,
        admission,
        cache,
        repository_cache,
        maintenance,
        bundles,
        hook_environment: environment.for_upload_hooks(&call.globals),
        pushing: pushing(call, &push, may_push)?,
        confinement,
        proxies: access.proxies().map_err(loaded_badly)?,
        audit: audit.map(Arc::new),
        events,
        webhooks: None,
        program: ProgramHooks::default(),
        repository_prototype: has_api.then(|| prototype(call)).transpose()?,
        access: policy.map_or_else(|| Arc::new(Anyone) as _, |policy| Arc::new(policy) as _),
    })
}

/// Whether and how clients may push.
fn pushing(call: &Call, push: &PushPolicy, may_push: bool) -> Result<Pushing, Fatal> {
    let environment = &call.environment;
    Ok(Pushing {
        is_allowed: push.allowed,
        new_repositories: new_repositories(call, may_push)?,
        committer: committer(environment),
        hook_environment: environment.for_push_hooks(&call.globals),
        temporary_dir: environment.temporary_dir.clone(),
        budget: push.budget(),
        memory: push.memory(),
        auto_maintenance: None,
    })
}

/// Bundles hold refs of whole repositories, in a folder.
fn check_bundles_are_possible(loaded: &ServeConfig, namespace: &str) -> Result<(), Fatal> {
    match loaded.bundles.keep {
        true if loaded.bucket.url.is_some() => Err(Fatal::new("bundles.keep: not supported with a bucket")),
        true if !namespace.is_empty() => {
            Err(Fatal::new("bundles.keep: not supported with a namespace (--namespace, GIT_NAMESPACE)"))
        }
        _ => Ok(()),
    }
}

/// Client certificates identify users only if the server requests them.
fn check_certificates_are_asked_for(loaded: &ServeConfig) -> Result<(), Fatal> {
    match loaded.access.client_certificates && loaded.tls.client_ca.is_none() {
        true => Err(Fatal::new("access.client-certificates: needs tls.client-ca")),
        false => Ok(()),
    }
}

/// The bucket and its credentials, if repositories are in one.
fn bucket_settings(bucket: BucketSource, home: Option<&Path>) -> Result<Option<BucketSettings>, Fatal> {
    let Some(url) = bucket.url else { return Ok(None) };
    let variables = aws_files::with_files(process::aws_variables(), home).map_err(Fatal::new)?;
    let s3 = S3Options { url, variables };
    Ok(Some(BucketSettings { s3, max_bytes: bucket.cache_bytes }))
}

/// Reads certificates and keys from their files.
fn load_tls(files: &TlsFiles) -> Result<Option<Tls>, Fatal> {
    Tls::load(files).map_err(|error| {
        let hint = "; the server's user must be able to read it (for a key: chmod 640 and the user's group); \
                    if its directory is new, the sandbox needs a restart";
        Fatal::new(format!("{error}{}", if error.is_denied() { hint } else { "" }))
    })
}

/// Variables that hooks inherit: for shells and git, and for git's configuration. Excluded are variables of a
/// service manager for the server alone, such as sockets and credential folders.
const INHERITED: [&str; 13] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "LC_*",
    "TZ",
    "TMPDIR",
    "GNUPGHOME",
    "XDG_*",
    "GIT_*",
];

/// Limits of programs that run for clients.
fn confinement(hooks: &Hooks) -> Result<Confinement, Fatal> {
    let user = match hooks.user.as_str() {
        "" => None,
        name => {
            let found = match name.parse() {
                Ok(number) => users::numbered(number),
                Err(_) => users::named(name.as_bytes()),
            };
            let ids = found.and_then(|user| user.ids);
            Some(ids.ok_or_else(|| Fatal::new(format!("hooks.user: no such user: {name}")))?)
        }
    };
    let names =
        INHERITED.iter().copied().chain(hooks.environment.iter().map(String::as_str)).collect::<Vec<_>>();
    let limit = |value: u64| Some(value).filter(|value| *value > 0);
    Ok(Confinement {
        inherits: Some(Arc::new(process::variables(&names))),
        time: Some(hooks.max_time).filter(|time| !time.is_zero()),
        user,
        memory_bytes: limit(hooks.max_memory),
        processes: limit(hooks.max_processes as u64),
        cpu_seconds: limit(hooks.max_cpu_time.as_secs()),
    })
}

/// The template for repositories created on push, if enabled: `packrace.createOnPush`, which no repository
/// can set.
fn new_repositories(call: &Call, may_push: bool) -> Result<Option<NewRepositories>, Fatal> {
    let config = Config::outside(&call.open_options()?.config)?;
    if !may_push || !config.boolean("packrace.createOnPush")?.unwrap_or(false) {
        return Ok(None);
    }
    prototype(call).map(Some)
}

/// The template of new repositories: as `git init --bare` creates them.
pub fn prototype(call: &Call) -> Result<NewRepositories, Fatal> {
    let (options, head) = init::bare_prototype(call, None)?;
    Ok(NewRepositories { options, head })
}
