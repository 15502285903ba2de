//! Code of a Rust user: only names at the crate's root, on files that a real broker wrote.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{ArrayRef, BinaryArray, Int64Array, RecordBatch, RecordBatchReader};
use kafkalog::{
    EndingOffsets, Error, IsolationLevel, Layout, LogConfig, LogDir, LogWriter, OnCorrupt, OnLoss,
    PartitionLog, RecordReader, RecoverOptions, ScanOptions, StartingOffsets, SyncPolicy,
    WriterOptions, recover, scan, scan_batches, scan_log_dirs,
};

use crate::common::root;

fn golden(case: &str) -> PathBuf {
    root().join("tests/golden").join(case)
}

fn offsets(reader: RecordReader) -> Vec<i64> {
    let mut found = Vec::new();
    for batch in reader {
        let batch = batch.unwrap();
        let column = batch.column_by_name("offset").unwrap();
        let column = column.as_any().downcast_ref::<Int64Array>().unwrap();
        found.extend(column.values());
    }
    found
}

fn values(values: &[&[u8]]) -> RecordBatch {
    let column: ArrayRef = Arc::new(BinaryArray::from_vec(values.to_vec()));
    RecordBatch::try_from_iter([("value", column)]).unwrap()
}

#[test]
fn a_scan_is_a_record_batch_reader_that_moves_between_threads() {
    fn reads<R: RecordBatchReader + Send + 'static>(reader: R) -> usize {
        let rows = move || reader.map(|batch| batch.unwrap().num_rows()).sum();
        std::thread::spawn(rows).join().unwrap()
    }
    let dir = golden("clean-restarts/data-1");
    let options = ScanOptions::new()
        .topics(["orders"])
        .columns(["offset", "value"]);
    let reader = scan(&dir, options.clone()).unwrap();
    let names: Vec<_> = reader
        .schema()
        .fields()
        .iter()
        .map(|f| f.name().clone())
        .collect();
    assert_eq!(names, ["offset", "value"]);
    let log = LogDir::open(&dir).unwrap().partition("orders", 0).unwrap();
    let all: Vec<i64> = (log.log_start_offset()..log.log_end_offset().unwrap()).collect();
    assert_eq!(reads(reader), all.len());
    for threads in [1, 2] {
        let views = options.clone().layout(Layout::View).threads(threads);
        let mut reader = scan(&dir, views).unwrap();
        let mut rows = 0;
        while let Some(batch) = reader.next_batch().unwrap() {
            rows += batch.num_rows();
        }
        assert_eq!(rows, all.len());
        assert_eq!(reader.metrics().rows, all.len() as u64);
    }
    assert_eq!(offsets(log.scan(ScanOptions::new()).unwrap()), all);
}

#[test]
fn bounds_choose_the_rows() {
    let dir = golden("clean-restarts/data-1");
    let log = PartitionLog::open(dir.join("orders-0")).unwrap();
    let end = log.log_end_offset().unwrap();
    let orders = || ScanOptions::new().topics(["orders"]).columns(["offset"]);
    let bounded = orders()
        .starting_offsets(StartingOffsets::Offset(end - 10))
        .ending_offsets(EndingOffsets::Offset(end - 5));
    let wanted: Vec<i64> = (end - 10..end - 5).collect();
    assert_eq!(offsets(scan(&dir, bounded).unwrap()), wanted);
    let pruned = orders().min_offset(end - 10).max_offset(end - 6);
    assert_eq!(offsets(scan(&dir, pruned).unwrap()), wanted);

    let found = log
        .offset_for_timestamp(1_700_030_390_000)
        .unwrap()
        .unwrap();
    assert!(found.timestamp >= 1_700_030_390_000);
    let exact = log.exact_offset_for_timestamp(1_700_030_390_000).unwrap();
    assert_eq!(exact, Some(found));
    let from = orders().starting_timestamp(1_700_030_390_000);
    assert_eq!(offsets(scan(&dir, from).unwrap())[0], found.offset);
    let until = orders().ending_timestamp(1_700_030_390_000);
    assert_eq!(
        *offsets(scan(&dir, until).unwrap()).last().unwrap(),
        found.offset - 1
    );

    let committed = ScanOptions::new()
        .topics(["ledger"])
        .isolation_level(IsolationLevel::ReadCommitted);
    let all = ScanOptions::new().topics(["ledger"]);
    let committed = offsets(scan(&dir, committed).unwrap());
    let all = offsets(scan(&dir, all).unwrap());
    assert!(committed.len() < all.len());
    assert!(committed.iter().all(|offset| all.contains(offset)));
}

#[test]
fn one_partition_is_asked_as_a_broker_is() {
    let dir = LogDir::open(golden("clean-restarts/data-1")).unwrap();
    assert!(dir.topics().contains(&"ledger"));
    assert_eq!(dir.partitions("events"), [1]);
    assert!(
        dir.meta_properties()
            .unwrap()
            .unwrap()
            .contains_key("cluster.id")
    );
    let log = dir.partition("orders", 0).unwrap();
    assert_eq!((log.topic(), log.partition()), ("orders", 0));
    assert!(log.topic_id().unwrap().is_some());
    let segments = log.segments();
    assert!(segments.last().unwrap().is_active);
    let sums = log.statistics(OnCorrupt::Raise).unwrap();
    assert_eq!(sums.len(), segments.len());
    let batches: u64 = sums.iter().map(|(_, sum)| sum.batches).sum();
    let rows = log.scan_batches(ScanOptions::new()).unwrap();
    let rows: usize = rows.map(|batch| batch.unwrap().num_rows()).sum();
    assert_eq!(u64::try_from(rows).unwrap(), batches);
    let (start, end) = (log.log_start_offset(), log.log_end_offset().unwrap());
    assert_eq!(log.lookup(start).unwrap().unwrap().offset, start);
    assert_eq!(log.lookup(end).unwrap(), None);
    assert!(matches!(
        log.lookup(end + 1),
        Err(Error::OffsetOutOfRange { offset, .. }) if offset == end + 1
    ));
    assert!(log.last_stable_offset().unwrap() <= end);
    assert!(log.offset_of_max_timestamp().unwrap().is_some());
}

#[test]
fn a_mistake_is_named() {
    let path = golden("clean-restarts/data-1");
    let dir = LogDir::open(&path).unwrap();
    let text = dir.partition("orders", 7).unwrap_err().to_string();
    assert!(
        text.contains("no partition 7 of topic \"orders\""),
        "{text}"
    );
    let text = dir.partition("nope", 0).unwrap_err().to_string();
    assert!(text.contains("no topic \"nope\""), "{text}");
    let unknown = ScanOptions::new().columns(["ofset"]);
    assert!(matches!(
        scan(&path, unknown),
        Err(Error::InvalidArgument(_))
    ));
    assert!(matches!(
        scan(path.join("absent"), ScanOptions::new()),
        Err(Error::Io { .. })
    ));
    assert!(LogConfig::default().with("segment.byte", "1").is_err());
    let corrupt = root().join("tests/golden/corrupt");
    let failing = std::fs::read_dir(corrupt).unwrap().any(|case| {
        let case = case.unwrap().path();
        let Ok(reader) = scan(&case, ScanOptions::new()) else {
            return false;
        };
        // As an iterator, the error travels inside Arrow's, and nothing follows it.
        let all: Vec<_> = reader.collect();
        let failed = all.iter().position(Result::is_err);
        failed.is_some_and(|at| {
            assert_eq!(at, all.len() - 1);
            let error = all[at].as_ref().unwrap_err();
            let source = std::error::Error::source(error).unwrap();
            source.downcast_ref::<Error>().unwrap().as_fault().is_some()
        })
    });
    assert!(failing, "none of the damaged cases is reported");
}

#[test]
fn what_is_written_is_read_again_and_recovered() {
    let folder = tempfile::tempdir().unwrap();
    let log_dir = folder.path().join("data");
    let config = LogConfig::default()
        .with("compression.type", "lz4")
        .unwrap();
    let options = WriterOptions::new()
        .sync(SyncPolicy::EveryAppend)
        .leader_epoch(3);
    let mut writer =
        LogWriter::open_with([&log_dir], "orders", 0, config.clone(), options).unwrap();
    let info = writer.append(&values(&[b"one", b"two"])).unwrap();
    assert_eq!(
        (info.first_offset, info.last_offset, info.records),
        (0, 1, 2)
    );
    writer.roll().unwrap();
    writer.append(&values(&[b"three"])).unwrap();
    writer.flush().unwrap();
    assert!(matches!(
        LogWriter::open(&log_dir, "orders", 0, LogConfig::default()),
        Err(Error::LogLocked { .. } | Error::InvalidArgument(_))
    ));
    assert_eq!((writer.log_start_offset(), writer.log_end_offset()), (0, 3));
    let highest = (writer.highest_producer_id(), writer.latest_leader_epoch());
    assert_eq!(highest, (None, Some(3)));
    // As after a crash: not closed.
    drop(writer);

    let dry = RecoverOptions::new().dry_run(true);
    let report = recover(&log_dir, &dry).unwrap();
    assert_eq!(report.partitions[0].log_end_offset, 3);
    let fixed = folder.path().join("fixed");
    let options = RecoverOptions::new().out(&fixed).on_loss(OnLoss::Salvage);
    let report = recover(&log_dir, &options).unwrap();
    assert_eq!(report.partitions[0].bytes_cut, 0);

    let source = LogDir::open(&fixed)
        .unwrap()
        .partition("orders", 0)
        .unwrap();
    let other = folder.path().join("other");
    let mut copy = LogWriter::open(&other, "orders", 0, LogConfig::default()).unwrap();
    assert_eq!(copy.append_batches(&source).unwrap().records, 3);
    assert!(copy.truncate_to(2).unwrap());
    let own = PartitionLog::open(copy.path()).unwrap();
    assert!(matches!(
        copy.append_batches(&own),
        Err(Error::InvalidArgument(_))
    ));
    copy.close().unwrap();
    let older = WriterOptions::new().leader_epoch(2);
    let older = LogWriter::open_with([&other], "orders", 0, LogConfig::default(), older);
    assert!(matches!(older, Err(Error::InvalidArgument(_))));
    assert_eq!(offsets(scan(&other, ScanOptions::new()).unwrap()), [0, 1]);
    let batches = scan_batches(&other, ScanOptions::new()).unwrap();
    assert_eq!(
        batches
            .map(|batch| batch.unwrap().num_rows())
            .sum::<usize>(),
        1
    );
    let twice: [&Path; 2] = [&other, &fixed];
    assert!(matches!(
        scan_log_dirs(twice, ScanOptions::new()),
        Err(Error::DuplicatePartition { .. })
    ));
}
