//! `packrace events`.

use std::path::PathBuf;

/// Read the journal of events that packrace serve keeps.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EVENTS_HELP)]
pub struct EventsArgs {
    #[command(subcommand)]
    pub command: EventsCommand,
}

#[derive(Debug, clap::Subcommand)]
pub enum EventsCommand {
    /// Print events, a line of JSON each: those that are kept, and then those that come.
    Follow(EventsFollow),
}

#[derive(Debug, clap::Args)]
pub struct EventsFollow {
    /// Begin with the event of this number; without it, with the oldest that is kept.
    #[arg(long, value_name = "SEQ", default_value_t = 0)]
    pub from: u64,
    /// Print only events of repositories that this pattern matches, as in access rules: team/tool, team/**. May be given several
    /// times.
    #[arg(long, value_name = "GLOB")]
    pub repository: Vec<String>,
    /// End with the last event there is.
    #[arg(long)]
    pub no_wait: bool,
    /// The directory of the journal, which is events.journal of the server.
    pub journal: PathBuf,
}

/// What is in a journal, behind the help.
const EVENTS_HELP: &str = "\
With events.journal, packrace serve writes a line of JSON for each push and for each repository that is made, renamed or deleted \
through it:

    {\"seq\":7,\"time\":\"2026-11-23T21:00:00.5Z\",\"event\":\"push\",\"repository\":\"team/tool.git\",\"user\":\"alice\",
     \"peer\":\"192.0.2.7:4711\",\"door\":\"https\",\"session\":\"…\",\"refs\":[{\"ref\":\"refs/heads/main\",\"old\":\"<id>\",\"new\":\"<id>\"}]}

Numbers begin with 1 and leave none out. event is push, create, rename (with to, the new name) or delete. A push has its refs, with \
zeros for no object, and options, where it has some. One of more than 1000 refs is several lines, with part and parts. \
recovered is true where the server was killed between the change and its line, and new is what the ref was at the next start then. \
Two pushes that change one ref one after the other may have their lines in the other order: old and new tell.

The line is on the disk before the client is told that its push was taken. The server need not run to read it. Who reads no longer \
than events.max-bytes and events.max-age of the server let is told how many lines are gone.

events.webhooks of the server names a file (TOML); SIGHUP has it read again. What comes into the journal is posted to the url of each \
table [[webhook]], one event after the other, until the receiver answers 2xx. The body is the line without peer, door and session, and \
X-Packrace-Signature-256 has its HMAC-SHA-256 under the secret. Keys of a table:

    name             a-z, 0-9 and -; in the log, in metrics, and of the file webhook-NAME in the journal, which has the number that comes next
    url              http:// or https://, without a user
    secret-file      absolute path of a file of at least 16 bytes, which others must not be able to read
    repositories     patterns as in access rules; without it, all
    events           of push, create, rename, delete; without it, all
    allow-addresses  addresses and networks (10.0.0.0/8) that it may connect to although they are not public";
