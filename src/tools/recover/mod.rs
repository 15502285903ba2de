//! Mending a log dir or a partition folder after a crash, as a broker's start-up does (`LogManager.loadLogs`).
//!
//! | module | what |
//! |---|---|
//! | `output` | a new directory for the result: whole, or not there |
//! | `refused` | what is wrong with the partitions that are left alone |
//! | [`report`] | what was found and done |
//!
//! Every partition is planned before the first byte is written ([`crate::load`]); the plan is then only reported (dry
//! run), carried out in place, or written into a new directory. As at a broker's start, the checkpoints of the log dir
//! say where recovery begins, and its clean-shutdown marker that nothing needs to be checked; what is unlinked
//! `file.delete.delay.ms` later by a broker is unlinked at once. Afterwards the log is closed as at a clean shutdown:
//! everything flushed, indexes trimmed, a producer snapshot at the log end, the checkpoints in line with the logs
//! ([`crate::write::checkpoints`]). Of one partition, only its own lines change in the checkpoints that are there.
//!
//! The marker goes before the first change, as at a start, and comes back in the end as it was, as at a stop. But it tells
//! the controller that nothing acknowledged was lost (KIP-966): none is made where there was none, and none is left where
//! the caller said that it lies, or where bytes of a log were cut.

pub(super) mod output;
mod refused;
pub(crate) mod report;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use self::output::{check_out, copy, fill, try_out};
use self::refused::{Refusals, Refused};
use self::report::{PartitionReport, RecoveryReport, not_loaded};
use crate::error::{Error, Result};
use crate::format::file_name::{CLUSTER_METADATA_TOPIC, FolderState};
use crate::io::atomic;
use crate::io::disk::Disk;
use crate::io::folder::DiskFolder;
use crate::io::interrupt;
use crate::io::lock::{LOCK_FILE, LogDirLock, PartitionClaim};
use crate::load::{LoadRequest, Note, Plan, plan, plan_salvage};
use crate::log::config::LogConfig;
use crate::log::dir::{
    CLEAN_SHUTDOWN, DirState, LOG_START, LogDir, META_PROPERTIES, Offsets, PartitionFolder,
    PathKind, UNKNOWN_PARTITION, dir_above, folder_name,
};
use crate::log::output::UNFINISHED;
use crate::producers::DEFAULT_PRODUCER_ID_EXPIRATION_MS;
use crate::segment::files::free_segment_room;
use crate::types::{Offset, TimestampMs};
use crate::write::checkpoints::{Checkpoints, LogEnds};
use crate::write::storage::write_checkpoints;

/// What to do where Kafka would not load the log, or would throw batches away that are whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnLoss {
    /// Say so and change nothing. What Kafka cuts after a damaged batch is no surprise and is cut; what is refused is
    /// where sound batches go for another reason: a segment emptied for an offset that goes back, batches after the
    /// log end that a lying index leads to, a `.log` whose name Kafka does not read.
    #[default]
    Refuse,
    /// Do what Kafka does, and refuse only where it does not load the log.
    AsKafka,
    /// Keep every batch that is whole and in order, whatever it takes; the result loads in Kafka.
    Salvage,
}

/// How to recover.
#[derive(Clone, Debug)]
pub struct RecoverOptions {
    /// Whether the broker stopped cleanly; `None`: as the marker of the log dir says.
    pub clean: Option<bool>,
    /// First offset not known to be on disk, of every partition; `None`: as the checkpoint says, 0 without one.
    pub recovery_point: Option<Offset>,
    /// First offset that may be read, of every partition; `None`: as the checkpoint says, 0 without one.
    pub log_start_offset: Option<Offset>,
    /// Topic settings: those of the indexes count.
    pub config: LogConfig,
    /// The settings of topics that have others.
    pub topics: BTreeMap<String, LogConfig>,
    /// The clock, for producers that have expired.
    pub now_ms: TimestampMs,
    /// `producer.id.expiration.ms`.
    pub producer_id_expiration_ms: i64,
    /// What to do where batches would be lost.
    pub on_loss: OnLoss,
    /// Report only.
    pub dry_run: bool,
    /// A directory to be made, for the result; the source stays as it is. `None`: in place.
    pub out: Option<PathBuf>,
    /// The writing side of the file system.
    pub disk: Disk,
}

impl RecoverOptions {
    /// Kafka's defaults, at this time.
    #[must_use]
    pub fn at(now_ms: TimestampMs) -> Self {
        Self {
            clean: None,
            recovery_point: None,
            log_start_offset: None,
            config: LogConfig::default(),
            topics: BTreeMap::new(),
            now_ms,
            producer_id_expiration_ms: DEFAULT_PRODUCER_ID_EXPIRATION_MS,
            on_loss: OnLoss::default(),
            dry_run: false,
            out: None,
            disk: Disk::default(),
        }
    }

    fn config_of(&self, partition: &PartitionFolder) -> &LogConfig {
        let topic = &partition.name.topic_partition.topic;
        self.topics.get(topic).unwrap_or(&self.config)
    }
}

/// What comes after the loading of each partition, on the way into a new log dir.
pub(super) trait Steps {
    /// Whether the partition is among those of the result.
    fn keeps(&self, _partition: &PartitionFolder) -> bool {
        true
    }

    /// Plans more, before the log is closed. A plan that took too much memory is made again.
    fn plan(&self, partition: &PartitionFolder, config: &LogConfig, plan: &mut Plan) -> Result<()>;

    /// Writes the partition's folder.
    fn write(
        &self,
        _partition: &PartitionFolder,
        plan: &Plan,
        disk: &Disk,
        to: &Path,
    ) -> Result<()> {
        plan.write_to(disk, to)
    }

    /// Whether the result is whole then; else the caller removes the note that it is not.
    fn finishes(&self) -> bool {
        true
    }
}

/// What is done to the new log dir once all partitions are in it, before it is finished. A dry run does it too, and takes the
/// log dir away again.
pub(super) type After<'a> = &'a dyn Fn(&[PartitionReport]) -> Result<()>;

/// A recovery, and what comes after it.
#[derive(Clone, Copy)]
struct Job<'a> {
    options: &'a RecoverOptions,
    steps: Option<&'a dyn Steps>,
    after: Option<After<'a>>,
}

impl Job<'_> {
    /// Whether the result is a log dir, whatever the source is.
    fn makes_log_dir(&self, is_log_dir: bool) -> bool {
        let is_for_more = self.steps.is_some() || self.after.is_some();
        self.options.out.is_some() && (is_log_dir || is_for_more)
    }
}

/// A partition to be recovered.
struct Planned {
    partition: PartitionFolder,
    request: LoadRequest,
    /// Left out where plans would take too much memory; it is made again when its turn comes.
    plan: Option<Plan>,
    report: PartitionReport,
    /// Where the log begins and ends then.
    ends: LogEnds,
}

impl Planned {
    /// Does something with the plan.
    fn with_plan(&self, job: Job<'_>, act: impl FnOnce(&Plan) -> Result<()>) -> Result<()> {
        match &self.plan {
            Some(plan) => act(plan),
            None => act(&plan_partition(&self.partition, self.request, job)?),
        }
    }

    /// What the checkpoints say of it; nothing of strays, nor of a folder with a name of the user's own.
    fn checkpointed(&self) -> Option<LogEnds> {
        let name = &self.partition.name;
        let counts = matches!(name.state, FolderState::Live | FolderState::Future)
            && name.topic_partition.partition != UNKNOWN_PARTITION;
        counts.then(|| self.ends.clone())
    }
}

fn ends_of(partition: &PartitionFolder, plan: &Plan) -> Result<LogEnds> {
    match &plan.outcome {
        Ok(log) => Ok(LogEnds {
            partition: partition.name.topic_partition.clone(),
            first_base_offset: log.segments.first().map_or(0, |first| first.base_offset),
            log_start_offset: log.log_start_offset,
            log_end_offset: log.log_end_offset,
        }),
        Err(_) => Err(not_loaded(partition)),
    }
}

/// Recovers a log dir, or one partition folder of it.
///
/// # Errors
/// Where a partition is refused ([`OnLoss`]): the error that Kafka stops at, or the loss; it names all that are refused,
/// and nothing has been changed then. `InvalidArgument` for an `out` that lies inside of the source, `Io`, also for one
/// that is not empty. `Interrupted` before the first change in place, or with `out` empty.
pub fn recover(path: &Path, options: &RecoverOptions) -> Result<RecoveryReport> {
    let (steps, after) = (None, None);
    run(
        path,
        Job {
            options,
            steps,
            after,
        },
    )
}

/// Recovers, does something with every partition, and writes the result into a new log dir.
///
/// # Errors
/// As [`recover`], and those of the step.
pub(super) fn recover_then(
    path: &Path,
    options: &RecoverOptions,
    steps: &dyn Steps,
) -> Result<RecoveryReport> {
    let (steps, after) = (Some(steps), None);
    run(
        path,
        Job {
            options,
            steps,
            after,
        },
    )
}

/// Recovers into a new log dir, and does something with it.
///
/// # Errors
/// As [`recover`], and those of the step.
pub(super) fn recover_into(
    path: &Path,
    options: &RecoverOptions,
    after: After<'_>,
) -> Result<RecoveryReport> {
    let (steps, after) = (None, Some(after));
    run(
        path,
        Job {
            options,
            steps,
            after,
        },
    )
}

fn run(path: &Path, job: Job<'_>) -> Result<RecoveryReport> {
    let options = job.options;
    let Source {
        is_log_dir,
        log_dir,
        partitions,
        skipped,
    } = Source::of(path)?;
    let keeps = |partition: &PartitionFolder| job.steps.is_none_or(|steps| steps.keeps(partition));
    let (partitions, left_out): (Vec<_>, Vec<_>) = partitions.into_iter().partition(keeps);
    if let Some(out) = &options.out {
        check_out(path, out)?;
    }
    let state = DirState::read(&log_dir);
    let lock = match (&options.out, options.dry_run) {
        (None, false) => Some(claim(&log_dir, &partitions)?),
        _ => None,
    };
    let planned = plan_all(partitions, &state, job)?;
    let logs: Vec<_> = planned.iter().filter_map(Planned::checkpointed).collect();
    let checkpoints = if is_log_dir || options.out.is_none() {
        Checkpoints::plan(&log_dir, &logs, is_log_dir)
    } else if job.makes_log_dir(is_log_dir) {
        Checkpoints::alone(&log_dir, &logs)
    } else {
        // A partition folder alone says nothing of the folder above it.
        Checkpoints::default()
    };
    match (&options.out, &lock) {
        (None, Some(_)) => {
            let marker = marker_to_keep(&log_dir, is_log_dir, &planned, options)?;
            // What has begun in place comes to its end.
            interrupt::with_cancellation(
                || false,
                || {
                    in_place(&log_dir, is_log_dir, &planned, job)?;
                    write_checkpoints(&log_dir, &checkpoints, &options.disk)?;
                    write_marker(marker, &log_dir, options)
                },
            )?;
        }
        (Some(out), _) if !options.dry_run || job.after.is_some() => {
            let makes_log_dir = job.makes_log_dir(is_log_dir);
            let marker = marker_to_keep(&log_dir, makes_log_dir, &planned, options)?;
            let finishes = job.steps.is_none_or(Steps::finishes);
            let work = || {
                if makes_log_dir && !is_log_dir {
                    into_new_log_dir(out, &planned, job)?;
                } else {
                    into(path, is_log_dir, out, &planned, &left_out, job)?;
                }
                checkpoints.write(&options.disk, out)?;
                write_marker(marker, out, options)?;
                let reports: Vec<_> = planned.iter().map(|each| each.report.clone()).collect();
                job.after.map_or(Ok(()), |after| after(&reports))
            };
            if options.dry_run {
                try_out(path, out, &options.disk, work)?;
            } else {
                fill(path, out, &options.disk, finishes, work)?;
            }
        }
        _ => {}
    }
    Ok(RecoveryReport {
        path: path.to_path_buf(),
        out: options.out.clone(),
        dry_run: options.dry_run,
        clean: options.clean.unwrap_or(state.clean_shutdown),
        partitions: planned.into_iter().map(|planned| planned.report).collect(),
        checkpoints: checkpoints.changes().to_vec(),
        skipped,
    })
}

/// Kafka's refusal, with the way out.
pub(super) fn refusal(error: Error) -> Error {
    Refused::not_loaded(error).into()
}

/// Rebuilt indexes of all plans that are kept.
const MAX_KEPT: u64 = 256 << 20;

fn plan_all(
    partitions: Vec<PartitionFolder>,
    state: &DirState,
    job: Job<'_>,
) -> Result<Vec<Planned>> {
    let options = job.options;
    let mut planned = Vec::new();
    let mut refusals = Refusals::default();
    let mut kept = 0u64;
    for partition in partitions {
        let mut request = request(&partition, state, options);
        let plan = plan_partition(&partition, request, job);
        let Some(mut plan) = refusals.sort_out(plan)? else {
            continue;
        };
        if let Some(hint) = refuted_start(request, &plan, options) {
            request.log_start_offset = 0;
            let again = plan_partition(&partition, request, job);
            let Some(again) = refusals.sort_out(again)? else {
                continue;
            };
            plan = again;
            plan.notes.push(hint);
        }
        let report = PartitionReport::of(&partition, request, &plan)?;
        let ends = ends_of(&partition, &plan)?;
        kept = kept.saturating_add(plan.kept_bytes());
        planned.push(Planned {
            partition,
            request,
            plan: (kept <= MAX_KEPT).then_some(plan),
            report,
            ends,
        });
    }
    refusals.into_result()?;
    Ok(planned)
}

/// What a path stands for.
struct Source {
    /// Not one partition's folder.
    is_log_dir: bool,
    /// The path, or the folder above it.
    log_dir: PathBuf,
    partitions: Vec<PartitionFolder>,
    skipped: Vec<PathBuf>,
}

impl Source {
    fn of(path: &Path) -> Result<Self> {
        match PathKind::of(path)? {
            PathKind::LogDir => {
                let (partitions, skipped) = partitions(path)?;
                Ok(Self {
                    is_log_dir: true,
                    log_dir: path.to_path_buf(),
                    partitions,
                    skipped,
                })
            }
            PathKind::Partition(name) => Ok(Self {
                is_log_dir: false,
                log_dir: dir_above(path),
                partitions: vec![PartitionFolder {
                    name,
                    path: path.to_path_buf(),
                }],
                skipped: Vec::new(),
            }),
            PathKind::File => {
                let text = format!("{}: not a log dir or partition folder", path.display());
                Err(Error::InvalidArgument(text))
            }
        }
    }
}

/// The partition folders that a broker loads; not those on their way out, nor the metadata log, which is loaded by other
/// rules.
fn partitions(log_dir: &Path) -> Result<(Vec<PartitionFolder>, Vec<PathBuf>)> {
    let folders = LogDir::open(log_dir)?.ensure_log_dir()?.folders().to_vec();
    let (loaded, skipped): (Vec<_>, Vec<_>) = folders.into_iter().partition(|folder| {
        folder.name.state != FolderState::Delete
            && folder.name.topic_partition.topic != CLUSTER_METADATA_TOPIC
    });
    loaded
        .iter()
        .try_for_each(PartitionFolder::ensure_partition)?;
    let skipped = skipped.into_iter().map(|folder| folder.path).collect();
    Ok((loaded, skipped))
}

/// The lock of the log dir, and the right to every partition: nobody writes where a broker or a writer does.
pub(super) fn claim(
    log_dir: &Path,
    partitions: &[PartitionFolder],
) -> Result<(LogDirLock, Vec<PartitionClaim>)> {
    let lock = LogDirLock::acquire(log_dir)?;
    let name = |partition: &PartitionFolder| {
        let name = partition.path.file_name();
        name.map_or_else(String::new, |name| name.to_string_lossy().into_owned())
    };
    let claims = partitions
        .iter()
        .map(|partition| lock.claim(&name(partition)));
    let claims = claims.collect::<Result<_>>()?;
    Ok((lock, claims))
}

fn request(partition: &PartitionFolder, state: &DirState, options: &RecoverOptions) -> LoadRequest {
    let of = |offsets: &Offsets| offsets.get(&partition.name.topic_partition).copied();
    let recovery_point = options.recovery_point.or(of(&state.recovery_points));
    let log_start_offset = options.log_start_offset.or(of(&state.log_starts));
    LoadRequest {
        clean: options.clean.unwrap_or(state.clean_shutdown),
        recovery_point: recovery_point.unwrap_or_default(),
        log_start_offset: log_start_offset.unwrap_or_default(),
        now_ms: options.now_ms,
        producer_id_expiration_ms: options.producer_id_expiration_ms,
    }
}

fn plan_partition(
    partition: &PartitionFolder,
    request: LoadRequest,
    job: Job<'_>,
) -> Result<Plan, Refused> {
    let options = job.options;
    let config = options.config_of(partition);
    let mut plan = match options.on_loss {
        OnLoss::Salvage => plan_salvage(&partition.path, config, request)?,
        OnLoss::Refuse | OnLoss::AsKafka => plan(&partition.path, config, request)?,
    };
    // To the plan, an interruption may have been a batch that is none.
    interrupt::check()?;
    if let Err(error) = plan.outcome {
        return Err(match options.on_loss {
            OnLoss::Salvage => Refused::not_salvaged(error),
            OnLoss::Refuse | OnLoss::AsKafka => Refused::not_loaded(error),
        });
    }
    if options.on_loss == OnLoss::Refuse
        && let Some(note) = plan.notes.iter().find(|note| note.is_loss())
    {
        return Err(Refused::loss(&partition.path, note));
    }
    if let Some(steps) = job.steps {
        steps.plan(partition, config, &mut plan)?;
    }
    plan.close()?;
    plan.unlink_deleted();
    Ok(plan)
}

/// A checkpoint is no more than a hint to salvage: where the log ends below the start that it names, the log would go.
fn refuted_start(request: LoadRequest, plan: &Plan, options: &RecoverOptions) -> Option<Note> {
    let is_hint = options.on_loss == OnLoss::Salvage && options.log_start_offset.is_none();
    let goes = |note: &Note| matches!(note, Note::Deleted { size, .. } if *size > 0);
    (is_hint && plan.notes.iter().any(goes)).then(|| Note::SetAside {
        name: LOG_START.to_owned(),
        reason: format!(
            "it names {} as the start of a log that ends before",
            request.log_start_offset
        ),
    })
}

/// The bytes of the log dir's marker, where they will still be true.
fn marker_to_keep(
    log_dir: &Path,
    is_of_log_dir: bool,
    planned: &[Planned],
    options: &RecoverOptions,
) -> Result<Option<Vec<u8>>> {
    let is_whole = planned.iter().all(|each| each.report.bytes_cut() == 0);
    if !is_of_log_dir || !is_whole || options.clean == Some(false) {
        return Ok(None);
    }
    let path = log_dir.join(CLEAN_SHUTDOWN);
    match fs::read(&path) {
        Ok(marker) => Ok(Some(marker)),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(Error::io(&path)(e)),
    }
}

fn write_marker(marker: Option<Vec<u8>>, log_dir: &Path, options: &RecoverOptions) -> Result<()> {
    marker.map_or(Ok(()), |marker| {
        atomic::replace(&options.disk, &log_dir.join(CLEAN_SHUTDOWN), &marker)
    })
}

fn in_place(log_dir: &Path, is_log_dir: bool, planned: &[Planned], job: Job<'_>) -> Result<()> {
    let disk = &job.options.disk;
    if is_log_dir {
        // Before the first log is touched, as in a broker: a crash from here on leaves an unclean log dir.
        disk.remove(&log_dir.join(CLEAN_SHUTDOWN))?;
        disk.sync_folder(log_dir)?;
    }
    planned.iter().try_for_each(|planned| {
        planned.with_plan(job, |plan| {
            plan.apply(disk)?;
            let log = plan.outcome.as_ref().ok();
            if let Some(active) = log.and_then(|log| log.segments.last()) {
                let folder = DiskFolder::new(&planned.report.folder, disk);
                free_segment_room(&folder, active.base_offset)?;
            }
            plan.flush(disk, planned.request.recovery_point)
        })
    })
}

fn into(
    path: &Path,
    is_log_dir: bool,
    out: &Path,
    planned: &[Planned],
    left_out: &[PartitionFolder],
    job: Job<'_>,
) -> Result<()> {
    let disk = &job.options.disk;
    if !is_log_dir {
        return planned
            .iter()
            .try_for_each(|planned| write_partition(job, planned, out));
    }
    disk.create_folders(out)?;
    let entries = fs::read_dir(path).map_err(Error::io(path))?;
    let mut entries = entries
        .collect::<std::io::Result<Vec<_>>>()
        .map_err(Error::io(path))?;
    // A broker takes no log dir for its own without this, should we be killed before the end.
    entries.sort_by_key(|entry| entry.file_name() == META_PROPERTIES);
    for entry in entries {
        let (from, name) = (entry.path(), entry.file_name());
        let is_left_out = [CLEAN_SHUTDOWN, LOCK_FILE, UNFINISHED]
            .iter()
            .any(|own| name == *own)
            || left_out.iter().any(|partition| partition.path == from);
        let one = planned.iter().find(|planned| planned.report.folder == from);
        match one {
            Some(one) => write_partition(job, one, &out.join(&name))?,
            None if !is_left_out => copy(disk, &from, &out.join(&name))?,
            None => {}
        }
    }
    disk.sync_folder(out)
}

/// Writes partitions into a log dir of their own.
fn into_new_log_dir(out: &Path, planned: &[Planned], job: Job<'_>) -> Result<()> {
    let disk = &job.options.disk;
    disk.create_folders(out)?;
    for planned in planned {
        let name = folder_name(&planned.partition.path);
        write_partition(job, planned, &out.join(name))?;
    }
    disk.sync_folder(out)
}

/// Writes a partition folder as it will be, and what else is in it.
fn write_partition(job: Job<'_>, planned: &Planned, to: &Path) -> Result<()> {
    let disk = &job.options.disk;
    planned.with_plan(job, |plan| match job.steps {
        Some(steps) => steps.write(&planned.partition, plan, disk, to),
        None => plan.write_to(disk, to),
    })?;
    let from = &planned.report.folder;
    for entry in fs::read_dir(from).map_err(Error::io(from))? {
        let path = entry.map_err(Error::io(from))?.path();
        if let (true, Some(name)) = (path.is_dir(), path.file_name()) {
            copy(disk, &path, &to.join(name))?;
        }
    }
    Ok(())
}
