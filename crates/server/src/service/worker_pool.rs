//! Threads for requests.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use packrace_os::process::is_thread_priority_lowered;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

/// The most threads that wait for the next request; others end with their request.
const MAX_IDLE: usize = 16;

/// How long a thread waits for the next request.
const IDLE_TIME: Duration = Duration::from_secs(10);

type Job = Box<dyn FnOnce() + Send>;

/// Threads for requests, one for each running request.
///
/// A thread waits for the next request when it is done: a new thread runs only when the scheduler has time
/// for it, a woken one takes the processor from threads of low priority at once. Unlike a thread of the
/// runtime's pool it may lower its priority for good; then it ends with its request.
#[derive(Default)]
pub(crate) struct WorkerPool {
    state: Mutex<PoolState>,
    changed: Condvar,
}

/// There are never more jobs than idle threads.
#[derive(Default)]
struct PoolState {
    jobs: VecDeque<Job>,
    idle: usize,
}

impl WorkerPool {
    /// Runs `work` at once. The receiver gets its result, or an error if it panics.
    pub(crate) fn start<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<oneshot::Receiver<T>> {
        let (sender, receiver) = oneshot::channel();
        let runtime = Handle::current();
        let job: Job = Box::new(move || {
            let _entered = runtime.enter();
            // The receiver may be gone.
            let _ = sender.send(work());
        });
        let mut state = self.lock();
        if state.jobs.len() < state.idle {
            state.jobs.push_back(job);
            drop(state);
            self.changed.notify_one();
            return Ok(receiver);
        }
        drop(state);
        let pool = self.clone();
        std::thread::Builder::new().name("request".into()).spawn(move || pool.work(job))?;
        Ok(receiver)
    }

    /// A panic ends the thread.
    fn work(&self, first: Job) {
        let mut next = Some(first);
        while let Some(job) = next {
            job();
            next = if is_thread_priority_lowered() { None } else { self.wait_for_job() };
        }
    }

    fn wait_for_job(&self) -> Option<Job> {
        let mut state = self.lock();
        if state.idle >= MAX_IDLE {
            return None;
        }
        state.idle += 1;
        let waited = self.changed.wait_timeout_while(state, IDLE_TIME, |state| state.jobs.is_empty());
        let mut state = waited.unwrap_or_else(PoisonError::into_inner).0;
        state.idle -= 1;
        state.jobs.pop_front()
    }

    fn lock(&self) -> MutexGuard<'_, PoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for WorkerPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkerPool").field("idle", &self.lock().idle).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::thread::{self, ThreadId};

    use super::*;

    /// Waits until this many threads are idle.
    fn wait_until_idle(pool: &WorkerPool, count: usize) {
        while pool.lock().idle != count {
            thread::yield_now();
        }
    }

    async fn thread_of_a_job(pool: &Arc<WorkerPool>) -> ThreadId {
        pool.start(|| thread::current().id()).unwrap().await.unwrap()
    }

    #[tokio::test]
    async fn gives_what_the_work_gives() {
        let pool = Arc::new(WorkerPool::default());
        assert_eq!(pool.start(|| 7).unwrap().await, Ok(7));
        assert_ne!(thread_of_a_job(&pool).await, thread::current().id());
        pool.start(|| std::panic::resume_unwind(Box::new("quiet"))).unwrap().await.unwrap_err();
    }

    #[tokio::test]
    async fn a_thread_serves_again_unless_its_priority_is_low() {
        let pool = Arc::new(WorkerPool::default());
        let first = thread_of_a_job(&pool).await;
        wait_until_idle(&pool, 1);
        assert_eq!(thread_of_a_job(&pool).await, first);
        wait_until_idle(&pool, 1);
        let lowered = pool.start(|| {
            packrace_os::process::lower_thread_priority();
            is_thread_priority_lowered()
        });
        // Nothing is lower than the last priority, which this process may have.
        let is_lowered = lowered.unwrap().await.unwrap();
        assert_eq!(thread_of_a_job(&pool).await != first, is_lowered);
    }

    #[tokio::test]
    async fn nothing_waits_for_a_thread_that_is_busy() {
        let pool = Arc::new(WorkerPool::default());
        let (gate, opened) = std::sync::mpsc::channel::<()>();
        let waiting = pool.start(move || opened.recv()).unwrap();
        let others: Vec<_> = (0..2 * MAX_IDLE).map(|number| pool.start(move || number).unwrap()).collect();
        for (number, other) in others.into_iter().enumerate() {
            assert_eq!(other.await, Ok(number));
        }
        gate.send(()).unwrap();
        waiting.await.unwrap().unwrap();
        assert!(pool.lock().idle <= MAX_IDLE);
    }
}
