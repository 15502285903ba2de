//! Properties of decoders of values that must hold on any bytes.

use kafkalog::internal::format::record::HeaderIter;
use kafkalog::internal::values::{DecodedColumn, DecodedPayloads};

const PROTO: &str = r#"syntax = "proto3"; import "google/protobuf/any.proto"; import "google/protobuf/struct.proto";
    import "google/protobuf/timestamp.proto"; message M { int64 a = 1; string b = 2; repeated sint32 c = 3; M d = 4;
    map<string, M> e = 5; oneof o { bytes f = 6; N g = 7; } google.protobuf.Any h = 8; google.protobuf.Value i = 9;
    google.protobuf.Timestamp j = 10; map<int32, bool> k = 11; message N { double x = 1; repeated N y = 2; } }"#;

/// Opens a column of a reader schema and what it refers to; without one, of text.
type OpenColumn = fn(Option<(&str, &[(String, String)])>) -> Option<DecodedColumn>;

/// Decodes bytes under a schema into structs and text, and as a schema; both forms agree on whether there is a value.
fn decoded(data: &[u8], schema: &str, of: OpenColumn) {
    let (Some(mut structs), Some(mut texts)) = (of(Some((schema, &[]))), of(None)) else {
        panic!("the schema is right");
    };
    for column in [&mut structs, &mut texts] {
        let program = column.compile_named(schema, &[]).unwrap();
        column.push(program, data).ok();
        assert_eq!(column.finish().unwrap().len(), 1);
    }
    if let Ok(text) = std::str::from_utf8(data) {
        let mut column = of(Some((text, &[])));
        if let Some(column) = &mut column {
            let program = column.compile_named(text, &[]).unwrap();
            column.push(program, &[]).ok();
            column.finish().unwrap();
        }
        texts.compile_named(text, &[]).ok();
    }
}

/// A Protobuf message, and a schema.
pub fn protobuf(data: &[u8]) {
    decoded(data, PROTO, |reader| {
        DecodedColumn::protobuf(reader, &[]).ok()
    });
}

/// A JSON value, and a schema.
pub fn json(data: &[u8]) {
    let schema = r##"{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"string"},"c":{"$ref":"#"},
        "d":{"type":"array","items":{"type":"number"}},"e":{"type":"object","additionalProperties":{"type":"boolean"}}}}"##;
    decoded(data, schema, |reader| DecodedColumn::json(reader, &[]).ok());
}

/// An Avro schema, that of a reader, and a value, with zeros between them: the value in columns and as text.
pub fn avro(data: &[u8]) {
    let mut parts = data.splitn(3, |&byte| byte == 0);
    let mut text = || std::str::from_utf8(parts.next().unwrap_or_default());
    let (Ok(writer), Ok(reader)) = (text(), text()) else {
        return;
    };
    let body = parts.next().unwrap_or_default();
    let (writer, reader) = ([writer.to_owned()], [reader.to_owned()]);
    let mut texts = DecodedColumn::avro(None, &[]).unwrap();
    let Ok(text_program) = texts.compile(&writer) else {
        return;
    };
    let is_value = texts.push(text_program, body);
    assert_eq!(texts.finish().unwrap().len(), 1);
    for reader in [&writer, &reader] {
        let Ok(mut column) = DecodedColumn::avro(Some(reader), &[]) else {
            continue;
        };
        let Ok(program) = column.compile(&writer) else {
            continue;
        };
        let done = [body, body].map(|body| column.push(program, body).is_ok());
        assert_eq!(done[0], done[1]);
        let singly = column.finish().unwrap();
        assert_eq!(singly.len(), 2);
        assert_eq!(column.push_block(&[(program, body); 2]), done[0]);
        let side_by_side = column.finish().unwrap();
        assert!(!done[0] || side_by_side == singly);
        // Text refuses all that is no value; columns also numbers that their types do not hold. A reader may leave the
        // field out, or read its text as bytes, as columns do with decimals that are too long for them.
        let is_unread = is_value.as_ref().is_err_and(|(cause, what)| {
            *reader != writer && *cause == "invalid_utf8"
                || what.ends_with("a decimal without bytes")
        });
        assert!(is_value.is_ok() || is_unread || !done[0], "{is_value:?}");
    }
}

/// A payload with headers, of a topic with schemas: their number comes first.
pub fn framing(data: &[u8]) {
    let (count, payload) = data.split_first().unwrap_or((&0, &[]));
    let record =
        r#"{"type": "record", "name": "R", "fields": [{"name": "a", "type": ["null", "string"]}]}"#;
    let guids = [("00112233-4455-6677-8899-aabbccddeeff", record)];
    let schemas = [(1, record), (2, "\"bytes\""), (3, "\"long\"")];
    let mut column = DecodedPayloads::given(&schemas, &guids, record, &[]).unwrap();
    for payload in [payload, &payload[payload.len() / 2..]] {
        let headers = HeaderIter::new(data, 1, u32::from(count % 4));
        let _ = column.push(payload, headers);
    }
    assert_eq!(column.finish().unwrap().len(), 2);
}
