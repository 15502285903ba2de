//! JSON payloads that a real broker kept, as Python's `json` reads them: `tests/golden/json.jsonl.gz`, or more of them in
//! the file that `KAFKALOG_JSON_CASES` names. `tests/value_cases.py` writes both.

use std::collections::HashMap;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;
use kafkalog::internal::values::DecodedColumn;
use serde_json::{Value, json};

use crate::protobuf::{Case, Fault, Text, cases_of, causes, show};

fn cases() -> (Vec<Text>, Vec<Case>) {
    cases_of("json", "KAFKALOG_JSON_CASES")
}

/// Compares a row with the value that Python reads: what the schema does not type as text of JSON.
fn same(column: &ArrayRef, row: usize, want: Option<&Value>) -> bool {
    let Some(want) = want.filter(|want| !want.is_null()) else {
        return column.is_null(row);
    };
    if column.is_null(row) {
        return false;
    }
    match column.data_type() {
        DataType::Struct(fields) => {
            let rows = column.as_struct();
            let mut fields = fields.iter().zip(rows.columns());
            fields.all(|(field, child)| same(child, row, want.get(field.name())))
        }
        DataType::List(_) => {
            let items = column.as_list::<i32>().value(row);
            let want = want.as_array().unwrap();
            items.len() == want.len() && (0..items.len()).all(|at| same(&items, at, want.get(at)))
        }
        DataType::Map(..) => {
            let rows = column.as_map().value(row);
            let keys = rows.column(0).as_string::<i32>();
            let members = want.as_object().unwrap();
            rows.len() == members.len()
                && (0..rows.len()).all(|at| same(rows.column(1), at, members.get(keys.value(at))))
        }
        DataType::Boolean => json!(column.as_boolean().value(row)) == *want,
        DataType::Int64 => {
            let value = column.as_primitive::<Int64Type>().value(row);
            #[expect(clippy::cast_precision_loss, reason = "only small floats are integers")]
            let float = value as f64;
            want.as_i64() == Some(value) || want.is_f64() && want.as_f64() == Some(float)
        }
        DataType::Float64 => {
            let value = column.as_primitive::<Float64Type>().value(row);
            want.as_f64().map(f64::to_bits) == Some(value.to_bits())
                || want.is_u64() && want.as_f64() == Some(value)
                || want.is_i64() && want.as_f64() == Some(value)
        }
        DataType::Utf8 => {
            let text = column.as_string::<i32>().value(row);
            want.as_str() == Some(text)
                || serde_json::from_str::<Value>(text).is_ok_and(|found| found == *want)
        }
        other => panic!("{other}"),
    }
}

#[test]
fn structs_are_those_of_python() {
    let (schemas, payloads) = cases();
    let mut decoders: HashMap<usize, DecodedColumn> = HashMap::new();
    let (mut compared, mut whole, mut wrong) = (0, 0, Vec::new());
    for case in &payloads {
        let reader = case.reader.unwrap_or(case.writer);
        let schema = &schemas[reader];
        let decoder = decoders.entry(reader).or_insert_with(|| {
            DecodedColumn::json(Some((&schema.text, &schema.references)), &[]).unwrap()
        });
        let program = decoder.compile_named("{}", &[]).unwrap();
        let done = decoder.push(program, &case.body);
        let column = decoder.finish().unwrap();
        let right = match &done {
            Ok(()) => {
                case.line.get("error").is_none() && same(&column, 0, Some(&case.line["value"]))
            }
            Err((cause, text)) => {
                causes(case).contains(cause)
                    // What does not fit its type.
                    || case.at.contains("j-odd") && text.contains("the schema has")
                    || text.contains("surrogate")
            }
        };
        compared += 1;
        whole += usize::from(done.is_ok());
        if !right {
            let (want, text) = (&case.line["value"], String::from_utf8_lossy(&case.body));
            wrong.push(format!("{}: {done:?}, want {want} of {text}", case.at));
        }
    }
    show(&wrong, compared);
    assert!(whole > 60, "{whole} of {compared}");
}

#[test]
fn texts_are_kept() {
    let (_, payloads) = cases();
    let mut decoder = DecodedColumn::json(None, &[]).unwrap();
    let program = decoder.compile_named("", &[]).unwrap();
    let mut wrong = Vec::new();
    for case in &payloads {
        let done = decoder.push(program, &case.body);
        let column = decoder.finish().unwrap();
        let right = match &done {
            Ok(()) => {
                case.line.get("error").is_none()
                    && column.as_string::<i32>().value(0).as_bytes() == case.body
            }
            Err((cause, _)) => causes(case).contains(cause),
        };
        if !right {
            wrong.push(format!("{}: {done:?}", case.at));
        }
    }
    show(&wrong, payloads.len());
}

fn column_type(schema: &str) -> DataType {
    let mut decoder = DecodedColumn::json(Some((schema, &[])), &[]).unwrap();
    decoder.finish().unwrap().data_type().clone()
}

#[test]
fn a_schema_without_one_type_is_text() {
    for schema in [
        "true",
        "{}",
        r#"{"type":"string"}"#,
        r#"{"type":"object"}"#,
        r#"{"oneOf":[{"type":"object","properties":{"a":{"type":"string"}}},{"type":"integer"}]}"#,
    ] {
        assert_eq!(column_type(schema), DataType::Utf8, "{schema}");
    }
    let own = r##"{"type":"object","properties":{"v":{"type":"integer"},"kids":{"type":"array","items":{"$ref":"#"}}}}"##;
    let DataType::Struct(fields) = column_type(own) else {
        panic!("no struct");
    };
    assert_eq!(fields.find("v").unwrap().1.data_type(), &DataType::Int64);
    let DataType::List(item) = fields.find("kids").unwrap().1.data_type() else {
        panic!("no list");
    };
    assert_eq!(item.data_type(), &DataType::Utf8);
}

#[test]
fn no_text_is_too_deep_or_too_wide() {
    let schema = r#"{"type":"object","properties":{"a":{"type":"integer"},"b":{}}}"#;
    let mut structs = DecodedColumn::json(Some((schema, &[])), &[]).unwrap();
    let mut texts = DecodedColumn::json(None, &[]).unwrap();
    for open in ["[", "{\"a\":", "{\"b\":", "[{\"b\":"] {
        let text = open.repeat(100_000);
        let errors: [Result<(), Fault>; 2] = [
            structs.push(0, text.as_bytes()),
            texts.push(0, text.as_bytes()),
        ];
        assert!(errors.iter().all(Result::is_err), "{open}");
    }
    // A schema that refers to itself twice at every level.
    let twice = r##"{"type":"object","properties":{"a":{"$ref":"#/definitions/1"}},"definitions":{"##.to_owned()
        + &(1..60)
            .map(|i| {
                let next = i + 1;
                format!(r##""{i}":{{"type":"object","properties":{{"x":{{"$ref":"#/definitions/{next}"}},"y":{{"$ref":"#/definitions/{next}"}}}}}}"##)
            })
            .collect::<Vec<_>>()
            .join(",")
        + "}}";
    assert!(matches!(column_type(&twice), DataType::Struct(_)));
}
