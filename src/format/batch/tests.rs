//! Against the bytes of `DefaultRecordBatchTest` and the format's own layout.

use super::*;

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits
        .chunks(2)
        .map(|d| u8::from_str_radix(std::str::from_utf8(d).unwrap(), 16).unwrap())
        .collect()
}

/// (ts 283843, key1 -> value1), (ts 1234, key2 -> value2): Kafka's own checksum test.
const V2: &str = "000000000000000000000055ffffffff02e58cf1ff00000000000100000000000454c300000000000454c3\
    ffffffffffffffffffffffffffff0000000220000000086b6579310c76616c756531002400e1bf2202086b6579320c76616c75653200";
const V1: &str = "0000000000000000 00000020 0685b364 01 00 00000000000454c3 00000004 6b657931 00000006 76616c756531";
const V0: &str = "0000000000000000 00000018 75f0f41d 00 00 00000004 6b657931 00000006 76616c756531";

#[test]
fn golden_checksums() {
    for (text, magic, crc) in [
        (V2, 2, 3_851_219_455),
        (V1, 1, 109_425_508),
        (V0, 0, 1_978_725_405),
    ] {
        let data = hex(text);
        let header = BatchHeader::parse(&data).unwrap().unwrap();
        assert_eq!(
            (header.magic, header.crc, header.size),
            (magic, crc, data.len())
        );
        header.ensure_valid(&data).unwrap();
        for bit in 0..data.len() * 8 {
            let mut flipped = data.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let covered = bit / 8 >= if magic == 2 { ATTRIBUTES_AT } else { MAGIC_AT }
                || (bit / 8 >= 17 && magic == 2);
            if covered {
                let noticed = match BatchHeader::parse(&flipped) {
                    Ok(Some(h)) => h.ensure_valid(&flipped).is_err(),
                    other => other.is_err(),
                };
                assert!(noticed, "bit {bit} of magic {magic}");
            }
        }
    }
}

#[test]
fn every_field_has_its_own_bytes() {
    let mut data: Vec<u8> = (1u8..=61).collect();
    data[8..12].copy_from_slice(&1000i32.to_be_bytes());
    data[16] = 2;
    let h = BatchHeader::parse(&data).unwrap().unwrap();
    assert_eq!(h.base_offset, 0x0102_0304_0506_0708);
    assert_eq!(h.size, 1012);
    assert_eq!(h.partition_leader_epoch, 0x0d0e_0f10);
    assert_eq!(h.crc, 0x1213_1415);
    assert_eq!(h.attributes, Attributes(0x17));
    assert_eq!(h.last_offset_delta, 0x1819_1a1b);
    assert_eq!(h.base_timestamp, 0x1c1d_1e1f_2021_2223);
    assert_eq!(h.max_timestamp, 0x2425_2627_2829_2a2b);
    assert_eq!(h.producer_id, 0x2c2d_2e2f_3031_3233);
    assert_eq!(h.producer_epoch, 0x3435);
    assert_eq!(h.base_sequence, 0x3637_3839);
    assert_eq!(h.records_count, Some(0x3a3b_3c3d));
}

#[test]
fn sequences_wrap_to_zero() {
    let mut h = BatchHeader::parse(&hex(V2)).unwrap().unwrap();
    h.base_sequence = i32::MAX - 5;
    assert_eq!(h.sequence_at(10), 4);
    h.base_sequence = i32::MAX;
    assert_eq!((h.sequence_at(0), h.sequence_at(1)), (i32::MAX, 0));
    h.base_sequence = NO_SEQUENCE;
    assert_eq!(h.sequence_at(3), NO_SEQUENCE);
}

#[test]
fn lengths_that_cannot_be() {
    for length in [0i32, 13, -1, i32::MIN, 48] {
        let mut data = hex(V2);
        data[8..12].copy_from_slice(&length.to_be_bytes());
        let error = BatchHeader::parse(&data).unwrap_err();
        assert!(error.to_string().contains("batch length"), "{error}");
    }
    assert_eq!(BatchHeader::parse(&hex(V2)[..60]).unwrap(), None);
    assert_eq!(BatchHeader::parse(&hex(V2)[..11]).unwrap(), None);
}

#[test]
fn codecs() {
    let mut h = BatchHeader::parse(&hex(V2)).unwrap().unwrap();
    h.attributes = Attributes(4);
    assert_eq!(h.compression().unwrap(), Compression::Zstd);
    h.magic = 1;
    assert!(matches!(h.compression(), Err(Error::UnsupportedFormat(_))));
    h.attributes = Attributes(5);
    assert!(matches!(h.compression(), Err(Error::UnsupportedFormat(_))));
}
