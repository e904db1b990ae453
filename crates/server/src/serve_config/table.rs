//! All settings: what they are called, what they mean, and where they go.

use std::sync::LazyLock;

use crate::access::AccessFiles;
use crate::events::EventSettings;
use crate::limits::Limits;
use crate::limits::admission::AdmissionSettings;
use crate::maintenance::MaintenanceRules;
use crate::repository_cache::RepositoryCacheSettings;
use crate::send::pack_cache::CacheSettings;
use crate::settings::ServeRules;
use crate::ssh_keys::SshSettings;
use crate::tls::TlsFiles;

use super::item::{ByteCount, ConfigValue, Given};
use super::{BucketSource, Hooks, Listen, Log, PushPolicy, Sandbox, ServeConfig};

/// One setting.
pub struct Setting {
    /// The table of a file to which it belongs.
    pub group: &'static str,
    /// Its name in the program.
    field: &'static str,
    /// What it means, in which unit, and what happens at the bound.
    pub doc: &'static str,
    /// Whether a new value counts without a restart.
    pub is_reloaded: bool,
    /// Sets it.
    pub(super) take: fn(&mut ServeConfig, &Given<'_>) -> Result<(), String>,
    /// Copies its value from another configuration.
    pub(super) copy: fn(&mut ServeConfig, &ServeConfig),
    /// Its value, as a file has it.
    pub(super) show: fn(&ServeConfig) -> String,
}

impl Setting {
    /// The table of a file that it is in.
    pub fn table(&self) -> String {
        self.group.replace('_', "-")
    }

    /// The key within its table.
    pub fn name(&self) -> String {
        self.field.replace('_', "-")
    }

    /// Table and key.
    pub fn key(&self) -> String {
        format!("{}.{}", self.table(), self.name())
    }

    /// The variable of the environment.
    pub fn variable(&self) -> String {
        format!("{}{}_{}", super::VARIABLE_PREFIX, self.group, self.field).to_uppercase()
    }
}

/// All that there are, group by group.
pub fn all() -> &'static [Setting] {
    static ALL: LazyLock<Vec<Setting>> = LazyLock::new(|| {
        [
            listen(),
            tls(),
            ssh(),
            limits(),
            admission(),
            cache(),
            repository_cache(),
            maintenance(),
            push(),
            access(),
            hooks(),
            events(),
            bucket(),
            sandbox(),
            serve(),
            log(),
        ]
        .into_iter()
        .flatten()
        .collect()
    });
    &ALL
}

/// Whether SIGHUP is enough.
macro_rules! is_reloaded {
    (reload) => {
        true
    };
    (restart) => {
        false
    };
}

/// The value of a field, and how it becomes one: `bytes` are an integer of any kind.
macro_rules! take {
    ($field:expr, $given:expr, bytes) => {{
        let ByteCount(bytes) = ByteCount::take($given)?;
        $field = bytes.try_into().map_err(|_| "more than this machine can count".to_owned())?;
    }};
    ($field:expr, $given:expr, value) => {
        $field = ConfigValue::take($given)?
    };
}

macro_rules! show {
    ($field:expr, bytes) => {
        ByteCount($field as u64).write()
    };
    ($field:expr, value) => {
        $field.write()
    };
}

/// The settings of one group, which are all fields of a struct: a missing one is a compile error.
macro_rules! group {
    ($group:ident: $kind:ident { $($field:ident: $form:ident, $when:ident, $doc:literal;)* }) => {
        fn $group() -> Vec<Setting> {
            // Names every field.
            let $kind { $($field: _,)* } = $kind::default();
            vec![$(Setting {
                group: stringify!($group),
                field: stringify!($field),
                doc: $doc,
                is_reloaded: is_reloaded!($when),
                take: |config, given| {
                    take!(config.$group.$field, given, $form);
                    Ok(())
                },
                copy: |config, from| config.$group.$field.clone_from(&from.$group.$field),
                show: |config| show!(config.$group.$field, $form),
            },)*]
        }
    };
}

group!(listen: Listen {
    http: value, restart,
        "Address and port for HTTP (1.1 and 2). \"none\": no HTTP; but where nothing at all is said of http, https, git, ssh and \
         shell, and no socket is inherited, 127.0.0.1:8417.";
    https: value, restart,
        "Address and port for HTTP (1.1 and 2) inside of TLS (1.2 and 1.3), with tls.certificates. \"none\": no HTTPS.";
    git: value, restart,
        "Address and port for git://, whose usual port is 9418. \"none\": no git://.";
    ssh: value, restart,
        "Address and port for SSH, with ssh.host-keys; users are known by keys and certificates. \"none\": no SSH.";
    shell: value, restart,
        "Where packrace shell finds the server and hands sessions of SSH over: the absolute path of a Unix socket, which the \
         server makes at its start for its own user. \"none\": nowhere; packrace shell serves alone then.";
    admin: value, restart,
        "Where the server can be looked at while it runs: /-/ (a page for people), /-/metrics (Prometheus), /-/healthz \
         and /-/readyz. \"http\": on the addresses for HTTP and HTTPS, and the page does not tell clients and repositories, or with access rules \
         all of it to their admins, and to other users which repositories they may read. An \
         address and port of its own: all of it there, with clients and repositories; on the addresses for HTTP \
         and HTTPS only healthz and readyz. \"none\": nowhere, and no API for repositories either.";
    hosts: value, reload,
        "Names and addresses, without ports, by which HTTP may be asked (Host, :authority): a list. \"auto\": over loopback \
         only localhost and loopback's addresses, elsewhere any. \"any\": any. Others get HTTP 403, so that no site can \
         make a browser take this server for itself (DNS rebinding): name yours where browsers can reach it, or where a \
         proxy passes the name on.";
});

group!(tls: TlsFiles {
    certificates: value, reload,
        "Files of certificates (PEM), each a chain with the server's own certificate first: a list of absolute paths. A client \
         gets the first whose names have the one that it asks for, or else the first of all. SIGHUP has all files of this \
         table read again, also where no setting has changed; connections that are open keep theirs, and a file at \
         fault changes nothing. Give them a directory of their own: in the sandbox, all of it can be read.";
    keys: value, reload,
        "Files of their private keys (PEM, not encrypted), in any order: a list of absolute paths. Nobody but the owner of \
         a file and, to read, its group may have a right to it.";
    client_ca: value, reload,
        "A file of authorities (PEM) whose certificates clients may show. One that no authority has signed, or that \
         is no longer valid, ends the handshake. \"none\": no client is asked for one.";
    require_client_certificate: value, reload,
        "Whether only clients are served over HTTPS that show such a certificate.";
});

group!(ssh: SshSettings {
    host_keys: value, reload,
        "Files of private keys of this host, as ssh-keygen writes them without a passphrase, one of each kind (ed25519, ecdsa): a \
         list of absolute paths. Nobody but the owner of a file and, to read, its group may have a right to it. SIGHUP has all \
         files of this table read again; connections that are open keep what they began with, and a file at fault changes \
         nothing. Where the keys of users are, too, only those who may decide who gets in may write.";
    user_keys: value, reload,
        "File of keys of users, in the format of allowed signers of ssh-keygen: a line each with the name of one user, the key, \
         and before the key valid-after=\"20260101Z\" or valid-before=\"20270101Z\" where that is wanted. Clients may log in \
         by any name, as git@. \"none\": there is none.";
    user_keys_folder: value, reload,
        "Folder of public keys of users, with folders in it: alice.pub and, as in Gitolite, alice@laptop.pub are keys of alice. \
         \"none\": there is none.";
    user_keys_command: value, reload,
        "Program that is called with the fingerprint, the kind and the base64 of a key that no file has, and writes lines as \
         in user-keys, of which one has that key. It may take 5 s; where it fails, nobody gets in. It may do what hooks may. \
         \"none\": there is none.";
    user_ca: value, reload,
        "File of public keys of authorities, a line each, whose certificates users may show (ssh-keygen -s). The principal of a \
         certificate is the user; where there are several, the login name says which. Of critical options, source-address is \
         known, and a certificate with another is refused. \"none\": no certificate is taken.";
    revoked_keys: value, reload,
        "File of what is taken no more, whatever the other files and the program say; in the format from which ssh-keygen -k makes \
         a list: a public key in a line (of a user or of an authority), or behind hash: its fingerprint; certificates of all \
         authorities by \"serial: 7\", \"serial: 16-31\" or \"id: ID\". Connections that are open go on. \"none\": nothing is revoked.";
});

group!(limits: Limits {
    max_connections: value, reload,
        "Connections that are open at the same time, at all doors; also no more than three quarters of the descriptors \
         that the process may have. Beyond: one goes on which nothing was asked for 5 s, or for any time where its client has \
         more than the one that comes would have; where there is none, HTTP 503 with Retry-After, ERR over git://.";
    max_requests: value, restart,
        "Requests that run at the same time, at all doors, each on a thread; also no more than a sixteenth of the \
         descriptors that the process may have. Beyond: one goes that has waited for its client for 1 s, or for any time \
         where its client has more than the one that comes would have; where there is none, HTTP 503 with Retry-After, ERR over git://.";
    max_logins: value, reload,
        "Connections of SSH whose clients have not shown yet who they are; an eighth of these for one client. Beyond: one goes that \
         has taken 5 s, or any time where its client has more than the one that comes would have; where there is none, the \
         new one. Each has request-time for it.";
    max_connections_per_address: value, reload,
        "Connections that one client (an IPv4 address, or a /64 of IPv6) has open at the same time. Beyond: HTTP 429 with \
         Retry-After, ERR over git://.";
    max_requests_per_address: value, reload,
        "Requests of one client that run at the same time. Beyond: as for connections.";
    exempt_addresses: value, reload,
        "Clients whose connections, requests and memory are not limited by address, as those that come through a proxy: a \
         list of addresses and ranges. When all is taken, what is idle of them goes as of others.";
    max_request_bytes: bytes, restart,
        "Longest upload request over HTTP, in bytes, inflated or not; GIT_HTTP_MAX_REQUEST_BUFFER goes before what a file \
         says. Beyond: HTTP 413.";
    body_memory_bytes: bytes, reload,
        "Memory in bytes for the bodies of all requests that are read or answered at a moment; room for one of the largest \
         size, twice, there is always. It is claimed as bytes come. Beyond: the body goes that has held the most for the \
         longest time without coming on (HTTP 503); where there is none, the one that comes (HTTP 503 with Retry-After).";
    body_memory_bytes_per_address: bytes, reload,
        "What the bodies of one client may take of it. Beyond: the same among the bodies of this client, but HTTP 429.";
    request_time: value, reload,
        "How long a client may take to say what it wants: the first packet of git://, the head of an HTTP request, with the \
         handshake of TLS before it, the key of a client of SSH. So \
         long, and at most twice as long, a connection is also kept between requests. Beyond: it is closed.";
    body_time: value, reload,
        "How long a client may take for the body of an HTTP request, but that of a push. Beyond: HTTP 408.";
    idle_time: value, reload,
        "How long a client of git:// or SSH may be silent while the server waits for it: in as much waiting it must send stall-bytes, or \
         all that it has to say. Beyond: it is cut.";
    stall_time: value, reload,
        "In this time a client must take stall-bytes of what waits for it, or all that waits; and of a push over HTTP \
         send as many, or the rest. Else it is cut.";
    stall_bytes: bytes, reload,
        "See stall-time; in bytes.";
    grace_time: value, reload,
        "How long the server listens on after it was told to stop, so that balancers of load notice that it is not ready \
         (/-/readyz says 503). Clones that come in this time are refused (HTTP 503 with Retry-After, ERR over git://), \
         all else is served. Then it stops to listen.";
    drain_time: value, reload,
        "How long running requests may go on after that. Beyond: they are cut. A second signal \
         ends them at once.";
});

group!(admission: AdmissionSettings {
    max_clones: value, reload,
        "Clones (requests without haves) that are made or sent at the same time, of all repositories. Beyond: they wait \
         in a queue, are told so, and are kept alive.";
    max_clones_per_repository: value, reload,
        "Clones of one repository that are made or sent at the same time. Beyond: they wait; those of others may pass.";
    max_queued: value, reload,
        "Clones in the queue. Beyond: HTTP 503 with Retry-After, ERR over git://.";
    max_queue_time: value, reload,
        "How long a clone may wait in the queue. Beyond: it is refused.";
    pack_memory_bytes: bytes, reload,
        "Memory in bytes, by estimate, for packs that are made at the same time. Beyond: others wait; one is always made, \
         whatever its size, and fetches do not wait.";
});

group!(cache: CacheSettings {
    enabled: value, restart,
        "Whether identical requests share one pack. Without it every request makes its own, and nothing is kept.";
    max_memory_bytes: bytes, restart,
        "Bytes in memory of packs that are kept, all together. Beyond: the packs go that were asked for the longest time \
         ago; what still does not fit goes on disk or is not kept. Each pack that is being made may have 8 MiB more for \
         as long.";
    max_disk_bytes: bytes, restart,
        "Bytes on disk of packs that are kept, all together. Beyond: as for memory, but what does not go on disk is not \
         kept. 0: nothing goes on disk.";
    max_age: value, restart,
        "How long a pack is kept that nobody asks for.";
    directory: value, restart,
        "The directory on whose file system packs are kept, in files without names that are gone with the process. \
         \"none\": nothing goes on disk.";
});

group!(repository_cache: RepositoryCacheSettings {
    enabled: value, restart,
        "Whether repositories stay open between requests, and answers about their refs are used again. Without it every \
         request opens its repository and reads its refs. Changes from outside are noticed either way.";
    max_repositories: value, restart,
        "Repositories that are kept open. Beyond: those go that were not used for the longest time.";
    max_packs: value, restart,
        "Packs of all of them together, as far as they were listed; one that is read takes up to three of the maps that a \
         process may have (65,530 on most systems). Beyond: as above, but for the last that was opened.";
    idle_time: value, restart,
        "How long a repository is kept that nobody asks for. Packs that were deleted take their place on disk until then at \
         the most.";
    max_answer_bytes: bytes, restart,
        "Memory in bytes for answers about refs. Beyond: those go that were not used for the longest time; one that takes \
         more than a quarter is not kept. 0: none is.";
});

group!(maintenance: MaintenanceRules {
    mode: value, reload,
        "Which repositories the server keeps fast by itself, as packrace maintenance does: small packs and loose objects into larger packs, \
         bitmaps, commit-graphs, refs, what nothing refers to, what killed processes have left. \"auto\": those that are pushed to through \
         it. \"on\": all that it serves. \"off\": none. With serve.read-only, none either. In a bucket, packs of those that are pushed to are folded. Of a repository gc.auto = 0, \
         maintenance.auto = false and receive.autogc = false turn it off.";
    max_jobs: value, reload,
        "Repositories that are worked on at the same time. Each takes one thread of the lowest priority, which waits for short \
         requests, and a tenth of the time of its repository at most. 0: none is begun.";
    memory_bytes: bytes, reload,
        "Memory in bytes, by estimate, that one of them may take: it is claimed from admission.pack-memory-bytes, and waits for \
         clones. What needs more is not done, and the log says so.";
    delay: value, reload,
        "How long after a push its repository is looked at.";
    look_interval: value, reload,
        "How often all repositories are looked at, with mode = \"on\".";
});

group!(push: PushPolicy {
    allowed: value, reload,
        "Whether everybody may push, unless http.receivepack or daemon.receivepack says no; a repository may say no, but yes \
         only git's configuration of the system, the user and the command line. With packrace.createOnPush in git's configuration, a push to a path that ends in .git makes a bare repository \
         where nothing is.";
    memory_bytes: bytes, reload,
        "Memory in bytes, by estimate, for what all pushes ask for at a moment: commands with the names of refs, \
         certificates, options. Beyond: HTTP 503 with Retry-After, ERR over git://.";
    memory_bytes_per_address: bytes, reload,
        "What the pushes of one client may take of it. Beyond: the same. limits.exempt-addresses are not limited.";
    max_objects: value, reload,
        "Objects in the pack of one push. Beyond: it is refused before any of them is taken.";
    max_unpacked_bytes: bytes, reload,
        "Bytes that the objects of one push may come to, inflated and with deltas applied; or max-unpacked-ratio, \
         whichever is more. Beyond: it is refused.";
    max_unpacked_ratio: value, reload,
        "The same for each byte of its pack.";
    cpu_time: value, reload,
        "Processor time for taking in and checking the objects of one push, all threads together, and a second more for \
         each MiB of its pack. Beyond: it is refused, and nothing of it stays. Hooks are not counted.";
    max_repository_bytes: bytes, reload,
        "Bytes that one repository may hold: packs, what is beside them, and loose objects, without what it borrows, and with what no \
         ref leads to any more until it expires. Beyond: pushes that bring objects are refused before they come in. 0: no limit.";
    max_repository_refs: value, reload,
        "Refs that one repository may have. Beyond: pushes that make refs are refused. 0: no limit.";
});

group!(access: AccessFiles {
    rules: value, reload,
        "File (TOML) that says who may read and push what: an absolute path; see packrace-access(1). What it does not allow is \
         denied, and push.allowed does not count. \"none\": everybody may read, and push.allowed decides.";
    users: value, reload,
        "File of users and hashes of their passwords, as htpasswd -B writes it: bcrypt or argon2. Only its owner, and its group, \
         may read it; else the server does not start.";
    tokens: value, reload,
        "File (TOML) of hashed tokens, which clients send as a bearer token or as the password; packrace access token makes \
         them. Only its owner, and its group, may read it.";
    trusted_proxies: value, reload,
        "Addresses and ranges of proxies: a list. What they say in the headers below counts, and the limits per address hold for \
         their clients instead of them. From others these headers are ignored.";
    user_header: value, reload,
        "Header in which trusted proxies name the user, as Remote-User. They must remove it from requests of clients. \
         \"\": none.";
    groups_header: value, reload,
        "Header in which trusted proxies name the groups of the user, with commas between them, as Remote-Groups. \"\": none.";
    forward_auth: value, reload,
        "URL (http://) that is asked who a client is, with its Authorization and Cookie: 2xx with the user in the header user-header \
         (Remote-User by default) and the groups in groups-header, or 401. Other answers, and none within 5 s, are 503. An answer \
         holds for 10 s. \"none\": none is asked.";
    forwarded_header: value, reload,
        "Header in which trusted proxies name the address of the client: \"X-Forwarded-For\", \"Forwarded\" or \"none\". The \
         last address counts that is not a trusted proxy.";
    client_certificates: value, reload,
        "Whether a client with a certificate of tls.client-ca, and without other credentials, is the user that is its common name.";
    audit_log: value, reload,
        "File to which each ref of each push is appended, as a line of JSON: who, from where, which repository and ref, old and new \
         value, and the outcome; and who makes, renames, describes and deletes repositories. SIGHUP opens it again. \"none\": nothing is recorded.";
});

group!(hooks: Hooks {
    max_time: value, reload,
        "How long a hook may run, or another program that a push starts. Beyond: it is ended with its process group, and a \
         push that waits for its word is refused. 0: as long as it likes. uploadpack.packObjectsHook may run as long as its \
         client takes what it makes.";
    environment: value, reload,
        "Variables of the server's environment that hooks inherit beside PATH, HOME, USER, LOGNAME, SHELL, LANG, LANGUAGE, \
         TZ, TMPDIR, GNUPGHOME and those that begin with LC_, XDG_ or GIT_: a list; * at the end stands for anything.";
    user: value, reload,
        "The user that hooks run as, by name or number, with its group and no other; the server must be root's for \
         that. \"\": the server's user.";
    max_memory: bytes, reload,
        "Bytes of addresses that a process of a hook may have. Beyond: it gets no more memory. 0: no limit.";
    max_processes: value, reload,
        "Processes that the user of hooks may have, of other programs too; root's are not limited. Beyond: no more can be \
         started. 0: no limit.";
    max_cpu_time: value, reload,
        "Time of a processor, in whole seconds, that each process of a hook may use. Beyond: it is ended. 0: no limit.";
});

group!(events: EventSettings {
    journal: value, restart,
        "Directory of the journal of events: an absolute path, which is made if only its last part is missing. Each push and each \
         repository that is made, renamed or deleted through the server is a line of JSON there, on the disk before the client is told; \
         what cannot be recorded is refused. One server writes it, and packrace shell takes pushes only through that one \
         (listen.shell). See packrace-events(1). \"none\": nothing is recorded.";
    segment_bytes: bytes, restart,
        "Bytes after which the journal goes on in another file.";
    max_bytes: bytes, restart,
        "Bytes of the journal. Beyond: the oldest files go, whoever has read them.";
    max_age: value, restart,
        "How long files of the journal are kept after their last line. 0: as long as max-bytes lets.";
    max_followers: value, restart,
        "Clients that follow events at /-/events at the same time; there is that path where there are access.rules, too. Beyond: HTTP 503 with \
         Retry-After.";
    webhooks: value, restart,
        "File (TOML) of webhooks, to which events of the journal are posted: a table [[webhook]] each, with name, url, secret-file and, \
         if need be, repositories, events and allow-addresses. SIGHUP has it read again, and the files of secrets. See \
         packrace-events(1). \"none\": nothing is posted.";
    webhook_timeout: value, restart,
        "How long connecting to a receiver of a webhook may take, a handshake of TLS, and its answer, each. Beyond: it is tried again.";
    webhook_retry_time: value, restart,
        "How long an event is tried that a receiver does not take, after 1 s at first and 5 minutes at last; those behind it wait. Beyond: \
         it is given up, which the log and packrace_webhook_lost_events_total say. 0: it is tried once.";
});

group!(bucket: BucketSource {
    url: value, restart,
        "Bucket whose repositories are served instead of a folder, as s3://BUCKET/PREFIX; see packrace-bucket(1). \
         \"none\": a folder is served.";
    cache: value, restart,
        "Folder where repositories of the bucket are kept: an absolute path. It belongs to one server alone. \"none\": there has \
         to be one where a bucket is served.";
    cache_bytes: bytes, restart,
        "Bytes of repositories that are kept there. Beyond: those go that were not used for the longest time and that no request \
         reads; where that is not enough, HTTP 503 with Retry-After.";
});

group!(sandbox: Sandbox {
    enabled: value, restart,
        "Whether the server and its hooks give up what they do not need: privileges of programs that others own (no sudo in \
         hooks), and, where the kernel has Landlock, all files but those of the served folder, of TMPDIR, of the \
         cache and of the system's programs and settings.";
    read_paths: value, restart,
        "Files and folders beside those, which are read and whose programs are run: a list of absolute paths.";
    write_paths: value, restart,
        "The same, and may be written.";
});

group!(serve: ServeRules {
    read_only: value, reload,
        "Whether nobody may push, whatever else is said, also by a repository or in git's configuration. The same as \
         --read-only.";
    require_export_ok: value, reload,
        "Whether only repositories with a file git-daemon-export-ok are served.";
    allowed_paths: value, restart,
        "Folders outside of the served one into which links, alternates and core.hooksPath of repositories may lead: a \
         list. What leads elsewhere is not read, and the log says so. What is to be written there needs sandbox.write-paths, \
         too.";
    hooks: value, reload,
        "Which hooks are run by pushes: \"repository\" (its own, as in git), \"none\", or a folder whose hooks are run for \
         all repositories. Unless it is \"repository\", receive.denyCurrentBranch = updateInstead is refused, too.";
});

group!(log: Log {
    level: value, reload,
        "What is written to standard error: \"off\", \"error\", \"warn\", \"info\" (a line for each request) or \"debug\" \
         (phases of each request, and how long they took).";
    format: value, restart,
        "How a line is written: \"text\" (key=value) or \"json\" (an object a line).";
});
