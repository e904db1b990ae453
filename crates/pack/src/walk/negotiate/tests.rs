use packrace_object::HashKind;
use packrace_store::{OpenOptions, Repository};
use packrace_testkit::{Git, Repo, RepoBuilder, Size};

use super::*;
use crate::progress::NoProgress;

/// A repository with commits from lines `name: parents`, a second apart and in this order.
struct History {
    _repo: Repo,
    request_objects: Arc<RequestObjects>,
    ids: HashMap<String, ObjectId>,
}

impl History {
    fn new(lines: &str) -> Self {
        let repo = RepoBuilder::new(Size::Tiny).build();
        let mut stream = String::new();
        let names: Vec<&str> = lines.lines().map(|line| line.split(':').next().unwrap().trim()).collect();
        for (at, line) in lines.lines().enumerate() {
            let (name, parents) = line.split_once(':').unwrap();
            let mark = |name: &str| names.iter().position(|known| *known == name).unwrap() + 1;
            let who = format!("C <c@example.com> {} +0000", 1_800_000_000 + at);
            stream.push_str(&format!("commit refs/heads/{}\nmark :{}\n", name.trim(), at + 1));
            stream.push_str(&format!("committer {who}\ndata {}\n{}\n", name.len(), name));
            for (nth, parent) in parents.split_whitespace().enumerate() {
                let word = if nth == 0 { "from" } else { "merge" };
                stream.push_str(&format!("{word} :{}\n", mark(parent)));
            }
            stream.push('\n');
        }
        Git::stock().run_with_input(repo.path(), &["fast-import", "--quiet"], stream.as_bytes());
        let id = |name: &str| {
            let hex = repo.git(&["rev-parse", &format!("refs/heads/{name}")]);
            ObjectId::from_hex(hex.trim().as_bytes()).unwrap()
        };
        let ids = names.iter().map(|name| (name.to_string(), id(name))).collect();
        let repository = Repository::open(repo.path(), &OpenOptions::default()).unwrap();
        let request_objects = Arc::new(RequestObjects::new(repository.snapshot().unwrap()));
        History { _repo: repo, request_objects, ids }
    }

    /// The ids of names; `?` is an unknown id.
    fn ids(&self, names: &str) -> Vec<ObjectId> {
        let on_missing = ObjectId::from_hex(&vec![b'e'; HashKind::Sha1.len_in_hex()]).unwrap();
        let id = |name: &str| if name == "?" { on_missing } else { self.ids[name] };
        names.split_whitespace().map(id).collect()
    }

    fn negotiation(&self, wants: &str, cut: &str) -> Negotiation {
        Negotiation::new(&self.request_objects, &self.ids(wants), &self.ids(cut), &NoProgress).unwrap()
    }

    /// Each round: haves, `=`, and for each have `k`nown, `i`mplied by another or `u`nknown, in upper case if it was enough.
    fn check(&self, wants: &str, cut: &str, rounds: &[&str]) {
        let mut negotiation = self.negotiation(wants, cut);
        for round in rounds {
            let (haves, expect) = round.split_once('=').unwrap();
            let Checked { known, implied, enough } =
                negotiation.check(&self.ids(haves), &NoProgress).unwrap();
            let letter = |((known, implied), enough): ((&bool, &bool), &bool)| {
                let letter = match (known, implied) {
                    (false, _) => 'u',
                    (true, false) => 'k',
                    (true, true) => 'i',
                };
                if *enough { letter.to_ascii_uppercase() } else { letter }
            };
            let got: String = known.iter().zip(&implied).zip(&enough).map(letter).collect();
            assert_eq!(got, expect.trim(), "{wants} cut at {cut:?}: {round} of {rounds:?}");
        }
    }
}

const FORK: &str = "root:\na: root\nb: a\nx: a\ny: x\nc: b\nm: c y\n";

#[test]
fn a_common_commit_below_every_want_is_enough() {
    let history = History::new(FORK);
    history.check("c", "", &["? =u", "b =K"]);
    history.check("c", "", &["b ? ? =kUU"]);
    history.check("c y", "", &["b =K"]);
    history.check("c m", "", &["y =k", "? =u", "b =K", "? =U"]);
    history.check("c y", "", &["root =K"]);
    history.check("m", "", &["y =K"]);
    history.check("c", "", &["c =K"]);
    history.check("c c", "", &["c =K"]);
    // A client that is ahead by more than one commit must say so.
    history.check("b", "", &["y m =kk", "? b =uK"]);
    history.check("root", "", &["? =u", "y =k"]);
}

#[test]
fn parents_of_haves_are_common_too() {
    let history = History::new(FORK);
    // x is not below b, but its parent is.
    history.check("b", "", &["x =K"]);
    // The parent of b is older than every common commit.
    history.check("c", "", &["x =k"]);
    // The parent of y is not.
    history.check("c", "", &["y =k", "? =u", "a =K"]);
    history.check("c y", "", &["m =K"]);
    history.check("b c", "", &["m =k"]);
}

#[test]
fn what_follows_from_another_have_is_implied() {
    let history = History::new(FORK);
    history.check("c", "", &["root a b b =kkkI", "a root x =iiK"]);
    history.check("c", "", &["b a root ? =kiiU"]);
    // Below a shallow commit nothing is implied.
    history.check("b", "x", &["x a =kK"]);
}

#[test]
fn a_shallow_client_does_not_have_the_parents_of_its_shallow_commits() {
    let history = History::new(FORK);
    history.check("c", "x", &["x =k", "? =u", "b =K"]);
    // Nor can commits below them be common.
    history.check("m", "c y", &["b =k"]);
    history.check("m", "y", &["b =K"]);
}

#[test]
fn wants_that_are_no_commits_are_met() {
    let history = History::new(FORK);
    let repo = &history._repo;
    let tree = repo.git(&["rev-parse", "main^{tree}"]);
    let tree = ObjectId::from_hex(tree.trim().as_bytes()).unwrap();
    let mut negotiation = Negotiation::new(&history.request_objects, &[tree], &[], &NoProgress).unwrap();
    assert_eq!(negotiation.check(&history.ids("?"), &NoProgress).unwrap().enough, [false]);
    assert_eq!(negotiation.check(&[tree], &NoProgress).unwrap().enough, [true]);
    let mut both =
        Negotiation::new(&history.request_objects, &[tree, history.ids["c"]], &[], &NoProgress).unwrap();
    assert_eq!(both.check(&[tree], &NoProgress).unwrap().enough, [false]);
    assert_eq!(both.check(&history.ids("b"), &NoProgress).unwrap().enough, [true]);
}

/// However many rounds and haves there are, no commit is visited twice.
#[test]
fn the_work_of_all_rounds_is_bounded_by_the_history() {
    let mut lines = String::from("c0:\nother0:\n");
    for number in 1..400 {
        let before = number - 1;
        lines.push_str(&format!("c{number}: c{before}\nother{number}: other{before}\n"));
    }
    let history = History::new(&lines);
    let mut negotiation = history.negotiation("c399", "");
    for number in (0..400).rev() {
        let haves = history.ids(&format!("other{number} ? other{number} ?"));
        let checked = negotiation.check(&haves, &NoProgress).unwrap();
        assert_eq!(checked.enough, [false; 4], "other{number}");
    }
    assert!(negotiation.search.expanded <= 400, "{} commits", negotiation.search.expanded);
    assert!(negotiation.search.expanded >= 399);
    assert_eq!(negotiation.check(&history.ids("c200"), &NoProgress).unwrap().enough, [true]);
    // Many wants with a common history cost no more than one.
    let wants: String = (1..400).map(|number| format!("c{number} ")).collect();
    let mut negotiation = history.negotiation(&wants, "");
    assert_eq!(negotiation.check(&history.ids("other0 c0"), &NoProgress).unwrap().enough, [false, true]);
    assert!(negotiation.search.expanded <= 400, "{} commits", negotiation.search.expanded);
    // A single unmet want prevents the answer just as many do.
    let mut negotiation = history.negotiation(&format!("{wants} other1"), "");
    assert_eq!(negotiation.check(&history.ids("c0"), &NoProgress).unwrap().enough, [false]);
    assert!(negotiation.search.expanded <= 3, "{} commits", negotiation.search.expanded);
}

#[test]
fn a_plan_continues_where_the_negotiation_ended() {
    let history = History::new("a:\nb: a\nc: b\nd: c");
    let request = crate::PackRequest {
        wants: history.ids("d"),
        haves: history.ids("a"),
        thin: true,
        threads: 1,
        ..crate::PackRequest::default()
    };
    let ids = |request: &crate::PackRequest| {
        crate::plan::plan(&history.request_objects, request, &NoProgress).unwrap().ids()
    };
    let negotiated = || history.request_objects.negotiated.lock().unwrap().is_some();
    let fresh = ids(&request);
    let end_one = || {
        let mut negotiation = history.negotiation("d", "");
        negotiation.check(&history.ids("a"), &NoProgress).unwrap();
        negotiation.end();
    };
    end_one();
    assert!(negotiated());
    assert_eq!(ids(&request), fresh);
    assert!(!negotiated(), "the plan has taken what was read");
    // For a client without the parents of c, other commits count.
    end_one();
    let shallow = crate::PackRequest { shallow: history.ids("c"), ..request };
    assert_ne!(ids(&shallow), fresh);
    assert!(negotiated(), "what was read is of no use");
}
