//! Keys of the host, and the accepted keys and certificates of users: files, a folder, a command.

mod authorized;
mod command;

use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use packrace_os::child::Confinement;
use packrace_ssh::{HostKey, SshConfig, SshUser, UserCertificate, UserKeys};
pub use packrace_ssh::{UserKey, check_user_name};

use crate::access::LoadError;
use crate::access::secret_file::{read_secret, read_unshared};
use crate::limits::AddressRange;
pub use authorized::ForcedShell;
use command::KeyCommand;

/// The most files in a folder of keys. Each is read.
const MAX_FILES: usize = 1 << 20;

/// How deeply folders of keys may be nested.
const MAX_DEPTH: usize = 8;

/// Where keys come from. Plain data.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SshSettings {
    /// Private keys of the host, as `ssh-keygen` writes them.
    pub host_keys: Vec<PathBuf>,
    /// Keys with the names of their users before them.
    pub user_keys: Option<PathBuf>,
    /// A folder of public keys, named for their users.
    pub user_keys_folder: Option<PathBuf>,
    /// A program that finds the user of a key.
    pub user_keys_command: Option<PathBuf>,
    /// Authorities whose certificates are accepted.
    pub user_ca: Option<PathBuf>,
    /// Keys and certificates that are revoked.
    pub revoked_keys: Option<PathBuf>,
}

/// The configuration of SSH connections, read from [`SshSettings`].
#[derive(Debug, Clone)]
pub struct Ssh {
    pub(crate) config: SshConfig,
    pub(crate) users: Arc<UserSources>,
}

/// The users of keys.
#[derive(Debug)]
pub struct UserSources {
    keys: UserKeys,
    command: Option<KeyCommand>,
}

impl Ssh {
    /// Reads all files. `None` if no key of the host is configured.
    pub fn load(settings: &SshSettings, confinement: &Confinement) -> Result<Option<Self>, LoadError> {
        let SshSettings { host_keys, user_keys, user_keys_folder, user_keys_command, user_ca, .. } = settings;
        if host_keys.is_empty() {
            return Ok(None);
        }
        let host_keys = host_keys.iter().map(|path| host_key(path)).collect::<Result<Vec<_>, _>>()?;
        let mut kinds: Vec<String> = host_keys.iter().map(HostKey::kind).collect();
        kinds.sort();
        if let Some(twice) = kinds.windows(2).find(|two| two[0] == two[1]) {
            return Err(LoadError::of(
                Path::new("ssh.host-keys"),
                format!("two keys of the type {}", twice[0]),
            ));
        }
        let any = [user_keys, user_keys_folder, user_keys_command, user_ca];
        if any.into_iter().all(Option::is_none) {
            let why = "nobody could log in: set ssh.user-keys, ssh.user-keys-folder, ssh.user-keys-command or ssh.user-ca";
            return Err(LoadError::of(Path::new("ssh.host-keys"), why));
        }
        let users = Arc::new(UserSources::load(settings, confinement)?);
        Ok(Some(Ssh { config: SshConfig::new(&host_keys), users }))
    }
}

/// The host keys that clients see, and how many keys of users there are, for the log.
impl fmt::Display for Ssh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let UserSources { keys, command } = &*self.users;
        write!(f, "host keys: {}; user keys: {}", self.config, keys.len())?;
        match keys.authorities().len() {
            0 => {}
            count => write!(f, "; user CAs: {count}")?,
        }
        match keys.revoked_len() {
            0 => {}
            count => write!(f, "; revoked: {count}")?,
        }
        command
            .as_ref()
            .map_or(Ok(()), |command| write!(f, "; user-keys-command: {}", command.program().display()))
    }
}

impl UserSources {
    /// Reads the keys of users.
    pub fn load(settings: &SshSettings, confinement: &Confinement) -> Result<Self, LoadError> {
        let mut keys = UserKeys::default();
        if let Some(path) = &settings.user_keys {
            let text = read_unshared(path)?;
            keys.add_signers(&text).map_err(|error| LoadError::at_line(path, error.line, error.why))?;
        }
        if let Some(path) = &settings.user_keys_folder {
            for file in key_files(path)? {
                let text = read_unshared(&file)?;
                let added = keys.add_of_user(user_of_file(&file), &text);
                added.map_err(|error| LoadError::at_line(&file, error.line, error.why))?;
            }
        }
        if let Some(path) = &settings.user_ca {
            let text = read_unshared(path)?;
            keys.add_authorities(&text).map_err(|error| LoadError::at_line(path, error.line, error.why))?;
            if !keys.has_authorities() {
                return Err(LoadError::of(path, "contains no key"));
            }
        }
        if let Some(path) = &settings.revoked_keys {
            let text = read_unshared(path)?;
            keys.revoke(&text).map_err(|error| LoadError::at_line(path, error.line, error.why))?;
        }
        let command = settings.user_keys_command.as_deref();
        let command = command.map(|path| KeyCommand::new(path, confinement)).transpose()?;
        Ok(UserSources { keys, command })
    }

    /// Keys and authorities in files.
    pub fn keys(&self) -> &UserKeys {
        &self.keys
    }

    pub(crate) fn command(&self) -> Option<&KeyCommand> {
        self.command.as_ref()
    }

    /// The user who has a key. Blocks if a program has to be asked.
    pub fn user_of(&self, key: &UserKey) -> Option<SshUser> {
        self.user_in_files(key).or_else(|| match self.keys.is_revoked(key) {
            true => None,
            false => self.command.as_ref()?.user_of(key),
        })
    }

    pub(crate) fn user_in_files(&self, key: &UserKey) -> Option<SshUser> {
        self.keys.user_of(key, jiff::Timestamp::now().as_second())
    }

    pub(crate) fn user_of_certificate(
        &self,
        certificate: &UserCertificate<'_>,
        login: &str,
        address: IpAddr,
    ) -> Result<SshUser, String> {
        let is_from =
            |range: &str| range.trim().parse::<AddressRange>().is_ok_and(|range| range.contains(address));
        let now = u64::try_from(jiff::Timestamp::now().as_second()).unwrap_or(0);
        self.keys.user_of_certificate(certificate, login, now, &is_from)
    }
}

fn host_key(path: &Path) -> Result<HostKey, LoadError> {
    HostKey::parse(&read_secret(path)?).map_err(|error| LoadError::of(path, error))
}

/// The files of a folder that end in `.pub`, and those of the folders in it.
fn key_files(folder: &Path) -> Result<Vec<PathBuf>, LoadError> {
    let mut found = Vec::new();
    let mut folders = vec![(folder.to_owned(), 0)];
    while let Some((folder, depth)) = folders.pop() {
        let failed = |error| LoadError::of(&folder, error);
        for entry in std::fs::read_dir(&folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let path = entry.path();
            let is_hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
            // A link to a folder counts as a file, which has another ending.
            if entry.file_type().map_err(failed)?.is_dir() {
                if depth == MAX_DEPTH {
                    return Err(LoadError::of(&path, "folders are nested too deep"));
                }
                if !is_hidden {
                    folders.push((path, depth + 1));
                }
            } else if !is_hidden && path.extension().is_some_and(|extension| extension == "pub") {
                found.push(path);
            }
        }
        if found.len() > MAX_FILES {
            return Err(LoadError::of(&folder, "contains too many files"));
        }
    }
    // So that errors are reported in a fixed order.
    found.sort();
    Ok(found)
}

/// The user whose keys are in a file: `alice.pub`, and as in Gitolite `alice@laptop.pub`, but not `alice@example.com.pub`,
/// whose user is `alice@example.com`.
fn user_of_file(path: &Path) -> &str {
    let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    match stem.rsplit_once('@') {
        Some((user, machine)) if !machine.contains('.') => user,
        _ => stem,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files() {
        let check = |name: &str, expect: &str| assert_eq!(user_of_file(Path::new(name)), expect, "{name}");
        check("/keys/alice.pub", "alice");
        check("/keys/home/alice.pub", "alice");
        check("/keys/alice@laptop.pub", "alice");
        check("/keys/alice@example.com.pub", "alice@example.com");
        check("/keys/alice@example.com@laptop.pub", "alice@example.com");
        check("/keys/@laptop.pub", "");
    }
}
