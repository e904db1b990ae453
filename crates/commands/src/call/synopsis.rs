//! How git's commands are used, in git's words: the synopsis of each from its manual page, which `-h` of git 2.55 shows too.

/// Lines that begin with `git` begin an alternative, others continue it.
const SYNOPSES: &str = include_str!("synopsis.txt");

/// The alternatives of a command, or of one of its subcommands; `path` is how it is called. None for commands that git does
/// not have.
pub fn synopsis(path: &[&str]) -> Vec<String> {
    match path {
        [name] => alternatives(name).collect(),
        [name, inner] => alternatives(name).filter(|one| is_of_subcommand(one, inner)).collect(),
        _ => Vec::new(),
    }
}

fn alternatives(name: &str) -> impl Iterator<Item = String> + '_ {
    let is_first = move |line: &&str| {
        let of_git = line.strip_prefix("git").filter(|rest| rest.starts_with([' ', '-']));
        of_git.and_then(|rest| rest[1..].split(' ').next()) == Some(name)
    };
    let mut lines = SYNOPSES.lines().peekable();
    std::iter::from_fn(move || {
        let mut one = lines.find(is_first)?.to_owned();
        while let Some(more) = lines.next_if(|line| line.starts_with(' ')) {
            one.push('\n');
            one.push_str(more);
        }
        Some(one)
    })
}

/// Whether an alternative is that of a subcommand, which may stand behind options, and in brackets.
fn is_of_subcommand(alternative: &str, name: &str) -> bool {
    let words = alternative.split_whitespace().skip(2).filter(|word| *word != "[<options>]");
    words.map(|word| word.trim_matches(['[', ']'])).next() == Some(name)
}
