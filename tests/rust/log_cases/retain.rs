//! Retention over a log that was loaded.

use std::path::Path;

use kafkalog::internal::load::{LoadRequest, OnLoss, Plan, plan};
use kafkalog::internal::log::config::LogConfig;
use kafkalog::internal::log::retention::{Rule, SegmentAge};
use serde_json::{Value, json};

use super::append::{compare_error, compare_fields};
use super::{Case, config, run_all};

fn segments(plan: &Plan) -> Value {
    let log = plan.outcome.as_ref().unwrap();
    let segments = log.segments.iter();
    segments
        .map(|segment| json!({"base": segment.base_offset, "size": segment.size}))
        .collect()
}

fn reason(age: &SegmentAge, rule: Rule) -> &'static str {
    match rule {
        Rule::Time if age.is_from_mtime => "time_mtime",
        rule => rule.name(),
    }
}

/// One round of a case, on top of those before it; says how it differs from Kafka's.
fn round(
    plan: &mut Plan,
    config: &LogConfig,
    high_watermark: &mut i64,
    told: &Value,
    kafka: &Value,
) -> Vec<String> {
    let log = plan.outcome.as_ref().unwrap();
    let (start, end) = (log.log_start_offset, log.log_end_offset);
    if let Some(offset) = told["high_watermark"].as_i64() {
        *high_watermark = offset.clamp(start, end);
    }
    let now_ms = told["now_ms"].as_i64().unwrap();
    let before = told["delete_records_before"].as_i64();
    let started = before.map_or(Ok(()), |to| plan.increment_log_start(to, *high_watermark));
    let mut differences = Vec::new();
    match compare_error(started, &kafka["error"]) {
        Err(difference) => differences.push(difference),
        Ok(None) => {}
        Ok(Some(())) => {
            let gone = plan.delete_old_segments(config, *high_watermark, now_ms);
            let gone = gone.unwrap();
            let named = gone
                .iter()
                .map(|(age, rule)| json!({"base": age.base_offset, "reason": reason(age, *rule)}));
            let ours = json!({
                "deleted": gone.len(),
                "deleted_segments": named.collect::<Vec<_>>(),
            });
            differences.extend(compare_fields("round", kafka, &ours));
            for (age, _) in &gone {
                let looked_at = kafka["segments_before"].as_array().into_iter().flatten();
                let ours = json!({
                    "base": age.base_offset,
                    "size": age.size,
                    "from_mtime": age.is_from_mtime,
                    "largest_timestamp": age.largest_timestamp,
                });
                if !looked_at.clone().any(|theirs| *theirs == ours) {
                    differences.push(format!("segment {ours} is not one of Kafka's"));
                }
            }
        }
    }
    let log = plan.outcome.as_ref().unwrap();
    let ours = json!({
        "log_start_offset": log.log_start_offset,
        "log_end_offset": log.log_end_offset,
        "segments_after": segments(plan),
    });
    differences.extend(compare_fields("round", kafka, &ours));
    differences
}

fn run(case: &Case, folder: &Path) -> Vec<String> {
    let config = config(case);
    let number = |name: &str| case.config[name].as_i64();
    let loaded = case.event("loaded").unwrap();
    let request = LoadRequest {
        clean: true,
        recovery_point: loaded["recovery_point"].as_i64().unwrap(),
        log_start_offset: loaded["log_start_offset"].as_i64().unwrap(),
        now_ms: case.now_ms(),
        producer_id_expiration_ms: number("producer.id.expiration.ms").unwrap_or(86_400_000),
    };
    let mut plan = plan(
        &folder.join(case.partition_folder()),
        &config,
        request,
        OnLoss::AsKafka,
    )
    .unwrap();
    let mut differences = compare_fields("loaded", loaded, &json!({"segments": segments(&plan)}));
    let mut high_watermark = loaded["high_watermark"].as_i64().unwrap();
    let rounds = case.config["rounds"].as_array().unwrap();
    let answers = case.result.iter().filter(|line| line["event"] == "round");
    for (told, kafka) in rounds.iter().zip(answers) {
        differences.extend(round(&mut plan, &config, &mut high_watermark, told, kafka));
    }
    plan.close().unwrap();
    if case.config["run_deletes"] != false || config.file_delete_delay_ms == 0 {
        plan.unlink_deleted();
    }
    plan.apply(&kafkalog::internal::io::disk::Disk::default())
        .unwrap();
    differences.extend(case.compare_tree(folder));
    differences
}

#[test]
fn retain_as_kafka() {
    run_all("retain", run);
}
