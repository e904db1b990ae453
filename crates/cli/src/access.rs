//! `packrace access`: explains rules, and makes tokens and password hashes.

use std::io::{BufRead as _, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;

use jiff::{SignedDuration, Timestamp};
use packrace_commands::{Call, Fatal, in_directory};
use packrace_os::child::Confinement;
use packrace_server::access::{AccessFiles, FilePolicy, hash_password, new_token};
use packrace_server::ssh_keys::{ForcedShell, UserSources, check_user_name};

use crate::args::{Access, AccessCheck, AccessCommand, AccessHash, AccessKeys, AccessToken};
use crate::gitolite;
use crate::serve;
use packrace_server::serve_config::ServeConfig;

/// Longest accepted password.
const MAX_PASSWORD_BYTES: u64 = 4096;

pub fn run(call: &Call, args: &Access) -> Result<(), Fatal> {
    match &args.command {
        AccessCommand::Check(args) => check(call, args),
        AccessCommand::Token(args) => token(call, args),
        AccessCommand::Hash(args) => hash(call, args),
        AccessCommand::Keys(args) => keys(call, args),
        AccessCommand::FromGitolite(args) => gitolite::run(call, args),
    }
}

fn check(call: &Call, args: &AccessCheck) -> Result<(), Fatal> {
    let mut files = AccessFiles::default();
    if let Some(path) = &args.config {
        let mut config = ServeConfig::default();
        serve::take_config_file(call, path, &mut config)?;
        files.rules = config.access.rules;
    }
    if let Some(path) = &args.rules {
        files.rules = Some(in_directory(call, path)?);
    }
    let policy = FilePolicy::load(&files).map_err(|error| Fatal::new(error.to_string()))?;
    let policy = policy.ok_or_else(|| Fatal::new("no access.rules: everybody may read".to_owned()))?;
    let user = Some(args.user.as_str()).filter(|user| *user != "anyone");
    let explanation = policy.explain(user, &args.repository, args.operation, args.name.as_deref());
    call.streams.write(format!("{}\n", explanation.text).as_bytes())?;
    if explanation.is_allowed { Ok(()) } else { Err(Fatal::silent(1)) }
}

fn token(call: &Call, args: &AccessToken) -> Result<(), Fatal> {
    let path = in_directory(call, &args.file)?;
    let failed = |error: std::io::Error| Fatal::new(format!("{}: {error}", path.display()));
    let (secret, digest) = new_token().map_err(failed)?;
    let mut entry = format!("\n[[token]]\nuser = {}\nsha256 = \"{digest}\"\n", quoted(&args.user));
    if let Some(text) = &args.expires {
        let expires = expiry(text).ok_or_else(|| {
            Fatal::usage(format!(
                "'{text}' is neither a duration (30d, 12h) nor a time (2027-01-01T00:00:00Z)"
            ))
        })?;
        entry += &format!("expires = \"{expires}\"\n");
    }
    if args.read_only {
        entry += "scope = \"read\"\n";
    }
    if !args.repositories.is_empty() {
        let patterns: Vec<String> = args.repositories.iter().map(|pattern| quoted(pattern)).collect();
        entry += &format!("repositories = [{}]\n", patterns.join(", "));
    }
    // Never write an entry that the server would refuse.
    packrace_server::access::check_tokens(&path, &entry).map_err(|error| Fatal::new(error.to_string()))?;
    let file = std::fs::OpenOptions::new().append(true).create(true).mode(0o600).open(&path);
    let mut file = file.map_err(failed)?;
    file.write_all(entry.as_bytes()).and_then(|()| file.sync_all()).map_err(failed)?;
    call.streams.write(format!("{secret}\n").as_bytes())
}

/// A duration from now, or a point in time; in whole seconds.
fn expiry(text: &str) -> Option<Timestamp> {
    let now = Timestamp::from_second(Timestamp::now().as_second()).ok()?;
    for (unit, seconds) in [("d", 86_400), ("h", 3600), ("m", 60)] {
        if let Some(count) = text.strip_suffix(unit).and_then(|count| count.parse::<u32>().ok()) {
            return now.checked_add(SignedDuration::from_secs(i64::from(count) * seconds)).ok();
        }
    }
    text.parse().ok()
}

/// A TOML string: Rust's escapes equal TOML's, except for control characters.
fn quoted(text: &str) -> String {
    format!("{text:?}")
}

fn hash(call: &Call, args: &AccessHash) -> Result<(), Fatal> {
    let mut password = String::new();
    let mut input = std::io::stdin().lock().take(MAX_PASSWORD_BYTES + 1);
    input
        .read_line(&mut password)
        .map_err(|error| Fatal::new(format!("cannot read the password: {error}")))?;
    let password = password.trim_end_matches(['\r', '\n']);
    let line = hash_password(&args.user, password).map_err(Fatal::new)?;
    call.streams.write(format!("{line}\n").as_bytes())
}

/// Prints lines of `authorized_keys`.
fn keys(call: &Call, args: &AccessKeys) -> Result<(), Fatal> {
    args.user.iter().try_for_each(|user| check_user_name(user)).map_err(Fatal::usage)?;
    let mut config = ServeConfig::default();
    serve::take_config_file(call, &args.config, &mut config)?;
    let sources = UserSources::load(&config.ssh, &Confinement::default());
    let sources = sources.map_err(|error| Fatal::new(error.to_string()))?;
    let program = std::env::current_exe().map_err(|error| Fatal::new(error.to_string()))?;
    let (config, root) = (in_directory(call, &args.config)?, in_directory(call, &args.root)?);
    let shell = ForcedShell::new(&program, &config, &root).map_err(Fatal::new)?;
    let lines = sources.authorized_keys(&shell, args.user.as_deref(), args.key.as_deref());
    let lines = lines.map_err(Fatal::new)?;
    call.streams.write(lines.as_bytes())
}
