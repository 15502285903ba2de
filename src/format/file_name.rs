//! Names of files and folders in a log dir (`LogFileUtils`, `UnifiedLog`, `TopicPartition`).
//!
//! | name | is |
//! |---|---|
//! | `NNNNNNNNNNNNNNNNNNNN.log` | a segment's batches; 20 digits, the base offset |
//! | `N.index` `N.timeindex` `N.txnindex` | its indexes |
//! | `N.snapshot` | producer state up to offset N |
//! | any of them + `.deleted` `.cleaned` `.swap` | being deleted, half written, ready to replace the original |
//! | `topic-P` | a live partition folder; split at the last `-` |
//! | `topic-P.<uuid>-delete` `-future` `-stray` | a folder being deleted, being copied here, unknown to the cluster |

use std::path::Path;

use crate::error::{Error, Result};
use crate::types::{Offset, TopicPartition};

/// Digits of a base offset in a file name (`LogFileUtils.filenamePrefixFromOffset`).
pub(crate) const OFFSET_DIGITS: usize = 20;
/// Digits of an epoch in the name of a snapshot.
const EPOCH_DIGITS: usize = 10;
/// Longest topic name (`Topic.MAX_NAME_LENGTH`).
pub(crate) const MAX_TOPIC_LEN: usize = 249;
/// The metadata log's topic (KIP-595).
pub(crate) const CLUSTER_METADATA_TOPIC: &str = "__cluster_metadata";
/// Prefix of the names of Kafka's internal topics.
pub(crate) const INTERNAL_TOPIC_PREFIX: &str = "__";

/// Content of a segment file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FileKind {
    /// Batches.
    Log,
    /// Offset index.
    OffsetIndex,
    /// Time index.
    TimeIndex,
    /// Aborted transactions.
    TxnIndex,
    /// Producer snapshot.
    Snapshot,
}

impl FileKind {
    const ALL: [Self; 5] = [
        Self::Log,
        Self::OffsetIndex,
        Self::TimeIndex,
        Self::TxnIndex,
        Self::Snapshot,
    ];

    /// The suffix, dot included.
    #[must_use]
    pub const fn suffix(self) -> &'static str {
        match self {
            Self::Log => ".log",
            Self::OffsetIndex => ".index",
            Self::TimeIndex => ".timeindex",
            Self::TxnIndex => ".txnindex",
            Self::Snapshot => ".snapshot",
        }
    }
}

/// Stage in the life of a file, by its suffix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FileState {
    /// In use.
    Live,
    /// To be unlinked soon.
    Deleted,
    /// Half written by the cleaner or by a split.
    Cleaned,
    /// Finished by the cleaner or by a split; takes its final name at the next start.
    Swap,
}

impl FileState {
    const ALL: [Self; 4] = [Self::Live, Self::Deleted, Self::Cleaned, Self::Swap];

    /// The last suffix, dot included; empty for a live file.
    #[must_use]
    pub const fn suffix(self) -> &'static str {
        match self {
            Self::Live => "",
            Self::Deleted => ".deleted",
            Self::Cleaned => ".cleaned",
            Self::Swap => ".swap",
        }
    }
}

/// The name of one of a segment's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileName {
    /// Base offset; of a snapshot, the offset it ends before.
    pub offset: Offset,
    /// Content of the file.
    pub kind: FileKind,
    /// Stage in its life.
    pub state: FileState,
}

impl FileName {
    /// A live file's name.
    #[must_use]
    pub const fn new(offset: Offset, kind: FileKind) -> Self {
        Self {
            offset,
            kind,
            state: FileState::Live,
        }
    }

    /// Takes a file's name apart; `None` for anything that is not one of a segment's files.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        let offset = base_offset(name)?;
        let rest = name.get(OFFSET_DIGITS..)?;
        FileKind::ALL.into_iter().find_map(|kind| {
            let tail = rest.strip_prefix(kind.suffix())?;
            let state = FileState::ALL
                .into_iter()
                .find(|state| state.suffix() == tail)?;
            Some(Self {
                offset,
                kind,
                state,
            })
        })
    }
}

impl std::fmt::Display for FileName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (kind, state) = (self.kind.suffix(), self.state.suffix());
        write!(f, "{:0OFFSET_DIGITS$}{kind}{state}", self.offset)
    }
}

/// Returns whether a file's name is that of a snapshot of the metadata log (`Snapshots`).
#[must_use]
pub(crate) fn is_metadata_snapshot(file_name: &str) -> bool {
    base_offset(file_name).is_some() && file_name.ends_with(".checkpoint")
}

/// The name of a snapshot of the metadata log (`Snapshots.filenameFromSnapshotId`); `None` for negative numbers.
#[must_use]
pub(crate) fn snapshot_name(end_offset: Offset, epoch: i32) -> Option<String> {
    let is_named = end_offset >= 0 && epoch >= 0;
    is_named.then(|| format!("{end_offset:0OFFSET_DIGITS$}-{epoch:0EPOCH_DIGITS$}.checkpoint"))
}

/// The offset a file name begins with: exactly 20 digits, then a dot or a dash.
#[must_use]
pub fn base_offset(name: &str) -> Option<Offset> {
    let digits = name.get(..OFFSET_DIGITS)?;
    if !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    match name.as_bytes().get(OFFSET_DIGITS) {
        Some(b'.' | b'-') => digits.parse().ok(),
        _ => None,
    }
}

/// The offset a file name begins with, up to the first dot, as Kafka reads it where it loads a log: it asks for no 20
/// digits there (`LogFileUtils.offsetFromFileName`).
#[must_use]
pub(crate) fn leading_offset(name: &str) -> Option<Offset> {
    name.split_once('.')?.0.parse().ok()
}

/// As [`leading_offset`], of a file without which Kafka does not load the log.
///
/// # Errors
/// `CorruptIndex` where the name begins with no offset.
pub(crate) fn offset_of_file(path: &Path) -> Result<Offset> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    leading_offset(&name).ok_or_else(|| {
        let expected = "an offset before the first dot";
        Error::corrupt_index("file name", 0, expected, format_args!("{name:?}")).at(path)
    })
}

/// Purpose of a partition folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FolderState {
    /// A replica in use.
    Live,
    /// Scheduled for removal.
    Delete,
    /// A copy being built for a move between log dirs.
    Future,
    /// A replica this broker should not have.
    Stray,
}

impl FolderState {
    /// Kafka's word for it, which is also the folder's last suffix.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Delete => "delete",
            Self::Future => "future",
            Self::Stray => "stray",
        }
    }
}

/// The name of a partition folder.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FolderName {
    /// The partition whose records it holds.
    pub topic_partition: TopicPartition,
    /// Purpose of the folder.
    pub state: FolderState,
}

impl FolderName {
    /// Takes a folder's name apart as `UnifiedLog.parseTopicPartitionName` does; `None` where Kafka would refuse it.
    /// `a.b-c-12.0123456789abcdef0123456789abcdef-delete` is partition 12 of topic `a.b-c`, to be deleted.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        let (stem, state) = [FolderState::Delete, FolderState::Future, FolderState::Stray]
            .into_iter()
            .find_map(|state| {
                let stem = name.strip_suffix(state.name())?.strip_suffix('-')?;
                Some((stem, state))
            })
            .map_or(Some((name, FolderState::Live)), |(stem, state)| {
                let (stem, unique) = stem.rsplit_once('.')?;
                let has_words = !unique.is_empty() && !unique.contains(char::is_whitespace);
                has_words.then_some((stem, state))
            })?;
        let (topic, partition) = stem.rsplit_once('-')?;
        if !is_topic_name(topic) || !partition.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        let partition = partition.parse().ok()?;
        Some(Self {
            topic_partition: TopicPartition::new(topic, partition),
            state,
        })
    }
}

/// Returns whether a broker takes a folder of its log dir for a partition's, with any text as the topic: it does not
/// check that the name is legal (`UnifiedLog.parseTopicPartitionName`). Any other folder aborts its start.
#[must_use]
pub(crate) fn is_taken_for_a_partitions(name: &str) -> bool {
    let states = [FolderState::Delete, FolderState::Future, FolderState::Stray];
    let is_marked = states.iter().any(|state| {
        let stem = name.strip_suffix(state.name());
        stem.is_some_and(|stem| stem.ends_with('-'))
    });
    let stem = if is_marked {
        let is_blank = |c: char| c.is_ascii_whitespace() || c == '\x0b';
        match name.rsplit_once('.') {
            Some((stem, _)) if !name.contains(is_blank) => stem,
            _ => return false,
        }
    } else {
        name
    };
    stem.rsplit_once('-')
        .is_some_and(|(topic, partition)| !topic.is_empty() && partition.parse::<i32>().is_ok())
}

/// Returns whether Kafka takes `name` for a topic (`Topic.validate`).
#[must_use]
pub fn is_topic_name(name: &str) -> bool {
    let legal = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
    (1..=MAX_TOPIC_LEN).contains(&name.len())
        && !matches!(name, "." | "..")
        && name.bytes().all(legal)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `UnifiedLog.parseTopicPartitionName` of Kafka 4.3.1 answers.
    #[test]
    fn folders_that_end_a_start() {
        let taken = [
            "a+b-0",
            "sp ace-0",
            "a--1",
            "a-+7",
            "-x-0",
            "é-3",
            "a+b-0.1f-stray",
            "t-0.u-delete",
        ];
        let ends = [
            "lost+found",
            ".snapshot",
            "tmp",
            "t",
            "t-",
            "-0",
            "t-x",
            "t-2147483648",
            "sp ace-0.1f-stray",
            "t-0-stray",
            "t-.u-delete",
            ".u-0-delete",
        ];
        for name in taken {
            assert!(is_taken_for_a_partitions(name), "{name}");
        }
        for name in ends {
            assert!(!is_taken_for_a_partitions(name), "{name}");
        }
    }

    #[test]
    fn names_come_apart_and_together_again() {
        for (text, offset, kind, state) in [
            (
                "00000000000000000000.log",
                0,
                FileKind::Log,
                FileState::Live,
            ),
            (
                "00000000002147483648.index",
                1 << 31,
                FileKind::OffsetIndex,
                FileState::Live,
            ),
            (
                "09223372036854775807.timeindex.deleted",
                i64::MAX,
                FileKind::TimeIndex,
                FileState::Deleted,
            ),
            (
                "00000000000000000042.txnindex.cleaned",
                42,
                FileKind::TxnIndex,
                FileState::Cleaned,
            ),
            (
                "00000000000000000042.snapshot.swap",
                42,
                FileKind::Snapshot,
                FileState::Swap,
            ),
        ] {
            let name = FileName {
                offset,
                kind,
                state,
            };
            assert_eq!(FileName::parse(text), Some(name));
            assert_eq!(name.to_string(), text);
        }
    }

    #[test]
    fn names_of_snapshots() {
        let name = snapshot_name(162, 1).unwrap();
        assert_eq!(name, "00000000000000000162-0000000001.checkpoint");
        assert!(is_metadata_snapshot(&name));
        assert_eq!((snapshot_name(-1, 0), snapshot_name(0, -1)), (None, None));
    }

    #[test]
    fn what_is_no_segment_file() {
        for text in [
            "24.log",
            "foo.log",
            "",
            "00000000000000000000.logx",
            "00000000000000000000.log.tmp",
            "+0000000000000000000.log",
            "99999999999999999999.log",
            "000000000000000000000.log",
            "00000000000000000000-0000000000.checkpoint",
            "partition.metadata",
            "0000000000000000000\u{e9}.log",
        ] {
            assert_eq!(FileName::parse(text), None, "{text}");
        }
        assert_eq!(
            base_offset("00000000000000000007-0000000001.checkpoint"),
            Some(7)
        );
    }

    #[test]
    fn folders() {
        let uuid = "0123456789abcdef0123456789abcdef";
        for (name, topic, partition, state) in [
            ("t-0".to_owned(), "t", 0, FolderState::Live),
            ("a-b.c_d-17".to_owned(), "a-b.c_d", 17, FolderState::Live),
            (
                format!("a.b-3.{uuid}-delete"),
                "a.b",
                3,
                FolderState::Delete,
            ),
            (format!("t-0.{uuid}-future"), "t", 0, FolderState::Future),
            (format!("t-0.{uuid}-stray"), "t", 0, FolderState::Stray),
        ] {
            let parsed = FolderName::parse(&name).unwrap();
            assert_eq!(
                parsed.topic_partition,
                TopicPartition::new(topic, partition)
            );
            assert_eq!(parsed.state, state);
        }
        for name in [
            "t",
            "-0",
            "t-",
            "t-x",
            "t-+1",
            "t-99999999999",
            "t-0-delete",
            "t-0.-stray",
            "remote-log-index-cache",
            "a b-0",
            "..-0",
            "",
        ] {
            assert_eq!(FolderName::parse(name), None, "{name}");
        }
    }
}
