//! From paths, topics and bounds to files and positions: against Kafka's lists of batches, and by hand where the
//! question is which folders count.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kafkalog::internal::error::{Error, Result};
use kafkalog::internal::format::batch::BatchHeader;
use kafkalog::internal::scan::plan::{
    Ending, Partitions, PlanOptions, Starting, Timestamp, plan_scan,
};
use kafkalog::internal::scan::range::{PartitionRange, SegmentRange};
use kafkalog::internal::scan::raw_batches::WholeBatches;
use kafkalog::internal::types::TopicPartition;

use crate::common::Chance;
use crate::corpus::{Copy, EARLY, cases, lines};

fn golden(path: &str) -> PathBuf {
    crate::common::root().join("tests/golden").join(path)
}

fn names(ranges: &[PartitionRange]) -> Vec<String> {
    ranges
        .iter()
        .map(|range| format!("{}-{}", range.topic, range.partition))
        .collect()
}

fn topics(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(ToString::to_string).collect()
}

fn complaint(result: Result<Vec<PartitionRange>>) -> String {
    match result.unwrap_err() {
        Error::InvalidArgument(text) | Error::UnknownTopicOrPartition(text) => text,
        other => panic!("{other}"),
    }
}

/// A planned start is the start of a batch, nothing that was requested lies before it, and the index is made use of.
#[test]
fn offsets_become_positions() {
    let mut used = 0;
    let mut chance = Chance(1);
    for case in cases() {
        let number = |line: &serde_json::Value, name: &str| line[name].as_i64().unwrap();
        // File, position, first and last offset.
        let batches: Vec<(String, u64, i64, i64)> = lines(&case.expected.join("batches.jsonl.gz"))
            .iter()
            .filter(|line| line.get("base_offset").is_some())
            .map(|line| {
                let file = line["file"].as_str().unwrap().to_owned();
                let position = line["position"].as_u64().unwrap();
                let (base, last) = (number(line, "base_offset"), number(line, "last_offset"));
                (file, position, base, last)
            })
            .collect();
        if batches.is_empty() {
            continue;
        }
        let paths = [case.folder.clone()];
        let start_of_log = plan_scan(&paths, &PlanOptions::default()).unwrap()[0].start_offset;
        for _ in 0..12 {
            let (_, _, base, last) = chance.pick(&batches);
            let offset = *chance.pick(&[*base, *last, *last + 1, *base - 1]);
            let asked = offset.max(0);
            let options = PlanOptions {
                starting_offsets: Starting::Offset(asked),
                ..PlanOptions::default()
            };
            let range = &plan_scan(&paths, &options).unwrap()[0];
            let offset = asked.max(start_of_log);
            assert_eq!(range.start_offset, offset);
            let covered = |file: &str, position: u64| {
                range
                    .segments
                    .iter()
                    .any(|s| s.file_name == file && position >= s.start_position)
            };
            for (file, position, _, last) in &batches {
                let place = case.folder.display();
                assert!(
                    *last < offset || covered(file, *position),
                    "{place}: {last} at {file}:{position} is missing from {offset} on"
                );
            }
            for segment in &range.segments {
                let begins = |b: &(String, u64, i64, i64)| {
                    b.0 == segment.file_name && b.1 == segment.start_position
                };
                assert!(segment.start_position == 0 || batches.iter().any(begins));
                used += usize::from(segment.start_position > 0);
            }
            let options = PlanOptions {
                ending_offsets: Ending::Offset(asked),
                ..PlanOptions::default()
            };
            let range = &plan_scan(&paths, &options).unwrap()[0];
            assert_eq!(range.end_offset, Some(asked));
            for (file, _, base, last) in &batches {
                let wanted = *base < asked && *last >= start_of_log && asked > start_of_log;
                let there = range.segments.iter().any(|s| s.file_name == *file);
                assert!(!wanted || there, "{}: {file}", case.folder.display());
            }
        }
    }
    assert!(used > 100, "{used}");
}

#[test]
fn timestamps_become_kafkas_offsets() {
    for case in cases().into_iter().step_by(3) {
        let copy = Copy::of(&case.folder, EARLY);
        for line in lines(&case.expected.join("lookup-time.jsonl.gz")) {
            let Some(target) = line["target"].as_i64().filter(|&t| t >= 0) else {
                continue;
            };
            let kafkas = line["offset"].as_i64();
            let options = PlanOptions {
                starting_timestamp: Some(Timestamp::At(target)),
                ..PlanOptions::default()
            };
            let ranges = plan_scan(std::slice::from_ref(&copy.folder), &options).unwrap();
            match kafkas {
                Some(offset) => assert_eq!(ranges[0].start_offset, offset),
                None => assert!(ranges[0].segments.is_empty()),
            }
            let options = PlanOptions {
                ending_timestamp: Some(Timestamp::At(target)),
                ..PlanOptions::default()
            };
            let ranges = plan_scan(std::slice::from_ref(&copy.folder), &options).unwrap();
            assert_eq!(ranges[0].end_offset, kafkas);
        }
    }
}

#[test]
fn topics_and_partitions() {
    let dirs = [
        golden("clean-restarts/data-1"),
        golden("clean-restarts/data-0"),
    ];
    let chosen = |options: &PlanOptions| names(&plan_scan(&dirs, options).unwrap());
    let all = PlanOptions::default();
    let ours = [
        "events-0", "events-1", "events-2", "ledger-0", "orders-0", "state-0",
    ];
    assert_eq!(chosen(&all), ours);
    let mut options = PlanOptions {
        topics: Some(topics(&["orders", "__transaction_state"])),
        ..all.clone()
    };
    assert_eq!(
        chosen(&options),
        ["__transaction_state-0", "__transaction_state-1", "orders-0"]
    );
    options.partitions = Partitions::Numbers(BTreeSet::from([0]));
    assert_eq!(chosen(&options), ["__transaction_state-0", "orders-0"]);
    // The whole name must match; what a pattern matches counts, internal or not.
    for (pattern, expected) in [
        ("event", &[][..]),
        (
            "events|orders",
            &["events-0", "events-1", "events-2", "orders-0"],
        ),
        ("__cluster.*", &["__cluster_metadata-0"]),
    ] {
        let options = PlanOptions {
            topic_pattern: Some(pattern.to_owned()),
            ..all.clone()
        };
        assert_eq!(chosen(&options), expected, "{pattern}");
    }
    let by_topic = BTreeMap::from([("events".to_owned(), BTreeSet::from([2, 1]))]);
    let options = PlanOptions {
        partitions: Partitions::ByTopic(by_topic),
        ..all.clone()
    };
    assert_eq!(chosen(&options), ["events-1", "events-2"]);
    // Named by path, internal or not; twice is once.
    let path = golden("clean-restarts/data-0/__cluster_metadata-0");
    let ranges = plan_scan(&[path.clone(), path.join("../__cluster_metadata-0")], &all).unwrap();
    assert_eq!(names(&ranges), ["__cluster_metadata-0"]);
}

#[test]
fn what_is_not_there_is_named_with_what_is() {
    let dirs = [golden("clean-restarts/data-1")];
    let asked = |options: PlanOptions| complaint(plan_scan(&dirs, &options));
    let all = PlanOptions::default();
    assert_eq!(
        asked(PlanOptions {
            topics: Some(topics(&["order"])),
            ..all.clone()
        }),
        "no topic \"order\" in these logs; found: __transaction_state, events, ledger, orders"
    );
    assert_eq!(
        asked(PlanOptions {
            topics: Some(topics(&["events"])),
            partitions: Partitions::Numbers(BTreeSet::from([1, 7])),
            ..all.clone()
        }),
        "no partition 7 in these logs; found: events-1"
    );
    let map = BTreeMap::from([(TopicPartition::new("events", 2), 0)]);
    let text = asked(PlanOptions {
        starting_offsets: Starting::Offsets(map.clone()),
        ..all.clone()
    });
    assert!(text.contains("events-2, which is not read"), "{text}");
    let text = asked(PlanOptions {
        ending_timestamp: Some(Timestamp::ByPartition(map)),
        ..all.clone()
    });
    assert!(text.contains("events-2, which is not read"), "{text}");
    for (options, word) in [
        (
            PlanOptions {
                topic_pattern: Some("(".to_owned()),
                ..all.clone()
            },
            "topic pattern",
        ),
        (
            PlanOptions {
                starting_offsets: Starting::Offset(-3),
                ..all.clone()
            },
            "offset -3",
        ),
        (
            PlanOptions {
                starting_timestamp: Some(Timestamp::At(-1)),
                ..all.clone()
            },
            "negative",
        ),
    ] {
        let text = asked(options);
        assert!(text.contains(word), "{text}");
    }
    for path in ["nowhere", "clean-restarts/data-1/orders-0/nothing.log"] {
        match plan_scan(&[golden(path)], &all).unwrap_err() {
            Error::Io { source, .. } => {
                assert_eq!(source.kind(), std::io::ErrorKind::NotFound);
            }
            other => panic!("{other}"),
        }
    }
    let text = complaint(plan_scan(&[golden("MANIFEST.md")], &all));
    assert!(text.contains("MANIFEST.md: neither"), "{text}");
}

fn copy_tree(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy_tree(&path, &target);
        } else {
            fs::write(target, fs::read(&path).unwrap()).unwrap();
        }
    }
}

#[test]
fn a_partition_in_two_log_dirs_is_an_error_that_names_both() {
    let root = tempfile::tempdir().unwrap();
    let (one, two) = (root.path().join("one"), root.path().join("two"));
    for dir in [&one, &two] {
        copy_tree(
            &golden("clean-restarts/data-1/orders-0"),
            &dir.join("orders-0"),
        );
    }
    match plan_scan(&[one.clone(), two.clone()], &PlanOptions::default()).unwrap_err() {
        Error::DuplicatePartition {
            partition,
            first,
            second,
        } => {
            assert_eq!(partition, "orders-0");
            assert_eq!(
                [first, second],
                [one.join("orders-0"), two.join("orders-0")]
            );
        }
        other => panic!("{other}"),
    }
    assert_eq!(plan_scan(&[one], &PlanOptions::default()).unwrap().len(), 1);
}

#[test]
fn folders_on_their_way_out_or_in_only_when_asked_for() {
    let dirs = [golden("in-flight/data-0"), golden("in-flight/data-1")];
    let live = ["to-move-0", "to-shrink-0"];
    assert_eq!(
        names(&plan_scan(&dirs, &PlanOptions::default()).unwrap()),
        live
    );
    let inactive = PlanOptions {
        include_inactive: true,
        ..PlanOptions::default()
    };
    let all = [
        "to-delete-0",
        "to-lose-0",
        "to-move-0",
        "to-move-0",
        "to-shrink-0",
    ];
    assert_eq!(names(&plan_scan(&dirs, &inactive).unwrap()), all);
    let path = dirs[0].join("to-delete-0.4d7c6ca9872c484f9ada79a4519a0a05-delete");
    let ranges = plan_scan(&[path], &PlanOptions::default()).unwrap();
    assert_eq!(names(&ranges), ["to-delete-0"]);
    assert_eq!(ranges[0].segments.len(), 5);
}

#[test]
fn bounds_by_word() {
    let folder = golden("retention/data-0/records-deleted-1");
    let bounds = |starting_offsets, ending_offsets| {
        let options = PlanOptions {
            starting_offsets,
            ending_offsets,
            ..PlanOptions::default()
        };
        let range = plan_scan(std::slice::from_ref(&folder), &options)
            .unwrap()
            .remove(0);
        (range.start_offset, range.end_offset)
    };
    // Kafka's log start offset, log end offset and checkpoint: expected/records-deleted-1/load.
    assert_eq!(bounds(Starting::Earliest, Ending::Latest), (24, None));
    assert_eq!(
        bounds(Starting::Offset(-2), Ending::HighWatermark),
        (24, Some(300))
    );
    assert_eq!(bounds(Starting::Offset(5), Ending::Offset(-1)), (24, None));
    let (oldest, _) = bounds(Starting::Oldest, Ending::Latest);
    assert!(oldest < 24, "{oldest}");
    let map = BTreeMap::from([(TopicPartition::new("records-deleted", 1), 100)]);
    assert_eq!(
        bounds(Starting::Offsets(map.clone()), Ending::Offsets(map)),
        (100, Some(100))
    );
    // A folder without its log dir has no high watermark.
    let root = tempfile::tempdir().unwrap();
    let alone = root.path().join("records-deleted-1");
    copy_tree(&folder, &alone);
    let options = PlanOptions {
        ending_offsets: Ending::HighWatermark,
        ..PlanOptions::default()
    };
    let text = complaint(plan_scan(std::slice::from_ref(&alone), &options));
    assert!(text.contains("replication-offset-checkpoint"), "{text}");
    // Nor a log start offset above its first file.
    let range = plan_scan(&[alone], &PlanOptions::default())
        .unwrap()
        .remove(0);
    assert_eq!(range.start_offset, range.segments[0].base_offset);
}

#[test]
fn files_named_by_themselves_are_read_whole() {
    let folder = golden("clean-restarts/data-1/orders-0");
    let whole = plan_scan(std::slice::from_ref(&folder), &PlanOptions::default())
        .unwrap()
        .remove(0);
    let file = |n: usize| folder.join(&whole.segments[n].file_name);
    let last = whole.segments.len() - 1;
    let ranges = plan_scan(
        &[file(last), file(1)],
        &PlanOptions {
            topics: Some(topics(&["orders"])),
            ..PlanOptions::default()
        },
    )
    .unwrap();
    assert_eq!(names(&ranges), ["orders-0"]);
    assert_eq!(ranges[0].start_offset, whole.segments[1].base_offset);
    assert_eq!(
        ranges[0].segments,
        [whole.segments[1].clone(), whole.segments[last].clone()]
    );
    // Below the log start offset too: naming a file means all of its content.
    let deleted = golden("retention/data-0/records-deleted-1");
    let first = plan_scan(
        std::slice::from_ref(&deleted),
        &PlanOptions {
            starting_offsets: Starting::Oldest,
            ..PlanOptions::default()
        },
    )
    .unwrap()
    .remove(0);
    let path = deleted.join(&first.segments[0].file_name);
    let range = plan_scan(&[path], &PlanOptions::default())
        .unwrap()
        .remove(0);
    assert_eq!(range.start_offset, first.start_offset);
}

/// A cleaner exchanges a segment again and again, and a broker rolls, while we plan: no file is missed, none is fatal.
#[test]
fn planning_under_a_cleaner() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("orders-0");
    copy_tree(&golden("clean-restarts/data-1/orders-0"), &folder);
    let paths = [root.path().to_path_buf()];
    let before = plan_scan(&paths, &PlanOptions::default())
        .unwrap()
        .remove(0);
    let bases: Vec<i64> = before.segments.iter().map(|s| s.base_offset).collect();
    assert!(bases.len() > 3);
    let log = folder.join(&before.segments[1].file_name);
    let with = |suffix: &str| {
        let mut name = log.clone().into_os_string();
        name.push(suffix);
        PathBuf::from(name)
    };
    let stop = AtomicBool::new(false);
    let rounds = std::thread::scope(|scope| {
        let cleaner = scope.spawn(|| {
            let data = fs::read(&log).unwrap();
            let mut rounds = 0;
            while !stop.load(Ordering::Relaxed) {
                // The order of `LogSegments.replaceSegments`.
                fs::write(with(".cleaned"), &data).unwrap();
                fs::rename(with(".cleaned"), with(".swap")).unwrap();
                fs::rename(&log, with(".deleted")).unwrap();
                fs::rename(with(".swap"), &log).unwrap();
                fs::remove_file(with(".deleted")).unwrap();
                rounds += 1;
                // A real cleaner takes longer than two listings to come back to the same segment.
                std::thread::sleep(Duration::from_micros(300));
            }
            rounds
        });
        let mut missed = Vec::new();
        for n in 0..6000 {
            let options = PlanOptions {
                starting_offsets: Starting::Offset(bases[1] + n % 20),
                ..PlanOptions::default()
            };
            let range = plan_scan(&paths, &options).map(|mut ranges| ranges.remove(0));
            let found = range.map(|r| r.segments.iter().map(|s| s.base_offset).collect::<Vec<_>>());
            match found {
                Ok(found) if found == bases[1..] => {}
                other => missed.push(format!("{other:?}")),
            }
        }
        stop.store(true, Ordering::Relaxed);
        assert!(
            missed.is_empty(),
            "{} times: {:?}",
            missed.len(),
            missed.first()
        );
        cleaner.join().unwrap()
    });
    assert!(rounds > 50, "{rounds}");
}

/// Runs put together are the files, whatever their size, and a bounded range has the batches that reach into it.
#[test]
fn whole_batches_are_the_files() {
    let options = PlanOptions {
        starting_offsets: Starting::Oldest,
        ..PlanOptions::default()
    };
    let ranges = plan_scan(&[golden("clean-restarts/data-1")], &options).unwrap();
    assert!(ranges.iter().any(|range| range.segments.len() > 2));
    let runs = |range: &PartitionRange, most: usize| {
        let mut batches = WholeBatches::new(range.clone());
        let (mut bytes, mut firsts) = (Vec::new(), Vec::new());
        while let Some(group) = batches.next_group(most).unwrap() {
            let header = BatchHeader::parse(group.bytes).unwrap().unwrap();
            assert_eq!(header.base_offset, group.base_offset);
            assert!(group.bytes.len() <= most || header.size == group.bytes.len());
            bytes.extend_from_slice(group.bytes);
            firsts.push(group.base_offset);
        }
        assert_eq!(batches.bytes(), bytes.len() as u64);
        (bytes, firsts)
    };
    for range in &ranges {
        let read =
            |segment: &SegmentRange| fs::read(range.folder.path_of(&segment.file_name)).unwrap();
        let whole: Vec<u8> = range.segments.iter().flat_map(read).collect();
        let (single, firsts) = runs(range, 1);
        assert_eq!(single, whole);
        for most in [200, 4096, 1 << 20] {
            assert_eq!(runs(range, most).0, whole, "{most}");
        }
        if firsts.len() > 4 {
            let mut bounded = range.clone();
            bounded.start_offset = firsts[2] - 1;
            bounded.end_offset = Some(firsts[4] + 1);
            assert_eq!(runs(&bounded, 1).1, firsts[1..5]);
            bounded.end_offset = Some(firsts[4]);
            assert_eq!(runs(&bounded, 1 << 20).0, runs(&bounded, 1).0);
            assert_eq!(runs(&bounded, 1).1, firsts[1..4]);
        }
    }
}
