//! What atoms ask for while formats and sort keys are read.

/// The commits that atoms name, and where the output goes.
#[derive(Debug, Default)]
pub struct ParseContext {
    /// Whether the output is a terminal, for dates of the form `auto:`.
    pub is_terminal: bool,
    /// What `%(ahead-behind:…)` counts against.
    pub counted: Vec<Vec<u8>>,
    /// What `%(is-base:…)` asks of, and whether it does as `%(*is-base:…)`: git looks for each of both.
    pub derived: Vec<(Vec<u8>, bool)>,
}

impl ParseContext {
    /// Whether no commit is named.
    pub fn is_empty(&self) -> bool {
        self.counted.is_empty() && self.derived.is_empty()
    }

    /// The number of a commit that refs are counted against.
    pub fn count_against(&mut self, name: &[u8]) -> usize {
        self.counted.push(name.to_vec());
        self.counted.len() - 1
    }

    /// The number of a commit whose base is asked for, the same for the same name.
    pub fn derive_from(&mut self, name: &[u8], is_deref: bool) -> usize {
        let wanted = (name.to_vec(), is_deref);
        let known = self.derived.iter().position(|other| *other == wanted);
        known.unwrap_or_else(|| {
            self.derived.push(wanted);
            self.derived.len() - 1
        })
    }
}
