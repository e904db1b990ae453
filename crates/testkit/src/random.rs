/// A seeded generator of pseudo-random numbers (SplitMix64): the same seed gives the same repository everywhere.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// A generator whose sequence depends on `seed` only.
    pub fn new(seed: u64) -> Self {
        Random(seed)
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`, which is at least 1; the bias of the remainder does not matter here.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.next_u64() % bound.max(1) as u64) as usize
    }

    /// True for one of `n` calls on average.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// Incompressible bytes.
    pub fn bytes(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(length + 8);
        while bytes.len() < length {
            bytes.extend_from_slice(&self.next_u64().to_le_bytes());
        }
        bytes.truncate(length);
        bytes
    }

    /// A line of text that compresses and deltifies like source code.
    pub fn line(&mut self) -> String {
        const WORDS: [&str; 16] = [
            "object", "tree", "commit", "fn", "return", "let", "walk", "pack", "index", "offset", "delta",
            "tag", "ref", "if", "else", "match",
        ];
        let mut line = String::new();
        for _ in 0..3 + self.below(6) {
            line.push_str(WORDS[self.below(WORDS.len())]);
            line.push(' ');
        }
        line.push_str(&format!("{:x}\n", self.next_u64() & 0xfff));
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_one_sequence() {
        // The reference implementation's first outputs for seed 0.
        let mut random = Random::new(0);
        assert_eq!(random.next_u64(), 0xe220_a839_7b1d_cdaf);
        assert_eq!(random.next_u64(), 0x6e78_9e6a_a1b9_65f4);
        assert_eq!(Random::new(7).bytes(13), Random::new(7).bytes(13));
    }
}
