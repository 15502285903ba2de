//! Appends, rolls, flushes, truncations and reopenings of an open log.
//!
//! Compressed bytes depend on the compressor, so where a batch goes into the log as it came its bytes are taken out of
//! Kafka's state after. Where the log itself compresses, our bytes must hold the same records.

use std::path::Path;

use kafkalog::internal::error::{Error, ProducerRule, Refusal};
use kafkalog::internal::format::batch::BatchHeader;
use kafkalog::internal::load::LoadRequest;
use kafkalog::internal::log::config::BrokerCompression;
use kafkalog::internal::types::{AppendOrigin, Compression};
use kafkalog::internal::write::{AppendInfo, LeaderAppend, WritableLog, WriteOptions};
use serde_json::{Value, json};

use super::batches;
use super::{Case, Outcome, Tree, compare, config, run_all, tree};

pub fn options(case: &Case) -> WriteOptions {
    let mut options = WriteOptions::new(config(case));
    if let Some(ms) = case.config["producer.id.expiration.ms"].as_i64() {
        options.producer_id_expiration_ms = ms;
    }
    options
}

/// Kafka's class for an error of ours, without its package; several where it has several for the same thing.
fn classes(error: &Error) -> &'static [&'static str] {
    match error {
        // Of a stream that does not decompress Kafka names no class of its own.
        Error::CorruptRecord(_) => &["CorruptRecordException", "KafkaException"],
        // Messages of a magic or a codec that there is none of.
        Error::UnsupportedFormat(_) => &["InvalidRecordException", "IllegalArgumentException"],
        Error::InvalidRecord(_) => &["InvalidRecordException", "RecordValidationException"],
        Error::ProducerRefused(fault) => match fault.rule {
            ProducerRule::OutOfOrderSequence => &["OutOfOrderSequenceException"],
            ProducerRule::InvalidProducerEpoch => &["InvalidProducerEpochException"],
            ProducerRule::InvalidTxnState => &["InvalidTxnStateException"],
            ProducerRule::TransactionCoordinatorFenced => {
                &["TransactionCoordinatorFencedException"]
            }
        },
        Error::OffsetOutOfRange { .. } => &["OffsetOutOfRangeException"],
        Error::InvalidArgument(_) => &["IllegalArgumentException"],
        Error::Refused { refusal, .. } => match refusal {
            Refusal::RecordTooLarge => &["RecordTooLargeException"],
            Refusal::RecordBatchTooLarge => &["RecordBatchTooLargeException"],
            Refusal::InvalidTimestamp => &["RecordValidationException"],
            Refusal::OffsetsOutOfOrder => &["OffsetsOutOfOrderException"],
            Refusal::IndexFull => &["IllegalArgumentException"],
            Refusal::UnexpectedAppendOffset => &["UnexpectedAppendOffsetException"],
            Refusal::SegmentExists => &["KafkaException"],
            Refusal::SegmentOffsetOverflow => &[
                "LogSegmentOffsetOverflowException",
                "IndexOffsetOverflowException",
            ],
            _ => &["?"],
        },
        _ => &["?"],
    }
}

/// Compares an outcome with Kafka's `error`, or the lack of one.
pub fn compare_error<T>(outcome: Result<T, Error>, kafka: &Value) -> Result<Option<T>, String> {
    match (outcome, kafka["class"].as_str()) {
        (Ok(value), None) => Ok(Some(value)),
        (Ok(_), Some(class)) => Err(format!("Kafka {class}, here none")),
        (Err(error), None) => Err(format!("Kafka no error, here {error}")),
        (Err(error), Some(class)) => {
            let class = class.rsplit('.').next().unwrap();
            if classes(&error).contains(&class) {
                Ok(None)
            } else {
                Err(format!("Kafka {class}, here {error:?}"))
            }
        }
    }
}

/// The log's state in Kafka's words.
pub fn state(log: &WritableLog) -> Value {
    let segments: Vec<_> = log
        .segments()
        .iter()
        .map(|s| json!({"base": s.base_offset, "size": s.size}))
        .collect();
    let epochs: Vec<_> = log
        .epochs()
        .entries()
        .iter()
        .map(|e| json!([e.epoch, e.start_offset]))
        .collect();
    let mut entries: Vec<_> = log.producers().active_producers().collect();
    entries.sort_by_key(|entry| entry.producer_id());
    let producers: Vec<_> = entries
        .iter()
        .map(|entry| {
            let state = kafkalog::internal::format::entry::ProducerState::from(*entry);
            json!({
                "producer_id": state.producer_id,
                "epoch": state.producer_epoch,
                "last_sequence": state.last_sequence,
                "last_offset": state.last_offset,
                "offset_delta": state.offset_delta,
                "timestamp": state.timestamp,
                "coordinator_epoch": state.coordinator_epoch,
                "current_txn_first_offset": state.current_txn_first_offset,
            })
        })
        .collect();
    json!({
        "log_start_offset": log.log_start_offset(),
        "log_end_offset": log.log_end_offset(),
        "recovery_point": log.recovery_point(),
        "high_watermark": log.high_watermark(),
        "last_stable_offset": log.last_stable_offset(),
        "segments": segments,
        "leader_epochs": epochs,
        "producers": producers,
    })
}

/// Compares the fields that both have.
pub fn compare_fields(what: &str, kafka: &Value, ours: &Value) -> Vec<String> {
    let ours = ours.as_object().unwrap();
    let differing = ours.iter().filter(|(name, value)| &kafka[*name] != *value);
    differing
        .map(|(name, value)| format!("{what} {name}: Kafka {}, here {value}", kafka[name]))
        .collect()
}

/// A case as it runs.
struct Run<'a> {
    case: &'a Case,
    folder: &'a Path,
    log: Option<WritableLog>,
    now_ms: i64,
    /// Sizes of what the log compressed itself are not Kafka's.
    sizes_differ: bool,
    /// The output of Kafka's compressor for a batch is no longer in the state after.
    is_lost: bool,
    /// The present operation has a compressed batch that is not of Kafka's bytes.
    is_ours: bool,
}

impl Run<'_> {
    fn open(&self, start: i64) -> Result<WritableLog, Error> {
        let folder = self.folder.join(self.case.partition_folder());
        let options = options(self.case);
        let request = LoadRequest {
            clean: self.case.config["clean"].as_bool().unwrap_or(true),
            recovery_point: self.case.config["recovery_point"].as_i64().unwrap_or(0),
            log_start_offset: start,
            now_ms: self.now_ms,
            producer_id_expiration_ms: options.producer_id_expiration_ms,
        };
        let mut log = WritableLog::open(&folder, options, request)?;
        let end = log.log_end_offset();
        log.update_high_watermark(self.case.config["high_watermark"].as_i64().unwrap_or(end))?;
        Ok(log)
    }

    fn log(&mut self) -> &mut WritableLog {
        self.log.as_mut().unwrap()
    }

    /// The bytes that come, compressed ones as Kafka's compressor made them.
    fn records(&mut self, op: &Value, kafka: &Value) -> Result<Vec<u8>, Error> {
        let target = config(self.case).compression_type;
        let is_follower = op["as"] == "follower";
        let (mut all, mut n) = (Vec::new(), 0);
        for json in op["batches"].as_array().unwrap() {
            let codec = batches::compression(json);
            let written = &kafka["batches"][n];
            // Each message of an old format is a batch of its own.
            let is_old = json["magic"].as_i64().unwrap_or(2) < 2;
            n += if is_old && codec == Compression::None {
                json["records"].as_array().unwrap().len()
            } else {
                1
            };
            let keeps_codec = match target {
                BrokerCompression::Producer => true,
                BrokerCompression::Fixed(fixed) => fixed == codec,
            };
            // A leader makes batches of magic 2 out of old ones.
            let is_kept = is_follower || (keeps_codec && !is_old);
            if codec == Compression::None || written.is_null() || !is_kept {
                self.is_ours |= codec != Compression::None;
                all.extend(batches::batch(json, self.now_ms)?);
                continue;
            }
            let base = kafka["active_base"].as_i64().unwrap();
            match self.written(base, written) {
                Some(bytes) if is_follower => all.extend(bytes),
                Some(bytes) => {
                    all.extend(as_from_client(bytes, &batches::batch(json, self.now_ms)?));
                }
                None => {
                    self.is_lost = true;
                    all.extend(batches::batch(json, self.now_ms)?);
                }
            }
        }
        Ok(all)
    }

    /// The bytes of a batch in Kafka's state after; `None` where something cut them off later.
    fn written(&self, base: i64, batch: &Value) -> Option<Vec<u8>> {
        let name = format!("{}/{base:020}.log", self.case.partition_folder());
        let log = std::fs::read(self.case.folder.join("after").join(name)).ok()?;
        let at = usize::try_from(batch["position"].as_u64().unwrap()).unwrap();
        let size = usize::try_from(batch["size"].as_u64().unwrap()).unwrap();
        let bytes = log.get(at..at + size)?;
        let header = BatchHeader::parse(bytes).ok()??;
        let is_it = header.size == size && header.last_offset() == batch["last_offset"];
        is_it.then(|| bytes.to_vec())
    }

    fn append(&mut self, op: &Value, kafka: &Value) -> Vec<String> {
        let mut records = match self.records(op, kafka) {
            Ok(records) => records,
            Err(refused) => {
                let outcome = compare_error(Err::<(), _>(refused), &kafka["error"]);
                return outcome.err().into_iter().collect();
            }
        };
        // The oracle asks both indexes whether they are full, which makes them.
        let active = self.log().active_segment();
        let _ = active.offset_index().map(drop);
        let _ = active.time_index().map(drop);
        let now_ms = self.now_ms;
        let outcome = if op["as"] == "follower" {
            let epoch = op["leader_epoch"].as_i64().unwrap_or(i32::MAX.into());
            let epoch = i32::try_from(epoch).unwrap();
            self.log().append_as_follower(&records, epoch, now_ms)
        } else {
            let how = LeaderAppend {
                leader_epoch: i32::try_from(op["leader_epoch"].as_i64().unwrap_or(0)).unwrap(),
                origin: match op["origin"].as_str() {
                    Some("coordinator") => AppendOrigin::Coordinator,
                    _ => AppendOrigin::Client,
                },
                transaction_version: i16::try_from(op["transaction_version"].as_i64().unwrap_or(1))
                    .unwrap(),
            };
            self.log().append_as_leader(&mut records, &how, now_ms)
        };
        if outcome.is_ok() && self.case.config["auto_high_watermark"] != false {
            let end = self.log().log_end_offset();
            self.log().update_high_watermark(end).unwrap();
        }
        match compare_error(outcome, &kafka["error"]) {
            Err(difference) => vec![difference],
            Ok(None) => Vec::new(),
            Ok(Some(info)) => compare_fields("append", kafka, &self.answer(&info, kafka)),
        }
    }

    fn answer(&mut self, info: &AppendInfo, kafka: &Value) -> Value {
        let mut answer = json!({
            "rolled": info.rolled.is_some(),
            "first_offset": info.first_offset,
            "last_offset": info.last_offset,
            "max_timestamp": info.max_timestamp,
            "log_append_time": info.log_append_time,
            "duplicate": info.is_duplicate,
        });
        // Of an append that adds nothing, as it was in the log before, the cases give no reasons.
        if let Some(why) = info.rolled.filter(|_| !info.is_duplicate) {
            let reasons = [
                ("size", why.size),
                ("time", why.time),
                ("offset_index_full", why.offset_index_full),
                ("time_index_full", why.time_index_full),
                ("offset_overflow", why.offset_overflow),
            ];
            let reasons = reasons.iter().filter(|(_, is)| *is);
            answer["roll_reasons"] = reasons.map(|(name, _)| *name).collect();
        }
        if self.sizes_differ {
            return answer;
        }
        answer["appended_bytes"] = info.size.into();
        let active = self.log().active_segment();
        let log = std::fs::read(active.path()).unwrap();
        let log = &log[..active.size().try_into().unwrap()];
        let mut written = Vec::new();
        let mut at = info.position;
        while info.size > 0
            && let rest = &log[usize::try_from(at).unwrap()..]
            && let Some(header) = BatchHeader::in_file(rest, rest.len() as u64).unwrap()
        {
            written.push(json!({
                "base_offset": header.base_offset,
                "last_offset": header.last_offset(),
                "position": at,
                "size": header.size,
                "max_timestamp": header.max_timestamp,
                "magic": header.magic,
            }));
            at += header.size as u64;
            // Of a wrapper only decompression tells the first offset.
            if header.is_legacy() && header.compression().unwrap() != Compression::None {
                let n = written.len() - 1;
                written[n]["base_offset"] = kafka["batches"][n]["base_offset"].clone();
            }
        }
        answer["batches"] = written.into();
        answer
    }

    fn step(&mut self, op: &Value, kafka: &Value) -> Vec<String> {
        let now_ms = self.now_ms;
        let offset = op["offset"].as_i64();
        let answer = match op["op"].as_str().unwrap_or("append") {
            "append" => return self.append(op, kafka),
            "advance" => Ok(json!({})),
            "roll" => {
                let base = self.log().roll(offset, now_ms);
                base.map(|base| json!({"new_base": base}))
            }
            "flush" => {
                let force = op["force_active"].as_bool().unwrap_or(false);
                let flushed = self.log().flush(force, now_ms);
                flushed.map(|()| json!({"recovery_point": self.log().recovery_point()}))
            }
            "high_watermark" => {
                let became = self.log().update_high_watermark(offset.unwrap());
                became.map(|hw| json!({"high_watermark": hw}))
            }
            "log_start" => {
                let changed = self.log().increment_log_start(offset.unwrap());
                changed.map(|changed| json!({"changed": changed}))
            }
            "truncate" => {
                let changed = self.log().truncate_to(offset.unwrap(), now_ms);
                changed.map(|changed| json!({"changed": changed}))
            }
            "truncate_fully" => self
                .log()
                .truncate_fully_and_start_at(offset.unwrap(), None, now_ms)
                .map(|()| json!({})),
            "assign_epoch" => {
                let epoch = i32::try_from(op["epoch"].as_i64().unwrap()).unwrap();
                let assigned = self.log().assign_epoch(epoch, offset.unwrap());
                assigned.map(|()| json!({}))
            }
            "expire_producers" => {
                self.log().remove_expired_producers(now_ms);
                Ok(json!({}))
            }
            "snapshot" => self.log().take_producer_snapshot().map(|_| json!({})),
            "reopen" => {
                let start = self.log().log_start_offset();
                self.close().unwrap();
                self.log = Some(self.open(start).unwrap());
                Ok(json!({}))
            }
            other => panic!("operation {other}"),
        };
        match compare_error(answer, &kafka["error"]) {
            Err(difference) => vec![difference],
            Ok(answer) => compare_fields("", kafka, &answer.unwrap_or(json!({}))),
        }
    }

    /// Compares what every line says of the log.
    fn compare_log(&mut self, kafka: &Value) -> Vec<String> {
        let sizes_differ = self.sizes_differ;
        let log = self.log();
        let mut ours = json!({"leo": log.log_end_offset()});
        if !sizes_differ {
            ours["segments"] = log.segments().len().into();
            let active = log.active_segment();
            ours["active_base"] = active.base_offset().into();
            ours["active_size"] = active.size().into();
            if active.size() > 0 {
                let index = active.offset_index().unwrap();
                ours["index_entries"] = index.entries().into();
                ours["index_max_entries"] = index.max_entries().into();
                let index = active.time_index().unwrap();
                ours["time_index_entries"] = index.entries().into();
                ours["time_index_max_entries"] = index.max_entries().into();
            }
        }
        compare_fields("", kafka, &ours)
    }

    fn close(&mut self) -> Result<i64, Error> {
        let mut log = self.log.take().unwrap();
        if self.case.config["run_deletes"] != false {
            log.remove_deleted(i64::MAX)?;
        }
        log.close(self.now_ms)
    }

    fn run(&mut self) -> Outcome {
        let start = self.case.config["log_start_offset"].as_i64().unwrap_or(0);
        let failed = self
            .case
            .event("failed")
            .map_or(&Value::Null, |f| &f["error"]);
        match compare_error(self.open(start), failed) {
            Err(difference) => return vec![difference].into(),
            Ok(None) => return self.case.compare_tree(self.folder).into(),
            Ok(Some(log)) => self.log = Some(log),
        }
        let mut differences = Vec::new();
        for (n, (op, kafka)) in self.case.input.iter().zip(&self.case.result).enumerate() {
            self.now_ms += op["advance_ms"].as_i64().unwrap_or(0);
            self.is_ours = false;
            let mut found = self.step(op, kafka);
            let now_ms = self.now_ms;
            if !self.is_lost {
                self.log().remove_deleted(now_ms).unwrap();
                found.extend(self.compare_log(kafka));
            }
            let why = if self.is_lost {
                Some("a compressed batch, which Kafka's state after does not hold any more")
            } else if self.is_ours && !found.is_empty() && kafka["error"].is_null() {
                Some("a batch in our compression, whose size is not Kafka's")
            } else {
                None
            };
            if let Some(why) = why {
                let broken = Some((n as u64, why));
                return Outcome {
                    differences,
                    broken,
                };
            }
            // Where only its size is Kafka's.
            self.sizes_differ |= self.is_ours && kafka["appended_bytes"].as_u64() > Some(0);
            differences.extend(found.iter().map(|text| format!("operation {n}: {text}")));
        }
        let last = self.case.result.last().unwrap();
        if !self.sizes_differ {
            differences.extend(compare_fields("end", last, &{
                let mut state = state(self.log());
                if self.case.config["end"] != "crash" {
                    // Printed is the one after the close.
                    state.as_object_mut().unwrap().remove("recovery_point");
                }
                state
            }));
        }
        if self.case.config["end"] == "crash" {
            self.log.take().unwrap().crash();
        } else {
            let recovery_point = self.close().unwrap();
            let ours = json!({"recovery_point": recovery_point});
            differences.extend(compare_fields("end", last, &ours));
        }
        if self.sizes_differ {
            differences.extend(self.compare_records());
        } else {
            differences.extend(self.case.compare_tree(self.folder));
        }
        differences.into()
    }

    /// Compares logs if our compressor's sizes are not Kafka's: the same files, the same records, and the same bytes in
    /// all files that do not depend on sizes.
    fn compare_records(&self) -> Vec<String> {
        let kind = |name: &str| name.rsplit('.').next().map(str::to_owned);
        let is_log = |name: &str| kind(name).as_deref() == Some("log");
        let depends = |name: &str| is_log(name) || kind(name).as_deref() == Some("index");
        let (mut kafka, mut ours) = (self.case.expected_tree(), tree(self.folder));
        let names = |tree: &Tree| tree.keys().cloned().collect::<Vec<_>>();
        if names(&kafka) != names(&ours) {
            return vec![format!("files: Kafka {kafka:?}, here {ours:?}")];
        }
        let after = self.case.folder.join("after");
        let mut differences = Vec::new();
        for name in names(&ours).iter().filter(|name| is_log(name)) {
            let (kafka, ours) = (after.join(name), self.folder.join(name));
            let (kafka, ours) = (batches::records(&kafka), batches::records(&ours));
            if kafka != ours {
                differences.push(format!("{name}: Kafka {kafka:?}, here {ours:?}"));
            }
        }
        kafka.retain(|name, _| !depends(name));
        ours.retain(|name, _| !depends(name));
        differences.extend(compare(&kafka, &ours));
        differences
    }
}

/// A batch that is in the log, as the client sent it: `sent` has the same records in our compression.
fn as_from_client(mut batch: Vec<u8>, sent: &[u8]) -> Vec<u8> {
    // Base offset, leader epoch, timestamp type and largest timestamp are the leader's to write.
    batch[..8].fill(0);
    batch[12..16].copy_from_slice(&sent[12..16]);
    batch[22] = (batch[22] & !8) | (sent[22] & 8);
    batch[35..43].copy_from_slice(&sent[35..43]);
    crate::common::seal(&mut batch);
    batch
}

#[test]
fn append_as_kafka() {
    run_all("append", |case, folder| {
        Run {
            case,
            folder,
            log: None,
            now_ms: case.now_ms(),
            sizes_differ: matches!(
                config(case).compression_type,
                BrokerCompression::Fixed(codec) if codec != Compression::None
            ),
            is_lost: false,
            is_ours: false,
        }
        .run()
    });
}
