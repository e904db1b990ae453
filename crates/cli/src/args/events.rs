//! `packrace events`.

use std::path::PathBuf;

/// Read the event journal of packrace serve.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EVENTS_HELP)]
pub struct EventsArgs {
    #[command(subcommand)]
    pub command: EventsCommand,
}

#[derive(Debug, clap::Subcommand)]
pub enum EventsCommand {
    /// Print events as lines of JSON: first the recorded ones, then new ones as they arrive.
    Follow(EventsFollow),
}

#[derive(Debug, clap::Args)]
pub struct EventsFollow {
    /// Start with the event of this number; 0: the oldest one kept.
    #[arg(long, value_name = "SEQ", default_value_t = 0)]
    pub from: u64,
    /// Print only events of repositories that match this pattern, as in access rules: team/tool, team/**; may be repeated.
    #[arg(long, value_name = "GLOB")]
    pub repository: Vec<String>,
    /// Exit after the last recorded event instead of waiting for new ones.
    #[arg(long)]
    pub no_wait: bool,
    /// Directory of the journal: events.journal of the server.
    pub journal: PathBuf,
}

/// What a journal contains; shown after the help.
const EVENTS_HELP: &str = "\
With events.journal set, packrace serve writes one line of JSON for each push, and for each repository that is created, renamed or \
deleted through it:

    {\"seq\":7,\"time\":\"2026-11-23T21:00:00.5Z\",\"event\":\"push\",\"repository\":\"team/tool.git\",\"user\":\"alice\",
     \"peer\":\"192.0.2.7:4711\",\"door\":\"https\",\"session\":\"…\",\"refs\":[{\"ref\":\"refs/heads/main\",\"old\":\"<id>\",\"new\":\"<id>\"}]}

Sequence numbers (seq) start at 1 and have no gaps. event is push, create, rename (with the new name in to) or delete. A push has its \
refs, with zeros for no object, and its push options, if any. A push of more than 1000 refs, or with long names, takes several \
lines, with part and parts. recovered is true if the server was killed between the change and its line; new is then the value of the \
ref at the next start. Lines of two successive pushes to one ref may be swapped: compare old and new.

A line is on disk before the client is told that its push was accepted. The journal can be read while the server is stopped. Lines \
beyond events.max-bytes or events.max-age are deleted; a reader that comes too late is warned which events are gone.

The setting events.webhooks names a file (TOML) of webhooks; SIGHUP reloads it. Each event is posted to the url of each [[webhook]] \
table, one event after the other, and retried until the receiver responds with 2xx or events.webhook-retry-time is over. The body is \
the line without peer, door and session. The header X-Packrace-Signature-256 is its HMAC-SHA-256 with the secret as key. Keys of a \
table:

    name             a-z, 0-9 and -, for the log and metrics; the file webhook-NAME in the journal has the number of the next event
    url              http:// or https://, without a user name
    secret-file      absolute path of a file of at least 16 bytes, readable only for the server's user (and its group)
    repositories     patterns as in access rules (default: all)
    events           a list of push, create, rename and delete (default: all)
    allow-addresses  non-public addresses and networks (10.0.0.0/8) that the webhook may connect to";
