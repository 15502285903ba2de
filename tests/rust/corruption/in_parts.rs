//! Batches that no chunk takes at once, some of which do not decode though their checksum is right: past damage they give
//! none of their records, however far into them the fault lies and however the columns are made.

use arrow_array::types::{Int64Type, TimestampMillisecondType};
use arrow_array::{Array, RecordBatch, cast::AsArray};
use kafkalog::TimestampUnit;
use kafkalog::internal::arrow::columns::ColumnOptions;
use kafkalog::internal::arrow::parallel::ParallelReader;
use kafkalog::internal::arrow::reader::RangeReader;
use kafkalog::internal::arrow::schema::{Column, Layout};
use kafkalog::internal::compress::{Codec, Compressor, DecodeLimit, Decompressor};
use kafkalog::internal::error::{Error, Result};
use kafkalog::internal::format::batch::BatchHeader;
use kafkalog::internal::records::plain;
use kafkalog::internal::scan::lost::LostRange;
use kafkalog::internal::scan::range::PartitionRange;
use kafkalog::internal::segment::filter::TimestampBounds;
use kafkalog::internal::segment::metrics::Metrics;
use kafkalog::internal::segment::reader::ReadOptions;
use kafkalog::internal::segment::resync::Reason;
use kafkalog::internal::segment::skipping::OnCorrupt;
use kafkalog::internal::types::Compression;

use crate::checks;
use crate::common::{Head, batch, put_varint};

const START: i64 = 1_700_000_000_000;

/// Recipe for the records of a batch.
#[derive(Clone, Copy)]
struct Recipe {
    count: i64,
    /// The record whose length is wrong.
    broken: Option<i64>,
    /// The record that no timestamp in microseconds can hold.
    late: Option<i64>,
}

const fn sound(count: i64) -> Recipe {
    Recipe {
        count,
        broken: None,
        late: None,
    }
}

const fn broken(count: i64, at: i64) -> Recipe {
    Recipe {
        broken: Some(at),
        ..sound(count)
    }
}

/// A log of these batches.
struct Log {
    folder: tempfile::TempDir,
    data: Vec<u8>,
    /// First offset, number of records, and whether they decode, of each batch.
    batches: Vec<(i64, i64, bool)>,
}

fn timestamp(offset: i64) -> i64 {
    START + offset * 7919 % 1000
}

/// Some are short enough for a view to hold them, some are not.
fn value(offset: i64, len: usize) -> Vec<u8> {
    let text = format!("v{offset}");
    let len = text.len() + len + if offset % 3 == 0 { 20 } else { 0 };
    text.bytes().cycle().take(len).collect()
}

impl Log {
    fn new(recipes: &[Recipe], codec: Compression, value_len: usize) -> Self {
        let (mut data, mut batches, mut base) = (Vec::new(), Vec::new(), 0);
        for recipe in recipes {
            let mut records = Vec::new();
            for n in 0..recipe.count {
                let mut body = vec![0];
                let late = i64::from(recipe.late == Some(n)) * (i64::MAX / 1000);
                put_varint(&mut body, timestamp(base + n) - START + late);
                put_varint(&mut body, n);
                put_varint(&mut body, -1);
                let value = value(base + n, value_len);
                put_varint(&mut body, i64::try_from(value.len()).unwrap());
                body.extend(value);
                body.push(0);
                let len = i64::try_from(body.len()).unwrap();
                put_varint(&mut records, len + i64::from(recipe.broken == Some(n)));
                records.append(&mut body);
            }
            let mut payload = Vec::new();
            let codec = Codec::new(codec);
            let mut compressor = Compressor::new();
            compressor.compress(codec, &records, &mut payload).unwrap();
            let head = Head {
                base_offset: base,
                attributes: codec.compression().id(),
                last_offset_delta: i32::try_from(recipe.count - 1).unwrap(),
                base_timestamp: START,
                max_timestamp: START + 999,
                count: i32::try_from(recipe.count).unwrap(),
            };
            let whole = batch(head, &payload);
            let header = BatchHeader::parse(&whole).unwrap().unwrap();
            header.ensure_valid(&whole).unwrap();
            let decoded = plain::batch(
                &whole,
                0,
                &header,
                &mut Decompressor::new(),
                &mut Vec::new(),
                DecodeLimit::default(),
                &mut Vec::new(),
            );
            assert_eq!(decoded.is_ok(), recipe.broken.is_none());
            data.extend(whole);
            batches.push((base, recipe.count, decoded.is_ok()));
            base += recipe.count;
        }
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(format!("{:020}.log", 0)), &data).unwrap();
        // A closed segment is mapped.
        std::fs::write(folder.path().join(format!("{base:020}.log")), b"").unwrap();
        Self {
            folder,
            data,
            batches,
        }
    }

    fn range(&self, is_active: bool) -> PartitionRange {
        let next = self.batches.iter().map(|(_, count, _)| count).sum();
        let name = format!("{:020}.log", 0);
        let next = (!is_active).then_some(next);
        checks::one_segment(self.folder.path(), &name, self.data.len(), next)
    }

    fn offsets(&self) -> Vec<i64> {
        let sound = self.batches.iter().filter(|(_, _, is_sound)| *is_sound);
        sound
            .flat_map(|&(base, count, _)| base..base + count)
            .collect()
    }
}

/// Way of reading a log.
#[derive(Clone, Copy, Debug)]
struct Way {
    layout: Layout,
    threads: usize,
    rows: usize,
    bytes: usize,
    unit: TimestampUnit,
    is_active: bool,
}

fn ways() -> Vec<Way> {
    let mut ways = Vec::new();
    for layout in [Layout::Binary, Layout::View] {
        for threads in [1, 3] {
            for (rows, bytes) in [(65_536, 2 << 20), (777, 2 << 20), (4096, 30_000)] {
                ways.push(Way {
                    layout,
                    threads,
                    rows,
                    bytes,
                    unit: TimestampUnit::Millisecond,
                    is_active: rows == 777,
                });
            }
        }
    }
    ways
}

/// Result of a reader.
#[derive(Default)]
struct Given {
    offsets: Vec<i64>,
    lost: Vec<LostRange>,
    metrics: Metrics,
    rows: u64,
    error: Option<Error>,
}

/// Reads all past damage, and looks at each row.
fn read(log: &Log, way: Way, timestamps: TimestampBounds, value_len: usize) -> Given {
    let range = PartitionRange {
        timestamps,
        ..log.range(way.is_active)
    };
    let columns = ColumnOptions {
        columns: vec![Column::Offset, Column::Timestamp, Column::Value],
        layout: way.layout,
        unit: way.unit,
        batch_rows: way.rows,
        batch_bytes: way.bytes,
        decoding: None,
    };
    let options = ReadOptions {
        on_corrupt: OnCorrupt::Skip,
        ..ReadOptions::default()
    };
    let mut given = Given::default();
    let mut take = |next: Result<Option<RecordBatch>>| match next {
        Ok(Some(batch)) => {
            assert!((1..=way.rows).contains(&batch.num_rows()), "{way:?}");
            for column in batch.columns() {
                column.to_data().validate_full().unwrap();
            }
            let offsets = batch["offset"].as_primitive::<Int64Type>().values();
            for (row, &offset) in offsets.iter().enumerate() {
                let found = match way.layout {
                    Layout::Binary => batch["value"].as_binary::<i32>().value(row),
                    Layout::View => batch["value"].as_binary_view().value(row),
                };
                assert!(found == value(offset, value_len), "{way:?} {offset}");
                if way.unit == TimestampUnit::Millisecond {
                    let times = batch["timestamp"].as_primitive::<TimestampMillisecondType>();
                    assert_eq!(times.value(row), timestamp(offset), "{way:?}");
                }
            }
            given.offsets.extend(offsets);
            true
        }
        Ok(None) => false,
        Err(error) => {
            given.error = Some(error);
            false
        }
    };
    if way.threads > 1 {
        let mut reader =
            ParallelReader::try_new(vec![range], way.threads, options, &columns, None).unwrap();
        while take(reader.next_batch()) {}
        (given.lost, (given.metrics, given.rows)) = (reader.take_lost(), reader.metrics());
    } else {
        let mut reader = RangeReader::try_new(vec![range], options, columns).unwrap();
        while take(reader.next_batch()) {}
        (given.lost, (given.metrics, given.rows)) = (reader.take_lost(), reader.metrics());
    }
    given
}

/// Sound batches are given whole, broken ones not at all, and the account says so.
fn check(log: &Log, value_len: usize) {
    let size = u64::try_from(log.data.len()).unwrap();
    let (offsets, first) = (log.offsets(), START + 500);
    for way in ways() {
        for min in [None, Some(first)] {
            let bounds = TimestampBounds { min, max: None };
            let Given {
                offsets: found,
                lost,
                metrics,
                rows,
                error,
            } = read(log, way, bounds, value_len);
            let is_wanted = |offset: &i64| min.is_none_or(|min| timestamp(*offset) >= min);
            let expected: Vec<i64> = offsets.iter().copied().filter(is_wanted).collect();
            assert!(found == expected && error.is_none(), "{way:?} {error:?}");
            assert_eq!(rows, u64::try_from(found.len()).unwrap(), "{way:?}");
            let dropped = u64::try_from(offsets.len() - expected.len()).unwrap();
            assert_eq!(metrics.records_skipped, dropped, "{way:?}");
            assert_eq!(metrics.bytes + metrics.bytes_lost, size, "{way:?}");
            let bytes: u64 = lost.iter().map(|range| range.lost.bytes()).sum();
            assert_eq!(metrics.bytes_lost, bytes, "{way:?}");
            if way.threads == 1 {
                assert_eq!(metrics.lost, u64::try_from(lost.len()).unwrap(), "{way:?}");
            }
            let gone: Vec<_> = lost
                .iter()
                .map(|range| (range.lost.first_offset, range.lost.last_offset))
                .collect();
            let broken = log.batches.iter().filter(|(_, _, is_sound)| !is_sound);
            let mut spans: Vec<(Option<i64>, Option<i64>)> = Vec::new();
            for &(base, count, _) in broken {
                let last = Some(base + count - 1);
                match spans.last_mut().filter(|span| span.1 == Some(base - 1)) {
                    Some(span) => span.1 = last,
                    None => spans.push((Some(base), last)),
                }
            }
            let end = log.batches.iter().map(|(_, count, _)| count).sum::<i64>() - 1;
            if let Some(last) = spans.last_mut().filter(|span| span.1 == Some(end))
                && way.is_active
            {
                // No segment follows that would say how far it went.
                last.1 = None;
            }
            assert_eq!(gone, spans, "{way:?}");
            assert!(
                lost.iter()
                    .all(|range| range.lost.reason == Reason::Records)
            );
        }
    }
}

#[test]
fn a_large_batch_gives_all_of_its_records_or_none() {
    for codec in [Compression::None, Compression::Zstd] {
        for at in [0, 10, 1023, 1024, 3000, 4998, 4999] {
            let log = Log::new(
                &[
                    sound(700),
                    sound(5000),
                    broken(5000, at),
                    sound(3),
                    broken(5000, 4999),
                    broken(5000, at),
                    sound(5000),
                    broken(5000, at),
                    sound(2000),
                    sound(10),
                ],
                codec,
                0,
            );
            check(&log, 0);
        }
    }
}

/// Too large to be taken back: decoded before the first record is given.
#[test]
fn a_very_large_batch_gives_all_of_its_records_or_none() {
    let len = 8000;
    let log = Log::new(
        &[sound(3), sound(1100), broken(1100, 1099), sound(2)],
        Compression::Zstd,
        len,
    );
    check(&log, len);
}

/// The last batch of all; and a log of nothing else.
#[test]
fn nothing_follows_a_broken_batch() {
    for first in [&[][..], &[sound(7)], &[sound(3000)]] {
        let log = Log::new(
            &[first, &[broken(5000, 4999)]].concat(),
            Compression::None,
            0,
        );
        check(&log, 0);
    }
}

/// A timestamp that the column cannot hold ends the read with the rows before it, but not in a batch that is lost.
#[test]
fn a_timestamp_beyond_microseconds_counts_only_where_its_batch_is_sound() {
    let late = |recipe| Recipe {
        late: Some(2500),
        ..recipe
    };
    for way in ways() {
        let way = Way {
            unit: TimestampUnit::Microsecond,
            ..way
        };
        let log = Log::new(
            &[sound(9), late(broken(5000, 4999)), sound(4)],
            Compression::None,
            0,
        );
        let given = read(&log, way, TimestampBounds::default(), 0);
        assert!(given.error.is_none(), "{way:?} {:?}", given.error);
        assert_eq!(given.offsets, log.offsets(), "{way:?}");
        assert_eq!(given.lost.len(), 1, "{way:?}");
        let log = Log::new(
            &[sound(9), late(sound(5000)), sound(4)],
            Compression::None,
            0,
        );
        let given = read(&log, way, TimestampBounds::default(), 0);
        assert!(given.error.is_none(), "{way:?} {:?}", given.error);
        let mut others = log.offsets();
        others.retain(|&offset| offset != 9 + 2500);
        assert!(given.offsets == others, "{way:?}");
        assert_eq!(given.lost.len(), 1, "{way:?}");
    }
}
