//! What one principal may do with one repository.

use std::sync::Arc;

use super::{AccessPolicy, Ask, Decision, Principal, RefChange};

/// Why a principal may not do something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Denied {
    /// Credentials are necessary, or other ones.
    Unauthenticated,
    /// The client must not learn whether the repository exists.
    Hidden,
    /// Forbidden, for this reason.
    Forbidden(String),
}

/// The access of a principal to a repository.
#[derive(Debug, Clone)]
pub struct RepositoryAccess {
    policy: Arc<dyn AccessPolicy>,
    principal: Principal,
    /// The client's name for the repository, and its real path. What is forbidden for one of them is
    /// forbidden.
    paths: Vec<Vec<u8>>,
}

impl RepositoryAccess {
    /// Access of `principal` to the repository at `path`, relative to the served folder.
    pub fn new(policy: Arc<dyn AccessPolicy>, principal: Principal, path: Vec<u8>) -> Self {
        RepositoryAccess { policy, principal, paths: vec![path] }
    }

    /// Adds the real path of the repository, if it has one.
    pub(crate) fn also_at(&mut self, path: Option<Vec<u8>>) {
        self.paths.extend(path.filter(|path| !self.paths.contains(path)));
    }

    /// Whether there are rules.
    pub(crate) fn has_rules(&self) -> bool {
        self.policy.has_rules()
    }

    /// The principal that asks.
    pub fn principal(&self) -> &Principal {
        &self.principal
    }

    fn decide(&self, ask: Ask<'_>) -> Decision {
        let mut decisions = self.paths.iter().map(|path| self.policy.decide(&self.principal, path, ask));
        decisions.find(|decision| *decision != Decision::Allow).unwrap_or(Decision::Allow)
    }

    /// Refuses what the policy does not allow.
    pub(crate) fn check(&self, ask: Ask<'_>) -> Result<(), Denied> {
        match self.decide(ask) {
            Decision::Allow => Ok(()),
            Decision::Authenticate => Err(Denied::Unauthenticated),
            Decision::Hide => Err(Denied::Hidden),
            Decision::Forbid(why) => Err(Denied::Forbidden(why)),
        }
    }

    /// Why a ref may not be changed; `None` if it may.
    pub(crate) fn refusal(&self, change: RefChange<'_>) -> Option<String> {
        match self.decide(Ask::Ref(change)) {
            Decision::Allow => None,
            Decision::Forbid(why) => Some(why),
            Decision::Authenticate | Decision::Hide => Some("forbidden by the access rules".to_owned()),
        }
    }
}
