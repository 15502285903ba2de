//! Keys and payloads of internal topics, as the tool's decoders print them (`CoordinatorRecordMessageParser`,
//! `ClusterMetadataLogMessageParser`, `RemoteMetadataLogMessageParser`).
//!
//! They report a record that cannot be decoded and continue. The wording of the error is ours.

use std::collections::BTreeMap;

use crate::error::{Error, Result};
use crate::format::put::Put;
use crate::tables::decode::DecodeFault;
use crate::tables::topic::{Decoded, DecodedRecord, MessageDecoder, RecordPart, Show, Topic};
use crate::tables::value::{Fields, Value};
use crate::types::Offset;

/// `RemoteLogSegmentState`, by number.
const SEGMENT_STATES: [&str; 4] = [
    "COPY_SEGMENT_STARTED",
    "COPY_SEGMENT_FINISHED",
    "DELETE_SEGMENT_STARTED",
    "DELETE_SEGMENT_FINISHED",
];
/// `RemotePartitionDeleteState`, by number.
const PARTITION_STATES: [&str; 3] = [
    "DELETE_PARTITION_MARKED",
    "DELETE_PARTITION_STARTED",
    "DELETE_PARTITION_FINISHED",
];

/// Appends key and payload of a record of `topic`.
///
/// # Errors
/// `InvalidRecord` for no key where the topic's records have one.
pub(super) fn put_record(
    topic: Topic,
    (offset, key, value): (Offset, Option<&[u8]>, Option<&[u8]>),
    prefix: &str,
    to: &mut Vec<u8>,
) -> Result<()> {
    let mut decoder = MessageDecoder::new()?;
    let record = decoder.decode(topic, key, value);
    prefix.put(to);
    if topic.is_keyed() {
        return put_keyed(&record, offset, to);
    }
    "payload: ".put(to);
    match (topic, &record.value) {
        (Topic::ClusterMetadata, RecordPart::Message(message)) => {
            put_metadata(&record, message, to);
        }
        (Topic::RemoteLogMetadata, RecordPart::Message(message))
            if put_remote(&record, message.fields, to) => {}
        (Topic::ClusterMetadata, value) => put_error("Error at ", offset, fault_of(value), to),
        (_, value) => put_error("Error at offset ", offset, fault_of(value), to),
    }
    Ok(())
}

fn fault_of(part: &RecordPart<'_>) -> DecodeFault {
    let expected = match part {
        RecordPart::Raw(fault) => return *fault,
        RecordPart::Null => "a value",
        RecordPart::Message(_) => "a kind that the tool knows",
    };
    DecodeFault { expected, at: 0 }
}

fn put_error(title: &str, offset: Offset, fault: DecodeFault, to: &mut Vec<u8>) {
    title.put(to);
    offset.put(to);
    ", skipping. At byte ".put(to);
    fault.at.put(to);
    ": expected ".put(to);
    fault.expected.put(to);
}

fn put_keyed(record: &DecodedRecord<'_>, offset: Offset, to: &mut Vec<u8>) -> Result<()> {
    let Some(number) = record.key_version else {
        if matches!(record.key, RecordPart::Null) {
            let expected = "a key, which the decoder needs";
            return Err(Error::invalid("message key", 0, expected, "none"));
        }
        "key: ".put(to);
        put_error("Error at offset ", offset, fault_of(&record.key), to);
        return Ok(());
    };
    "key: ".put(to);
    match (record.kind, &record.key, &record.value) {
        (None, ..) => {
            "Unknown record type ".put(to);
            number.put(to);
            " at offset ".put(to);
            offset.put(to);
            ", skipping.".put(to);
        }
        (_, RecordPart::Message(key), value @ (RecordPart::Message(_) | RecordPart::Null)) => {
            "{\"type\":\"".put(to);
            number.put(to);
            "\",\"data\":".put(to);
            key.put_json(Show::ALL, to);
            "} payload: ".put(to);
            if let RecordPart::Message(value) = value {
                "{\"version\":\"".put(to);
                value.version().put(to);
                "\",\"data\":".put(to);
                value.put_json(Show::ALL, to);
                to.push(b'}');
            } else {
                "<DELETE>".put(to);
            }
        }
        (_, RecordPart::Message(_), part) | (_, part, _) => {
            put_error("Error at offset ", offset, fault_of(part), to);
        }
    }
    Ok(())
}

fn put_metadata(record: &DecodedRecord<'_>, message: &Decoded<'_>, to: &mut Vec<u8>) {
    "{\"type\":\"".put(to);
    record.name().unwrap_or_default().put(to);
    "\",\"version\":".put(to);
    message.version().put(to);
    ",\"data\":".put(to);
    message.put_json(Show::ALL, to);
    to.push(b'}');
}

/// As Java's `toString` of what Kafka makes of the message; false for a kind that the tool does not decode.
fn put_remote(record: &DecodedRecord<'_>, fields: Fields<'_>, to: &mut Vec<u8>) -> bool {
    let state = |name: &str, states: &[&'static str]| {
        let number = fields.get(name).narrow::<usize>();
        number.and_then(|number| states.get(number).copied())
    };
    let segment_state = state("remoteLogSegmentState", &SEGMENT_STATES);
    let partition_state = state("remotePartitionDeleteState", &PARTITION_STATES);
    match (record.name(), segment_state, partition_state) {
        (Some("REMOTE_LOG_SEGMENT_METADATA_RECORD"), Some(state), _) => {
            "RemoteLogSegmentMetadata{remoteLogSegmentId=".put(to);
            put_segment_id(fields.get("remoteLogSegmentId"), to);
            for name in [
                "startOffset",
                "endOffset",
                "brokerId",
                "maxTimestampMs",
                "eventTimestampMs",
            ] {
                put_number(name, fields, to);
            }
            ", segmentLeaderEpochs={".put(to);
            put_epochs(fields.get("segmentLeaderEpochs"), to);
            to.push(b'}');
            put_number("segmentSizeInBytes", fields, to);
            put_custom(fields.get("customMetadata"), to);
            ", state=".put(to);
            state.put(to);
            ", txnIdxEmpty=".put(to);
            fields
                .get("txnIndexEmpty")
                .bool()
                .unwrap_or_default()
                .put(to);
        }
        (Some("REMOTE_LOG_SEGMENT_METADATA_UPDATE_RECORD"), Some(state), _) => {
            "RemoteLogSegmentMetadataUpdate{remoteLogSegmentId=".put(to);
            put_segment_id(fields.get("remoteLogSegmentId"), to);
            put_custom(fields.get("customMetadata"), to);
            ", state=".put(to);
            state.put(to);
            put_number("eventTimestampMs", fields, to);
            put_number("brokerId", fields, to);
        }
        (Some("REMOTE_PARTITION_DELETE_METADATA_RECORD"), _, Some(state)) => {
            "RemotePartitionDeleteMetadata{topicPartition=".put(to);
            put_partition(fields.get("topicIdPartition"), to);
            ", state=".put(to);
            state.put(to);
            put_number("eventTimestampMs", fields, to);
            put_number("brokerId", fields, to);
        }
        _ => return false,
    }
    to.push(b'}');
    true
}

fn put_number(name: &str, fields: Fields<'_>, to: &mut Vec<u8>) {
    ", ".put(to);
    name.put(to);
    to.push(b'=');
    fields.get(name).int().unwrap_or_default().put(to);
}

fn put_segment_id(id: Value<'_>, to: &mut Vec<u8>) {
    let Some(id) = id.fields() else { return };
    "RemoteLogSegmentId{topicIdPartition=".put(to);
    put_partition(id.get("topicIdPartition"), to);
    ", id=".put(to);
    if let Some(id) = id.get("id").uuid() {
        id.put(to);
    }
    to.push(b'}');
}

/// `id:name-partition` (`TopicIdPartition`).
fn put_partition(partition: Value<'_>, to: &mut Vec<u8>) {
    let Some(partition) = partition.fields() else {
        return;
    };
    if let Some(id) = partition.get("id").uuid() {
        id.put(to);
    }
    to.push(b':');
    (&*partition.get("name").text().unwrap_or_default()).put(to);
    to.push(b'-');
    partition.get("partition").int().unwrap_or_default().put(to);
}

/// A `TreeMap`: by epoch, the last offset of each.
fn put_epochs(epochs: Value<'_>, to: &mut Vec<u8>) {
    let pair = |entry: Value<'_>| {
        let entry = entry.fields()?;
        Some((entry.get("leaderEpoch").int()?, entry.get("offset").int()?))
    };
    let sorted: BTreeMap<i64, i64> = epochs.items().filter_map(pair).collect();
    for (n, (epoch, offset)) in sorted.into_iter().enumerate() {
        if n > 0 {
            ", ".put(to);
        }
        epoch.put(to);
        to.push(b'=');
        offset.put(to);
    }
}

fn put_custom(custom: Value<'_>, to: &mut Vec<u8>) {
    ", customMetadata=".put(to);
    match custom.bytes() {
        None => "Optional.empty".put(to),
        Some(bytes) => {
            "Optional[CustomMetadata{".put(to);
            bytes.len().put(to);
            " bytes}]".put(to);
        }
    }
}
