//! Kafka's own golden batches, and every way a batch of magic 2 can contradict itself.

use super::*;
use crate::format::control::{ControlType, EndTransactionMarker};
use crate::format::record::HeaderIter;

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits
        .chunks(2)
        .map(|d| u8::from_str_radix(std::str::from_utf8(d).unwrap(), 16).unwrap())
        .collect()
}

/// (offset, timestamp, key, value, headers)
type Row = (
    i64,
    i64,
    Option<Vec<u8>>,
    Option<Vec<u8>>,
    Vec<(Vec<u8>, Option<Vec<u8>>)>,
);

fn bytes(source: &[u8], start: u32, len: i32) -> Option<Vec<u8>> {
    let start = usize::try_from(start).unwrap();
    let len = usize::try_from(len).ok()?;
    Some(source[start..][..len].to_vec())
}

/// Decodes `data` as it would lie in a segment, after other bytes and into an arena that is in use.
fn rows(data: &[u8]) -> Result<Vec<Row>> {
    let source = [b"other bytes", data].concat();
    let header = BatchHeader::parse(data)?.unwrap();
    header.ensure_valid(data)?;
    let (mut arena, mut out) = (b"in use".to_vec(), Vec::new());
    let mut decompressor = Decompressor::new();
    let limit = DecodeLimit::default();
    let payload = batch(
        data,
        11,
        &header,
        &mut decompressor,
        &mut arena,
        limit,
        &mut out,
    )?;
    assert!(arena.starts_with(b"in use"));
    let from = match payload {
        Payload::Source => &source,
        Payload::Arena => &arena,
    };
    Ok(out
        .iter()
        .map(|s| {
            let start = usize::try_from(s.headers_start).unwrap();
            (
                s.offset,
                s.timestamp,
                bytes(from, s.key_start, s.key_len),
                bytes(from, s.value_start, s.value_len),
                HeaderIter::new(from, start, s.headers_count)
                    .map(|h| (h.key.to_vec(), h.value.map(<[u8]>::to_vec)))
                    .collect(),
            )
        })
        .collect())
}

fn row(offset: i64, timestamp: i64, key: &str, value: &str) -> Row {
    (
        offset,
        timestamp,
        Some(key.into()),
        Some(value.into()),
        Vec::new(),
    )
}

const V0: &str = "0000000000000000 00000018 75f0f41d 00 00 00000004 6b657931 00000006 76616c756531";
const V1: &str = "0000000000000000 00000020 0685b364 01 00 00000000000454c3 00000004 6b657931 00000006 76616c756531";
const V2: &str = "000000000000000000000055ffffffff02e58cf1ff00000000000100000000000454c300000000000454c3\
    ffffffffffffffffffffffffffff0000000220000000086b6579310c76616c756531002400e1bf2202086b6579320c76616c75653200";
const V0_LZ4: &str = "00000000000000010000005603fd7f3a0003ffffffff0000004804224d1860401a39000000\
    16000100511875f0f41d0f00e0046b6579310000000676616c75650a0000020011012400301bc3a60d00012400b0320000000676616c75653200000000";
const V1_LZ4: &str = "00000000000000010000006c53e1bee7010300000000000454c3ffffffff0000005604224d18604082470000001600010062200685b364\
    011000f0050454c3000000046b6579310000000676616c75650a0000020000230050200509300509000002002304d22c00b0320000000676616c75653200000000";
const V2_LZ4: &str = "000000000000000000000064ffffffff02a3ac2aa200030000000100000000000454c300000000000454c3\
    ffffffffffffffffffffffffffff0000000204224d186040822400008020000000086b6579310c76616c756531002400e1bf2202086b6579320c76616c7565320000000000";
const COMMIT: &str = "00000000000003d7000000420000001d02172b6dc800300000000000000000000003e800000000000003e8\
    0000000000000049000dffffffff000000012000000008000000010c00000000015b00";
const EMPTY: &str = "000000000000000500000031000000020203f354db000000000003ffffffffffffffff0000000000000007\
    000000000000001700050000000a00000000";

#[test]
fn golden_batches() {
    let (one, two) = (
        row(0, 283_843, "key1", "value1"),
        row(1, 1234, "key2", "value2"),
    );
    let untimed = |row: &Row| (row.0, -1, row.2.clone(), row.3.clone(), row.4.clone());
    for (text, crc, expected) in [
        (V0, 1_978_725_405, vec![untimed(&one)]),
        (V1, 109_425_508, vec![one.clone()]),
        (V2, 3_851_219_455, vec![one.clone(), two.clone()]),
        (V0_LZ4, 66_944_826, vec![untimed(&one), untimed(&two)]),
        (V1_LZ4, 1_407_303_399, vec![one.clone(), two.clone()]),
        (V2_LZ4, 2_745_969_314, vec![one.clone(), two.clone()]),
        (EMPTY, 66_278_619, vec![]),
    ] {
        let data = hex(text);
        assert_eq!(BatchHeader::parse(&data).unwrap().unwrap().crc, crc);
        assert_eq!(rows(&data).unwrap(), expected);
    }
}

#[test]
fn the_golden_marker() {
    let data = hex(COMMIT);
    let header = BatchHeader::parse(&data).unwrap().unwrap();
    assert!(header.is_control() && header.is_transactional());
    assert_eq!(
        (header.producer_id, header.producer_epoch, header.crc),
        (73, 13, 388_722_120)
    );
    let rows = rows(&data).unwrap();
    let [(983, 1000, Some(key), Some(value), _)] = rows.as_slice() else {
        panic!("{rows:?}")
    };
    assert_eq!(ControlType::parse(key).unwrap(), ControlType::Commit);
    assert_eq!(
        EndTransactionMarker::parse(value)
            .unwrap()
            .coordinator_epoch,
        347
    );
}

#[test]
fn the_golden_empty_batch() {
    let header = BatchHeader::parse(&hex(EMPTY)).unwrap().unwrap();
    assert_eq!(
        (
            header.base_offset,
            header.last_offset(),
            header.max_timestamp
        ),
        (5, 8, 7)
    );
    assert_eq!(
        (header.records_count, header.last_sequence()),
        (Some(0), 13)
    );
}

/// A batch of magic 2 of these records, checksummed.
fn build(attributes: u8, records: &[u8], count: i32) -> Vec<u8> {
    let mut data = 100i64.to_be_bytes().to_vec();
    data.extend(
        i32::try_from(records.len().saturating_add(49))
            .unwrap()
            .to_be_bytes(),
    );
    data.extend([0, 0, 0, 3, 2, 0, 0, 0, 0, 0, attributes, 0, 0, 0, 9]);
    data.extend(1000i64.to_be_bytes());
    data.extend(2000i64.to_be_bytes());
    data.extend([0xff; 14]);
    data.extend(count.to_be_bytes());
    data.extend(records);
    let crc = crc32c::crc32c(&data[21..]);
    data[17..21].copy_from_slice(&crc.to_be_bytes());
    data
}

const HEADERS: &str = "1a 00 09 04 01 00 04 02 68 01 02 6b 02 76";

#[test]
fn headers_nulls_and_who_set_the_time() {
    let headers = vec![(b"h".to_vec(), None), (b"k".to_vec(), Some(b"v".to_vec()))];
    let expected = |timestamp| vec![(102, timestamp, None, Some(Vec::new()), headers.clone())];
    assert_eq!(rows(&build(0, &hex(HEADERS), 1)).unwrap(), expected(995));
    // LogAppendTime: the batch's own. Delete horizon: deltas count from it.
    assert_eq!(
        rows(&build(0x08, &hex(HEADERS), 1)).unwrap(),
        expected(2000)
    );
    assert_eq!(rows(&build(0x40, &hex(HEADERS), 1)).unwrap(), expected(995));
}

fn fails(data: &[u8], kind: &str, text: &str) {
    let error = rows(data).unwrap_err();
    assert!(
        format!("{error:?}").starts_with(kind) && error.to_string().contains(text),
        "{error:?}: {error}"
    );
}

#[test]
fn counts_and_lengths_that_contradict() {
    let record = hex(HEADERS);
    let two = record.repeat(2);
    fails(
        &build(0, &two, 3),
        "InvalidRecord",
        "byte 89: records count: expected 3 records as the header says, found the end after 2",
    );
    fails(
        &build(0, &two, 1),
        "InvalidRecord",
        "byte 75: records count: expected the end after 1 records as the header says, found 14 bytes more",
    );
    fails(&build(0, &two, 0), "InvalidRecord", "found 28 bytes more");
    fails(&build(0, &[], 1), "InvalidRecord", "found the end after 0");
    fails(&build(0, &two, -1), "CorruptRecord", "records count");
    fails(
        &build(0, &two[..27], 2),
        "InvalidRecord",
        "byte 75: record length",
    );
    let mut long = two.clone();
    long[0] += 2;
    fails(
        &build(0, &long, 2),
        "InvalidRecord",
        "byte 61: record length: expected 13, as its fields take, found 14",
    );
    // A count that would take 16 GiB of slots ends at the bytes.
    fails(
        &build(0, &two, i32::MAX),
        "InvalidRecord",
        "found the end after 2",
    );
}

#[test]
fn unknown_magic_and_codec() {
    let mut data = build(0, &hex(HEADERS), 1);
    data[16] = 3;
    fails(
        &data,
        "UnsupportedFormat",
        "byte 16: magic: expected 0, 1 or 2, found 3",
    );
    fails(
        &build(5, &hex(HEADERS), 1),
        "UnsupportedFormat",
        "byte 22: compression codec: expected 0 to 4, found 5",
    );
}

#[test]
fn faults_inside_a_compressed_batch_name_the_batch() {
    let mut frame = hex("04224d18604082");
    frame.extend([14, 0, 0, 0x80]);
    let mut record = hex(HEADERS);
    record[6] = 1;
    frame.extend(record);
    frame.extend([0; 4]);
    fails(
        &build(3, &frame, 1),
        "InvalidRecord",
        "byte 0: header count: expected 0 to 7, the bytes left, found -1 (byte 6 of the decompressed records)",
    );
    frame[6] = 0x1a;
    fails(
        &build(3, &frame, 1),
        "CorruptRecord",
        "byte 67: lz4 header checksum",
    );
}
