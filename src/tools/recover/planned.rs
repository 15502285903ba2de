//! Plan for each partition, before the first byte is written.

use std::collections::BTreeSet;

use super::options::RecoverySettings;
use super::refused::{Refusals, RefusedPartition};
use super::report::{PartitionReport, not_loaded};
use crate::error::Result;
use crate::format::file_name::FolderState;
use crate::io::interrupt;
use crate::load::{LoadRequest, Note, OnLoss, Plan, plan};
use crate::log::config::LogConfig;
use crate::log::dir::{DirState, LOG_START, PartitionFolder, PartitionOffsets, UNKNOWN_PARTITION};
use crate::write::checkpoints::LogEnds;

/// A step on a loaded log, before it is closed. It is repeated where a plan is made again.
pub(super) type PlanStep<'a> = dyn Fn(&PartitionFolder, &LogConfig, &mut Plan) -> Result<()> + 'a;

/// A partition to be recovered.
pub(super) struct PlannedPartition {
    partition: PartitionFolder,
    pub(super) request: LoadRequest,
    /// Left out where plans would take too much memory, and taken by the first to use it.
    plan: Option<Plan>,
    pub(super) report: PartitionReport,
    /// Start and end of the log then.
    ends: LogEnds,
}

impl PlannedPartition {
    /// Takes the plan, or makes it again.
    pub(super) fn take_plan(
        &mut self,
        settings: &RecoverySettings,
        step: &PlanStep<'_>,
    ) -> Result<Plan, RefusedPartition> {
        let kept = self.plan.take();
        kept.map_or_else(
            || plan_partition(&self.partition, self.request, settings, step),
            Ok,
        )
    }
}

/// Offsets of the partitions for the checkpoints. Strays and folders with a name of the user's own have no line, and a
/// `-future` folder has one only where the live folder is in another log dir, as brokers have it.
pub(super) fn checkpointed(planned: &[PlannedPartition]) -> Vec<LogEnds> {
    let name = |one: &PlannedPartition| one.partition.name.clone();
    let names = planned.iter().map(name);
    let live: BTreeSet<_> = names
        .filter(|name| name.state == FolderState::Live)
        .map(|name| name.topic_partition)
        .collect();
    let counts = |one: &&PlannedPartition| {
        let name = &one.partition.name;
        let is_of_a_partition = name.topic_partition.partition != UNKNOWN_PARTITION;
        is_of_a_partition
            && match name.state {
                FolderState::Live => true,
                FolderState::Future => !live.contains(&name.topic_partition),
                _ => false,
            }
    };
    let counted = planned.iter().filter(counts);
    counted.map(|one| one.ends.clone()).collect()
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

/// Rebuilt indexes of all plans that are kept.
const MAX_KEPT: u64 = 256 << 20;

pub(super) fn plan_all(
    partitions: Vec<PartitionFolder>,
    state: &DirState,
    options: &RecoverySettings,
    step: &PlanStep<'_>,
) -> Result<Vec<PlannedPartition>> {
    let mut planned = Vec::new();
    let mut refusals = Refusals::default();
    let mut kept = 0u64;
    for partition in partitions {
        let mut request = request(&partition, state, options);
        let plan = plan_partition(&partition, request, options, step);
        let Some(mut plan) = refusals.sort_out(plan)? else {
            continue;
        };
        if let Some(hint) = refuted_start(request, &plan, options) {
            request.log_start_offset = 0;
            let again = plan_partition(&partition, request, options, step);
            let Some(again) = refusals.sort_out(again)? else {
                continue;
            };
            plan = again;
            plan.notes.push(hint);
        }
        let report = PartitionReport::of(&partition, request, &plan)?;
        let ends = ends_of(&partition, &plan)?;
        kept = kept.saturating_add(plan.kept_bytes());
        planned.push(PlannedPartition {
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

fn request(
    partition: &PartitionFolder,
    state: &DirState,
    options: &RecoverySettings,
) -> LoadRequest {
    let of = |offsets: &PartitionOffsets| offsets.get(&partition.name.topic_partition).copied();
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
    options: &RecoverySettings,
    step: &PlanStep<'_>,
) -> Result<Plan, RefusedPartition> {
    let config = options.config_of(partition);
    let mut plan = plan(&partition.path, config, request, options.on_loss)?;
    // To the plan, an interruption may have been a batch that is none.
    interrupt::check()?;
    if let Err(error) = plan.outcome {
        return Err(match options.on_loss {
            OnLoss::Salvage => RefusedPartition::not_salvaged(error),
            _ if plan.losses.is_empty() => RefusedPartition::not_loaded(error),
            _ => RefusedPartition::loss(error),
        });
    }
    step(partition, config, &mut plan)?;
    plan.close()?;
    plan.unlink_deleted();
    Ok(plan)
}

/// A checkpoint is no more than a hint to salvage: where the log ends below the start that it names, the log would go.
fn refuted_start(request: LoadRequest, plan: &Plan, options: &RecoverySettings) -> Option<Note> {
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
