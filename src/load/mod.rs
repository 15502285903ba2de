//! Loading a partition folder as a broker does at start-up (`LogLoader`, `UnifiedLog.create`), as a plan.
//!
//! | module | what |
//! |---|---|
//! | `request` | the input |
//! | `loader`, `recovery` | the steps, in Kafka's order (`LogLoader`, `LocalLog`) |
//! | `segments` | the segments of a folder under plan (`LogSegments`) |
//! | `rebuilt` | rebuilt indexes that do not fit into memory |
//! | `loss`, `losses` | whole batches that would be lost, and whether that is allowed |
//! | `salvage` | the step before, if no whole batch may be lost |
//! | `retain` | retention over the loaded log |
//! | `plan`, `loaded`, `note` | the outcome |
//! | `apply` | a plan carried out, in place or into another folder |
//!
//! [`plan()`] works on an [`Overlay`](crate::io::overlay::Overlay) of the folder and writes nothing; a dry run is a
//! plan that is not carried out. Its outcome is what a broker would have loaded ([`LoadedLog`]), or the reason why it
//! would not start. A plan keeps up to 64 MiB of rebuilt indexes in memory.

mod apply;
mod loaded;
mod loader;
mod loss;
mod losses;
mod note;
mod plan;
mod rebuilt;
mod recovery;
mod request;
mod retain;
mod salvage;
mod segments;

#[cfg(test)]
mod tests;

use std::path::Path;

pub use self::loaded::LoadedLog;
pub(crate) use self::loaded::LoadedSegment;
use self::loader::Loader;
pub(crate) use self::loss::WAYS_OUT;
pub use self::loss::{Loss, OnLoss};
pub use self::note::Note;
pub use self::plan::Plan;
pub use self::request::LoadRequest;
use crate::error::Result;
use crate::io::storage::Folder;
use crate::log::config::LogConfig;
pub(crate) use crate::segment::entries::EntryOffset;

/// Plans the loading of the partition folder `path`: with [`OnLoss::Salvage`], nothing is believed but the batches,
/// whatever the request says of clean stops and recovery points.
///
/// # Errors
/// `Io` where the folder cannot be listed or its batches cannot be read. Whatever else is wrong is the plan's outcome.
pub fn plan(
    path: &Path,
    config: &LogConfig,
    request: LoadRequest,
    on_loss: OnLoss,
) -> Result<Plan> {
    plan_of(Folder::at(path), config, request, on_loss)
}

/// As [`plan()`], of a partition folder in any storage.
///
/// # Errors
/// As [`plan()`].
pub(crate) fn plan_of(
    folder: Folder,
    config: &LogConfig,
    request: LoadRequest,
    on_loss: OnLoss,
) -> Result<Plan> {
    if on_loss == OnLoss::Salvage {
        let mut loader = Loader::new(folder, config, request.unflushed())?;
        let outcome = loader.salvage().and_then(|()| loader.load());
        return Ok(loader.into_plan(outcome));
    }
    let mut loader = Loader::new(folder.clone(), config, request)?;
    let outcome = loader.load();
    if on_loss == OnLoss::AsKafka {
        return loader.into_plan_with_losses(outcome);
    }
    let torn_at = match &outcome {
        Ok(log) if request.clean && loader.is_torn(log)? => Some(log.log_end_offset),
        _ => None,
    };
    let plan = loader.into_plan_with_losses(outcome)?.refuse_loss();
    match torn_at {
        // The marker is a hint, too: what was appended after the tear could not be read.
        Some(recovery_point) if plan.outcome.is_ok() => {
            let torn = LoadRequest {
                clean: false,
                recovery_point,
                ..request
            };
            plan_of(folder, config, torn, on_loss)
        }
        _ => Ok(plan),
    }
}

/// Plans the rebuilding of all indexes, whatever their state: loading as after an unclean stop with nothing flushed, by
/// which a broker rebuilds them, without the old ones.
///
/// # Errors
/// As [`plan()`].
pub(crate) fn plan_rebuild(
    path: &Path,
    config: &LogConfig,
    request: LoadRequest,
    entry: EntryOffset,
) -> Result<Plan> {
    let mut loader = Loader::new(Folder::at(path), config, request.unflushed())?;
    loader.settings.entry = entry;
    let outcome = loader.discard_broken_indexes().and_then(|()| loader.load());
    Ok(loader.into_plan_with_losses(outcome)?.refuse_loss())
}
