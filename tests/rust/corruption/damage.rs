//! Damage of every kind, and what `on_corrupt = skip` makes of it: every batch that is whole and in its place is read, no
//! other one is, and the bytes read and the bytes lost are the bytes of the file.

use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{Array, RecordBatch, cast::AsArray};
use kafkalog::internal::arrow::batches::BatchReader;
use kafkalog::internal::arrow::columns::ColumnOptions;
use kafkalog::internal::arrow::parallel::ParallelReader;
use kafkalog::internal::arrow::reader::RangeReader;
use kafkalog::internal::arrow::schema::{Column, Layout};
use kafkalog::internal::compress::Decompressor;
use kafkalog::internal::format::batch::BatchHeader;
use kafkalog::internal::records::plain;
use kafkalog::internal::scan::lost::LostRange;
use kafkalog::internal::scan::range::PartitionRange;
use kafkalog::internal::segment::reader::ReadOptions;
use kafkalog::internal::segment::resync::Reason;
use kafkalog::internal::segment::skipping::OnCorrupt;

use super::kinds::{Bytes, Damaged, KINDS, Part};
use super::{Bench, first_seed, options, seeds, spans};
use crate::checks;
use crate::common::{Chance, pick};

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
        let mut reader =
            ParallelReader::try_new(vec![range], threads, options, &columns, None).unwrap();
        while let Some(batch) = reader.next_batch().unwrap() {
            take(batch);
        }
        let lost = reader.take_lost();
        return (found, lost);
    }
    let mut reader = RangeReader::try_new(vec![range], options, columns).unwrap();
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

/// Reading past damage ends without an error on any bytes, and accounts for all of them.
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
    let mut seeds = seeds(pick(8 << 10, 16 << 10, 256 << 10));
    seeds.retain(|seed| seed.batches.len() > 1);
    assert!(KINDS.len() >= 25 && seeds.len() > 20, "{}", seeds.len());
    for (number, seed) in seeds.iter().enumerate() {
        let spans = spans(&seed.data).unwrap();
        let bytes = Bytes { seed, spans };
        // In the short tier each segment is damaged in a few ways, and each way is tried on some.
        let step = pick(6, 1, 1);
        for (kind, (name, damage)) in KINDS.iter().enumerate().skip(number % step).step_by(step) {
            let seed_of = first_seed() ^ (u64::try_from(number * 1000 + kind).unwrap() << 16);
            let mut chance = Chance(seed_of);
            for _ in 0..pick(1, 1, 5) {
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
