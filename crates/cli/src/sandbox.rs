//! The files that `serve` can access after its start (`sandbox.enabled`).

use std::path::{Path, PathBuf};

use packrace_commands::{Environment, Fatal};
use packrace_os::sandbox::{Enforced, Reach, enter};
use packrace_store::{Config, ConfigSources, HooksFrom};

use crate::process::Reports;
use packrace_server::serve_config::ServeConfig;

/// Programs, libraries, system settings and kernel information: hooks may be any programs.
const SYSTEM: [&str; 13] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/opt",
    "/nix/store",
    "/gnu/store",
    "/etc",
    "/proc",
    "/sys",
];

/// Devices that shells and programs expect.
const DEVICES: [&str; 6] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"];

/// Configuration keys that name files or programs.
const NAMED: [&str; 11] = [
    "core.hooksPath",
    "core.attributesFile",
    "core.excludesFile",
    "core.alternateRefsCommand",
    "gpg.program",
    "gpg.openpgp.program",
    "gpg.x509.program",
    "gpg.ssh.program",
    "init.templateDir",
    "receive.fsck.skipList",
    "uploadpack.packObjectsHook",
];

/// Enters the configured sandbox, with all child processes. Logs the result. `of_webhooks` are the files that
/// SIGHUP reloads for webhooks.
pub fn begin(
    loaded: &ServeConfig,
    of_webhooks: &[PathBuf],
    root: &Path,
    settings: Option<&Path>,
    sources: &ConfigSources,
    environment: &Environment,
) -> Result<(), Fatal> {
    if !loaded.sandbox.enabled {
        tracing::info!(
            "sandbox: disabled (sandbox.enabled): the server and its hooks can access all files that their user can"
        );
        return Ok(());
    }
    let reach = Reach {
        read: readable(loaded, of_webhooks, settings, sources, environment)?,
        write: writable(loaded, root, environment),
    };
    let enforced = enter(&reach).map_err(|error| Fatal::new(format!("sandbox: {error}")))?;
    let shown = |paths: &[PathBuf]| {
        let there = paths.iter().filter(|path| path.exists());
        there.map(|path| path.display().to_string()).collect::<Vec<_>>().join(" ")
    };
    let (read, write) = (shown(&reach.read), shown(&reach.write));
    match enforced {
        Enforced::Fully => tracing::info!("sandbox: Landlock enforced; writable: {write}; readable: {read}"),
        Enforced::Partly => {
            tracing::info!(
                "sandbox: Landlock partly enforced (older kernel); writable: {write}; readable: {read}"
            );
        }
        Enforced::NotAtAll => tracing::warn!(
            "sandbox: not enforced: Landlock is missing or disabled in this kernel; \
             the server and its hooks can access all files that their user can"
        ),
    }
    Ok(())
}

fn writable(loaded: &ServeConfig, root: &Path, environment: &Environment) -> Vec<PathBuf> {
    let mut paths = vec![root.to_owned(), environment.temporary_dir.clone()];
    paths.extend(loaded.cache.directory.clone());
    // The folder, so that the log can be rotated.
    paths.extend(loaded.access.audit_log.as_deref().and_then(Path::parent).map(Path::to_owned));
    paths.extend(loaded.events.journal.clone());
    paths.extend(loaded.sandbox.write_paths.iter().cloned());
    // Reports that this process writes at its end.
    let Reports { io_report, trace2, .. } = Reports::asked_for();
    let reports = io_report.into_iter().chain(trace2.paths());
    paths.extend(
        reports.filter(|path| path.is_absolute()).filter_map(|path| path.parent().map(Path::to_owned)),
    );
    paths.extend(DEVICES.iter().map(PathBuf::from));
    paths
}

fn readable(
    loaded: &ServeConfig,
    of_webhooks: &[PathBuf],
    settings: Option<&Path>,
    sources: &ConfigSources,
    environment: &Environment,
) -> Result<Vec<PathBuf>, Fatal> {
    let mut paths: Vec<PathBuf> = SYSTEM.iter().map(PathBuf::from).collect();
    paths.extend(settings.map(Path::to_owned));
    // Maintenance after a push, by a process that serves nothing else.
    paths.extend(std::env::current_exe().ok());
    paths.extend(sources.system.iter().chain(&sources.global).cloned());
    paths.extend(sources.user_attributes.iter().chain(&sources.user_excludes).cloned());
    // The configuration for all repositories.
    let config = Config::outside(sources)?;
    paths.extend(config.included_files());
    let named = NAMED.iter().flat_map(|key| config.strings(key)).map(|value| config.expand(&value));
    paths.extend(named.filter(|path| path.is_absolute()));
    paths.extend(loaded.serve.allowed_paths.iter().cloned());
    if let HooksFrom::Dir(dir) = &loaded.serve.hooks {
        paths.push(dir.clone());
    }
    let (tls, ssh) = (&loaded.tls, &loaded.ssh);
    let files = tls.certificates.iter().chain(&tls.keys).chain(&tls.client_ca);
    let files =
        files.chain(&ssh.host_keys).chain(&ssh.user_keys).chain(&ssh.user_ca).chain(&ssh.revoked_keys);
    let access = [&loaded.access.rules, &loaded.access.users, &loaded.access.tokens];
    let files = files.chain(access.into_iter().flatten()).chain(of_webhooks);
    paths.extend(replaceable(files, environment.home().map(PathBuf::as_path)));
    let home = environment.home().map(PathBuf::as_path);
    if loaded.bucket.url.is_some() {
        paths.extend(bucket_files(home));
    }
    if loaded.bucket.url.is_some() || loaded.events.webhooks.is_some() {
        // The resolver's configuration may be a link to outside /etc.
        paths.extend(replaceable([PathBuf::from("/etc/resolv.conf")].iter(), home));
    }
    paths.extend(ssh.user_keys_folder.iter().chain(&ssh.user_keys_command).cloned());
    paths.extend(environment.init.template_dir.clone());
    paths.extend(
        environment.programs().filter_map(|dir| installed_at(&dir, environment.home().map(PathBuf::as_path))),
    );
    paths.extend(loaded.sandbox.read_paths.iter().cloned());
    paths.dedup();
    Ok(paths)
}

/// Files for access to a bucket, named by variables or in the usual places.
fn bucket_files(home: Option<&Path>) -> Vec<PathBuf> {
    let named = [
        "AWS_CA_BUNDLE",
        "AWS_CONFIG_FILE",
        "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
        "AWS_SHARED_CREDENTIALS_FILE",
        "AWS_WEB_IDENTITY_TOKEN_FILE",
    ];
    let variables = crate::process::aws_variables().into_iter();
    let files =
        variables.filter(|(name, _)| named.contains(&name.as_str())).map(|(_, path)| PathBuf::from(path));
    let usual =
        home.into_iter().flat_map(|home| ["credentials", "config"].map(|name| home.join(".aws").join(name)));
    let files: Vec<PathBuf> = files.chain(usual).collect();
    replaceable(files.iter(), home)
}

/// The directories of files that SIGHUP reloads: certificates, keys, access rules, users and webhooks.
/// Landlock's rules apply to files, and another file may replace one, under its name or through a link. Never
/// a whole home directory.
fn replaceable<'a>(files: impl Iterator<Item = &'a PathBuf>, home: Option<&Path>) -> Vec<PathBuf> {
    let found = files.flat_map(|file| [Some(file.clone()), file.canonicalize().ok()]).flatten();
    let reached = |file: PathBuf| match file.parent() {
        Some(dir) if dir.parent().is_some() && home != Some(dir) => dir.to_owned(),
        _ => file,
    };
    found.map(reached).collect()
}

/// The installation prefix of a `PATH` directory: programs need files beside `bin`. Never a whole home
/// directory.
fn installed_at(dir: &Path, home: Option<&Path>) -> Option<PathBuf> {
    let prefix = dir.parent().filter(|prefix| {
        let is_bin =
            dir.file_name().is_some_and(|name| matches!(name.to_str(), Some("bin" | "sbin" | "shims")));
        is_bin && prefix.parent().is_some() && home != Some(prefix)
    });
    dir.is_absolute().then(|| prefix.unwrap_or(dir).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_with_what_they_need() {
        let check = |dir: &str, expect: Option<&str>| {
            let found = installed_at(Path::new(dir), Some(Path::new("/users/me")));
            assert_eq!(found, expect.map(PathBuf::from), "{dir}");
        };
        check("/usr/local/bin", Some("/usr/local"));
        check("/users/me/bin", Some("/users/me/bin"));
        check("/users/me/.local/bin", Some("/users/me/.local"));
        check("/bin", Some("/bin"));
        check("/opt/tools", Some("/opt/tools"));
        check("bin", None);
        check("", None);
    }

    #[test]
    fn certificates_are_reached_with_what_takes_their_place() {
        let dir = packrace_testkit::scratch_dir();
        let [live, archive] = ["live", "archive"].map(|name| dir.path().canonicalize().unwrap().join(name));
        [&live, &archive].iter().for_each(|dir| std::fs::create_dir(dir).unwrap());
        std::fs::write(archive.join("cert1.pem"), "").unwrap();
        std::os::unix::fs::symlink("../archive/cert1.pem", live.join("cert.pem")).unwrap();
        let file = live.join("cert.pem");
        let of = |home| replaceable([&file].into_iter(), home);
        assert_eq!(of(None), [live.clone(), archive.clone()]);
        assert_eq!(of(Some(&live)), [file.clone(), archive]);
    }
}
