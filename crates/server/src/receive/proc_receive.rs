//! The hook that executes commands instead of receive-pack (githooks, "proc-receive").
//!
//! ```text
//! we: version=1 NUL features, flush          hook: version=1 NUL features, flush
//! we: commands, flush [push options, flush]  hook: ok, ng and option lines, flush
//! ```

use std::collections::HashMap;

use packrace_os::child::{ChildProcess, Read};
use packrace_protocol::message::push_command::PushCommand;
use packrace_protocol::message::push_report::{ReportLine, Rewritten};
use packrace_protocol::wire::capabilities::words;
use packrace_protocol::wire::pkt_line::{Decoder, FLUSH, PktLine, text, write_data};

use super::client_messages::ClientMessages;
use super::commands::Push;
use super::hook_run::report_not_started;
use crate::check_intervals::{CLIENT_CHECK_INTERVAL, HOOK_END_INTERVAL};
use crate::error::Error;

/// Bytes of one read from the hook.
const MESSAGE_BYTES: usize = 64 << 10;

const UNMATCHED_OPTION: &str = "proc-receive reported 'option' without a matching 'ok/ng' directive";

const NOT_RUN: &str = "fail to run proc-receive hook";

/// Why the hook's commands failed, as lines of one error for the client.
struct HookErrors(Vec<String>);

impl HookErrors {
    fn one(error: impl Into<String>) -> Self {
        HookErrors(vec![error.into()])
    }
}

impl Push<'_> {
    /// Lets the hook execute its commands. Returns whether the others go on: not those of an atomic push if the hook rejects
    /// one, or ends with an error after it has answered (githooks). They are rejected then.
    pub(super) fn run_proc_receive(&mut self) -> Result<bool, Error> {
        let numbers: Vec<usize> = (0..self.commands.len())
            .filter(|at| self.commands[*at].is_of_hook && self.commands[*at].is_open())
            .collect();
        if numbers.is_empty() {
            return Ok(true);
        }
        let said = self.talk_with_hook(&numbers)?;
        let is_rejected = numbers.iter().any(|at| self.commands[*at].error.is_some());
        let ends_all = self.request.atomic && (is_rejected || !matches!(said, Ok(true)));
        if let Err(HookErrors(errors)) = &said
            && !errors.is_empty()
        {
            self.client.error(&errors.join("\n"));
        }
        for command in &mut self.commands {
            let is_failed = if command.is_of_hook { said.is_err() } else { ends_all };
            if is_failed {
                command.reject(NOT_RUN);
            }
        }
        Ok(!ends_all)
    }

    /// Returns whether the hook ended well, or why its commands failed.
    fn talk_with_hook(&mut self, numbers: &[usize]) -> Result<Result<bool, HookErrors>, Error> {
        let Some(program) = self.hooks.program("proc-receive", &[])? else {
            return Ok(Err(HookErrors::one("cannot find hook 'proc-receive'")));
        };
        let child = match ChildProcess::start(&program) {
            Ok(child) => child,
            Err(error) => {
                report_not_started(&program, &error, &self.client);
                return Ok(Err(HookErrors(Vec::new())));
            }
        };
        let mut hook = HookSession {
            child,
            decoder: Decoder::default(),
            client: &self.client,
            is_over: false,
            time_is_up: false,
        };
        let mut version = b"version=1".to_vec();
        let mut features = Vec::new();
        features.extend(self.request.atomic.then_some("atomic"));
        features.extend(self.request.options.is_some().then_some("push-options"));
        if !features.is_empty() {
            version.push(0);
            version.extend_from_slice(features.join(" ").as_bytes());
        }
        version.push(b'\n');
        let mut out = Vec::new();
        write_data(&version, &mut out);
        out.extend_from_slice(FLUSH);
        let Some(answer) = hook.ask(&out)? else {
            let why = hook.or_time_is_up("fail to negotiate version with proc-receive hook");
            return Ok(Err(HookErrors::one(why)));
        };
        let takes_options = match read_version(&answer) {
            Ok(takes_options) => takes_options && self.request.options.is_some(),
            Err(version) => {
                return Ok(Err(HookErrors::one(format!(
                    "proc-receive version '{version}' is not supported"
                ))));
            }
        };
        out.clear();
        for at in numbers {
            let command = &self.commands[*at];
            PushCommand { old: command.old, new: command.new, name: command.name.clone() }
                .write(None, &mut out);
        }
        out.extend_from_slice(FLUSH);
        if takes_options {
            self.request.options.iter().flatten().for_each(|option| write_data(option, &mut out));
            out.extend_from_slice(FLUSH);
        }
        let Some(answer) = hook.ask(&out)? else {
            let why = hook.or_time_is_up("fail to read report from proc-receive hook");
            return Ok(Err(HookErrors::one(why)));
        };
        let is_well = hook.end()?;
        let errors = self.take_answer(numbers, &answer);
        Ok(if errors.is_empty() { Ok(is_well) } else { Err(HookErrors(errors)) })
    }

    /// Reads the hook's answers about its commands; returns the errors in them.
    fn take_answer(&mut self, numbers: &[usize], lines: &[Vec<u8>]) -> Vec<String> {
        let by_name: HashMap<Vec<u8>, usize> =
            numbers.iter().map(|at| (self.commands[*at].name.clone(), *at)).collect();
        let all: HashMap<Vec<u8>, usize> =
            self.commands.iter().enumerate().map(|(at, command)| (command.name.clone(), at)).collect();
        let hash = self.call.subject.repository.hash_kind();
        let mut errors = Vec::new();
        let mut reported = vec![false; self.commands.len()];
        // The command that options apply to, and whether they begin the report of another change.
        let mut current: Option<(usize, bool)> = None;
        // Whether the last command was refused: as in git, options of it fail nothing.
        let (mut is_refused, mut is_told) = (false, false);
        for line in lines {
            match ReportLine::parse(line) {
                Some(ReportLine::Option(key, value)) => {
                    let Some((at, is_new)) = &mut current else {
                        // As in git, said once.
                        if is_refused {
                            if !std::mem::replace(&mut is_told, true) {
                                self.client.error(UNMATCHED_OPTION);
                            }
                        } else if !errors.iter().any(|error| error == UNMATCHED_OPTION) {
                            errors.push(UNMATCHED_OPTION.to_owned());
                        }
                        continue;
                    };
                    let command = &mut self.commands[*at];
                    if key == b"fall-through" {
                        command.is_of_hook = false;
                        continue;
                    }
                    if *is_new {
                        command.rewritten.push(Rewritten::default());
                        *is_new = false;
                    }
                    if let Some(last) = command.rewritten.last_mut() {
                        last.take(key, value, hash);
                    }
                }
                Some(ReportLine::Ok(name)) => {
                    is_refused = false;
                    current = self.named(name, &by_name, &all, &mut errors).map(|at| (at, true));
                    current.iter().for_each(|(at, _)| reported[*at] = true);
                }
                Some(ReportLine::Rejected(name, why)) => {
                    is_refused = false;
                    if let Some(at) = self.named(name, &by_name, &all, &mut errors) {
                        reported[at] = true;
                        is_refused = true;
                        self.commands[at].reject(&String::from_utf8_lossy(why));
                    }
                    // Options belong to what was done.
                    current = None;
                }
                Some(ReportLine::Unpack(_)) | None => {
                    errors.push(bad_status(line));
                    (current, is_refused) = (None, false);
                }
            }
        }
        for at in numbers {
            if !reported[*at] {
                self.commands[*at].reject("proc-receive failed to report status");
            }
        }
        errors
    }

    fn named(
        &self,
        name: &[u8],
        by_name: &HashMap<Vec<u8>, usize>,
        all: &HashMap<Vec<u8>, usize>,
        errors: &mut Vec<String>,
    ) -> Option<usize> {
        let found = by_name.get(name).copied();
        if found.is_none() {
            let shown = String::from_utf8_lossy(name);
            errors.push(match all.contains_key(name) {
                true => format!("proc-receive reported status on unexpected ref: {shown}"),
                false => format!("proc-receive reported status on unknown ref: {shown}"),
            });
        }
        found
    }
}

/// A line that is no report.
fn bad_status(line: &[u8]) -> String {
    let words: Vec<_> = line.splitn(2, |byte| *byte == b' ').map(String::from_utf8_lossy).collect();
    match words.as_slice() {
        [status, name] => format!("proc-receive reported bad status '{status}' on ref '{name}'"),
        _ => format!("proc-receive reported incomplete status line: '{}'", String::from_utf8_lossy(line)),
    }
}

/// Whether the hook takes push options; the version if it is unknown.
fn read_version(lines: &[Vec<u8>]) -> Result<bool, String> {
    let mut takes_options = false;
    for line in lines {
        let Some(rest) = line.strip_prefix(b"version=") else { continue };
        let (version, features) = match rest.iter().position(|byte| *byte == 0) {
            Some(nul) => (&rest[..nul], &rest[nul + 1..]),
            None => (rest, &b""[..]),
        };
        if !matches!(version, b"0" | b"1") {
            return Err(String::from_utf8_lossy(version).into_owned());
        }
        takes_options = words(features).any(|word| word == b"push-options");
    }
    Ok(takes_options)
}

fn failed(error: std::io::Error) -> Error {
    Error::caused("cannot communicate with a hook", error)
}

/// The conversation with a hook.
struct HookSession<'a> {
    child: ChildProcess,
    decoder: Decoder,
    client: &'a ClientMessages,
    is_over: bool,
    /// Its time limit ended it.
    time_is_up: bool,
}

impl HookSession<'_> {
    /// Sends a question and reads the lines up to a flush; `None` without a flush.
    fn ask(&mut self, mut question: &[u8]) -> Result<Option<Vec<Vec<u8>>>, Error> {
        let mut lines = Vec::new();
        let mut output = vec![0; MESSAGE_BYTES];
        loop {
            loop {
                match self.decoder.next() {
                    Ok(Some(PktLine::Data(payload))) => lines.push(text(payload).to_vec()),
                    Ok(Some(_)) => return Ok(Some(lines)),
                    Ok(None) => break,
                    Err(_) => return Ok(None),
                }
            }
            if self.is_over {
                return Ok(None);
            }
            question = &question[self.transfer(question, &mut output)?..];
        }
    }

    /// The error when there is no answer.
    fn or_time_is_up(&self, why: &str) -> String {
        if self.time_is_up { format!("{why}: time limit exceeded") } else { why.to_owned() }
    }

    /// Moves the bytes that can be moved; returns how many were sent.
    fn transfer(&mut self, question: &[u8], output: &mut [u8]) -> Result<usize, Error> {
        let mut messages = [0; 8 << 10];
        let did = match self.child.transfer(question, output, &mut messages, CLIENT_CHECK_INTERVAL) {
            Err(error) if error.kind() == std::io::ErrorKind::TimedOut => {
                (self.time_is_up, self.is_over) = (true, true);
                return Ok(question.len());
            }
            did => did.map_err(failed)?,
        };
        if let Read::Bytes(length) = did.messages {
            self.client.say(&messages[..length]);
        }
        match did.output {
            Read::Bytes(length) => self.decoder.push(&output[..length]),
            Read::Closed => self.is_over = true,
            Read::Nothing => {}
        }
        if self.client.is_cancelled() {
            return Err(Error::left());
        }
        Ok(did.written)
    }

    /// Waits for the hook's end; returns whether it ended well.
    fn end(mut self) -> Result<bool, Error> {
        self.child.close_input();
        let mut output = vec![0; MESSAGE_BYTES];
        while !self.is_over {
            self.transfer(b"", &mut output)?;
            // Bytes after the last flush are ignored.
            self.decoder = Decoder::default();
        }
        loop {
            let ended = match self.child.try_wait() {
                // It reached its time limit after its answer.
                Err(error) if error.kind() == std::io::ErrorKind::TimedOut => return Ok(false),
                ended => ended.map_err(failed)?,
            };
            if let Some(status) = ended {
                let mut messages = [0; 8 << 10];
                while let Ok(did) =
                    self.child.transfer(b"", &mut [], &mut messages, std::time::Duration::ZERO)
                {
                    match did.messages {
                        Read::Bytes(length) => self.client.say(&messages[..length]),
                        _ => break,
                    }
                }
                return Ok(status.success());
            }
            if self.client.is_cancelled() {
                return Err(Error::left());
            }
            packrace_os::clock::sleep(HOOK_END_INTERVAL);
        }
    }
}
