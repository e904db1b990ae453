//! Runs: conditions and records, as files of JSON; and what became of each goal.

use std::path::Path;

use serde_json::{Value, json};

use crate::Error;
use crate::goals::{GoalRow, Judgement, ROWS, rounded, shown};

/// One run: suites with one git on one history.
#[derive(Debug, Clone)]
pub struct BenchRun {
    /// Command, versions and machine.
    pub conditions: Value,
    /// What was measured: a work, who did it, and figures.
    pub records: Vec<Value>,
}

/// What became of one goal in one run.
pub struct Standing<'a> {
    /// The goal.
    pub row: &'static GoalRow,
    /// The run, if one measured it.
    pub run: Option<&'a BenchRun>,
    /// The record furthest from the goal, and how it is judged.
    pub worst: Option<(&'a Value, Judgement)>,
    /// How many records the goal is for.
    pub count: usize,
}

impl BenchRun {
    /// A condition in words.
    pub fn condition(&self, name: &str) -> &str {
        self.conditions[name].as_str().unwrap_or("unknown")
    }

    /// History and git, which tell runs of one report apart.
    pub fn label(&self) -> String {
        format!("{}, git {}", self.condition("history"), self.condition("git"))
    }

    /// The program and how it was measured.
    pub fn program(&self) -> String {
        let profile = match self.condition("profile") {
            "unknown" => String::new(),
            profile => format!(", {profile} build"),
        };
        let clients = match self.conditions["bench_profile"] == "development"
            && self.condition("profile") == "release"
        {
            true => ", measured by a development build",
            false => "",
        };
        let cold = if self.conditions["is_cold"] == true { ", page cache dropped" } else { "" };
        let smoke =
            if self.conditions["is_smoke"] == true { ", a smoke run: figures mean nothing" } else { "" };
        let rounds = self.conditions["rounds"].as_u64().unwrap_or(0);
        let service = match self.conditions["answers_one_request"] == "packrace-service" {
            true => ", one request a process: packrace-service",
            false => "",
        };
        format!("{}{profile}{clients}{service}, rounds: {rounds}{cold}{smoke}", self.condition("packrace"))
    }

    /// The machine in words.
    pub fn machine(&self) -> String {
        let machine = &self.conditions["machine"];
        let text = |name: &str| machine[name].as_str().unwrap_or("unknown");
        let memory = machine["memory_bytes"].as_u64().unwrap_or(0) >> 30;
        let cores = machine["cores"].as_u64().unwrap_or(0);
        format!(
            "{cores} cores of {}, {memory} GiB, {}, {}",
            text("processor"),
            text("kernel"),
            text("file_system")
        )
    }

    /// The day, and how busy the machine was.
    pub fn when(&self) -> String {
        match self.conditions["machine"]["load"].as_f64() {
            Some(load) => format!("{}, load {} when it began", self.condition("date"), rounded(load)),
            None => self.condition("date").to_string(),
        }
    }

    /// The command, with names of files instead of their paths.
    pub fn command(&self) -> String {
        let words = self.condition("command").split(' ');
        let names = words.map(|word| word.rsplit('/').find(|part| !part.is_empty()).unwrap_or(word));
        names.collect::<Vec<_>>().join(" ")
    }

    /// What failed: the work, and why.
    pub fn failures(&self) -> impl Iterator<Item = (&str, &str)> {
        self.records.iter().filter_map(|record| Some((work_of(record), record["failure"].as_str()?)))
    }

    /// Every record that has a peer, with that peer.
    pub fn pairs(&self) -> impl Iterator<Item = (&Value, &Value)> {
        let ours = self.records.iter().filter(|record| {
            record["who"].as_str().is_some_and(|who| who.starts_with("packrace"))
                && record["beside"] != record["who"]
        });
        ours.filter_map(|record| {
            let peer = record["beside"].as_str().unwrap_or("git");
            Some((record, crate::goals::beside(record, peer, &self.records)?))
        })
    }

    /// What decides whether two runs are of the same.
    fn subject(&self) -> [&Value; 6] {
        let machine = &self.conditions["machine"];
        let of = |name: &str| &self.conditions[name];
        [of("history"), of("git"), of("packrace"), of("profile"), &machine["processor"], &machine["cores"]]
    }
}

/// A standing in words: row, work, run, what it is compared with, ours, ratio, goal and state.
pub struct StandingCells {
    /// The words.
    pub texts: [String; 8],
    /// Whether the goal is held, if that is known.
    pub is_held: Option<bool>,
}

impl Standing<'_> {
    /// The cells of its row.
    pub fn cells(&self) -> StandingCells {
        let (row, goal) = (self.row, &self.row.goal);
        let dash = || "–".to_string();
        let run = self.run.map_or_else(dash, BenchRun::label);
        let Some((record, judgement)) = &self.worst else {
            let texts = [
                row.row.into(),
                row.what.into(),
                run,
                dash(),
                dash(),
                dash(),
                goal.words(),
                "– not measured".into(),
            ];
            return StandingCells { texts, is_held: None };
        };
        let work = match self.count {
            1 => row.what.to_string(),
            count => format!("{} (worst of {count}: {})", row.what, work_and_who(record)),
        };
        let ratio = if goal.is_ratio() { format!("{} ×", rounded(judgement.measured)) } else { dash() };
        let state = if judgement.is_held { "✓ held" } else { "✗ missed" };
        let texts = [
            row.row.to_string(),
            work,
            run,
            judgement.peer.map_or_else(dash, |peer| shown(goal.figure, peer)),
            shown(goal.figure, judgement.figure),
            ratio,
            goal.words(),
            state.to_string(),
        ];
        StandingCells { texts, is_held: Some(judgement.is_held) }
    }
}

fn work_and_who(record: &Value) -> String {
    match record["who"].as_str() {
        Some("packrace") | None => work_of(record).to_string(),
        Some(who) => format!("{}, {who}", work_of(record)),
    }
}

/// The name of a record's work.
pub fn work_of(record: &Value) -> &str {
    record["work"].as_str().unwrap_or_default()
}

/// Runs of the same git and packrace on the same history become one. Of work that several of them did, the last
/// counts, for all contenders: only figures of one run are comparable.
pub fn merge(runs: Vec<BenchRun>) -> Vec<BenchRun> {
    let mut merged: Vec<BenchRun> = Vec::new();
    for run in runs {
        let Some(same) = merged.iter_mut().find(|other| other.subject() == run.subject()) else {
            merged.push(run);
            continue;
        };
        let is_anew = |record: &Value| run.records.iter().any(|other| work_of(other) == work_of(record));
        same.records.retain(|record| !is_anew(record));
        if same.condition("command") != run.condition("command") {
            let both = [same.condition("command"), run.condition("command")].join(" ; ");
            same.conditions["command"] = both.into();
        }
        same.records.extend(run.records);
    }
    merged
}

/// What became of each goal: once for each run that measured it, and once if none did.
pub fn standings(runs: &[BenchRun]) -> Vec<Standing<'_>> {
    let mut all = Vec::new();
    for row in ROWS {
        let before = all.len();
        for run in runs {
            let records: Vec<&Value> = run.records.iter().filter(|record| row.is_for(record)).collect();
            let judged = records.iter().filter_map(|record| {
                let judgement = row.goal.judge(record, &run.records)?;
                Some((*record, judgement))
            });
            let worst = judged
                .max_by(|(_, one), (_, other)| row.goal.distance(one).total_cmp(&row.goal.distance(other)));
            if worst.is_some() {
                all.push(Standing { row, run: Some(run), worst, count: records.len() });
            }
        }
        if all.len() == before {
            all.push(Standing { row, run: None, worst: None, count: 0 });
        }
    }
    all
}

/// Reads a file of records.
pub fn read(file: &Path) -> Result<Vec<BenchRun>, Error> {
    let wrong = |why: &str| Error::from(format!("{}: {why}", file.display()));
    let text = std::fs::read_to_string(file).map_err(|error| wrong(&error.to_string()))?;
    let value: Value = serde_json::from_str(&text).map_err(|error| wrong(&error.to_string()))?;
    let runs = value["runs"].as_array().ok_or_else(|| wrong("no runs"))?;
    let run = |run: &Value| match (&run["conditions"], run["records"].as_array()) {
        (conditions @ Value::Object(_), Some(records)) => {
            Ok(BenchRun { conditions: conditions.clone(), records: records.clone() })
        }
        _ => Err(wrong("a run without conditions and records")),
    };
    runs.iter().map(run).collect()
}

/// Writes a file of records; whoever reads it meanwhile sees the old one.
pub fn write_records(runs: &[BenchRun], file: &Path) -> std::io::Result<()> {
    let runs = runs.iter().map(|run| json!({ "conditions": run.conditions, "records": run.records }));
    let value = json!({ "runs": runs.collect::<Vec<_>>() });
    if let Some(folder) = file.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder)?;
    }
    let unfinished = file.with_extension("unfinished");
    std::fs::write(&unfinished, format!("{value:#}\n"))?;
    std::fs::rename(unfinished, file)
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A run of a history with these works, each with git's and packrace's seconds.
    pub fn run(history: &str, works: &[(&str, f64, f64)]) -> BenchRun {
        let record = |work: &str, who: &str, seconds: f64| json!({ "work": work, "who": who, "wall_seconds": seconds, "cpu_seconds": seconds, "bytes": 5 });
        BenchRun {
            conditions: json!({
                "command": "packrace-bench clone --repo /srv/git/x.git/", "history": history, "git": "2.47.3",
                "packrace": "packrace 0.1.0", "profile": "release", "date": "2026-11-25", "rounds": 2,
                "machine": { "processor": "P", "cores": 2, "memory_bytes": 25_000_000_000_u64, "kernel": "K", "file_system": "ext2/ext3" },
            }),
            records: works
                .iter()
                .flat_map(|(work, git, ours)| [record(work, "git", *git), record(work, "packrace", *ours)])
                .collect(),
        }
    }

    #[test]
    fn the_last_run_of_a_work_counts() {
        let first = run("a", &[("x", 1.0, 0.5), ("y", 1.0, 0.5)]);
        let mut again = run("a", &[("x", 2.0, 0.25)]);
        again.conditions["command"] = "another".into();
        let merged = merge(vec![first, run("b", &[]), again]);
        assert_eq!(merged.len(), 2);
        let pairs: Vec<_> =
            merged[0].pairs().map(|(ours, git)| (work_of(ours), &git["cpu_seconds"])).collect();
        assert_eq!(pairs, [("y", &json!(1.0)), ("x", &json!(2.0))]);
        assert_eq!(merged[0].command(), "packrace-bench clone --repo x.git ; another");
    }

    #[test]
    fn no_goal_is_dropped() {
        let runs = [
            run(
                "a",
                &[
                    ("P1 clone, bitmap", 1.0, 0.05),
                    ("clone, 1 packs", 1.0, 0.5),
                    ("clone, 10 packs", 1.0, 0.7),
                ],
            ),
            run("b", &[("P1 clone, bitmap", 1.0, 0.2)]),
        ];
        let standings = standings(&runs);
        for row in ROWS {
            assert!(standings.iter().any(|standing| std::ptr::eq(standing.row, row)), "{row:?}");
        }
        let of = |row: &str, label: &str| -> Vec<_> {
            let same = standings.iter().filter(|it| it.row.row == row && it.row.goal.label == label);
            same.map(|it| it.worst.as_ref().map(|(record, judgement)| (work_of(record), judgement.is_held)))
                .collect()
        };
        let name = "P1 clone, bitmap";
        assert_eq!(of("P1", "CPU"), [Some((name, true)), Some((name, false))]);
        assert_eq!(of("P1b", "CPU"), [None]);
        let packs = of("packs", "CPU");
        assert_eq!(packs[0], Some(("clone, 10 packs", false)));
    }

    #[test]
    fn files_are_read_as_they_were_written() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("deep/records.json");
        write_records(&[run("a", &[("x", 1.0, 0.5)])], &file).unwrap();
        let back = read(&file).unwrap();
        assert_eq!((back.len(), back[0].records.len(), back[0].label()), (1, 2, "a, git 2.47.3".to_string()));
        for wrong in ["", "{}", "{\"runs\": [1]}", "{\"runs\": [{\"conditions\": {}}]}"] {
            std::fs::write(&file, wrong).unwrap();
            assert!(read(&file).unwrap_err().to_string().contains("records.json: "), "{wrong}");
        }
    }
}
