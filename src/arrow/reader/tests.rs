use std::path::Path;

use arrow_array::Array;
use arrow_array::cast::AsArray;

use super::*;
use crate::arrow::schema::{Column, Layout};
use crate::compress::{Codec, Compressor};
use crate::records::builder::{BatchBuilder, BatchOptions};
use crate::scan::plan::{Ending, PlanOptions, Starting, plan_scan};
use crate::types::{Compression, Offset};

/// A partition of one compressed batch with these offsets and values.
fn write(folder: &Path, records: &[(Offset, &[u8])]) {
    let codec = Codec::with_level(Compression::Zstd, 1).unwrap();
    let options = BatchOptions {
        codec,
        ..BatchOptions::default()
    };
    let mut builder = BatchBuilder::new(options).unwrap();
    for (offset, value) in records {
        builder.append(*offset, 1, None, Some(value), &[]).unwrap();
    }
    let mut batch = Vec::new();
    builder.finish(&mut Compressor::new(), &mut batch).unwrap();
    std::fs::create_dir(folder).unwrap();
    std::fs::write(folder.join("00000000000000000000.log"), batch).unwrap();
}

/// A batch of which nothing is wanted fills the arena after records that views point at: those must stay.
#[test]
fn an_arena_that_fills_with_unwanted_records_keeps_the_others() {
    let dir = tempfile::tempdir().unwrap();
    let wanted = |mark: u8| vec![mark; 100];
    let large = vec![7; 200 << 10];
    write(&dir.path().join("t-0"), &[(0, &[]), (60, &wanted(1))]);
    write(&dir.path().join("t-1"), &[(0, &large), (100, &[])]);
    write(
        &dir.path().join("t-2"),
        &[(0, &[]), (60, &wanted(2)), (61, &large)],
    );
    let options = PlanOptions {
        starting_offsets: Starting::Offset(50),
        ending_offsets: Ending::Offset(90),
        ..PlanOptions::default()
    };
    for layout in [Layout::View, Layout::Binary] {
        let ranges = plan_scan(&[dir.path().to_path_buf()], &options).unwrap();
        let columns = ColumnOptions {
            columns: vec![Column::Value],
            layout,
            ..ColumnOptions::default()
        };
        let mut reader = RangeReader::try_new(ranges, ReadOptions::default(), columns).unwrap();
        let mut found = Vec::new();
        while let Some(batch) = reader.next_batch().unwrap() {
            let values = batch.column(0);
            values.to_data().validate_full().unwrap();
            found.extend((0..values.len()).map(|n| match layout {
                Layout::View => values.as_binary_view().value(n).to_vec(),
                Layout::Binary => values.as_binary::<i32>().value(n).to_vec(),
            }));
        }
        assert!(found == [wanted(1), wanted(2), large.clone()], "{layout:?}");
    }
}
