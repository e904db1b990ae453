//! Runs a hook, or another program that a push needs, to its end.

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitStatus;

use packrace_os::child::{self, ChildProcess, Program, Read};
use packrace_store::Hooks;

use super::client_messages::ClientMessages;
use crate::check_intervals::{CLIENT_CHECK_INTERVAL, HOOK_END_INTERVAL};
use crate::error::Error;

/// The longest piece of a hook's messages.
const MESSAGE_BYTES: usize = 8 << 10;

/// Variables in addition to those that all hooks get; `None` removes one.
pub(super) type Variables = Vec<(OsString, Option<OsString>)>;

/// Runs a program to its end, unless the client disconnects; returns whether it succeeded. A program that
/// cannot be started or that was ended after its time limit did not.
pub(super) fn run(program: &Program, input: &[u8], client: &ClientMessages) -> Result<bool, Error> {
    Ok(started_and_run(program, input, client)? == Some(true))
}

/// As above; `None` if it cannot be started.
pub(super) fn started_and_run(
    program: &Program,
    input: &[u8],
    client: &ClientMessages,
) -> Result<Option<bool>, Error> {
    let mut child = match ChildProcess::start(program) {
        Ok(child) => child,
        Err(error) => {
            report_not_started(program, &error, client);
            return Ok(None);
        }
    };
    match see_through(&mut child, input, client) {
        Ok(Some(status)) => {
            if let Some(signal) = child::fatal_signal(status) {
                client.error(&format!("{} died of signal {signal}", name_of(program)));
            }
            Ok(Some(status.success()))
        }
        Ok(None) => {
            child.end();
            Err(Error::left())
        }
        Err(error) if error.kind() == std::io::ErrorKind::TimedOut => {
            client.error(&format!("{} was killed: {error}", path_of(program)));
            Ok(Some(false))
        }
        Err(error) => Err(Error::caused("cannot communicate with a hook", error)),
    }
}

/// Reports a program that cannot be started. As in git, a hook has the path by which it is started; clients that see
/// names of their own get the full one, so that the log has the real one. A command without a path was searched for.
pub(super) fn report_not_started(program: &Program, error: &std::io::Error, client: &ClientMessages) {
    let shown = match client.renames_paths() {
        true => path_of(program),
        false => Hooks::shown(program).to_string_lossy().into_owned(),
    };
    let (kind, text) = match program.hook {
        Some(_) => Hooks::not_started(program, &shown, error),
        None => ("error", format!("cannot run {shown}: {}", packrace_os::reason(error))),
    };
    client.report(kind, &text);
}

/// The path of a program, for the log; a client sees its own name for it.
fn path_of(program: &Program) -> String {
    let name = Path::new(Hooks::shown(program));
    match program.hook {
        Some(_) if Hooks::is_file(program) => program.directory.join(name).to_string_lossy().into_owned(),
        _ => name.to_string_lossy().into_owned(),
    }
}

/// Git's name for a program: relative to its working directory.
fn name_of(program: &Program) -> String {
    let name = Path::new(Hooks::shown(program));
    let directory = packrace_os::real_path(&program.directory);
    let below = directory.ok().and_then(|directory| name.strip_prefix(directory).ok());
    below.unwrap_or(name).to_string_lossy().into_owned()
}

/// How a program ended; `None` if the client disconnected before.
fn see_through(
    child: &mut ChildProcess,
    mut input: &[u8],
    client: &ClientMessages,
) -> std::io::Result<Option<ExitStatus>> {
    let mut buffers = [[0; MESSAGE_BYTES]; 2];
    let [output, messages] = &mut buffers;
    loop {
        if input.is_empty() {
            child.close_input();
        }
        let did = child.transfer(input, output, messages, CLIENT_CHECK_INTERVAL)?;
        input = &input[did.written..];
        for (read, bytes) in [(did.output, &output), (did.messages, &messages)] {
            if let Read::Bytes(length) = read {
                client.say(&bytes[..length]);
            }
        }
        if client.is_cancelled() {
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
        if client.is_cancelled() {
            return Ok(None);
        }
        packrace_os::clock::sleep(HOOK_END_INTERVAL);
    }
}
