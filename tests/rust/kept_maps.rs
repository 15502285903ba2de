//! The maps that planning leaves to the reader, as the kernel has them.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use arrow_array::{Array, Int64Array};
use kafkalog::internal::arrow::columns::ColumnOptions;
use kafkalog::internal::arrow::reader::RangeReader;
use kafkalog::internal::arrow::schema::{Column, Layout};
use kafkalog::internal::format::file_name::FileKind;
use kafkalog::internal::log::partition::PartitionLog;
use kafkalog::internal::scan::plan::{IsolationLevel, PlanOptions, plan_scan};
use kafkalog::internal::scan::range::PartitionRange;
use kafkalog::internal::scan::transactions::LogTransactions;
use kafkalog::internal::segment::reader::ReadOptions;

use crate::corpus::{Copy, EARLY, cases};

/// A log of eleven segments and many transactions.
fn aborts() -> Copy {
    let mut all = cases().into_iter();
    let case = all.find(|c| c.folder.ends_with("txn-aborts-0")).unwrap();
    Copy::of(&case.folder, EARLY)
}

/// The same without the files that would save walks.
fn bare() -> Copy {
    let copy = aborts();
    copy.bare();
    copy
}

fn plan(folder: &Path, isolation_level: IsolationLevel) -> Vec<PartitionRange> {
    let options = PlanOptions {
        isolation_level,
        ..PlanOptions::default()
    };
    plan_scan(&[folder.to_path_buf()], &options).unwrap()
}

fn reader(ranges: Vec<PartitionRange>) -> RangeReader {
    let columns = ColumnOptions {
        layout: Layout::View,
        ..ColumnOptions::default()
    };
    RangeReader::try_new(ranges, ReadOptions::default(), columns).unwrap()
}

/// Name and address of each map of a file of the folder.
fn mapped(folder: &Path) -> BTreeSet<(String, String)> {
    let folder = folder.to_str().unwrap();
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let ours = maps.lines().filter(|line| line.contains(folder));
    ours.map(|line| {
        let (_, name) = line.rsplit_once('/').unwrap();
        let (address, _) = line.split_once('-').unwrap();
        (name.to_owned(), address.to_owned())
    })
    .collect()
}

/// Files that a plan walked over are mapped when the reader comes, which makes no map of its own and leaves none.
#[test]
fn what_was_walked_over_is_mapped_once() {
    let copy = bare();
    let closed = copy.files(FileKind::Log).len() - 1;
    let uncommitted = plan(&copy.folder, IsolationLevel::ReadUncommitted);
    assert_eq!(mapped(&copy.folder).len(), 0);
    drop(uncommitted);
    let planned = plan(&copy.folder, IsolationLevel::ReadCommitted);
    let maps = mapped(&copy.folder);
    assert_eq!(maps.len(), closed);
    let same = planned.clone();
    let mut reader = reader(planned);
    let mut batches = Vec::new();
    while let Some(batch) = reader.next_batch().unwrap() {
        batches.push(batch);
        assert_eq!(mapped(&copy.folder), maps);
    }
    assert!(!batches.is_empty());
    drop((reader, batches, same));
    assert_eq!(mapped(&copy.folder).len(), 0);
}

/// The log in which the entries of an index were confirmed stays mapped, though nothing walked over it.
#[test]
fn what_was_looked_up_in_stays_mapped() {
    let copy = aborts();
    let log = PartitionLog::open(&copy.folder).unwrap();
    let mut transactions = LogTransactions::of(log.listed())
        .unwrap()
        .preferring_indexes();
    let end = transactions.last_stable_offset(None).unwrap();
    let aborted = transactions.aborted(0, end).unwrap();
    let maps: BTreeSet<String> = mapped(&copy.folder).into_iter().map(|(n, _)| n).collect();
    let logs = copy.files(FileKind::Log);
    let (_, closed) = logs.split_last().unwrap();
    let has_entries = |log: &&PathBuf| {
        let index = log.with_extension("txnindex");
        fs::metadata(index).is_ok_and(|file| file.len() > 0)
    };
    let indexed: Vec<_> = closed.iter().filter(has_entries).collect();
    assert!(!aborted.is_empty());
    assert!(maps.len() > transactions.walks(), "all were walked over");
    for log in indexed {
        let name = log.file_name().unwrap().to_str().unwrap();
        assert!(maps.contains(name), "{name} of {maps:?}");
    }
    drop(transactions);
    drop(log);
    assert_eq!(mapped(&copy.folder).len(), 0);
}

/// A file that was exchanged since is not read through its kept map, though the map is whole.
#[test]
fn what_was_exchanged_since_is_not_read_through_its_map() {
    let copy = bare();
    let planned = plan(&copy.folder, IsolationLevel::ReadCommitted);
    let first = copy.files(FileKind::Log).remove(0);
    let bytes = fs::read(&first).unwrap();
    fs::remove_file(&first).unwrap();
    fs::write(&first, &bytes[..bytes.len() - 1]).unwrap();
    let mut reader = reader(planned);
    let error = loop {
        match reader.next_batch() {
            Ok(batch) => assert!(batch.is_some(), "the torn batch was read"),
            Err(error) => break error,
        }
    };
    let fault = error.as_fault().unwrap();
    assert_eq!(fault.location.path.as_ref(), Some(&first));
}

/// Offsets of all records that a reader gives.
fn offsets(ranges: Vec<PartitionRange>) -> Vec<i64> {
    let columns = ColumnOptions {
        columns: vec![Column::Offset],
        ..ColumnOptions::default()
    };
    let mut reader = RangeReader::try_new(ranges, ReadOptions::default(), columns).unwrap();
    let mut found = Vec::new();
    while let Some(batch) = reader.next_batch().unwrap() {
        let column = batch.column(0).as_any().downcast_ref::<Int64Array>();
        found.extend(column.unwrap().values());
    }
    found
}

/// Bytes that a file lost in place since are an error, and no fault of the process: the map still covers them.
#[test]
fn what_was_cut_in_place_since_is_an_error() {
    let copy = bare();
    let planned = plan(&copy.folder, IsolationLevel::ReadCommitted);
    let second = copy.files(FileKind::Log).remove(1);
    let file = fs::OpenOptions::new().write(true).open(&second).unwrap();
    file.set_len(10).unwrap();
    let mut reader = reader(planned);
    let error = loop {
        match reader.next_batch() {
            Ok(batch) => assert!(batch.is_some(), "the log was read without its bytes"),
            Err(error) => break error,
        }
    };
    let fault = error.as_fault().unwrap();
    assert_eq!(fault.location.path.as_ref(), Some(&second));
}

/// A segment that retention deleted since is missing, as in a plan that is made after it, though its map is there.
#[test]
fn what_was_deleted_since_is_not_read_from_its_map() {
    let copy = bare();
    let planned = plan(&copy.folder, IsolationLevel::ReadCommitted);
    let all = offsets(planned.clone());
    let logs = copy.files(FileKind::Log);
    fs::remove_file(&logs[0]).unwrap();
    let second = logs[1].file_stem().unwrap().to_str().unwrap();
    let start: i64 = second.parse().unwrap();
    let found = offsets(planned);
    let left: Vec<i64> = all.iter().copied().filter(|&o| o >= start).collect();
    assert!(left.len() < all.len());
    assert_eq!(found, left);
}
