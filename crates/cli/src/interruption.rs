//! Nothing stays of a clone that somebody breaks off.

use packrace_commands::Fatal;
use packrace_commands::clone::Unfinished;
use tokio::signal::unix::{SignalKind, signal};

/// From now on, removes what there is of a clone when the process is told to end, and ends it.
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
        // Held until the end: a clone that is complete now waits for that.
        let _held = clone.remove();
        std::process::exit(128 + number);
    });
    Ok(())
}
