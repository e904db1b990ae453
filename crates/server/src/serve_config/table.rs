//! All settings: what they are called, what they mean, and where they go.

use std::sync::LazyLock;

use crate::access::AccessFiles;
use crate::bundles::BundleRules;
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
            bundles(),
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
        $field = bytes.try_into().map_err(|_| "too large for this machine".to_owned())?;
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
        "Address and port for HTTP (1.1 and 2), or \"none\". If no listener at all is set (http, https, \
         git, ssh, shell, inherited sockets), the server listens on 127.0.0.1:8417.";
    https: value, restart,
        "Address and port for HTTP (1.1 and 2) over TLS (1.2 and 1.3), or \"none\". Needs tls.certificates.";
    git: value, restart,
        "Address and port for git://, or \"none\". The usual port is 9418.";
    ssh: value, restart,
        "Address and port for SSH, or \"none\". Needs ssh.host-keys. Users are identified by keys and \
         certificates.";
    shell: value, restart,
        "Absolute path of the Unix socket through which packrace shell hands SSH sessions to this server. \
         The server creates it at startup, for its own user only. \"none\": no socket; packrace shell then \
         serves on its own. Not available with a bucket.";
    admin: value, restart,
        "Where to find the status page /-/, /-/metrics (Prometheus), /-/healthz and /-/readyz. \"http\": on \
         the HTTP and HTTPS addresses; the page then hides clients and repositories. With access rules, \
         only admins see the page and the metrics, with all names, and other users see the repositories \
         that they may read. An address and port: everything there, with clients and repositories, and \
         without a password; the HTTP and HTTPS addresses then have only healthz and readyz. \"none\": \
         nowhere, and no repository API either.";
    hosts: value, reload,
        "Host names and addresses, without ports, that HTTP requests may use (Host, :authority): a list. \
         \"auto\": over loopback only localhost and loopback addresses, elsewhere any. \"any\": any. With a \
         list, loopback names are still accepted over loopback. Other names get HTTP 403, so that no \
         website can reach this server through a browser (DNS rebinding). List your names if browsers can \
         reach the server, or if a proxy passes the Host header on.";
});

group!(tls: TlsFiles {
    certificates: value, reload,
        "Certificate files (PEM): a list of absolute paths. Each file is a chain that starts with the \
         server's own certificate. A client gets the first certificate that covers the name it asks for, \
         otherwise the first in the list. SIGHUP reloads all files of this table, even if no setting \
         changed: open connections keep the old ones, and if a file is invalid, nothing changes. Keep these \
         files in a directory of their own: the sandbox makes all of it readable.";
    keys: value, reload,
        "Private key files for the certificates (PEM, not encrypted), in any order: a list of absolute \
         paths. The group may at most read a file; others must have no access.";
    client_ca: value, reload,
        "File of CA certificates (PEM) that verify client certificates. A client certificate that is \
         invalid or not signed by one of them fails the handshake. \"none\": clients are not asked for a \
         certificate.";
    require_client_certificate: value, reload,
        "Whether HTTPS clients must present a certificate signed by tls.client-ca.";
});

group!(ssh: SshSettings {
    host_keys: value, reload,
        "Private host key files, as ssh-keygen writes them without a passphrase, at most one of each kind \
         (ed25519, ecdsa): a list of absolute paths. The group may at most read a file; others must have no \
         access. SIGHUP reloads all files of this table: open connections keep the old ones, and if a file \
         is invalid, nothing changes. Only their owner may have write access to the files of user keys, CAs \
         and revoked keys.";
    user_keys: value, reload,
        "File of user keys in the allowed-signers format of ssh-keygen. Each line has one user name, \
         optional validity (valid-after=\"20260101Z\", valid-before=\"20270101Z\"), and the key. The login \
         name does not matter; git@ works. \"none\": no file.";
    user_keys_folder: value, reload,
        "Folder of public keys, with subfolders. The file name gives the user: alice.pub and, as in \
         Gitolite, alice@laptop.pub are keys of alice. \"none\": no folder.";
    user_keys_command: value, reload,
        "Program that looks up keys that no file contains. Its arguments are the fingerprint, the type and \
         the base64 of a key; it prints lines in the format of user-keys, one of which must have that key. \
         If it fails or takes longer than 5 s, the login is refused. It has the same rights and limits as \
         hooks. \"none\": no program.";
    user_ca: value, reload,
        "File of CA public keys, one per line, that sign user certificates (ssh-keygen -s). The \
         certificate's principal is the user; if there are several, the login name selects one. The \
         critical option source-address is enforced; certificates with any other critical option are \
         refused. \"none\": certificates are not accepted.";
    revoked_keys: value, reload,
        "File of revoked keys and certificates, which overrides all other files and the program. It uses \
         the text format from which ssh-keygen -k builds a KRL: a public key per line (of a user or a CA), \
         or its fingerprint after \"hash:\"; certificates of any CA by \"serial: 7\", \"serial: 16-31\" or \
         \"id: ID\". Open connections continue. \"none\": nothing is revoked.";
});

group!(limits: Limits {
    max_connections: value, reload,
        "Maximum number of open connections, over all transports; never more than three quarters of the \
         process's file descriptors. At the limit, a new connection closes one that has been idle for 5 s, \
         or for any time if its client has more connections than the new client would have. If there is \
         none, the new connection gets HTTP 503 with Retry-After, or ERR over git://.";
    max_requests: value, restart,
        "Maximum number of running requests, over all transports, one thread each; never more than a \
         sixteenth of the process's file descriptors. At the limit, a new request cuts one that has waited \
         for its client for 1 s, or for any time if that client has more requests than the new client would \
         have. If there is none, the new request waits up to 2 s, then gets HTTP 503 with Retry-After, or \
         ERR over git://. A quarter of the permits is reserved for clients that have no request running.";
    max_logins: value, reload,
        "Maximum number of SSH connections that are not yet authenticated; one client may have an eighth of \
         them. At the limit, a new connection cuts one that has waited for its client for 5 s, or for any \
         time if that client has more than the new client would have. If there is none, the new connection \
         is refused. Each must authenticate within request-time.";
    max_connections_per_address: value, reload,
        "Maximum number of open connections per client (one IPv4 address, or one IPv6 /64). Beyond it: HTTP \
         429 with Retry-After, or ERR over git://.";
    max_requests_per_address: value, reload,
        "Maximum number of running requests per client. Beyond it: as for connections.";
    exempt_addresses: value, reload,
        "Addresses and ranges without per-client limits on connections, requests and memory, such as \
         proxies: a list. access.trusted-proxies are always exempt. The limits of the server as a whole \
         still apply to them.";
    max_request_bytes: bytes, restart,
        "Maximum size in bytes of a fetch request over HTTP, both as sent and inflated. \
         GIT_HTTP_MAX_REQUEST_BUFFER overrides the value in a file. Beyond it: HTTP 413.";
    body_memory_bytes: bytes, reload,
        "Memory in bytes for all HTTP request bodies that are being read or processed. It is claimed as \
         bytes arrive; twice max-request-bytes is always available. At the limit, a stalled body of the \
         client that holds the most is cut with HTTP 503, the one with the highest cost (bytes times time) \
         first; if none is stalled, the new one gets HTTP 503 with Retry-After.";
    body_memory_bytes_per_address: bytes, reload,
        "Share of body-memory-bytes that one client may use. At the limit, the same happens among this \
         client's bodies, with HTTP 429.";
    request_time: value, reload,
        "How long a client may take to say what it wants: the first packet over git://, the head of an HTTP \
         request (including the TLS handshake), the login over SSH. An idle HTTP connection is kept this \
         long between requests, at most twice as long. Then the connection is closed.";
    body_time: value, reload,
        "How long a client may take to send the body of an HTTP request, except a push. Beyond it: HTTP \
         408.";
    idle_time: value, reload,
        "How long the server waits for a git:// or SSH client. For each such period of waiting, the client \
         must send at least stall-bytes, or everything it has to send; otherwise it is disconnected.";
    stall_time: value, reload,
        "In each such period, a client must read at least stall-bytes of the data that waits for it, or all \
         of it; a client that pushes over HTTP must send as much, or the rest. Otherwise it is \
         disconnected.";
    stall_bytes: bytes, reload,
        "Minimum number of bytes per stall-time and idle-time.";
    grace_time: value, reload,
        "How long the server keeps listening after a stop signal, so that load balancers see that it is not \
         ready (/-/readyz returns 503). New clones are refused (HTTP 503 with Retry-After, or ERR over \
         git://); other requests are served. Then the listeners are closed.";
    drain_time: value, reload,
        "How long running requests may continue after grace-time. Then they are cut. A second signal cuts \
         them at once.";
});

group!(admission: AdmissionSettings {
    max_clones: value, reload,
        "Maximum number of clones (requests without haves) that run at the same time, over all \
         repositories. Others wait in a queue: clients see a message and keepalives.";
    max_clones_per_repository: value, reload,
        "Maximum number of clones of one repository that run at the same time. Others wait; clones of other \
         repositories may overtake them.";
    max_queued: value, reload,
        "Maximum number of clones in the queue. Beyond it: HTTP 503 with Retry-After, or ERR over git://.";
    max_queue_time: value, reload,
        "How long a clone may wait in the queue. Then it is refused.";
    pack_memory_bytes: bytes, reload,
        "Estimated memory in bytes for all packs that are being generated. At the limit, clones wait. One \
         pack is always generated, whatever its size, and fetches never wait.";
});

group!(cache: CacheSettings {
    enabled: value, restart,
        "Whether identical requests share one pack. If false, each request generates its own, and no pack \
         is cached.";
    max_memory_bytes: bytes, restart,
        "Maximum size in bytes of cached packs in memory. At the limit, the least recently used are \
         evicted; a pack that still does not fit goes to disk, or is not cached. Each pack may use another \
         8 MiB while it is generated.";
    max_disk_bytes: bytes, restart,
        "Maximum size in bytes of cached packs on disk. At the limit, the least recently used are evicted; \
         a pack that still does not fit is not cached. 0: no packs on disk.";
    max_delta_bytes: bytes, restart,
        "Maximum size in bytes of deltas that were made for packs and are kept in memory for later packs of \
         the same repository. At the limit, the least recently used are evicted. 0: none.";
    max_age: value, restart,
        "How long an unused pack is kept.";
    directory: value, restart,
        "Directory on whose file system packs are cached, in unnamed files that disappear with the process. \
         \"none\": no packs on disk.";
});

group!(repository_cache: RepositoryCacheSettings {
    enabled: value, restart,
        "Whether repositories stay open between requests, and ref advertisements are reused. If false, each \
         request opens its repository and reads its refs. Changes by other programs are noticed either way.";
    max_repositories: value, restart,
        "Maximum number of open repositories. At the limit, the least recently used are closed.";
    max_packs: value, restart,
        "Maximum number of packs in all open repositories together, as far as they have been listed. At the \
         limit, the least recently used repositories are closed, except the last one opened. A pack that is \
         read uses up to three memory maps; most systems allow 65,530 per process.";
    idle_time: value, restart,
        "How long an unused repository stays open. Deleted packs may take up disk space for this long.";
    max_answer_bytes: bytes, restart,
        "Memory in bytes for cached ref advertisements. At the limit, the least recently used are evicted; \
         one that needs more than a quarter is not cached. 0: none.";
});

group!(maintenance: MaintenanceRules {
    mode: value, reload,
        "Which repositories the server maintains, as packrace maintenance does: it packs loose objects and \
         small packs, writes bitmaps and commit-graphs, packs refs, expires unreachable objects, and \
         removes files left behind by killed processes. \"auto\": those that receive pushes through this \
         server. \"on\": all. \"off\": none. With serve.read-only: none. In a bucket, the packs of \
         repositories that receive pushes are folded. gc.auto = 0, maintenance.auto = false or \
         receive.autogc = false turns maintenance off for one repository.";
    max_jobs: value, reload,
        "Maximum number of repositories that are maintained at the same time. A job has one thread at the \
         lowest priority, yields to short requests, and works on one repository at most a tenth of the \
         time. 0: no new jobs.";
    memory_bytes: bytes, reload,
        "Estimated memory in bytes that one job may use. It counts against admission.pack-memory-bytes, \
         where clones go first. A task that needs more is skipped, with a warning in the log.";
    delay: value, reload,
        "How long after a push its repository is checked.";
    look_interval: value, reload,
        "How often all repositories are checked, with mode = \"on\".";
});

group!(bundles: BundleRules {
    keep: value, reload,
        "Whether maintenance keeps bundles of the repositories that it works on, for clients with \
         transfer.bundleURI: the branch that HEAD names and the tags, in full, and an increment a day. \
         They are offered in protocol version 2 and served over HTTP below the repository's URL, in \
         bundles/, to clients that may fetch; bundles/list is a list for git clone --bundle-uri. \
         uploadpack.advertiseBundleURIs = false turns them off for one repository, and so do bundle.* keys \
         in its configuration. Not available with a bucket or a namespace.";
    base_url: value, reload,
        "URL at which clients of git:// and SSH reach the served folder over HTTP, such as \
         https://git.example.com. \"none\": these clients are offered no bundles. Clients of HTTP need no such \
         URL.";
    max_bytes: bytes, reload,
        "Maximum size in bytes of one bundle, and of the packs of a repository of which bundles are made. \
         The bundles of one repository take up to one and a half times the size of its full bundle, and \
         twice that while a new one is made.";
});

group!(push: PushPolicy {
    allowed: value, reload,
        "Whether everybody may push, unless http.receivepack or daemon.receivepack is false. A repository's \
         own configuration can only forbid pushes; git's system, user and command-line configuration can \
         also allow them. With packrace.createOnPush in git's configuration, a push to a path that ends in \
         .git and does not exist creates a bare repository.";
    memory_bytes: bytes, reload,
        "Estimated memory in bytes for the commands of all pushes: ref names, certificates, push options. \
         Beyond it: HTTP 503 with Retry-After, or ERR over git://.";
    memory_bytes_per_address: bytes, reload,
        "Share of memory-bytes that one client may use. Beyond it: the same. Does not apply to \
         limits.exempt-addresses.";
    max_objects: value, reload,
        "Maximum number of objects in the pack of one push. A larger pack is refused before any object is \
         stored.";
    max_unpacked_bytes: bytes, reload,
        "Maximum size in bytes of all objects of one push, inflated and with deltas applied. The larger of \
         this and max-unpacked-ratio applies. Beyond it, the push is refused.";
    max_unpacked_ratio: value, reload,
        "The same limit, per byte of the pack.";
    cpu_time: value, reload,
        "CPU time to store and check the objects of one push, all threads together, plus one second per MiB \
         of its pack. Beyond it, the push is refused and its objects are discarded. Hooks do not count.";
    max_repository_bytes: bytes, reload,
        "Maximum size in bytes of one repository: packs and their index files, and loose objects. \
         Unreachable objects count until they expire; objects borrowed from alternates do not count. Beyond \
         it, pushes with objects are refused before the objects are received. 0: no limit.";
    max_repository_refs: value, reload,
        "Maximum number of refs in one repository. Beyond it, pushes that create refs are refused. 0: no \
         limit.";
});

group!(access: AccessFiles {
    rules: value, reload,
        "File (TOML) of access rules, which say who may read and push what: an absolute path; see \
         packrace-access(1). What no rule allows is denied, and push.allowed is ignored. \"none\": \
         everybody may read, and push.allowed decides about pushes.";
    users: value, reload,
        "File of users and password hashes in the format of htpasswd -B: bcrypt or argon2. The group may at \
         most read it, and others must have no access; otherwise the server does not start. \"none\": no \
         file.";
    tokens: value, reload,
        "File (TOML) of hashed tokens, which clients send as a bearer token or as the password; packrace \
         access token creates them. The group may at most read it, and others must have no access. \
         \"none\": no file.";
    trusted_proxies: value, reload,
        "Addresses and ranges of proxies: a list. Their headers (below) are trusted, and per-address limits \
         apply to their clients instead of them. From any other client, these headers are ignored.";
    user_header: value, reload,
        "Header in which trusted proxies name the user, such as Remote-User. The proxies must strip it from \
         client requests. \"\": none.";
    groups_header: value, reload,
        "Header in which trusted proxies list the user's groups, separated by commas, such as \
         Remote-Groups. \"\": none.";
    forward_auth: value, reload,
        "URL (http://) of a server that authenticates clients. It gets the client's Authorization and \
         Cookie headers, and answers 2xx with the user in user-header (default Remote-User) and the groups \
         in groups-header, or 401. Any other answer, or none within 5 s, gives the client HTTP 503. Answers \
         are cached for 10 s. \"none\": no server is asked.";
    forwarded_header: value, reload,
        "Header in which trusted proxies pass the client's address: \"X-Forwarded-For\", \"Forwarded\" or \
         \"none\". The last address in it that is not a trusted proxy counts.";
    client_certificates: value, reload,
        "Whether a client with a certificate of tls.client-ca and no other credentials is the user named by \
         the certificate's common name.";
    audit_log: value, reload,
        "File to which the server appends one line of JSON for each ref of each push (user, address, \
         repository, ref, old and new value, outcome), and for each repository that is created, renamed, \
         described or deleted. SIGHUP reopens it. \"none\": no audit log.";
});

group!(hooks: Hooks {
    max_time: value, reload,
        "How long a hook may run, or another program that a push starts. Then its process group is killed, \
         and a push that depends on its result is refused. 0: no limit. uploadpack.packObjectsHook may run \
         for as long as its client reads.";
    environment: value, reload,
        "Environment variables that hooks inherit in addition to PATH, HOME, USER, LOGNAME, SHELL, LANG, \
         LANGUAGE, TZ, TMPDIR, GNUPGHOME, LC_*, XDG_* and GIT_*: a list. A trailing * matches any suffix.";
    user: value, reload,
        "User that hooks run as: a name or a number. They get its primary group and no other. The server \
         must run as root. \"\": the server's user.";
    max_memory: bytes, reload,
        "Maximum address space in bytes of each hook process. Beyond it, allocations fail. 0: no limit.";
    max_processes: value, reload,
        "Maximum number of processes of the user that runs hooks, including processes of other programs; \
         root is not limited. Beyond it, no process can be started. 0: no limit.";
    max_cpu_time: value, reload,
        "CPU time, in whole seconds, of each hook process. Beyond it, the process is killed. 0: no limit.";
});

group!(events: EventSettings {
    journal: value, restart,
        "Directory of the event journal: an absolute path; only its last component may be missing. Each \
         push, and each repository that is created, renamed or deleted through this server, becomes a line \
         of JSON, which is on disk before the client gets its answer. A change that cannot be recorded is \
         refused. Only one server may write a journal, and packrace shell accepts pushes only through that \
         server (listen.shell). See packrace-events(1). \"none\": no journal.";
    segment_bytes: bytes, restart,
        "Size in bytes at which the journal starts a new file.";
    max_bytes: bytes, restart,
        "Maximum size in bytes of the journal. Beyond it, the oldest files are deleted, whether or not they \
         have been read.";
    max_age: value, restart,
        "How long a journal file is kept after its last line. 0: no limit except max-bytes.";
    max_followers: value, restart,
        "Maximum number of clients that follow /-/events at the same time. Beyond it: HTTP 503 with \
         Retry-After. /-/events exists only with access.rules.";
    webhooks: value, restart,
        "File (TOML) of webhooks that receive the events of the journal: one [[webhook]] table each, with \
         name, url, secret-file and optionally repositories, events and allow-addresses. SIGHUP reloads \
         this file and the secret files. See packrace-events(1). \"none\": no webhooks.";
    webhook_timeout: value, restart,
        "Timeout for each step of a delivery to a receiver: connecting, the TLS handshake, the answer. \
         After a timeout, the event is retried.";
    webhook_retry_time: value, restart,
        "How long an event is retried if its receiver does not accept it, after 1 s at first and every 5 \
         minutes at last. Later events wait. Then it is dropped, with an error in the log, and counted in \
         packrace_webhook_lost_events_total. 0: no retries.";
});

group!(bucket: BucketSource {
    url: value, restart,
        "Bucket whose repositories are served instead of a folder: s3://BUCKET/PREFIX; see \
         packrace-bucket(1). \"none\": a folder is served.";
    cache: value, restart,
        "Folder in which repositories of the bucket are cached: an absolute path. Only one server may use \
         it. Required with a bucket. \"none\": no folder.";
    cache_bytes: bytes, restart,
        "Maximum size in bytes of the cached repositories. Beyond it, the least recently used that no \
         request reads are evicted; if that is not enough, clients get HTTP 503 with Retry-After.";
});

group!(sandbox: Sandbox {
    enabled: value, restart,
        "Whether the server and its hooks drop what they do not need: privileges of set-user-ID programs \
         (no sudo in hooks) and, if the kernel has Landlock, access to all files except the served folder, \
         TMPDIR, the cache, the configured files, and the system's programs and settings.";
    read_paths: value, restart,
        "Additional files and folders that may be read and whose programs may be run: a list of absolute \
         paths.";
    write_paths: value, restart,
        "The same, but writable as well.";
});

group!(serve: ServeRules {
    read_only: value, reload,
        "Whether all pushes are refused, whatever other settings, git's configuration or a repository say. \
         The same as --read-only.";
    require_export_ok: value, reload,
        "Whether only repositories with a file git-daemon-export-ok are served.";
    allowed_paths: value, restart,
        "Folders outside the served one into which symbolic links, alternates and core.hooksPath of \
         repositories may lead: a list of absolute paths. Anything that leads elsewhere is ignored, with a \
         line in the log. Folders to be written also need sandbox.write-paths.";
    hooks: value, reload,
        "Which hooks pushes run, after those that the server's own git configuration sets (hook.*): \
         \"repository\" (the repository's own, as in git), a folder of hooks for all repositories, or \"none\" \
         at all. Unless it is \"repository\", receive.denyCurrentBranch = updateInstead is refused too.";
});

group!(log: Log {
    level: value, reload,
        "What is logged to standard error: \"off\", \"error\", \"warn\", \"info\" (a line per request) or \
         \"debug\" (also the phases of each request, with times).";
    format: value, restart,
        "Format of log lines: \"text\" (key=value) or \"json\" (one object per line).";
});
