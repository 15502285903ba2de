//! The text of schemas.
//!
//! A parser of our own, as `apache-avro` 0.22 refuses JSON deeper than 128 levels (43 nested records) and names that
//! registries keep when they do not check them, has no bounds, and brings 50 crates. It accepts what Java's parser does
//! and is more lenient about names and defaults, since a schema that is in a registry has records.

use std::collections::{HashMap, HashSet};

use serde::Deserialize;
use serde_json::{Map, Value};

use super::super::decoder::SchemaText;
use super::super::fault::{Cause, Undecoded};
use super::schema::{AvroField, AvroKind, AvroLogical, AvroName, AvroSchema, AvroType, TypeId};

/// Most bytes of a schema with its references.
const MAX_TEXT: usize = 16 << 20;
/// Most characters of a reason.
const MAX_REASON: usize = 400;
/// Deepest JSON: three levels for each record in a record, and some to spare.
const MAX_NESTING: usize = 256;

type Parsed<T> = Result<T, Undecoded>;

/// The fault of a text that cannot be used.
#[cold]
pub(super) fn bad(text: std::fmt::Arguments<'_>) -> Undecoded {
    let mut text = format!("Avro schema: {text}");
    // Names may be as long as the schema.
    if let Some((end, _)) = text.char_indices().nth(MAX_REASON) {
        text.truncate(end);
        text.push_str("...");
    }
    Undecoded::new(Cause::BadSchema, text)
}

/// Parses a schema after those that it refers to.
///
/// # Errors
/// `BadSchema`
pub(super) fn parse(schema: &SchemaText<'_>) -> Parsed<AvroSchema> {
    let texts = schema.references.iter().map(|(_, text)| *text);
    let texts: Vec<&str> = texts.chain([schema.text]).collect();
    let length = texts.iter().map(|text| text.len()).sum::<usize>();
    if length > MAX_TEXT {
        return Err(bad(format_args!("{length} bytes, at most {MAX_TEXT}")));
    }
    let mut parser = Parser::default();
    let mut root = 0;
    for text in texts {
        root = parser.parse(&json(text)?, "")?;
    }
    Ok(AvroSchema {
        types: parser.types,
        root,
    })
}

fn json(text: &str) -> Parsed<Value> {
    let text = text.trim();
    // Old clients register the bare name of a primitive type.
    if primitive(text).is_some() {
        return Ok(Value::String(text.to_owned()));
    }
    if nesting(text) > MAX_NESTING {
        return Err(bad(format_args!(
            "deeper than {MAX_NESTING} levels of JSON"
        )));
    }
    let mut json = serde_json::Deserializer::from_str(text);
    json.disable_recursion_limit();
    let value = Value::deserialize(&mut json).and_then(|value| json.end().map(|()| value));
    value.map_err(|e| bad(format_args!("no JSON: {e}")))
}

/// Depth of brackets outside strings.
fn nesting(text: &str) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    let mut bytes = text.bytes();
    let mut in_string = false;
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => in_string = !in_string,
            b'\\' if in_string => {
                bytes.next();
            }
            b'{' | b'[' if !in_string => {
                depth = depth.saturating_add(1);
                deepest = deepest.max(depth);
            }
            b'}' | b']' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

fn primitive(name: &str) -> Option<AvroKind> {
    Some(match name {
        "null" => AvroKind::Null,
        "boolean" => AvroKind::Boolean,
        "int" => AvroKind::Int,
        "long" => AvroKind::Long,
        "float" => AvroKind::Float,
        "double" => AvroKind::Double,
        "bytes" => AvroKind::Bytes,
        "string" => AvroKind::String,
        _ => return None,
    })
}

#[derive(Default)]
struct Parser {
    types: Vec<AvroType>,
    /// By full name.
    names: HashMap<Box<str>, TypeId>,
}

/// A name with the namespace that it is in, unless it has one.
fn full(name: &str, space: &str) -> Box<str> {
    if name.contains('.') || space.is_empty() {
        // A leading dot names the null namespace.
        return name.strip_prefix('.').unwrap_or(name).into();
    }
    format!("{space}.{name}").into()
}

fn text<'a>(object: &'a Map<String, Value>, member: &str) -> Parsed<&'a str> {
    let found = object.get(member).and_then(Value::as_str);
    found.ok_or_else(|| bad(format_args!("no text {member:?} in {}", shown(object))))
}

fn list<'a>(object: &'a Map<String, Value>, member: &str) -> Parsed<&'a [Value]> {
    let found = object.get(member).and_then(Value::as_array);
    let found = found.map(Vec::as_slice);
    found.ok_or_else(|| bad(format_args!("no list {member:?} in {}", shown(object))))
}

/// The beginning of an object, for messages.
fn shown(object: &Map<String, Value>) -> String {
    let text = serde_json::to_string(object).unwrap_or_default();
    let mut shown: String = text.chars().take(80).collect();
    if shown.len() < text.len() {
        shown.push_str("...");
    }
    shown
}

fn texts(list: Option<&Value>) -> impl Iterator<Item = &str> {
    let list = list.and_then(Value::as_array).map(Vec::as_slice);
    list.unwrap_or_default().iter().filter_map(Value::as_str)
}

impl Parser {
    fn add(&mut self, made: AvroType) -> TypeId {
        let id = self.types.len();
        self.types.push(made);
        id
    }

    /// Recursion ends with that of the JSON.
    fn parse(&mut self, json: &Value, space: &str) -> Parsed<TypeId> {
        match json {
            Value::Array(branches) => self.union(branches, space),
            Value::String(name) => self.named(name, space, None),
            Value::Object(object) => match object.get("type") {
                Some(Value::String(name)) => self.object(object, name, space),
                Some(inner @ (Value::Object(_) | Value::Array(_))) => self.parse(inner, space),
                _ => Err(bad(format_args!("no \"type\" in {}", shown(object)))),
            },
            other => Err(bad(format_args!("{other} is no type"))),
        }
    }

    fn named(
        &mut self,
        name: &str,
        space: &str,
        object: Option<&Map<String, Value>>,
    ) -> Parsed<TypeId> {
        if let Some(kind) = primitive(name) {
            let logical = object.and_then(|object| logical(&kind, object));
            return Ok(self.add(AvroType::new(kind, logical)));
        }
        let known = self.names.get(&full(name, space));
        let known = known.or_else(|| self.names.get(name)).copied();
        known.ok_or_else(|| bad(format_args!("unknown type {name:?}")))
    }

    fn union(&mut self, branches: &[Value], space: &str) -> Parsed<TypeId> {
        let mut ids = Vec::with_capacity(branches.len());
        for branch in branches {
            ids.push(self.parse(branch, space)?);
        }
        let mut seen = HashSet::new();
        for branch in ids.iter().filter_map(|&id| self.types.get(id)) {
            let name = branch.branch();
            if matches!(branch.kind, AvroKind::Union(_)) || !seen.insert(name) {
                return Err(bad(format_args!("a union in a union, or {name} twice")));
            }
        }
        Ok(self.add(AvroType::new(AvroKind::Union(ids), None)))
    }

    fn object(&mut self, object: &Map<String, Value>, kind: &str, space: &str) -> Parsed<TypeId> {
        let item = |member: &str| {
            let found = object.get(member);
            found.ok_or_else(|| bad(format_args!("no {member:?} in {}", shown(object))))
        };
        match kind {
            "array" => {
                let items = self.parse(item("items")?, space)?;
                Ok(self.add(AvroType::new(AvroKind::Array(items), None)))
            }
            "map" => {
                let values = self.parse(item("values")?, space)?;
                Ok(self.add(AvroType::new(AvroKind::Map(values), None)))
            }
            "record" | "error" | "enum" | "fixed" => self.definition(object, kind, space),
            _ => self.named(kind, space, Some(object)),
        }
    }

    fn definition(
        &mut self,
        object: &Map<String, Value>,
        kind: &str,
        space: &str,
    ) -> Parsed<TypeId> {
        let namespace = object.get("namespace").and_then(Value::as_str);
        let full_name = full(text(object, "name")?, namespace.unwrap_or(space));
        let space = full_name.rsplit_once('.').map_or("", |(space, _)| space);
        let kind = match kind {
            "enum" => {
                let symbols = list(object, "symbols")?.iter().map(|symbol| {
                    let text = symbol.as_str().map(Box::from);
                    text.ok_or_else(|| bad(format_args!("symbol {symbol} of {full_name}")))
                });
                let symbols: Vec<Box<str>> = symbols.collect::<Parsed<_>>()?;
                let default = object.get("default").and_then(Value::as_str);
                let default = default.and_then(|text| symbols.iter().position(|s| **s == *text));
                AvroKind::Enum { symbols, default }
            }
            "fixed" => {
                let size = object.get("size").and_then(Value::as_u64);
                let size = size.and_then(|size| i32::try_from(size).ok());
                let size = size.and_then(|size| usize::try_from(size).ok());
                AvroKind::Fixed(size.ok_or_else(|| bad(format_args!("size of {full_name}")))?)
            }
            // Its fields follow, as they may name it.
            _ => AvroKind::Record(Vec::new()),
        };
        let is_record = matches!(kind, AvroKind::Record(_));
        let mut made = AvroType::new(kind, None);
        made.logical = logical(&made.kind, object);
        made.name = Some(AvroName {
            full: full_name.clone(),
            aliases: texts(object.get("aliases"))
                .map(|alias| full(alias, space))
                .collect(),
        });
        let id = self.add(made);
        self.names.insert(full_name.clone(), id);
        if is_record {
            let mut fields = Vec::new();
            let mut names = HashSet::new();
            for field in list(object, "fields")? {
                let field = self.field(field, space)?;
                if !names.insert(field.name.clone()) {
                    let name = &field.name;
                    return Err(bad(format_args!("field {name} of {full_name} twice")));
                }
                fields.push(field);
            }
            if let Some(made) = self.types.get_mut(id) {
                made.kind = AvroKind::Record(fields);
            }
        }
        Ok(id)
    }

    fn field(&mut self, json: &Value, space: &str) -> Parsed<AvroField> {
        let object = json.as_object();
        let object = object.ok_or_else(|| bad(format_args!("{json} is no field")))?;
        let name = text(object, "name")?;
        let kind = object.get("type");
        let kind = kind.ok_or_else(|| bad(format_args!("no type of field {name}")))?;
        Ok(AvroField {
            name: name.into(),
            key: format!("{}:", Value::from(name)).into(),
            aliases: texts(object.get("aliases")).map(Box::from).collect(),
            value: self.parse(kind, space)?,
            default: object.get("default").cloned(),
        })
    }
}

/// The logical type, if it is known and its base type and attributes fit: others count as their base type.
fn logical(kind: &AvroKind, object: &Map<String, Value>) -> Option<AvroLogical> {
    let name = object.get("logicalType")?.as_str()?;
    Some(match (name, kind) {
        ("date", AvroKind::Int) => AvroLogical::Date,
        ("time-millis", AvroKind::Int) => AvroLogical::TimeMillis,
        ("time-micros", AvroKind::Long) => AvroLogical::TimeMicros,
        ("timestamp-millis", AvroKind::Long) => AvroLogical::TimestampMillis,
        ("timestamp-micros", AvroKind::Long) => AvroLogical::TimestampMicros,
        ("timestamp-nanos", AvroKind::Long) => AvroLogical::TimestampNanos,
        ("local-timestamp-millis", AvroKind::Long) => AvroLogical::LocalTimestampMillis,
        ("local-timestamp-micros", AvroKind::Long) => AvroLogical::LocalTimestampMicros,
        ("local-timestamp-nanos", AvroKind::Long) => AvroLogical::LocalTimestampNanos,
        ("uuid", AvroKind::String | AvroKind::Fixed(16)) => AvroLogical::Uuid,
        ("decimal", AvroKind::Bytes | AvroKind::Fixed(_)) => {
            let number = |json: &Value| json.as_u64().and_then(|n| u32::try_from(n).ok());
            let precision = number(object.get("precision")?)?;
            let scale = object.get("scale").map_or(Some(0), number)?;
            let largest = match kind {
                AvroKind::Fixed(size) => digits(*size),
                _ => u64::MAX,
            };
            if precision == 0 || scale > precision || u64::from(precision) > largest {
                return None;
            }
            AvroLogical::Decimal { precision, scale }
        }
        _ => return None,
    })
}

/// Decimal digits that any number of so many bytes and fewer digits has: floor(log10(2^(8 n - 1))).
fn digits(size: usize) -> u64 {
    const LOG10_2: u128 = 301_029_995_663_981_195;
    const ONE: u128 = 1_000_000_000_000_000_000;
    let bits = u128::try_from(size).map_or(0, |size| size.saturating_mul(8).saturating_sub(1));
    u64::try_from(bits.saturating_mul(LOG10_2).wrapping_div(ONE)).unwrap_or(u64::MAX)
}
