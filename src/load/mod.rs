//! Loading a partition folder as a broker does at start-up (`LogLoader`, `UnifiedLog.create`), as a plan.
//!
//! | module | what |
//! |---|---|
//! | `index`, `segment`, `segments` | Kafka's classes over a folder under plan |
//! | `settings`, `rebuilt` | what indexes are made by; those not kept, made again |
//! | `producers` | what producer state is replayed from |
//! | `request`, `loader`, `recovery`, `failure` | the steps, in Kafka's order, and what stops one |
//! | `salvage` | before them, where no whole batch may be lost |
//! | `plan`, `loaded`, `note` | what they come to, and what is worth saying of it |
//! | `apply` | a plan carried out, in place or into another folder |
//!
//! [`plan`] works on an [`Overlay`](crate::io::overlay::Overlay) of the folder and writes nothing: a dry run is a plan
//! that is not carried out. What it finds in the end is what a broker would have loaded, [`LoadedLog`]; or the reason why it would not start, with the actions it would have
//! taken until then. Indexes of one segment at a time are in memory, and up to 64 MiB of those that will be written.

mod apply;
mod loaded;
mod loader;
mod note;
mod plan;
mod producers;
mod rebuilt;
mod recovery;
mod request;
mod salvage;
mod segments;

#[cfg(test)]
mod tests;

use std::path::Path;

pub use self::loaded::LoadedLog;
pub(crate) use self::loaded::LoadedSegment;
use self::loader::Loader;
pub use self::note::Note;
pub use self::plan::Plan;
pub use self::request::LoadRequest;
use crate::error::Result;
use crate::log::config::LogConfig;
pub(crate) use crate::segment::entries::EntryOffset;

/// Plans the loading of the partition folder `path`.
///
/// # Errors
/// `Io` where the folder cannot be listed. Whatever else is wrong is the plan's outcome.
pub fn plan(path: &Path, config: &LogConfig, request: LoadRequest) -> Result<Plan> {
    let mut loader = Loader::new(path, config, request)?;
    let outcome = loader.load();
    Ok(loader.into_plan(outcome))
}

/// Plans the loading of a partition folder of which every batch is kept that is whole and in order: nothing is believed
/// but the batches, whatever the request says of clean stops and recovery points.
///
/// # Errors
/// As [`plan()`].
pub fn plan_salvage(path: &Path, config: &LogConfig, request: LoadRequest) -> Result<Plan> {
    let mut loader = Loader::new(path, config, request.unflushed())?;
    let outcome = loader.salvage().and_then(|()| loader.load());
    Ok(loader.into_plan(outcome))
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
    let mut loader = Loader::new(path, config, request.unflushed())?;
    loader.settings.entry = entry;
    let outcome = loader.discard_broken_indexes().and_then(|()| loader.load());
    Ok(loader.into_plan(outcome))
}
