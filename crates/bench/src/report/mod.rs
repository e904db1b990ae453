//! One report of the records of one or more runs: their goals as a table and as bars, curves, and all figures; as
//! one HTML file without scripts, and as Markdown.

mod bars;
mod curves;
mod html;
mod markdown;
mod runs;
mod svg;

use std::path::{Path, PathBuf};

use crate::Error;
use crate::args::ReportFiles;
pub use runs::{BenchRun, write_records};

/// Makes a report of these files of records.
pub fn of_files(records: &[PathBuf], files: &ReportFiles) -> Result<(), Error> {
    let mut runs = Vec::new();
    for file in records {
        runs.extend(runs::read(file)?);
    }
    if files.html.is_none() && files.markdown.is_none() {
        print!("{}", markdown::report(&runs::merge(runs)));
        return Ok(());
    }
    write(runs, files)
}

/// Writes what is wanted.
pub fn write(runs: Vec<BenchRun>, files: &ReportFiles) -> Result<(), Error> {
    let runs = runs::merge(runs);
    // Both are made even if nobody wants them, so that a smoke run goes through them.
    let (page, text) = (html::page(&runs), markdown::report(&runs));
    if let Some(file) = &files.html {
        create(file, &page)?;
    }
    if let Some(file) = &files.markdown {
        let old = std::fs::read_to_string(file).unwrap_or_default();
        create(file, &markdown::put_into(&old, &text))?;
    }
    if let Some(file) = &files.svg {
        let plots = runs.iter().filter_map(|run| curves::packs(&run.records));
        let plots: Vec<String> = plots.collect();
        create(file, plots.first().ok_or("no work has a number of packs")?)?;
    }
    Ok(())
}

fn create(file: &Path, text: &str) -> std::io::Result<()> {
    if let Some(folder) = file.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::write(file, text)
}
