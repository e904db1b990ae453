//! Misbehaving clients.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use packrace_testkit::Random;
use packrace_testkit::peer::Script;
use packrace_testkit::raw_client::{Target, Transport};

use super::Soak;

/// How long a client is slow, or pauses.
const SLOWLY: Duration = Duration::from_secs(2);

/// Pause between two bytes of a slow client.
const DRIP: Duration = Duration::from_millis(50);

/// Maximum bytes after which a client drops the response.
const MOST_READ_BYTES: usize = 3_000_000;

/// Kinds of misbehaviour.
#[derive(Debug, Clone, Copy)]
enum Fault {
    /// Reads part of the response, and resets the connection.
    Reset,
    /// Sends part of the request, and resets the connection.
    ResetEarly,
    /// Reads part of the response, then nothing for a while.
    StopReading,
    /// Sends everything, closes its half, reads some and disconnects.
    HalfClose,
    /// Sends part of the request, closes its half and reads the response.
    HalfCloseEarly,
    /// Sends an invalid request.
    Garbage,
    /// Sends a request with some bits changed.
    Flip,
    /// Sends a request followed by garbage.
    MoreGarbage,
    /// Sends byte by byte, and not everything.
    Slow,
    /// Sends nothing.
    Idle,
    /// Announces a wrong length.
    WrongLength,
}

const FAULTS: [Fault; 11] = [
    Fault::Reset,
    Fault::ResetEarly,
    Fault::StopReading,
    Fault::HalfClose,
    Fault::HalfCloseEarly,
    Fault::Garbage,
    Fault::Flip,
    Fault::MoreGarbage,
    Fault::Slow,
    Fault::Idle,
    Fault::WrongLength,
];

/// Misbehaves in one way after the other.
pub fn client(soak: &Soak, is_over: &AtomicBool, seed: u64) {
    let mut random = Random::new(seed);
    let repos = soak.site.all(soak.git);
    let scripts: Vec<Script> = repos
        .iter()
        .map(|(_, tips)| {
            Script::new().fetch_v2("sha1", &tips.iter().map(String::as_str).collect::<Vec<_>>(), &[])
        })
        .collect();
    while !is_over.load(Relaxed) {
        let number = random.below(repos.len());
        let transport = if random.one_in(2) { Transport::Git } else { Transport::Http };
        let mut target = soak.target(transport, repos[number].0);
        target.patience = SLOWLY;
        let request = target.request(scripts[number].bytes());
        let fault = FAULTS[random.below(FAULTS.len())];
        // The server may do anything with such a client, if others do not notice.
        if commit(fault, &target, request, &mut random).is_err() {
            std::thread::sleep(Duration::from_millis(10));
        }
        soak.counts.bad.fetch_add(1, Relaxed);
    }
}

fn commit(fault: Fault, target: &Target, mut request: Vec<u8>, random: &mut Random) -> io::Result<()> {
    let mut stream = target.connect()?;
    let some = random.below(request.len());
    let read_bytes = random.below(MOST_READ_BYTES);
    match fault {
        Fault::Reset => {
            stream.write_all(&request)?;
            read(&mut stream, read_bytes)?;
            reset(stream)
        }
        Fault::ResetEarly => {
            stream.write_all(&request[..some])?;
            reset(stream)
        }
        Fault::StopReading => {
            stream.write_all(&request)?;
            read(&mut stream, read_bytes / 16)?;
            std::thread::sleep(SLOWLY);
            Ok(())
        }
        Fault::HalfClose => {
            stream.write_all(&request)?;
            stream.shutdown(Shutdown::Write)?;
            read(&mut stream, read_bytes)
        }
        Fault::HalfCloseEarly => {
            stream.write_all(&request[..some])?;
            stream.shutdown(Shutdown::Write)?;
            read(&mut stream, read_bytes)
        }
        Fault::Garbage => {
            let bytes = random.below(100_000);
            stream.write_all(&random.bytes(bytes))?;
            read(&mut stream, read_bytes)
        }
        Fault::Flip => {
            for _ in 0..1 + random.below(4) {
                let at = random.below(request.len());
                request[at] ^= 1 << random.below(8);
            }
            stream.write_all(&request)?;
            read(&mut stream, read_bytes)
        }
        Fault::MoreGarbage => {
            stream.write_all(&request)?;
            let bytes = random.below(100_000);
            stream.write_all(&random.bytes(bytes))?;
            read(&mut stream, read_bytes)
        }
        Fault::Slow => slowly(&mut stream, &request),
        Fault::Idle => {
            std::thread::sleep(SLOWLY);
            Ok(())
        }
        Fault::WrongLength => {
            let text = String::from_utf8_lossy(&request).replace("Content-Length: ", "Content-Length: 1");
            stream.write_all(text.as_bytes())?;
            read(&mut stream, read_bytes)
        }
    }
}

/// Reads up to `most` bytes, until the end, or until the time limit.
fn read(stream: &mut TcpStream, most: usize) -> io::Result<()> {
    let mut buffer = vec![0; 64 << 10];
    let mut bytes = 0;
    while bytes < most {
        let room = buffer.len().min(most - bytes);
        match stream.read(&mut buffer[..room])? {
            0 => break,
            length => bytes += length,
        }
    }
    Ok(())
}

/// Closes with a reset (SO_LINGER of socket(7), with zero time to linger).
fn reset(stream: TcpStream) -> io::Result<()> {
    Ok(rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO))?)
}

fn slowly(stream: &mut TcpStream, request: &[u8]) -> io::Result<()> {
    let start = Instant::now();
    for byte in request.chunks(1) {
        if start.elapsed() > SLOWLY {
            break;
        }
        stream.write_all(byte)?;
        std::thread::sleep(DRIP);
    }
    Ok(())
}
