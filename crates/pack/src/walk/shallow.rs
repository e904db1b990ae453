//! Where history becomes shallow for a client (gitprotocol-pack, "Packfile Negotiation": shallow, deepen
//! lines).

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use packrace_object::{Kind, ObjectId};

use crate::error::Error;
use crate::progress::ProgressSink;
use crate::request_objects::{ObjectNo, RequestObjects};
use crate::walk::commits::Commits;

/// The depth that means "everything"; `git fetch --unshallow` sends it.
pub const INFINITE_DEPTH: u32 = 0x7fff_ffff;

/// How much history a client asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Deepen {
    /// This many commits from each want, including the want; [`INFINITE_DEPTH`] for all.
    Depth(u32),
    /// This many commits beyond the client's shallow commits, as far as refs visible to the client reach
    /// them. As in git, its wants need not reach them.
    Relative {
        /// The number of additional commits.
        depth: u32,
        /// The targets of those refs.
        tips: Vec<ObjectId>,
    },
    /// Only commits at least this new, and none that `not` reaches.
    Since {
        /// Seconds since 1970, if a date was given.
        seconds: Option<i64>,
        /// Tips whose history is excluded (`deepen-not`).
        not: Vec<ObjectId>,
    },
}

/// What changes in the client's history.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Boundary {
    /// Commits that become shallow: the client gets them without their parents.
    pub shallow: Vec<ObjectId>,
    /// Commits that were shallow at the client and get their parents now.
    pub unshallow: Vec<ObjectId>,
    /// The parents of those commits, to add to the wants.
    pub new_wants: Vec<ObjectId>,
    /// No commit was selected; git refuses such a request.
    pub is_empty_selection: bool,
}

/// Finds the new boundary. `deepen` is `None` if the client requested none and this repository is shallow:
/// the client then learns where history ends here.
pub fn boundary(
    request_objects: &Arc<RequestObjects>,
    wants: &[ObjectId],
    client_shallow: &[ObjectId],
    deepen: Option<&Deepen>,
    progress: &dyn ProgressSink,
) -> Result<Boundary, Error> {
    let mut own = HashSet::new();
    for id in request_objects.snapshot().shallow()? {
        own.extend(request_objects.find(id)?);
    }
    let is_shallow_here = !own.is_empty();
    if deepen.is_none() && !is_shallow_here {
        return Ok(Boundary::default());
    }
    let mut commits = Commits::new(request_objects, own, progress);
    let mut wanted = Vec::new();
    for want in wants {
        let peeled = commits.peel(request_objects.require(want)?)?;
        if peeled.kind == Kind::Commit {
            wanted.push(peeled.object);
        }
    }
    let mut client = Vec::new();
    for id in client_shallow {
        client.extend(request_objects.find(id)?);
    }
    let reach = match deepen {
        Some(Deepen::Depth(INFINITE_DEPTH) | Deepen::Relative { depth: INFINITE_DEPTH, .. })
            if !is_shallow_here =>
        {
            ClientHistory { shallow: Vec::new(), inner: client.iter().copied().collect() }
        }
        None => by_depth(&mut commits, &wanted, INFINITE_DEPTH)?,
        Some(Deepen::Depth(depth)) => by_depth(&mut commits, &wanted, *depth)?,
        Some(Deepen::Relative { depth, tips }) => {
            let mut from = wanted.clone();
            for tip in tips {
                let Some(ix) = request_objects.find(tip)? else { continue };
                let peeled = commits.peel(ix)?;
                from.extend((peeled.kind == Kind::Commit).then_some(peeled.object));
            }
            below_client(&mut commits, [&wanted, &from], &client, *depth)?
        }
        Some(Deepen::Since { seconds, not }) => {
            let mut excluded = Vec::new();
            for id in not {
                let peeled = commits.peel(request_objects.require(id)?)?;
                excluded.extend((peeled.kind == Kind::Commit).then_some(peeled.object));
            }
            let reach = by_selection(&mut commits, &wanted, *seconds, &excluded)?;
            if reach.shallow.is_empty() && reach.inner.is_empty() {
                return Ok(Boundary { is_empty_selection: true, ..Boundary::default() });
            }
            reach
        }
    };
    changes(&mut commits, &client, &reach)
}

/// What changes for a client with these shallow commits that will have this part of history.
fn changes(commits: &mut Commits<'_>, client: &[ObjectNo], reach: &ClientHistory) -> Result<Boundary, Error> {
    let request_objects = commits.request_objects();
    let known: HashSet<ObjectNo> = client.iter().copied().collect();
    let mut answer = Boundary::default();
    let new = reach.shallow.iter().filter(|ix| !known.contains(ix));
    answer.shallow.extend(new.map(|ix| request_objects.id(*ix)));
    for &ix in client.iter().filter(|ix| reach.inner.contains(ix)) {
        answer.unshallow.push(request_objects.id(ix));
        let no = commits.load_had(ix)?;
        let commit = commits.get(no);
        answer.new_wants.extend(commit.parents.iter().map(|parent| request_objects.id(*parent)));
        // One that is missing is told by whoever makes the pack, as any other wanted object.
        answer.new_wants.extend(commit.lacks.as_deref());
    }
    Ok(answer)
}

/// `depth` commits beyond the client's shallow ones that `from` reach.
fn below_client(
    commits: &mut Commits<'_>,
    [wanted, from]: [&[ObjectNo]; 2],
    client: &[ObjectNo],
    depth: u32,
) -> Result<ClientHistory, Error> {
    let below = reachable_of(commits, from, client)?;
    let mut reach = by_depth(commits, &below, depth.saturating_add(1))?;
    if reach.shallow.is_empty() {
        return Ok(reach);
    }
    // Another branch may lead back to what the client has with its parents, which stay.
    let above = above(commits, wanted, client)?;
    reach.shallow.retain(|ix| !above.contains(ix));
    Ok(reach)
}

/// The part of history that a client will have.
struct ClientHistory {
    /// Commits at the edge, sent without their parents.
    shallow: Vec<ObjectNo>,
    /// Commits sent with their parents.
    inner: HashSet<ObjectNo>,
}

/// Everything within `depth` commits of `tips`. A commit at exactly that depth is at the edge, even a root;
/// so is a commit where this repository is shallow.
fn by_depth(commits: &mut Commits<'_>, tips: &[ObjectNo], depth: u32) -> Result<ClientHistory, Error> {
    let mut depths: HashMap<ObjectNo, u32> = HashMap::new();
    let mut reach = ClientHistory { shallow: Vec::new(), inner: HashSet::new() };
    let mut level: Vec<ObjectNo> = tips.to_vec();
    let mut at = 1;
    while !level.is_empty() {
        let mut next = Vec::new();
        for ix in level {
            if depths.contains_key(&ix) {
                continue;
            }
            depths.insert(ix, at);
            // Behind the edge nothing need exist.
            let no = if at >= depth { commits.load_had(ix)? } else { commits.load_deepening(ix)? };
            let commit = commits.get(no);
            if at >= depth || commit.is_cut {
                reach.shallow.push(ix);
            } else {
                reach.inner.insert(ix);
                next.extend(&commit.parents);
            }
        }
        level = next;
        at = at.saturating_add(1);
    }
    Ok(reach)
}

/// The commits in `of_client` that `tips` reach.
fn reachable_of(
    commits: &mut Commits<'_>,
    tips: &[ObjectNo],
    of_client: &[ObjectNo],
) -> Result<Vec<ObjectNo>, Error> {
    let mut left: HashSet<ObjectNo> = of_client.iter().copied().collect();
    let mut found = Vec::new();
    commits.closure(tips, |commit| {
        if left.remove(&commit.ix) {
            found.push(commit.ix);
        }
        !left.is_empty()
    })?;
    Ok(found)
}

/// Everything that `tips` reach without the parents of `cut`, and without these.
fn above(commits: &mut Commits<'_>, tips: &[ObjectNo], cut: &[ObjectNo]) -> Result<HashSet<ObjectNo>, Error> {
    let cut: HashSet<ObjectNo> = cut.iter().copied().collect();
    let mut found = HashSet::new();
    commits.closure(tips, |commit| {
        let is_above = !cut.contains(&commit.ix);
        if is_above {
            found.insert(commit.ix);
        }
        is_above
    })?;
    Ok(found)
}

/// Everything that `tips` reach through commits at least as new as `since`, without what `excluded` reach.
fn by_selection(
    commits: &mut Commits<'_>,
    tips: &[ObjectNo],
    since: Option<i64>,
    excluded: &[ObjectNo],
) -> Result<ClientHistory, Error> {
    let had: HashSet<ObjectNo> = if excluded.is_empty() {
        HashSet::new()
    } else {
        let between = commits.between(tips, excluded)?;
        between.had.iter().map(|no| commits.get(*no).ix).collect()
    };
    let mut selected = Vec::new();
    commits.closure(tips, |commit| {
        let is_in = since.is_none_or(|since| commit.seconds >= since) && !had.contains(&commit.ix);
        if is_in {
            selected.push(commit.ix);
        }
        is_in
    })?;
    let mut inner: HashSet<ObjectNo> = selected.iter().copied().collect();
    let mut shallow = Vec::new();
    for ix in selected {
        let no = commits.load(ix)?;
        let commit = commits.get(no);
        if commit.is_cut || commit.parents.iter().any(|parent| !inner.contains(parent)) {
            shallow.push(ix);
        }
    }
    for ix in &shallow {
        inner.remove(ix);
    }
    Ok(ClientHistory { shallow, inner })
}
