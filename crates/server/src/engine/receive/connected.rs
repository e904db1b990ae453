//! Whether everything is there that the new tips of a push lead to.

use std::ffi::OsString;
use std::sync::Arc;

use packrace_object::ObjectId;
use packrace_os::child::Program;
use packrace_store::Snapshot;

use super::Error;
use super::commands::{Before, Push, Shallow};
use super::hooks::run;
use super::shallow::NewShallow;
use packrace_store::publish::Quarantine;

impl Push<'_> {
    /// Rejects commands whose tips lead to something that is missing. Where history is cut in the client, and this makes it
    /// cut here, says where.
    pub(super) fn check_connected(
        &mut self,
        quarantine: Option<&Quarantine>,
        snapshot: &Arc<Snapshot>,
        refs: &Before,
    ) -> Result<Shallow, Error> {
        let Some(quarantine) = quarantine else { return Ok(None) };
        if self.call.skip_connectivity_check {
            return Ok(None);
        }
        let open = |command: &&mut super::commands::Command| command.error.is_none() && !command.is_delete();
        let tips: Vec<ObjectId> = self.commands.iter_mut().filter(open).map(|command| command.new).collect();
        let cut = NewShallow::find(&self.request.shallow, snapshot)?;
        if tips.is_empty() || are_connected(self, quarantine, &tips, &[], refs)? {
            return Ok(None);
        }
        let mut rejected = Vec::new();
        let mut needing = Vec::new();
        for (at, command) in self.commands.iter().enumerate() {
            if command.error.is_some()
                || command.is_delete()
                || are_connected(self, quarantine, &[command.new], &[], refs)?
            {
                continue;
            }
            let is_cut = !cut.ids.is_empty();
            if is_cut && are_connected(self, quarantine, &[command.new], &cut.ids, refs)? {
                match self.settings.shallow_update {
                    true => needing.push(at),
                    false => rejected.push((at, "shallow update not allowed")),
                }
            } else {
                rejected.push((at, "missing necessary objects"));
            }
        }
        rejected.into_iter().for_each(|(at, why)| self.commands[at].reject(why));
        needing.into_iter().for_each(|at| self.commands[at].needs_shallow = true);
        Ok(Some(cut))
    }
}

/// Whether all is there that `tips` lead to, where history may end at `cut` too.
// TODO: pack::connectivity stands here when it is there.
fn are_connected(
    push: &Push<'_>,
    quarantine: &Quarantine,
    tips: &[ObjectId],
    cut: &[ObjectId],
    _refs: &Before,
) -> Result<bool, Error> {
    let mut argv: Vec<OsString> = vec!["git".into()];
    let file = quarantine.view().object_dir().join("shallow");
    if !cut.is_empty() {
        let lines: String = cut.iter().map(|id| format!("{id}\n")).collect();
        packrace_os::write_file(&file, lines.as_bytes()).map_err(|e| Error::unavailable(e.to_string()))?;
        argv.extend(["--shallow-file".into(), file.into_os_string()]);
    }
    argv.extend(
        [
            "rev-list",
            "--objects",
            "--stdin",
            "--not",
            "--exclude-hidden=receive",
            "--all",
            "--quiet",
            "--alternate-refs",
        ]
        .map(Into::into),
    );
    let mut environment = vec![("GIT_DIR".into(), Some(".".into()))];
    environment.extend(quarantine.environment().into_iter().map(|(name, value)| (name, Some(value))));
    let program = Program {
        argv,
        directory: quarantine.view().git_dir().to_owned(),
        environment,
        reads_messages: true,
    };
    let input: String = tips.iter().map(|id| format!("{id}\n")).collect();
    run(&program, input.as_bytes(), &push.talk)
}
