//! What commands say on standard output and standard error. Neither has to be open, nor to have room.

use std::io::{self, Write as _};

use crate::fatal::Fatal;
use crate::printable::harmless;

/// Writes a line to standard error. Where that cannot be, nobody is left to be told.
macro_rules! tell {
    ($($line:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($line)*);
    }};
}

/// Writes to standard output; it has left this process when this returns.
pub fn write(bytes: &[u8]) -> Result<(), Fatal> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(bytes).and_then(|()| stdout.flush()).map_err(not_written)
}

/// Writes a line to standard output.
pub fn write_line(line: impl AsRef<[u8]>) -> Result<(), Fatal> {
    write(&[line.as_ref(), b"\n"].concat())
}

/// Why a command ends that cannot say what it has to say.
pub fn not_written(error: io::Error) -> Fatal {
    match error.kind() {
        // Whoever asked has gone, as behind `| head`; git is ended by a signal then.
        io::ErrorKind::BrokenPipe => Fatal::silent(141),
        _ => Fatal::new(format!("write failure on standard output: {}", packrace_os::reason(&error))),
    }
}

/// Says what is wrong, and goes on.
pub fn tell_error(text: &str) {
    tell!("error: {}", harmless(text));
}
