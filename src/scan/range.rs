//! Ranges to read, as plain values: the contract between planning (here) and reading (`arrow::reader`).
//!
//! A range fixes every file's name and size as they were at planning, so that a retried Spark task reads the same
//! bytes. It travels to the task as JSON.

use std::ffi::OsString;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::io::kept_map::KeptMap;
use crate::io::storage::Folder;
use crate::segment::LogSegment;
use crate::segment::batches::Bounds;
use crate::segment::filter::{AbortedRange, TimestampBounds};
use crate::segment::offset_set::OffsetSet;
use crate::types::{Offset, Position};

/// Returns whether a field need not be stored.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Boundary between two readers inside a segment: the start of a batch of magic 2, which the log confirmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct Cut {
    /// Position of the batch in the file.
    pub position: Position,
    /// Its base offset: all before it lie below, none after it does.
    pub offset: Offset,
}

/// One `.log` file, or a piece of it, as it was at planning.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(remote = "Self")]
pub struct SegmentRange {
    /// Base offset, from the name.
    pub base_offset: Offset,
    /// Name of the file in the partition folder (`00000000000000000000.log`).
    pub file_name: String,
    /// Bytes of it that may be read.
    pub size: u64,
    /// The partition's last segment: read by copy, and a torn or zero tail is its end.
    pub is_active: bool,
    /// Position at which to begin: the start of a batch. Zero, or what the offset index says and the log confirms.
    pub start_position: u64,
    /// Base offset of the segment after it: all offsets in this one lie below. `None` for the last.
    pub next_base_offset: Option<Offset>,
    /// Under `read_committed` the aborted transactions that reach into it, sorted.
    pub aborted: Option<Arc<[AbortedRange]>>,
    /// Offsets below belong to another piece: the base offset, or the offset of the cut it begins at.
    pub start_offset: Offset,
    /// Start of the next piece; `None` reads to the end.
    pub end: Option<Cut>,
    /// Of an object in a store, text that changes with its content (`ETag`).
    #[serde(default)]
    pub version: Option<Arc<str>>,
    /// The file's map, if planning made one: it does not outlive the process.
    #[serde(skip)]
    pub map: KeptMap,
}

/// A list: of a closed segment that is read whole, as most are, only base offset, size, next base offset and version; of
/// any other the fields in their order. A plan may have a million.
#[derive(Deserialize)]
#[serde(untagged)]
enum StoredSegment {
    Whole(Offset, u64, Option<Offset>),
    Object(Offset, u64, Option<Offset>, Arc<str>),
    Other(#[serde(with = "SegmentRange")] SegmentRange),
}

impl Serialize for SegmentRange {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let (base, size, next) = (self.base_offset, self.size, self.next_base_offset);
        let version = &self.version;
        let whole = Self {
            version: version.clone(),
            ..Self::whole(base, size, next)
        };
        if *self == whole {
            return match version {
                Some(version) => (base, size, next, version).serialize(to),
                None => (base, size, next).serialize(to),
            };
        }
        let (name, active, from) = (&self.file_name, self.is_active, self.start_position);
        let end = self.end.map(|cut| (cut.position, cut.offset));
        let first = self.start_offset;
        (
            base,
            name,
            size,
            active,
            from,
            next,
            &self.aborted,
            first,
            end,
            version,
        )
            .serialize(to)
    }
}

impl<'de> Deserialize<'de> for SegmentRange {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Ok(match StoredSegment::deserialize(from)? {
            StoredSegment::Whole(base_offset, size, next) => Self::whole(base_offset, size, next),
            StoredSegment::Object(base_offset, size, next, version) => Self {
                version: Some(version),
                ..Self::whole(base_offset, size, next)
            },
            StoredSegment::Other(segment) => segment,
        })
    }
}

impl SegmentRange {
    /// A closed segment from its first byte to its last, under its usual name.
    #[must_use]
    pub fn whole(base_offset: Offset, size: u64, next_base_offset: Option<Offset>) -> Self {
        Self {
            base_offset,
            file_name: format!("{base_offset:020}.log"),
            size,
            is_active: false,
            start_position: 0,
            next_base_offset,
            aborted: None,
            start_offset: base_offset,
            end: None,
            version: None,
            map: KeptMap::default(),
        }
    }

    /// Bytes that may have to be read.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let end = self.end.map_or(self.size, |cut| cut.position);
        end.saturating_sub(self.start_position)
    }

    /// The offset that all of it lie below, if one is known.
    #[must_use]
    pub fn ceiling(&self) -> Option<Offset> {
        self.end.map(|cut| cut.offset).or(self.next_base_offset)
    }

    /// Of a piece, the offsets with which it and the next one begin.
    #[must_use]
    pub(crate) fn piece(&self) -> Option<(Offset, Option<Offset>)> {
        let is_piece = self.start_offset != self.base_offset || self.end.is_some();
        is_piece.then(|| (self.start_offset, self.end.map(|cut| cut.offset)))
    }

    /// Facts about it other than its bytes.
    #[must_use]
    pub fn bounds(&self) -> Bounds {
        Bounds {
            base_offset: self.base_offset,
            next_base_offset: self.next_base_offset,
            is_active: self.is_active,
            end: self.end.map(|cut| cut.position),
        }
    }

    /// The segment as its folder's lister would have given it, with an offset index if there is one.
    #[must_use]
    pub fn segment(&self, folder: &Folder) -> LogSegment {
        let mut segment = LogSegment::named(
            folder.clone(),
            self.file_name.clone(),
            self.base_offset,
            self.size,
            0,
        );
        segment.is_active = self.is_active;
        segment.next_base_offset = self.next_base_offset;
        segment.has_offset_index = true;
        segment
    }
}

/// The partition of a segment whose name and folder say none; its topic is empty.
pub(crate) const NO_PARTITION: i32 = i32::MIN;

/// A topic, unless it is that of a segment whose topic is unknown.
#[must_use]
pub(crate) fn known_topic(topic: &str) -> Option<&str> {
    Some(topic).filter(|topic| !topic.is_empty())
}

/// A partition, unless it is [`NO_PARTITION`].
#[must_use]
pub(crate) fn known_partition(partition: i32) -> Option<i32> {
    Some(partition).filter(|&partition| partition != NO_PARTITION)
}

/// Consecutive segments of one partition, and which offsets of them count.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionRange {
    /// The partition folder.
    #[serde(with = "StoredPath")]
    pub folder: Folder,
    /// The topic's name.
    pub topic: String,
    /// The partition's number.
    pub partition: i32,
    /// Records below are left out.
    #[serde(default, skip_serializing_if = "is_default")]
    pub start_offset: Offset,
    /// Records at or above are left out; `None` reads to the pinned end.
    #[serde(default, skip_serializing_if = "is_default")]
    pub end_offset: Option<Offset>,
    /// Records outside are left out.
    #[serde(default, skip_serializing_if = "is_default")]
    pub timestamps: TimestampBounds,
    /// Of the others only these, where it is known which are wanted.
    #[serde(skip)]
    pub chosen: Option<Arc<OffsetSet>>,
    /// The files, in offset order.
    pub segments: Vec<SegmentRange>,
}

/// The path of a folder: as text, if it is Unicode.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum StoredPath {
    Text(String),
    Other(OsString),
}

impl StoredPath {
    fn serialize<S: Serializer>(folder: &Folder, to: S) -> Result<S::Ok, S::Error> {
        let text = folder.path().as_os_str().to_owned().into_string();
        let stored = text.map_or_else(Self::Other, Self::Text);
        Serialize::serialize(&stored, to)
    }

    fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Folder, D::Error> {
        Ok(match Deserialize::deserialize(from)? {
            Self::Text(path) => Folder::at(path),
            Self::Other(path) => Folder::at(path),
        })
    }
}

impl PartitionRange {
    /// Bytes that may have to be read.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.segments
            .iter()
            .map(SegmentRange::bytes)
            .fold(0, u64::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_the_same_after_json() {
        let other = SegmentRange {
            file_name: "7.log".to_owned(),
            is_active: true,
            start_position: 3,
            aborted: Some(Arc::from([AbortedRange::from([1, 2, 3])])),
            start_offset: 8,
            end: Some(Cut {
                position: 4,
                offset: 9,
            }),
            ..SegmentRange::whole(7, 5, Some(10))
        };
        let object = SegmentRange {
            version: Some(Arc::from("etag")),
            ..SegmentRange::whole(10, 5, None)
        };
        let range = PartitionRange {
            folder: Folder::at("/logs/t-0"),
            topic: "t".to_owned(),
            end_offset: Some(9),
            segments: vec![SegmentRange::whole(0, 5, Some(7)), other, object],
            ..PartitionRange::default()
        };
        let json = serde_json::to_string(&range).unwrap();
        assert!(
            json.contains(
                "[[0,5,7],[7,\"7.log\",5,true,3,10,[[1,2,3]],8,[4,9],null],[10,5,null,\"etag\"]]"
            ),
            "{json}"
        );
        assert_eq!(
            serde_json::from_str::<PartitionRange>(&json).unwrap(),
            range
        );
    }
}
