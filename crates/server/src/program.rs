//! What a program that embeds the server supplies beside access: names of repositories, and hooks that are functions.

use std::fmt::{Debug, Formatter};
use std::path::PathBuf;
use std::sync::Arc;

use packrace_object::ObjectId;
use packrace_store::Repository;

/// The functions of a program that embeds the server. `serve` has none.
#[derive(Debug, Clone, Default)]
pub struct ProgramHooks {
    /// Where repositories are; `None`: at the paths that requests name.
    pub repository_paths: Option<Arc<dyn RepositoryPaths>>,
    /// Sees pushes.
    pub receive_hook: Option<Arc<dyn ReceiveHook>>,
}

/// Where repositories are, for a program whose names for them are not paths. Called for every request, on its thread.
pub trait RepositoryPaths: Debug + Send + Sync {
    /// The path of a repository below the folder, such as `a1/b2/7.git`, for a name without slashes at its ends; `None` if there is
    /// none. Links and `..` lead nowhere outside of the folder.
    fn path_of(&self, name: &[u8]) -> Option<PathBuf>;
}

/// Sees every push. Called on the thread of the push, beside hooks that are programs: `pre_receive` before them, `post_receive`
/// before them too.
pub trait ReceiveHook: Debug + Send + Sync {
    /// Called once the objects are complete and checked, before any ref changes. The error refuses the whole push; the pusher sees its words.
    /// A panic refuses the push, too, and keeps nothing of it.
    fn pre_receive(&self, push: &ReceivedPush<'_>) -> Result<(), String>;

    /// Called after refs have changed, and after the journal has recorded that, with those that did. Not called if the process is killed
    /// in between: who must miss nothing reads the journal.
    fn post_receive(&self, push: &ReceivedPush<'_>);
}

/// A push, as a [`ReceiveHook`] sees it.
pub struct ReceivedPush<'a> {
    /// The pusher's name; `None` for anonymous clients.
    pub user: Option<&'a str>,
    /// The repository. In `pre_receive` its snapshots have the new objects too; its refs are the old ones.
    pub repository: &'a Repository,
    /// The refs, in the order of the push.
    pub refs: &'a [ReceivedRef<'a>],
    /// Push options (`git push -o`).
    pub options: &'a [Vec<u8>],
    /// Sends text to the pusher.
    pub(crate) messages: &'a dyn Fn(&[u8]),
}

/// A ref of a push.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReceivedRef<'a> {
    /// The full name.
    pub name: &'a [u8],
    /// The old value; zeros if the ref is new.
    pub old: ObjectId,
    /// The new value; zeros if the ref is deleted.
    pub new: ObjectId,
}

impl Debug for ReceivedPush<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReceivedPush")
            .field("user", &self.user)
            .field("refs", &self.refs)
            .finish_non_exhaustive()
    }
}

impl ReceivedPush<'_> {
    /// Sends text to the pusher, who sees it as `remote: …`.
    pub fn say(&self, text: &str) {
        (self.messages)(text.as_bytes());
    }
}
