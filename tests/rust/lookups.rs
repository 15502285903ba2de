//! Every partition folder of a corpus against what Kafka's own classes answered: loading and lookups.
//! And the same lookups again with indexes gone, cut, garbled or exchanged: an index is a hint.

use std::fs::{self, File};
use std::time::UNIX_EPOCH;

use kafkalog::internal::error::Error;
use kafkalog::internal::format::file_name::{FileKind, FileName, FileState};
use kafkalog::internal::log::partition::{OffsetAndTimestamp, PartitionLog};
use kafkalog::internal::segment::lookup::SegmentLookup;
use kafkalog::internal::segment::skipping::OnCorrupt;
use kafkalog::internal::segment::statistics::SegmentStatistics;
use serde_json::Value;

use crate::corpus::{Case, Copy, Differences, EARLY, LATE, cases, lines, name};

fn offset_answers(log: &PartitionLog, case: &Case, what: &str, differences: &mut Differences) {
    for line in lines(&case.expected.join("lookup-offset.jsonl.gz")) {
        let target = line["target"].as_i64().unwrap();
        let kafkas = if line["error"] == "OffsetOutOfRange" {
            Err("out of range")
        } else {
            let field = |name: &str| line.get(name).and_then(Value::as_i64);
            Ok(field("record_offset").map(|offset| {
                let segment = field("record_segment_base_offset").unwrap();
                (segment, field("record_batch_position").unwrap(), offset)
            }))
        };
        let ours = match log.lookup(target) {
            Err(Error::OffsetOutOfRange { .. }) => Err("out of range"),
            found => Ok(found.unwrap().map(|found| {
                let position = i64::try_from(found.position).unwrap();
                (found.segment_base_offset, position, found.offset)
            })),
        };
        let place = || format!("{} {what} offset {target}", case.folder.display());
        differences.same(place, ours, kafkas);
    }
}

fn time_answers(
    log: &PartitionLog,
    case: &Case,
    file: &str,
    what: &str,
    differences: &mut Differences,
) {
    for line in lines(&case.expected.join(file)) {
        let kafkas = line["found"].as_bool().unwrap().then(|| {
            let number = |name: &str| line[name].as_i64();
            (
                number("offset").unwrap(),
                number("timestamp").unwrap(),
                number("leader_epoch"),
            )
        });
        let plain = |found: Option<OffsetAndTimestamp>| {
            found.map(|f| (f.offset, f.timestamp, f.leader_epoch.map(i64::from)))
        };
        let place = |asked: &str| format!("{} {what} {asked}", case.folder.display());
        let special = line.get("special").and_then(Value::as_str);
        match (special, line.get("target").and_then(Value::as_i64)) {
            // Kafka's number for the log end, which only its own requests use.
            (None, Some(-1)) => {
                let ours = Some(log.log_end_offset().unwrap());
                differences.same(|| place("time -1"), ours, kafkas.map(|k| k.0));
            }
            (None, Some(target)) => {
                let ours = plain(log.offset_for_timestamp(target).unwrap());
                differences.same(|| place(&format!("time {target}")), ours, kafkas);
            }
            (Some("max_timestamp"), _) => {
                let ours = plain(log.offset_of_max_timestamp().unwrap());
                differences.same(|| place("max timestamp"), ours, kafkas);
            }
            (Some("earliest"), _) => {
                let ours = Some(log.log_start_offset());
                differences.same(|| place("earliest"), ours, kafkas.map(|k| k.0));
            }
            (Some("latest"), _) => {
                let ours = Some(log.log_end_offset().unwrap());
                differences.same(|| place("latest"), ours, kafkas.map(|k| k.0));
            }
            _ => panic!("{line}"),
        }
    }
}

fn loading(log: &PartitionLog, case: &Case, differences: &mut Differences) {
    let loaded = lines(&case.expected.join("load.jsonl.gz"));
    let place = |what: &str| format!("{} {what}", case.folder.display());
    let whole = loaded.iter().find(|line| line["type"] == "log").unwrap();
    let of_log = |what: &str| whole[what].as_i64();
    differences.same(
        || place("log start offset"),
        Some(log.log_start_offset()),
        of_log("log_start_offset"),
    );
    differences.same(
        || place("log end offset"),
        Some(log.log_end_offset().unwrap()),
        of_log("log_end_offset"),
    );
    differences.same(
        || place("high watermark"),
        log.high_watermark(),
        of_log("high_watermark_checkpoint"),
    );
    let kafkas: Vec<_> = loaded
        .iter()
        .filter(|line| line["type"] == "segment")
        .map(|line| {
            let number = |name: &str| line[name].as_i64().unwrap();
            (
                number("base_offset"),
                number("size"),
                number("next_offset"),
                number("max_timestamp_so_far"),
            )
        })
        .collect();
    let ours: Vec<_> = log
        .segments()
        .iter()
        .enumerate()
        .map(|(n, segment)| {
            let valid = SegmentStatistics::of(segment).unwrap();
            let next = SegmentLookup::open(segment).unwrap().next_offset().unwrap();
            let max = log.listed().max_timestamp_of(n).unwrap();
            let size = i64::try_from(valid.valid_bytes).unwrap();
            (segment.base_offset, size, next, max)
        })
        .collect();
    differences.same(|| place("segments"), ours, kafkas);
}

#[test]
fn loading_and_lookups_are_kafkas() {
    let mut differences = Differences::default();
    for case in cases() {
        let copy = Copy::of(&case.folder, EARLY);
        let log = copy.open();
        loading(&log, &case, &mut differences);
        offset_answers(&log, &case, "", &mut differences);
        time_answers(&log, &case, "lookup-time.jsonl.gz", "", &mut differences);
        let late = "lookup-time-late-mtime.jsonl.gz";
        if case.expected.join(late).exists() {
            copy.age(LATE);
            time_answers(&copy.open(), &case, late, "late", &mut differences);
        }
    }
    differences.end(1000);
}

/// `exact` asks the records themselves: a linear search over what Kafka reads from the files.
#[test]
fn exact_lookups_by_time_are_a_linear_search() {
    let mut differences = Differences::default();
    for case in cases() {
        let log = PartitionLog::open(&case.folder).unwrap();
        let live = |line: &Value| FileName::parse(line["file"].as_str().unwrap_or_default());
        let records: Vec<(i64, i64)> = lines(&case.expected.join("records.jsonl.gz"))
            .iter()
            .filter(|line| live(line).is_some_and(|n| n.state == FileState::Live))
            .filter_map(|line| Some((line["offset"].as_i64()?, line["timestamp"].as_i64()?)))
            .collect();
        for line in lines(&case.expected.join("lookup-time.jsonl.gz")) {
            let Some(target) = line["target"].as_i64().filter(|&t| t >= 0) else {
                continue;
            };
            let start = log.log_start_offset();
            let kafkas = records
                .iter()
                .copied()
                .find(|&(offset, timestamp)| offset >= start && timestamp >= target);
            let ours = log.exact_offset_for_timestamp(target).unwrap();
            let ours = ours.map(|found| (found.offset, found.timestamp));
            let place = || format!("{} exact time {target}", case.folder.display());
            differences.same(place, ours, kafkas);
        }
    }
    differences.end(1000);
}

/// Damages of an index.
const DAMAGES: [&str; 7] = [
    "no offset index",
    "neither index",
    "cut",
    "zeros",
    "garbled",
    "one bit each",
    "exchanged",
];

fn damage(copy: &Copy, how: &str, seed: u64) {
    let mut chance = crate::common::Chance(seed);
    let offsets = copy.files(FileKind::OffsetIndex);
    let times = copy.files(FileKind::TimeIndex);
    match how {
        "no offset index" => offsets
            .iter()
            .for_each(|path| fs::remove_file(path).unwrap()),
        "neither index" => offsets
            .iter()
            .chain(&times)
            .for_each(|path| fs::remove_file(path).unwrap()),
        "exchanged" => {
            for files in [&offsets, &times] {
                let contents: Vec<_> = files.iter().map(|path| fs::read(path).unwrap()).collect();
                for (n, path) in files.iter().enumerate() {
                    let other = &contents[(n + 1) % contents.len()];
                    if !other.is_empty() {
                        fs::write(path, other).unwrap();
                    }
                }
            }
        }
        _ => {
            for path in offsets.iter().chain(&times) {
                let mut data = fs::read(path).unwrap();
                if data.is_empty() {
                    continue;
                }
                match how {
                    // Never to nothing: Kafka takes an empty time index for a segment without timestamps.
                    "cut" => data.truncate((data.len() / 2 + 3).max(12.min(data.len()))),
                    "zeros" => data.fill(0),
                    "garbled" => data.iter_mut().for_each(|byte| *byte = chance.byte()),
                    _ => {
                        let at = chance.below(data.len());
                        data[at] ^= 1 << chance.below(8);
                    }
                }
                fs::write(path, data).unwrap();
            }
        }
    }
}

#[test]
fn lookups_do_not_depend_on_indexes() {
    let mut differences = Differences::default();
    let mut believed = 0;
    for (seed, case) in (0u64..).zip(cases()) {
        let copy = Copy::of(&case.folder, EARLY);
        let log = copy.open();
        // Where Kafka believes a time index that the log cannot confirm (records stored without their timestamps, or
        // an index that was never written), its answers do hang on that file. So do they where another segment's time
        // index happens to fit records without timestamps.
        let mut confirmed = true;
        let mut has_timeless = false;
        for (n, segment) in log.segments().iter().enumerate() {
            let sums = SegmentStatistics::of(segment).unwrap();
            confirmed &=
                sums.max_timestamp.unwrap_or(-1) == log.listed().max_timestamp_of(n).unwrap();
            has_timeless |= sums.magics.contains_key(&0);
        }
        believed += usize::from(!confirmed);
        let from = usize::try_from(seed).unwrap();
        let tried = crate::common::pick(1, 2, DAMAGES.len());
        for how in DAMAGES.into_iter().cycle().skip(from * 2).take(tried) {
            let copy = Copy::of(&case.folder, EARLY);
            damage(&copy, how, seed);
            let log = copy.open();
            offset_answers(&log, &case, how, &mut differences);
            if confirmed && !(has_timeless && how == "exchanged") {
                time_answers(&log, &case, "lookup-time.jsonl.gz", how, &mut differences);
            }
        }
    }
    assert!(believed < 40, "{believed}");
    differences.end(1000);
}

/// Segments exchanged half-way: Kafka's loader finishes or drops the exchange, and so do we, without touching a file.
#[test]
fn interrupted_exchanges_of_segments() {
    let mut differences = Differences::default();
    let has_segments =
        |case: &Case, n| Copy::of(&case.folder, EARLY).files(FileKind::Log).len() > n;
    let chosen: Vec<Case> = cases()
        .into_iter()
        .step_by(5)
        .filter(|c| has_segments(c, 3))
        .collect();
    assert!(chosen.len() > 5);
    for case in &chosen {
        let kinds = [FileKind::Log, FileKind::OffsetIndex, FileKind::TimeIndex];
        // All of the second segment is ready under `.swap`; its original, and one more inside its range, still stand.
        let copy = Copy::of(&case.folder, EARLY);
        let log = copy.open();
        let (second, third) = (log.segments()[1].base_offset, log.segments()[2].base_offset);
        for kind in kinds {
            let path = copy.folder.join(FileName::new(second, kind).to_string());
            if path.exists() {
                fs::rename(&path, path.with_file_name(format!("{}.swap", name(&path)))).unwrap();
                fs::write(&path, b"what the new file replaces").unwrap();
            }
        }
        if third > second + 1 {
            let inside = FileName::new(second + 1, FileKind::Log).to_string();
            fs::write(copy.folder.join(inside), b"another that it replaces").unwrap();
        }
        copy.age(EARLY);
        for path in fs::read_dir(&copy.folder).unwrap() {
            let path = path.unwrap().path();
            if name(&path).ends_with(".log.swap") {
                let file = File::options().write(true).open(path).unwrap();
                file.set_modified(UNIX_EPOCH + EARLY).unwrap();
            }
        }
        let log = copy.open();
        if SegmentLookup::open(&log.segments()[1])
            .unwrap()
            .next_offset()
            .unwrap()
            > second
        {
            assert_eq!(
                name(&log.segments()[1].path()),
                format!("{second:020}.log.swap")
            );
            offset_answers(&log, case, "swap", &mut differences);
            time_answers(&log, case, "lookup-time.jsonl.gz", "swap", &mut differences);
        }
        // A `.cleaned` at or below it says that the exchange was not ready: the originals count.
        let copy = Copy::of(&case.folder, EARLY);
        for (offset, suffix) in [(second, "log.swap"), (second, "index.cleaned")] {
            fs::write(copy.folder.join(format!("{offset:020}.{suffix}")), b"half").unwrap();
        }
        let log = copy.open();
        offset_answers(&log, case, "cleaned", &mut differences);
        time_answers(
            &log,
            case,
            "lookup-time.jsonl.gz",
            "cleaned",
            &mut differences,
        );
    }
    differences.end(500);
}

/// Bits flipped, bytes cut, lengths replaced in logs and indexes: every answer is a value, or an error that names the
/// file and the place.
#[test]
fn mutated_folders_answer_or_complain() {
    let rounds = crate::common::pick(1, 2, 40);
    let mut complaints = 0;
    for (seed, case) in (7u64..).zip(cases()) {
        let mut chance = crate::common::Chance(seed);
        let copy = Copy::of(&case.folder, EARLY);
        let logs = copy.files(FileKind::Log);
        let Some(path) = logs.iter().find(|p| fs::metadata(p).unwrap().len() > 100) else {
            continue;
        };
        let good = fs::read(path).unwrap();
        for _ in 0..rounds {
            let mut data = good.clone();
            for _ in 0..=chance.below(3) {
                let at = chance.below(data.len());
                match chance.below(4) {
                    0 => data.truncate(at.max(1)),
                    1 => {
                        let length = [0, 13, 14, 61, i32::MAX, -1, 1_000_000][chance.below(7)];
                        let end = (at + 4).min(data.len());
                        data[at..end].copy_from_slice(&length.to_be_bytes()[..end - at]);
                    }
                    _ => data[at] ^= 1 << chance.below(8),
                }
            }
            fs::write(path, &data).unwrap();
            damage(&copy, DAMAGES[2 + chance.below(5)], chance.next());
            let log = copy.open();
            let mut check = |error: Option<Error>| {
                let Some(error) = error else { return };
                complaints += 1;
                match &error {
                    Error::OffsetOutOfRange { .. } => {}
                    other => {
                        let fault = other.as_fault().unwrap_or_else(|| panic!("{other}"));
                        let at = &fault.location;
                        // The line of a checkpoint beyond the log's end has no position.
                        let has_place = at.position.is_some() || fault.what == "log start offset";
                        assert!(at.path.is_some() && has_place, "{other}");
                    }
                }
            };
            check(log.log_end_offset().err());
            check(log.statistics(OnCorrupt::Raise).err());
            check(log.offset_of_max_timestamp().err());
            for line in lines(&case.expected.join("lookup-offset.jsonl.gz"))
                .iter()
                .step_by(7)
            {
                check(log.lookup(line["target"].as_i64().unwrap()).err());
            }
            for line in lines(&case.expected.join("lookup-time.jsonl.gz"))
                .iter()
                .step_by(11)
            {
                if let Some(target) = line["target"].as_i64().filter(|&t| t >= 0) {
                    check(log.offset_for_timestamp(target).err());
                    check(log.exact_offset_for_timestamp(target).err());
                }
            }
        }
    }
    assert!(complaints > 50, "{complaints}");
}
