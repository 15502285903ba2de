use std::path::Path;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, Int64Array};
use arrow_schema::{DataType, Field};

use super::*;
use crate::arrow::rows::Rows;
use crate::arrow::schema::{Column, Layout};
use crate::arrow::sources::DataBuffers;
use crate::arrow::value_column::{AppendError, ValueColumn};
use crate::compress::{Codec, Compressor};
use crate::records::RecordSlot;
use crate::records::builder::{BatchBuilder, BatchOptions};
use crate::scan::plan::{Ending, PlanOptions, Starting, plan_scan};
use crate::segment::skipping::OnCorrupt;
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

/// Values that are numbers as text: a column that the table of columns does not have.
#[derive(Debug, Default)]
struct Decimals(Vec<i64>);

impl ValueColumn for Decimals {
    fn field(&self, name: &str) -> Field {
        Field::new(name, DataType::Int64, true)
    }

    fn append(&mut self, rows: &mut Rows<'_>) -> Result<(), AppendError> {
        for (row, slot) in rows.slots.iter().enumerate() {
            let value = slot.value(rows.bytes.as_slice()).unwrap_or_default();
            let value = String::from_utf8_lossy(value);
            let number = value.parse().map_err(|_| {
                let error = Error::invalid("value", 0, "a number", &value);
                AppendError::Record(row, error)
            })?;
            self.0.push(number);
        }
        Ok(())
    }

    fn bytes(&self, slots: &[RecordSlot], _: &[u8], _: usize) -> usize {
        slots.len().saturating_mul(8)
    }

    fn finish(&mut self, _: &DataBuffers) -> Result<ArrayRef> {
        let numbers = Int64Array::from(std::mem::take(&mut self.0));
        Ok(std::sync::Arc::new(numbers))
    }

    fn truncate(&mut self, rows: usize) {
        self.0.truncate(rows);
    }
}

/// Another column between others: the rows before a value that it cannot hold come first, then an error that says which
/// one; where damage is skipped, only that record is missing.
#[test]
fn a_record_that_a_column_cannot_hold() {
    let dir = tempfile::tempdir().unwrap();
    let values: [&[u8]; 6] = [b"1", b"22", b"x", b"4", b"y", b"6"];
    let records: Vec<_> = (10..).zip(values).collect();
    write(&dir.path().join("t-0"), &records);
    let read = |on_corrupt, layout| {
        let ranges = plan_scan(&[dir.path().to_path_buf()], &PlanOptions::default()).unwrap();
        let columns = ColumnOptions {
            columns: vec![Column::Offset, Column::Key, Column::ValueSize],
            layout,
            ..ColumnOptions::default()
        };
        let options = ReadOptions {
            on_corrupt,
            ..ReadOptions::default()
        };
        let mut reader = RangeReader::try_new(ranges, options, columns.clone()).unwrap();
        let all: Vec<Box<dyn ValueColumn>> = vec![
            Column::Offset.build(&columns),
            Column::Value.build(&columns),
            Box::new(Decimals::default()),
        ];
        reader.columns = Columns::of(all, columns).unwrap();
        let mut rows = Vec::new();
        loop {
            match reader.next_batch() {
                Ok(Some(batch)) => {
                    assert_eq!(batch.column(1).len(), batch.num_rows());
                    let offsets = batch.column(0).as_primitive::<Int64Type>();
                    let numbers = batch.column(2).as_primitive::<Int64Type>();
                    rows.extend(
                        offsets
                            .values()
                            .iter()
                            .copied()
                            .zip(numbers.values().iter().copied()),
                    );
                }
                Ok(None) => break (rows, None, reader.take_lost()),
                Err(error) => break (rows, Some(error.to_string()), reader.take_lost()),
            }
        }
    };
    for layout in [Layout::Binary, Layout::View] {
        let (rows, error, _) = read(OnCorrupt::Raise, layout);
        assert_eq!(rows, [(10, 1), (11, 22)]);
        let error = error.unwrap();
        let file = dir.path().join("t-0/00000000000000000000.log");
        let expected = "byte 0: offset 12: value: expected a number, found x";
        assert_eq!(error, format!("{}: {expected}", file.display()));
        let (rows, error, lost) = read(OnCorrupt::Skip, layout);
        assert_eq!(rows, [(10, 1), (11, 22), (13, 4), (15, 6)]);
        assert_eq!((error, lost.len()), (None, 2));
    }
}
