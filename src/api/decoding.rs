//! Sources of the schemas of decoded keys and values.

use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::scan::range::PartitionRange;
use crate::segment::skipping::OnCorrupt;
use crate::tables::schemas::{plan, replay};
pub use crate::values::decoding::{DecodeAs, OnUndecoded, ReaderSchema};
pub(crate) use crate::values::decoding::{DecodeRequest, Decoding};
pub(crate) use crate::values::schemas::SchemaKind;
#[cfg(feature = "python")]
pub(crate) use crate::values::schemas::Side;
use crate::values::schemas::{GivenFor, Schemas};

/// The topic in which registries keep schemas.
const TOPIC: &str = "_schemas";

/// Parts of records to decode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Decode {
    /// Keys.
    Key,
    /// Values.
    Value,
    /// Keys and values.
    Both,
}

/// The id, GUID or topic that a schema is given for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SchemaFor {
    /// Payloads with this id.
    Id(i64),
    /// Payloads with this GUID, or UUID of a schema version.
    Guid(String),
    /// Payloads of a topic without framing; `<topic>-key` and `<topic>-value` are for one of the two.
    Topic(String),
}

/// A schema that the user gives.
#[derive(Clone, Debug)]
pub struct GivenSchema {
    pub(crate) to: SchemaFor,
    /// `None` to judge by the text.
    pub(crate) kind: Option<SchemaKind>,
    pub(crate) text: String,
    /// Names and texts of what it imports, each after those that it imports itself.
    pub(crate) imports: Vec<(String, String)>,
}

impl GivenSchema {
    /// A schema by its text, of the format that the text looks like.
    pub fn new(to: SchemaFor, text: impl Into<String>) -> Self {
        Self {
            to,
            kind: None,
            text: text.into(),
            imports: Vec::new(),
        }
    }
}

/// Source of schemas.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum SchemaSource {
    /// The topic `_schemas` in the log dirs that are read.
    #[default]
    Beside,
    /// The topic `_schemas` in these log dirs.
    LogDirs(Vec<PathBuf>),
    /// These.
    Given(Vec<GivenSchema>),
}

/// Plans how the keys and values of `ranges` are decoded, which were found in `paths`.
///
/// # Errors
/// `InvalidArgument` where schemas are missing or cannot be used; what reading `_schemas` finds.
pub(crate) fn plan_decoding(
    paths: &[PathBuf],
    ranges: &[PartitionRange],
    source: &SchemaSource,
    request: &DecodeRequest,
) -> Result<Decoding> {
    let schemas = schemas_of(paths, ranges, source)?;
    let mut topics: Vec<&str> = ranges.iter().map(|range| range.topic.as_str()).collect();
    topics.sort_unstable();
    topics.dedup();
    Decoding::plan(schemas, &topics, request)
}

/// The same reader schemas with the schemas that there are now.
///
/// # Errors
/// As [`plan_decoding`].
pub(crate) fn refresh_decoding(
    decoding: &Decoding,
    paths: &[PathBuf],
    ranges: &[PartitionRange],
    source: &SchemaSource,
) -> Result<Decoding> {
    decoding.refreshed(schemas_of(paths, ranges, source)?)
}

fn schemas_of(
    paths: &[PathBuf],
    ranges: &[PartitionRange],
    source: &SchemaSource,
) -> Result<Schemas> {
    Ok(match source {
        SchemaSource::Beside => {
            let folders = || ranges.iter().map(|range| range.folder.path());
            let is_within = |path: &&PathBuf| folders().any(|folder| path.starts_with(folder));
            let beside = folders().filter_map(|folder| folder.parent());
            let given = paths.iter().filter(|path| !is_within(path));
            let mut dirs: Vec<&Path> = beside.chain(given.map(PathBuf::as_path)).collect();
            dirs.sort_unstable();
            dirs.dedup();
            replayed(dirs.into_iter().filter(|dir| holds(dir)))?
        }
        SchemaSource::LogDirs(dirs) => {
            if let Some(other) = dirs.iter().find(|dir| !holds(dir)) {
                return Err(Error::InvalidArgument(format!(
                    "schemas: {} holds no topic {TOPIC}; name the log dir that has it",
                    other.display()
                )));
            }
            replayed(dirs.iter().map(PathBuf::as_path))?
        }
        SchemaSource::Given(given) => {
            let mut schemas = Schemas::default();
            for each in given {
                let to = match &each.to {
                    SchemaFor::Id(id) => GivenFor::Id(*id),
                    SchemaFor::Guid(guid) => GivenFor::Guid(guid.parse().map_err(|why| {
                        Error::InvalidArgument(format!("schemas: {guid} is no GUID: {why}"))
                    })?),
                    SchemaFor::Topic(topic) => GivenFor::Topic(topic.clone()),
                };
                let kind = each.kind.clone();
                let kind = kind.unwrap_or_else(|| SchemaKind::guess(&each.text));
                schemas.give(to, kind, &each.text, each.imports.clone());
            }
            schemas
        }
    })
}

/// A registry's topic has one partition.
fn holds(dir: &Path) -> bool {
    dir.join(format!("{TOPIC}-0")).is_dir()
}

fn replayed<'a>(dirs: impl Iterator<Item = &'a Path>) -> Result<Schemas> {
    let dirs: Vec<_> = dirs.map(Path::to_owned).collect();
    if dirs.is_empty() {
        return Ok(Schemas::default());
    }
    let ranges = plan(&dirs, TOPIC, OnCorrupt::Raise, true)?;
    Ok(replay(ranges, OnCorrupt::Raise, false)?.schemas)
}
