//! A thread for one request.

use std::io;

use tokio::runtime::Handle;
use tokio::sync::oneshot;

/// Runs `work` on a thread of its own, which ends with it: unlike a thread of the runtime's pool, it may lower its priority
/// for good. The receiver gets what `work` gives, and an error if it panics.
pub(crate) fn start<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<oneshot::Receiver<T>> {
    let (sender, receiver) = oneshot::channel();
    let runtime = Handle::current();
    std::thread::Builder::new().name("request".into()).spawn(move || {
        let _entered = runtime.enter();
        // Whoever asked may have gone.
        let _ = sender.send(work());
    })?;
    Ok(receiver)
}

#[cfg(test)]
mod tests {
    use super::start;

    #[tokio::test]
    async fn gives_what_the_work_gives() {
        assert_eq!(start(|| 7).unwrap().await, Ok(7));
        let caller = std::thread::current().id();
        assert_ne!(start(|| std::thread::current().id()).unwrap().await, Ok(caller));
        start(|| std::panic::resume_unwind(Box::new("quiet"))).unwrap().await.unwrap_err();
    }
}
