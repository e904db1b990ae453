use packrace_object::Kind;

use super::Filter;

/// What all filters of a request say together: an object is kept if every rule keeps it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Rules {
    /// Whether objects of a kind are kept, by its number.
    kinds: [bool; 5],
    /// Blobs of so many bytes or more are left out.
    pub(super) blob_limit: Option<u64>,
    /// Trees and blobs at this depth or deeper are left out. A root tree is at depth 0.
    pub(super) depth: Option<u64>,
}

impl Rules {
    pub(crate) fn of(filter: &Filter) -> Rules {
        let mut rules = Rules { kinds: [true; 5], blob_limit: None, depth: None };
        for filter in filter.all() {
            rules.add(filter);
        }
        if !rules.keeps(Kind::Blob) && !rules.keeps(Kind::Tree) {
            rules.depth = Some(0);
        }
        if rules.depth == Some(0) {
            (rules.kinds[Kind::Tree as usize], rules.kinds[Kind::Blob as usize]) = (false, false);
        }
        rules
    }

    fn add(&mut self, filter: &Filter) {
        match filter {
            Filter::BlobNone => self.kinds[Kind::Blob as usize] = false,
            Filter::BlobLimit(0) => self.kinds[Kind::Blob as usize] = false,
            Filter::BlobLimit(bytes) => {
                self.blob_limit = Some(self.blob_limit.map_or(*bytes, |limit| limit.min(*bytes)));
            }
            Filter::Tree(depth) => self.depth = Some(self.depth.map_or(*depth, |least| least.min(*depth))),
            Filter::ObjectType(kind) => {
                let others = Kind::ALL.into_iter().filter(|other| other != kind);
                others.for_each(|other| self.kinds[other as usize] = false);
            }
            Filter::Sparse(_) | Filter::Combine(_) => {}
        }
    }

    pub(super) fn keeps(&self, kind: Kind) -> bool {
        self.kinds[kind as usize]
    }

    /// Whether the kind of every object has to be looked at.
    pub(super) fn is_about_kinds(&self) -> bool {
        self.blob_limit.is_some() || Kind::ALL.iter().any(|kind| !self.keeps(*kind))
    }
}
