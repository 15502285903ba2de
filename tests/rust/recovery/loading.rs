//! Logs that are long, or have more entries than their indexes have room for.

use std::fs;

use kafkalog::internal::load::{LoadRequest, Note, OnLoss, plan};
use kafkalog::internal::log::config::LogConfig;
use kafkalog::internal::log::partition::PartitionLog;
use kafkalog::internal::write::{LeaderAppend, WritableLog, WriteOptions};

use super::NOW_MS;
use crate::common::{Chance, Head, batch, one_record};
use crate::log_cases;

/// The first batch after each opening gets no index entry, so an index that is filled in several openings has room for fewer
/// entries than recovery wants. Kafka fails there ("Attempt to append to a full index").
#[test]
fn a_log_whose_rebuilt_index_is_full_opens_and_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = LogConfig {
        index_interval_bytes: 0,
        segment_index_bytes: 360,
        ..LogConfig::default()
    };
    let mut request = LoadRequest {
        clean: true,
        recovery_point: 0,
        log_start_offset: 0,
        now_ms: NOW_MS,
        producer_id_expiration_ms: i64::MAX,
    };
    let open = |config: &LogConfig, request| {
        WritableLog::open(folder.path(), WriteOptions::new(config.clone()), request).unwrap()
    };
    let append = |log: &mut WritableLog, count: i64| {
        for _ in 0..count {
            let at = log.log_end_offset();
            let mut batch = one_record(0, 0, NOW_MS + at);
            log.append_as_leader(&mut batch, &LeaderAppend::default(), NOW_MS)
                .unwrap();
        }
    };
    // Room for 29 entries, as a time index keeps its last slot.
    for _ in 0..4 {
        let mut log = open(&config, request);
        append(&mut log, 8);
        request.recovery_point = log.close(NOW_MS).unwrap();
    }
    let mut log = open(&config, request);
    append(&mut log, 2);
    assert_eq!((log.segments().len(), log.log_end_offset()), (1, 34));
    log.crash();

    let unclean = LoadRequest {
        clean: false,
        recovery_point: 0,
        ..request
    };
    let planned = plan(folder.path(), &config, unclean, OnLoss::AsKafka).unwrap();
    let full = |note: &&Note| matches!(note, Note::IndexFull { base_offset: 0, .. });
    assert_eq!(planned.notes.iter().filter(full).count(), 1);
    let mut log = open(&config, unclean);
    assert_eq!((log.segments().len(), log.log_end_offset()), (1, 34));
    append(&mut log, 1);
    let bases: Vec<i64> = log.segments().iter().map(|s| s.base_offset).collect();
    assert_eq!(bases, [0, 34], "the next append begins a segment");
    append(&mut log, 40);
    log.close(NOW_MS).unwrap();
    let index = fs::read(folder.path().join("00000000000000000000.index")).unwrap();
    let times = fs::read(folder.path().join("00000000000000000000.timeindex")).unwrap();
    assert_eq!((index.len(), times.len()), (29 * 8, 30 * 12));
    // The last time entry names the largest timestamp.
    let last = [(NOW_MS + 33).to_be_bytes().as_slice(), &33i32.to_be_bytes()].concat();
    assert_eq!(times[29 * 12..], last);

    // A clean stop, and less room than entries.
    config.segment_index_bytes = 120;
    let clean = LoadRequest {
        recovery_point: 75,
        ..request
    };
    let mut log = open(&config, clean);
    assert_eq!(log.log_end_offset(), 75);
    let count = log.segments().len();
    append(&mut log, 1);
    assert_eq!(log.segments().len(), count + 1);
    log.close(NOW_MS).unwrap();
    let log = PartitionLog::open(folder.path()).unwrap();
    assert_eq!(log.log_end_offset().unwrap(), 76);
}

/// Many windows of it, read by several threads: batches that lie across their ends, ones that are larger than a window,
/// and ones that no thread takes into memory.
#[test]
fn a_large_log_ends_at_its_first_fault() {
    let work = log_cases::work_folder();
    let folder = work.path().join("orders-0");
    fs::create_dir_all(&folder).unwrap();
    let path = folder.join("00000000000000000000.log");
    let request = LoadRequest {
        clean: false,
        recovery_point: 0,
        log_start_offset: 0,
        now_ms: NOW_MS,
        producer_id_expiration_ms: 86_400_000,
    };
    for round in 0..24 {
        let mut chance = Chance(round);
        let (mut log, mut starts) = (Vec::new(), Vec::new());
        while log.len() < 6 << 20 {
            let offset = i64::try_from(starts.len()).unwrap();
            let size = match chance.below(100) {
                0 if round % 5 == 4 => 5_000_000,
                0 => 1_500_000,
                1..10 => chance.below(300_000),
                _ => chance.below(4_000),
            };
            let head = Head {
                base_offset: offset,
                attributes: 0,
                last_offset_delta: 0,
                base_timestamp: NOW_MS,
                max_timestamp: NOW_MS,
                count: 1,
            };
            let noise: Vec<u8> = (0..size).map(|_| chance.byte()).collect();
            starts.push(log.len());
            log.extend(batch(head, &noise));
        }
        let spoilt = chance.below(starts.len());
        let end = starts.get(spoilt + 1).copied().unwrap_or(log.len());
        let at = chance.below(end - starts[spoilt] - 21) + 21 + starts[spoilt];
        let bit = 1 << chance.below(8);
        match round % 4 {
            0 => {}
            1 => log.truncate(at),
            2 => log[at] ^= bit,
            // The length, so that nobody knows where the next batch begins.
            _ => log[starts[spoilt] + 8 + chance.below(4)] ^= bit,
        }
        let expected = if round % 4 == 0 { starts.len() } else { spoilt };
        fs::write(&path, &log).unwrap();
        let loaded = plan(&folder, &LogConfig::default(), request, OnLoss::AsKafka).unwrap();
        let end = loaded.outcome.unwrap().log_end_offset;
        assert_eq!(end, i64::try_from(expected).unwrap(), "round {round}");
    }
}
