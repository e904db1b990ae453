use std::path::PathBuf;

/// The usage text.
pub const USAGE: &str = "\
usage: packrace-bench [clone] [fetch] [filter] [pack-objects] [repack] [ls-refs] [refs]
                      [index-pack] [unpack] [push] [receive] [add] [stash] [durable] [packs]
                      [swarm: crowds latency waiting] [door] [events] [nodes] [care] [soak] [siege] [options]

Runs git and packrace on the same work, in turns, and checks that their results agree.

  --repo PATH       a repository with real history (default: a generated one)
  --packrace PATH   the packrace to measure, or `none` for git alone (default: build the workspace's)
  --git PATH        the git to measure (default: the first in PATH)
  --gix PATH        also measure gitoxide's gix in index-pack
  --scratch DIR     keep prepared repositories in DIR for the next run (default: delete them)
  --rounds N        timed rounds of each measurement (default: 5)
  --refs N          number of tags for ls-refs, and maximum for refs (default: 1000000)
  --packs N[,N…]    numbers of packs for packs (default: 1,10,100,300,1000,5000)
  --cold            drop the kernel's page cache before each request, push and command that rewrites a
                    repository; needs root
  --clients N       concurrent clients for swarm (default: 32); some suites use fewer, or up to 8 times as many
  --pushes N        pushes for care (default: 300; a full measurement: 5000)
  --minutes N       duration of soak in minutes (default: 15)
  --smoke           small repositories and two rounds, to check that everything works
  --json FILE       also write the results as JSON
  --svg FILE        plot the CPU time of packs
";

/// A group of measurements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Suite {
    /// Clones with and without a bitmap.
    Clone,
    /// Fetches of the newest commits with and without a bitmap.
    Fetch,
    /// Clones with filters, with and without a bitmap.
    Filter,
    /// Packs of revisions, on standard output.
    PackObjects,
    /// Complete repacks of repositories.
    Repack,
    /// Listings of very many refs.
    LsRefs,
    /// Changes of very many refs, and a listing of one.
    Refs,
    /// A pack indexed while it is received.
    IndexPack,
    /// Small packs unpacked.
    Unpack,
    /// Pushes of one commit.
    Push,
    /// One clone over git://, measured at the client.
    Receive,
    /// Many files added to an index.
    Add,
    /// Files of a work tree stashed.
    Stash,
    /// A history in a growing number of packs.
    Packs,
    /// Many clones at once.
    Crowds,
    /// Small fetches beside many clones.
    Latency,
    /// Clones by clients that do not read.
    Waiting,
    /// The cost of access: credentials, TLS and SSH.
    Door,
    /// Pushes with a journal of events and webhooks.
    Events,
    /// Nodes that serve one bucket.
    Nodes,
    /// Repositories that only the server maintains, under pushes.
    Care,
    /// A long run against misbehaving clients.
    Soak,
    /// Small fetches beside attackers that use up all limits.
    Siege,
}

/// The default suites; `packs` and `care` only run if named, because they take long.
const ALL: [Suite; 21] = [
    Suite::Clone,
    Suite::Fetch,
    Suite::Filter,
    Suite::PackObjects,
    Suite::Repack,
    Suite::LsRefs,
    Suite::Refs,
    Suite::IndexPack,
    Suite::Unpack,
    Suite::Push,
    Suite::Receive,
    Suite::Add,
    Suite::Stash,
    Suite::Crowds,
    Suite::Latency,
    Suite::Waiting,
    Suite::Door,
    Suite::Events,
    Suite::Nodes,
    Suite::Soak,
    Suite::Siege,
];

/// Suites whose results depend on waiting for the disk.
const DURABLE: [Suite; 4] = [Suite::Add, Suite::Stash, Suite::Unpack, Suite::Push];

/// Suites with many clients at once.
pub const SWARM: [Suite; 3] = [Suite::Crowds, Suite::Latency, Suite::Waiting];

/// Which packrace to measure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Packrace {
    /// Build the workspace's.
    Build,
    /// None: measures only git.
    Absent,
    /// This one.
    At(PathBuf),
}

/// The parsed command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Args {
    /// The suites in the order typed; all if none was.
    pub items: Vec<Suite>,
    /// The repository, if it is not a built one.
    pub repo: Option<PathBuf>,
    /// The packrace to measure.
    pub packrace: Packrace,
    /// The git to measure.
    pub git: PathBuf,
    /// The gix to measure, if any.
    pub gix: Option<PathBuf>,
    /// Where to keep prepared repositories.
    pub scratch: Option<PathBuf>,
    /// Timed rounds per contender.
    pub rounds: usize,
    /// Tags for `ls-refs`, and the most for `refs`.
    pub refs: usize,
    /// Numbers of packs, if not the default ones.
    pub packs: Vec<usize>,
    /// Whether the page cache is dropped before each command.
    pub is_cold: bool,
    /// Concurrent clients for `swarm`.
    pub clients: usize,
    /// Pushes for `care`.
    pub pushes: usize,
    /// Minutes for `soak`; 0 for a short check that it works.
    pub minutes: usize,
    /// Whether to run a small version.
    pub smoke: bool,
    /// Where to write records.
    pub json: Option<PathBuf>,
    /// Where to draw the curves.
    pub svg: Option<PathBuf>,
}

impl Args {
    fn without_words() -> Self {
        Args {
            items: Vec::new(),
            repo: None,
            packrace: Packrace::Build,
            git: PathBuf::from("git"),
            gix: None,
            scratch: None,
            rounds: 0,
            refs: 0,
            packs: Vec::new(),
            is_cold: false,
            clients: 0,
            pushes: 0,
            minutes: 0,
            smoke: false,
            json: None,
            svg: None,
        }
    }
}

/// The suites that a word selects.
fn named(word: &str) -> Option<Vec<Suite>> {
    let item = match word {
        "durable" => return Some(DURABLE.to_vec()),
        "swarm" => return Some(SWARM.to_vec()),
        "clone" => Suite::Clone,
        "fetch" => Suite::Fetch,
        "filter" => Suite::Filter,
        "pack-objects" => Suite::PackObjects,
        "repack" => Suite::Repack,
        "ls-refs" => Suite::LsRefs,
        "refs" => Suite::Refs,
        "index-pack" => Suite::IndexPack,
        "unpack" => Suite::Unpack,
        "push" => Suite::Push,
        "add" => Suite::Add,
        "packs" => Suite::Packs,
        "receive" => Suite::Receive,
        "stash" => Suite::Stash,
        "crowds" => Suite::Crowds,
        "latency" => Suite::Latency,
        "waiting" => Suite::Waiting,
        "door" => Suite::Door,
        "events" => Suite::Events,
        "nodes" => Suite::Nodes,
        "care" => Suite::Care,
        "soak" => Suite::Soak,
        "siege" => Suite::Siege,
        _ => return None,
    };
    Some(vec![item])
}

/// Parses the arguments after the program's name.
pub fn parse(mut words: impl Iterator<Item = String>) -> Result<Args, String> {
    let mut args = Args::without_words();
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
        let count = |text: String| match text.parse() {
            Ok(number) if number > 0 => Ok(number),
            _ => Err(format!("{text} is not a count")),
        };
        match word.as_str() {
            "--gix" => args.gix = Some(value()?.into()),
            "--repo" => args.repo = Some(value()?.into()),
            "--git" => args.git = value()?.into(),
            "--scratch" => args.scratch = Some(value()?.into()),
            "--json" => args.json = Some(value()?.into()),
            "--svg" => args.svg = Some(value()?.into()),
            "--cold" => args.is_cold = true,
            "--packs" => {
                let counts = value()?;
                args.packs =
                    counts.split(',').map(|text| count(text.to_string())).collect::<Result<_, _>>()?;
            }
            "--smoke" => args.smoke = true,
            "--rounds" => args.rounds = count(value()?)?,
            "--refs" => args.refs = count(value()?)?,
            "--clients" => args.clients = count(value()?)?,
            "--pushes" => args.pushes = count(value()?)?,
            "--minutes" => args.minutes = count(value()?)?,
            "--packrace" => {
                args.packrace = match value()?.as_str() {
                    "none" => Packrace::Absent,
                    path => Packrace::At(path.into()),
                }
            }
            other => {
                let items = named(other).ok_or_else(|| format!("unknown argument {other}"))?;
                args.items.extend(items);
            }
        }
    }
    if args.items.is_empty() {
        args.items = ALL.to_vec();
    }
    if args.rounds == 0 {
        args.rounds = if args.smoke { 2 } else { 5 };
    }
    if args.refs == 0 {
        args.refs = if args.smoke { 20_000 } else { 1_000_000 };
    }
    if args.clients == 0 {
        args.clients = if args.smoke { 4 } else { 32 };
    }
    if args.pushes == 0 {
        args.pushes = if args.smoke { 12 } else { 300 };
    }
    if args.minutes == 0 && !args.smoke {
        args.minutes = 15;
    }
    Ok(args)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str) -> Result<Args, String> {
        parse(line.split_whitespace().map(str::to_string))
    }

    #[test]
    fn items_and_options() {
        let args = check("fetch clone --repo r --rounds 3 --packrace none").unwrap();
        assert_eq!(args.items, [Suite::Fetch, Suite::Clone]);
        assert_eq!((args.repo, args.rounds, args.packrace), (Some("r".into()), 3, Packrace::Absent));
        assert_eq!(check("packs --packs 1,300 --cold").unwrap().packs, [1, 300]);
        assert_eq!(check("").unwrap().items, ALL);
        assert_eq!(check("--smoke").unwrap().rounds, 2);
    }

    #[test]
    fn what_is_not_understood_is_said() {
        for bad in ["pull", "--repo", "--rounds 0", "--rounds x", "--refs -1", "--packs 1,0"] {
            assert!(check(bad).is_err(), "{bad}");
        }
    }
}
