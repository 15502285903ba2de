//! Partition of a key (`BuiltInPartitioner.partitionForKey`).

use std::num::NonZeroU32;

use arrow_array::{ArrayRef, Int32Array};

use super::bytes::{ByteColumn, InputColumn};
use crate::error::Result;
use crate::format::murmur2::murmur2;

/// The partition of each key, of so many; null for a null key.
///
/// # Errors
/// `InvalidArgument` for a column that is neither binary nor string.
pub(crate) fn partition_for_key(keys: &ArrayRef, partitions: NonZeroU32) -> Result<Int32Array> {
    let column = InputColumn::new("key", keys)?;
    let rows = 0..keys.len();
    Ok(match column.dense() {
        Some(keys) => rows.map(|row| partition(&keys, row, partitions)).collect(),
        None => rows
            .map(|row| partition(&column, row, partitions))
            .collect(),
    })
}

fn partition(keys: &impl ByteColumn, row: usize, partitions: NonZeroU32) -> Option<i32> {
    // Utils.toPositive
    let positive = murmur2(keys.get(row)?) & i32::MAX.cast_unsigned();
    Some((positive % partitions).cast_signed())
}
