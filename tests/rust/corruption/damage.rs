//! Damage of every kind, and what `on_corrupt = skip` makes of it: every batch that is whole and in its place is read, no
//! other one is, and the bytes read and the bytes lost are the bytes of the file.

use std::collections::BTreeMap;

use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{Array, RecordBatch, cast::AsArray};
use kafkalog::internal::arrow::batches::BatchReader;
use kafkalog::internal::arrow::columns::ColumnOptions;
use kafkalog::internal::arrow::parallel::ParallelReader;
use kafkalog::internal::arrow::reader::RecordReader;
use kafkalog::internal::arrow::schema::{Column, Layout};
use kafkalog::internal::compress::Decompressor;
use kafkalog::internal::format::batch::BatchHeader;
use kafkalog::internal::records::plain;
use kafkalog::internal::scan::lost::LostRange;
use kafkalog::internal::scan::range::PartitionRange;
use kafkalog::internal::segment::reader::ReadOptions;
use kafkalog::internal::segment::resync::Reason;
use kafkalog::internal::segment::skipping::OnCorrupt;

use super::{Bench, Seed, first_seed, options, seeds, spans};
use crate::checks;
use crate::common::{Chance, is_slow};

/// A part of a damaged file.
#[derive(Clone, Debug, PartialEq)]
enum Part {
    /// The batch of this number, untouched.
    Whole(usize),
    /// Anything else.
    Other(Vec<u8>),
}

/// A damaged file.
struct Damaged {
    parts: Vec<Part>,
    /// Batches that may be given or not, as nothing tells which of them is in its place; so many of them are lost.
    unclear: (Vec<usize>, usize),
    /// What the first lost range may be called; empty for anything.
    reasons: Vec<Reason>,
}

/// A segment and the bytes of its batches.
struct Bytes<'a> {
    seed: &'a Seed,
    spans: Vec<(i64, i64, i32)>,
}

impl Bytes<'_> {
    fn batch(&self, number: usize) -> Vec<u8> {
        let (at, header) = &self.seed.batches[number];
        self.seed.data[*at..at + header.size].to_vec()
    }

    fn len(&self) -> usize {
        self.seed.batches.len()
    }

    fn originals(&self) -> BTreeMap<Vec<u8>, usize> {
        (0..self.len()).map(|n| (self.batch(n), n)).collect()
    }

    fn whole(&self) -> Vec<Part> {
        (0..self.len()).map(Part::Whole).collect()
    }

    fn is_legacy(&self, number: usize) -> bool {
        self.seed.batches[number].1.is_legacy()
    }

    /// Another batch in the place of one.
    fn with(&self, number: usize, bytes: Vec<u8>, reasons: &[Reason]) -> Damaged {
        let mut parts = self.whole();
        parts[number] = Part::Other(bytes);
        Damaged::of(parts, reasons)
    }

    /// One whose length field says something else.
    fn with_length(&self, number: usize, length: i32) -> Damaged {
        let mut bytes = self.batch(number);
        bytes[8..12].copy_from_slice(&length.to_be_bytes());
        self.with(
            number,
            bytes,
            &[Reason::Length, Reason::Torn, Reason::Crc, Reason::Foreign],
        )
    }

    /// Whether every offset has its batch: what leaves the order is then found.
    fn is_dense(&self) -> bool {
        self.seed.is_dense && self.spans[0].0 == self.seed.base_offset
    }

    /// One whose offset field says something else.
    fn with_offset(&self, number: usize, offset: i64) -> Damaged {
        let mut bytes = self.batch(number);
        bytes[..8].copy_from_slice(&offset.to_be_bytes());
        let mut damaged = self.with(number, bytes, &[]);
        if !self.is_dense() {
            // Where offsets are missing anyway, the wrong one may be as good as right, or a neighbour looks wrong.
            damaged.unclear = (
                (number.saturating_sub(1)..self.len().min(number + 2)).collect(),
                usize::MAX,
            );
        }
        damaged
    }
}

impl Damaged {
    fn of(parts: Vec<Part>, reasons: &[Reason]) -> Self {
        Self {
            parts,
            unclear: (Vec::new(), 0),
            reasons: reasons.to_vec(),
        }
    }
}

fn noise(chance: &mut Chance, len: usize) -> Vec<u8> {
    (0..len).map(|_| chance.byte()).collect()
}

type Kind = fn(&Bytes<'_>, &mut Chance, usize) -> Damaged;

/// What may happen to batch `n`.
const KINDS: &[(&str, Kind)] = &[
    ("bit of the body", |b, chance, n| {
        let mut bytes = b.batch(n);
        let from = if b.is_legacy(n) { 18 } else { 27 };
        let at = from + chance.below(bytes.len() - from);
        bytes[at] ^= 1 << chance.below(8);
        b.with(n, bytes, &[Reason::Crc])
    }),
    ("bit of the checksum", |b, chance, n| {
        let mut bytes = b.batch(n);
        let at = if b.is_legacy(n) { 12 } else { 17 };
        bytes[at + chance.below(4)] ^= 1 << chance.below(8);
        b.with(n, bytes, &[Reason::Crc])
    }),
    (
        "bit of the last offset delta or the attributes",
        |b, chance, n| {
            let mut bytes = b.batch(n);
            let (from, len) = if b.is_legacy(n) { (17, 1) } else { (21, 6) };
            bytes[from + chance.below(len)] ^= 1 << chance.below(8);
            b.with(n, bytes, &[Reason::Crc, Reason::Foreign])
        },
    ),
    ("zeros in the body", |b, chance, n| {
        let mut bytes = b.batch(n);
        let at = 20 + chance.below(bytes.len() - 24);
        let end = (at + 1 + chance.below(100)).min(bytes.len());
        let before = bytes.clone();
        bytes[at..end].fill(0);
        if bytes == before {
            bytes[at] ^= 1;
        }
        b.with(n, bytes, &[Reason::Crc])
    }),
    ("noise in the body", |b, chance, n| {
        let mut bytes = b.batch(n);
        let at = 20 + chance.below(bytes.len() - 24);
        let end = (at + 1 + chance.below(100)).min(bytes.len());
        let mut other = noise(chance, end - at);
        other[0] = bytes[at] ^ 0x55;
        bytes[at..end].copy_from_slice(&other);
        b.with(n, bytes, &[Reason::Crc])
    }),
    ("zeros for a batch", |b, _, n| {
        b.with(n, vec![0; b.batch(n).len()], &[Reason::Torn])
    }),
    ("noise for a batch", |b, chance, n| {
        let bytes = noise(chance, b.batch(n).len());
        b.with(n, bytes, &[])
    }),
    ("text for a batch", |b, _, n| {
        let text = b"[2026-11-24 07:00:00,000] INFO [Log partition=t-0] Rolled".iter();
        let bytes = text.copied().cycle().take(b.batch(n).len()).collect();
        b.with(n, bytes, &[Reason::Foreign])
    }),
    ("length 0", |b, _, n| b.with_length(n, 0)),
    ("length -1", |b, _, n| b.with_length(n, -1)),
    ("length 2147483647", |b, _, n| b.with_length(n, i32::MAX)),
    ("length one more", |b, _, n| {
        b.with_length(n, i32::try_from(b.batch(n).len()).unwrap() - 11)
    }),
    ("length one less", |b, _, n| {
        b.with_length(n, i32::try_from(b.batch(n).len()).unwrap() - 13)
    }),
    ("bit of the length", |b, chance, n| {
        let length = i32::try_from(b.batch(n).len()).unwrap() - 12;
        b.with_length(n, length ^ (1 << chance.below(31)))
    }),
    ("length over the next batch", |b, _, n| {
        let n = n.min(b.len() - 2);
        let both = b.batch(n).len() + b.batch(n + 1).len();
        b.with_length(n, i32::try_from(both).unwrap() - 12)
    }),
    ("length to the end", |b, _, n| {
        let n = n.min(b.len() - 2);
        let left = b.seed.data.len() - b.seed.batches[n].0;
        b.with_length(n, i32::try_from(left).unwrap() - 12)
    }),
    ("magic 3", |b, _, n| {
        let mut bytes = b.batch(n);
        bytes[16] = 3;
        b.with(n, bytes, &[Reason::Magic])
    }),
    ("magic -1", |b, _, n| {
        let mut bytes = b.batch(n);
        bytes[16] = 0xff;
        b.with(n, bytes, &[Reason::Magic])
    }),
    ("another magic", |b, chance, n| {
        let mut bytes = b.batch(n);
        bytes[16] = (bytes[16] + 1 + u8::from(chance.below(2) == 0)) % 3;
        b.with(n, bytes, &[Reason::Magic, Reason::Crc, Reason::Foreign])
    }),
    ("a bit of the base offset", |b, chance, n| {
        let offset = b.seed.batches[n].1.base_offset;
        b.with_offset(n, offset ^ (1 << chance.below(40)))
    }),
    ("base offset too high", |b, chance, n| {
        let last = b.spans[b.len() - 1].1;
        b.with_offset(n, last + 1 + i64::try_from(chance.below(1000)).unwrap())
    }),
    ("base offset below the segment's", |b, _, n| {
        let mut damaged = b.with_offset(n, b.seed.base_offset - 1);
        damaged.unclear = (Vec::new(), 0);
        damaged
    }),
    ("negative base offset", |b, _, n| {
        let mut damaged = b.with_offset(n, i64::MIN + 7);
        damaged.unclear = (Vec::new(), 0);
        damaged
    }),
    ("leader epoch too high", |b, _, n| {
        let mut bytes = b.batch(n);
        if b.is_legacy(n) {
            return Damaged::of(b.whole(), &[]);
        }
        // Of the last one, and before others without epochs, nothing tells.
        let rest = &b.spans[n + 1..];
        if rest.iter().all(|&(.., epoch)| epoch < 0) {
            return Damaged::of(b.whole(), &[]);
        }
        bytes[12..16].copy_from_slice(&0x7fff_ffffi32.to_be_bytes());
        b.with(n, bytes, &[Reason::Order])
    }),
    ("leader epoch below -1", |b, _, n| {
        let mut bytes = b.batch(n);
        if b.is_legacy(n) {
            return Damaged::of(b.whole(), &[]);
        }
        bytes[12..16].copy_from_slice(&(-2i32).to_be_bytes());
        b.with(n, bytes, &[Reason::Order])
    }),
    ("a batch twice", |b, _, n| {
        let mut parts = b.whole();
        parts.insert(n + 1, Part::Other(b.batch(n)));
        Damaged::of(parts, &[Reason::Order])
    }),
    ("a batch again later", |b, chance, n| {
        let mut parts = b.whole();
        let to = n + 1 + chance.below(b.len() - n);
        parts.insert(to, Part::Other(b.batch(n)));
        Damaged::of(parts, &[Reason::Order])
    }),
    ("two batches the other way round", |b, _, n| {
        let n = n.min(b.len() - 2);
        let mut parts = b.whole();
        parts.swap(n, n + 1);
        let mut damaged = Damaged::of(parts, &[Reason::Order]);
        damaged.unclear = (vec![n, n + 1], 1);
        damaged
    }),
    ("a batch gone", |b, _, n| {
        let mut parts = b.whole();
        parts.remove(n);
        Damaged::of(parts, &[])
    }),
    ("bytes gone from a batch", |b, chance, n| {
        let mut bytes = b.batch(n);
        let at = chance.below(bytes.len() - 1);
        let end = at + 1 + chance.below(bytes.len() - at - 1);
        bytes.drain(at..end);
        b.with(n, bytes, &[])
    }),
    ("bytes gone across batches", |b, chance, n| {
        let n = n.min(b.len() - 2);
        let mut parts = b.whole();
        let (mut left, mut right) = (b.batch(n), b.batch(n + 1));
        left.truncate(1 + chance.below(left.len() - 1));
        right.drain(..=chance.below(right.len() - 1));
        parts[n] = Part::Other(left);
        parts[n + 1] = Part::Other(right);
        Damaged::of(
            parts,
            &[Reason::Torn, Reason::Length, Reason::Foreign, Reason::Crc],
        )
    }),
    ("noise between batches", |b, chance, n| {
        let mut parts = b.whole();
        let len = 1 + chance.below(300);
        let mut bytes = noise(chance, len);
        bytes[0] |= 0x80;
        parts.insert(n, Part::Other(bytes));
        Damaged::of(parts, &[Reason::Foreign])
    }),
    ("zeros between batches", |b, chance, n| {
        let mut parts = b.whole();
        parts.insert(n, Part::Other(vec![0; 1 + chance.below(9000)]));
        Damaged::of(parts, &[])
    }),
    ("noise inside a batch", |b, chance, n| {
        let bytes = b.batch(n);
        let at = 1 + chance.below(bytes.len() - 1);
        let len = 1 + chance.below(300);
        let bytes = [&bytes[..at], &noise(chance, len), &bytes[at..]].concat();
        b.with(n, bytes, &[])
    }),
    ("a header without its batch", |b, _, n| {
        let mut parts = b.whole();
        let bytes = b.batch(n);
        parts.insert(n, Part::Other(bytes[..bytes.len().min(61) - 1].to_vec()));
        Damaged::of(
            parts,
            &[Reason::Torn, Reason::Foreign, Reason::Crc, Reason::Length],
        )
    }),
    ("the end gone", |b, chance, n| {
        let mut parts = b.whole();
        let mut bytes = b.batch(n);
        bytes.truncate(1 + chance.below(bytes.len() - 1));
        parts.truncate(n);
        parts.push(Part::Other(bytes));
        Damaged::of(parts, &[Reason::Torn])
    }),
    ("zeros at the end", |b, chance, _| {
        let mut parts = b.whole();
        parts.push(Part::Other(vec![0; 1 + chance.below(9000)]));
        Damaged::of(parts, &[Reason::Torn])
    }),
    ("noise at the end", |b, chance, _| {
        let mut parts = b.whole();
        let len = 1 + chance.below(3000);
        parts.push(Part::Other(noise(chance, len)));
        Damaged::of(parts, &[])
    }),
    ("the beginning gone", |b, chance, _| {
        let mut bytes = b.batch(0);
        bytes.drain(..=chance.below(bytes.len() - 1));
        b.with(0, bytes, &[])
    }),
    ("three batches at once", |b, chance, n| {
        let mut parts = b.whole();
        for _ in 0..3 {
            let hit = chance.below(b.len());
            let mut bytes = b.batch(hit);
            let at = 20 + chance.below(bytes.len() - 20);
            bytes[at] ^= 1 << chance.below(8);
            parts[hit] = Part::Other(bytes);
        }
        let mut bytes = b.batch(n);
        bytes[8] ^= 0x40;
        parts[n] = Part::Other(bytes);
        Damaged::of(parts, &[])
    }),
    (
        "undecodable records under a right checksum",
        |b, chance, n| {
            let mut bytes = b.batch(n);
            let header = &b.seed.batches[n].1;
            if header.is_legacy() || header.records_count == Some(0) || header.is_control() {
                return Damaged::of(b.whole(), &[]);
            }
            // Of plain records the length of the first one; a codec's magic or the checksum at its end.
            let at = 61
                + if header.attributes.codec_id() == 0 {
                    0
                } else {
                    chance.below(2)
                };
            bytes[at] ^= 0xff;
            let crc = crc32c::crc32c(&bytes[21..]).to_be_bytes();
            bytes[17..21].copy_from_slice(&crc);
            let mut damaged = b.with(n, bytes, &[Reason::Codec, Reason::Records]);
            damaged.reasons.push(Reason::Missing);
            damaged
        },
    ),
];

/// Position and size of each batch, and what is lost.
type Account = (Vec<(usize, usize)>, Vec<LostRange>);

fn batches(range: PartitionRange) -> Account {
    let mut reader = BatchReader::new(vec![range], true, OnCorrupt::Skip);
    let mut found = Vec::new();
    while let Some(batch) = reader.next_batch().unwrap() {
        let position = batch["position"].as_primitive::<Int64Type>();
        let size = batch["size"].as_primitive::<Int32Type>();
        for row in 0..batch.num_rows() {
            let numbers = (position.value(row), i64::from(size.value(row)));
            found.push((
                usize::try_from(numbers.0).unwrap(),
                usize::try_from(numbers.1).unwrap(),
            ));
        }
    }
    (found, reader.take_lost())
}

/// Offset and batch position of each record, and what is lost.
fn records(
    range: PartitionRange,
    layout: Layout,
    threads: usize,
) -> (Vec<(i64, usize)>, Vec<LostRange>) {
    let columns = ColumnOptions {
        columns: vec![
            Column::Offset,
            Column::Key,
            Column::Value,
            Column::BatchPosition,
        ],
        layout,
        batch_rows: 500,
        batch_bytes: 20_000,
        ..ColumnOptions::default()
    };
    let options = ReadOptions {
        on_corrupt: OnCorrupt::Skip,
        include_control: true,
        ..options()
    };
    let mut found = Vec::new();
    let mut take = |batch: RecordBatch| {
        batch
            .columns()
            .iter()
            .for_each(|c| c.to_data().validate_full().unwrap());
        let offset = batch["offset"].as_primitive::<Int64Type>();
        let position = batch["batchPosition"].as_primitive::<Int64Type>();
        for row in 0..batch.num_rows() {
            found.push((
                offset.value(row),
                usize::try_from(position.value(row)).unwrap(),
            ));
        }
    };
    if threads > 1 {
        let mut reader = ParallelReader::try_new(vec![range], threads, options, &columns).unwrap();
        while let Some(batch) = reader.next_batch().unwrap() {
            take(batch);
        }
        let lost = reader.take_lost();
        return (found, lost);
    }
    let mut reader = RecordReader::try_new(vec![range], options, columns).unwrap();
    let mut lost = Vec::new();
    while let Some(batch) = reader.next_batch().unwrap() {
        take(batch);
        lost.extend(reader.take_lost());
    }
    lost.extend(reader.take_lost());
    (found, lost)
}

/// Offsets of the records of a batch, by the plain decoder.
fn offsets(batch: &[u8], header: &BatchHeader) -> Vec<i64> {
    let mut slots = Vec::new();
    let (mut decompressor, mut arena) = (Decompressor::new(), Vec::new());
    plain::batch(
        batch,
        0,
        header,
        &mut decompressor,
        &mut arena,
        checks::LIMIT,
        &mut slots,
    )
    .unwrap();
    slots.iter().map(|slot| slot.offset).collect()
}

/// Bytes given and bytes lost are the bytes of the file, one after the other.
fn tile(found: &[(usize, usize)], lost: &[LostRange], len: usize, what: &str) {
    let mut ends: Vec<(usize, usize)> = found.iter().map(|&(at, size)| (at, at + size)).collect();
    let ranges = lost.iter().map(|range| &range.lost);
    let ranges = ranges.filter(|lost| lost.reason != Reason::Missing);
    ends.extend(ranges.map(|lost| {
        let numbers = (usize::try_from(lost.position), usize::try_from(lost.end));
        (numbers.0.unwrap(), numbers.1.unwrap())
    }));
    ends.sort_unstable();
    let end = ends.iter().fold(0, |end, &(from, to)| {
        assert!(from == end && to > from, "{what}: {from}..{to} after {end}");
        to
    });
    assert_eq!(end, len, "{what}");
}

/// Whatever the bytes, reading past damage ends without an error, and accounts for all of them.
pub fn adds_up(range: &PartitionRange, data: &[u8]) {
    let (found, lost) = batches(range.clone());
    tile(&found, &lost, data.len(), "batches");
    let one = records(range.clone(), Layout::View, 1);
    let many = records(range.clone(), Layout::Binary, 2);
    assert_eq!(one, many);
    assert!(one.0.is_sorted_by_key(|&(_, at)| at));
    // A batch of which a record was read was found, too.
    assert!(
        one.0
            .iter()
            .all(|&(_, at)| found.iter().any(|&(found, _)| found == at))
    );
    for lost in one.1.iter().map(|range| &range.lost) {
        let is_lost = |&(_, at): &(i64, usize)| (lost.position..lost.end).contains(&(at as u64));
        assert!(!one.0.iter().any(is_lost), "{lost:?}");
    }
}

/// The offsets of a lost range are those between the batches before and after it.
fn offsets_are_narrow(
    bytes: &Bytes<'_>,
    data: &[u8],
    (found, lost): (&[(usize, usize)], &[LostRange]),
    what: &str,
) {
    let originals = bytes.originals();
    for range in lost {
        let lost = &range.lost;
        if lost.reason == Reason::Missing {
            // The segment's last batches are gone without a trace but for the next one's base.
            let after = found
                .last()
                .and_then(|&(at, size)| originals.get(&data[at..at + size]));
            let floor = after.map_or(bytes.seed.base_offset, |&n| bytes.spans[n].1 + 1);
            let gap = (Some(floor), Some(bytes.seed.next_offset() - 1));
            assert_eq!((lost.first_offset, lost.last_offset), gap, "{what}");
            continue;
        }
        let position = usize::try_from(lost.position).unwrap();
        let before = found
            .iter()
            .rfind(|&&(at, _)| at < position)
            .map(|&(at, _)| at);
        let numbers = |at: usize| {
            let size = found.iter().find(|&&(found, _)| found == at).unwrap().1;
            originals.get(&data[at..at + size]).map(|&n| bytes.spans[n])
        };
        let floor = before.map_or(Some(bytes.seed.base_offset), |at| {
            numbers(at).map(|s| s.1 + 1)
        });
        let next = found
            .iter()
            .find(|&&(at, _)| at > position)
            .map(|&(at, _)| at);
        if let (Some(floor), Some(next)) = (floor, next.and_then(numbers)) {
            let has_room = next.0 > floor;
            let expected = has_room.then_some((floor, next.0 - 1));
            assert_eq!(lost.first_offset.zip(lost.last_offset), expected, "{what}");
        }
    }
}

/// Holds the account of a damaged file against what was done to it.
fn check(bench: &Bench, bytes: &Bytes<'_>, damaged: &Damaged, is_active: bool, what: &str) {
    let data: Vec<u8> = damaged
        .parts
        .iter()
        .flat_map(|part| match part {
            Part::Whole(number) => bytes.batch(*number),
            Part::Other(other) => other.clone(),
        })
        .collect();
    let range = bench.range(bytes.seed, &data, is_active);
    let originals = bytes.originals();
    let (found, lost) = batches(range.clone());

    tile(&found, &lost, data.len(), what);

    // Every whole batch is given, and nothing else.
    let decodes_not = damaged.reasons.last() == Some(&Reason::Missing);
    let mut given = Vec::new();
    for &(at, size) in &found {
        match originals.get(&data[at..at + size]) {
            Some(&number) => given.push(number),
            // A batch whose records cannot be decoded has a sound header; so has one in a gap that nothing contradicts.
            None => assert!(
                decodes_not || damaged.unclear.1 == usize::MAX,
                "{what}: a damaged batch at {at} was given"
            ),
        }
    }
    assert!(given.is_sorted_by(|a, b| a < b), "{what}: {given:?}");
    let expected = damaged.parts.iter().filter_map(|part| match part {
        Part::Whole(number) => Some(*number),
        Part::Other(_) => None,
    });
    let expected: Vec<usize> = expected.collect();
    if given.iter().any(|number| !expected.contains(number)) {
        // The byte that is gone was a zero, as is the first one of the batch after: that one lacks it.
        return;
    }
    let (unclear, missing) = &damaged.unclear;
    let lacking: Vec<usize> = expected
        .into_iter()
        .filter(|number| !given.contains(number))
        .collect();
    assert!(
        lacking.iter().all(|number| unclear.contains(number)) && lacking.len() <= (*missing).min(1),
        "{what}: batches {lacking:?} of {} were lost: {lost:?}",
        bytes.len()
    );
    offsets_are_narrow(bytes, &data, (&found, &lost), what);
    if let (Some(first), false) = (lost.first(), damaged.reasons.is_empty()) {
        let reason = first.lost.reason;
        assert!(
            decodes_not || damaged.reasons.contains(&reason),
            "{what}: {reason}"
        );
    }

    // The records are those of the batches, with one thread or more.
    let mut expected = Vec::new();
    for &(at, size) in &found {
        let batch = &data[at..at + size];
        if decodes_not && !originals.contains_key(batch) {
            continue;
        }
        let header = BatchHeader::parse(batch).unwrap().unwrap();
        expected.extend(
            offsets(batch, &header)
                .into_iter()
                .map(|offset| (offset, at)),
        );
    }
    for (layout, threads) in [(Layout::Binary, 1), (Layout::View, 1), (Layout::Binary, 3)] {
        let (found, its) = records(range.clone(), layout, threads);
        assert_eq!(found, expected, "{what} {threads}");
        if !decodes_not {
            assert_eq!(its, lost, "{what} {threads}");
        } else if bytes.whole() != damaged.parts {
            let reasons: Vec<Reason> = its.iter().map(|range| range.lost.reason).collect();
            assert!(
                damaged.reasons.contains(&reasons[0]) && reasons.len() == 1,
                "{what}: {its:?}"
            );
        }
    }
}

/// Each segment is damaged in each way.
#[test]
fn what_is_whole_is_read_and_the_rest_accounted_for() {
    let bench = Bench::new();
    let mut seeds = seeds(if is_slow() { 256 << 10 } else { 16 << 10 });
    seeds.retain(|seed| seed.batches.len() > 1);
    assert!(KINDS.len() >= 25 && seeds.len() > 20, "{}", seeds.len());
    for (number, seed) in seeds.iter().enumerate() {
        let spans = spans(&seed.data).unwrap();
        let bytes = Bytes { seed, spans };
        for (kind, (name, damage)) in KINDS.iter().enumerate() {
            let seed_of = first_seed() ^ (u64::try_from(number * 1000 + kind).unwrap() << 16);
            let mut chance = Chance(seed_of);
            for _ in 0..if is_slow() { 5 } else { 1 } {
                let hit = chance.below(bytes.len());
                let damaged = damage(&bytes, &mut chance, hit);
                let what = format!("{name}, batch {hit} of {} ({})", seed.name, bytes.len());
                check(&bench, &bytes, &damaged, false, &what);
            }
        }
    }
}

/// Nothing is lost of what is whole.
#[test]
fn a_whole_log_loses_nothing() {
    let bench = Bench::new();
    for seed in seeds(usize::MAX) {
        let spans = spans(&seed.data).unwrap();
        let bytes = Bytes { seed: &seed, spans };
        let whole = Damaged::of(bytes.whole(), &[]);
        for is_active in [false, true] {
            check(&bench, &bytes, &whole, is_active, &seed.name);
            assert_eq!(batches(bench.range(&seed, &seed.data, is_active)).1, []);
        }
    }
}
