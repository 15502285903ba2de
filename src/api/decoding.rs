//! Sources of the schemas of decoded keys and values.

use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::io::folder::is_folder;
use crate::records::arena::Arena;
use crate::records::chunk::{Chunk, ChunkBytes};
use crate::scan::lost::LostRange;
use crate::scan::range::PartitionRange;
use crate::scan::reader::LogReader;
use crate::segment::reader::{FillOutcome, ReadOptions};
use crate::segment::skipping::OnCorrupt;
use crate::segment::source::MapPolicy;
use crate::tables::schemas::{plan, replay};
pub use crate::values::decoding::{DecodeAs, OnUndecoded, ReaderSchema};
pub(crate) use crate::values::decoding::{DecodeRequest, Decoding};
use crate::values::messages::MessageChoice;
pub(crate) use crate::values::schemas::SchemaKind;
pub(crate) use crate::values::schemas::Side;
use crate::values::schemas::{GivenFor, Schemas};

/// Most partitions of a topic of which the first records are looked at.
const MOST_RANGES: usize = 16;

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

/// The schemas for a scan.
#[derive(Clone, Debug, Default)]
pub(crate) struct FoundSchemas {
    schemas: Schemas,
    /// Ranges of their topic that were skipped as damaged.
    lost: Vec<LostRange>,
}

impl FoundSchemas {
    /// Plans how the keys and values of `ranges` are decoded.
    ///
    /// # Errors
    /// `InvalidArgument` where schemas are missing or cannot be used.
    pub(crate) fn plan(
        self,
        ranges: &[PartitionRange],
        request: &DecodeRequest,
    ) -> Result<Decoding> {
        let mut topics: Vec<&str> = ranges.iter().map(|range| range.topic.as_str()).collect();
        topics.sort_unstable();
        topics.dedup();
        let mut decoding = Decoding::plan(self.schemas, &topics, request)?;
        for topic in topics {
            for side in [Side::Key, Side::Value] {
                let message = message_of(&decoding, side, topic, ranges);
                decoding.choose_message(side, topic, message);
            }
        }
        Ok(decoding.checked()?.without(self.lost))
    }

    /// The same reader schemas with these schemas.
    ///
    /// # Errors
    /// `InvalidArgument` for a reader schema that cannot be used.
    pub(crate) fn refresh(self, decoding: &Decoding) -> Result<Decoding> {
        Ok(decoding.refreshed(self.schemas)?.without(self.lost))
    }
}

/// The Protobuf message that the first records of a topic name, if it is not the first of the schema.
fn message_of(
    decoding: &Decoding,
    side: Side,
    topic: &str,
    ranges: &[PartitionRange],
) -> Option<String> {
    let mut choice = MessageChoice::of(decoding, side, topic)?;
    let ranges = ranges.iter().filter(|range| range.topic == topic);
    for range in ranges.take(MOST_RANGES) {
        let options = ReadOptions::default();
        let mut reader = LogReader::new(vec![range.clone()], options, MapPolicy::Never);
        let mut chunk = Chunk::new(Arena::near());
        // Damage is an error of the read itself.
        let Ok(FillOutcome::Records) = reader.fill(&mut chunk) else {
            continue;
        };
        let source = chunk.bytes();
        let source = source.map(ChunkBytes::as_slice).unwrap_or_default();
        for slot in chunk.slots() {
            let payload = match side {
                Side::Key => slot.key(source),
                Side::Value => slot.value(source),
            };
            if let Some(payload) = payload {
                choice.look(payload, slot.headers(source));
            }
            if choice.is_settled() {
                return None;
            }
        }
    }
    choice.chosen()
}

/// Finds the schemas for `ranges`, which were found in `paths`.
///
/// # Errors
/// `InvalidArgument` for log dirs without schemas, and ids that are none; what reading `_schemas` finds.
pub(crate) fn find_schemas(
    paths: &[PathBuf],
    ranges: &[PartitionRange],
    source: &SchemaSource,
    on_corrupt: OnCorrupt,
) -> Result<FoundSchemas> {
    Ok(match source {
        SchemaSource::Beside => {
            let folders = || ranges.iter().map(|range| range.folder.path());
            let is_within = |path: &&PathBuf| folders().any(|folder| path.starts_with(folder));
            let beside = folders().filter_map(|folder| folder.parent());
            let given = paths.iter().filter(|path| !is_within(path));
            let mut dirs: Vec<&Path> = beside.chain(given.map(PathBuf::as_path)).collect();
            dirs.sort_unstable();
            dirs.dedup();
            replayed(dirs.into_iter().filter(|dir| holds(dir)), on_corrupt)?
        }
        SchemaSource::LogDirs(dirs) => {
            if let Some(other) = dirs.iter().find(|dir| !holds(dir)) {
                return Err(Error::InvalidArgument(format!(
                    "schemas: {} holds no topic {TOPIC}; name the log dir that has it",
                    other.display()
                )));
            }
            replayed(dirs.iter().map(PathBuf::as_path), on_corrupt)?
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
            FoundSchemas {
                schemas,
                lost: Vec::new(),
            }
        }
    })
}

/// A registry's topic has one partition.
fn holds(dir: &Path) -> bool {
    is_folder(&dir.join(format!("{TOPIC}-0")))
}

fn replayed<'a>(
    dirs: impl Iterator<Item = &'a Path>,
    on_corrupt: OnCorrupt,
) -> Result<FoundSchemas> {
    let dirs: Vec<_> = dirs.map(Path::to_owned).collect();
    if dirs.is_empty() {
        return Ok(FoundSchemas::default());
    }
    let ranges = plan(&dirs, TOPIC, on_corrupt, true)?;
    let replayed = replay(ranges, on_corrupt, false)?;
    Ok(FoundSchemas {
        schemas: replayed.schemas,
        lost: replayed.lost,
    })
}
