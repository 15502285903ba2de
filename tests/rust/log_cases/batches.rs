//! The cases' JSON form of batches, as bytes; README.md beside the cases says what it means.

use std::path::Path;

use kafkalog::internal::compress::{Codec, Compressor, DecodeLimit, Decompressor};
use kafkalog::internal::error::Result;
use kafkalog::internal::format::batch::BatchHeader;
use kafkalog::internal::format::control::ControlType;
use kafkalog::internal::format::record::{Header, HeaderIter};
use kafkalog::internal::records::block::Payload;
use kafkalog::internal::records::builder::{
    BatchBuilder, BatchOptions, empty_batch, end_transaction,
};
use kafkalog::internal::records::plain;
use kafkalog::internal::types::{Compression, TimestampType};
use serde_json::Value;

use crate::common;

/// Keys, values and the like: null, text, or one of the shorthands.
pub fn bytes(json: &Value) -> Option<Vec<u8>> {
    if let Some(text) = json.as_str() {
        return Some(text.as_bytes().to_vec());
    }
    if json.is_null() {
        return None;
    }
    if let Some(hex) = json["hex"].as_str() {
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16);
        return Some(hex.as_bytes().chunks(2).map(|p| byte(p).unwrap()).collect());
    }
    if let Some(text) = json["b64"].as_str() {
        return Some(base64(text));
    }
    if let Some(text) = json["repeat"].as_str() {
        return Some(text.repeat(number(&json["times"])).into_bytes());
    }
    let mut x = json["rand"].as_i64().unwrap().cast_unsigned();
    let size = number(&json["size"]);
    let random = (0..size).map(|_| {
        x = x
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        x.to_be_bytes()[0]
    });
    Some(random.collect())
}

fn base64(text: &str) -> Vec<u8> {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut out, mut bits, mut held) = (Vec::new(), 0u32, 0);
    for byte in text.bytes().filter(|&b| b != b'=') {
        let digit = DIGITS.iter().position(|&d| d == byte).unwrap();
        bits = (bits << 6) | u32::try_from(digit).unwrap();
        held += 6;
        if held >= 8 {
            held -= 8;
            out.push((bits >> held).to_be_bytes()[3]);
        }
    }
    out
}

fn number(json: &Value) -> usize {
    usize::try_from(json.as_u64().unwrap()).unwrap()
}

/// A number's low bytes: as Java narrows one.
trait Narrowed {
    fn narrowed(number: i64) -> Self;
}

macro_rules! narrowed {
    ($($type:ty),*) => {
        $(impl Narrowed for $type {
            fn narrowed(number: i64) -> Self {
                let bytes = number.to_be_bytes();
                Self::from_be_bytes(*bytes.last_chunk().unwrap())
            }
        })*
    };
}

narrowed!(i64, i32, i16);

fn int<T: Narrowed>(json: &Value, default: i64) -> T {
    T::narrowed(json.as_i64().unwrap_or(default))
}

#[test]
fn numbers_wrap_as_javas_do() {
    let int_of = |number: i64| int::<i32>(&Value::from(number), 0);
    assert_eq!(
        [int_of(1 << 31), int_of((1 << 32) - 1), int_of(7)],
        [i32::MIN, -1, 7]
    );
    assert_eq!(int::<i16>(&Value::from(70_000), 0), 4464);
    assert_eq!(int::<i64>(&Value::Null, -1), -1);
}

pub fn compression(batch: &Value) -> Compression {
    match batch["codec"].as_str().unwrap_or("none") {
        "none" => Compression::None,
        "gzip" => Compression::Gzip,
        "snappy" => Compression::Snappy,
        "lz4" => Compression::Lz4,
        "zstd" => Compression::Zstd,
        other => panic!("codec {other}"),
    }
}

fn codec(batch: &Value) -> Codec {
    match batch["level"].as_i64() {
        Some(level) => {
            let level = i32::try_from(level).unwrap();
            Codec::with_level(compression(batch), level).unwrap()
        }
        None => Codec::new(compression(batch)),
    }
}

/// The bytes of one batch; an error where Kafka's builder makes none either.
pub fn batch(json: &Value, now_ms: i64) -> Result<Vec<u8>> {
    if json.get("raw").is_some() {
        return Ok(bytes(&json["raw"]).unwrap());
    }
    let magic = json["magic"].as_i64().unwrap_or(2);
    let has_base = json.get("base_offset").is_some();
    let log_append = json["timestamp_type"] == "LogAppendTime";
    let options = BatchOptions {
        base_offset: int(&json["base_offset"], 0),
        codec: codec(json),
        timestamp_type: if log_append {
            TimestampType::LogAppendTime
        } else {
            TimestampType::CreateTime
        },
        log_append_time: int(&json["log_append_time"], now_ms),
        partition_leader_epoch: int(
            &json["partition_leader_epoch"],
            if has_base { 0 } else { -1 },
        ),
        producer_id: int(&json["producer_id"], -1),
        producer_epoch: int(&json["producer_epoch"], -1),
        base_sequence: int(&json["base_sequence"], -1),
        is_transactional: json["transactional"].as_bool().unwrap_or(false),
        is_control: false,
        delete_horizon_ms: None,
    };
    let mut out = Vec::new();
    if let Some(control) = json["control"].as_str() {
        let kind = match control {
            "commit" => ControlType::Commit,
            _ => ControlType::Abort,
        };
        let (ts, epoch) = (int(&json["ts"], now_ms), int(&json["coordinator_epoch"], 0));
        end_transaction(options, ts, kind, epoch, &mut out)?;
        return Ok(out);
    }
    if let Some(empty) = json.get("empty") {
        let options = BatchOptions {
            is_control: empty["control"].as_bool().unwrap_or(false),
            codec: Codec::NONE,
            ..options
        };
        let last = int(&empty["last_offset"], options.base_offset);
        empty_batch(options, last, int(&json["ts"], -1), &mut out)?;
        return Ok(out);
    }
    if magic < 2 {
        return Ok(messages(json, magic, now_ms));
    }
    let mut builder = BatchBuilder::new(options)?;
    for record in json["records"].as_array().unwrap() {
        let offset = int(&record["offset"], builder.next_offset());
        let ts = int(&record["ts"], int(&json["base_ts"], now_ms));
        let headers: Vec<_> = record["headers"].as_array().into_iter().flatten().collect();
        let headers: Vec<_> = headers
            .iter()
            .map(|pair| (pair[0].as_str().unwrap().to_owned(), bytes(&pair[1])))
            .collect();
        let headers: Vec<_> = headers
            .iter()
            .map(|(key, value)| Header {
                key: key.as_bytes(),
                value: value.as_deref(),
            })
            .collect();
        let (key, value) = (bytes(&record["key"]), bytes(&record["value"]));
        builder.append(offset, ts, key.as_deref(), value.as_deref(), &headers)?;
    }
    if let Some(last) = json["last_offset"].as_i64() {
        builder.reach(last)?;
    }
    builder.finish(&mut Compressor::new(), &mut out)?;
    Ok(out)
}

/// Messages of magic 0 or 1. Compressed ones come out of the state after; those that Kafka refused, and which are nowhere
/// to be had, are as refusable plain.
fn messages(json: &Value, magic: i64, now_ms: i64) -> Vec<u8> {
    let mut all = Vec::new();
    let mut next: i64 = int(&json["base_offset"], 0);
    for record in json["records"].as_array().unwrap() {
        let offset: i64 = int(&record["offset"], next);
        next = offset + 1;
        let mut body = vec![u8::try_from(magic).unwrap()];
        let log_append = json["timestamp_type"] == "LogAppendTime";
        body.push(if log_append && magic == 1 { 8 } else { 0 });
        if magic == 1 {
            let ts: i64 = int(&record["ts"], int(&json["base_ts"], now_ms));
            let ts = if log_append {
                int(&json["log_append_time"], now_ms)
            } else {
                ts
            };
            body.extend(ts.to_be_bytes());
        }
        for field in [bytes(&record["key"]), bytes(&record["value"])] {
            match field {
                None => body.extend((-1i32).to_be_bytes()),
                Some(bytes) => {
                    body.extend(i32::try_from(bytes.len()).unwrap().to_be_bytes());
                    body.extend(bytes);
                }
            }
        }
        let mut message = offset.to_be_bytes().to_vec();
        message.extend(i32::try_from(body.len() + 4).unwrap().to_be_bytes());
        message.extend([0; 4]);
        message.extend(body);
        common::seal(&mut message);
        all.extend(message);
    }
    all
}

/// A record of a `.log`: its batch's header without sizes and checksum, offset, timestamp, key, value, headers.
pub type Row = (String, i64, i64, Option<Vec<u8>>, Option<Vec<u8>>, Vec<u8>);

/// Every record of a `.log`.
pub fn records(path: &Path) -> Vec<Row> {
    let data = std::fs::read(path).unwrap();
    let mut decompressor = Decompressor::default();
    let (mut rows, mut at) = (Vec::new(), 0);
    // A log that was not closed may end in the zeros it was given beforehand.
    let end = data
        .iter()
        .rposition(|&byte| byte != 0)
        .map_or(0, |n| n + 1);
    while at < end
        && let Some(header) = BatchHeader::parse(&data[at..]).unwrap()
    {
        let batch = &data[at..at + header.size];
        header.ensure_valid(batch).unwrap();
        let (mut arena, mut slots) = (Vec::new(), Vec::new());
        let limit = DecodeLimit::default();
        let payload = plain::batch(
            batch,
            0,
            &header,
            &mut decompressor,
            &mut arena,
            limit,
            &mut slots,
        );
        let source = match payload.unwrap() {
            Payload::Source => batch,
            Payload::Arena => &arena,
        };
        at += header.size;
        let shown = BatchHeader {
            size: 0,
            crc: 0,
            ..header
        };
        for slot in slots {
            let bytes = |start: u32, len: i32| {
                let start = usize::try_from(start).unwrap();
                let len = usize::try_from(len).ok()?;
                Some(source[start..start + len].to_vec())
            };
            let headers = HeaderIter::new(
                source,
                usize::try_from(slot.headers_start).unwrap(),
                slot.headers_count,
            );
            rows.push((
                format!("{shown:?}"),
                slot.offset,
                slot.timestamp,
                bytes(slot.key_start, slot.key_len),
                bytes(slot.value_start, slot.value_len),
                format!("{:?}", headers.collect::<Vec<_>>()).into_bytes(),
            ));
        }
    }
    rows
}
