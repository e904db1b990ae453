//! Hooks of a program that embeds the server: functions instead of programs.

use std::fmt::{Debug, Formatter};

use packrace_object::ObjectId;
use packrace_store::{Quarantine, Repository};

use super::client_messages::ClientMessages;
use super::commands::{Push, ReceivedCommand};
use super::hooks::is_done;

/// Sees every push. Called on the thread of the push, beside hooks that are programs: `pre_receive` before them, `post_receive`
/// before them too.
pub trait ReceiveHook: Debug + Send + Sync {
    /// Called once the objects are complete and checked, before any ref changes. The error refuses the whole push; the pusher sees its words.
    /// A panic refuses the push, too, and keeps nothing of it.
    fn pre_receive(&self, push: &ReceivedPush<'_>) -> Result<(), String>;

    /// Called after refs have changed, and after the journal has recorded that, with those that did. Not called if the process is killed
    /// in between: who must miss nothing reads the journal.
    fn post_receive(&self, push: &ReceivedPush<'_>);
}

/// A push, as a [`ReceiveHook`] sees it.
pub struct ReceivedPush<'a> {
    /// The pusher's name; `None` for anonymous clients.
    pub user: Option<&'a str>,
    /// The repository. In `pre_receive` its snapshots have the new objects too; its refs are the old ones.
    pub repository: &'a Repository,
    /// The refs, in the order of the push.
    pub refs: &'a [ReceivedRef<'a>],
    /// Push options (`git push -o`).
    pub options: &'a [Vec<u8>],
    client: &'a ClientMessages,
}

/// A ref of a push.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReceivedRef<'a> {
    /// The full name.
    pub name: &'a [u8],
    /// The old value; zeros if the ref is new.
    pub old: ObjectId,
    /// The new value; zeros if the ref is deleted.
    pub new: ObjectId,
}

impl<'a> ReceivedRef<'a> {
    fn of(command: &'a ReceivedCommand) -> Self {
        ReceivedRef { name: &command.name, old: command.old, new: command.new }
    }
}

impl Debug for ReceivedPush<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReceivedPush")
            .field("user", &self.user)
            .field("refs", &self.refs)
            .finish_non_exhaustive()
    }
}

impl ReceivedPush<'_> {
    /// Sends text to the pusher, who sees it as `remote: …`.
    pub fn say(&self, text: &str) {
        self.client.say(text.as_bytes());
    }
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
        let Some(hook) = &subject.host.receive_hook else { return };
        let refs: Vec<_> = self.commands.iter().filter(is_shown).map(ReceivedRef::of).collect();
        if refs.is_empty() {
            return;
        }
        let push = ReceivedPush {
            user: subject.transfer.user(),
            repository: quarantine.map_or(&*subject.repository, Quarantine::view),
            refs: &refs,
            options: self.request.options.as_deref().unwrap_or_default(),
            client: &self.client,
        };
        to(&**hook, &push);
    }
}
