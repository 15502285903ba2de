//! Cutting a log that was loaded.

use std::path::Path;

use kafkalog::internal::load::LoadRequest;
use kafkalog::internal::write::WritableLog;
use serde_json::{Value, json};

use super::append::{compare_error, compare_fields, options, state};
use super::{Case, run_all, tree};

fn run(case: &Case, folder: &Path) -> Vec<String> {
    let options = options(case);
    let now_ms = case.now_ms();
    let number = |name: &str| case.config[name].as_i64();
    let request = LoadRequest {
        clean: case.config["clean"].as_bool().unwrap_or(true),
        recovery_point: number("recovery_point").unwrap_or(0),
        log_start_offset: number("log_start_offset").unwrap_or(0),
        now_ms,
        producer_id_expiration_ms: options.producer_id_expiration_ms,
    };
    let partition = folder.join(case.partition_folder());
    let mut log = WritableLog::open(&partition, options, request).unwrap();
    let high_watermark = number("high_watermark").unwrap_or(log.log_end_offset());
    log.update_high_watermark(high_watermark).unwrap();
    let loaded = case.event("loaded").unwrap();
    let mut differences = compare_fields("loaded", loaded, &state(&log));

    let kafka = case.event("truncated").unwrap();
    let offset = number("offset").unwrap();
    let outcome = if case.config["fully"] == true {
        let done = log.truncate_fully_and_start_at(offset, None, now_ms);
        done.map(|()| json!({}))
    } else {
        let done = log.truncate_to(offset, now_ms);
        done.map(|result| json!({"result": result}))
    };
    match compare_error(outcome, &kafka["error"]) {
        Err(difference) => differences.push(difference),
        Ok(None) => {}
        Ok(Some(ours)) => differences.extend(compare_fields("truncated", kafka, &ours)),
    }
    differences.extend(compare_fields("truncated", kafka, &state(&log)));
    let files: Vec<Value> = tree(folder)
        .iter()
        .map(|(name, sum)| json!({"name": name, "size": sum.size}))
        .collect();
    let ours = json!({"files": files});
    differences.extend(compare_fields("truncated", kafka, &ours));

    if case.config["run_deletes"] != false {
        log.remove_deleted(i64::MAX).unwrap();
    }
    let ours = json!({"recovery_point": log.close(now_ms).unwrap()});
    differences.extend(compare_fields(
        "closed",
        case.event("closed").unwrap(),
        &ours,
    ));
    differences.extend(case.compare_tree(folder));
    differences
}

#[test]
fn truncate_as_kafka() {
    run_all("truncate", run);
}
