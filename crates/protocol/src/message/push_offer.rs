//! The first message of a receiving server: refs as for a fetch, with other capabilities
//! (gitprotocol-capabilities), in git's observed order.

use packrace_object::HashKind;

/// What a receiving service offers. Plain data.
#[derive(Debug, Clone)]
pub struct PushOffer {
    /// The value of `agent=`.
    pub agent: String,
    /// The value of `session-id=`, if it is sent.
    pub session_id: Option<String>,
    /// The hash of object names.
    pub hash: HashKind,
    /// `atomic`: all refs or none.
    pub atomic: bool,
    /// `ofs-delta`: deltas may use offsets for their bases.
    pub ofs_delta: bool,
    /// `push-options`: strings for the hooks.
    pub push_options: bool,
    /// `push-cert`: signed pushes, which must contain this nonce.
    pub certificate_nonce: Option<String>,
}

impl PushOffer {
    /// The capabilities, for the first line.
    pub fn capabilities(&self) -> Vec<u8> {
        let mut list = "report-status report-status-v2 delete-refs side-band-64k quiet".to_owned();
        let mut add = |word: &str| {
            list.push(' ');
            list.push_str(word);
        };
        if self.atomic {
            add("atomic");
        }
        if self.ofs_delta {
            add("ofs-delta");
        }
        if let Some(nonce) = &self.certificate_nonce {
            add(&format!("push-cert={nonce}"));
        }
        if self.push_options {
            add("push-options");
        }
        if let Some(session_id) = &self.session_id {
            add(&format!("session-id={session_id}"));
        }
        add(&format!("object-format={}", self.hash));
        add(&format!("agent={}", self.agent));
        list.into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(offer: &PushOffer, expect: &str) {
        let words = "report-status report-status-v2 delete-refs side-band-64k quiet";
        assert_eq!(String::from_utf8(offer.capabilities()).unwrap(), format!("{words} {expect}"));
    }

    #[test]
    fn in_the_order_of_git() {
        let plain = PushOffer {
            agent: "git/2.47.3".into(),
            session_id: None,
            hash: HashKind::Sha1,
            atomic: true,
            ofs_delta: true,
            push_options: false,
            certificate_nonce: None,
        };
        check(&plain, "atomic ofs-delta object-format=sha1 agent=git/2.47.3");
        let full = PushOffer {
            session_id: Some("id".into()),
            push_options: true,
            certificate_nonce: Some("1-ab".into()),
            ..plain.clone()
        };
        let words = "atomic ofs-delta push-cert=1-ab push-options session-id=id object-format=sha1";
        check(&full, &format!("{words} agent=git/2.47.3"));
        let bare = PushOffer { atomic: false, ofs_delta: false, hash: HashKind::Sha256, ..plain };
        check(&bare, "object-format=sha256 agent=git/2.47.3");
    }
}
