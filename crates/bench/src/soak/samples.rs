//! Samples of the server's resource usage.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Sampling interval.
const EVERY: Duration = Duration::from_secs(1);

/// A server has settled after this long without changes; its threads wait 10 seconds for more work.
const SETTLED: Duration = Duration::from_secs(13);

/// Time limit for settling.
const MOST_SETTLING: Duration = Duration::from_secs(120);

/// The resources of a process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProcessUsage {
    /// Open files and sockets.
    pub descriptors: u64,
    /// Running threads.
    pub threads: u64,
    /// Private memory: `RssAnon`.
    pub anonymous_bytes: u64,
    /// Address space: `VmSize`.
    pub virtual_bytes: u64,
}

/// Samples one process.
pub struct Samples {
    pid: u32,
    is_over: AtomicBool,
    /// The maximum since the last row.
    highest: Mutex<ProcessUsage>,
}

impl Samples {
    /// Samples the process with this id.
    pub fn new(pid: u32) -> Self {
        Samples { pid, is_over: AtomicBool::new(false), highest: Mutex::default() }
    }

    /// Runs `act` while the process is sampled.
    pub fn while_sampling<T>(&self, act: impl FnOnce() -> T) -> T {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !self.is_over.load(Relaxed) {
                    self.highest.lock().expect("nobody panics with it").raise(self.now());
                    std::thread::sleep(EVERY);
                }
            });
            let result = act();
            self.is_over.store(true, Relaxed);
            result
        })
    }

    /// The maximum since the last call.
    pub fn highest(&self) -> ProcessUsage {
        std::mem::take(&mut self.highest.lock().expect("nobody panics with it"))
    }

    /// The usage after the clients are gone and nothing changes any more.
    pub fn settled(&self) -> ProcessUsage {
        let start = Instant::now();
        let mut last = (self.now(), Instant::now());
        while last.1.elapsed() < SETTLED && start.elapsed() < MOST_SETTLING {
            std::thread::sleep(EVERY);
            let now = self.now();
            if (now.descriptors, now.threads) != (last.0.descriptors, last.0.threads) {
                last = (now, Instant::now());
            }
        }
        self.now()
    }

    fn now(&self) -> ProcessUsage {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid)).unwrap_or_default();
        let number = |key: &str| -> u64 {
            let line = status.lines().find_map(|line| line.strip_prefix(key)).unwrap_or_default();
            line.split_whitespace().next().and_then(|number| number.parse().ok()).unwrap_or_default()
        };
        let descriptors = std::fs::read_dir(format!("/proc/{}/fd", self.pid)).map_or(0, Iterator::count);
        ProcessUsage {
            descriptors: descriptors as u64,
            threads: number("Threads:"),
            anonymous_bytes: number("RssAnon:") * 1024,
            virtual_bytes: number("VmSize:") * 1024,
        }
    }
}

impl ProcessUsage {
    fn raise(&mut self, now: ProcessUsage) {
        self.descriptors = self.descriptors.max(now.descriptors);
        self.threads = self.threads.max(now.threads);
        self.anonymous_bytes = self.anonymous_bytes.max(now.anonymous_bytes);
        self.virtual_bytes = self.virtual_bytes.max(now.virtual_bytes);
    }
}

/// The table's head.
pub fn head() -> &'static str {
    "| minute | descriptors | threads | private MB | address space MB | good answers | faults | changes |\n\
     |---|---:|---:|---:|---:|---:|---:|---:|"
}

/// A row of the table.
pub fn row(when: &str, held: ProcessUsage, counts: &str) -> String {
    format!(
        "| {when} | {} | {} | {:.1} | {:.0} | {counts} |",
        held.descriptors,
        held.threads,
        held.anonymous_bytes as f64 / 1e6,
        held.virtual_bytes as f64 / 1e6,
    )
}
