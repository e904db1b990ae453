//! External filters: programs for one file, and long-running processes for many (gitattributes, "filter").

use std::collections::HashMap;
use std::ffi::OsString;
use std::io::{Read as _, Write as _};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, ExitStatus, Stdio};

use packrace_object::ObjectId;
use packrace_os::trace::{self, ChildClass, TracedChild};

use super::process::{FilterAnswer, FilterProcess};

/// The direction of a conversion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    Clean,
    Smudge,
}

impl Way {
    fn word(self) -> &'static str {
        match self {
            Way::Clean => "clean",
            Way::Smudge => "smudge",
        }
    }
}

/// Where a blob that is checked out comes from (gitattributes, "Long Running Filter Process"). A filter
/// process is told what is known of it.
#[derive(Debug, Clone, Default)]
pub struct BlobSource {
    /// The full name of the branch.
    pub branch: Option<Vec<u8>>,
    /// The commit that has the blob.
    pub commit: Option<ObjectId>,
    /// The blob.
    pub blob: Option<ObjectId>,
}

/// A file to convert.
pub(super) struct FilterTask<'a> {
    pub(super) way: Way,
    pub(super) path: &'a [u8],
    pub(super) content: &'a [u8],
    pub(super) source: &'a BlobSource,
}

impl FilterTask<'_> {
    /// What a filter process is told of it, in git's order.
    fn facts(&self) -> Vec<(&'static str, Vec<u8>)> {
        let BlobSource { branch, commit, blob } = self.source;
        let name = |id: &ObjectId| id.to_string().into_bytes();
        let mut facts = vec![("pathname", self.path.to_vec())];
        facts.extend(branch.clone().map(|branch| ("ref", branch)));
        facts.extend(commit.as_ref().map(|commit| ("treeish", name(commit))));
        facts.extend(blob.as_ref().map(|blob| ("blob", name(blob))));
        facts
    }
}

/// `filter.<name>.*`.
#[derive(Debug, Clone, Default)]
pub(super) struct Driver {
    pub(super) name: String,
    pub(super) clean: Option<Vec<u8>>,
    pub(super) smudge: Option<Vec<u8>>,
    pub(super) process: Option<Vec<u8>>,
    pub(super) is_required: bool,
}

impl Driver {
    /// Whether the driver changes or refuses files of its paths. As in git, a required driver without any
    /// program refuses nothing on checkout.
    pub(super) fn does_something(&self, way: Way) -> bool {
        let is_refused = self.is_required && (way == Way::Clean || self.clean.is_some());
        is_refused || self.process.is_some() || self.command(way).is_some()
    }

    fn command(&self, way: Way) -> Option<&Vec<u8>> {
        match way {
            Way::Clean => self.clean.as_ref(),
            Way::Smudge => self.smudge.as_ref(),
        }
    }
}

/// Running filter processes; they end with this value.
#[derive(Default)]
pub(super) struct Processes {
    running: HashMap<Vec<u8>, (FilterProcess, Option<TracedChild>)>,
    /// What programs get beside the variables of this process.
    pub(super) variables: Vec<(OsString, OsString)>,
}

impl Processes {
    /// Converts a file with the driver; `None` if it has no program for it, or failed, which `messages`
    /// then report.
    pub(super) fn convert(
        &mut self,
        driver: &Driver,
        task: &FilterTask<'_>,
        top: &Path,
        messages: &mut Vec<String>,
    ) -> Option<Vec<u8>> {
        if let Some(command) = driver.process.as_ref().filter(|command| !command.is_empty()) {
            return self.ask(command, task, top, messages);
        }
        let command = driver.command(task.way).filter(|command| !command.is_empty())?;
        let converted = run(command, task, top, &self.variables, messages);
        if converted.is_none() {
            messages.push(format!("error: external filter '{}' failed", String::from_utf8_lossy(command)));
        }
        converted
    }

    fn ask(
        &mut self,
        command: &[u8],
        task: &FilterTask<'_>,
        top: &Path,
        messages: &mut Vec<String>,
    ) -> Option<Vec<u8>> {
        let shown = String::from_utf8_lossy(command);
        if !self.running.contains_key(command) {
            let (child, traced) = match start(command, top, &self.variables, ChildClass::Subprocess) {
                Ok(started) => started,
                Err(error) => {
                    messages.push(cannot_exec(command, &error));
                    messages.push(format!("error: cannot fork to run subprocess '{shown}'"));
                    return None;
                }
            };
            match FilterProcess::greet(child, &shown) {
                Ok(process) => self.running.insert(command.to_vec(), (process, traced)),
                Err(line) => {
                    messages.extend(line);
                    messages.push(format!("error: initialization for subprocess '{shown}' failed"));
                    return None;
                }
            };
        }
        let (process, _) = self.running.get_mut(command)?;
        let word = task.way.word();
        if !process.can(word) {
            return None;
        }
        match process.convert(word, &task.facts(), task.content) {
            FilterAnswer::Content(converted) => return Some(converted),
            FilterAnswer::Refused | FilterAnswer::Stopped => {}
            FilterAnswer::Broken => {
                messages.push(format!("error: external filter '{shown}' failed"));
                if let Some((process, traced)) = self.running.remove(command) {
                    let mut child = process.into_child();
                    let _ = child.kill();
                    let _ = wait(child, traced);
                }
            }
        }
        None
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        for (_, (process, traced)) in self.running.drain() {
            let _ = wait(process.into_child(), traced);
        }
    }
}

/// Runs a program for one file; another thread writes its input.
fn run(
    command: &[u8],
    task: &FilterTask<'_>,
    top: &Path,
    variables: &[(OsString, OsString)],
    messages: &mut Vec<String>,
) -> Option<Vec<u8>> {
    let shown = String::from_utf8_lossy(command).into_owned();
    let content = task.content;
    let started = start(&with_path(command, task.path), top, variables, ChildClass::Other);
    let (mut child, traced) = match started {
        Ok(started) => started,
        Err(error) => {
            messages.push(cannot_exec(command, &error));
            messages.push(format!("error: cannot fork to run external filter '{shown}'"));
            return None;
        }
    };
    let (input, output) = (child.stdin.take(), child.stdout.take());
    let mut converted = Vec::new();
    let (is_written, is_read) = std::thread::scope(|scope| {
        let writing = scope.spawn(move || match input {
            // A program need not read all of its input.
            Some(mut input) => match input.write_all(content) {
                Err(error) => error.kind() == std::io::ErrorKind::BrokenPipe,
                Ok(()) => true,
            },
            None => false,
        });
        let is_read = output.is_some_and(|mut output| output.read_to_end(&mut converted).is_ok());
        (writing.join().unwrap_or(false), is_read)
    });
    let status = wait(child, traced).ok()?;
    if !is_written {
        messages.push(format!("error: cannot feed the input to external filter '{shown}'"));
    }
    if !is_read {
        messages.push(format!("error: read from external filter '{shown}' failed"));
    }
    if !status.success() {
        if let Some(signal) = status.signal() {
            messages.push(format!("error: {shown} died of signal {signal}"));
        }
        let code = status.code().or(status.signal().map(|signal| 128 + signal)).unwrap_or(-1);
        messages.push(format!("error: external filter '{shown}' failed {code}"));
    }
    (is_written && is_read && status.success()).then_some(converted)
}

fn cannot_exec(command: &[u8], error: &std::io::Error) -> String {
    let shown = String::from_utf8_lossy(command);
    match command.contains(&b'/') {
        true => format!("fatal: cannot exec '{shown}': {}", packrace_os::reason(error)),
        // Git has looked for an executable file in `PATH`.
        false => format!("error: cannot run {shown}: No such file or directory"),
    }
}

/// Replaces `%f` by the path, quoted for the shell, and `%%` by `%`.
fn with_path(command: &[u8], path: &[u8]) -> Vec<u8> {
    let mut whole = Vec::with_capacity(command.len() + path.len());
    let mut bytes = command.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        match (byte, bytes.peek()) {
            (b'%', Some(b'f')) => {
                bytes.next();
                whole.extend_from_slice(&shell_word(path));
            }
            (b'%', Some(b'%')) => {
                bytes.next();
                whole.push(b'%');
            }
            _ => whole.push(byte),
        }
    }
    whole
}

/// Quotes a path as one word for the shell.
pub(crate) fn shell_word(path: &[u8]) -> Vec<u8> {
    let mut quoted = vec![b'\''];
    for byte in path {
        match byte {
            b'\'' | b'!' => quoted.extend_from_slice(&[b'\'', b'\\', *byte, b'\'']),
            byte => quoted.push(*byte),
        }
    }
    quoted.push(b'\'');
    quoted
}

/// Starts a command as git does: in a shell only if it contains shell characters.
fn start(
    command: &[u8],
    top: &Path,
    variables: &[(OsString, OsString)],
    class: ChildClass<'_>,
) -> std::io::Result<(Child, Option<TracedChild>)> {
    let text = OsString::from_vec(command.to_vec());
    let is_for_shell = command.iter().any(|byte| b"|&;<>()$`\\\"' \t\n*?[#~=%".contains(byte));
    let traced = trace::child(std::slice::from_ref(&text), class, true);
    // The shell calls itself by the last one in its messages.
    let argv = match is_for_shell {
        true => vec!["/bin/sh".into(), "-c".into(), text.clone(), text],
        false => vec![text],
    };
    trace::child_file(&argv);
    let started = packrace_os::child::spawn(&argv, |command| {
        command.current_dir(top).stdin(Stdio::piped()).stdout(Stdio::piped());
        command.envs(variables.iter().map(|(name, value)| (name, value)));
    });
    match started {
        Ok(child) => Ok((child, traced)),
        Err(error) => {
            traced.into_iter().for_each(TracedChild::failed);
            Err(error)
        }
    }
}

fn wait(mut child: Child, traced: Option<TracedChild>) -> std::io::Result<ExitStatus> {
    let status = child.wait()?;
    traced.into_iter().for_each(|traced| traced.ended(child.id(), status));
    Ok(status)
}
