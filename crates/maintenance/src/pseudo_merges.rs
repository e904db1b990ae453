//! The groups of refs that get bitmaps together (git-config, `bitmapPseudoMerge`).

use std::collections::{BTreeMap, BTreeSet};

use packrace_object::ObjectId;
use packrace_pack::maintain::bitmap_build::{PseudoMergeGroup, PseudoMergeRule};
use packrace_pack::ref_pattern::RefPattern;
use packrace_store::Config;
use packrace_store::expiry::expiry;

use crate::error::Error;

/// The most patterns; each is compared with all refs.
const MAX_PATTERNS: usize = 256;

/// The full names of refs, with what they point at in the end.
pub(crate) type NamedTips = Vec<(Vec<u8>, ObjectId)>;

/// The configured groups with their refs: those of one pattern are together, sorted by what it captures.
pub(crate) fn groups(
    config: &Config,
    all_refs: impl FnOnce() -> Result<NamedTips, Error>,
) -> Result<Vec<PseudoMergeGroup>, Error> {
    let mut names = Vec::new();
    let mut known = BTreeSet::new();
    for (name, _, _) in config.subsections("bitmappseudomerge") {
        if known.insert(name) {
            names.push(String::from_utf8_lossy(name).into_owned());
        }
    }
    if names.is_empty() {
        return Ok(Vec::new());
    }
    if names.len() > MAX_PATTERNS {
        return Err(Error::PseudoMerges(format!("more than {MAX_PATTERNS} pseudo-merge groups")));
    }
    let refs = all_refs()?;
    let mut groups = Vec::new();
    for name in names {
        let threshold = moment(config, &format!("bitmappseudomerge.{name}.threshold"), "1.week.ago")?;
        let stable = moment(config, &format!("bitmappseudomerge.{name}.stablethreshold"), "1.month.ago")?;
        let pattern = pattern(config, &name)?;
        let rule = rule(config, &name, threshold, stable)?;
        let mut by_captures: BTreeMap<Vec<u8>, Vec<ObjectId>> = BTreeMap::new();
        for (name, id) in &refs {
            if let Some(captures) = pattern.group_of(name) {
                by_captures.entry(captures).or_default().push(*id);
            }
        }
        groups.extend(by_captures.into_values().map(|tips| PseudoMergeGroup { rule, tips }));
    }
    Ok(groups)
}

fn pattern(config: &Config, name: &str) -> Result<RefPattern, Error> {
    let missing = || Error::PseudoMerges(format!("pseudo-merge group '{name}' missing required pattern"));
    let key = format!("bitmappseudomerge.{name}.pattern");
    config.need_values(&[&key])?;
    let text = config.string(&key).ok_or_else(missing)?;
    RefPattern::parse(&text).map_err(|_| {
        let shown = String::from_utf8_lossy(&text);
        Error::PseudoMerges(format!("failed to load pseudo-merge regex for {name}.pattern: '^{shown}'"))
    })
}

fn rule(config: &Config, name: &str, threshold: i64, stable: i64) -> Result<PseudoMergeRule, Error> {
    if threshold < stable {
        let text = format!("pseudo-merge group '{name}' has unstable threshold before stable one");
        return Err(Error::PseudoMerges(text));
    }
    let mut rule = PseudoMergeRule::new(threshold, stable);
    let key = format!("bitmappseudomerge.{name}.decay");
    if let Some(decay) = real(config, &key)? {
        take(&mut rule.decay, (decay >= 0.0).then_some(decay), &key, "be non-negative");
    }
    let key = format!("bitmappseudomerge.{name}.samplerate");
    if let Some(rate) = real(config, &key)? {
        let valid = (rate > 0.0 && rate <= 1.0).then_some(rate);
        take(&mut rule.sample_rate, valid, &key, "be between 0 (exclusive) and 1");
    }
    let key = format!("bitmappseudomerge.{name}.maxmerges");
    if let Some(most) = config.integer(&key)? {
        take(&mut rule.max_merges, u32::try_from(most).ok(), &key, "be non-negative");
    }
    let key = format!("bitmappseudomerge.{name}.stablesize");
    if let Some(size) = config.integer(&key)? {
        let valid = u32::try_from(size).ok().filter(|size| *size > 0);
        take(&mut rule.stable_size, valid, &key, "be positive");
    }
    Ok(rule)
}

/// Replaces the default by a valid value; otherwise says what it must be.
fn take<T>(default: &mut T, valid: Option<T>, key: &str, must: &str) {
    match valid {
        Some(value) => *default = value,
        None => tracing::warn!("{key} must {must}, using default"),
    }
}

fn moment(config: &Config, key: &str, default: &str) -> Result<i64, Error> {
    let wrong = || Error::Moment { key: key.to_owned(), value: default.to_owned() };
    config.expiry(key)?.or_else(|| expiry(default)).ok_or_else(wrong)
}

fn real(config: &Config, key: &str) -> Result<Option<f64>, Error> {
    let Some(text) = config.string(key) else { return Ok(None) };
    let text = String::from_utf8_lossy(&text).into_owned();
    let number = text.trim().parse().ok().filter(|number: &f64| number.is_finite());
    let bad = || Error::PseudoMerges(format!("bad numeric config value '{text}' for '{key}': invalid unit"));
    number.map(Some).ok_or_else(bad)
}
