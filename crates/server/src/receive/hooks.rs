//! The hooks of a push (githooks): what they get, and what their exit status means.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;

use super::certificate::{CertificateCheck, CertificateChecker};
use super::commands::{Push, ReceivedCommand};
use super::hook_run::{Variables, started_and_run};
use crate::error::Error;
use crate::program::ReceivedRef;
use packrace_store::Quarantine;

impl Push<'_> {
    /// Runs the hooks of an event, one after the other; without any it succeeds. All run even if one fails, but one
    /// that cannot be started ends them, as in git.
    pub(super) fn run_hook(
        &self,
        name: &str,
        arguments: &[&[u8]],
        input: &[u8],
        variables: Variables,
    ) -> Result<bool, Error> {
        let mut are_well = true;
        for mut program in self.hooks.programs(name, arguments)? {
            program.environment.extend_from_slice(&variables);
            match started_and_run(&program, input, &self.client)? {
                Some(is_well) => are_well &= is_well,
                None => return Ok(false),
            }
        }
        Ok(are_well)
    }

    pub(super) fn run_pre_receive(&mut self, quarantine: Option<&Quarantine>) -> Result<bool, Error> {
        let mut lines = Vec::new();
        let heard = self.commands.iter().filter(|command| !command.is_forbidden);
        heard.for_each(|command| write_line(&command.asked(), &mut lines));
        if lines.is_empty() || !self.hooks.is_any("pre-receive")? {
            return Ok(true);
        }
        let mut variables = self.variables()?;
        let of_quarantine = quarantine.map(Quarantine::environment).unwrap_or_default();
        variables.extend(of_quarantine.into_iter().map(|(name, value)| (name, Some(value))));
        self.run_hook("pre-receive", &[], &lines, variables)
    }

    /// Whether the hooks accept a command.
    pub(super) fn run_update(&self, command: &ReceivedCommand, variables: &Variables) -> Result<bool, Error> {
        let (old, new) = (command.old.to_string(), command.new.to_string());
        self.run_hook("update", &[&command.name, old.as_bytes(), new.as_bytes()], b"", variables.clone())
    }

    pub(super) fn run_post_receive(&mut self) -> Result<(), Error> {
        let mut lines = Vec::new();
        let made = self.commands.iter().flat_map(ReceivedCommand::made);
        made.for_each(|change| write_line(&change, &mut lines));
        if lines.is_empty() || !self.hooks.is_any("post-receive")? {
            return Ok(());
        }
        let variables = self.variables()?;
        // Its exit status changes nothing.
        self.run_hook("post-receive", &[], &lines, variables).map(drop)
    }

    pub(super) fn run_post_update(&mut self) -> Result<(), Error> {
        let done = self.commands.iter().filter(|command| command.is_done());
        let names: Vec<&[u8]> = done.map(|command| command.name.as_slice()).collect();
        if names.is_empty() {
            return Ok(());
        }
        self.run_hook("post-update", &names, b"", Vec::new()).map(drop)
    }

    /// The variables of hooks that get all commands at once.
    fn variables(&mut self) -> Result<Variables, Error> {
        let mut variables: Variables = Vec::new();
        // Also if the client sends no options, contrary to githooks.
        let options = self.request.options.as_deref().unwrap_or_default();
        variables.push(("GIT_PUSH_OPTION_COUNT".into(), Some(options.len().to_string().into())));
        for (at, option) in options.iter().enumerate() {
            let name = format!("GIT_PUSH_OPTION_{at}");
            variables.push((name.into(), Some(OsString::from_vec(option.clone()))));
        }
        variables.extend(self.certificate_variables()?);
        Ok(variables)
    }

    /// The variables about the certificate, which is checked once, for the first hook.
    fn certificate_variables(&mut self) -> Result<Variables, Error> {
        let Some(certificate) = &self.request.certificate else { return Ok(Vec::new()) };
        if self.certificate.is_none() {
            let (call, settings, nonce) = (self.call, &self.settings, self.nonce.as_deref());
            let checker = CertificateChecker { call, settings, nonce, client: &self.client };
            self.certificate = Some(checker.check(certificate)?);
        }
        Ok(self.certificate.as_ref().map_or_else(Vec::new, CertificateCheck::variables))
    }
}

/// `old SP new SP name LF`.
fn write_line(change: &ReceivedRef<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(format!("{} {} ", change.old, change.new).as_bytes());
    out.extend_from_slice(change.name);
    out.push(b'\n');
}
