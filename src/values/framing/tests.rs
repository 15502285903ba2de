//! Framings byte by byte; those of real clients are in `tests/rust/framings.rs`.

use super::*;
use crate::values::schemas::{GivenFor, RegisteredSchema};

const PROTO: &str = r#"syntax = "proto3"; // message No { }
package p; option x = "message Nor { }"; /* message Never {} */
message First { message Inner { string message = 1; } }
enum E { A = 0; }
message Second { oneof message_kind { First a = 1; } }"#;

fn registered(subject: &str, id: i64, kind: SchemaKind, text: &str) -> RegisteredSchema {
    RegisteredSchema {
        version: 1,
        id: Some(id),
        ..RegisteredSchema::given(subject.to_owned(), kind, text)
    }
}

fn framer(given: &[(GivenFor, SchemaKind, &str)]) -> Framer {
    let rows = vec![
        registered("t-value", 1, SchemaKind::Avro, "\"int\""),
        registered("p-value", 2, SchemaKind::Protobuf, PROTO),
    ];
    let mut schemas = Schemas::new(rows, Vec::new());
    for (to, kind, text) in given {
        schemas.give(to.clone(), kind.clone(), text, Vec::new());
    }
    Framer::new(Arc::new(schemas), "t", Side::Value, 1 << 20)
}

fn header<'a>(key: &'a str, value: Option<&'a [u8]>) -> Header<'a> {
    Header {
        key: key.as_bytes(),
        value,
    }
}

/// Schema, message, value; or the reason why not.
type Read = Result<(SchemaIndex, Vec<i32>, Vec<u8>), String>;

fn read(framer: &mut Framer, payload: &[u8], headers: &[Header<'_>]) -> Read {
    match framer.frame(payload, headers.iter().copied()) {
        Ok(frame) => {
            let end = payload.get(frame.start..).unwrap();
            if let Cow::Borrowed(body) = &frame.body {
                assert_eq!(*body, end);
            }
            let body = frame.body.into_owned();
            Ok((frame.schema, framer.message().to_vec(), body))
        }
        Err(unframed) => Err(unframed.reason.to_string()),
    }
}

#[expect(clippy::unnecessary_wraps, reason = "compared with a result")]
fn ok(schema: SchemaIndex, message: &[i32], body: &[u8]) -> Read {
    Ok((schema, message.to_vec(), body.to_vec()))
}

#[test]
fn confluents_prefix() {
    let mut framer = framer(&[]);
    let mut plain = |payload: &[u8]| read(&mut framer, payload, &[]);
    assert_eq!(plain(b"\0\0\0\0\x01\x02"), ok(0, &[], b"\x02"));
    assert_eq!(plain(b"\0\0\0\0\x01"), ok(0, &[], b""));
    assert_eq!(plain(b"\0\0\0\0\x02\0body"), ok(1, &[], b"body"));
    assert_eq!(plain(b"\0\0\0\0\x02\x02\0body"), ok(1, &[], b"body"));
    assert_eq!(
        plain(b"\0\0\0\0\x02\x04\0\x02body"),
        ok(1, &[0, 1], b"body")
    );
    for (payload, reason) in [
        (
            &b""[..],
            "not_framed at byte 0: expected 00 and the id of a schema, found no byte",
        ),
        (
            b"\0\0\0\0",
            "not_framed at byte 0: expected 00 and the id of a schema, found 00 00 00 00",
        ),
        (
            b"{\"text\": 1}",
            "not_framed at byte 0: expected 00 and the id of a schema, found 7b 22 74 65 78 74 22 3a.. (11 bytes)",
        ),
        (
            b"\0\xff\xff\xff\xff\0",
            "unknown_id: no schema has id 4294967295; 2 schemas are known",
        ),
        (
            b"\0\0\0\0\x02\x03body",
            "bad_message_index at byte 5: expected up to 100 indexes of a message, after their number",
        ),
        (
            b"\0\0\0\0\x02\x06\0",
            "bad_message_index at byte 5: expected up to 100 indexes of a message, after their number",
        ),
    ] {
        assert_eq!(plain(payload), Err(reason.to_owned()));
    }
    let id = framer
        .frame(b"\0\0\0\0\x09\0", [].into_iter())
        .unwrap_err()
        .id;
    assert_eq!(id, Some(WireId::Id(9)));
}

#[test]
fn confluents_headers() {
    let mut framer = framer(&[]);
    let guid = framer.schemas.rows()[0].guid.unwrap().0;
    let by_guid = [&[1][..], &guid].concat();
    let of_proto = [
        &[1][..],
        &framer.schemas.rows()[1].guid.unwrap().0,
        b"\x04\0\x02",
    ]
    .concat();
    let prefixed = b"\0\0\0\0\x01\x02";
    let name = "__value_schema_id";
    for (headers, expected) in [
        (vec![(name, Some(&by_guid[..]))], ok(0, &[], prefixed)),
        (vec![(name, Some(b"\0\0\0\0\x02")), (name, Some(&by_guid))], ok(0, &[], prefixed)),
        (vec![(name, Some(&by_guid)), (name, None)], ok(0, &[], b"\x02")),
        (vec![(name, Some(b"\0\0\0\0\x02"))], ok(1, &[], prefixed)),
        (vec![(name, Some(&of_proto))], ok(1, &[0, 1], prefixed)),
        (vec![("__key_schema_id", Some(b"?"))], ok(0, &[], b"\x02")),
        (
            vec![(name, Some(&by_guid[..16]))],
            Err("bad_header: header __value_schema_id: expected 00 and 4 bytes of an id, or 01 and 16 bytes of a GUID"
                .to_owned()),
        ),
    ] {
        let headers: Vec<_> = headers.iter().map(|&(key, value)| header(key, value)).collect();
        let found = read(&mut framer, prefixed, &headers);
        match (found, expected) {
            (Err(found), Err(expected)) => assert!(found.starts_with(&expected), "{found}"),
            (found, expected) => assert_eq!(found, expected),
        }
    }
    // In the payload.
    let payload = [&by_guid[..], b"\x02"].concat();
    assert_eq!(read(&mut framer, &payload, &[]), ok(0, &[], b"\x02"));
    let other = [&[1][..], &[7; 16]].concat();
    assert!(
        read(&mut framer, &other, &[])
            .unwrap_err()
            .starts_with("not_framed")
    );
}

#[test]
fn apicurios_ids() {
    let long = 0x0102_0304_0506_0708;
    let mut framer = framer(&[
        (GivenFor::Id(9), SchemaKind::Avro, "\"long\""),
        (GivenFor::Id(10), SchemaKind::Protobuf, PROTO),
        (GivenFor::Id(long), SchemaKind::Protobuf, PROTO),
    ]);
    let mut plain = |payload: &[u8]| read(&mut framer, payload, &[]);
    assert_eq!(plain(b"\0\0\0\0\x09\x02"), ok(2, &[], b"\x02"));
    assert_eq!(plain(b"\0\0\0\0\0\0\0\0\x09\x02"), ok(2, &[], b"\x02"));
    assert_eq!(plain(b"\0\0\0\0\x0a\0\x02"), ok(3, &[], b"\x02"));
    assert_eq!(
        plain(b"\0\0\0\0\x0a\x08\x0a\x06Secondbody"),
        ok(3, &[1], b"body")
    );
    assert_eq!(
        plain(b"\0\x01\x02\x03\x04\x05\x06\x07\x08\x07\x0a\x05Firstbody"),
        ok(4, &[], b"body")
    );
    for (payload, reason) in [
        (
            &b"\0\x01\x02\x03\x04\x05\x06\x07\x08\x07\x0a\x05Innerbody"[..],
            "bad_message_index at byte 9: the schema has no",
        ),
        (
            b"\0\x01\x02\x03\x04\x05\x06\x07\x08\0",
            "bad_message_index at byte 9: expected the name",
        ),
        (
            b"\0\0\0\0\0\0\0\0\x01\x02",
            "unknown_id: no schema has id 0;",
        ),
    ] {
        let found = plain(payload).unwrap_err();
        assert!(found.starts_with(reason), "{found}");
    }
    let id = 9i64.to_be_bytes();
    let in_headers = |name, value| [header(name, Some(value))];
    let mut with = |name, value| read(&mut framer, b"\x02", &in_headers(name, value));
    assert_eq!(with("apicurio.value.contentId", &id), ok(2, &[], b"\x02"));
    assert_eq!(with("apicurio.value.globalId", &id), ok(2, &[], b"\x02"));
    assert!(
        with("apicurio.key.globalId", &id)
            .unwrap_err()
            .starts_with("not_framed")
    );
    assert!(
        with("apicurio.value.globalId", b"9")
            .unwrap_err()
            .starts_with("bad_header")
    );
    assert!(
        with("apicurio.value.encoding", b"JSON")
            .unwrap_err()
            .starts_with("bad_header")
    );
}

#[test]
fn glues_uuids() {
    use std::io::Write;

    let uuid = Guid([3; 16]);
    let mut framer = framer(&[(GivenFor::Guid(uuid), SchemaKind::Avro, "\"bytes\"")]);
    let payload = |compression: u8, body: &[u8]| [&[3, compression][..], &uuid.0, body].concat();
    let packed = |body: &[u8]| {
        let mut to = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        to.write_all(body).unwrap();
        to.finish().unwrap()
    };
    let mut plain = |payload: &[u8]| read(&mut framer, payload, &[]);
    assert_eq!(plain(&payload(0, b"body")), ok(2, &[], b"body"));
    assert_eq!(plain(&payload(5, &packed(b"body"))), ok(2, &[], b"body"));
    assert_eq!(
        plain(&payload(5, &packed(&vec![0; 1 << 20]))),
        ok(2, &[], &vec![0; 1 << 20])
    );
    for (payload, reason) in [
        (
            payload(5, &packed(&vec![0; (1 << 20) + 1])),
            "too_large at byte 18",
        ),
        (
            payload(5, b"body"),
            "malformed at byte 18: expected zlib data",
        ),
        (payload(5, b""), "malformed at byte 18: expected zlib data"),
        (payload(1, b"body"), "not_framed"),
        (payload(0, b"")[..17].to_vec(), "not_framed"),
        (
            [&[3, 0][..], &[4; 16]].concat(),
            "unknown_id: no schema has GUID 04040404-0404",
        ),
    ] {
        let found = plain(&payload).unwrap_err();
        assert!(found.starts_with(reason), "{found}");
    }
    let mut without = super::tests::framer(&[]);
    let found = read(&mut without, &payload(0, b"body"), &[]).unwrap_err();
    assert!(found.contains("needs schemas by their UUIDs"), "{found}");
}

#[test]
fn no_framing_where_the_topic_has_a_schema() {
    let mut framer = framer(&[(GivenFor::Topic("t".into()), SchemaKind::Protobuf, PROTO)]);
    for payload in [&b""[..], b"\0\0\0\0\x01\x02"] {
        assert_eq!(read(&mut framer, payload, &[]), ok(2, &[], payload));
    }
}

#[test]
fn any_bytes_have_a_frame_or_a_reason() {
    let given = [
        (GivenFor::Id(9), SchemaKind::Protobuf, PROTO),
        (GivenFor::Guid(Guid([0; 16])), SchemaKind::Avro, "\"bytes\""),
    ];
    let mut framers = [framer(&[]), framer(&given)];
    let mut state = 1u64;
    let mut next = move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        u8::try_from(state >> 56).unwrap()
    };
    for _ in 0..20_000 {
        let mut bytes: Vec<u8> = (0..next() % 40).map(|_| next() & next() & next()).collect();
        if let Some(first) = bytes.first_mut() {
            *first %= 4;
        }
        let headers = [
            header("__value_schema_id", (next() % 4 == 0).then_some(&bytes[..])),
            header("apicurio.value.globalId", Some(&bytes)),
        ];
        for framer in &mut framers {
            drop(read(framer, &bytes, &[]));
            drop(read(framer, &bytes, &headers));
        }
    }
}
