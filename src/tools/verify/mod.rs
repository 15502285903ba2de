//! `verify`: reads every file of log dirs, partition folders or single files, and reports their faults. Nothing
//! is written, locked or changed.
//!
//! The rules are those of every Kafka version since 0.8: files of any broker, running, stopped or killed, give at most
//! an [`Info`](finding::Severity::Info).
//!
//! | module | verifies |
//! |---|---|
//! | [`log`] | `.log`: headers, checksums, order, bytes after the last batch |
//! | `past_damage` | a second pass over a damaged `.log`: the losses |
//! | `records` | one batch: checksum, decompression, every record |
//! | `index`, `txn_index` | entries against the log |
//! | `producers`, `snapshot` | `.snapshot` and `.txnindex` against the producers of the log |
//! | `epochs` | `leader-epoch-checkpoint` against the batches |
//! | `metadata_snapshot` | `.checkpoint` of the metadata log, `bootstrap.checkpoint` |
//! | `partition` | a partition folder |
//! | `checkpoints`, `identity`, `dir` | the log dir around them |
//! | `topics` | topics and replicas against the metadata log |
//! | [`finding`] | findings, by code |
//! | [`table`](mod@table) | findings as Arrow |
//! | [`pool`] | the threads |

mod checkpoints;
mod dir;
mod epochs;
pub(crate) mod finding;
mod identity;
mod index;
mod log;
mod metadata_snapshot;
mod partition;
mod past_damage;
pub(crate) mod pool;
mod producers;
mod records;
mod snapshot;
mod summary;
pub(crate) mod table;
mod topics;
mod txn_index;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use self::checkpoints::CheckpointFiles;
use self::finding::{Finding, Findings, UNREADABLE};
use self::log::Reading;
use self::partition::{CheckedSegment, Partition};
use self::pool::VerifyPool;
use crate::error::Result;
use crate::io::threads::{into_inner, lock, processors};
use crate::log::dir::{DirState, LogDir, PartitionFolder, PathKind, dir_above, folder_name};
use crate::tools::progress::{Progress, Stage};
use crate::tools::rebuild::Level;

/// Options of a verification.
#[derive(Clone, Debug, Default)]
pub(crate) struct VerifyOptions {
    /// The version of Kafka that is to read the files; `None` for what does not depend on it.
    pub level: Option<Level>,
    /// Batches by their headers alone, without checksums and records.
    pub headers_only: bool,
    /// Threads; 0 for as many as there are processors.
    pub threads: usize,
    /// Progress of the work.
    pub progress: Arc<Progress>,
}

/// A log dir, or the one around a partition folder.
#[derive(Debug)]
struct VerifyTarget {
    path: PathBuf,
    state: DirState,
    checkpoints: CheckpointFiles,
    folders: Vec<PartitionFolder>,
    /// All of it, rather than one partition.
    is_whole: bool,
}

/// One segment, or one snapshot of the metadata log.
enum Task {
    Segment(usize, usize),
    MetadataSnapshot(usize, String),
    Bootstrap(usize),
}

/// Result of a task.
enum TaskResult {
    Segment(usize, usize, Box<CheckedSegment>),
    Findings(Vec<Finding>),
}

/// Verifies log dirs, partition folders and files.
///
/// # Errors
/// `Io` for a path that does not exist or cannot be listed, `InvalidArgument` for a directory without any of Kafka's
/// files, `Interrupted`, `OutOfMemory`. Faults in a file are findings.
pub(crate) fn verify(paths: &[PathBuf], options: &VerifyOptions) -> Result<Vec<Finding>> {
    let mut found = Vec::new();
    let mut targets = Vec::new();
    let mut findings = Findings::default();
    for path in paths {
        let target = match PathKind::of(path) {
            Ok(PathKind::File) => {
                found.extend(verify_file(path, options)?);
                continue;
            }
            Ok(_) => VerifyTarget::of(path, &mut findings),
            Err(error) => Err(error),
        };
        match target {
            // The others can be verified.
            Err(error) if paths.len() > 1 && error.is_denied() => {
                findings.add(Finding::of_error(UNREADABLE, path, &error));
            }
            target => targets.push(target?),
        }
    }
    found.extend(findings.finish());
    found.extend(verify_targets(&targets, options)?);
    found.sort_by(|a, b| {
        let key = |finding: &Finding| (finding.position, finding.end, finding.code.name);
        (&a.file, key(a), &a.message).cmp(&(&b.file, key(b), &b.message))
    });
    found.dedup();
    Ok(found)
}

/// A file is verified with those around it; what is said of them is left out.
fn verify_file(path: &Path, options: &VerifyOptions) -> Result<Vec<Finding>> {
    let mut findings = Findings::default();
    let target = VerifyTarget::of(&dir_above(path), &mut findings)?;
    let name = folder_name(path);
    let found = verify_targets(&[target], options)?.into_iter();
    let found = findings.finish().into_iter().chain(found);
    Ok(found
        .filter(|finding| folder_name(&finding.file) == name)
        .collect())
}

impl VerifyTarget {
    fn of(path: &Path, findings: &mut Findings) -> Result<Self> {
        if let PathKind::Partition(name) = PathKind::of(path)? {
            let log_dir = dir_above(path);
            return Ok(Self {
                state: DirState::read(&log_dir),
                checkpoints: checkpoints::read(&log_dir, findings),
                path: log_dir,
                folders: vec![PartitionFolder {
                    name,
                    path: path.to_path_buf(),
                }],
                is_whole: false,
            });
        }
        let dir = LogDir::open(path)?;
        Ok(Self {
            state: dir.state(),
            checkpoints: checkpoints::read(path, findings),
            path: path.to_path_buf(),
            folders: dir.folders().to_vec(),
            is_whole: true,
        })
    }
}

fn verify_targets(targets: &[VerifyTarget], options: &VerifyOptions) -> Result<Vec<Finding>> {
    let mut found = Vec::new();
    let mut partitions = Vec::new();
    for (n, target) in targets.iter().enumerate() {
        let reading = Reading {
            level: options.level,
            is_clean: target.state.clean_shutdown,
            headers_only: options.headers_only,
        };
        for folder in &target.folders {
            let partition = Partition::open(folder.clone(), &target.state, reading)?;
            partitions.push((n, partition));
        }
    }
    options.progress.add_partitions(partitions.len());
    let tasks = tasks(targets, &partitions, &options.progress);
    let threads = match options.threads {
        0 => processors(),
        threads => threads,
    };
    let pool = VerifyPool::new(threads, Arc::clone(&options.progress));
    let outcomes = Mutex::new(Vec::new());
    pool.run(tasks.len(), &|n, batches| {
        let Some(task) = tasks.get(n) else {
            return Ok(());
        };
        let threads = (&pool, batches);
        let outcome = match task {
            Task::Segment(p, n) => match partitions.get(*p) {
                Some((_, partition)) => partition
                    .check_segment(*n, threads)?
                    .map(|checked| TaskResult::Segment(*p, *n, Box::new(checked))),
                None => None,
            },
            Task::MetadataSnapshot(p, name) => match partitions.get(*p) {
                Some((_, partition)) => Some(TaskResult::Findings(
                    partition.check_metadata_snapshot(name, threads)?,
                )),
                None => None,
            },
            Task::Bootstrap(n) => match targets.get(*n) {
                Some(target) => Some(TaskResult::Findings(dir::bootstrap(&target.path, threads)?)),
                None => None,
            },
        };
        let mut outcomes = lock(&outcomes);
        outcomes.extend(outcome);
        Ok(())
    })?;
    let mut checked: BTreeMap<usize, BTreeMap<usize, CheckedSegment>> = BTreeMap::new();
    for outcome in into_inner(outcomes) {
        match outcome {
            TaskResult::Segment(p, n, segment) => {
                checked.entry(p).or_default().insert(n, *segment);
            }
            TaskResult::Findings(more) => found.extend(more),
        }
    }
    let mut dirs: Vec<dir::Contents> = targets.iter().map(|_| dir::Contents::default()).collect();
    for (p, (n, partition)) in partitions.into_iter().enumerate() {
        let segments = checked.remove(&p).unwrap_or_default().into_values();
        let (folder, topic_id) = (partition.folder.clone(), partition.topic_id.clone());
        let (extent, more) = partition.finish(segments.collect())?;
        found.extend(more);
        if let Some(contents) = dirs.get_mut(n) {
            contents.add(folder, topic_id, extent);
        }
    }
    let mut findings = Findings::default();
    for (target, contents) in targets.iter().zip(&mut dirs) {
        let checkpoints = (&target.checkpoints, target.is_whole);
        dir::check(&target.path, checkpoints, contents, &mut findings)?;
    }
    dir::compare(&dirs, &mut findings);
    topics::compare(&dirs, &mut findings)?;
    found.extend(findings.finish());
    Ok(found)
}

/// All tasks, the largest first, so that none is left alone at the end.
fn tasks(
    targets: &[VerifyTarget],
    partitions: &[(usize, Partition)],
    progress: &Progress,
) -> Vec<Task> {
    let mut tasks = Vec::new();
    for (p, (_, partition)) in partitions.iter().enumerate() {
        for (n, segment) in partition.segments.iter().enumerate() {
            tasks.push((segment.size, Task::Segment(p, n)));
        }
        for name in &partition.metadata_snapshots {
            tasks.push((0, Task::MetadataSnapshot(p, name.clone())));
        }
    }
    for (n, target) in targets.iter().enumerate() {
        if target.is_whole && dir::has_bootstrap(&target.path) {
            tasks.push((0, Task::Bootstrap(n)));
        }
    }
    let total = tasks.iter().map(|&(size, _)| size).sum();
    progress.begin(Stage::Read, total);
    tasks.sort_by(|(a, _), (b, _)| b.cmp(a));
    tasks.into_iter().map(|(_, task)| task).collect()
}
