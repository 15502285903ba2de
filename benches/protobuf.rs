//! Nanoseconds a record of Protobuf and JSON, 8 fields and about 70 bytes: `cargo bench --bench protobuf`.

#![expect(
    clippy::print_stdout,
    clippy::expect_used,
    clippy::arithmetic_side_effects,
    clippy::cast_precision_loss,
    reason = "a bench prints, and may stop"
)]

use std::time::Instant;

use kafkalog::internal::values::DecodedColumn;

const ROWS: usize = 100_000;
const RUNS: usize = 15;

const PROTO: &str = r#"syntax = "proto3";
message Order {
  string id = 1;
  string name = 2;
  Color color = 3;
  int64 at = 4;
  optional string note = 5;
  Place place = 6;
  repeated int32 items = 7;
  double price = 8;
  message Place { int32 x = 1; int32 y = 2; }
  enum Color { RED = 0; GREEN = 1; BLUE = 2; }
}"#;

const JSON: &str = r#"{"type":"object","properties":{"id":{"type":"string"},"at":{"type":"integer"},
    "price":{"type":"number"},"name":{"type":"string"}}}"#;

fn put(to: &mut Vec<u8>, number: u8, bytes: &[u8]) {
    to.push(number << 3 | 2);
    to.push(u8::try_from(bytes.len()).expect("short"));
    to.extend_from_slice(bytes);
}

fn varint(to: &mut Vec<u8>, mut value: u64) {
    while value > 127 {
        to.push(u8::try_from(value & 127).expect("seven bits") | 128);
        value >>= 7;
    }
    to.push(u8::try_from(value).expect("seven bits"));
}

fn order(i: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    put(&mut bytes, 1, format!("order-{i:08}").as_bytes());
    put(&mut bytes, 2, b"Some Customer");
    bytes.extend_from_slice(&[3 << 3, 2, 4 << 3]);
    varint(&mut bytes, 1_700_000_000_000 + i as u64);
    put(&mut bytes, 5, b"leave it");
    put(&mut bytes, 6, &[8, 5, 16, 7]);
    put(&mut bytes, 7, &[1, 2, 3]);
    bytes.push(8 << 3 | 1);
    bytes.extend_from_slice(&(i as f64).to_bits().to_be_bytes());
    bytes
}

fn time(name: &str, column: Result<DecodedColumn, (&str, String)>, schema: &str, rows: &[Vec<u8>]) {
    let mut column = column.expect("a schema");
    let program = column.compile_named(schema, &[]).expect("a schema");
    let mut best = f64::MAX;
    for _ in 0..RUNS {
        let start = Instant::now();
        for batch in rows.chunks(8192) {
            for row in batch {
                column.push(program, row).expect("a value");
            }
            column.finish().expect("a column");
        }
        best = best.min(start.elapsed().as_nanos() as f64 / rows.len() as f64);
    }
    let bytes = rows.iter().map(Vec::len).sum::<usize>() / rows.len();
    println!(
        "{name:<28} {best:7.1} ns a record, {:5.2} M/s, {bytes} bytes",
        1e3 / best
    );
}

fn main() {
    let rows: Vec<_> = (0..ROWS).map(order).collect();
    let two = [vec!["id".to_owned()], vec!["at".to_owned()]];
    let reader = Some((PROTO, &[][..]));
    time(
        "protobuf",
        DecodedColumn::protobuf(reader, &[]),
        PROTO,
        &rows,
    );
    time(
        "protobuf, 2 of 8 fields",
        DecodedColumn::protobuf(reader, &two),
        PROTO,
        &rows,
    );
    time(
        "protobuf as JSON",
        DecodedColumn::protobuf(None, &[]),
        PROTO,
        &rows,
    );
    let row =
        |i| format!(r#"{{"id":"order-{i:08}","at":{i},"price":{i}.5,"name":"Some Customer"}}"#);
    let rows: Vec<_> = (0..ROWS).map(|i| row(i).into_bytes()).collect();
    time(
        "json",
        DecodedColumn::json(Some((JSON, &[])), &[]),
        JSON,
        &rows,
    );
    time("json as it is", DecodedColumn::json(None, &[]), JSON, &rows);
}
