//! Decoding of Avro values with Confluent's prefix, beside arrow-avro: eight fields in about 70 bytes.
//!
//! ```text
//! cargo run --release --manifest-path benches/avro/Cargo.toml
//! ```
//!
//! | leg | one pass over all values |
//! |---|---|
//! | theirs | arrow-avro's `Decoder`, one schema |
//! | ours | the same into our columns, as many values at a time as a scan decodes side by side |
//! | theirs 2, ours 2 | two of the eight fields, a string and a double |
//! | theirs v2, ours v2 | the values of an older schema under a newer one, which has another field |
//! | ours new | the values of the newer schema under it |
//! | turns | ours, the two schemas in turns |
//! | text | ours, as JSON text |
//! | schemas | `_schemas` of 10,000 subjects replayed, in ms |
//! | bytes, scan | a scan of the log for the values as they are, and decoded |
//!
//! `LEGS=ours,turns` in the environment runs only these, `ROUNDS` says how often. Figures are processor time of this thread;
//! medians of the rounds.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, BinaryArray, RecordBatch};
use arrow_avro::reader::{Decoder, ReaderBuilder};
use arrow_avro::schema::{AvroSchema, Fingerprint, FingerprintAlgorithm, SchemaStore};
use arrow_schema::{DataType, Field, Schema};
use kafkalog::internal::format::record::HeaderIter;
use kafkalog::internal::values::{DecodedColumn, DecodedPayloads};
use kafkalog::{
    Decode, GivenSchema, LogConfig, LogWriter, ReaderSchema, ScanOptions, SchemaFor, SchemaSource,
    scan,
};

#[path = "../../common/passes.rs"]
mod passes;

use passes::{chosen, on_processor};

const RECORDS: usize = 200_000;
const BATCH: usize = 8_192;
/// Values that a scan decodes side by side.
const BLOCK: usize = 16;
const SUBJECTS: usize = 10_000;

const FIELDS: &str = r#"
    {"name": "id", "type": "string"},
    {"name": "customer", "type": "string"},
    {"name": "status", "type": {"type": "enum", "name": "Status", "symbols": ["NEW", "PAID", "SENT", "BACK"]}},
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    {"name": "note", "type": ["null", "string"], "default": null},
    {"name": "place", "type": {"type": "record", "name": "Place", "fields": [
        {"name": "city", "type": "string"}, {"name": "zone", "type": "int"}]}},
    {"name": "lines", "type": {"type": "array", "items": "long"}},
    {"name": "amount", "type": "double"}"#;

fn schema(more: &str) -> String {
    format!(r#"{{"type": "record", "name": "Order", "fields": [{FIELDS}{more}]}}"#)
}

fn newer() -> String {
    schema(r#", {"name": "priority", "type": "int", "default": 3}"#)
}

fn two() -> String {
    r#"{"type": "record", "name": "Order", "fields": [
        {"name": "customer", "type": "string"}, {"name": "amount", "type": "double"}]}"#
        .to_owned()
}

fn put_long(value: i64, out: &mut Vec<u8>) {
    let mut rest = ((value << 1) ^ (value >> 63)).cast_unsigned();
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

fn put_text(text: &str, out: &mut Vec<u8>) {
    put_long(text.len() as i64, out);
    out.extend_from_slice(text.as_bytes());
}

/// Value `n` under the schema of this id; 2 has one more field.
fn value(n: usize, id: u32) -> Vec<u8> {
    let mut out = vec![0];
    out.extend_from_slice(&id.to_be_bytes());
    let n = n as i64;
    put_text(&format!("order-{n:08}"), &mut out);
    put_text(
        if n % 8 == 0 {
            "Žofie Nováková"
        } else {
            "Ada Lovelace"
        },
        &mut out,
    );
    put_long(n % 4, &mut out);
    put_long(1_700_000_000_000 + n * 137, &mut out);
    if n % 2 == 0 {
        put_long(0, &mut out);
    } else {
        put_long(1, &mut out);
        put_text("call first", &mut out);
    }
    put_text(
        ["Berlin", "Oslo", "Lisboa", "Gent"][n as usize % 4],
        &mut out,
    );
    put_long(n % 24, &mut out);
    if n % 3 > 0 {
        put_long(n % 3, &mut out);
        (0..n % 3).for_each(|line| put_long(n * 7 + line, &mut out));
    }
    put_long(0, &mut out);
    out.extend_from_slice(&(n as f64 / 8.0).to_le_bytes());
    if id == 2 {
        put_long(n % 9, &mut out);
    }
    out
}

/// All values, one after the other, and where each ends.
struct Values {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Values {
    fn new(id: impl Fn(usize) -> u32) -> Self {
        let mut all = Self {
            bytes: Vec::new(),
            ends: Vec::new(),
        };
        for n in 0..RECORDS {
            all.bytes.extend(value(n, id(n)));
            all.ends.push(all.bytes.len());
        }
        all
    }

    fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let mut begin = 0;
        self.ends.iter().map(move |&end| {
            let from = std::mem::replace(&mut begin, end);
            &self.bytes[from..end]
        })
    }
}

fn theirs(reader: &str) -> Decoder {
    let mut store = SchemaStore::new_with_type(FingerprintAlgorithm::Id);
    for (id, text) in [(1, schema("")), (2, newer())] {
        let fingerprint = Fingerprint::load_fingerprint_id(u32::from_be(id));
        store
            .set(fingerprint, AvroSchema::new(text))
            .expect("a schema");
    }
    let builder = ReaderBuilder::new().with_batch_size(BATCH);
    let builder = builder.with_writer_schema_store(store);
    let builder = builder.with_reader_schema(AvroSchema::new(reader.to_owned()));
    builder.build_decoder().expect("a decoder")
}

/// Decodes all values, and gives each batch away.
fn decode_theirs(decoder: &mut Decoder, values: &Values, mut take: impl FnMut(RecordBatch)) {
    let mut rest = &values.bytes[..];
    while !rest.is_empty() {
        let taken = decoder.decode(rest).expect("whole values");
        rest = &rest[taken..];
        if taken == 0 || decoder.batch_is_full() {
            decoder
                .flush()
                .expect("a batch")
                .into_iter()
                .for_each(&mut take);
        }
    }
    decoder.flush().expect("a batch").into_iter().for_each(take);
}

fn ours(reader: &str, wanted: &[&str]) -> DecodedPayloads {
    let (first, second) = (schema(""), newer());
    let wanted: Vec<Vec<String>> = wanted.iter().map(|name| vec![(*name).to_owned()]).collect();
    let schemas = [(1, &*first), (2, &*second)];
    DecodedPayloads::given(&schemas, &[], reader, &wanted).expect("a decoder")
}

/// Appends all values, and gives each batch away.
fn decode_ours<D>(
    decoder: &mut D,
    values: &Values,
    mut push: impl FnMut(&mut D, &[u8]),
    mut finish: impl FnMut(&mut D) -> ArrayRef,
    mut take: impl FnMut(ArrayRef),
) {
    for (at, value) in values.iter().enumerate() {
        push(decoder, value);
        if at % BATCH == BATCH - 1 {
            take(finish(decoder));
        }
    }
    take(finish(decoder));
}

fn push(decoder: &mut DecodedPayloads, value: &[u8]) {
    let headers = HeaderIter::new(&[], 0, 0);
    decoder.push(value, headers).expect("a whole value");
}

fn finish(decoder: &mut DecodedPayloads) -> ArrayRef {
    decoder.finish().expect("a column")
}

fn count_theirs(decoder: &mut Decoder, values: &Values) -> usize {
    let mut rows = 0;
    decode_theirs(decoder, values, |batch| rows += batch.num_rows());
    rows
}

fn count_ours(decoder: &mut DecodedPayloads, values: &Values) -> usize {
    let (mut rows, mut at) = (0, 0);
    let mut block = Vec::with_capacity(BLOCK);
    for value in values.iter() {
        block.push(value);
        at += 1;
        if block.len() == BLOCK || at == RECORDS {
            decoder.push_block(&block);
            block.clear();
        }
        if at % BATCH == 0 || at == RECORDS {
            rows += finish(decoder).len();
        }
    }
    rows
}

fn count_texts(decoder: &mut DecodedColumn, program: usize, values: &Values) -> usize {
    let push = |decoder: &mut DecodedColumn, value: &[u8]| {
        decoder.push(program, &value[5..]).expect("a whole value");
    };
    let finish = |decoder: &mut DecodedColumn| decoder.finish().expect("a column");
    let mut rows = 0;
    decode_ours(decoder, values, push, finish, |column| rows += column.len());
    rows
}

/// Checks that both decode the same, where the types are the same.
fn compare(reader: &str, wanted: &[&str], values: &Values) {
    let (mut left, mut right) = (Vec::new(), Vec::new());
    decode_theirs(&mut theirs(reader), values, |batch| left.push(batch));
    decode_ours(&mut ours(reader, wanted), values, push, finish, |column| {
        right.push(column)
    });
    let mut equal = 0;
    for (theirs, ours) in left.iter().zip(&right) {
        let ours = RecordBatch::from(arrow_array::cast::AsArray::as_struct(&**ours));
        assert_eq!(theirs.num_rows(), ours.num_rows());
        for (field, column) in theirs.schema().fields().iter().zip(theirs.columns()) {
            let own = ours.column_by_name(field.name()).expect("the same fields");
            if own.data_type() == column.data_type() {
                assert_eq!(own, column, "{}", field.name());
                equal += 1;
            }
        }
    }
    assert!(equal > left.len(), "{equal}");
}

fn log(values: &Values) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a folder");
    let mut writer = LogWriter::open(dir.path(), "orders", 0, LogConfig::default()).expect("a log");
    let all: Vec<&[u8]> = values.iter().collect();
    let fields = Schema::new(vec![Field::new("value", DataType::Binary, true)]);
    let fields = Arc::new(fields);
    for chunk in all.chunks(10_000) {
        let column: ArrayRef = Arc::new(BinaryArray::from_vec(chunk.to_vec()));
        let rows = RecordBatch::try_new(Arc::clone(&fields), vec![column]).expect("rows");
        writer.append(&rows).expect("an append");
    }
    drop(writer);
    dir
}

fn scanned(dir: &std::path::Path, decode: bool) -> usize {
    let mut options = ScanOptions::new().columns(["value"]);
    if decode {
        let given = [(1, schema("")), (2, newer())];
        let given = given.map(|(id, text)| GivenSchema::new(SchemaFor::Id(id), text));
        options = options.decode(Decode::Value);
        options = options.schemas(SchemaSource::Given(given.into()));
        options = options.reader_schema(ReaderSchema::Text(schema("")));
    }
    let batches = scan(dir, options).expect("a scan");
    batches
        .map(|batch| batch.expect("a batch").num_rows())
        .sum()
}

/// A log dir with the topic of a registry of 10,000 subjects.
fn registry() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a folder");
    let mut writer =
        LogWriter::open(dir.path(), "_schemas", 0, LogConfig::default()).expect("a log");
    let text = schema("").replace('\n', "").replace('"', "\\\"");
    let (mut keys, mut values) = (Vec::new(), Vec::new());
    for n in 0..SUBJECTS {
        let subject = if n == 0 {
            "orders-value".to_owned()
        } else {
            format!("topic-{n}-value")
        };
        keys.push(format!(
            r#"{{"keytype":"SCHEMA","subject":"{subject}","version":1,"magic":1}}"#
        ));
        let text = text.replace("Order", &format!("Order{n}"));
        values.push(format!(
            r#"{{"subject":"{subject}","version":1,"id":{},"schema":"{text}","deleted":false}}"#,
            n + 1
        ));
    }
    let fields = ["key", "value"].map(|name| Field::new(name, DataType::Binary, true));
    let column = |texts: &[String]| -> ArrayRef { Arc::new(BinaryArray::from_iter_values(texts)) };
    let columns = vec![column(&keys), column(&values)];
    let fields = Arc::new(Schema::new(fields.to_vec()));
    let rows = RecordBatch::try_new(fields, columns).expect("rows");
    writer.append(&rows).expect("an append");
    dir
}

/// Replays that topic and decodes the first value.
fn replayed(dir: &std::path::Path, registry: &std::path::Path) -> usize {
    let options = ScanOptions::new()
        .columns(["value"])
        .decode(Decode::Value)
        .limit(1);
    let options = options.schemas(SchemaSource::LogDirs(vec![registry.to_owned()]));
    let batches = scan(dir, options).expect("a scan");
    batches
        .map(|batch| batch.expect("a batch").num_rows())
        .sum()
}

type Leg<'a> = (&'a str, Box<dyn FnMut() -> usize + 'a>);

fn main() {
    let (one, in_turns) = (Values::new(|_| 1), Values::new(|n| n as u32 % 2 + 1));
    let newer_only = Values::new(|_| 2);
    let (first, second) = (schema(""), newer());
    let length = one.bytes.len() / RECORDS - 5;
    println!("{RECORDS} values of {length} bytes and the prefix; ns a value, processor time");
    compare(&first, &[], &one);
    compare(&two(), &[], &one);
    compare(&second, &[], &one);
    let dir = log(&one);
    let mut texts = DecodedColumn::avro(None, &[]).expect("a decoder");
    let program = texts.compile(&[first.clone()]).expect("a schema");

    let mut their_one = theirs(&first);
    let mut their_two = theirs(&two());
    let mut their_new = theirs(&second);
    let mut our_one = ours(&first, &[]);
    let mut our_two = ours(&first, &["customer", "amount"]);
    let mut our_old = ours(&second, &[]);
    let mut our_new = ours(&second, &[]);
    let mut our_turns = ours(&second, &[]);
    let legs: Vec<Leg<'_>> = vec![
        ("theirs", Box::new(|| count_theirs(&mut their_one, &one))),
        ("ours", Box::new(|| count_ours(&mut our_one, &one))),
        ("theirs 2", Box::new(|| count_theirs(&mut their_two, &one))),
        ("ours 2", Box::new(|| count_ours(&mut our_two, &one))),
        ("theirs v2", Box::new(|| count_theirs(&mut their_new, &one))),
        ("ours v2", Box::new(|| count_ours(&mut our_old, &one))),
        (
            "ours new",
            Box::new(|| count_ours(&mut our_new, &newer_only)),
        ),
        ("turns", Box::new(|| count_ours(&mut our_turns, &in_turns))),
        ("text", Box::new(|| count_texts(&mut texts, program, &one))),
        ("bytes", Box::new(|| scanned(dir.path(), false))),
        ("scan", Box::new(|| scanned(dir.path(), true))),
    ];
    if chosen("LEGS", "schemas") {
        let registry = registry();
        let took = (0..5).map(|_| {
            let began = on_processor();
            assert_eq!(replayed(dir.path(), registry.path()), 1);
            (on_processor() - began) as f64 / 1e6
        });
        let took: Vec<f64> = took.collect();
        println!(
            "schemas of {SUBJECTS} subjects replayed: {:.1} ms",
            median(&took)
        );
    }
    let mut legs: Vec<_> = legs
        .into_iter()
        .filter(|(name, _)| chosen("LEGS", name))
        .collect();
    let rounds = std::env::var("ROUNDS")
        .ok()
        .and_then(|rounds| rounds.parse().ok());
    let rounds: usize = rounds.unwrap_or(9);
    let mut times = vec![Vec::new(); legs.len()];
    for round in 0..=rounds {
        for ((_, leg), times) in legs.iter_mut().zip(&mut times) {
            let began = on_processor();
            assert_eq!(leg(), RECORDS);
            // The first round warms up.
            if round > 0 {
                times.push((on_processor() - began) as f64 / RECORDS as f64);
            }
        }
    }
    let first = times.first().map(|times| median(times));
    for ((name, _), times) in legs.iter().zip(&times) {
        let took = median(times);
        println!("{name:10} {took:8.1}  {:5.2}", took / first.unwrap_or(took));
    }
}

fn median(times: &[f64]) -> f64 {
    let mut sorted = times.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or_default()
}
