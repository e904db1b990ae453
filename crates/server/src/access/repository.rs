//! What one principal may do with one repository.

use std::sync::Arc;

use super::{AccessPolicy, Ask, Decision, Principal, RefChange};

/// Why a principal may not do something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Denied {
    /// Credentials are needed, or other ones.
    Unauthenticated,
    /// Nobody is to know whether the repository exists.
    Hidden,
    /// For this reason.
    Forbidden(String),
}

/// A principal in front of a repository.
#[derive(Debug, Clone)]
pub struct RepositoryAccess {
    policy: Arc<dyn AccessPolicy>,
    principal: Principal,
    /// How the client calls the repository, and where it lies. What is forbidden at one of them is forbidden.
    paths: Vec<Vec<u8>>,
}

impl RepositoryAccess {
    /// Of `principal` to the repository at `path`, relative to the served folder.
    pub fn new(policy: Arc<dyn AccessPolicy>, principal: Principal, path: Vec<u8>) -> Self {
        RepositoryAccess { policy, principal, paths: vec![path] }
    }

    /// The repository lies at this path, if it has one.
    pub(crate) fn also_at(&mut self, path: Option<Vec<u8>>) {
        self.paths.extend(path.filter(|path| !self.paths.contains(path)));
    }

    /// Whether there is anything to ask.
    pub(crate) fn has_rules(&self) -> bool {
        self.policy.has_rules()
    }

    /// Who it is.
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
