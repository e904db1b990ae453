//! Runs one command on one request, timed or observed.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use packrace_testkit::clean_environment;
use packrace_testkit::mounted::Traffic;

/// The buffer of the output pipe, as a good server's client has it.
const PIPE_BYTES: usize = 1 << 20;

/// Interval between memory samples of a process tree.
const SAMPLE_EVERY: Duration = Duration::from_millis(2);

/// System calls that write.
const WRITE_CALLS: [&str; 9] =
    ["write", "writev", "pwrite64", "pwritev", "sendto", "sendmsg", "sendfile", "splice", "vmsplice"];

/// System calls that read at a given position.
const POSITIONED_READ_CALLS: [&str; 3] = ["pread64", "preadv", "preadv2"];

/// System calls that read sequentially.
const READ_CALLS: [&str; 4] = ["read", "readv", "recvfrom", "recvmsg"];

/// System calls that sync, or start a sync.
const SYNC_CALLS: [&str; 6] = ["fsync", "fdatasync", "syncfs", "sync", "sync_file_range", "msync"];

/// Runs `"$@"` repeatedly, each time with the request on standard input, as a file or through a pipe. bash
/// measures: it knows the user and system time of the command and its waited-for children, to the
/// millisecond.
const TIMED: &str = r#"
times=$1 request=$2 count=$3 feed=$4; shift 4
exec 4>&2
TIMEFORMAT='%3R %3U %3S'
once() { if [ "$feed" = Pipe ]; then cat "$request" | "$@"; else "$@" <"$request"; fi; }
{ time for ((i = 0; i < count; i++)); do once "$@" 2>&4 4>&- || exit 9; done; } 2>"$times"
"#;

/// What answers one request in a process: `packrace-service`, if it is beside `packrace`. git is its own.
pub fn service_of(program: &Path) -> PathBuf {
    let service = program.with_file_name("packrace-service");
    let has_one = program.file_name().is_some_and(|name| name == "packrace") && service.is_file();
    if has_one { service } else { program.to_owned() }
}

/// A program to run on a request: `git upload-pack REPO` or `packrace upload-pack REPO`.
#[derive(Debug, Clone)]
pub struct Contender {
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// How it reads the request.
    pub feed: StdinFeed,
}

/// The kind of standard input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StdinFeed {
    /// The file itself.
    File,
    /// A pipe from `cat`, whose time counts for all contenders.
    Pipe,
}

/// System calls of a whole process tree, as `strace -f -c` counts them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Calls {
    /// All calls.
    pub all: u64,
    /// Calls that write.
    pub writes: u64,
    /// Calls that read sequentially.
    pub reads: u64,
    /// Calls that read at a given position.
    pub positioned_reads: u64,
    /// Calls that sync.
    pub syncs: u64,
}

/// The highest sums over a process tree.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Peak {
    /// `RssAnon`.
    pub anonymous_bytes: u64,
    /// `VmRSS`: includes resident pages of mapped files.
    pub resident_bytes: u64,
}

impl Peak {
    /// Takes the maximum of each.
    pub fn raise(&mut self, now: Peak) {
        self.anonymous_bytes = self.anonymous_bytes.max(now.anonymous_bytes);
        self.resident_bytes = self.resident_bytes.max(now.resident_bytes);
    }
}

/// Time and bytes of one run.
#[derive(Debug, Clone, Copy)]
pub struct Timing {
    /// From start to end, including reading the answer.
    pub wall_seconds: f64,
    /// User and system time of the command and its children.
    pub cpu_seconds: f64,
    /// Bytes of the answer.
    pub bytes: u64,
}

/// Observations of an untimed run.
#[derive(Debug)]
pub struct Observation {
    /// The answer.
    pub answer: Vec<u8>,
    /// Memory of the process tree; `None` if it ended too quickly.
    pub peak: Option<Peak>,
    /// Counted by strace in another run; `None` without strace.
    pub calls: Option<Calls>,
    /// Calls that wrote to the client, from packrace's own report.
    pub reported_client_writes: Option<u64>,
    /// Calls that wrote packs, from the same report.
    pub reported_pack_writes: Option<u64>,
    /// The mounted file system's requests for packs, if there is one.
    pub packs_on_mount: Option<Traffic>,
}

impl Contender {
    /// Runs `count` times in a row on the request in this file and returns the mean.
    pub fn time(&self, request: &Path, count: usize) -> io::Result<Timing> {
        let times = tempfile::NamedTempFile::new()?;
        let mut command = Command::new("bash");
        command
            .args(["-c", TIMED, "bash"])
            .arg(times.path())
            .arg(request)
            .arg(count.to_string())
            .arg(format!("{:?}", self.feed))
            .args(&self.argv);
        self.prepare(&mut command);
        let (child, mut reader) = spawn_with_pipe(command)?;
        let mut buffer = vec![0; PIPE_BYTES];
        let mut bytes = 0;
        loop {
            match reader.read(&mut buffer)? {
                0 => break,
                length => bytes += length as u64,
            }
        }
        self.expect_success(child)?;
        let text = std::fs::read_to_string(times.path())?;
        let numbers: Vec<f64> = text.split_whitespace().filter_map(|number| number.parse().ok()).collect();
        let [wall, user, system] = numbers[..] else {
            return Err(io::Error::other(format!("bash measured {text:?}")));
        };
        let count = count as f64;
        Ok(Timing {
            wall_seconds: wall / count,
            cpu_seconds: (user + system) / count,
            bytes: (bytes as f64 / count) as u64,
        })
    }

    /// Two untimed runs, each after `prepare`: for the calls under strace, then for the answer and the
    /// memory.
    pub fn observe(&self, request: &Path, prepare: &dyn Fn() -> io::Result<()>) -> io::Result<Observation> {
        prepare()?;
        let calls = self.calls(request)?;
        prepare()?;
        let report = tempfile::NamedTempFile::new()?;
        let mut command = Command::new(&self.argv[0]);
        command.args(&self.argv[1..]);
        self.prepare(&mut command);
        command.env("PACKRACE_IO_REPORT", report.path());
        let feeder = self.feed(&mut command, request)?;
        let (child, mut reader) = spawn_with_pipe(command)?;
        let root = child.id();
        let done = AtomicBool::new(false);
        let (answer, peak) = std::thread::scope(|scope| {
            let sampler = scope.spawn(|| sample_memory(root, &done));
            let mut answer = Vec::new();
            let read = reader.read_to_end(&mut answer);
            done.store(true, Relaxed);
            (read.map(|_| answer), sampler.join().expect("sampling does not panic"))
        });
        let answer = answer?;
        self.expect_success(child)?;
        drop(feeder);
        let report = std::fs::read_to_string(report.path())?;
        Ok(Observation {
            answer,
            peak: (peak.anonymous_bytes > 0).then_some(peak),
            calls,
            reported_client_writes: reported_writes(&report, "client"),
            reported_pack_writes: reported_writes(&report, "pack"),
            packs_on_mount: None,
        })
    }

    /// Sets the command's standard input, and returns the process that writes to it.
    fn feed(&self, command: &mut Command, request: &Path) -> io::Result<Option<Feeder>> {
        if self.feed == StdinFeed::File {
            command.stdin(File::open(request)?);
            return Ok(None);
        }
        let mut cat = Command::new("cat");
        let mut cat = cat.arg(request).stdout(Stdio::piped()).spawn()?;
        command.stdin(cat.stdout.take().expect("piped"));
        Ok(Some(Feeder(cat)))
    }

    fn prepare(&self, command: &mut Command) {
        clean_environment(command);
        command.env("GIT_PROTOCOL", "version=2").stdin(Stdio::null());
    }

    /// The calls of the whole process tree.
    fn calls(&self, request: &Path) -> io::Result<Option<Calls>> {
        if !has_strace() {
            return Ok(None);
        }
        let summary = tempfile::NamedTempFile::new()?;
        let mut command = Command::new("strace");
        command.args(STRACE).arg(summary.path()).args(&self.argv);
        self.prepare(&mut command);
        let feeder = self.feed(&mut command, request)?;
        let (child, mut reader) = spawn_with_pipe(command)?;
        io::copy(&mut reader, &mut io::sink())?;
        self.expect_success(child)?;
        drop(feeder);
        Ok(Some(Calls::in_summary(&std::fs::read_to_string(summary.path())?)))
    }

    fn expect_success(&self, mut child: Child) -> io::Result<()> {
        let status = child.wait()?;
        if status.success() {
            return Ok(());
        }
        Err(io::Error::other(format!("{} ended with {status}", self.argv.join(" "))))
    }
}

/// A process that writes to a contender; waited for when dropped.
struct Feeder(Child);

impl Drop for Feeder {
    fn drop(&mut self) {
        // It ends when everything is read, or the reader is gone.
        let _ = self.0.wait();
    }
}

/// Counts the calls of the following command and its children into a file, whose name comes next.
pub const STRACE: [&str; 4] = ["-f", "-qq", "-c", "-o"];

/// Whether strace is available.
pub fn has_strace() -> bool {
    Command::new("strace")
        .arg("-V")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|s| s.success())
}

fn spawn_with_pipe(mut command: Command) -> io::Result<(Child, io::PipeReader)> {
    let (reader, writer) = io::pipe()?;
    // If the system refuses, both contenders have the smaller pipe.
    let _ = rustix::pipe::fcntl_setpipe_size(&reader, PIPE_BYTES);
    command.stdout(writer);
    let child = command.spawn().map_err(|e| io::Error::other(format!("{command:?}: {e}")))?;
    Ok((child, reader))
}

/// The highest sums over `root` and its descendants until `done`.
pub fn sample_memory(root: u32, done: &AtomicBool) -> Peak {
    let mut peak = Peak::default();
    while !done.load(Relaxed) {
        peak.raise(memory_of_tree(root));
        std::thread::sleep(SAMPLE_EVERY);
    }
    peak
}

/// The sums over `root` and its descendants now.
pub fn memory_of_tree(root: u32) -> Peak {
    let tree = process_tree(root).into_iter().map(memory);
    let (anonymous_bytes, resident_bytes) = tree.fold((0, 0), |sum, now| (sum.0 + now.0, sum.1 + now.1));
    Peak { anonymous_bytes, resident_bytes }
}

/// `root` and its living descendants.
pub fn process_tree(root: u32) -> Vec<u32> {
    let mut tree = vec![root];
    let mut next = 0;
    while let Some(pid) = tree.get(next) {
        let children =
            std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        tree.extend(children.split_whitespace().filter_map(|child| child.parse::<u32>().ok()));
        next += 1;
    }
    tree
}

/// User and system time of `root`, its descendants and their waited-for children, in clock ticks' precision.
pub fn processor_seconds(root: u32) -> f64 {
    let ticks = process_tree(root).into_iter().flat_map(ticks_of).sum::<u64>();
    ticks as f64 / rustix::param::clock_ticks_per_second() as f64
}

/// The same for this process alone.
pub fn own_processor_seconds() -> f64 {
    let ticks = ticks_of(std::process::id()).into_iter().take(2).sum::<u64>();
    ticks as f64 / rustix::param::clock_ticks_per_second() as f64
}

/// utime, stime, cutime and cstime, fields 14 to 17 of `stat` (proc(5)).
fn ticks_of(pid: u32) -> Vec<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The process name, in brackets, may contain spaces.
    let fields = stat.rsplit_once(") ").map_or("", |(_, fields)| fields);
    fields.split(' ').skip(11).take(4).filter_map(|field| field.parse().ok()).collect()
}

/// Anonymous and all resident bytes; 0 for a process that just ended.
fn memory(pid: u32) -> (u64, u64) {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let bytes = |key: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(key));
        line.and_then(|rest| rest.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok())
            .map_or(0, |kb| kb * 1024)
    };
    (bytes("RssAnon:"), bytes("VmRSS:"))
}

impl Calls {
    /// Parses the output of `strace -c`.
    pub fn in_summary(summary: &str) -> Calls {
        let sum = |names: &[&str]| calls_in_summary(summary, |name| names.contains(&name));
        Calls {
            all: calls_in_summary(summary, |name| name != "total"),
            writes: sum(&WRITE_CALLS),
            reads: sum(&READ_CALLS),
            positioned_reads: sum(&POSITIONED_READ_CALLS),
            syncs: sum(&SYNC_CALLS),
        }
    }
}

fn calls_in_summary(summary: &str, is_asked: impl Fn(&str) -> bool) -> u64 {
    let lines = summary.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    lines
        .filter(|words| words.last().is_some_and(|name| is_asked(name)))
        .filter_map(|words| words.get(3)?.parse::<u64>().ok())
        .sum()
}

/// `client.write.calls`, or that of another role, in the report; git writes no report.
fn reported_writes(report: &str, role: &str) -> Option<u64> {
    let json: serde_json::Value = serde_json::from_str(report).ok()?;
    json[role]["write"]["calls"].as_u64()
}

/// Drops the kernel's page cache.
pub fn drop_page_cache() -> io::Result<()> {
    let path = Path::new("/proc/sys/vm/drop_caches");
    rustix::fs::sync();
    std::fs::write(path, "3").map_err(|error| {
        io::Error::new(error.kind(), format!("--cold needs to write to {}: {error}", path.display()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Contender {
        Contender { argv: ["sh", "-c", script].map(str::to_string).to_vec(), feed: StdinFeed::File }
    }

    fn request(bytes: &[u8]) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        file
    }

    #[test]
    fn a_run_is_timed_and_its_bytes_are_counted() {
        let timing = shell("cat; sleep 0.05").time(request(b"hello").path(), 2).unwrap();
        assert_eq!(timing.bytes, 5);
        assert!(timing.wall_seconds >= 0.05 && timing.cpu_seconds < timing.wall_seconds, "{timing:?}");
        assert!(shell("exit 1").time(request(b"").path(), 1).is_err());
    }

    #[test]
    fn a_run_is_observed() {
        let script = "cat; echo '{\"client\":{\"write\":{\"calls\":7}}}' >$PACKRACE_IO_REPORT; sleep 0.1";
        let seen = shell(script).observe(request(b"hello").path(), &|| Ok(())).unwrap();
        assert_eq!((seen.answer.as_slice(), seen.reported_client_writes), (&b"hello"[..], Some(7)));
        let peak = seen.peak.unwrap();
        assert!(10_000 < peak.anonymous_bytes && peak.anonymous_bytes < peak.resident_bytes, "{peak:?}");
        assert_eq!(seen.calls.is_some(), has_strace());
        assert_eq!(seen.reported_pack_writes, None);
    }

    #[test]
    fn a_pipe_is_a_pipe() {
        let mut contender = shell("test -p /dev/stdin && cat");
        assert!(contender.time(request(b"hello").path(), 1).is_err());
        contender.feed = StdinFeed::Pipe;
        let request = request(b"hello");
        assert_eq!(contender.time(request.path(), 2).unwrap().bytes, 5);
        assert_eq!(contender.observe(request.path(), &|| Ok(())).unwrap().answer, b"hello");
    }

    #[test]
    fn summaries_of_strace_are_read() {
        let summary = "% time     seconds  usecs/call     calls    errors syscall\n\
                       ------ ----------- ----------- --------- --------- ----------------\n\
                        60.00    0.000003           3        12         2 write\n\
                        40.00    0.000002           1         5           writev\n\
                        40.00    0.000002           1         5           read\n\
                        40.00    0.000002           1         2           pread64\n\
                        40.00    0.000002           1         3           fsync\n\
                       100.00    0.000005                    17         2 total\n";
        let expect = Calls { all: 27, writes: 17, reads: 5, positioned_reads: 2, syncs: 3 };
        assert_eq!(Calls::in_summary(summary), expect);
    }
}
