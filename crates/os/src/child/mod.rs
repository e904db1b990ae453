//! Child processes in their own process groups, with pipes that never block this process.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use crate::count::{self, Op, Role};
use crate::trace::{self, ChildClass, TracedChild};

/// The requested size of the pipe for the program's output. Linux allows every user 1 MiB
/// (`/proc/sys/fs/pipe-max-size`); if it is not allowed, the pipe keeps its size.
const OUTPUT_PIPE_BYTES: usize = 1 << 20;

/// How long a program may take to end after SIGTERM before it is killed.
const GRACE: Duration = Duration::from_millis(500);

/// The most bytes read from a program at once in [`ChildProcess::run`].
const TALK_BYTES: usize = 8 << 10;

/// The timeout of a wait until something can be moved.
const LONG: Duration = Duration::from_secs(3600);

/// The interval between checks whether a program has ended.
const END_INTERVAL: Duration = Duration::from_millis(5);

/// Starts a program through a shell, which runs a file that the system cannot run as a script.
const THROUGH_SHELL: [&str; 3] = ["/bin/sh", "-c", r#"exec "$0" "$@""#];

/// A program to start.
#[derive(Debug, Clone)]
pub struct Program {
    /// The program and its arguments.
    pub argv: Vec<OsString>,
    /// The name of the hook, if it is one.
    pub hook: Option<String>,
    /// Its working directory.
    pub directory: PathBuf,
    /// Changes to the inherited environment: variables to set, or to remove if there is no value.
    pub environment: Vec<(OsString, Option<OsString>)>,
    /// Whether its standard error is read; otherwise it shares that of this process.
    pub reads_messages: bool,
    /// What it may do and use.
    pub confinement: Confinement,
}

/// What a program and its descendants may do and use. The default restricts nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Confinement {
    /// The variables that it inherits; `None` means all of this process.
    pub inherits: Option<Arc<Vec<(OsString, OsString)>>>,
    /// Its time limit. After that it is killed, and waiting for it fails with [`io::ErrorKind::TimedOut`].
    pub time: Option<Duration>,
    /// The user and group that it runs as, without supplementary groups.
    pub user: Option<(u32, u32)>,
    /// The address space of each of its processes in bytes (`RLIMIT_AS`).
    pub memory_bytes: Option<u64>,
    /// The number of processes of its user, including those of other programs (`RLIMIT_NPROC`).
    pub processes: Option<u64>,
    /// The seconds of processor time for each of its processes (`RLIMIT_CPU`).
    pub cpu_seconds: Option<u64>,
}

/// A running program. Dropping it kills its process group, unless the program is known to have ended.
#[derive(Debug)]
pub struct ChildProcess {
    child: Child,
    input: Option<OwnedFd>,
    output: Option<OwnedFd>,
    messages: Option<OwnedFd>,
    has_ended: bool,
    deadline: Option<Instant>,
    traced: Option<TracedChild>,
}

/// An output of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputStream {
    /// Standard output.
    Output,
    /// Standard error.
    Messages,
}

/// The result of reading from a program's stream once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Read {
    /// No data at the moment.
    Nothing,
    /// This many bytes, at least one.
    Bytes(usize),
    /// The end of the stream.
    Closed,
}

/// The result of one [`ChildProcess::transfer`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transfer {
    /// Bytes of input written to the pipe.
    pub written: usize,
    /// The result of reading standard output.
    pub output: Read,
    /// The result of reading standard error.
    pub messages: Read,
}

/// The signal that ended a program, except signals that a user or a closed pipe causes: the cause
/// is then known.
pub fn fatal_signal(status: ExitStatus) -> Option<i32> {
    let is_known = |signal: &i32| {
        [Signal::INT, Signal::QUIT, Signal::PIPE].iter().any(|known| known.as_raw() == *signal)
    };
    status.signal().filter(|signal| !is_known(signal))
}

/// Starts a program, as `set_up` completes it. An executable file of no format that the system knows is a script for
/// `/bin/sh`, as in git: scripts need not begin with `#!`, and an empty one succeeds.
pub fn spawn(argv: &[OsString], set_up: impl Fn(&mut Command)) -> io::Result<Child> {
    let start = |argv: &[OsString]| {
        let (name, arguments) =
            argv.split_first().ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        let mut command = Command::new(name);
        command.args(arguments);
        set_up(&mut command);
        command.spawn()
    };
    match start(argv) {
        Err(error) if error.raw_os_error() == Some(Errno::NOEXEC.raw_os_error()) => {
            let shell = THROUGH_SHELL.iter().map(OsString::from);
            start(&shell.chain(argv.iter().cloned()).collect::<Vec<_>>())
        }
        result => result,
    }
}

impl Confinement {
    fn apply(&self, command: &mut Command) {
        if let Some(variables) = &self.inherits {
            command.env_clear().envs(variables.iter().map(|(name, value)| (name, value)));
        }
        if let Some((user, group)) = self.user {
            // If this process runs as root, this drops the supplementary groups too.
            command.uid(user).gid(group);
        }
        self.limit(command);
    }

    /// Sets limits in the new process before the program begins: set from outside, they would not apply to
    /// processes that it has already started.
    #[allow(unsafe_code)]
    fn limit(&self, command: &mut Command) {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let limits = [
            (Resource::As, self.memory_bytes),
            (Resource::Nproc, self.processes),
            (Resource::Cpu, self.cpu_seconds),
        ];
        if limits.iter().all(|(_, limit)| limit.is_none()) {
            return;
        }
        // No limit exceeds that of this process itself.
        let limits = limits.map(|(resource, limit)| {
            let most = getrlimit(resource).maximum.unwrap_or(u64::MAX);
            (resource, limit.map(|limit| limit.min(most)))
        });
        let set = move || {
            for (resource, limit) in limits {
                if limit.is_some() {
                    setrlimit(resource, Rlimit { current: limit, maximum: limit })?;
                }
            }
            Ok(())
        };
        // SAFETY: between fork and exec only async-signal-safe calls are allowed. This makes system calls, through
        // rustix, and touches no memory but its own copies: no allocation, no lock.
        unsafe {
            command.pre_exec(set);
        }
    }
}

impl Program {
    /// Sets up the command, as the leader of a new process group.
    fn set_up(&self, command: &mut Command) {
        command.current_dir(&self.directory).process_group(0);
        self.confinement.apply(command);
        for (name, value) in &self.environment {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
    }

    /// Starts it without input and output and does not wait: it may outlive this process. Until this process
    /// ends, an ended program stays a zombie.
    pub fn start_detached(&self) -> io::Result<()> {
        let connect = |command: &mut Command| {
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        };
        self.spawn(connect).map(drop)
    }

    fn spawn(&self, connect: impl Fn(&mut Command)) -> io::Result<(Child, Option<TracedChild>)> {
        let class = self.hook.as_deref().map_or(ChildClass::Other, ChildClass::Hook);
        let traced = trace::child(&self.argv, class, false);
        trace::child_file(&self.argv);
        let started = spawn(&self.argv, |command| {
            self.set_up(command);
            connect(command);
        });
        match started {
            Ok(child) => Ok((child, traced)),
            Err(error) => {
                traced.into_iter().for_each(TracedChild::failed);
                Err(error)
            }
        }
    }
}

impl ChildProcess {
    /// Starts a program as the leader of a new process group.
    pub fn start(program: &Program) -> io::Result<Self> {
        let connect = |command: &mut Command| {
            let messages = if program.reads_messages { Stdio::piped() } else { Stdio::inherit() };
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(messages);
        };
        let now = Instant::now();
        let (mut child, traced) = program.spawn(connect)?;
        let input = child.stdin.take().map(OwnedFd::from);
        let output = child.stdout.take().map(OwnedFd::from);
        let messages = child.stderr.take().map(OwnedFd::from);
        // A time beyond the clock's range means no deadline.
        let deadline = program.confinement.time.and_then(|time| now.checked_add(time));
        let started = ChildProcess { child, input, output, messages, has_ended: false, deadline, traced };
        for fd in [&started.input, &started.output, &started.messages].into_iter().flatten() {
            rustix::io::ioctl_fionbio(fd, true)?;
        }
        if let Some(output) = &started.output {
            let _ = rustix::pipe::fcntl_setpipe_size(output, OUTPUT_PIPE_BYTES);
        }
        Ok(started)
    }

    /// Waits at most `timeout` until data can be moved, then moves what it can, with one call each: a prefix
    /// of `input` to the program, and the program's data into `output` and `messages`.
    ///
    /// It is not an error if a program does not read all of its input: the rest counts as written.
    pub fn transfer(
        &mut self,
        input: &[u8],
        output: &mut [u8],
        messages: &mut [u8],
        timeout: Duration,
    ) -> io::Result<Transfer> {
        let timeout = timeout.min(self.time_left()?);
        let is_feeding = !input.is_empty() && self.input.is_some();
        let written = if !input.is_empty() && self.input.is_none() { input.len() } else { 0 };
        let mut transfer = Transfer { written, output: Read::Nothing, messages: Read::Nothing };
        let mut waiting: Vec<PollFd<'_>> = Vec::with_capacity(3);
        let input_fd = self.input.as_ref().filter(|_| is_feeding);
        waiting.extend(input_fd.map(|fd| PollFd::new(fd, PollFlags::OUT)));
        let readable = [&self.output, &self.messages].into_iter().flatten();
        waiting.extend(readable.map(|fd| PollFd::new(fd, PollFlags::IN)));
        let timeout = Timespec {
            tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: timeout.subsec_nanos().into(),
        };
        count::add(Role::Hook, Op::Wait, 0);
        match poll(&mut waiting, Some(&timeout)) {
            Ok(0) => return Ok(transfer),
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(transfer),
            Err(error) => return Err(error.into()),
        }
        drop(waiting);
        if is_feeding {
            transfer.written = self.feed(input)?;
        }
        transfer.output = read(&mut self.output, output)?;
        transfer.messages = read(&mut self.messages, messages)?;
        Ok(transfer)
    }

    /// Writes the input to the program, passes on both of its outputs as they arrive, and waits for its end.
    pub fn run(self, input: &[u8], on_output: &mut dyn FnMut(&[u8])) -> io::Result<ExitStatus> {
        self.run_apart(input, &mut |_, text| on_output(text))
    }

    /// As above, and reports which output it was.
    pub fn run_apart(
        mut self,
        mut input: &[u8],
        on_output: &mut dyn FnMut(OutputStream, &[u8]),
    ) -> io::Result<ExitStatus> {
        let mut buffers = [[0; TALK_BYTES]; 2];
        let [output, messages] = &mut buffers;
        loop {
            if input.is_empty() {
                self.close_input();
            }
            let did = self.transfer(input, output, messages, LONG)?;
            input = &input[did.written..];
            let both = [
                (OutputStream::Output, did.output, &output),
                (OutputStream::Messages, did.messages, &messages),
            ];
            for (stream, read, bytes) in both {
                if let Read::Bytes(length) = read {
                    on_output(stream, &bytes[..length]);
                }
            }
            if did.output == Read::Closed && did.messages == Read::Closed {
                break;
            }
        }
        self.input = None;
        while self.deadline.is_some() {
            match self.try_wait()? {
                Some(status) => return Ok(status),
                None => std::thread::sleep(END_INTERVAL),
            }
        }
        count::add(Role::Hook, Op::Wait, 0);
        let status = self.child.wait()?;
        self.ends(status);
        Ok(status)
    }

    /// Closes the program's standard input.
    pub fn close_input(&mut self) {
        self.input = None;
    }

    /// The program's exit status, if it has ended.
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        let status = self.child.try_wait()?;
        match status {
            Some(status) => self.ends(status),
            None => drop(self.time_left()?),
        }
        Ok(status)
    }

    fn ends(&mut self, status: ExitStatus) {
        self.has_ended = true;
        if let Some(traced) = self.traced.take() {
            traced.ended(self.child.id(), status);
        }
    }

    /// The time left to run. If none, kills the program and its group.
    fn time_left(&mut self) -> io::Result<Duration> {
        let Some(deadline) = self.deadline else { return Ok(LONG) };
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            self.kill(Signal::KILL);
            return Err(io::Error::new(io::ErrorKind::TimedOut, "time limit exceeded"));
        }
        // Short enough to notice the end soon.
        Ok(left.max(Duration::from_millis(1)))
    }

    /// Ends the program and everything still running in its process group: first with SIGTERM, and shortly
    /// afterwards with SIGKILL.
    pub fn end(mut self) {
        self.kill(Signal::TERM);
        (self.input, self.output, self.messages) = (None, None, None);
        let mut waited = Duration::ZERO;
        while waited < GRACE && self.is_running() {
            std::thread::sleep(END_INTERVAL);
            waited += END_INTERVAL;
        }
    }

    fn feed(&mut self, input: &[u8]) -> io::Result<usize> {
        let Some(fd) = &self.input else { return Ok(input.len()) };
        match rustix::io::write(fd, input) {
            Ok(written) => {
                count::add(Role::Hook, Op::Write, written);
                Ok(written)
            }
            Err(Errno::AGAIN | Errno::INTR) => Ok(0),
            Err(Errno::PIPE) => {
                self.input = None;
                Ok(input.len())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Whether the leader of the group still runs. It is not reaped, so that its number stays taken.
    fn is_running(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        self.pid().is_some_and(|pid| matches!(waitid(WaitId::Pid(pid), options), Ok(None)))
    }

    /// Sends a signal to the process group, which exists until its leader is reaped.
    fn kill(&self, signal: Signal) {
        if let Some(pid) = self.pid().filter(|_| !self.has_ended) {
            // A failure means that all have ended.
            let _ = kill_process_group(pid, signal);
        }
    }

    fn pid(&self) -> Option<Pid> {
        Pid::from_raw(i32::try_from(self.child.id()).ok()?)
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        if !self.has_ended {
            self.kill(Signal::KILL);
            // A killed process cannot avoid ending.
            if let Ok(status) = self.child.wait() {
                self.ends(status);
            }
        }
    }
}

/// Reads available data. If a stream has ended, closes it on this side too.
fn read(stream: &mut Option<OwnedFd>, buffer: &mut [u8]) -> io::Result<Read> {
    let Some(fd) = stream else { return Ok(Read::Closed) };
    if buffer.is_empty() {
        return Ok(Read::Nothing);
    }
    match rustix::io::read(fd.as_fd(), buffer) {
        Ok(0) => {
            *stream = None;
            Ok(Read::Closed)
        }
        Ok(length) => {
            count::add(Role::Hook, Op::Read, length);
            Ok(Read::Bytes(length))
        }
        Err(Errno::AGAIN | Errno::INTR) => Ok(Read::Nothing),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests;
