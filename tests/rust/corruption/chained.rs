//! A reader that goes from header to header has given a batch when later bytes speak against it: the walk over all of
//! the file, which then decides for every reader, must keep that batch.

use kafkalog::internal::arrow::batches::BatchReader;
use kafkalog::internal::segment::skipping::OnCorrupt;

use crate::checks;
use crate::common::one_record;

const LENGTH: std::ops::Range<usize> = 8..12;
const EPOCH: std::ops::Range<usize> = 12..16;

fn batch(offset: i64, epoch: i32) -> Vec<u8> {
    let mut batch = one_record(offset, 0, 1_700_000_000_000);
    batch[EPOCH].copy_from_slice(&epoch.to_be_bytes());
    batch
}

/// The base offsets of the batches that are given, after all readers were compared with each other.
fn given(parts: &[Vec<u8>]) -> Vec<i64> {
    let data = parts.concat();
    checks::resync(&data);
    let folder = tempfile::tempdir().unwrap();
    let name = format!("{:020}.log", 0);
    std::fs::write(folder.path().join(&name), &data).unwrap();
    let range = checks::one_segment(folder.path(), &name, data.len(), None);
    let mut reader = BatchReader::new(vec![range], true, OnCorrupt::Skip);
    let mut found = Vec::new();
    while let Some(rows) = reader.next_batch().unwrap() {
        use arrow_array::{cast::AsArray, types::Int64Type};
        let offsets = rows["baseOffset"].as_primitive::<Int64Type>();
        found.extend(offsets.values().iter().copied());
    }
    found
}

#[test]
fn a_damaged_batch_confirms_an_epoch_by_its_header() {
    let mut damaged = batch(1, 1);
    *damaged.last_mut().unwrap() ^= 1;
    assert_eq!(given(&[batch(0, 1), damaged, batch(2, 0)]), [0]);
}

#[test]
fn a_length_that_leads_over_a_batch_to_the_next_one() {
    let over = |inner: i64| {
        let (mut outer, inner) = (batch(20, 0), batch(inner, 0));
        let length = i32::try_from(outer.len() + inner.len() - 12).unwrap();
        outer[LENGTH].copy_from_slice(&length.to_be_bytes());
        [batch(10, 0), outer, inner, batch(30, 0), batch(31, 0)]
    };
    assert_eq!(given(&over(25)), [10, 25, 30, 31]);
    for out_of_order in [1, 10, 30, 31, 40] {
        assert_eq!(given(&over(out_of_order)), [10, 30, 31], "{out_of_order}");
    }
}
