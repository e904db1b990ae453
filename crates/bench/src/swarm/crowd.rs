//! Concurrent raw clients, and their results.

use std::io::{self, Read, Write};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use packrace_testkit::raw_client::{READ_BYTES, Received, STACK_BYTES, Take, Target};

/// Time limit for all clients together; rejected clients retry until then.
const PATIENCE: Duration = Duration::from_secs(900);

/// How often a paused client checks whether it may continue.
const LOOK: Duration = Duration::from_millis(50);

/// If a server sends nothing new for this long, all clients are waiting.
const STILL: Duration = Duration::from_secs(2);

/// What a client reads before it pauses: refs and a small part of the pack.
const BEFORE_HOLDING_BYTES: usize = 32 << 10;

/// The results of all requests.
pub struct Crowd {
    /// Each client's result, in request order.
    pub received: Vec<Received>,
    /// From the start of the first to the end of the last.
    pub wall_seconds: f64,
    /// Connections that the server dropped, or rejected because it was full.
    pub sent_away: usize,
}

/// Sends all requests at once and reads the responses.
pub fn at_once(
    target: &Target,
    requests: &[&[u8]],
    take: impl Fn(usize) -> Take + Sync,
) -> io::Result<Crowd> {
    let barrier = Barrier::new(requests.len() + 1);
    let deadline = Instant::now() + PATIENCE;
    let mut wall_seconds = 0.0;
    let outcomes = std::thread::scope(|scope| {
        let (barrier, take) = (&barrier, &take);
        let clients = requests.iter().enumerate().map(|(number, request)| {
            std::thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, move || {
                barrier.wait();
                target.fetch_patiently(request, take(number), deadline)
            })
        });
        // All or nothing: if a thread is missing, the others would wait forever.
        let clients: Vec<_> = clients.map(|client| client.expect("a thread for each client")).collect();
        barrier.wait();
        let start = Instant::now();
        let outcomes: Vec<_> =
            clients.into_iter().map(|client| client.join().expect("reading does not panic")).collect();
        wall_seconds = start.elapsed().as_secs_f64();
        outcomes
    });
    let outcomes = outcomes.into_iter().collect::<Result<Vec<_>, _>>()?;
    let sent_away = outcomes.iter().map(|(_, tries)| tries).sum();
    Ok(Crowd {
        received: outcomes.into_iter().map(|(received, _)| received).collect(),
        wall_seconds,
        sent_away,
    })
}

/// Runs `act` while `count` clients have sent a request, have read the start of the response, if the server
/// sends any, and then stop reading. Also returns how many of them got that far.
pub fn while_held<T>(
    target: &Target,
    request: &[u8],
    count: usize,
    act: impl FnOnce() -> T,
) -> io::Result<(T, usize)> {
    let (is_over, read, held) = (AtomicBool::new(false), AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..count {
            let (is_over, read, held) = (&is_over, &read, &held);
            let hold = move || hold(target, request, is_over, read, held);
            let client = std::thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, hold);
            client.expect("a thread for each client");
        }
        let mut last = (0, Instant::now());
        let start = Instant::now();
        while held.load(Relaxed) < count && start.elapsed() < PATIENCE {
            let now = read.load(Relaxed);
            if now != last.0 {
                last = (now, Instant::now());
            }
            if now > 0 && last.1.elapsed() > STILL {
                break;
            }
            std::thread::sleep(LOOK);
        }
        // The server finishes what it started for them: their sockets are full.
        std::thread::sleep(STILL);
        let result = act();
        let reached = held.load(Relaxed);
        is_over.store(true, Relaxed);
        Ok((result, reached))
    })
}

/// One client of [`while_held`]; retries when it is rejected.
fn hold(target: &Target, request: &[u8], is_over: &AtomicBool, read: &AtomicUsize, held: &AtomicUsize) {
    while !is_over.load(Relaxed) {
        let mut bytes = 0;
        let outcome = read_some(target, request, is_over, |length| {
            bytes += length;
            read.fetch_add(length, Relaxed);
            bytes < BEFORE_HOLDING_BYTES
        });
        if let Ok(Some(_connection)) = outcome {
            held.fetch_add(1, Relaxed);
            while !is_over.load(Relaxed) {
                std::thread::sleep(LOOK);
            }
        }
        std::thread::sleep(LOOK);
    }
}

/// Reads responses one after the other until `is_over`, without parsing them. Counts their bytes.
pub fn again_and_again(target: &Target, request: &[u8], is_over: &AtomicBool, bytes: &AtomicU64) {
    let count = |length| {
        bytes.fetch_add(length as u64, Relaxed);
        true
    };
    while !is_over.load(Relaxed) {
        if read_some(target, request, is_over, count).is_err() {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Reads until `wants_more` is false, and then returns the connection; `None` at the end of the response.
fn read_some(
    target: &Target,
    request: &[u8],
    is_over: &AtomicBool,
    mut wants_more: impl FnMut(usize) -> bool,
) -> io::Result<Option<std::net::TcpStream>> {
    let mut stream = target.connect()?;
    stream.set_read_timeout(Some(LOOK))?;
    stream.write_all(request)?;
    let mut buffer = vec![0; READ_BYTES];
    let mut is_empty = true;
    while !is_over.load(Relaxed) {
        match stream.read(&mut buffer) {
            Ok(0) if is_empty => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(0) => return Ok(None),
            Ok(length) => {
                is_empty = false;
                if !wants_more(length) {
                    return Ok(Some(stream));
                }
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::Interrupted.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::Server;
    use crate::swarm::Subject;
    use packrace_testkit::raw_client::Transport;
    use packrace_testkit::{Git, RepoBuilder, Size};

    #[test]
    fn a_daemon_serves_a_crowd() {
        let repo = RepoBuilder::new(Size::Small).build();
        let subject = Subject::new(Git::stock(), repo.path().to_path_buf());
        let server = Server::git_daemon(Git::stock(), repo.path().parent().unwrap(), None).unwrap();
        let target = server.target(Transport::Git, repo.path()).unwrap();
        let all = target.request(&subject.clone_all().command);
        let almost = target.request(&subject.clone_almost_all(0).command);
        let one = target.request(&subject.fetch_one().command);

        let crowd = at_once(&target, &[&all, &almost, &one], |_| Take::Hash(subject.hash)).unwrap();
        let bytes: Vec<u64> = crowd.received.iter().map(|received| received.pack.bytes).collect();
        assert!(bytes[2] < bytes[0] / 10 && crowd.wall_seconds > 0.0, "{bytes:?}");
        assert_ne!(all, almost);

        let (held, reached) = while_held(&target, &all, 2, || 7).unwrap();
        assert_eq!((held, reached), (7, 2));

        let (is_over, read) = (AtomicBool::new(false), AtomicU64::new(0));
        // Far more than one response has.
        let expected = 10 * bytes[2];
        std::thread::scope(|scope| {
            scope.spawn(|| again_and_again(&target, &one, &is_over, &read));
            let start = Instant::now();
            while read.load(Relaxed) < expected && start.elapsed() < PATIENCE {
                std::thread::sleep(LOOK);
            }
            is_over.store(true, Relaxed);
        });
        assert!(read.load(Relaxed) >= expected);
    }
}
