//! Protobuf payloads that a real broker kept, with the answers of google.protobuf and its `json_format`:
//! `tests/golden/protobuf.jsonl.gz`, or more of them in the file that `KAFKALOG_PROTOBUF_CASES` names.
//! `tests/value_cases.py` writes both.

use std::collections::HashMap;
use std::io::Read;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Float32Type, Float64Type, Int32Type, Int64Type, TimestampMicrosecondType, UInt32Type,
    UInt64Type,
};
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use kafkalog::internal::values::DecodedColumn;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::common::{Chance, first_seed, pick, root};

pub struct Text {
    pub text: String,
    pub references: Vec<(String, String)>,
}

pub struct Case {
    pub at: String,
    pub writer: usize,
    pub reader: Option<usize>,
    message: Vec<i32>,
    pub body: Vec<u8>,
    pub line: Value,
}

/// JSON of any depth.
pub fn parsed(text: &str) -> Value {
    let mut json = serde_json::Deserializer::from_str(text);
    json.disable_recursion_limit();
    Value::deserialize(&mut json).unwrap()
}

fn cases() -> (Vec<Text>, Vec<Case>) {
    cases_of("protobuf", "KAFKALOG_PROTOBUF_CASES")
}

/// The cases of a format: its golden ones, or those of the file that a variable names.
pub fn cases_of(format: &str, variable: &str) -> (Vec<Text>, Vec<Case>) {
    let golden = root().join(format!("tests/golden/{format}.jsonl.gz"));
    let path = std::env::var_os(variable).map_or(golden, Into::into);
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
            schemas.push(Text {
                text: line["text"].as_str().unwrap().to_owned(),
                references: serde_json::from_value(line["references"].clone()).unwrap(),
            });
            continue;
        }
        payloads.push(Case {
            at: line["at"].as_str().unwrap().to_owned(),
            writer: number("writer").unwrap(),
            reader: number("reader"),
            message: serde_json::from_value(line["message"].clone()).unwrap(),
            body: BASE64_STANDARD
                .decode(line["body"].as_str().unwrap())
                .unwrap(),
            line,
        });
    }
    (schemas, payloads)
}

pub type Fault = (&'static str, String);

fn structs(schema: &Text) -> Result<DecodedColumn, Fault> {
    DecodedColumn::protobuf(Some((&schema.text, &schema.references)), &[])
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

/// JSON with all numbers as the text of a float's bits, or of an integer.
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

/// Compares a row with the fields of the witnesses; text of JSON with that of `json_format`, where there is one.
fn same(column: &ArrayRef, row: usize, want: &Value, json: Option<&Value>) -> bool {
    if want.is_null() || column.is_null(row) {
        return want.is_null() && column.is_null(row);
    }
    let is_json = |text: &str| json.is_none_or(|json| normal(&parsed(text)) == normal(json));
    let wrapped = match want {
        Value::Object(members) if members.len() == 1 => members.get("value"),
        _ => None,
    };
    let scalar = wrapped.unwrap_or(want);
    match column.data_type() {
        DataType::Struct(fields) => {
            let rows = column.as_struct();
            let members = want.as_object().unwrap();
            members.len() == fields.len()
                && fields.iter().zip(rows.columns()).all(|(field, child)| {
                    let json = json.and_then(|json| json.get(field.name()));
                    members
                        .get(field.name())
                        .is_some_and(|want| same(child, row, want, json))
                })
        }
        DataType::List(_) => {
            let items = column.as_list::<i32>().value(row);
            let want = want.as_array().unwrap();
            items.len() == want.len()
                && (0..items.len())
                    .all(|at| same(&items, at, &want[at], json.and_then(|json| json.get(at))))
        }
        DataType::Map(..) => {
            let rows = column.as_map().value(row);
            let members = want.as_object().unwrap();
            rows.len() == members.len()
                && (0..rows.len()).all(|at| {
                    let key = key_text(rows.column(0), at);
                    let json = json.and_then(|json| json.get(&key));
                    let want = members.get(&key);
                    want.is_some_and(|want| same(rows.column(1), at, want, json))
                })
        }
        DataType::Timestamp(..) => {
            let value = column.as_primitive::<TimestampMicrosecondType>().value(row);
            let whole = value.rem_euclid(1_000_000);
            want["seconds"] == json!(value.div_euclid(1_000_000))
                && want["nanos"].as_i64().unwrap() / 1000 == whole
        }
        DataType::Utf8 => {
            let text = column.as_string::<i32>().value(row);
            match scalar {
                Value::String(want) => text == want,
                // A number of an open enum without a name.
                Value::Number(want) => text == want.to_string(),
                _ => is_json(text),
            }
        }
        DataType::Boolean => json!(column.as_boolean().value(row)) == *scalar,
        DataType::Int32 => json!(column.as_primitive::<Int32Type>().value(row)) == *scalar,
        DataType::Int64 => json!(column.as_primitive::<Int64Type>().value(row)) == *scalar,
        DataType::UInt32 => json!(column.as_primitive::<UInt32Type>().value(row)) == *scalar,
        DataType::UInt64 => json!(column.as_primitive::<UInt64Type>().value(row)) == *scalar,
        DataType::Float32 => {
            let value = column.as_primitive::<Float32Type>().value(row).into();
            normal(&float(value)) == normal(scalar)
        }
        DataType::Float64 => {
            let value = column.as_primitive::<Float64Type>().value(row);
            normal(&float(value)) == normal(scalar)
        }
        DataType::Binary => {
            json!(BASE64_STANDARD.encode(column.as_binary::<i32>().value(row))) == *scalar
        }
        other => panic!("{other}"),
    }
}

fn key_text(keys: &ArrayRef, at: usize) -> String {
    match keys.data_type() {
        DataType::Utf8 => keys.as_string::<i32>().value(at).to_owned(),
        DataType::Boolean => keys.as_boolean().value(at).to_string(),
        DataType::Int32 => keys.as_primitive::<Int32Type>().value(at).to_string(),
        DataType::Int64 => keys.as_primitive::<Int64Type>().value(at).to_string(),
        DataType::UInt32 => keys.as_primitive::<UInt32Type>().value(at).to_string(),
        DataType::UInt64 => keys.as_primitive::<UInt64Type>().value(at).to_string(),
        other => panic!("{other}"),
    }
}

/// The causes that are right where there is no value.
pub fn causes(case: &Case) -> Vec<&str> {
    let line = &case.line;
    let named = ["error", "readError"]
        .into_iter()
        .filter_map(|name| line[name].as_str());
    let more = line["errors"].as_array().into_iter().flatten();
    named.chain(more.filter_map(Value::as_str)).collect()
}

pub fn show(wrong: &[String], compared: usize) {
    assert!(
        wrong.is_empty(),
        "{} of {compared}:\n{}",
        wrong.len(),
        wrong[..wrong.len().min(20)].join("\n")
    );
}

/// Decodes every payload under its reader schema, or its own.
#[test]
fn structs_are_those_of_google_protobuf() {
    let (schemas, payloads) = cases();
    let mut decoders: HashMap<usize, Result<DecodedColumn, Fault>> = HashMap::new();
    let (mut compared, mut whole, mut wrong) = (0, 0, Vec::new());
    for case in &payloads {
        let reader = case.reader.unwrap_or(case.writer);
        let decoder = decoders
            .entry(reader)
            .or_insert_with(|| structs(&schemas[reader]));
        let want = &case.line[if case.reader.is_some() {
            "read"
        } else {
            "value"
        }];
        let decoder = match decoder {
            Ok(decoder) => decoder,
            Err((cause, text)) => {
                assert_eq!(*cause, "bad_schema", "{text}");
                assert!(case.at.contains("editions"), "{}: {text}", case.at);
                continue;
            }
        };
        let writer = &schemas[case.writer];
        let program = decoder
            .compile_named(&writer.text, &writer.references)
            .unwrap();
        let before = decoder.unknown_fields();
        let done = decoder.push_message(program, &case.message, &case.body);
        let column = decoder.finish().unwrap();
        if done.is_ok() && reader == case.writer {
            let unknown = decoder.unknown_fields() - before;
            assert_eq!(json!(unknown), case.line["unknown"], "{}", case.at);
        }
        let is_whole = case.line.get("error").is_none()
            && (case.reader.is_none() || case.line.get("readError").is_none());
        // `json` is that of the writer schema.
        let json = Some(&case.line["json"]).filter(|json| json.get("jsonError").is_none());
        let json = json.filter(|_| case.reader.is_none_or(|reader| reader == case.writer));
        let right = match &done {
            Ok(()) => is_whole && same(&column, 0, want, json),
            Err((cause, text)) => {
                causes(case).contains(cause)
                    || is_whole && *cause == "no_such_message" && text.contains("decode_as")
            }
        };
        compared += 1;
        whole += usize::from(done.is_ok());
        if !right {
            wrong.push(format!(
                "{}: {done:?}, want {want} or {:?}, found {column:?}",
                case.at,
                causes(case)
            ));
        }
    }
    show(&wrong, compared);
    assert!(whole > 60, "{whole} of {compared}");
}

/// Decodes every payload under its own schema into JSON.
#[test]
fn texts_are_those_of_json_format() {
    let (schemas, payloads) = cases();
    let mut decoder = DecodedColumn::protobuf(None, &[]).unwrap();
    let mut programs = Vec::new();
    for schema in &schemas {
        programs.push(decoder.compile_named(&schema.text, &schema.references));
    }
    let (mut compared, mut wrong) = (0, Vec::new());
    for case in &payloads {
        let program = match &programs[case.writer] {
            Ok(program) => *program,
            Err((_, text)) => {
                assert!(case.at.contains("editions"), "{}: {text}", case.at);
                continue;
            }
        };
        let before = decoder.unknown_fields();
        let done = decoder.push_message(program, &case.message, &case.body);
        if done.is_ok() {
            let unknown = decoder.unknown_fields() - before;
            assert_eq!(json!(unknown), case.line["unknown"], "{}", case.at);
        }
        let column = decoder.finish().unwrap();
        let json = &case.line["json"];
        let right = match &done {
            Ok(()) => {
                let found = parsed(column.as_string::<i32>().value(0));
                case.line.get("error").is_none()
                    && (json.get("jsonError").is_some() || normal(&found) == normal(json))
            }
            Err((cause, _)) => case.line.get("error").is_some() && causes(case).contains(cause),
        };
        compared += 1;
        if !right {
            let found = column.as_string::<i32>().value(0);
            wrong.push(format!("{}: {done:?}, want {json}, found {found}", case.at));
        }
    }
    show(&wrong, compared);
}

/// Damages each payload: truncated, extended, a bit flipped. Columns and text agree on whether there is a value, and the
/// rows beside it stay as they were.
#[test]
fn a_damaged_message_touches_no_other() {
    let (schemas, payloads) = cases();
    let mut chance = Chance(first_seed());
    let most = pick(40, 2_000, 20_000);
    let mut texts = DecodedColumn::protobuf(None, &[]).unwrap();
    let mut decoders = HashMap::new();
    for case in &payloads {
        let schema = &schemas[case.writer];
        let made = decoders.entry(case.writer).or_insert_with(|| {
            let mut decoder = structs(schema).ok()?;
            let program = decoder
                .compile_named(&schema.text, &schema.references)
                .unwrap();
            let text = texts
                .compile_named(&schema.text, &schema.references)
                .unwrap();
            Some((decoder, program, text))
        });
        let Some((decoder, program, text)) = made else {
            continue;
        };
        let good = decoder.push_message(*program, &case.message, &case.body);
        let alone = decoder.finish().unwrap();
        if good.is_err() || case.body.is_empty() {
            continue;
        }
        let length = case.body.len();
        for _ in 0..most {
            let mut body = case.body.clone();
            match chance.below(3) {
                0 => body.truncate(chance.below(length)),
                1 => body.push(u8::try_from(chance.below(256)).unwrap()),
                _ => body[chance.below(length)] ^= 1 << chance.below(8),
            }
            decoder
                .push_message(*program, &case.message, &case.body)
                .unwrap();
            let found = decoder.push_message(*program, &case.message, &body);
            decoder
                .push_message(*program, &case.message, &case.body)
                .unwrap();
            let column = decoder.finish().unwrap();
            assert_eq!(&column.slice(0, 1), &alone, "{}", case.at);
            assert_eq!(&column.slice(2, 1), &alone, "{}", case.at);
            let printed = texts.push_message(*text, &case.message, &body);
            texts.finish().unwrap();
            // The JSON of a Timestamp out of its range is that of its fields.
            match (&found, &printed) {
                (Err((_, text)), Ok(())) if text.contains("years 1 to 9999") => {}
                // Structs have no extensions, and only text looks into those of proto2.
                (Ok(()), Err((cause, _))) if *cause == "invalid_utf8" => {}
                (Ok(()), Ok(())) | (Err(_), Err(_)) => {}
                _ => panic!("{}: {found:?} {printed:?} {body:?}", case.at),
            }
        }
    }
}
