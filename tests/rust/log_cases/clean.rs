//! Compaction, pass by pass.
//!
//! Batches that lose records are encoded again; those bytes depend on the compressor. Where the segments of a case hold
//! compressed batches, their headers and records are compared, and sizes are not.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::UNIX_EPOCH;

use kafkalog::internal::compress::{DecodeLimit, Decompressor};
use kafkalog::internal::error::Error;
use kafkalog::internal::format::batch::BatchHeader;
use kafkalog::internal::format::checkpoint::parse_offsets;
use kafkalog::internal::io::disk::Disk;
use kafkalog::internal::load::LoadRequest;
use kafkalog::internal::records::block::Payload;
use kafkalog::internal::records::plain;
use kafkalog::internal::tools::compact::{Cleaner, CleanerLines, CleanerSettings, CleaningPass};
use kafkalog::internal::types::{Compression, TopicPartition};
use kafkalog::internal::write::WritableLog;
use serde_json::{Value, json};

use super::append::{compare_fields, options, state};
use super::{Case, run_all};

const CHECKPOINT: &str = "cleaner-offset-checkpoint";

/// A log, and whether a cleaner has given it up.
struct Run<'a> {
    case: &'a Case,
    folder: &'a Path,
    partition: TopicPartition,
    log: WritableLog,
    cleaner: Cleaner,
    is_uncleanable: bool,
}

fn settings(case: &Case) -> CleanerSettings {
    let cleaner = &case.config["cleaner"];
    CleanerSettings {
        map_bytes: usize::try_from(cleaner["dedupe_buffer_bytes"].as_u64().unwrap_or(48_000))
            .unwrap(),
        load_factor: cleaner["load_factor"].as_f64().unwrap_or(0.9),
        // As Kafka's own.
        checks_batches: false,
    }
}

impl Run<'_> {
    fn pass(&mut self, pass: &Value, kafka: &Value, now_ms: i64) -> Vec<String> {
        if let Some(offset) = pass["high_watermark"].as_i64() {
            self.log.update_high_watermark(offset).unwrap();
        }
        if pass["expire_producers"].as_bool().unwrap_or(true) {
            self.log.remove_expired_producers(now_ms);
        }
        let mut ours = json!({"i": kafka["i"], "now_ms": now_ms, "eligible": false});
        let mut differences = Vec::new();
        if !self.is_uncleanable {
            let text = fs::read(self.folder.join(CHECKPOINT)).unwrap();
            let lines = CleanerLines::new(parse_offsets(&text).unwrap());
            let line = lines.line(&self.partition);
            let turn = self.cleaner.turn(&mut self.log, line, now_ms);
            lines.write(&Disk::default(), self.folder).unwrap();
            let failed = Self::answer(turn, &mut ours);
            differences.extend(compare_failure(failed.as_ref(), &kafka["error"]));
            self.is_uncleanable = failed.is_some();
        }
        let mut deleted = 0;
        if !self.is_uncleanable {
            deleted = self.log.delete_old_segments(now_ms).unwrap();
        }
        if self.case.config["run_deletes"] != false {
            self.log.remove_deleted(i64::MAX).unwrap();
        }
        ours["segments_deleted"] = deleted.into();
        ours["log_start_offset"] = self.log.log_start_offset().into();
        ours["checkpoint"] = self.checkpoint().into();
        if self.is_compressed() {
            // Sizes are the compressor's.
            for name in [
                "clean_bytes",
                "cleanable_bytes",
                "cleanable_ratio",
                "bytes_read",
                "bytes_written",
            ] {
                ours.as_object_mut().unwrap().remove(name);
            }
        }
        ours["segments"] = self.segments(&kafka["segments"]);
        differences.extend(compare_fields("pass", kafka, &ours));
        differences
    }

    /// Notes what came of a turn; returns why it failed.
    fn answer(turn: Result<CleaningPass, Error>, ours: &mut Value) -> Option<Error> {
        let turn = match turn {
            Ok(turn) => turn,
            Err(error) => return Some(error),
        };
        let outcome = turn.outcome?;
        let cleanable = turn.cleanable;
        ours["eligible"] = true.into();
        ours["first_dirty_offset"] = cleanable.first_dirty_offset.into();
        ours["first_uncleanable_offset"] = cleanable.first_uncleanable_offset.into();
        ours["clean_bytes"] = cleanable.dirtiness.clean_bytes.into();
        ours["cleanable_bytes"] = cleanable.dirtiness.cleanable_bytes.into();
        // As serde_json reads it, which may miss the last digit.
        let ratio = serde_json::to_string(&cleanable.dirtiness.ratio()).unwrap();
        ours["cleanable_ratio"] = serde_json::from_str(&ratio).unwrap();
        let stats = match outcome {
            Ok(stats) => stats,
            Err(error) => return Some(error),
        };
        ours["end_offset"] = stats.end_offset.into();
        ours["map_latest_offset"] = stats.map_latest_offset.into();
        ours["map_entries"] = stats.map_entries.into();
        ours["messages_read"] = stats.messages_read.into();
        ours["messages_written"] = stats.messages_written.into();
        ours["bytes_read"] = stats.bytes_read.into();
        ours["bytes_written"] = stats.bytes_written.into();
        ours["invalid_messages"] = stats.invalid_messages.into();
        None
    }

    fn checkpoint(&self) -> i64 {
        let text = fs::read(self.folder.join(CHECKPOINT));
        let lines = text.map(|text| parse_offsets(&text).unwrap());
        let lines = lines.unwrap_or_default();
        lines.get(&self.partition).copied().unwrap_or(-1)
    }

    fn segments(&self, kafka: &Value) -> Value {
        let all = self.log.segments();
        let last = all.last().unwrap().base_offset;
        let segments = all.iter().enumerate().map(|(n, segment)| {
            let mut one = json!({"base": segment.base_offset, "size": segment.size});
            if self.is_compressed() {
                one["size"] = kafka[n]["size"].clone();
            }
            if segment.base_offset != last {
                let name = format!("{:020}.log", segment.base_offset);
                let meta = fs::metadata(self.log.folder().join(name)).unwrap();
                let since = meta.modified().unwrap().duration_since(UNIX_EPOCH).unwrap();
                one["mtime_ms"] = i64::try_from(since.as_millis()).unwrap().into();
            }
            one
        });
        segments.collect()
    }

    /// Returns whether batches of the log, now or before, are compressed.
    fn is_compressed(&self) -> bool {
        has_compressed(&self.case.folder.join("before"))
    }
}

fn has_compressed(folder: &Path) -> bool {
    super::logs(folder).values().any(|log| {
        let batches = headers(log).into_iter();
        let mut codecs = batches.map(|(_, header)| header.attributes.codec_id());
        codecs.any(|codec| codec != 0)
    })
}

fn compare_failure(ours: Option<&Error>, kafka: &Value) -> Option<String> {
    let class = kafka["class"].as_str();
    match (ours, class) {
        (None, None) => None,
        (Some(Error::CorruptRecord(_)), Some(class))
            if [
                "CorruptRecordException",
                "IllegalStateException",
                "LogCleaningException",
            ]
            .iter()
            .any(|name| class.ends_with(name)) =>
        {
            None
        }
        (ours, class) => Some(format!("error: Kafka {class:?}, here {ours:?}")),
    }
}

/// The batches of a `.log`, as far as their headers can be read.
fn headers(log: &[u8]) -> Vec<(usize, BatchHeader)> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Ok(Some(header)) = BatchHeader::in_file(&log[at..], (log.len() - at) as u64) {
        let size = header.size;
        found.push((at, header));
        at += size;
    }
    found
}

/// A `.log` by what does not depend on a compressor: headers without size and checksum, and records.
fn contents(log: &[u8]) -> Vec<String> {
    let batches = headers(log).into_iter();
    batches
        .map(|(at, mut header)| {
            let batch = &log[at..at + header.size];
            let (mut arena, mut slots) = (Vec::new(), Vec::new());
            let (limit, mut decompressor) = (DecodeLimit::default(), Decompressor::new());
            let read = plain::batch(
                batch,
                0,
                &header,
                &mut decompressor,
                &mut arena,
                limit,
                &mut slots,
            );
            let source = match read.unwrap() {
                Payload::Source => batch,
                Payload::Arena => &arena,
            };
            let records: Vec<_> = slots
                .iter()
                .map(|slot| {
                    (
                        slot.offset,
                        slot.timestamp,
                        slot.key(source),
                        slot.value(source),
                    )
                })
                .collect();
            header.ensure_valid(batch).unwrap();
            if header.compression().unwrap() != Compression::None {
                (header.size, header.crc) = (0, 0);
            }
            format!("{header:?} {records:?}")
        })
        .collect()
}

/// Compares the files with Kafka's. For a log with compressed batches, positions in indexes and sizes are not compared.
fn compare_files(case: &Case, folder: &Path) -> Vec<String> {
    let differences = case.compare_tree(folder);
    if !has_compressed(&case.folder.join("before")) {
        return differences;
    }
    let expected: BTreeMap<_, _> = super::logs(&case.folder.join("after"));
    let mut left = Vec::new();
    for line in differences {
        let (name, _) = line.split_once(':').unwrap();
        let is_there = case.expected_tree().contains_key(name) && folder.join(name).exists();
        let is_index = [".index", ".timeindex"]
            .iter()
            .any(|end| name.ends_with(end));
        if is_there && is_index {
            continue;
        }
        if is_there && let Some(kafka) = expected.get(name) {
            let ours = contents(&fs::read(folder.join(name)).unwrap());
            if ours == contents(kafka) {
                continue;
            }
            left.push(format!(
                "{name}: Kafka {:#?}, here {ours:#?}",
                contents(kafka)
            ));
            continue;
        }
        left.push(line);
    }
    left
}

fn run(case: &Case, folder: &Path) -> Vec<String> {
    let options = options(case);
    let number = |name: &str| case.config[name].as_i64();
    let checkpointed = |file: &str| {
        let lines = fs::read(folder.join(file)).ok()?;
        parse_offsets(&lines).unwrap().into_values().next()
    };
    let log_start = number("log_start_offset").or(checkpointed("log-start-offset-checkpoint"));
    let recovery = number("recovery_point").or(checkpointed("recovery-point-offset-checkpoint"));
    let request = LoadRequest {
        clean: case.config["clean"].as_bool().unwrap_or(true),
        recovery_point: recovery.unwrap_or(0),
        log_start_offset: log_start.unwrap_or(0),
        now_ms: case.now_ms(),
        producer_id_expiration_ms: options.producer_id_expiration_ms,
    };
    let partition = folder.join(case.partition_folder());
    // `LogCleanerManager` does when it is made.
    let checkpoint = folder.join(CHECKPOINT);
    fs::File::options()
        .create(true)
        .append(true)
        .open(checkpoint)
        .unwrap();
    let mut log = WritableLog::open(&partition, options, request).unwrap();
    let high_watermark = number("high_watermark").unwrap_or(log.log_end_offset());
    log.update_high_watermark(high_watermark).unwrap();
    let loaded = case.event("loaded").unwrap();
    let mut differences = compare_fields("loaded", loaded, &state(&log));
    let topic = case.config["topic"].as_str().unwrap_or("orders");
    let number = i32::try_from(case.config["partition"].as_i64().unwrap_or(0)).unwrap();
    let mut run = Run {
        case,
        folder,
        partition: TopicPartition::new(topic, number),
        log,
        cleaner: Cleaner::new(settings(case)).unwrap(),
        is_uncleanable: false,
    };
    let kafka = case.result.iter().filter(|line| line["event"] == "pass");
    let passes = case.config["passes"].as_array().unwrap();
    let mut now_ms = case.now_ms();
    for (pass, kafka) in passes.iter().zip(kafka) {
        now_ms = pass["now_ms"].as_i64().unwrap_or(now_ms);
        differences.extend(run.pass(pass, kafka, now_ms));
    }
    run.log.close(now_ms).unwrap();
    differences.extend(compare_files(case, folder));
    differences
}

#[test]
fn clean_as_kafka() {
    run_all("clean", run);
}
