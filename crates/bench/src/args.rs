use std::path::PathBuf;

/// The usage text.
pub const USAGE: &str = "\
usage: packrace-bench [SUITE…] [options]
       packrace-bench report FILE… [--html FILE] [--markdown FILE]

Runs git and packrace on the same work, in turns, and checks that their results agree. `report` makes one
report from the records (--json) of one or more runs.

Suites (default: all but packs and care):

  clone fetch filter pack-objects repack ls-refs refs index-pack unpack push receive add stash
  packs             one history in more and more packs
  durable           add stash unpack push
  swarm             crowds latency waiting: many clients at once
  door              passwords, rules, TLS and SSH
  events nodes      pushes with a journal and webhooks; nodes of one bucket
  embedded          the server inside another program: the forge of its examples
  care              repositories that only the server maintains
  soak siege        misbehaving clients, for --minutes; fetches beside attackers
  all               everything, and the report in bench/report.html

Options:

  --repo PATH       a repository with real history (default: a generated one); may be repeated
  --git PATH        the git to measure (default: the first in PATH); may be repeated
  --packrace PATH   the packrace to measure, or `none` for git alone (default: build the workspace's)
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
  --json FILE       write the records, after each work (default for all: bench/records.json)
  --html FILE       write a report (default for all: bench/report.html)
  --markdown FILE   write it as Markdown; in a file with the lines `<!-- packrace-bench -->` and
                    `<!-- /packrace-bench -->`, between them
  --svg FILE        plot the CPU time of packs
";

/// The lines of a Markdown file between which the report is put.
pub const MARKS: [&str; 2] = ["<!-- packrace-bench -->", "<!-- /packrace-bench -->"];

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
    /// The server inside another program.
    Embedded,
    /// Nodes that serve one bucket.
    Nodes,
    /// Repositories that only the server maintains, under pushes.
    Care,
    /// A long run against misbehaving clients.
    Soak,
    /// Small fetches beside attackers that use up all limits.
    Siege,
}

/// All suites.
const ALL: [Suite; 24] = [
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
    Suite::Packs,
    Suite::Crowds,
    Suite::Latency,
    Suite::Waiting,
    Suite::Door,
    Suite::Events,
    Suite::Embedded,
    Suite::Nodes,
    Suite::Care,
    Suite::Soak,
    Suite::Siege,
];

/// Suites that only run if named, because they take long.
const LONG: [Suite; 2] = [Suite::Packs, Suite::Care];

/// Suites that make everything themselves, in which git does not take part.
const WITHOUT_PEERS: [Suite; 5] = [Suite::Events, Suite::Embedded, Suite::Nodes, Suite::Soak, Suite::Siege];

/// Suites that make what they measure, for every git.
const WITHOUT_HISTORY: [Suite; 7] =
    [Suite::LsRefs, Suite::Refs, Suite::Unpack, Suite::Add, Suite::Stash, Suite::Door, Suite::Care];

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

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// One run for each git and history, one after the other.
    Measure(Vec<Args>, ReportFiles),
    /// A report of the records in these files.
    Report(Vec<PathBuf>, ReportFiles),
}

/// Files to write.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReportFiles {
    /// Where to write records.
    pub json: Option<PathBuf>,
    /// Where to write the report.
    pub html: Option<PathBuf>,
    /// Where to write it as Markdown.
    pub markdown: Option<PathBuf>,
    /// Where to draw the curves.
    pub svg: Option<PathBuf>,
}

/// One run: suites with one git on one history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Args {
    /// The suites in the order typed.
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
        }
    }

    fn with_defaults(mut self) -> Self {
        if self.items.is_empty() {
            self.items = ALL.into_iter().filter(|item| !LONG.contains(item)).collect();
        }
        let or = |number: usize, smoke, default| match number {
            0 if self.smoke => smoke,
            0 => default,
            number => number,
        };
        self.rounds = or(self.rounds, 2, 5);
        self.refs = or(self.refs, 20_000, 1_000_000);
        self.clients = or(self.clients, 4, 32);
        self.pushes = or(self.pushes, 12, 300);
        self.minutes = or(self.minutes, 0, 15);
        self
    }

    /// Whether all suites make what they measure.
    pub fn needs_no_history(&self) -> bool {
        self.items.iter().all(|item| WITHOUT_HISTORY.contains(item) || WITHOUT_PEERS.contains(item))
    }

    /// One run for each git and history; suites run only once for what they do not depend on.
    fn runs(&self, gits: &[PathBuf], repos: &[PathBuf]) -> Vec<Args> {
        let gits = if gits.is_empty() { std::slice::from_ref(&self.git) } else { gits };
        let repos: Vec<_> = repos.iter().map(Some).collect();
        let repos = if repos.is_empty() { vec![None] } else { repos };
        let mut runs = Vec::new();
        for (git_number, git) in gits.iter().enumerate() {
            for (number, repo) in repos.iter().enumerate() {
                let wants = |item: &Suite| match () {
                    () if WITHOUT_PEERS.contains(item) => git_number + number == 0,
                    () if WITHOUT_HISTORY.contains(item) => number == 0,
                    () => true,
                };
                let items = self.items.iter().copied().filter(wants).collect();
                runs.push(Args { items, git: git.clone(), repo: repo.cloned(), ..self.clone() });
            }
        }
        runs.retain(|run| !run.items.is_empty());
        runs
    }
}

/// The suites that a word selects.
fn named(word: &str) -> Option<Vec<Suite>> {
    let item = match word {
        "all" => return Some(ALL.to_vec()),
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
        "embedded" => Suite::Embedded,
        "nodes" => Suite::Nodes,
        "care" => Suite::Care,
        "soak" => Suite::Soak,
        "siege" => Suite::Siege,
        _ => return None,
    };
    Some(vec![item])
}

/// Parses the arguments after the program's name.
pub fn parse(words: impl Iterator<Item = String>) -> Result<Request, String> {
    let mut words = words.peekable();
    let is_report = words.next_if(|word| word == "report").is_some();
    let (mut args, mut files) = (Args::without_words(), ReportFiles::default());
    let (mut gits, mut repos, mut records) = (Vec::new(), Vec::new(), Vec::new());
    let mut is_all = false;
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
        match word.as_str() {
            "--html" => files.html = Some(value()?.into()),
            "--markdown" => files.markdown = Some(value()?.into()),
            other if is_report && other.starts_with("--") => return Err(format!("unknown argument {other}")),
            file if is_report => records.push(file.into()),
            "--gix" => args.gix = Some(value()?.into()),
            "--repo" => repos.push(value()?.into()),
            "--git" => gits.push(value()?.into()),
            "--scratch" => args.scratch = Some(value()?.into()),
            "--json" => files.json = Some(value()?.into()),
            "--svg" => files.svg = Some(value()?.into()),
            "--cold" => args.is_cold = true,
            "--packs" => args.packs = value()?.split(',').map(count).collect::<Result<_, _>>()?,
            "--smoke" => args.smoke = true,
            "--rounds" => args.rounds = count(&value()?)?,
            "--refs" => args.refs = count(&value()?)?,
            "--clients" => args.clients = count(&value()?)?,
            "--pushes" => args.pushes = count(&value()?)?,
            "--minutes" => args.minutes = count(&value()?)?,
            "--packrace" => {
                args.packrace = match value()?.as_str() {
                    "none" => Packrace::Absent,
                    path => Packrace::At(path.into()),
                }
            }
            other => {
                let items = named(other).ok_or_else(|| format!("unknown argument {other}"))?;
                args.items.extend(items);
                is_all |= other == "all";
            }
        }
    }
    if is_report && records.is_empty() {
        return Err("report needs files of records".to_string());
    }
    if is_report {
        return Ok(Request::Report(records, files));
    }
    if is_all {
        files.json.get_or_insert("bench/records.json".into());
        files.html.get_or_insert("bench/report.html".into());
    }
    Ok(Request::Measure(args.with_defaults().runs(&gits, &repos), files))
}

fn count(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(number) if number > 0 => Ok(number),
        _ => Err(format!("{text} is not a count")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str) -> Result<(Vec<Args>, ReportFiles), String> {
        match parse(line.split_whitespace().map(str::to_string))? {
            Request::Measure(runs, files) => Ok((runs, files)),
            Request::Report(..) => Err("a report".to_string()),
        }
    }

    #[test]
    fn items_and_options() {
        let args = check("fetch clone --repo r --rounds 3 --packrace none").unwrap().0.remove(0);
        assert_eq!(args.items, [Suite::Fetch, Suite::Clone]);
        assert_eq!((args.repo, args.rounds, args.packrace), (Some("r".into()), 3, Packrace::Absent));
        assert_eq!(check("packs --packs 1,300 --cold").unwrap().0[0].packs, [1, 300]);
        let items = &check("").unwrap().0[0].items;
        assert!(items.len() == ALL.len() - LONG.len() && !items.contains(&Suite::Packs));
        assert_eq!(check("--smoke").unwrap().0[0].rounds, 2);
    }

    #[test]
    fn every_git_meets_every_history() {
        let (runs, files) = check("all --repo a --repo b --git g --git h").unwrap();
        assert_eq!(files.html, Some("bench/report.html".into()));
        let pairs = runs.iter().map(|run| (run.git.to_str().unwrap(), run.repo.as_ref().unwrap().to_str()));
        let expect = [("g", Some("a")), ("g", Some("b")), ("h", Some("a")), ("h", Some("b"))];
        assert_eq!(pairs.collect::<Vec<_>>(), expect);
        let count = |item| runs.iter().filter(|run| run.items.contains(&item)).count();
        assert_eq!([Suite::Packs, Suite::Refs, Suite::Soak].map(count), [4, 2, 1]);
        assert_eq!(check("soak --repo a --repo b").unwrap().0.len(), 1);
    }

    #[test]
    fn reports_are_of_files() {
        let request = parse("report a b --html h".split(' ').map(str::to_string)).unwrap();
        let files = ReportFiles { html: Some("h".into()), ..ReportFiles::default() };
        assert_eq!(request, Request::Report(vec!["a".into(), "b".into()], files));
    }

    #[test]
    fn what_is_not_understood_is_said() {
        for bad in [
            "pull",
            "--repo",
            "--rounds 0",
            "--rounds x",
            "--refs -1",
            "--packs 1,0",
            "report",
            "report a --refs 1",
        ] {
            assert!(parse(bad.split_whitespace().map(str::to_string)).is_err(), "{bad}");
        }
    }
}
