//! Look-ups by hand; the corpus has more.

use super::*;

fn row(subject: &str, version: i32, id: i64, text: &str) -> RegisteredSchema {
    RegisteredSchema {
        version,
        id: Some(id),
        ..RegisteredSchema::given(subject.to_owned(), SchemaKind::Avro, text)
    }
}

fn refers(mut row: RegisteredSchema, to: &[(&str, &str, i32)]) -> RegisteredSchema {
    row.references = to
        .iter()
        .map(|&(name, subject, version)| SchemaReference {
            name: name.to_owned(),
            subject: subject.to_owned(),
            version,
        })
        .collect();
    row
}

fn soft(row: RegisteredSchema) -> RegisteredSchema {
    RegisteredSchema {
        deleted: Deletion::Soft,
        ..row
    }
}

fn hard(row: RegisteredSchema) -> RegisteredSchema {
    RegisteredSchema {
        deleted: Deletion::Hard,
        ..row
    }
}

fn found(schemas: &Schemas, id: i64, topic: &str) -> Option<(String, FoundBy)> {
    let (index, by) = schemas.by_id(id, topic, Side::Value)?;
    Some((schemas.get(index)?.text.to_string(), by))
}

#[test]
fn an_id_is_looked_up_where_a_registry_looks() {
    let rows = vec![
        row("other-value", 1, 1, "default"),
        row(":.b:t-value", 1, 1, "b1"),
        row(":.b:t-value", 2, 1, "b2"),
        row("u-value", 1, 1, "u1"),
        soft(row("u-value", 2, 1, "u2")),
        hard(row("u-value", 3, 1, "u3")),
        row(":.no:t-value", 1, 7, "no"),
        row(":.no:v-value", 2, 10, "v2"),
        hard(row(":.b:w-value", 1, 8, "gone in b")),
        hard(row("w-value", 1, 8, "gone")),
        RegisteredSchema {
            duplicate_of: Some(0),
            ..row("x-value", 1, 1, "duplicate")
        },
    ];
    let schemas = Schemas::new(rows, vec![".a".to_owned(), ".b".to_owned()]);
    let json = serde_json::to_string(&schemas).unwrap();
    for schemas in [schemas, serde_json::from_str(&json).unwrap()] {
        let text = |text: &str, by| Some((text.to_owned(), by));
        assert_eq!(found(&schemas, 1, "u"), text("u2", FoundBy::Subject));
        // Of a context without a CONTEXT record, also where it comes out of a plan.
        let newest = schemas.newest("v", Side::Value);
        assert_eq!(&*schemas.get(newest.unwrap()).unwrap().text, "v2");
        assert_eq!(found(&schemas, 1, "t"), text("b2", FoundBy::ContextSubject));
        assert_eq!(
            found(&schemas, 1, "x"),
            text("default", FoundBy::DefaultContext)
        );
        assert_eq!(found(&schemas, 7, "t"), text("no", FoundBy::OtherContext));
        assert_eq!(found(&schemas, 8, "w"), text("gone", FoundBy::HardDeleted));
        assert_eq!(found(&schemas, 9, "w"), None);
        let version = |topic, version| {
            let index = schemas.version(topic, Side::Value, version);
            index.map(|index| &*schemas.rows()[index].text)
        };
        assert_eq!(version("u", 3), Some("u3"));
        assert_eq!(version("t", 1), Some("b1"));
        assert_eq!(version("t", 3), None);
        let newest = schemas.newest("u", Side::Value).unwrap();
        assert_eq!(&*schemas.rows()[newest].text, "u1");
        assert_eq!(schemas.newest("w", Side::Value), None);
        assert_eq!(schemas.newest("u", Side::Key), None);
    }
}

#[test]
fn a_guid_means_rather_the_schema_of_the_topic() {
    let rows = vec![
        hard(row("t-value", 1, 1, "same")),
        row("a-value", 1, 1, "same"),
        row(":.c:t-value", 1, 5, "same"),
        row(":.c:u-value", 1, 5, "same"),
    ];
    let guid = rows[0].guid.unwrap();
    let schemas = Schemas::new(rows, Vec::new());
    let by = |topic| schemas.by_guid(guid, topic, Side::Value);
    assert_eq!(by("t"), Some((2, FoundBy::Guid)));
    assert_eq!(by("u"), Some((3, FoundBy::Guid)));
    assert_eq!(by("x"), Some((1, FoundBy::Guid)));
    assert_eq!(schemas.by_guid(Guid([0; 16]), "t", Side::Value), None);
}

#[test]
fn references_come_after_what_they_need_themselves() {
    let rows = vec![
        row("leaf", 1, 1, "leaf"),
        refers(row("mid", 1, 2, "mid"), &[("l", "leaf", 1)]),
        refers(
            row("top", 1, 3, "top"),
            &[("m", "mid", 1), ("l", "leaf", 1), ("l2", "leaf", -1)],
        ),
        row(":.c:leaf", 1, 1, "leaf in c"),
        refers(
            row(":.c:top", 1, 2, "top in c"),
            &[("l", "leaf", 1), ("d", ":.:leaf", 1)],
        ),
        refers(row("lost", 1, 4, "lost"), &[("m", "mid", 2)]),
        refers(row("ring", 1, 5, "ring"), &[("r", "ring2", 1)]),
        refers(row("ring2", 1, 6, "ring2"), &[("r", "ring", 1)]),
    ];
    let schemas = Schemas::new(rows, Vec::new());
    let references = |index| schemas.text(index).map(|text| text.references);
    assert_eq!(
        references(2).unwrap(),
        [("l", "leaf"), ("m", "mid"), ("l2", "leaf")]
    );
    assert_eq!(references(4).unwrap(), [("l", "leaf in c"), ("d", "leaf")]);
    for (index, text) in [
        (
            5,
            "bad_schema: lost version 1 (id 4) refers to mid version 2 as \"m\", which is not in the registry's topic",
        ),
        (
            6,
            "bad_schema: ring2 version 1 (id 6) and ring version 1 (id 5) refer to each other",
        ),
    ] {
        assert_eq!(references(index).unwrap_err().to_string(), text);
    }
}

/// A list of diamonds, each below the one before, has more paths than there is time, and depth that no stack has.
#[test]
fn many_references_take_little_time() {
    let many = 50_000;
    let mut rows = vec![row("s0", 1, 0, "0")];
    for n in 1..many {
        let (below, further) = (format!("s{}", n - 1), format!("s{}", n.max(2) - 2));
        let row = row(&format!("s{n}"), 1, n, &n.to_string());
        rows.push(refers(row, &[("a", &below, 1), ("b", &further, 1)]));
    }
    let schemas = Schemas::new(rows, Vec::new());
    let text = schemas.text(schemas.rows().len() - 1).unwrap();
    assert!(text.references.len() > 50_000, "{}", text.references.len());
}

#[test]
fn what_the_user_gives_comes_first() {
    let mut schemas = Schemas::new(vec![row("t-value", 1, 1, "registered")], Vec::new());
    schemas.give(GivenFor::Id(1), SchemaKind::Avro, "given", Vec::new());
    schemas.give(
        GivenFor::Topic("t".into()),
        SchemaKind::Avro,
        "topic",
        Vec::new(),
    );
    schemas.give(
        GivenFor::Topic("t-key".into()),
        SchemaKind::Avro,
        "key",
        Vec::new(),
    );
    let schemas: Schemas = serde_json::from_str(&serde_json::to_string(&schemas).unwrap()).unwrap();
    assert!(schemas.has_given_ids());
    assert_eq!(
        found(&schemas, 1, "t"),
        Some(("given".into(), FoundBy::Given))
    );
    let text = |side| &*schemas.rows()[schemas.given_for("t", side).unwrap()].text;
    assert_eq!((text(Side::Value), text(Side::Key)), ("topic", "key"));
    assert_eq!(
        schemas.newest("t", Side::Value),
        schemas.given_for("t", Side::Value)
    );
    assert_eq!(schemas.given_for("u", Side::Value), None);
}

#[test]
fn formats_by_the_look_of_a_text() {
    for (text, kind) in [
        ("\"string\"", SchemaKind::Avro),
        ("long", SchemaKind::Avro),
        ("[\"null\", \"int\"]", SchemaKind::Avro),
        (
            " {\"type\": \"record\", \"name\": \"R\", \"fields\": []}",
            SchemaKind::Avro,
        ),
        ("{\"type\": \"string\"}", SchemaKind::Avro),
        ("{\"type\": \"object\"}", SchemaKind::Json),
        ("{\"type\": [\"null\", \"integer\"]}", SchemaKind::Json),
        ("{\"$ref\": \"#/a\"}", SchemaKind::Json),
        ("{}", SchemaKind::Json),
        ("true", SchemaKind::Json),
        ("syntax = \"proto3\"; message M {}", SchemaKind::Protobuf),
        ("", SchemaKind::Protobuf),
        ("CgRhLnBy", SchemaKind::Protobuf),
    ] {
        assert_eq!(SchemaKind::guess(text), kind, "{text}");
    }
}
