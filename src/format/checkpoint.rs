//! The text files: offset checkpoints, `leader-epoch-checkpoint`, `partition.metadata`, `.kafka_cleanshutdown`.
//!
//! A checkpoint is a version line (`0`), a line with the number of entries, then an entry a line, fields separated by
//! white space: `topic partition offset`, or `epoch start-offset`. An empty file, or one without a count, has no entries.
//!
//! Sources: `CheckpointFile`, `OffsetCheckpointFile`, `LeaderEpochCheckpointFile`, `PartitionMetadataFile`,
//! `CleanShutdownFileHandler`.

use std::collections::BTreeMap;
use std::str::FromStr;

use super::uuid::Uuid;
use crate::error::{Error, Result};
use crate::types::{Offset, TopicPartition};

/// The leader epochs of a partition folder.
pub(crate) const LEADER_EPOCH_CHECKPOINT: &str = "leader-epoch-checkpoint";
/// The topic id of a partition folder.
pub(crate) const PARTITION_METADATA: &str = "partition.metadata";

const VERSION: i32 = 0;

/// First offset of a leader epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpochEntry {
    /// The leader epoch.
    pub epoch: i32,
    /// The first offset written in it.
    pub start_offset: Offset,
}

/// A line, and the byte it begins at.
pub(super) type CheckpointLine<'a> = (u64, &'a str);

pub(super) fn text(data: &[u8]) -> Result<&str> {
    std::str::from_utf8(data)
        .map_err(|e| Error::corrupt_index("text", e.valid_up_to() as u64, "UTF-8", "other bytes"))
}

pub(super) fn lines(text: &str) -> impl Iterator<Item = CheckpointLine<'_>> {
    let mut at = 0usize;
    text.split_inclusive('\n').map(move |line| {
        let begin = at;
        at = at.saturating_add(line.len());
        (begin as u64, line.trim_end_matches(['\n', '\r']))
    })
}

fn number<T: FromStr>(what: &'static str, (at, found): CheckpointLine<'_>) -> Result<T> {
    found
        .parse()
        .map_err(|_| Error::corrupt_index(what, at, "a number", format_args!("{found:?}")))
}

/// The entries' lines, each cut into exactly `N` fields.
fn entries<'a, const N: usize>(data: &'a [u8]) -> Result<Vec<(u64, [&'a str; N])>> {
    let mut lines = lines(text(data)?);
    let Some(version) = lines.next() else {
        return Ok(Vec::new());
    };
    match number::<i32>("checkpoint version", version)? {
        VERSION => {}
        found => {
            return Err(Error::corrupt_index(
                "checkpoint version",
                0,
                VERSION,
                found,
            ));
        }
    }
    let Some(count_line) = lines.next() else {
        return Ok(Vec::new());
    };
    let count: usize = number("checkpoint count", count_line)?;
    let mut found = Vec::new();
    for (at, line) in lines {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let fields = <[&'a str; N]>::try_from(fields).map_err(|_| {
            let expected = format!("{N} fields");
            Error::corrupt_index("checkpoint line", at, expected, format_args!("{line:?}"))
        })?;
        found.push((at, fields));
    }
    if found.len() == count {
        Ok(found)
    } else {
        Err(Error::corrupt_index(
            "checkpoint count",
            count_line.0,
            format_args!("{count} entries"),
            found.len(),
        ))
    }
}

/// Reads an offset checkpoint of a log dir.
///
/// # Errors
/// `CorruptIndex` where Kafka would refuse the file.
pub fn parse_offsets(data: &[u8]) -> Result<BTreeMap<TopicPartition, Offset>> {
    entries::<3>(data)?
        .into_iter()
        .map(|(at, [topic, partition, offset])| {
            let key = TopicPartition::new(topic, number("partition", (at, partition))?);
            Ok((key, number("offset", (at, offset))?))
        })
        .collect()
}

/// As [`number`], refusing those below 0 as `LeaderEpochFileCache.assign` does.
fn not_negative<T: FromStr + PartialOrd + Default>(
    what: &'static str,
    line: CheckpointLine<'_>,
) -> Result<T> {
    let found = number(what, line)?;
    if found < T::default() {
        let (at, text) = line;
        return Err(Error::corrupt_index(what, at, "0 or more", text));
    }
    Ok(found)
}

/// Reads a `leader-epoch-checkpoint`.
///
/// # Errors
/// `CorruptIndex` where Kafka would refuse the file, or the log with it.
pub fn parse_epochs(data: &[u8]) -> Result<Vec<EpochEntry>> {
    entries::<2>(data)?
        .into_iter()
        .map(|(at, [epoch, start_offset])| {
            Ok(EpochEntry {
                epoch: not_negative("leader epoch", (at, epoch))?,
                start_offset: not_negative("start offset", (at, start_offset))?,
            })
        })
        .collect()
}

fn write_entries(lines: impl ExactSizeIterator<Item = String>) -> Vec<u8> {
    let mut text = format!("{VERSION}\n{}\n", lines.len());
    for line in lines {
        text.push_str(&line);
        text.push('\n');
    }
    text.into_bytes()
}

/// An offset checkpoint of a log dir, by topic and partition (Kafka's own order is that of a hash map).
#[must_use]
pub(crate) fn write_offsets(offsets: &BTreeMap<TopicPartition, Offset>) -> Vec<u8> {
    write_entries(offsets.iter().map(|(key, offset)| {
        let (topic, partition) = (&key.topic, key.partition);
        format!("{topic} {partition} {offset}")
    }))
}

/// A `leader-epoch-checkpoint`.
#[must_use]
pub(crate) fn write_epochs(epochs: &[EpochEntry]) -> Vec<u8> {
    write_entries(
        epochs
            .iter()
            .map(|entry| format!("{} {}", entry.epoch, entry.start_offset)),
    )
}

/// Reads the topic id out of a `partition.metadata`.
///
/// # Errors
/// `CorruptIndex` where Kafka would refuse the file.
pub fn parse_partition_metadata(data: &[u8]) -> Result<String> {
    let text = text(data)?;
    let mut lines = lines(text).map(|(at, line)| {
        let mut words = line.split_whitespace();
        (at, line, [words.next(), words.next(), words.next()])
    });
    let fault = |what, at, expected: &str, found: &str| {
        Error::corrupt_index(what, at, expected, format_args!("{found:?}"))
    };
    match lines.next() {
        Some((at, _, [Some("version:"), Some(version), None])) => {
            let version: i32 = number("metadata version", (at, version))?;
            if version < 0 {
                return Err(Error::corrupt_index(
                    "metadata version",
                    at,
                    "0 or more",
                    version,
                ));
            }
        }
        other => {
            let found = other.map_or("", |(_, line, _)| line);
            return Err(fault("metadata version", 0, "\"version: 0\"", found));
        }
    }
    match lines.next() {
        Some((_, _, [Some("topic_id:"), Some(id), None]))
            if id.parse::<Uuid>().is_ok_and(|id| id != Uuid::ZERO) =>
        {
            Ok(id.to_owned())
        }
        other => {
            let (at, found) = other.map_or((text.len() as u64, ""), |(at, line, _)| (at, line));
            Err(fault(
                "topic id",
                at,
                "\"topic_id: \" and 22 characters",
                found,
            ))
        }
    }
}

/// A `partition.metadata`: two lines, no newline after the last.
#[must_use]
pub(crate) fn write_partition_metadata(topic_id: Uuid) -> Vec<u8> {
    format!("version: 0\ntopic_id: {topic_id}").into_bytes()
}

/// A `.kafka_cleanshutdown` (KIP-966). Without a broker there is no epoch of one, which is -1.
#[must_use]
pub(crate) fn write_clean_shutdown() -> Vec<u8> {
    b"{\"version\":0,\"brokerEpoch\":-1}".to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets() {
        let read = |text: &str| parse_offsets(text.as_bytes());
        let found = read("0\n2\nmy-topic 0 1234\nmy-topic\t1   99\n").unwrap();
        assert_eq!(found[&TopicPartition::new("my-topic", 1)], 99);
        assert_eq!(found[&TopicPartition::new("my-topic", 0)], 1234);
        assert_eq!(read("0\r\n1\r\na 0 1\r\n").unwrap().len(), 1);
        for none in ["", "0\n", "0\n0\n", "0"] {
            assert_eq!(read(none).unwrap().len(), 0, "{none:?}");
        }
        for bad in [
            "x\n0\n",
            "1\n0\n",
            "0\nx\n",
            "0\n-1\n",
            "0\n2\na 0 1\n",
            "0\n1\na 0 1\n\n",
            "0\n1\na 0\n",
            "0\n1\na 0 1 2\n",
            "0\n1\na x 1\n",
            "\n",
        ] {
            let error = read(bad).unwrap_err();
            assert!(matches!(error, Error::CorruptIndex(_)), "{bad:?}");
        }
        let error = read("0\n2\na 0 1\nb 0\n").unwrap_err().to_string();
        assert_eq!(
            error,
            "<bytes>: byte 10: checkpoint line: expected 3 fields, found \"b 0\""
        );
        assert!(parse_offsets(b"0\n1\n\xff 0 0\n").is_err());
    }

    #[test]
    fn what_is_written_is_read() {
        let offsets = [("my-topic", 1, 99), ("my-topic", 0, 1234), ("a", 7, 0)];
        let offsets: BTreeMap<_, _> = offsets
            .map(|(topic, partition, offset)| (TopicPartition::new(topic, partition), offset))
            .into();
        let written = write_offsets(&offsets);
        assert_eq!(written, b"0\n3\na 7 0\nmy-topic 0 1234\nmy-topic 1 99\n");
        assert_eq!(parse_offsets(&written).unwrap(), offsets);
        assert_eq!(write_offsets(&BTreeMap::new()), b"0\n0\n");
        let id: Uuid = "0rtfp9DjROqBpwPllfDtAQ".parse().unwrap();
        let written = write_partition_metadata(id);
        assert_eq!(written, b"version: 0\ntopic_id: 0rtfp9DjROqBpwPllfDtAQ");
        assert_eq!(parse_partition_metadata(&written).unwrap(), id.to_string());
    }

    #[test]
    fn epochs() {
        let entry = |epoch, start_offset| EpochEntry {
            epoch,
            start_offset,
        };
        assert_eq!(
            parse_epochs(b"0\n2\n0 0\n7 123456789012\n").unwrap(),
            [entry(0, 0), entry(7, 123_456_789_012)]
        );
        assert!(parse_epochs(b"0\n1\n0 0 0\n").is_err());
        for (text, told) in [("-1 5", "leader epoch"), ("1 -5", "start offset")] {
            let error = parse_epochs(format!("0\n2\n0 0\n{text}\n").as_bytes()).unwrap_err();
            let number = text
                .split(' ')
                .find(|number| number.starts_with('-'))
                .unwrap();
            let expected = format!("<bytes>: byte 8: {told}: expected 0 or more, found {number}");
            assert_eq!(error.to_string(), expected);
        }
    }

    #[test]
    fn partition_metadata() {
        let read = |text: &str| parse_partition_metadata(text.as_bytes());
        let id = "0rtfp9DjROqBpwPllfDtAQ";
        assert_eq!(read(&format!("version: 0\ntopic_id: {id}")).unwrap(), id);
        for bad in [
            "",
            "version: 0",
            "version: x\ntopic_id: 0rtfp9DjROqBpwPllfDtAQ",
            "version: -1\ntopic_id: 0rtfp9DjROqBpwPllfDtAQ",
            "version: 0\ntopic_id: short",
            "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA",
            "topic_id: 0rtfp9DjROqBpwPllfDtAQ\nversion: 0",
        ] {
            assert!(read(bad).is_err(), "{bad:?}");
        }
    }
}
