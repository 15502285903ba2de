//! Every layout against the builder, which has Kafka's own bytes for a witness.

use std::sync::Arc;

use arrow_array::{ArrayRef, BinaryArray};

use super::*;
use crate::error::{Error, Refusal};
use crate::format::record::Header;
use crate::records::builder::{BatchBuilder, BatchOptions};

mod batches;
mod layouts;
mod rules;

const NOW: TimestampMs = 1_700_000_000_000;

fn rules() -> LeaderRules {
    LeaderRules::default()
}

fn options() -> EncodeOptions {
    EncodeOptions {
        rules: rules(),
        batch_size: DEFAULT_BATCH_SIZE,
        max_message_bytes: 1 << 20,
        ignore_extra: false,
        keeps_offsets: false,
    }
}

fn table(columns: &[(&str, ArrayRef)]) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(
        columns
            .iter()
            .map(|(name, array)| (*name, array.clone(), true)),
    )
    .unwrap()
}

fn binary(values: &[Option<&[u8]>]) -> ArrayRef {
    Arc::new(BinaryArray::from(values.to_vec()))
}

type Pairs<'a> = Vec<(&'a str, Option<&'a [u8]>)>;
type Row<'a> = (i64, Option<&'a [u8]>, Option<&'a [u8]>, Pairs<'a>);

/// The batch of these rows by the builder; offsets from 0.
fn built(rows: &[Row<'_>], options: BatchOptions) -> Vec<u8> {
    let mut builder = BatchBuilder::new(options).unwrap();
    for (timestamp, key, value, pairs) in rows {
        let headers: Vec<_> = pairs
            .iter()
            .map(|(key, value)| Header {
                key: key.as_bytes(),
                value: *value,
            })
            .collect();
        builder
            .append(builder.next_offset(), *timestamp, *key, *value, &headers)
            .unwrap();
    }
    let mut out = Vec::new();
    builder.finish(&mut Compressor::new(), &mut out).unwrap();
    out
}

/// All batches, and the first error; the same however many are made at once.
fn encode(batch: &RecordBatch, options: EncodeOptions) -> (Vec<Vec<u8>>, Option<Error>) {
    let (batches, error) = encode_by(batch, options, 0);
    for least in [1_000, usize::MAX] {
        let (again, other) = encode_by(batch, options, least);
        assert!(batches == again, "batches of {least} bytes and more");
        let text = |error: &Option<Error>| error.as_ref().map(ToString::to_string);
        assert_eq!(text(&error), text(&other));
    }
    (batches, error)
}

fn encode_by(
    batch: &RecordBatch,
    options: EncodeOptions,
    least: usize,
) -> (Vec<Vec<u8>>, Option<Error>) {
    let mut encoder = Encoder::new(options);
    let mut rows = match encoder.rows(batch) {
        Ok(rows) => rows,
        Err(error) => return (Vec::new(), Some(error)),
    };
    let mut batches = Vec::new();
    loop {
        match rows.next_batches(NOW, least) {
            Ok(Some(mut made)) => {
                assert!(least > 0 || made.headers().len() == 1);
                while !made.is_empty() {
                    let header = made.headers()[0].clone();
                    let batch = &made.bytes()[..header.size];
                    assert_eq!(BatchHeader::parse(batch).unwrap(), Some(header.clone()));
                    header.ensure_valid(batch).unwrap();
                    let batch = batch.to_vec();
                    // As if the log had begun to write the last one: it comes again, unless nothing does.
                    let is_begun = least > 0 && made.has_more() && made.headers().len() == 1;
                    if is_begun && made.begun() == 0 {
                        made.advance(0, 9);
                        break;
                    }
                    batches.push(batch);
                    made.advance(1, 0);
                }
                assert!(made.begun() > 0 || made.bytes().is_empty());
            }
            Ok(None) => return (batches, None),
            Err(error) => return (batches, Some(error)),
        }
    }
}

fn one(batch: &RecordBatch) -> Vec<u8> {
    let (mut batches, error) = encode(batch, options());
    assert!(error.is_none() && batches.len() == 1, "{error:?}");
    batches.remove(0)
}

fn refused(batch: &RecordBatch, options: EncodeOptions) -> String {
    encode(batch, options).1.unwrap().to_string()
}
