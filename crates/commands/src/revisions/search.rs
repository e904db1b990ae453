//! Commits found by their messages (gitrevisions, `:/<text>` and `^{/<text>}`).

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet};
use std::ops::ControlFlow;

use packrace_object::ObjectId;
use regex::bytes::{Regex, RegexBuilder};

use super::Revisions;
use crate::call::fatal::Fatal;
use crate::text::message_of;

/// The longest compiled form of an expression.
const MAX_REGEX_BYTES: usize = 1 << 20;

/// An extended regular expression that a message must match, or must not.
struct MessagePattern {
    regex: Regex,
    is_negated: bool,
}

impl MessagePattern {
    /// `None` for what is no expression, and for what begins with a `!` that git keeps for later.
    fn parse(text: &[u8]) -> Option<Self> {
        let (text, is_negated) = match text {
            [b'!', b'-', rest @ ..] => (rest, true),
            [b'!', rest @ ..] if !rest.starts_with(b"!") => return None,
            [b'!', rest @ ..] => (rest, false),
            text => (text, false),
        };
        let text = std::str::from_utf8(text).ok()?;
        let mut builder = RegexBuilder::new(text);
        builder.unicode(false).dot_matches_new_line(true).size_limit(MAX_REGEX_BYTES);
        Some(MessagePattern { regex: builder.build().ok()?, is_negated })
    }

    fn is_met(&self, commit: &[u8]) -> bool {
        self.regex.is_match(message_of(commit)) != self.is_negated
    }
}

impl Revisions<'_> {
    /// The newest commit that any ref or `HEAD` reaches and whose message matches.
    pub(super) fn found_anywhere(&mut self, text: &[u8]) -> Result<Option<ObjectId>, Fatal> {
        let refs = self.repository.refs().snapshot(&[]).map_err(Fatal::new)?;
        let head = refs.resolve(b"HEAD").map_err(Fatal::new)?.map(|head| head.id);
        let mut tips: Vec<ObjectId> = head.into_iter().collect();
        refs.visit(b"refs/", &mut |record| {
            // What a symbolic ref names is a ref of its own.
            tips.extend(record.target.id());
            ControlFlow::Continue(())
        })
        .map_err(Fatal::new)?;
        self.found(tips, text)
    }

    /// The newest commit that these reach and whose message matches; what is no commit counts as none.
    pub(super) fn found(&mut self, tips: Vec<ObjectId>, text: &[u8]) -> Result<Option<ObjectId>, Fatal> {
        let Some(pattern) = MessagePattern::parse(text) else { return Ok(None) };
        let mut seen = HashSet::new();
        // The newest comes out first; of commits of one second, the one that came first.
        let mut waiting = BinaryHeap::new();
        let mut next = tips;
        loop {
            for id in next {
                if let Some(id) = self.peel(id, b"commit")?
                    && seen.insert(id)
                {
                    let content = self.reader.read(&id)?.data;
                    let commit = self.parsed(&id, &content)?;
                    let is_met = pattern.is_met(&content);
                    waiting.push((commit.committer_seconds, Reverse(seen.len()), is_met, id, commit.parents));
                }
            }
            let Some((_, _, is_met, id, parents)) = waiting.pop() else { return Ok(None) };
            if is_met {
                return Ok(Some(id));
            }
            next = parents;
        }
    }
}
