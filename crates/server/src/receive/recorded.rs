//! The journal of events: a push is announced before refs change, and recorded before it is reported.

use packrace_journal::{Announced, JournalEvent, RefEvent};

use super::commands::{Push, ReceivedCommand};
use crate::error::Error;
use crate::events::{CHANGED_UNRECORDED, Events, NOT_RECORDED, NotRecorded, refs_that_changed};
use crate::program::ReceivedRef;

impl Push<'_> {
    /// Announces the changes that are about to be made. If that cannot be recorded, all commands are
    /// rejected.
    pub(super) fn announce(&mut self) -> Result<Option<(Announced, JournalEvent)>, NotRecorded> {
        let host = self.call.subject.host.clone();
        let Some(events) = host.events.get() else { return Ok(None) };
        let refs = self.commands.iter().filter(|command| command.is_open());
        let refs = refs.map(|command| event_of(command.asked()));
        let event = self.event(events, refs.collect());
        let announced = events.announce(&event).inspect_err(|_| {
            self.client.error(NOT_RECORDED);
            self.reject_all("cannot be recorded");
        })?;
        Ok(Some((announced, event)))
    }

    /// Records the changes, even if the push ended with an error.
    pub(super) fn record_event(
        &mut self,
        announced: Option<(Announced, JournalEvent)>,
        done: Result<(), Error>,
    ) -> Result<(), Error> {
        let host = self.call.subject.host.clone();
        let (Some((announced, intended)), Some(events)) = (announced, host.events.get()) else { return done };
        let refs = match &done {
            Ok(()) => self.commands.iter().flat_map(ReceivedCommand::made).map(event_of).collect(),
            Err(_) => {
                let subject = &self.call.subject;
                refs_that_changed(&subject.repository, &subject.namespace, &intended.refs)?
            }
        };
        if events.record(announced, &JournalEvent { refs, ..intended }).is_err() {
            self.client.error(CHANGED_UNRECORDED);
            self.reject_all("changed, but not recorded");
        }
        done
    }

    fn event(&self, events: &Events, refs: Vec<RefEvent>) -> JournalEvent {
        let subject = &self.call.subject;
        let options = self.request.options.clone().unwrap_or_default();
        JournalEvent { options, ..events.push(&subject.transfer, &subject.repository, refs) }
    }
}

fn event_of(change: ReceivedRef<'_>) -> RefEvent {
    RefEvent { name: change.name.to_vec(), old: change.old.to_string(), new: change.new.to_string() }
}
