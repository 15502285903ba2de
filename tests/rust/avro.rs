//! Avro payloads that a real broker kept, with the answers of fastavro and of Java's `GenericDatumReader`:
//! `tests/golden/avro.jsonl.gz`, or more of them in the file that `KAFKALOG_AVRO_CASES` names. `tests/avro_cases.py`
//! writes both.

use std::collections::HashMap;
use std::io::Read;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Float32Type, Float64Type, Int32Type, Int64Type, Time64MicrosecondType,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
};
use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, TimeUnit};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use kafkalog::internal::values::DecodedColumn;
use serde_json::{Value, json};

use crate::common::{Chance, first_seed, pick, root};
use crate::protobuf::parsed;

struct Case {
    at: String,
    writer: usize,
    reader: Option<usize>,
    body: Vec<u8>,
    line: Value,
}

struct Cases {
    schemas: Vec<Vec<String>>,
    payloads: Vec<Case>,
}

fn cases() -> Cases {
    let golden = root().join("tests/golden/avro.jsonl.gz");
    let path = std::env::var_os("KAFKALOG_AVRO_CASES").map_or(golden, Into::into);
    let mut text = String::new();
    let file = std::fs::File::open(path).unwrap();
    flate2::read::GzDecoder::new(file)
        .read_to_string(&mut text)
        .unwrap();
    let (mut schemas, mut payloads) = (Vec::new(), Vec::new());
    for line in text.lines() {
        let line = parsed(line);
        let number = |name: &str| {
            let number = line.get(name).and_then(Value::as_u64);
            number.map(|number| usize::try_from(number).unwrap())
        };
        if number("schema").is_some() {
            schemas.push(serde_json::from_value(line["texts"].clone()).unwrap());
            continue;
        }
        payloads.push(Case {
            at: line["at"].as_str().unwrap().to_owned(),
            writer: number("writer").unwrap(),
            reader: number("reader"),
            body: BASE64_STANDARD
                .decode(line["body"].as_str().unwrap())
                .unwrap(),
            line,
        });
    }
    Cases { schemas, payloads }
}

/// A number as JSON, in the form of the witnesses.
fn float(value: f64) -> Value {
    match value {
        _ if value.is_nan() => json!("NaN"),
        f64::INFINITY => json!("Infinity"),
        f64::NEG_INFINITY => json!("-Infinity"),
        _ => json!(value),
    }
}

/// A program, or the name and text of the fault.
type Compiled = Result<usize, (&'static str, String)>;

/// Compares a row with the value of the witnesses. `is_union`: a null-union, whose value they name by its branch.
#[expect(
    clippy::too_many_lines,
    reason = "a line or two for each type of Arrow"
)]
fn same(column: &ArrayRef, row: usize, want: &Value, is_union: bool) -> bool {
    if want.is_null() || column.data_type() == &DataType::Null {
        return want.is_null() && (column.is_null(row) || column.data_type() == &DataType::Null);
    }
    if column.is_null(row) {
        return false;
    }
    let branch = |want: &Value| match want {
        Value::Object(members) if members.len() == 1 => members.values().next().cloned(),
        _ => None,
    };
    if let Some(rows) = column.as_struct_opt() {
        let Value::Object(members) = want else {
            return false;
        };
        let fields = rows.fields().iter().zip(rows.columns());
        let is_record = members.len() == rows.num_columns()
            && fields
                .clone()
                .all(|(field, _)| members.contains_key(field.name()));
        if is_record {
            let mut fields = fields;
            return fields.all(|(field, child)| {
                let want = &members[field.name()];
                same(child, row, want, field.is_nullable())
                    || rows.num_columns() == 1 && same(child, row, want, false)
            });
        }
        let named = members.keys().next().filter(|_| members.len() == 1);
        let named = named.filter(|name| rows.column_by_name(name).is_some());
        return match named {
            Some(name) => fields.into_iter().all(|(field, child)| {
                if field.name() == name {
                    same(child, row, &members[name], false)
                } else {
                    child.is_null(row)
                }
            }),
            None => is_union && branch(want).is_some_and(|want| same(column, row, &want, false)),
        };
    }
    if is_union {
        return branch(want).is_some_and(|want| same(column, row, &want, false));
    }
    let list = |items: ArrayRef, want: &Value, nullable: bool| {
        let want = want.as_array().unwrap();
        items.len() == want.len()
            && (0..items.len()).all(|at| same(&items, at, &want[at], nullable))
    };
    let number = |value: i64| json!(value) == *want;
    match column.data_type() {
        DataType::Boolean => json!(column.as_boolean().value(row)) == *want,
        DataType::Int32 => number(column.as_primitive::<Int32Type>().value(row).into()),
        DataType::Int64 => number(column.as_primitive::<Int64Type>().value(row)),
        DataType::Date32 => number(column.as_primitive::<Date32Type>().value(row).into()),
        DataType::Time64(_) => {
            let micros = column.as_primitive::<Time64MicrosecondType>().value(row);
            number(micros) || micros % 1_000 == 0 && number(micros / 1_000)
        }
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            number(column.as_primitive::<TimestampMillisecondType>().value(row))
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            number(column.as_primitive::<TimestampMicrosecondType>().value(row))
        }
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            number(column.as_primitive::<TimestampNanosecondType>().value(row))
        }
        DataType::Float32 => {
            let value = f64::from(column.as_primitive::<Float32Type>().value(row));
            let text = float(value).to_string();
            text == float_text(want)
        }
        DataType::Float64 => {
            let value = column.as_primitive::<Float64Type>().value(row);
            let text = float(value).to_string();
            text == float_text(want)
        }
        DataType::Utf8 => json!(column.as_string::<i32>().value(row)) == *want,
        DataType::Binary => base64(column.as_binary::<i32>().value(row)) == *want,
        DataType::FixedSizeBinary(_) => base64(column.as_fixed_size_binary().value(row)) == *want,
        DataType::Decimal128(..) => {
            let decimals = column.as_primitive::<arrow_array::types::Decimal128Type>();
            json!(decimals.value_as_string(row)) == *want
        }
        DataType::Decimal256(..) => {
            let decimals = column.as_primitive::<arrow_array::types::Decimal256Type>();
            json!(decimals.value_as_string(row)) == *want
        }
        DataType::List(item) => list(column.as_list::<i32>().value(row), want, item.is_nullable()),
        DataType::Map(entries, _) => {
            let DataType::Struct(fields) = entries.data_type() else {
                return false;
            };
            let rows = column.as_map().value(row);
            let keys = rows.column(0).as_string::<i32>();
            let members = want.as_object().unwrap();
            rows.len() == members.len()
                && (0..rows.len()).all(|at| {
                    let want = members.get(keys.value(at));
                    let is_union = fields[1].is_nullable();
                    want.is_some_and(|want| same(rows.column(1), at, want, is_union))
                })
        }
        other => panic!("{other}"),
    }
}

/// Integers and floats of one value are the same number.
fn float_text(want: &Value) -> String {
    match want.as_f64() {
        Some(number) => float(number).to_string(),
        None => want.to_string(),
    }
}

fn base64(bytes: &[u8]) -> Value {
    json!(BASE64_STANDARD.encode(bytes))
}

/// The causes that are right where there is no value.
fn causes(case: &Case) -> Vec<String> {
    let line = &case.line;
    let mut right: Vec<String> = ["error", "readError"]
        .iter()
        .filter_map(|name| line[name].as_str().map(str::to_owned))
        .collect();
    let more = line["errors"].as_array().into_iter().flatten();
    right.extend(more.map(|cause| cause.as_str().unwrap().to_owned()));
    right
}

/// Decodes every payload under its reader schema, or its own.
#[test]
fn structs_are_those_of_the_witnesses() {
    let Cases { schemas, payloads } = cases();
    let mut decoders: HashMap<usize, Result<DecodedColumn, (&str, String)>> = HashMap::new();
    let mut programs: HashMap<(usize, usize), Compiled> = HashMap::new();
    let (mut compared, mut refused, mut wrong) = (0, 0, Vec::new());
    for case in &payloads {
        let reader = case.reader.unwrap_or(case.writer);
        let decoder = decoders
            .entry(reader)
            .or_insert_with(|| DecodedColumn::avro(Some(&schemas[reader]), &[]));
        let want = if case.reader.is_some() {
            &case.line["read"]
        } else {
            &case.line["value"]
        };
        let decoder = match decoder {
            Ok(decoder) => decoder,
            Err((cause, text)) => {
                assert_eq!(*cause, "bad_schema", "{text}");
                assert!(text.contains("refers to itself"), "{}: {text}", case.at);
                refused += 1;
                continue;
            }
        };
        let program = programs
            .entry((reader, case.writer))
            .or_insert_with(|| decoder.compile(&schemas[case.writer]));
        let done = program
            .clone()
            .and_then(|program| decoder.push(program, &case.body));
        let is_unread = case.reader.is_some() && case.line.get("readError").is_some();
        let is_whole = case.line.get("error").is_none() && !is_unread;
        let right = match &done {
            Ok(()) => {
                let column = decoder.finish().unwrap();
                let skipped = case.at.contains("poison-skipped")
                    && case.line["error"] == json!("invalid_utf8");
                skipped || is_whole && same(&column, 0, want, column_is_union(&schemas[reader]))
            }
            Err((cause, text)) => {
                decoder.finish().unwrap();
                causes(case).iter().any(|right| right == cause)
                    // A certain conflict comes before damage.
                    || program.is_err() && *cause == "incompatible" && !is_whole
                    || case.at.contains("logical-odd") && text.contains("no ")
            }
        };
        compared += 1;
        if !right {
            wrong.push(format!(
                "{}: {done:?}, want {want} or {:?}",
                case.at,
                causes(case)
            ));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {compared}:\n{}",
        wrong.len(),
        wrong[..wrong.len().min(20)].join("\n")
    );
    assert!(compared > 200 && refused > 3, "{compared}, {refused}");
}

/// Decodes payloads of several schemas under one reader schema, one by one and in blocks: the same column, rows of
/// unions and of nulls in turns included.
#[test]
fn blocks_are_those_of_single_values() {
    let Cases { schemas, payloads } = cases();
    let mut chance = Chance(first_seed());
    let mut compared = 0;
    for (reader, texts) in schemas.iter().enumerate() {
        let Ok(mut decoder) = DecodedColumn::avro(Some(texts), &[]) else {
            continue;
        };
        let of_reader = |case: &&Case| case.reader.unwrap_or(case.writer) == reader;
        let mut programs = HashMap::new();
        let mut values: Vec<(usize, &[u8])> = Vec::new();
        for case in payloads.iter().filter(of_reader) {
            let program = programs
                .entry(case.writer)
                .or_insert_with(|| decoder.compile(&schemas[case.writer]));
            if let Ok(program) = program
                && decoder.push(*program, &case.body).is_ok()
            {
                values.push((*program, &case.body));
            }
        }
        decoder.finish().unwrap();
        for _ in 0..if values.is_empty() {
            0
        } else {
            pick(2, 20, 200)
        } {
            let rows: Vec<_> = (0..=chance.below(40))
                .map(|_| values[chance.below(values.len())])
                .collect();
            for (program, value) in &rows {
                decoder.push(*program, value).unwrap();
            }
            let singly = decoder.finish().unwrap();
            for block in rows.chunks(1 + chance.below(16)) {
                assert!(decoder.push_block(block));
            }
            assert_eq!(&decoder.finish().unwrap(), &singly, "schema {reader}");
            compared += 1;
        }
    }
    assert!(compared > 100, "{compared}");
}

fn column_is_union(texts: &[String]) -> bool {
    texts.last().unwrap().trim_start().starts_with('[')
}

/// Decodes every payload under its own schema into JSON.
#[test]
fn texts_are_those_of_the_witnesses() {
    let Cases { schemas, payloads } = cases();
    let mut decoder = DecodedColumn::avro(None, &[]).unwrap();
    let programs: Vec<usize> = schemas
        .iter()
        .map(|texts| decoder.compile(texts).unwrap())
        .collect();
    let mut wrong = Vec::new();
    for case in &payloads {
        let done = decoder.push(programs[case.writer], &case.body);
        let column = decoder.finish().unwrap();
        let right = match &done {
            Ok(()) => {
                let text = column.as_string::<i32>().value(0);
                let found = parsed(text);
                case.line.get("error").is_none() && normal(&found) == normal(&case.line["value"])
            }
            Err((cause, text)) => {
                causes(case).iter().any(|right| right == cause)
                    || case.at.contains("rec-deep") && text.contains("deeper")
            }
        };
        if !right {
            wrong.push(format!(
                "{}: {done:?}, want {}",
                case.at, case.line["value"]
            ));
        }
    }
    assert!(
        wrong.is_empty(),
        "{}:\n{}",
        wrong.len(),
        wrong[..wrong.len().min(20)].join("\n")
    );
}

/// JSON with all numbers that are not integers as text of their bits.
fn normal(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(normal).collect(),
        Value::Object(members) => {
            let members = members.iter();
            Value::Object(members.map(|(k, v)| (k.clone(), normal(v))).collect())
        }
        Value::Number(number) if number.is_f64() => {
            json!(format!("{:x}", number.as_f64().unwrap().to_bits()))
        }
        other => other.clone(),
    }
}

/// Damages each payload: truncated, extended, a bit flipped. Columns and text agree on whether there is a value, and the
/// rows beside it stay as they were.
#[test]
fn a_damaged_value_touches_no_other() {
    let Cases { schemas, payloads } = cases();
    let mut chance = Chance(first_seed());
    let mut texts = DecodedColumn::avro(None, &[]).unwrap();
    let mut decoders = HashMap::new();
    let most = pick(8, 1_000, 20_000);
    for case in &payloads {
        if case.line.get("error").is_some() {
            continue;
        }
        let made = decoders.entry(case.writer).or_insert_with(|| {
            let mut decoder = DecodedColumn::avro(Some(&schemas[case.writer]), &[]).ok()?;
            let program = decoder.compile(&schemas[case.writer]).unwrap();
            Some((
                decoder,
                program,
                texts.compile(&schemas[case.writer]).unwrap(),
            ))
        });
        let Some((decoder, program, text_program)) = made else {
            continue;
        };
        if decoder.push(*program, &case.body).is_err() {
            assert!(case.at.contains("logical-odd"), "{}", case.at);
            decoder.finish().unwrap();
            continue;
        }
        let alone = decoder.finish().unwrap();
        let length = case.body.len();
        // Truncations, an extension, and flipped bits, by number: long payloads have too many to hold them all.
        let all = length + 1 + length * 8;
        let chosen: Vec<usize> = if all <= most {
            (0..all).collect()
        } else {
            (0..most).map(|_| chance.below(all)).collect()
        };
        for damage in chosen {
            let mut body = case.body.clone();
            match damage.checked_sub(length + 1) {
                Some(bit) => body[bit / 8] ^= 1 << (bit % 8),
                None if damage == length => body.push(0),
                None => body.truncate(damage),
            }
            let is_value = texts.push(text_program.to_owned(), &body);
            decoder.push(*program, &case.body).unwrap();
            let found = decoder.push(*program, &body);
            decoder.push(*program, &case.body).unwrap();
            let column = decoder.finish().unwrap();
            let block = [&case.body, &body, &case.body].map(|body| (*program, &**body));
            let is_done = decoder.push_block(&block);
            assert_eq!(is_done, found.is_ok(), "{}: {found:?}", case.at);
            let side_by_side = decoder.finish().unwrap();
            if is_done {
                assert_eq!(&side_by_side, &column, "{}", case.at);
            } else {
                assert_eq!(side_by_side.len(), 0);
            }
            assert_eq!(column.len(), 3);
            assert_eq!(&column.slice(0, 1), &alone, "{}", case.at);
            assert_eq!(&column.slice(2, 1), &alone, "{}", case.at);
            // Decimals and times may be beyond what Arrow's types hold.
            let beyond = |text: &str| text.contains("no decimal") || text.contains("no time");
            match (&is_value, &found) {
                (Ok(()), Err((_, text))) => assert!(beyond(text), "{}: {text}", case.at),
                (Err((cause, _)), Err((other, text))) => {
                    assert!(
                        // Behind what no column holds, damage is looked for without reading texts.
                        cause == other || beyond(text) || *cause == "invalid_utf8",
                        "{}: {cause} {text}",
                        case.at
                    );
                }
                (Err(fault), Ok(())) => panic!("{}: {fault:?}", case.at),
                (Ok(()), Ok(())) => {}
            }
        }
        texts.finish().unwrap();
    }
}
