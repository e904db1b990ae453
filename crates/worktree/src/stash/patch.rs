//! Applies the changes between two contents to a third, as `git apply` does with a patch.

use crate::difference::{Hunk, hunks};

/// The number, from 1, of the first line of a hunk in the old content that does not match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Misfit(pub usize);

/// Why changes do not apply to the index or the work tree, as lines for standard error; nothing was changed.
#[derive(Debug)]
pub struct PatchFailed(pub Vec<String>);

/// Git's lines about a file where the changes from this line on do not apply.
pub(super) fn does_not_apply(path: &str, misfit: Misfit) -> PatchFailed {
    PatchFailed(vec![
        format!("error: patch failed: {path}:{}", misfit.0),
        format!("error: {path}: patch does not apply"),
    ])
}

/// Applies the changes from `old` to `new` to `target`, where as many lines of context around them must be the same.
pub fn apply(old: &[u8], new: &[u8], target: &[u8], context: usize) -> Result<Vec<u8>, Misfit> {
    if target == old {
        return Ok(new.to_vec());
    }
    let is_binary = |content: &[u8]| content.contains(&0);
    if is_binary(old) || is_binary(new) {
        return Err(Misfit(0));
    }
    let (old_lines, new_lines, target_lines) = (lines(old), lines(new), lines(target));
    let (mut result, mut done, mut offset) = (Vec::with_capacity(target.len()), 0, 0isize);
    for hunk in hunks(old, new, old_lines.len(), context) {
        let wanted = &old_lines[hunk.old.clone()];
        let expected = hunk.old.start as isize + offset;
        let at = find(&target_lines, wanted, expected, done, &hunk).ok_or(Misfit(hunk.old.start + 1))?;
        offset = at as isize - hunk.old.start as isize;
        result.extend(target_lines[done..at].iter().flat_map(|line| line.iter().copied()));
        result.extend(new_lines[hunk.new.clone()].iter().flat_map(|line| line.iter().copied()));
        done = at + wanted.len();
    }
    result.extend(target_lines[done..].iter().flat_map(|line| line.iter().copied()));
    Ok(result)
}

/// Lines with their line ends.
fn lines(content: &[u8]) -> Vec<&[u8]> {
    content.split_inclusive(|byte| *byte == b'\n').collect()
}

/// The position of these lines nearest to the expected one. A hunk at the start or the end of the old content
/// must match there.
fn find(target: &[&[u8]], wanted: &[&[u8]], expected: isize, from: usize, hunk: &Hunk) -> Option<usize> {
    let last = target.len().checked_sub(wanted.len())?;
    let fits = |at: usize| {
        at >= from
            && at <= last
            && (!hunk.is_first() || at == 0)
            && (!hunk.is_last() || at == last)
            && target[at..at + wanted.len()] == *wanted
    };
    let expected = expected.clamp(0, last as isize) as usize;
    let near =
        (0..=last).flat_map(|distance| [expected.checked_sub(distance), expected.checked_add(distance)]);
    near.flatten().find(|at| fits(*at))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered(changes: &[(usize, &str)], count: usize) -> Vec<u8> {
        let line = |number: usize| match changes.iter().find(|(at, _)| *at == number) {
            Some((_, text)) => (*text).to_owned(),
            None => format!("{number}\n"),
        };
        (1..=count).map(line).collect::<String>().into_bytes()
    }

    fn check(new: &[(usize, &str)], target: &[(usize, &str)], expect: Result<&[(usize, &str)], usize>) {
        let (old, new) = (numbered(&[], 30), numbered(new, 30));
        let result = apply(&old, &new, &numbered(target, 30), 3);
        assert_eq!(result, expect.map(|both| numbered(both, 30)).map_err(Misfit));
    }

    #[test]
    fn changes_beside_each_other() {
        check(&[(5, "five\n")], &[], Ok(&[(5, "five\n")]));
        check(&[(5, "five\n")], &[(15, "x\n")], Ok(&[(5, "five\n"), (15, "x\n")]));
        // The lines moved up and down.
        check(&[(5, "five\n")], &[(20, "")], Ok(&[(5, "five\n"), (20, "")]));
        check(&[(20, "x\ny\n")], &[(5, "5\n5\n5\n")], Ok(&[(5, "5\n5\n5\n"), (20, "x\ny\n")]));
        check(&[(1, "")], &[(15, "x\n")], Ok(&[(1, ""), (15, "x\n")]));
        check(&[(30, "last")], &[(15, "x\n")], Ok(&[(15, "x\n"), (30, "last")]));
        check(&[(3, "x\n"), (25, "y\n")], &[(14, "")], Ok(&[(3, "x\n"), (14, ""), (25, "y\n")]));
    }

    #[test]
    fn changes_in_the_way_of_each_other() {
        check(&[(5, "five\n")], &[(5, "x\n")], Err(2));
        check(&[(5, "five\n")], &[(8, "x\n")], Err(2));
        check(&[(5, "five\n")], &[(9, "x\n")], Ok(&[(5, "five\n"), (9, "x\n")]));
        check(&[(5, "five\n"), (25, "y\n")], &[(24, "x\n")], Err(22));
        // The first lines are no longer first.
        check(&[(1, "one\n")], &[(1, "0\n1\n")], Err(1));
        check(&[(30, "x\n")], &[(30, "30\n31\n")], Err(27));
        // A hunk that begins with the first line must match there; a line may follow the context of the last.
        check(&[(4, "x\n")], &[(1, "0\n1\n")], Err(1));
        check(&[(28, "x\n")], &[(30, "30\n31\n")], Ok(&[(28, "x\n"), (30, "30\n31\n")]));
        assert_eq!(apply(b"a\0b", b"a\0c", b"a\0d", 3), Err(Misfit(0)));
        assert_eq!(apply(b"a\0b", b"a\0c", b"a\0b", 3), Ok(b"a\0c".to_vec()));
        assert_eq!(apply(b"", b"new\n", b"x\n", 3), Err(Misfit(1)));
        assert_eq!(apply(b"x\n", b"", b"", 3), Err(Misfit(1)));
        // With less context, changes may be closer.
        assert_eq!(apply(b"1\n2\n3\n4\n", b"1\nx\n3\n4\n", b"1\n2\n3\ny\n", 1), Ok(b"1\nx\n3\ny\n".to_vec()));
        assert_eq!(apply(b"1\n2\n3\n4\n", b"1\n2\n3\nx\n", b"1\n2\ny\n4\n", 1), Err(Misfit(3)));
    }

    #[test]
    fn as_git_applies() {
        let mut random = packrace_testkit::Random::new(3);
        let dir = packrace_testkit::scratch_dir();
        let git = packrace_testkit::Git::stock();
        git.run(dir.path(), &["init", "-q"]);
        for round in 0..40 {
            let old: Vec<String> = (0..40).map(|_| format!("{}\n", random.below(30))).collect();
            let mut changed = |count: usize| {
                let mut lines = old.clone();
                for _ in 0..=random.below(count) {
                    let at = random.below(lines.len());
                    match random.below(3) {
                        0 => drop(lines.remove(at)),
                        1 => lines.insert(at, "new\n".to_owned()),
                        _ => lines[at] = "other\n".to_owned(),
                    }
                }
                lines.concat()
            };
            let (new, target) = (changed(3), changed(2));
            let old = old.concat();
            let write = |content: &str| std::fs::write(dir.path().join("f"), content).unwrap();
            write(&old);
            git.run(dir.path(), &["add", "f"]);
            write(&new);
            let patch = git.run(dir.path(), &["diff"]);
            if patch.is_empty() {
                continue;
            }
            write(&target);
            let mut command = git.command(dir.path());
            std::fs::write(dir.path().join("p"), &patch).unwrap();
            let is_applied = command.args(["apply", "p"]).output().unwrap().status.success();
            let expect = is_applied.then(|| std::fs::read(dir.path().join("f")).unwrap());
            let result = apply(old.as_bytes(), new.as_bytes(), target.as_bytes(), 3).ok();
            let text = |bytes: Option<Vec<u8>>| bytes.map(|bytes| String::from_utf8(bytes).unwrap());
            assert_eq!(text(result), text(expect), "round {round}:\n{patch}to\n{target}");
        }
    }
}
