//! `recover`: a folder loaded as a broker does at start-up, then closed.

use std::collections::BTreeSet;
use std::path::Path;

use kafkalog::internal::format::batch::BatchHeader;
use kafkalog::internal::format::entry::ProducerState;
use kafkalog::internal::io::disk::Disk;
use kafkalog::internal::load::{LoadRequest, LoadedLog, Note, OnLoss, Plan, plan};
use kafkalog::internal::log::dir::{
    CHECKPOINTS, CLEAN_SHUTDOWN, LOG_START, LogDir, RECOVERY_POINT,
};
use kafkalog::internal::tools::recover::{RecoverySettings, recover};
use kafkalog::internal::write::{LeaderAppend, WritableLog};
use serde_json::{Value, json};

use super::append::options;
use super::{Case, config, run_all};

/// Builds the input of loading from a case.
pub fn request(case: &Case) -> LoadRequest {
    let number = |name: &str| case.config[name].as_i64();
    LoadRequest {
        clean: case.config["clean"].as_bool().unwrap(),
        recovery_point: number("recovery_point").unwrap(),
        log_start_offset: number("log_start_offset").unwrap(),
        now_ms: case.now_ms(),
        producer_id_expiration_ms: number("producer.id.expiration.ms").unwrap_or(86_400_000),
    }
}

/// The log's state in the words of the result lines.
pub fn state(log: &LoadedLog, high_watermark: i64) -> Value {
    let mut producers: Vec<ProducerState> =
        log.producers.active_producers().map(Into::into).collect();
    producers.sort_by_key(|producer| producer.producer_id);
    json!({
        "log_start_offset": log.log_start_offset,
        "log_end_offset": log.log_end_offset,
        "recovery_point": log.recovery_point,
        "high_watermark": high_watermark,
        "segments": log.segments.iter().map(|s| json!({"base": s.base_offset, "size": s.size})).collect::<Vec<_>>(),
        "leader_epochs": log.epochs.entries().iter().map(|e| json!([e.epoch, e.start_offset])).collect::<Vec<_>>(),
        "producers": producers.iter().map(|p| json!({
            "producer_id": p.producer_id,
            "epoch": p.producer_epoch,
            "last_sequence": p.last_sequence,
            "last_offset": p.last_offset,
            "offset_delta": p.offset_delta,
            "timestamp": p.timestamp,
            "coordinator_epoch": p.coordinator_epoch,
            "current_txn_first_offset": p.current_txn_first_offset,
        })).collect::<Vec<_>>(),
    })
}

/// Compares an answer with Kafka's, field by field.
pub fn compare_answer(kafka: &Value, ours: &Value) -> Vec<String> {
    let fields = ours.as_object().unwrap().iter();
    fields
        .filter(|(name, value)| kafka[name.as_str()] != **value)
        .map(|(name, value)| format!("{name}: Kafka {}, here {value}", kafka[name.as_str()]))
        .collect()
}

/// The lengths of the partition's files while it is open.
fn open_files(plan: &Plan, case: &Case) -> Vec<Value> {
    let folder = case.partition_folder();
    let files = plan.files().into_iter();
    files
        .map(|(name, size)| json!({"name": format!("{folder}/{name}"), "size": size}))
        .collect()
}

fn load(case: &Case, folder: &Path) -> (Plan, Vec<String>) {
    let mut plan = plan(
        &folder.join(case.partition_folder()),
        &config(case),
        request(case),
        OnLoss::AsKafka,
    )
    .unwrap();
    let mut differences = Vec::new();
    match (&plan.outcome, case.event("loaded")) {
        (Ok(log), Some(kafka)) => {
            let high_watermark = case.config["high_watermark"].as_i64();
            let high_watermark = high_watermark.unwrap_or(log.log_end_offset);
            // Kafka keeps it inside of the log.
            let high_watermark = high_watermark.clamp(log.log_start_offset, log.log_end_offset);
            let ours = state(log, high_watermark);
            differences.extend(compare_answer(kafka, &ours));
            let of_partition = |file: &&Value| {
                let name = file["name"].as_str().unwrap();
                // Folders inside of it are none of the log's business.
                let own = name.strip_prefix(&format!("{}/", case.partition_folder()));
                own.is_some_and(|own| !own.contains('/'))
            };
            let kafka: Vec<Value> = kafka["files"]
                .as_array()
                .unwrap()
                .iter()
                .filter(of_partition)
                .cloned()
                .collect();
            let ours = open_files(&plan, case);
            if kafka != ours {
                differences.push(format!(
                    "open files: Kafka {}, here {}",
                    json!(kafka),
                    json!(ours)
                ));
            }
        }
        (Err(_), None) => {}
        (Ok(_), None) => differences.push(format!(
            "loads; Kafka: {}",
            case.event("failed").unwrap()["error"]
        )),
        (Err(error), Some(_)) => differences.push(format!("does not load: {error}")),
    }
    plan.close().unwrap();
    if let Ok(log) = &plan.outcome {
        let closed = case.event("closed");
        let ours = json!({"recovery_point": log.recovery_point});
        differences.extend(
            closed
                .into_iter()
                .flat_map(|kafka| compare_answer(kafka, &ours)),
        );
        if case.config["run_deletes"].as_bool().unwrap_or(true) {
            plan.unlink_deleted();
        }
    }
    (plan, differences)
}

/// A full index never stops a log from opening: every batch stays, the indexes fit the setting, and nothing is left to do.
fn opens_with_full_indexes(case: &Case, folder: &Path) -> Vec<String> {
    let partition = folder.join(case.partition_folder());
    let logs = || {
        let mut files = super::tree(folder);
        files.retain(|name, _| crate::common::has_extension(name, "log"));
        files
    };
    let before = logs();
    let mut plan = plan(&partition, &config(case), request(case), OnLoss::AsKafka).unwrap();
    let is_full = |note: &Note| matches!(note, Note::IndexFull { .. });
    assert!(plan.notes.iter().any(is_full), "{:?}", plan.notes);
    plan.close().unwrap();
    plan.apply(&Disk::default()).unwrap();
    let mut differences = super::compare(&before, &logs());
    let most = config(case).segment_index_bytes.try_into().unwrap();
    for (name, length) in plan.files() {
        if name.ends_with("index") && !name.ends_with("txnindex") && length > most {
            differences.push(format!("{name}: {length} bytes, at most {most}"));
        }
    }
    let request = LoadRequest {
        clean: true,
        recovery_point: plan.outcome.unwrap().log_end_offset,
        ..request(case)
    };
    let mut log = WritableLog::open(&partition, options(case), request).unwrap();
    let (end, count) = (log.log_end_offset(), log.segments().len());
    let mut batch = crate::common::one_record(0, 0, request.now_ms);
    log.append_as_leader(&mut batch, &LeaderAppend::default(), request.now_ms)
        .unwrap();
    let segments = log.segments();
    assert_eq!(segments.len(), count + 1, "the next append rolls");
    assert_eq!(segments.last().unwrap().base_offset, end);
    differences
}

/// The files after, in place.
#[test]
fn recover_as_kafka() {
    run_all("recover", |case, folder| {
        if case.fails_on_a_full_index() {
            return opens_with_full_indexes(case, folder);
        }
        let _ = std::fs::remove_file(folder.join(CLEAN_SHUTDOWN));
        let before = super::tree(folder);
        let (plan, mut differences) = load(case, folder);
        assert_eq!(before, super::tree(folder), "planning changes nothing");
        plan.apply(&Disk::default()).unwrap();
        differences.extend(case.compare_tree(folder));
        if let (Ok(log), Some(kafka)) = (&plan.outcome, case.event("loaded")) {
            differences.extend(compare_last_stable(case, folder, log, kafka));
        }
        differences
    });
}

/// The last stable offset, which only the files tell: that of the log opened as it was left.
fn compare_last_stable(case: &Case, folder: &Path, log: &LoadedLog, kafka: &Value) -> Vec<String> {
    let request = LoadRequest {
        clean: true,
        recovery_point: log.recovery_point,
        log_start_offset: log.log_start_offset,
        ..request(case)
    };
    let partition = folder.join(case.partition_folder());
    let mut log = WritableLog::open(&partition, options(case), request).unwrap();
    let high_watermark = case.config["high_watermark"].as_i64();
    let high_watermark = high_watermark.unwrap_or(log.log_end_offset());
    log.update_high_watermark(high_watermark).unwrap();
    compare_answer(
        kafka,
        &json!({"last_stable_offset": log.last_stable_offset()}),
    )
}

fn verb_options(case: &Case) -> RecoverySettings {
    let request = request(case);
    RecoverySettings {
        recovery_point: Some(request.recovery_point),
        log_start_offset: Some(request.log_start_offset),
        config: config(case),
        producer_id_expiration_ms: request.producer_id_expiration_ms,
        ..RecoverySettings::at(request.now_ms)
    }
}

/// The checkpoints after, against the offsets that Kafka's log had when it was closed.
fn compare_checkpoints(case: &Case, folder: &Path) -> Vec<String> {
    let dir = LogDir::open(folder).unwrap();
    let line = |name: &str| {
        let mut lines = dir.checkpoint(name).unwrap().unwrap_or_default();
        let mine = lines.pop_first().map(|(_, offset)| offset);
        assert!(lines.is_empty(), "there is one partition");
        mine
    };
    let loaded = case.event("loaded").unwrap();
    let start = loaded["log_start_offset"].as_i64();
    let first = loaded["segments"][0]["base"].as_i64();
    let recovery_point = case.event("closed").unwrap()["recovery_point"].as_i64();
    let expected = [
        (RECOVERY_POINT, recovery_point),
        (LOG_START, start.filter(|_| start > first)),
    ];
    let differing = expected
        .into_iter()
        .filter(|(name, offset)| line(name) != *offset);
    differing
        .map(|(name, offset)| format!("{name}: Kafka {offset:?}, here {:?}", line(name)))
        .collect()
}

/// Every whole batch of a folder's `.log` files, wherever it begins; of those with padded names alone, below an offset.
fn whole_batches(folder: &Path, below: Option<i64>) -> BTreeSet<Vec<u8>> {
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let Some(stem) = name.strip_suffix(".log") else {
            continue;
        };
        if below.is_some() && stem.len() != 20 {
            continue;
        }
        let log = std::fs::read(&path).unwrap();
        let mut rest = log.as_slice();
        while !rest.is_empty() {
            rest = match BatchHeader::parse(rest) {
                Ok(Some(header))
                    if (0..=2).contains(&header.magic)
                        && header.base_offset >= 0
                        && header.size <= rest.len()
                        && header.ensure_valid(&rest[..header.size]).is_ok() =>
                {
                    let (batch, after) = rest.split_at(header.size);
                    if below.is_none_or(|end| header.last_offset() < end) {
                        found.insert(batch.to_vec());
                    }
                    after
                }
                _ => &rest[1..],
            };
        }
    }
    found
}

/// The verb over the log dir: in place as Kafka; refused, with nothing changed, where Kafka refuses.
#[test]
fn the_verb_does_as_kafka_or_refuses() {
    run_all("recover", |case, folder| {
        std::fs::create_dir_all(folder.join(case.partition_folder())).unwrap();
        let before = super::tree(folder);
        let refused = |options: &RecoverySettings| {
            let unchanged = || super::compare(&before, &super::tree(folder));
            let error = recover(folder, options).map(|report| report.partitions);
            let error = error.expect_err(&case.name).to_string();
            assert!(error.contains("salvage"), "{}: {error}", case.name);
            assert_eq!(unchanged(), [""; 0], "{}", case.name);
        };
        let mut options = verb_options(case);
        if case.fails_on_a_full_index() {
            let report = recover(folder, &options).unwrap();
            assert!(report.partitions.iter().all(|each| each.bytes_cut == 0));
            return Vec::new();
        }
        if case.event("failed").is_some() {
            refused(&options);
            options.on_loss = OnLoss::AsKafka;
            refused(&options);
            return Vec::new();
        }
        options.dry_run = true;
        let is_lossy = recover(folder, &options).is_err();
        let whole = whole_batches(&folder.join(case.partition_folder()), None);
        if is_lossy {
            options.dry_run = false;
            refused(&options);
            options.on_loss = OnLoss::AsKafka;
        }
        options.dry_run = true;
        let planned = recover(folder, &options).unwrap();
        assert_eq!(super::compare(&before, &super::tree(folder)), [""; 0]);
        let beside = tempfile::tempdir_in(folder.parent().unwrap()).unwrap();
        let out = beside.path().join("out");
        options.dry_run = false;
        options.out = Some(out.clone());
        let written = recover(folder, &options).unwrap();
        assert_eq!(super::compare(&before, &super::tree(folder)), [""; 0]);
        options.out = None;
        let done = recover(folder, &options).unwrap();
        let log_end = done
            .partitions
            .first()
            .map(|partition| partition.log_end_offset);
        let kept = whole_batches(&folder.join(case.partition_folder()), log_end);
        // What compaction has written stands for what it was written from, which has more batches.
        let is_swapped = before
            .keys()
            .any(|path| crate::common::has_extension(path, "swap"));
        let goes = whole.difference(&kept).next().is_some();
        // The last batch of this one goes back, and Kafka's log end with it.
        let goes_back = case.name == "replayed-to-the-end";
        let is_odd = is_swapped || goes_back;
        assert!(is_lossy == goes || is_odd, "{}: {is_lossy}", case.name);
        assert_eq!(planned.partitions, done.partitions, "{}", case.name);
        assert_eq!(written.partitions, done.partitions, "{}", case.name);
        let is_whole = done.partitions.iter().all(|each| each.bytes_cut == 0);
        let marker = is_whole.then(|| before.get(CLEAN_SHUTDOWN)).flatten();
        assert_eq!(
            super::tree(folder).get(CLEAN_SHUTDOWN),
            marker,
            "{}",
            case.name
        );
        let unlinked = case.config["run_deletes"].as_bool().unwrap_or(true);
        let mut differences = super::compare(&super::tree(folder), &super::tree(&out));
        // What is no file of a log stays behind.
        differences.retain(|line| !line.starts_with("orders-0/sub/"));
        if unlinked {
            differences.extend(case.compare_tree(folder));
            // The cases leave out what Kafka's shutdown writes of all partitions.
            let shutdown = CHECKPOINTS.iter().chain([&CLEAN_SHUTDOWN]);
            differences.retain(|line| !shutdown.clone().any(|name| line.starts_with(name)));
        }
        differences.extend(compare_checkpoints(case, folder));
        differences
    });
}
