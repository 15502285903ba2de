//! A KRaft snapshot of records, as `RecordsSnapshotWriter` writes it.
//!
//! | batch | records |
//! |---|---|
//! | control | `SNAPSHOT_HEADER`; with voters also `KRAFT_VERSION` 1 and `KRAFT_VOTERS` (KIP-853) |
//! | data, any number | the image's records |
//! | control | `SNAPSHOT_FOOTER` |
//!
//! Offsets count from 0. The file is named by the first offset after those that it covers, and by the epoch of the
//! last.

use std::fs::File;
use std::path::{Path, PathBuf};

use super::encode::put_message;
use super::messages::Table;
use super::new_record::encode;
use super::topic::Topic;
use crate::compress::Compressor;
use crate::error::{Error, Result};
use crate::format::control::ControlType;
use crate::format::file_name::snapshot_name;
use crate::io::atomic::{beside, folder_of};
use crate::io::disk::Disk;
use crate::io::interrupt;
use crate::records::builder::{BatchBuilder, BatchOptions};
use crate::types::{Offset, TimestampMs};

/// A batch ends with the record that brings it to this size; Kafka allows up to 8 MiB.
const BATCH_BYTES: usize = 1 << 20;

/// Properties of a new snapshot.
#[derive(Clone, Debug)]
pub(crate) struct NewSnapshot<'a> {
    /// The first offset after it.
    pub(crate) end_offset: Offset,
    /// The epoch of the last offset in it.
    pub(crate) epoch: i32,
    /// Time of the last record, which is also the time of every record here.
    pub(crate) timestamp: TimestampMs,
    /// `VotersRecord` as JSON; `None` for a quorum that is configured (`kraft.version` 0).
    pub(crate) voters: Option<&'a str>,
}

/// A record's kind, version and value as JSON.
pub(crate) type Spelled = (String, i16, String);

/// Writes a snapshot into a folder and returns its path. Under that name there is the whole file, synced, or none.
///
/// # Errors
/// `InvalidArgument` for a negative offset or epoch, and as [`encode`]; `Io`; `Interrupted`.
pub(crate) fn write(
    disk: &Disk,
    folder: &Path,
    snapshot: &NewSnapshot<'_>,
    records: &[Spelled],
) -> Result<PathBuf> {
    let (end, epoch) = (snapshot.end_offset, snapshot.epoch);
    let name = snapshot_name(end, epoch).ok_or_else(|| {
        let text = format!(
            "a snapshot: expected an offset and an epoch from 0 on, found {end} and {epoch}"
        );
        Error::InvalidArgument(text)
    })?;
    let path = folder.join(name);
    let begun = beside(&path);
    let mut output = SnapshotBuilder {
        file: disk.create(&begun)?,
        disk,
        path: &begun,
        options: BatchOptions {
            partition_leader_epoch: epoch,
            ..BatchOptions::default()
        },
        next: 0,
    };
    let done = output
        .write(snapshot, records)
        .and_then(|()| disk.sync(&output.file, &begun));
    if let Err(error) = done {
        // The first error is reported.
        let _ = disk.remove(&begun);
        return Err(error);
    }
    disk.rename(&begun, &path)?;
    disk.sync_folder(folder_of(&path))?;
    Ok(path)
}

/// The file being built.
struct SnapshotBuilder<'a> {
    file: File,
    disk: &'a Disk,
    path: &'a Path,
    options: BatchOptions,
    next: Offset,
}

impl SnapshotBuilder<'_> {
    fn write(&mut self, snapshot: &NewSnapshot<'_>, records: &[Spelled]) -> Result<()> {
        let time = snapshot.timestamp;
        let header = format!(r#"{{"version":0,"lastContainedLogTimestamp":{time}}}"#);
        let mut first = vec![(
            ControlType::SnapshotHeader,
            "SnapshotHeaderRecord",
            header.as_str(),
        )];
        if let Some(voters) = snapshot.voters {
            let version = r#"{"version":0,"kRaftVersion":1}"#;
            first.push((ControlType::KraftVersion, "KRaftVersionRecord", version));
            first.push((ControlType::KraftVoters, "VotersRecord", voters));
        }
        self.control(time, &first)?;
        let mut batch = self.batch(false)?;
        for (kind, version, value) in records {
            interrupt::check()?;
            let (_, value) = encode(Topic::ClusterMetadata, kind, *version, None, Some(value))?;
            batch.append(batch.next_offset(), time, None, value.as_deref(), &[])?;
            if batch.size() >= BATCH_BYTES {
                self.put(batch)?;
                batch = self.batch(false)?;
            }
        }
        self.put(batch)?;
        let footer = (
            ControlType::SnapshotFooter,
            "SnapshotFooterRecord",
            r#"{"version":0}"#,
        );
        self.control(time, &[footer])
    }

    /// A batch that follows what was written.
    fn batch(&self, is_control: bool) -> Result<BatchBuilder> {
        BatchBuilder::new(BatchOptions {
            base_offset: self.next,
            is_control,
            ..self.options
        })
    }

    fn control(&mut self, time: TimestampMs, records: &[(ControlType, &str, &str)]) -> Result<()> {
        let mut batch = self.batch(true)?;
        for (kind, message, json) in records {
            let mut value = Vec::new();
            put_message(Table::get()?.data(message)?, 0, json, &mut value)?;
            batch.append_control(time, *kind, &value)?;
        }
        self.put(batch)
    }

    fn put(&mut self, mut batch: BatchBuilder) -> Result<()> {
        let (next, mut bytes) = (batch.next_offset(), Vec::new());
        if batch
            .finish(&mut Compressor::default(), &mut bytes)?
            .is_some()
        {
            self.disk.write(&self.file, self.path, &bytes)?;
            self.next = next;
        }
        Ok(())
    }
}
