use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use packrace_os::Mapped;
use packrace_store::Repository;
use packrace_store::refs::RefStamp;

use crate::send::outbox::GatherBatch;

/// The longest question whose answer is kept.
const MAX_QUESTION_BYTES: usize = 64 << 10;

/// About how much memory an answer takes beside its bytes.
const OVERHEAD_BYTES: usize = 512;

/// One answer may take this part of the memory for all answers.
const LARGEST_PART: usize = 4;

/// Ref advertisements and listings that were sent, ready to be sent again until a ref changes.
///
/// An answer belongs to a [`Repository`] value: a repository that was reopened because its configuration or
/// its packs have changed has none yet. A [`RefStamp`] decides whether refs have changed. The default keeps
/// nothing.
#[derive(Debug, Default)]
pub struct RefAdvertisementCache {
    max_bytes: usize,
    kept: Mutex<Answers>,
}

#[derive(Debug, Default)]
struct Answers {
    by_question: HashMap<Arc<Question>, CachedAnswer>,
    /// The most recently used is the last.
    by_use: BTreeMap<u64, Arc<Question>>,
    uses: u64,
    bytes: usize,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Question {
    /// The address of the repository, which is not reused while a [`Weak`] to it exists.
    repository: usize,
    text: Vec<u8>,
}

#[derive(Debug)]
struct CachedAnswer {
    repository: Weak<Repository>,
    answer: Arc<StoredAnswer>,
    used: u64,
}

/// A kept answer.
#[derive(Debug)]
pub(crate) struct StoredAnswer {
    stamp: RefStamp,
    chunks: Vec<Chunk>,
}

impl StoredAnswer {
    /// The bytes, as they were sent.
    pub(crate) fn chunks(&self) -> &[Chunk] {
        &self.chunks
    }

    fn bytes(&self) -> usize {
        self.stamp.bytes() + self.chunks.iter().map(|chunk| chunk.bytes.len()).sum::<usize>()
    }
}

/// Some bytes of an answer, shared by all requests that send them.
#[derive(Debug, Clone)]
pub(crate) struct Chunk {
    bytes: Mapped,
    range: Range<usize>,
}

impl Chunk {
    /// The bytes from `start` on.
    pub(crate) fn new(bytes: Vec<u8>, start: usize) -> Self {
        let range = start..bytes.len();
        Chunk { bytes: Mapped::from(bytes), range }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[self.range.clone()]
    }

    /// A batch of these bytes, which are not copied.
    pub(crate) fn to_batch(&self) -> GatherBatch {
        GatherBatch::of_shared(&self.bytes, self.range.clone())
    }

    /// A batch of these bytes and those before them.
    pub(crate) fn whole(&self) -> GatherBatch {
        GatherBatch::of_shared(&self.bytes, 0..self.bytes.len())
    }
}

impl RefAdvertisementCache {
    /// An empty cache that never takes more than this.
    pub fn new(max_bytes: usize) -> Self {
        RefAdvertisementCache { max_bytes, ..RefAdvertisementCache::default() }
    }

    /// The most that an answer to this question may take; 0 if it is not kept.
    pub(crate) fn room_for(&self, question: &[u8]) -> usize {
        if question.len() > MAX_QUESTION_BYTES { 0 } else { self.max_bytes / LARGEST_PART }
    }

    /// The answer to a question about this repository, if it is still current.
    pub(crate) fn find(&self, repository: &Arc<Repository>, question: &[u8]) -> Option<Arc<StoredAnswer>> {
        let question = Question::new(repository, question);
        let found = self.lock().take_note(&question);
        // Without the lock: this looks at every ref name.
        let (found, is_current) = match found {
            Some(answer) => (Some(answer.clone()), answer.stamp.holds()),
            None => (None, false),
        };
        if is_current {
            return found;
        }
        let mut kept = self.lock();
        let dropped = found.and_then(|old| {
            let is_same = kept.by_question.get(&question).is_some_and(|kept| Arc::ptr_eq(&kept.answer, &old));
            is_same.then(|| kept.remove(&question))
        });
        drop(kept);
        drop(dropped);
        None
    }

    /// Keeps an answer; the least recently used are dropped for it.
    pub(crate) fn keep(
        &self,
        repository: &Arc<Repository>,
        question: &[u8],
        stamp: RefStamp,
        chunks: Vec<Chunk>,
    ) {
        let answer = Arc::new(StoredAnswer { stamp, chunks });
        if !answer.stamp.is_settled() || answer.bytes() > self.room_for(question) {
            return;
        }
        let question = Arc::new(Question::new(repository, question));
        let mut dropped = Vec::new();
        let mut kept = self.lock();
        dropped.extend(kept.remove(&question));
        kept.insert(question, Arc::downgrade(repository), answer);
        while kept.bytes > self.max_bytes {
            let Some(oldest) = kept.by_use.values().next().cloned() else { break };
            dropped.extend(kept.remove(&oldest));
        }
        drop(kept);
    }

    /// Drops answers about repositories that no longer exist in memory.
    pub fn sweep(&self) {
        let mut kept = self.lock();
        let is_gone = |(_, kept): &(&Arc<Question>, &CachedAnswer)| kept.repository.strong_count() == 0;
        let gone: Vec<Arc<Question>> =
            kept.by_question.iter().filter(is_gone).map(|(question, _)| question.clone()).collect();
        let dropped: Vec<Option<CachedAnswer>> = gone.iter().map(|question| kept.remove(question)).collect();
        drop(kept);
        drop(dropped);
    }

    /// How many answers there are, and the memory they take.
    pub fn size(&self) -> (usize, usize) {
        let kept = self.lock();
        (kept.by_question.len(), kept.bytes)
    }

    fn lock(&self) -> MutexGuard<'_, Answers> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Question {
    fn new(repository: &Arc<Repository>, text: &[u8]) -> Self {
        Question { repository: Arc::as_ptr(repository).addr(), text: text.to_vec() }
    }

    fn cost(&self, answer: &StoredAnswer) -> usize {
        2 * self.text.len() + answer.bytes() + OVERHEAD_BYTES
    }
}

impl Answers {
    /// The answer, which counts as used now.
    fn take_note(&mut self, question: &Question) -> Option<Arc<StoredAnswer>> {
        let found = self.by_question.get_mut(question)?;
        let question = self.by_use.remove(&found.used)?;
        self.uses += 1;
        found.used = self.uses;
        self.by_use.insert(self.uses, question);
        Some(found.answer.clone())
    }

    fn insert(&mut self, question: Arc<Question>, repository: Weak<Repository>, answer: Arc<StoredAnswer>) {
        self.uses += 1;
        self.bytes += question.cost(&answer);
        self.by_use.insert(self.uses, question.clone());
        self.by_question.insert(question, CachedAnswer { repository, answer, used: self.uses });
    }

    fn remove(&mut self, question: &Question) -> Option<CachedAnswer> {
        let kept = self.by_question.remove(question)?;
        self.by_use.remove(&kept.used);
        self.bytes -= question.cost(&kept.answer);
        Some(kept)
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use packrace_store::OpenOptions;
    use packrace_testkit::{Repo, RepoBuilder, Size};

    use super::*;

    fn opened() -> (Repo, Arc<Repository>) {
        let repo = RepoBuilder::new(Size::Tiny).build();
        let repository = Arc::new(Repository::open(repo.path(), &OpenOptions::default()).unwrap());
        (repo, repository)
    }

    fn stamp(repository: &Repository) -> RefStamp {
        let end = Instant::now() + Duration::from_secs(60);
        loop {
            let stamp = repository.refs().stamped_snapshot(&[]).unwrap().1;
            if stamp.holds() {
                return stamp;
            }
            assert!(Instant::now() < end, "never settled");
            packrace_os::clock::sleep(Duration::from_millis(10));
        }
    }

    fn keep(answers: &RefAdvertisementCache, repository: &Arc<Repository>, question: &str, length: usize) {
        let chunks = vec![Chunk::new(vec![b'x'; length], 0)];
        answers.keep(repository, question.as_bytes(), stamp(repository), chunks);
    }

    fn has(answers: &RefAdvertisementCache, repository: &Arc<Repository>, question: &str) -> bool {
        answers.find(repository, question.as_bytes()).is_some()
    }

    #[test]
    fn nothing_is_kept_by_default() {
        let (_repo, repository) = opened();
        let answers = RefAdvertisementCache::default();
        keep(&answers, &repository, "a", 1);
        assert!(!has(&answers, &repository, "a"));
        assert_eq!(answers.size(), (0, 0));
    }

    #[test]
    fn the_longest_unused_go() {
        let (_repo, repository) = opened();
        let answers = RefAdvertisementCache::new(100_000);
        for question in ["a", "b", "c"] {
            keep(&answers, &repository, question, 22_000);
        }
        assert!(has(&answers, &repository, "a"));
        keep(&answers, &repository, "d", 22_000);
        keep(&answers, &repository, "e", 22_000);
        let found = ["a", "b", "c", "d", "e"].map(|question| has(&answers, &repository, question));
        assert_eq!(found, [true, false, true, true, true]);
        // An answer that is too large leaves the others alone, and so does a question that is too long.
        keep(&answers, &repository, "f", 25_001);
        keep(&answers, &repository, &"q".repeat(MAX_QUESTION_BYTES + 1), 1);
        assert_eq!(answers.size().0, 4);
        assert!(answers.size().1 <= 100_000);
    }

    #[test]
    fn answers_are_of_one_repository_and_its_refs() {
        let ((repo, repository), (_other, other)) = (opened(), opened());
        let answers = RefAdvertisementCache::new(1 << 20);
        keep(&answers, &repository, "a", 10);
        assert!(has(&answers, &repository, "a") && !has(&answers, &other, "a"));
        assert!(!has(&answers, &repository, "b"));
        let again = Arc::new(Repository::open(repo.path(), &OpenOptions::default()).unwrap());
        assert!(!has(&answers, &again, "a"));
        repo.git(&["update-ref", "refs/heads/new", "HEAD"]);
        assert!(!has(&answers, &repository, "a"));
        assert_eq!(answers.size().0, 0);
        keep(&answers, &repository, "a", 10);
        keep(&answers, &other, "a", 10);
        answers.sweep();
        assert_eq!(answers.size().0, 2);
        drop(repository);
        answers.sweep();
        assert_eq!(answers.size().0, 1);
        drop(other);
        answers.sweep();
        assert_eq!(answers.size(), (0, 0));
    }
}
