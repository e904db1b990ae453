//! The same work on several threads.

/// Runs `work` on this thread and on others, `count` in total; returns the results, this thread's first. A panic goes
/// on here.
pub(crate) fn on_threads<T: Send>(count: usize, work: impl Fn() -> T + Sync) -> Vec<T> {
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..count).map(|_| scope.spawn(&work)).collect();
        let mine = work();
        let others = others.into_iter().map(|other| match other.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        std::iter::once(mine).chain(others).collect()
    })
}
