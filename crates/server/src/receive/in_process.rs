//! Calls hooks of a program that embeds the server: functions instead of programs.

use packrace_store::Quarantine;

use super::commands::{Push, ReceivedCommand};
use crate::program::{ReceiveHook, ReceivedPush, ReceivedRef};

impl Push<'_> {
    /// Whether the embedding program accepts the push.
    pub(super) fn ask_program(&self, quarantine: Option<&Quarantine>) -> bool {
        let heard = self.commands.iter().filter(|command| !command.is_forbidden);
        let refs: Vec<_> = heard.map(ReceivedCommand::asked).collect();
        let mut accepted = Ok(());
        self.show(quarantine, &refs, |hook, push| accepted = hook.pre_receive(push));
        accepted.inspect_err(|why| self.client.error(why)).is_ok()
    }

    /// Tells the embedding program which refs have changed.
    pub(super) fn tell_program(&self) {
        let refs: Vec<_> = self.commands.iter().flat_map(ReceivedCommand::made).collect();
        self.show(None, &refs, |hook, push| hook.post_receive(push));
    }

    fn show(
        &self,
        quarantine: Option<&Quarantine>,
        refs: &[ReceivedRef<'_>],
        to: impl FnOnce(&dyn ReceiveHook, &ReceivedPush<'_>),
    ) {
        let subject = &self.call.subject;
        let Some(hook) = subject.host.program.receive_hook.as_deref().filter(|_| !refs.is_empty()) else {
            return;
        };
        let push = ReceivedPush {
            user: subject.transfer.user(),
            repository: quarantine.map_or(&*subject.repository, Quarantine::view),
            refs,
            options: self.request.options.as_deref().unwrap_or_default(),
            messages: &|text| self.client.say(text),
        };
        to(hook, &push);
    }
}
