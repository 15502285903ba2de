//! A writer that dies before any step of opening a partition, from the lock to the first append: the next one opens it.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::error::Result;
use crate::format::checkpoint::PARTITION_METADATA;
use crate::format::uuid::Uuid;
use crate::io::disk::{Disk, DiskStep, Faults, InjectedFailure};
use crate::records::builder::{BatchBuilder, BatchOptions};
use crate::types::TopicPartition;
use crate::write::storage::Identity;
use crate::write::writer::PartitionWriter;
use crate::write::{LeaderAppend, LogConfig, WriteOptions};

const NOW_MS: i64 = 1_700_000_000_000;

/// Takes so many steps; a process that is dead takes none.
#[derive(Debug)]
struct Dying(AtomicUsize);

impl Faults for Dying {
    fn before(&self, _: DiskStep, _: &Path) -> Result<(), InjectedFailure> {
        let left = |left: usize| left.checked_sub(1);
        match self
            .0
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, left)
        {
            Ok(_) => Ok(()),
            Err(_) => Err(io::Error::other("dead").into()),
        }
    }
}

fn open(root: &Path, topic_id: Option<Uuid>, disk: Disk) -> Result<PartitionWriter> {
    let options = WriteOptions {
        disk,
        ..WriteOptions::new(LogConfig::default())
    };
    let partition = TopicPartition::new("t", 0);
    let dirs = [root.join("data")];
    PartitionWriter::open(
        &dirs,
        &Identity::default(),
        &partition,
        topic_id,
        options,
        NOW_MS,
    )
}

fn append(writer: &mut PartitionWriter) -> Result<()> {
    let mut builder = BatchBuilder::new(BatchOptions::default())?;
    builder.append(0, NOW_MS, None, Some(b"value"), &[])?;
    let mut bytes = Vec::new();
    builder.finish(&mut crate::compress::Compressor::default(), &mut bytes)?;
    writer
        .log_mut()
        .append_as_leader(&mut bytes, &LeaderAppend::default(), NOW_MS)?;
    Ok(())
}

#[test]
fn before_any_step_of_opening() {
    let (id, other) = (Uuid(1 << 100), Uuid(2 << 100));
    let (mut without_id, mut with_id) = (0, 0);
    for steps in 0.. {
        let root = tempfile::tempdir().unwrap();
        let faults = Arc::new(Dying(AtomicUsize::new(steps)));
        let disk = Disk::with_faults(faults);
        let is_open = match open(root.path(), Some(id), disk) {
            Ok(mut writer) => append(&mut writer).is_ok(),
            Err(_) => false,
        };
        let folder = root.path().join("data/t-0");
        let has_id = folder.join(PARTITION_METADATA).exists();
        let has_records =
            fs::metadata(folder.join("00000000000000000000.log")).is_ok_and(|log| log.len() > 0);
        // A broker sets a folder without an id aside: no record may be in one.
        assert!(has_id || !has_records, "{steps} steps");
        if folder.exists() {
            *(if has_id {
                &mut with_id
            } else {
                &mut without_id
            }) += 1;
        }
        // An id that was never written binds nobody.
        let fails = open(root.path(), Some(other), Disk::default()).is_err();
        assert_eq!(fails, has_id, "{steps} steps");
        if !fails {
            continue;
        }
        let mut writer = open(root.path(), Some(id), Disk::default()).unwrap();
        let end = writer.log().log_end_offset();
        append(&mut writer).unwrap();
        assert_eq!(writer.log().log_end_offset(), end + 1);
        writer.close(NOW_MS).unwrap();
        let text = fs::read_to_string(folder.join(PARTITION_METADATA)).unwrap();
        assert!(text.contains(&id.to_string()), "{text}");
        if is_open {
            break;
        }
    }
    assert!(without_id > 1 && with_id > 1, "{without_id}, {with_id}");
}
