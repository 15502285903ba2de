use super::*;
use crate::arrow::schema::{Layout, TimestampUnit};
use crate::compress::Compressor;
use crate::format::record::Header;
use crate::records::arena::Arena;
use crate::records::builder::{BatchBuilder, BatchOptions};
use crate::scan::plan::{PlanOptions, plan_scan};
use crate::scan::reader::LogReader;
use crate::segment::reader::{FillOutcome, ReadOptions};
use crate::segment::source::MapPolicy;

/// Two batches of keys, values and headers, some of them null, empty, or long.
fn chunk() -> (Chunk, LogReader) {
    let folder = tempfile::tempdir().unwrap();
    let mut log = Vec::new();
    let texts: [Option<&[u8]>; 5] = [
        None,
        Some(b""),
        Some(b"short"),
        Some(&[7; 40]),
        Some(b"\xff"),
    ];
    for base in [0, 6] {
        let mut builder = BatchBuilder::new(BatchOptions {
            base_offset: base,
            ..BatchOptions::default()
        })
        .unwrap();
        for (n, offset) in (base..).take(6).enumerate() {
            let mut each = texts.into_iter().cycle().skip(n);
            let mut text = || each.next().flatten();
            let (key, value) = (text(), text());
            let headers: Vec<_> = (0..n % 4)
                .map(|_| Header {
                    key: text().filter(|key| key.is_ascii()).unwrap_or(b"k"),
                    value: text(),
                })
                .collect();
            (builder.append(offset, offset, key, value, &headers)).unwrap();
        }
        builder.finish(&mut Compressor::new(), &mut log).unwrap();
    }
    std::fs::create_dir(folder.path().join("t-0")).unwrap();
    std::fs::write(folder.path().join("t-0/00000000000000000000.log"), log).unwrap();
    let ranges = plan_scan(&[folder.path().to_path_buf()], &PlanOptions::default()).unwrap();
    let mut reader = LogReader::new(ranges, ReadOptions::default(), MapPolicy::Never);
    let mut chunk = Chunk::new(Arena::default());
    assert_eq!(reader.fill(&mut chunk).unwrap(), FillOutcome::Records);
    assert_eq!(chunk.slots().len(), 12);
    (chunk, reader)
}

fn options(layout: Layout) -> ColumnOptions {
    ColumnOptions {
        columns: Column::ALL.to_vec(),
        layout,
        unit: TimestampUnit::Microsecond,
        ..ColumnOptions::default()
    }
}

/// Rows appended after truncation follow those that stay.
#[test]
fn a_truncated_column_never_had_the_other_rows() {
    let (mut chunk, reader) = chunk();
    for layout in [Layout::Binary, Layout::View] {
        for stay in 0..=12 {
            let mut columns = Columns::try_new(options(layout)).unwrap();
            let mut expected = Columns::try_new(options(layout)).unwrap();
            columns.append(&chunk, 12, 0, reader.context()).unwrap();
            columns.all.iter_mut().for_each(|c| c.truncate(stay));
            columns.rows = stay;
            expected.append(&chunk, stay, 0, reader.context()).unwrap();
            for columns in [&mut columns, &mut expected] {
                columns.append(&chunk, 7, 0, reader.context()).unwrap();
            }
            let (found, _) = columns.finish(&mut chunk).unwrap();
            let (expected, _) = expected.finish(&mut chunk).unwrap();
            for array in found.columns() {
                array.to_data().validate_full().unwrap();
            }
            assert_eq!(found, expected, "{layout:?} {stay}");
        }
    }
}

/// As many as fit, counted one by one.
#[test]
fn the_most_records_that_fit() {
    let (chunk, _) = chunk();
    let (slots, bytes) = (chunk.slots(), chunk.bytes().unwrap());
    for column in [Column::Value, Column::Headers, Column::Offset] {
        let mut options = options(Layout::Binary);
        options.columns = vec![column];
        for batch_bytes in 1..800 {
            options.batch_bytes = batch_bytes;
            let mut columns = Columns::try_new(options.clone()).unwrap();
            for rows in [0, 1] {
                columns.rows = rows;
                let size = |n| columns.size(&slots[..n], bytes.as_slice(), usize::MAX);
                let least = usize::from(rows == 0);
                let expected = (least..=12).rfind(|&n| size(n) <= batch_bytes);
                let expected = expected.unwrap_or(least);
                let found = columns.fits(slots, bytes.as_slice(), usize::MAX);
                assert_eq!(
                    found,
                    (expected, size(expected)),
                    "{column:?} {batch_bytes}"
                );
            }
        }
    }
}
