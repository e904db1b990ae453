//! Calls hooks of a program that embeds the server: functions instead of programs.

use packrace_store::Quarantine;

use super::commands::{Push, ReceivedCommand};
use super::hooks::is_done;
use crate::program::{ReceiveHook, ReceivedPush, ReceivedRef};

fn shown_ref(command: &ReceivedCommand) -> ReceivedRef<'_> {
    ReceivedRef { name: &command.name, old: command.old, new: command.new }
}

impl Push<'_> {
    /// Whether the embedding program accepts the push.
    pub(super) fn ask_program(&self, quarantine: Option<&Quarantine>) -> bool {
        let heard = |command: &&ReceivedCommand| !command.is_forbidden;
        let mut accepted = Ok(());
        self.show(quarantine, heard, |hook, push| accepted = hook.pre_receive(push));
        match accepted {
            Ok(()) => true,
            Err(why) => {
                self.client.error(&why);
                false
            }
        }
    }

    /// Tells the embedding program which refs have changed.
    pub(super) fn tell_program(&self) {
        self.show(None, |command| is_done(command), |hook, push| hook.post_receive(push));
    }

    fn show(
        &self,
        quarantine: Option<&Quarantine>,
        is_shown: impl Fn(&&ReceivedCommand) -> bool,
        to: impl FnOnce(&dyn ReceiveHook, &ReceivedPush<'_>),
    ) {
        let subject = &self.call.subject;
        let Some(hook) = &subject.host.program.receive_hook else { return };
        let refs: Vec<_> = self.commands.iter().filter(is_shown).map(shown_ref).collect();
        if refs.is_empty() {
            return;
        }
        let push = ReceivedPush {
            user: subject.transfer.user(),
            repository: quarantine.map_or(&*subject.repository, Quarantine::view),
            refs: &refs,
            options: self.request.options.as_deref().unwrap_or_default(),
            messages: &|text| self.client.say(text),
        };
        to(&**hook, &push);
    }
}
