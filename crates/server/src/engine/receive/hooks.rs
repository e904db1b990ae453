//! The hooks of a push (githooks): what they are told, and what it means how they end.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::process::ExitStatus;
use std::time::Duration;

use packrace_os::child::{ChildProcess, Program, Read};

use super::Error;
use super::commands::{Command, Push, gone};
use super::talk::Talk;
use packrace_store::Quarantine;

/// The longest time without a look at whether the client is still there.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// How often it is looked whether a hook that has closed its outputs has ended.
const END_INTERVAL: Duration = Duration::from_millis(2);

/// Longest piece of what a hook says.
const TALK_BYTES: usize = 8 << 10;

/// Variables beside those that all hooks get; `None` takes one away.
pub(super) type Variables = Vec<(OsString, Option<OsString>)>;

/// Runs a program to its end, unless the client leaves; whether it ended well. One that cannot be started has not, nor one
/// that was ended because its time was up.
pub(super) fn run(program: &Program, input: &[u8], talk: &Talk) -> Result<bool, Error> {
    let mut child = match ChildProcess::start(program) {
        Ok(child) => child,
        Err(error) => {
            talk.error(&format!("cannot run {}: {error}", name_of(program)));
            return Ok(false);
        }
    };
    match see_through(&mut child, input, talk) {
        Ok(Some(status)) => Ok(status.success()),
        Ok(None) => {
            child.end();
            Err(gone())
        }
        Err(error) if error.kind() == std::io::ErrorKind::TimedOut => {
            talk.error(&format!("{} was ended: {error}", name_of(program)));
            Ok(false)
        }
        Err(error) => Err(Error::unavailable(format!("cannot talk to a hook: {error}"))),
    }
}

fn name_of(program: &Program) -> String {
    program.argv.first().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}

/// How a program ended; `None` if the client left before.
fn see_through(
    child: &mut ChildProcess,
    mut input: &[u8],
    talk: &Talk,
) -> std::io::Result<Option<ExitStatus>> {
    let mut buffers = [[0; TALK_BYTES]; 2];
    let [output, messages] = &mut buffers;
    loop {
        if input.is_empty() {
            child.close_input();
        }
        let did = child.transfer(input, output, messages, LOOK_INTERVAL)?;
        input = &input[did.written..];
        for (read, bytes) in [(did.output, &output), (did.messages, &messages)] {
            if let Read::Bytes(length) = read {
                talk.say(&bytes[..length]);
            }
        }
        if talk.is_cancelled() {
            return Ok(None);
        }
        if did.output == Read::Closed && did.messages == Read::Closed {
            break;
        }
    }
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if talk.is_cancelled() {
            return Ok(None);
        }
        packrace_os::clock::sleep(END_INTERVAL);
    }
}

impl Push<'_> {
    /// Runs a hook; one that is not there is content.
    pub(super) fn run_hook(
        &self,
        name: &str,
        arguments: &[&[u8]],
        input: &[u8],
        variables: Variables,
    ) -> Result<bool, Error> {
        let Some(mut program) = self.hooks.program(name, arguments)? else { return Ok(true) };
        program.environment.extend(variables);
        run(&program, input, &self.talk)
    }

    pub(super) fn run_pre_receive(&mut self, quarantine: Option<&Quarantine>) -> Result<bool, Error> {
        if self.hooks.find("pre-receive")?.is_none() {
            return Ok(true);
        }
        let mut variables = self.variables()?;
        let of_quarantine = quarantine.map(Quarantine::environment).unwrap_or_default();
        variables.extend(of_quarantine.into_iter().map(|(name, value)| (name, Some(value))));
        let mut lines = Vec::new();
        self.commands.iter().for_each(|command| write_line(command, &mut lines));
        self.run_hook("pre-receive", &[], &lines, variables)
    }

    /// Whether the hook lets a command pass.
    pub(super) fn run_update(&self, command: &Command) -> Result<bool, Error> {
        let (old, new) = (command.old.to_string(), command.new.to_string());
        self.run_hook("update", &[&command.name, old.as_bytes(), new.as_bytes()], b"", Vec::new())
    }

    pub(super) fn run_post_receive(&mut self) -> Result<(), Error> {
        let mut lines = Vec::new();
        for command in self.commands.iter().filter(|command| is_done(command)) {
            match command.rewritten.as_slice() {
                [] => write_line(command, &mut lines),
                rewritten => {
                    for what in rewritten {
                        let command = Command {
                            old: what.old.unwrap_or(command.old),
                            new: what.new.unwrap_or(command.new),
                            name: what.name.clone().unwrap_or_else(|| command.name.clone()),
                            ..command.clone()
                        };
                        write_line(&command, &mut lines);
                    }
                }
            }
        }
        if lines.is_empty() || self.hooks.find("post-receive")?.is_none() {
            return Ok(());
        }
        let variables = self.variables()?;
        // How it ends changes nothing.
        self.run_hook("post-receive", &[], &lines, variables).map(drop)
    }

    pub(super) fn run_post_update(&mut self) -> Result<(), Error> {
        let done = self.commands.iter().filter(|command| is_done(command));
        let names: Vec<&[u8]> = done.map(|command| command.name.as_slice()).collect();
        if names.is_empty() {
            return Ok(());
        }
        self.run_hook("post-update", &names, b"", Vec::new()).map(drop)
    }

    /// What hooks that hear of all commands at once are told beside them.
    fn variables(&mut self) -> Result<Variables, Error> {
        let mut variables: Variables = Vec::new();
        // Also where the client does not use options, and in spite of what githooks says.
        let options = self.request.options.as_deref().unwrap_or_default();
        variables.push(("GIT_PUSH_OPTION_COUNT".into(), Some(options.len().to_string().into())));
        for (at, option) in options.iter().enumerate() {
            let name = format!("GIT_PUSH_OPTION_{at}");
            variables.push((name.into(), Some(OsString::from_vec(option.clone()))));
        }
        variables.extend(self.certificate_variables()?);
        Ok(variables)
    }
}

/// Whether hooks that come afterwards hear of it.
fn is_done(command: &Command) -> bool {
    command.error.is_none() && !command.did_not_exist
}

/// `old SP new SP name LF`.
fn write_line(command: &Command, out: &mut Vec<u8>) {
    out.extend_from_slice(format!("{} {} ", command.old, command.new).as_bytes());
    out.extend_from_slice(&command.name);
    out.push(b'\n');
}
