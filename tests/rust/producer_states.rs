//! Every snapshot that Kafka left in the corpora, against the state our replay of the batches below it comes to.
//!
//! Only where all of the log is still there: from offset 0 on, nothing compacted away. `KAFKALOG_LOG_CORPUS` and
//! `KAFKALOG_CORPUS` name larger corpora.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kafkalog::internal::format::batch::BatchHeader;
use kafkalog::internal::format::entry::ProducerState;
use kafkalog::internal::format::file_name::{FileKind, FileName, FileState};
use kafkalog::internal::io::disk::Disk;
use kafkalog::internal::producers::ProducerStateManager;
use kafkalog::internal::producers::snapshots::FolderSnapshots;
use kafkalog::internal::records::control::EndTransaction;
use kafkalog::internal::types::AppendOrigin;

use crate::common;

/// A corpus of a broker that did not yet take a marker's timestamp for its producer's.
const MARKERS_WITHOUT_TIME: &str = "v2-1.1.1";

/// Files of a folder by kind and offset.
fn files(folder: &Path, kind: FileKind) -> BTreeMap<i64, PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    entries
        .filter_map(|entry| {
            let name = FileName::parse(entry.file_name().to_str()?)?;
            let counts = name.kind == kind && name.state == FileState::Live;
            counts.then(|| (name.offset, entry.path()))
        })
        .collect()
}

/// All batches of a log that is whole from offset 0 on; `None` for others.
fn batches(folder: &Path) -> Option<Vec<(BatchHeader, Option<EndTransaction>)>> {
    let logs = files(folder, FileKind::Log);
    let mut found = Vec::new();
    let mut next = 0;
    for (base, path) in logs {
        if base != next {
            return None;
        }
        let data = fs::read(path).unwrap();
        let mut at = 0;
        while let Ok(Some(header)) = BatchHeader::parse(&data[at..]) {
            let batch = data.get(at..at + header.size)?;
            // Without a gap and with a good checksum: as it was when the producers wrote it.
            let full = header.records_count.map(i64::from)
                == Some(i64::from(header.last_offset_delta) + 1);
            if header.base_offset != next || !full || header.ensure_valid(batch).is_err() {
                return None;
            }
            let marker = header
                .is_control()
                .then(|| EndTransaction::of(batch, &header));
            // KRaft's control records end no transaction, and nobody's producer id is on them.
            let marker = marker.and_then(Result::ok).flatten();
            next = header.next_offset();
            at += header.size;
            found.push((header, marker));
        }
    }
    Some(found)
}

/// Compares every snapshot of a partition folder; returns how many there are, and how many of ours are the same file,
/// but for the order of the producers, which is Kafka's hash map's there and by id here.
fn replay(folder: &Path) -> Option<(usize, usize)> {
    let snapshots = files(folder, FileKind::Snapshot);
    let batches = batches(folder)?;
    let scratch = tempfile::tempdir().unwrap();
    let files = FolderSnapshots::new(scratch.path(), &Disk::default());
    let mut state = ProducerStateManager::open(Arc::new(files), i64::MAX).unwrap();
    let (mut compared, mut equal) = (0, 0);
    let mut batches = batches.iter().peekable();
    for (offset, path) in snapshots {
        while let Some((header, marker)) =
            batches.next_if(|(header, _)| header.base_offset < offset)
        {
            let one = [(header, *marker)];
            let analysis = state.analyze(one, AppendOrigin::Replication, -1).unwrap();
            state.update_all(analysis.appends);
            for txn in &analysis.completed {
                state.complete_txn(txn).unwrap();
            }
            state.update_map_end_offset(header.next_offset());
        }
        let kafkas = fs::read(&path).unwrap();
        let Ok(mut theirs) = ProducerState::parse_snapshot(&kafkas) else {
            continue;
        };
        if state.map_end_offset() != offset {
            continue;
        }
        let mut ours: Vec<_> = state.active_producers().map(ProducerState::from).collect();
        // Kafka forgets a producer after a day without batches and transactions, by its own clock.
        let all = ours.len();
        let known: Vec<i64> = theirs.iter().map(|p| p.producer_id).collect();
        ours.retain(|p| known.contains(&p.producer_id) || p.current_txn_first_offset >= 0);
        let by_id = |p: &ProducerState| p.producer_id;
        ours.sort_by_key(by_id);
        theirs.sort_by_key(by_id);
        let is_below = |name: &str| path.components().any(|part| part.as_os_str() == name);
        let is_old = is_below(MARKERS_WITHOUT_TIME);
        if is_old {
            for p in ours.iter_mut().chain(&mut theirs) {
                p.timestamp = 0;
            }
        }
        assert_eq!(ours, theirs, "{}", path.display());
        compared += 1;
        if all == ours.len() && !is_old {
            state.take_snapshot(false).unwrap();
            let written = fs::read(scratch.path().join(path.file_name().unwrap())).unwrap();
            let sorted = ProducerState::write_snapshot(theirs.into_iter()).unwrap();
            assert_eq!(sorted.len(), kafkas.len(), "{}", path.display());
            assert_eq!(written, sorted, "{}", path.display());
            equal += 1;
        }
    }
    Some((compared, equal))
}

#[test]
fn replayed_states_are_kafkas() {
    let mut roots = vec![common::root().join("tests/golden")];
    for name in ["KAFKALOG_LOG_CORPUS", "KAFKALOG_CORPUS"] {
        roots.extend(std::env::var_os(name).map(PathBuf::from));
    }
    let mut folders: Vec<PathBuf> = roots
        .iter()
        .flat_map(|root| common::files(root, FileKind::Snapshot.suffix()))
        .map(|path| path.parent().unwrap().to_path_buf())
        .collect();
    folders.dedup();
    let (mut compared, mut equal, mut partitions) = (0, 0, 0);
    for folder in &folders {
        if let Some((of, same)) = replay(folder) {
            compared += of;
            equal += same;
            partitions += 1;
        }
    }
    eprintln!(
        "{compared} snapshots of {partitions} partitions are Kafka's, {equal} as whole files"
    );
    assert!(equal > 30, "{equal}");
}
