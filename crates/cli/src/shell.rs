//! `packrace shell`: serves one user of the system's sshd.

use std::path::Path;

use packrace_commands::{Call, Fatal, in_directory};
use packrace_server::access::AccessFiles;
use packrace_server::shell::{ShellCommand, ShellRequest, hand_over, maintain_alone, serve_alone};
use packrace_server::ssh_keys::SshSettings;
use packrace_server::subject::ProtocolVersion;

use crate::after_push::maintained;
use crate::args::Shell;
use crate::log;
use crate::process;
use crate::sandbox;
use crate::serve;
use packrace_server::serve_config::{Level, ServeConfig};

pub fn run(call: Call, args: &Shell) -> Result<(), Fatal> {
    if args.maintain {
        return maintain(&call, args);
    }
    let request = request(&call, args)?;
    let loaded = config(&call, args)?;
    if loaded.log.level == Level::Debug {
        // Standard error goes to the client: log to it only for debugging.
        log::start(&loaded.log);
    }
    if loaded.bucket.url.is_some() {
        return Err(Fatal::new("bucket.url: packrace shell does not support buckets"));
    }
    let root = in_directory(&call, &args.root)?;
    if let Some(socket) = &loaded.listen.shell {
        match hand_over(socket, &root, &request) {
            Ok(ended) => return ended.map_err(Fatal::new),
            Err(error) => {
                tracing::debug!("cannot hand over, serving this session alone: {}: {error}", socket.display())
            }
        }
    }
    // Files that are replaced later may be unreadable in the sandbox: the last readable configuration counts.
    let call = &Call { environment: call.environment.with_last_config(), ..call };
    let config = args.config.as_ref().map(|path| in_directory(call, path)).transpose()?;
    let settings = maintained(serve::settings(call, &loaded)?, config.as_deref(), &root);
    sandbox::begin(&loaded, &[], &root, config.as_deref(), &settings.open.config, &call.environment)?;
    serve_alone(&root, settings, &request).map_err(Fatal::new)
}

/// Maintains the repository in the current directory.
fn maintain(call: &Call, args: &Shell) -> Result<(), Fatal> {
    let loaded = config(call, args)?;
    let root = in_directory(call, &args.root)?;
    let git_dir = packrace_os::real_path(&in_directory(call, Path::new("."))?);
    let git_dir = git_dir.map_err(|error| Fatal::new(packrace_os::reason(&error)))?;
    let config = args.config.as_ref().map(|path| in_directory(call, path)).transpose()?;
    let settings = serve::settings(call, &loaded)?;
    sandbox::begin(&loaded, &[], &root, config.as_deref(), &settings.open.config, &call.environment)?;
    maintain_alone(&root, settings, &git_dir).map_err(Fatal::new)
}

/// The request, and its user.
fn request(call: &Call, args: &Shell) -> Result<ShellRequest, Fatal> {
    let user = args.user.clone();
    if user.is_empty() {
        return Err(Fatal::usage("user name is empty"));
    }
    let ssh = process::ssh_session();
    let Some(command) = ssh.command else {
        return Err(Fatal::silent(128).after(ShellRequest::greeting(&user)));
    };
    Ok(ShellRequest {
        command: ShellCommand::parse(command.as_encoded_bytes()).map_err(Fatal::new)?,
        user,
        version: ProtocolVersion::from_environment(&call.environment.protocol),
        client: ssh.client,
    })
}

/// The server's settings that apply to a known user.
fn config(call: &Call, args: &Shell) -> Result<ServeConfig, Fatal> {
    let mut loaded = serve::defaults(&call.environment);
    if let Some(path) = &args.config {
        serve::take_config_file(call, path, &mut loaded)?;
    }
    // The user is already authenticated, and this process may not read passwords and tokens.
    let AccessFiles { rules, audit_log, .. } = loaded.access;
    loaded.access = AccessFiles { rules, audit_log, ..AccessFiles::default() };
    loaded.ssh = SshSettings::default();
    Ok(loaded)
}
