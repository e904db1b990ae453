//! Upstream and push targets of branches, from the configuration (git-config, `branch.*`, `remote.*`,
//! `push.default`; git-fetch, `<refspec>`).

use packrace_store::refs::is_good_name;
use packrace_store::{Config, Repository};

use crate::call::fatal::Fatal;

/// The push remote of a branch without configuration.
const DEFAULT_REMOTE: &[u8] = b"origin";

/// Tracking configuration of branches.
pub struct Tracking<'a> {
    config: &'a Config,
    push_default: PushDefault,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PushDefault {
    Nothing,
    /// `current` or `matching`.
    SameName,
    Upstream,
    Simple,
}

/// Why a branch has no upstream or push target here.
#[derive(Debug, PartialEq, Eq)]
pub enum NoTarget {
    /// No upstream is configured.
    NoUpstream,
    /// Nothing fetches the upstream, the ref `there` of its remote.
    UpstreamUntracked { there: Vec<u8> },
    /// `push.default` is `nothing`.
    PushOff,
    /// No refspec for pushing to the remote has the branch.
    NotPushed { remote: Vec<u8> },
    /// Nothing fetches what is pushed to, the ref `there` of the remote.
    PushUntracked { there: Vec<u8>, remote: Vec<u8> },
    /// `push.default` is `simple`, and the branch would be pushed elsewhere than to its upstream.
    NotSimple,
}

impl NoTarget {
    /// What git says of the branch.
    pub fn words(&self, branch: &[u8]) -> String {
        let shown = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
        match self {
            NoTarget::NoUpstream => format!("no upstream configured for branch '{}'", shown(branch)),
            NoTarget::UpstreamUntracked { there } => {
                format!("upstream branch '{}' not stored as a remote-tracking branch", shown(there))
            }
            NoTarget::PushOff => "push has no destination (push.default is 'nothing')".to_owned(),
            NoTarget::NotPushed { remote } => {
                format!("push refspecs for '{}' do not include '{}'", shown(remote), shown(branch))
            }
            NoTarget::PushUntracked { there, remote } => {
                let (there, remote) = (shown(there), shown(remote));
                format!("push destination '{there}' on remote '{remote}' has no local tracking branch")
            }
            NoTarget::NotSimple => "cannot resolve 'simple' push to a single destination".to_owned(),
        }
    }
}

impl<'a> Tracking<'a> {
    pub fn new(repository: &'a Repository) -> Result<Self, Fatal> {
        let config = repository.config();
        let push_default = match config.string("push.default").as_deref() {
            None | Some(b"simple") => PushDefault::Simple,
            Some(b"nothing") => PushDefault::Nothing,
            Some(b"matching" | b"current") => PushDefault::SameName,
            Some(b"upstream" | b"tracking") => PushDefault::Upstream,
            Some(other) => {
                let text = String::from_utf8_lossy(other);
                let lines = format!(
                    "error: malformed value for push.default: {text}\n\
                     error: must be one of nothing, matching, simple, upstream or current\n"
                );
                return Err(Fatal::new("bad config variable 'push.default'").after(lines));
            }
        };
        // Of any remote, as in git.
        for (_, key, value) in config.subsections("remote") {
            if key == b"fetch"
                && let Some(text) = value.filter(|text| !Refspec::is_good(text))
            {
                return Err(Fatal::new(format!("invalid refspec '{}'", String::from_utf8_lossy(text))));
            }
        }
        Ok(Tracking { config, push_default })
    }

    /// The configured remote of a branch.
    pub fn remote_name(&self, branch: &[u8], is_push: bool) -> Option<Vec<u8>> {
        let own = || self.of_branch(branch, "remote");
        match is_push {
            true => {
                let named = self.of_branch(branch, "pushRemote");
                named.or_else(|| self.config.string("remote.pushDefault")).or_else(own)
            }
            false => own(),
        }
    }

    /// The ref on that remote.
    pub fn remote_ref(&self, branch: &[u8], is_push: bool) -> Option<Vec<u8>> {
        match is_push {
            false => {
                self.of_branch(branch, "remote")?;
                self.of_branch_first(branch, "merge")
            }
            true => {
                let remote = self.push_remote(branch);
                let full = [b"refs/heads/", branch].concat();
                self.refspecs(&remote, "push").iter().find_map(|spec| spec.map(&full))
            }
        }
    }

    /// The local tracking ref of a branch's upstream or push target, or why there is none.
    pub fn target(&self, branch: &[u8], is_push: bool) -> Result<Result<Vec<u8>, NoTarget>, Fatal> {
        if !is_push {
            return Ok(self.upstream(branch));
        }
        let remote = self.push_remote(branch);
        let full = [b"refs/heads/", branch].concat();
        let tracked = |there: Vec<u8>| {
            let found = self.tracked(&remote, &there);
            found.ok_or_else(|| NoTarget::PushUntracked { there, remote: remote.clone() })
        };
        if self.is_mirror(&remote)? {
            return Ok(tracked(full));
        }
        // One without a colon maps no ref, but it counts.
        if !self.all("remote", &remote, "push").is_empty() {
            return Ok(match self.remote_ref(branch, true) {
                Some(there) => tracked(there),
                None => Err(NoTarget::NotPushed { remote }),
            });
        }
        Ok(match self.push_default {
            PushDefault::Nothing => Err(NoTarget::PushOff),
            PushDefault::SameName => tracked(full),
            PushDefault::Upstream => self.upstream(branch),
            PushDefault::Simple => self.upstream(branch).and_then(|upstream| match tracked(full)? {
                same if same == upstream => Ok(same),
                _ => Err(NoTarget::NotSimple),
            }),
        })
    }

    fn upstream(&self, branch: &[u8]) -> Result<Vec<u8>, NoTarget> {
        let remote = self.of_branch(branch, "remote").ok_or(NoTarget::NoUpstream)?;
        let merge = self.of_branch_first(branch, "merge").ok_or(NoTarget::NoUpstream)?;
        if remote == b"." {
            return Ok(merge);
        }
        self.tracked(&remote, &merge).ok_or(NoTarget::UpstreamUntracked { there: merge })
    }

    fn push_remote(&self, branch: &[u8]) -> Vec<u8> {
        self.remote_name(branch, true).unwrap_or_else(|| DEFAULT_REMOTE.to_vec())
    }

    /// The local ref into which a remote's ref is fetched.
    fn tracked(&self, remote: &[u8], name: &[u8]) -> Option<Vec<u8>> {
        self.refspecs(remote, "fetch").iter().find_map(|spec| spec.map(name))
    }

    fn is_mirror(&self, remote: &[u8]) -> Result<bool, Fatal> {
        match std::str::from_utf8(remote) {
            Ok(remote) => Ok(self.config.boolean(&format!("remote.{remote}.mirror"))?.unwrap_or(false)),
            Err(_) => Ok(false),
        }
    }

    fn refspecs(&self, remote: &[u8], key: &str) -> Vec<Refspec> {
        let values = self.all("remote", remote, key);
        values.iter().filter_map(|text| Refspec::parse(text)).collect()
    }

    fn of_branch(&self, branch: &[u8], key: &str) -> Option<Vec<u8>> {
        self.all("branch", branch, key).pop()
    }

    fn of_branch_first(&self, branch: &[u8], key: &str) -> Option<Vec<u8>> {
        self.all("branch", branch, key).into_iter().next()
    }

    fn all(&self, section: &str, name: &[u8], key: &str) -> Vec<Vec<u8>> {
        // Names in configuration files may also be non-UTF-8; those are not found.
        match std::str::from_utf8(name) {
            Ok(name) => self.config.strings(&format!("{section}.{name}.{key}")),
            Err(_) => Vec::new(),
        }
    }
}

/// `[+]<src>:<dst>`, possibly with a `*` on both sides.
#[derive(Debug, PartialEq, Eq)]
struct Refspec {
    from: Vec<u8>,
    to: Vec<u8>,
}

impl Refspec {
    fn parse(text: &[u8]) -> Option<Self> {
        let text = text.strip_prefix(b"+").unwrap_or(text);
        let at = text.iter().position(|byte| *byte == b':')?;
        let (from, to) = (&text[..at], &text[at + 1..]);
        let is_good = !from.is_empty() && !to.is_empty() && !from.starts_with(b"^");
        is_good.then(|| Refspec { from: from.to_vec(), to: to.to_vec() })
    }

    /// Whether git accepts this for fetching.
    fn is_good(text: &[u8]) -> bool {
        let stars = |text: &[u8]| text.iter().filter(|byte| **byte == b'*').count();
        let is_name = |text: &[u8]| {
            let plain: Vec<u8> = text.iter().map(|byte| if *byte == b'*' { b'x' } else { *byte }).collect();
            stars(text) <= 1 && is_good_name(&[b"refs/", plain.as_slice()].concat())
        };
        if let Some(text) = text.strip_prefix(b"^") {
            let is_id = matches!(text.len(), 40 | 64) && text.iter().all(u8::is_ascii_hexdigit);
            return is_name(text) && !is_id;
        }
        let text = text.strip_prefix(b"+").unwrap_or(text);
        let at = text.iter().position(|byte| *byte == b':');
        let (from, to) = at.map_or((text, &b""[..]), |at| (&text[..at], &text[at + 1..]));
        let is_side = |side: &[u8]| side.is_empty() || is_name(side);
        is_side(from) && is_side(to) && stars(from) == stars(to)
    }

    /// The destination of a ref.
    fn map(&self, name: &[u8]) -> Option<Vec<u8>> {
        let star = |text: &[u8]| text.iter().position(|byte| *byte == b'*');
        match (star(&self.from), star(&self.to)) {
            (None, None) => (self.from == name).then(|| self.to.clone()),
            (Some(from), Some(to)) => {
                let middle = name.strip_prefix(&self.from[..from])?.strip_suffix(&self.from[from + 1..])?;
                Some([&self.to[..to], middle, &self.to[to + 1..]].concat())
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refspecs() {
        let check = |spec: &str, name: &str, expect: Option<&str>| {
            let found = Refspec::parse(spec.as_bytes()).and_then(|spec| spec.map(name.as_bytes()));
            assert_eq!(found.as_deref(), expect.map(str::as_bytes), "{spec} {name}");
        };
        check("+refs/heads/*:refs/remotes/o/*", "refs/heads/a/b", Some("refs/remotes/o/a/b"));
        check("refs/heads/a*z:refs/x/*y", "refs/heads/abcz", Some("refs/x/bcy"));
        check("refs/heads/main:refs/x", "refs/heads/main", Some("refs/x"));
        check("refs/heads/main:refs/x", "refs/heads/main2", None);
        check("refs/heads/*:refs/x", "refs/heads/main", None);
        check("^refs/heads/main", "refs/heads/main", None);
        check("refs/heads/main", "refs/heads/main", None);
    }

    #[test]
    fn refspecs_for_fetching() {
        for good in ["", "+", ":", ":x", "x:", "bad", "HEAD", "@", "^x", "^a*", "*:*", "+a*b:c*", "-x:y"] {
            assert!(Refspec::is_good(good.as_bytes()), "{good}");
        }
        for bad in ["a:b:c", "a b", "a*", "a*:b", "a:*", "a*b*:c*d*", "a..b:c", "/x", "x/", "^", "^a:b"] {
            assert!(!Refspec::is_good(bad.as_bytes()), "{bad}");
        }
        assert!(!Refspec::is_good(format!("^{}", "1".repeat(40)).as_bytes()));
    }
}
