//! A program that finds the user of a key, like `AuthorizedKeysCommand` of sshd.
//!
//! Its arguments are the fingerprint of a key, its kind, and the key in base64; it writes lines in the format
//! of a file of keys (`ssh.user-keys`). One of them must have that key. Any failure denies access.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use packrace_os::child::{ChildProcess, Confinement, Program};
use packrace_ssh::{SshUser, UserKey, UserKeys};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::access::LoadError;
use crate::transfers::kept;

/// How long it may run.
const MAX_TIME: Duration = Duration::from_secs(5);

/// The most programs that run at the same time.
const MAX_RUNNING: usize = 16;

/// The most bytes that it may write.
const MAX_OUTPUT_BYTES: usize = 1 << 20;

/// The program, and how many of it may still be started.
#[derive(Debug)]
pub(crate) struct KeyCommand {
    program: PathBuf,
    confinement: Confinement,
    running: Arc<Semaphore>,
}

impl KeyCommand {
    pub(super) fn new(program: &Path, confinement: &Confinement) -> Result<Self, LoadError> {
        let metadata = std::fs::metadata(program).map_err(|error| LoadError::of(program, error))?;
        if !metadata.is_file() {
            return Err(LoadError::of(program, "not a regular file"));
        }
        let confinement = Confinement { time: Some(MAX_TIME), ..confinement.clone() };
        let running = Arc::new(Semaphore::new(MAX_RUNNING));
        Ok(KeyCommand { program: program.to_owned(), confinement, running })
    }

    pub(super) fn program(&self) -> &Path {
        &self.program
    }

    /// The permit to run it, which may take a while.
    pub(crate) async fn turn(&self) -> Option<OwnedSemaphorePermit> {
        let turn = tokio::time::timeout(MAX_TIME, self.running.clone().acquire_owned()).await;
        turn.ok().and_then(Result::ok)
    }

    /// The user who has a key. Blocks until the program has ended.
    pub(crate) fn user_of(&self, key: &UserKey) -> Option<SshUser> {
        match self.ask(key) {
            Ok(user) => user,
            Err(why) => {
                tracing::warn!("ssh.user-keys-command: {}: {why}", self.program.display());
                None
            }
        }
    }

    fn ask(&self, key: &UserKey) -> Result<Option<SshUser>, String> {
        let line = key.line();
        let (kind, base64) = line.split_once(' ').ok_or("key without a type")?;
        let arguments = [&key.fingerprint(), kind, base64].map(OsString::from);
        let program = Program {
            argv: std::iter::once(self.program.clone().into_os_string()).chain(arguments).collect(),
            hook: None,
            directory: "/".into(),
            environment: Vec::new(),
            reads_messages: false,
            confinement: self.confinement.clone(),
        };
        let mut output = Vec::new();
        let child = ChildProcess::start(&program).map_err(|error| error.to_string())?;
        let ended = child.run(b"", &mut |bytes| {
            let room = (MAX_OUTPUT_BYTES + 1).saturating_sub(output.len());
            output.extend_from_slice(&bytes[..bytes.len().min(room)]);
        });
        let status = ended.map_err(|error| error.to_string())?;
        if !status.success() {
            return Err(format!("failed: {status}"));
        }
        if output.len() > MAX_OUTPUT_BYTES {
            return Err(format!("output exceeds {MAX_OUTPUT_BYTES} bytes"));
        }
        let text = String::from_utf8(output).map_err(|_| "output is not UTF-8".to_owned())?;
        let mut keys = UserKeys::default();
        keys.add_signers(&text).map_err(|error| kept(error.to_string().as_bytes()))?;
        Ok(keys.user_of(key, jiff::Timestamp::now().as_second()))
    }
}
