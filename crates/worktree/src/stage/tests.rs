//! Many files on several threads, and files that cannot be read.

use std::sync::Arc;

use packrace_store::publish::{BatchOptions, ObjectBatch};
use packrace_store::{OpenOptions, Repository};
use packrace_testkit::Git;
use tempfile::TempDir;

use super::*;
use crate::filter::Direction;

fn repository() -> (TempDir, Repository) {
    let directory = packrace_testkit::scratch_dir();
    Git::stock().run(directory.path(), &["init", "-q"]);
    let repository = Repository::open(directory.path(), &OpenOptions::default()).expect("a repository");
    (directory, repository)
}

/// Stages these paths, and returns the result of each.
fn stage(
    top: &Path,
    repository: &Repository,
    paths: &[String],
    goes_on: bool,
) -> Vec<Result<Staged, StageError>> {
    let snapshot = repository.snapshot().expect("objects");
    let mut messages = Vec::new();
    let filters = Filters::new(repository, &snapshot, top, Direction::CheckIn, &mut messages);
    let mut filters = filters.expect("filters");
    let index = Index::empty(repository.hash_kind());
    let options = BatchOptions::of(repository.config()).expect("options");
    let batch = ObjectBatch::new(repository.object_dir(), Arc::clone(&snapshot), options);
    let job = |path: &String| {
        StageJob::new(path.as_bytes(), None, &mut filters, &index, &mut messages).expect("a job")
    };
    let jobs: Vec<StageJob> = paths.iter().map(job).collect();
    let stager = Stager::new(repository, top, filters.converter(), &index, Some(&batch)).expect("a stager");
    let results = stager.with_unreadable(goes_on).run(&jobs);
    batch.publish().expect("objects are stored");
    results
}

#[test]
fn results_come_in_order_and_objects_are_stored() {
    let (directory, repository) = repository();
    let paths: Vec<String> = (0..500).map(|number| format!("file {number}")).collect();
    for path in &paths {
        std::fs::write(directory.path().join(path), path.repeat(20)).expect("a file");
    }
    let results = stage(directory.path(), &repository, &paths, false);
    assert_eq!(results.len(), paths.len());
    for (path, result) in paths.iter().zip(results) {
        let staged = result.expect("a file that can be read");
        let content = Git::stock().run(directory.path(), &["cat-file", "blob", &staged.id.to_string()]);
        assert_eq!(content, path.repeat(20));
        assert_eq!(staged.seen.size_bytes, content.len() as u64);
    }
}

#[test]
fn the_first_failure_ends_it_unless_others_go_on() {
    let (directory, repository) = repository();
    let paths: Vec<String> = (0..100).map(|number| format!("{number:02}")).collect();
    for path in paths.iter().filter(|path| path.as_str() != "40") {
        std::fs::write(directory.path().join(path), path).expect("a file");
    }
    std::fs::create_dir(directory.path().join("40")).expect("a directory");
    let is_read =
        |results: &[Result<Staged, StageError>]| results.iter().map(Result::is_ok).collect::<Vec<_>>();
    let results = stage(directory.path(), &repository, &paths, true);
    assert_eq!(is_read(&results), (0..100).map(|number| number != 40).collect::<Vec<_>>());
    let words = results[40].as_ref().expect_err("a directory").to_string();
    assert_eq!(words, "error: 40: can only add regular files, symbolic links or git-directories");
    let results = stage(directory.path(), &repository, &paths, false);
    assert!(is_read(&results)[..40].iter().all(|is_read| *is_read));
    assert!(matches!(&results[40], Err(StageError::Unreadable(_))));
    assert!(results[41..].iter().all(|result| !matches!(result, Err(StageError::Unreadable(_)))));
}

#[test]
fn what_is_gone_is_told_in_gits_words() {
    let (directory, repository) = repository();
    let results = stage(directory.path(), &repository, &["gone".to_owned()], false);
    let words = results[0].as_ref().expect_err("nothing").to_string();
    let expected = "error: open(\"gone\"): No such file or directory\nerror: unable to index file 'gone'";
    assert_eq!(words, expected);
}
