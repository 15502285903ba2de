//! Progress of several passes, as another thread sees it.

use std::cell::RefCell;
use std::rc::Rc;

use super::*;
use crate::compress::Compressor;
use crate::io::interrupt::with_cancellation;
use crate::records::builder::{BatchBuilder, BatchOptions};
use crate::write::LeaderAppend;

const NOW_MS: TimestampMs = 1000;

fn config() -> LogConfig {
    let pairs = [
        ("cleanup.policy", "compact"),
        ("min.cleanable.dirty.ratio", "0"),
    ];
    LogConfig::from_pairs(pairs).unwrap()
}

/// 200 batches of one record each; of 100 keys.
fn write(log_dir: &Path) {
    let (dirs, partition) = ([log_dir.to_path_buf()], TopicPartition::new("t", 0));
    let how = WriteOptions::new(config());
    let mut writer =
        PartitionWriter::open(&dirs, &Identity::default(), &partition, None, how, NOW_MS).unwrap();
    for n in 0..200 {
        let mut batch = BatchBuilder::new(BatchOptions::default()).unwrap();
        let key = format!("{}", n % 100);
        batch
            .append(0, NOW_MS, Some(key.as_bytes()), Some(b"value"), &[])
            .unwrap();
        let mut bytes = Vec::new();
        batch
            .finish(&mut Compressor::default(), &mut bytes)
            .unwrap();
        let log = writer.log_mut();
        log.append_as_leader(&mut bytes, &LeaderAppend::default(), NOW_MS)
            .unwrap();
        log.update_high_watermark(log.log_end_offset()).unwrap();
    }
    writer.close(NOW_MS).unwrap();
}

#[test]
fn passes_are_told_as_they_come() {
    let folder = tempfile::tempdir().unwrap();
    write(&folder.path().join("logs"));
    for dry_run in [true, false] {
        let options = CompactOptions {
            config: config(),
            topics: BTreeMap::new(),
            now_ms: NOW_MS,
            dry_run,
            on_corrupt: OnCorrupt::Raise,
            roll: true,
            map_bytes: 24 * 20,
            progress: Arc::default(),
        };
        let told = Rc::new(RefCell::new(Vec::new()));
        let (progress, seen) = (Arc::clone(&options.progress), Rc::clone(&told));
        let ask = move || {
            if progress.stage() == Stage::Compacted {
                seen.borrow_mut().push(progress.done());
            }
            false
        };
        let (path, out) = (folder.path().join("logs"), folder.path().join("out"));
        let report = with_cancellation(ask, || compact(&path, &out, &options)).unwrap();
        let partition = &report.recovery.partitions[0];
        let passes = partition.passes;
        let told = told.borrow();
        assert!(told.len() > passes * 20 && told.is_sorted(), "{passes}");
        let total = options.progress.total();
        assert!(total > 0 && options.progress.done() == total);
        assert_eq!(partition.more_passes, dry_run);
        if dry_run {
            assert_eq!(passes, 1);
            continue;
        }
        assert!(passes > 8, "{passes}");
        // Each pass but the last ends before the end, and each gets further.
        let at_end = told.iter().filter(|&&done| done == total).count();
        assert!(at_end < 5, "{at_end}");
        for part in 1..passes as u64 {
            let from = total * (part - 1) / passes as u64;
            assert!(
                told.iter()
                    .any(|&done| done > from && done < total * (part + 1) / passes as u64)
            );
        }
    }
}
