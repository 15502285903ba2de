//! Every shape of record against the plain decoder, whole and with each byte damaged.

use super::*;
use crate::format::record::NewRecord;
use crate::records::plain;

/// Deltas whose varints take 1 to 4 bytes, negative ones among them.
const TIMES: [i64; 8] = [
    3, -60, 100, -8_000, 9_000, -1_000_000, 1_048_575, 90_000_000,
];
const OFFSETS: [i32; 6] = [0, 63, 64, 8_191, 8_192, 1_048_576];

fn header(count: usize) -> BatchHeader {
    let mut bytes = [0u8; 61];
    bytes[8..12].copy_from_slice(&49i32.to_be_bytes());
    bytes[16] = 2;
    bytes[27..35].copy_from_slice(&1_700_000_000_000i64.to_be_bytes());
    bytes[57..].copy_from_slice(&i32::try_from(count).unwrap().to_be_bytes());
    BatchHeader::parse(&bytes).unwrap().unwrap()
}

/// Timestamp delta, offset delta, key, value.
type Row<'a> = (i64, i32, Option<&'a [u8]>, &'a [u8]);

fn put(records: &[Row<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    for &(timestamp_delta, offset_delta, key, value) in records {
        let record = NewRecord {
            timestamp_delta,
            offset_delta,
            key,
            value: Some(value),
            headers: &[],
        };
        record.put(&mut out).unwrap();
    }
    out
}

/// The slots by the fast decoder; `None` where it finds a fault. Bytes lie after the records, as another batch does.
fn fast(records: &[u8], count: usize) -> Option<Vec<RecordSlot>> {
    let source = [records, &[0xa5; 100]].concat();
    let mut slots = vec![RecordSlot::default(); count];
    let mut walk = RecordDecoder::new(&header(count), 0, records.len());
    let done = walk.step(&source, &mut slots).ok()?;
    assert_eq!((done, walk.remaining()), (count, 0));
    Some(slots)
}

fn slow(records: &[u8], count: usize) -> Option<Vec<RecordSlot>> {
    let mut slots = Vec::new();
    plain::walk(records, 0, records.len(), &header(count), &mut slots).ok()?;
    Some(slots)
}

/// A slot's headers mean nothing where there are none.
fn same(a: Option<Vec<RecordSlot>>, b: Option<Vec<RecordSlot>>) -> bool {
    let meant = |slots: Vec<RecordSlot>| -> Vec<RecordSlot> {
        let mut slots = slots;
        for slot in &mut slots {
            if slot.headers_count == 0 {
                slot.headers_start = 0;
            }
            for (start, len) in [
                (&mut slot.key_start, slot.key_len),
                (&mut slot.value_start, slot.value_len),
            ] {
                if len < 0 {
                    *start = 0;
                }
            }
        }
        slots
    };
    a.map(meant) == b.map(meant)
}

#[test]
fn every_shape_as_the_plain_decoder() {
    let values: [&[u8]; 4] = [b"", b"0123456789", &[7; 100], &[8; 9_000]];
    for time in TIMES {
        for offset in OFFSETS {
            for key in [None, Some(&b"k"[..]), Some(&[9; 63]), Some(&[9; 64])] {
                for value in values {
                    // Alike but for one in the middle, which is longer, and one whose delta is of another width.
                    let longer = [value, b"!"].concat();
                    let mut records = vec![(time, offset, key, value); 9];
                    records[4].3 = &longer;
                    records[7].0 = time.wrapping_mul(200);
                    let bytes = put(&records);
                    let expected = slow(&bytes, 9).unwrap();
                    assert_eq!(expected[2].offset, i64::from(offset));
                    assert_eq!(expected[2].timestamp, 1_700_000_000_000 + time);
                    assert!(
                        same(fast(&bytes, 9), Some(expected)),
                        "{time} {offset} {key:?} {}",
                        value.len()
                    );
                }
            }
        }
    }
}

#[test]
fn every_byte_damaged_in_every_shape() {
    for time in TIMES {
        for offset in OFFSETS {
            for key in [None, Some(&b"key"[..])] {
                for value in [&b"0123456789"[..], &[7; 70]] {
                    let good = put(&[(time, offset, key, value); 4]);
                    for at in 0..good.len() {
                        for flip in [1, 2, 0x40, 0x80, 0xff] {
                            let mut bytes = good.clone();
                            bytes[at] ^= flip;
                            assert!(
                                same(fast(&bytes, 4), slow(&bytes, 4)),
                                "{time} {offset} {key:?}: byte {at} ^ {flip:#x}"
                            );
                        }
                    }
                }
            }
        }
    }
}
