//! Seeds, chances, and batches built by hand.

use std::path::{Path, PathBuf};

/// The slow profile: more of everything random.
pub fn is_slow() -> bool {
    std::env::var_os("KAFKALOG_SLOW").is_some_and(|value| value != "0")
}

/// The value for the tier that runs, as in `tests/tiers.py`.
pub fn pick<T>(short: T, full: T, slow: T) -> T {
    match std::env::var_os("KAFKALOG_FULL") {
        _ if is_slow() => slow,
        Some(value) if value != "0" => full,
        _ => short,
    }
}

/// First seed of random cases.
pub fn first_seed() -> u64 {
    std::env::var("KAFKALOG_SEED").map_or(1, |text| text.parse().unwrap())
}

/// The repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_path_buf()
}

/// Files below `folder` whose name ends so, sorted.
pub fn files(folder: &Path, suffix: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.to_string_lossy().ends_with(suffix) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// Chance that can be repeated (splitmix64).
#[derive(Clone)]
pub struct Chance(pub u64);

impl Chance {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below `end`, which is not 0.
    pub fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(end).unwrap()).unwrap()
    }

    pub fn byte(&mut self) -> u8 {
        self.next().to_be_bytes()[0]
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }
}

/// A zig-zag varint, by the definition.
pub fn put_varint(out: &mut Vec<u8>, value: i64) {
    let mut rest = (value.cast_unsigned() << 1) ^ (value >> 63).cast_unsigned();
    while rest > 0x7f {
        out.push(u8::try_from(rest & 0x7f).unwrap() | 0x80);
        rest >>= 7;
    }
    out.push(u8::try_from(rest).unwrap());
}

/// Fields of a header of magic 2 that matter to decoding.
#[derive(Clone, Copy, Debug)]
pub struct Head {
    pub base_offset: i64,
    pub attributes: u8,
    pub last_offset_delta: i32,
    pub base_timestamp: i64,
    pub max_timestamp: i64,
    pub count: i32,
}

/// A batch of magic 2, checksummed.
pub fn batch(head: Head, records: &[u8]) -> Vec<u8> {
    let mut data = head.base_offset.to_be_bytes().to_vec();
    data.extend(i32::try_from(records.len() + 49).unwrap().to_be_bytes());
    data.extend([0, 0, 0, 0, 2, 0, 0, 0, 0, 0, head.attributes]);
    data.extend(head.last_offset_delta.to_be_bytes());
    data.extend(head.base_timestamp.to_be_bytes());
    data.extend(head.max_timestamp.to_be_bytes());
    data.extend([0xff; 14]);
    data.extend(head.count.to_be_bytes());
    data.extend(records);
    seal(&mut data);
    data
}

/// A batch of one record, without key and value.
pub fn one_record(base_offset: i64, attributes: u8, timestamp_ms: i64) -> Vec<u8> {
    let head = Head {
        base_offset,
        attributes,
        last_offset_delta: 0,
        base_timestamp: timestamp_ms,
        max_timestamp: timestamp_ms,
        count: 1,
    };
    batch(head, &[12, 0, 0, 0, 1, 1, 0])
}

/// Makes a batch producer 7's, in its epoch 0.
pub fn give_to_producer(batch: &mut [u8], sequence: i32) {
    batch[43..51].copy_from_slice(&7i64.to_be_bytes());
    batch[51..53].fill(0);
    batch[53..57].copy_from_slice(&sequence.to_be_bytes());
    seal(batch);
}

/// Writes the checksum that a batch's bytes have.
pub fn seal(batch: &mut [u8]) {
    match batch.get(16) {
        Some(0 | 1) => {
            let crc = crc32fast::hash(&batch[16..]).to_be_bytes();
            batch[12..16].copy_from_slice(&crc);
        }
        Some(_) if batch.len() > 21 => {
            let crc = crc32c::crc32c(&batch[21..]).to_be_bytes();
            batch[17..21].copy_from_slice(&crc);
        }
        _ => {}
    }
}

/// Returns whether a file's name ends in this extension.
pub fn has_extension(name: &str, extension: &str) -> bool {
    Path::new(name)
        .extension()
        .is_some_and(|own| own == extension)
}
