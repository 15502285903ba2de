//! Segments made for a bench.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use kafkalog::internal::compress::{Codec, Compressor};
use kafkalog::internal::records::builder::{BatchBuilder, BatchOptions};
use kafkalog::internal::types::Compression;

/// Content of a segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// The codec of its batches.
    pub(crate) codec: Compression,
    /// Records in a batch.
    pub(crate) records: usize,
    /// Minimum of the batches' bytes together before they are compressed.
    pub(crate) size: usize,
}

/// Writes a segment; `record` gives timestamp, key and value of the record at an offset. Returns the next offset.
pub(crate) fn write_segment(
    folder: &Path,
    base_offset: i64,
    shape: Shape,
    mut record: impl FnMut(i64) -> (i64, Vec<u8>, Vec<u8>),
) -> i64 {
    fs::create_dir_all(folder).expect("a folder");
    let path = folder.join(format!("{base_offset:020}.log"));
    let mut file = File::create(path).expect("a segment");
    let (mut compressor, mut batch) = (Compressor::default(), Vec::new());
    let (mut offset, mut size) = (base_offset, 0);
    while size < shape.size {
        let options = BatchOptions {
            base_offset: offset,
            partition_leader_epoch: 0,
            codec: Codec::new(shape.codec),
            ..BatchOptions::default()
        };
        let mut builder = BatchBuilder::new(options).expect("options that agree");
        for _ in 0..shape.records {
            let (timestamp, key, value) = record(offset);
            // What frames a record takes a few bytes.
            size += key.len() + value.len() + 7;
            let added = builder.append(offset, timestamp, Some(&key), Some(&value), &[]);
            added.expect("a record");
            offset += 1;
        }
        batch.clear();
        builder
            .finish(&mut compressor, &mut batch)
            .expect("a batch");
        file.write_all(&batch).expect("it is written");
    }
    file.sync_all().expect("it is on the disk");
    offset
}
