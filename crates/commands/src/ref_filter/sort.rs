//! Sorting by several keys: the last one is the primary key, and the name breaks ties.

use std::cmp::Ordering;

use packrace_store::Config;

use super::atom::{Atom, Field, NameForm};
use super::context::ParseContext;
use super::format::Format;
use super::version::Versions;
use crate::call::fatal::Fatal;

/// One `--sort`.
#[derive(Debug)]
pub struct SortKey {
    pub atom: Atom,
    is_reverse: bool,
    is_version: bool,
}

/// The value of a sort key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyValue {
    Number(u64),
    Bytes(Vec<u8>),
}

impl SortKey {
    /// Reads `[-][version:|v:]<atom>`.
    pub fn parse(text: &[u8], context: &mut ParseContext) -> Result<Self, Fatal> {
        let (is_reverse, text) = match text.strip_prefix(b"-") {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let version = text.strip_prefix(b"version:").or_else(|| text.strip_prefix(b"v:"));
        let text = version.unwrap_or(text);
        let atom = match text == b"rest" || Format::is_control(text)? {
            // Git accepts these, with equal values for all refs.
            true => Atom { field: Field::Nothing, is_deref: false },
            false => Atom::parse(text, context)?,
        };
        Ok(SortKey { atom, is_reverse, is_version: version.is_some() })
    }

    /// Whether this is the default order.
    pub fn is_plain_name(&self) -> bool {
        self.atom.field == Field::RefName(NameForm::Full)
            && !self.atom.is_deref
            && !self.is_reverse
            && !self.is_version
    }
}

/// The sort keys.
#[derive(Debug)]
pub struct Sorting {
    pub keys: Vec<SortKey>,
    pub folds_case: bool,
    versions: Versions,
}

impl Sorting {
    pub fn new(keys: Vec<SortKey>, folds_case: bool, config: &Config) -> Self {
        let suffixes = match config.strings("versionsort.suffix") {
            suffixes if suffixes.is_empty() => config.strings("versionsort.prereleaseSuffix"),
            suffixes => suffixes,
        };
        Sorting { keys, folds_case, versions: Versions { suffixes } }
    }

    /// Whether this is the stored order of refs.
    pub fn is_stored_order(&self) -> bool {
        !self.folds_case && self.keys.iter().all(SortKey::is_plain_name)
    }

    /// Compares two refs by the values of all keys, then by name.
    pub fn compare(&self, a: (&[KeyValue], &[u8]), b: (&[KeyValue], &[u8])) -> Ordering {
        let keys = self.keys.iter().zip(a.0.iter().zip(b.0)).rev();
        for (key, (of_a, of_b)) in keys {
            let order = self.compare_values(key, of_a, of_b);
            let order = if key.is_reverse { order.reverse() } else { order };
            if order.is_ne() {
                return order;
            }
        }
        self.compare_bytes(a.1, b.1)
    }

    fn compare_values(&self, key: &SortKey, a: &KeyValue, b: &KeyValue) -> Ordering {
        match (a, b) {
            (KeyValue::Number(a), KeyValue::Number(b)) => a.cmp(b),
            (KeyValue::Bytes(a), KeyValue::Bytes(b)) if key.is_version => self.versions.compare(a, b),
            (KeyValue::Bytes(a), KeyValue::Bytes(b)) => self.compare_bytes(a, b),
            (KeyValue::Number(_), KeyValue::Bytes(_)) => Ordering::Less,
            (KeyValue::Bytes(_), KeyValue::Number(_)) => Ordering::Greater,
        }
    }

    fn compare_bytes(&self, a: &[u8], b: &[u8]) -> Ordering {
        if !self.folds_case {
            return a.cmp(b);
        }
        let fold = |text: &'_ [u8]| text.iter().map(u8::to_ascii_lowercase).collect::<Vec<u8>>();
        fold(a).cmp(&fold(b))
    }
}

/// Merge sort, lower half and upper half: an order with cycles, which version suffixes can cause, gives git's
/// result instead of a panic.
pub fn sort<T: Clone>(items: &mut [T], compare: &mut dyn FnMut(&T, &T) -> Ordering) {
    if items.len() < 2 {
        return;
    }
    let middle = items.len() / 2;
    sort(&mut items[..middle], compare);
    sort(&mut items[middle..], compare);
    let (low, high) = (items[..middle].to_vec(), items[middle..].to_vec());
    let (mut low, mut high) = (low.into_iter().peekable(), high.into_iter().peekable());
    for slot in items {
        let is_low = match (low.peek(), high.peek()) {
            (Some(low), Some(high)) => compare(low, high).is_le(),
            (low, _) => low.is_some(),
        };
        if let Some(item) = if is_low { low.next() } else { high.next() } {
            *slot = item;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sorted_also_where_the_order_has_circles() {
        let mut items = vec![3, 1, 2, 9, 4, 1];
        sort(&mut items, &mut i32::cmp);
        assert_eq!(items, [1, 1, 2, 3, 4, 9]);
        let mut items = vec![0, 1, 2, 0, 1, 2];
        sort(&mut items, &mut |a, b| if (a + 1) % 3 == *b { Ordering::Less } else { Ordering::Greater });
        items.sort_unstable();
        assert_eq!(items, [0, 0, 1, 1, 2, 2]);
    }
}
