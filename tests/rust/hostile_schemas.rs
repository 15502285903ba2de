//! Schema texts that want to exhaust the stack, the memory or the clock: each is an answer soon, whatever it is.

use std::time::{Duration, Instant};

use kafkalog::internal::values::DecodedColumn;

use crate::common::pick;

/// Compiles a text in all ways, with what it refers to.
fn compile(format: &str, text: &str, references: &[(String, String)]) {
    let start = Instant::now();
    let of = |reader| match format {
        "protobuf" => DecodedColumn::protobuf(reader, &[]),
        _ => DecodedColumn::json(reader, &[]),
    };
    if let Ok(mut column) = of(Some((text, references)))
        && let Ok(program) = column.compile_named(text, references)
    {
        column.push(program, b"{}").ok();
        column.finish().unwrap();
    }
    let mut texts = of(None).unwrap();
    texts.compile_named(text, references).ok();
    let (took, shown) = (start.elapsed(), text.get(..60).unwrap_or(text));
    assert!(took < Duration::from_secs(60), "{took:?}: {shown}");
}

fn nested(open: &str, close: &str, depth: usize) -> String {
    open.repeat(depth) + &close.repeat(depth)
}

#[test]
fn nesting_of_proto_texts_ends() {
    let deepest = pick(100_000, 1_000_000, 1_000_000);
    for depth in [90, 1_000, deepest] {
        for (before, open, close) in [
            ("", "message A {", "}"),
            ("message B { ", "oneof a {", "}"),
            ("message B { optional ", "group A = 1 {", "}"),
            ("message B { extend B {", "optional group A = 1 {", "}"),
            ("option (a) = ", "{a ", "}"),
            ("option (a) = ", "{a <", ">}"),
            ("option (a) = {a: ", "[", "]"),
            ("option (a) = {a: ", "[{a: ", "}]"),
            ("message B { optional int32 a = 1 [(x) = ", "{a {", "}}"),
            ("message B { map<int32, ", "map<int32, ", ">"),
            ("enum E { A = 0 [", "[", "]"),
            ("service S { ", "rpc A(B) returns (B) {", "}"),
            ("", "/*", "*/"),
            ("", "((", "))"),
            ("import \"", "a", "\";"),
            ("message B { a.", "b.", ""),
            ("option (", "a.", ""),
            ("option a = ", "-", ""),
            ("option a = ", "\"a\" ", ";"),
            ("", ";", ""),
        ] {
            let text = format!("{before}{}", nested(open, close, depth));
            compile("protobuf", &text, &[]);
        }
    }
}

#[test]
fn large_and_circular_proto_texts_end() {
    // 10 MB and more in the full tier.
    let part = pick(20, 1, 1);
    let many = |count: usize, each: &dyn Fn(usize) -> String| -> String {
        let count = if count > 1_000 { count / part } else { count };
        (1..=count).map(each).collect::<Vec<_>>().join("\n")
    };
    for text in [
        many(150_000, &|i| {
            format!("message Message{i} {{ optional Message{} next = 1; }}", i.max(2) - 1)
        }),
        format!("message A {{ {} }}", many(250_000, &|i| format!("optional string field{i} = {i};"))),
        format!("enum A {{ {} }}", many(300_000, &|i| format!("A{i} = {i};"))),
        format!("message A {{ reserved {}; }}", many(300_000, &|i| format!("{i},"))),
        many(200_000, &|i| format!("option a{i} = \"{i}\";")),
        many(100_000, &|i| format!("import \"file{i}.proto\";")),
        many(10_000, &|i| format!("message Same {{ optional int32 a{i} = 1; }}")),
        format!("// {}\nmessage A {{}}", "x".repeat(12 << 20)),
        format!("option a = \"{}\";", "x".repeat(17 << 20)),
        // Each message holds the next twice.
        many(60, &|i| format!("message M{i} {{ optional M{0} a = 1; optional M{0} b = 2; }}", i % 60 + 1)),
        many(60, &|i| format!("message M{i} {{ repeated M{0} a = 1; map<int32, M{0}> b = 2; }}", i + 1)) + "message M61 {}",
        "message A { optional A a = 1; required A b = 2; extensions 100 to max; } extend A { optional A c = 100; }".to_owned(),
        "syntax = \"proto3\"; syntax = \"proto3\"; package a; package a.a.a.a; message a { a.a a = 1; }".to_owned(),
        "message A { optional int32 a = 536870911; optional int32 b = 19000; optional int32 c = 99999999999999999999; }".to_owned(),
        "\u{feff}message A {}".to_owned(),
        "message A { optional string a = 1 [default = \"\\777\\xff\\U0010ffff\"]; }".to_owned(),
    ] {
        compile("protobuf", &text, &[]);
    }
    let named = |name: &str, text: &str| (name.to_owned(), text.to_owned());
    let circle = [
        named("a.proto", "import \"b.proto\"; message A {}"),
        named("b.proto", "import public \"a.proto\"; message B {}"),
        named("self.proto", "import \"self.proto\"; message S {}"),
        named("google/protobuf/any.proto", "message Mine {}"),
    ];
    for own in ["a", "self", "google/protobuf/any"] {
        let text = format!("import \"{own}.proto\"; message M {{ optional A a = 1; }}");
        compile("protobuf", &text, &circle);
    }
    let chain: Vec<_> = (0..3_000)
        .map(|i| {
            named(
                &format!("f{i}.proto"),
                &format!("import public \"f{}.proto\";", i + 1),
            )
        })
        .collect();
    compile("protobuf", "import public \"f0.proto\";", &chain);
    // Base64 of descriptors, damaged.
    for text in [
        "CgA=",
        "CgEAEgA=",
        "AAAA",
        &"Cg".repeat(100_000),
        &"EgQKAkFh".repeat(100_000),
    ] {
        compile("protobuf", text, &[]);
    }
}

#[test]
fn json_schemas_end() {
    let wide: Vec<_> = (0..200_000)
        .map(|i| format!("\"p{i}\": {{\"type\": \"string\"}},"))
        .collect();
    let wide = wide.concat();
    let reference = |from: usize, to: usize| {
        format!(
            "\"{from}\": {{\"type\": \"object\", \"properties\": {{\"a\": {{\"$ref\": \"#/$defs/{to}\"}}, \"b\": {{\"$ref\": \"#/$defs/{to}\"}}}}}}"
        )
    };
    let ladder: Vec<_> = (0..60).map(|i| reference(i, (i + 1) % 60)).collect();
    let chain: Vec<_> = (0..100_000)
        .map(|i| format!("\"{i}\": {{\"$ref\": \"#/$defs/{}\"}}", i + 1))
        .collect();
    let rooted = |defs: &str| {
        format!(
            "{{\"type\": \"object\", \"properties\": {{\"a\": {{\"$ref\": \"#/$defs/0\"}}}}, \"$defs\": {{{defs}}}}}"
        )
    };
    for text in [
        nested("[", "]", 1_000_000),
        nested("{\"a\":", "}", 1_000_000),
        nested("{\"type\":\"array\",\"items\":", "}", 100_000),
        nested("{\"type\":\"object\",\"properties\":{\"a\":", "}}", 100),
        nested("{\"oneOf\":[{\"type\":\"null\"},", "]}", 100),
        "{\"$ref\": \"#\"}".to_owned(),
        "{\"type\": \"object\", \"properties\": {\"a\": {\"$ref\": \"#/properties/a\"}}}"
            .to_owned(),
        format!("{{\"type\": \"object\", \"properties\": {{{wide} \"z\": true}}}}"),
        rooted(&ladder.join(",")),
        rooted(&chain.join(",")),
        rooted("\"0\": {\"$ref\": \"#/$defs/0\"}"),
        format!("{{\"description\": \"{}\"}}", "x".repeat(12 << 20)),
    ] {
        compile("json", &text, &[]);
    }
}
