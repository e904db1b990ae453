//! Removes an unfinished clone when a signal ends the process.

use packrace_commands::Fatal;
use packrace_commands::clone::Unfinished;
use tokio::signal::unix::{SignalKind, signal};

/// On SIGINT, SIGTERM or SIGHUP, removes the unfinished clone and ends the process.
pub fn watch(clone: Unfinished) -> Result<(), Fatal> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(Fatal::new)?;
    let mut signals = Vec::new();
    {
        let _in_runtime = runtime.enter();
        for kind in [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()] {
            signals.push((kind.as_raw_value(), signal(kind).map_err(Fatal::new)?));
        }
    }
    std::thread::spawn(move || {
        let [(first, one), (second, two), (third, three)] = &mut signals[..] else { return };
        let number = runtime.block_on(async {
            tokio::select! {
                _ = one.recv() => *first,
                _ = two.recv() => *second,
                _ = three.recv() => *third,
            }
        });
        // Held until the process ends, so that the clone cannot complete in between.
        let _held = clone.remove();
        packrace_os::interruption::end_by(number)
    });
    Ok(())
}
