//! The column of a JSON Schema (draft 4 to 2020-12).

use std::collections::HashMap;
use std::sync::Arc;

use arrow_schema::{DataType, Field, Fields};
use serde_json::{Map, Value};

use crate::values::decoder::SchemaText;
use crate::values::fault::{Cause, Undecoded};
use crate::values::field_tree::FieldTree;

/// Deepest nesting of columns; below, values are text.
const MAX_LEVELS: usize = 64;
/// Most columns; the rest is text.
const MAX_COLUMNS: usize = 20_000;

/// Words under which a value has no single type.
const CHOICES: [&str; 8] = [
    "oneOf",
    "anyOf",
    "allOf",
    "not",
    "if",
    "$dynamicRef",
    "$recursiveRef",
    "patternProperties",
];

/// The column that a value is decoded into.
#[derive(Debug)]
pub(super) enum JsonColumn {
    Boolean,
    Integer,
    Number,
    String,
    List(Box<JsonColumn>),
    /// An object of any members of one type.
    Map(Box<JsonColumn>),
    Struct(JsonFields),
    /// JSON text.
    Text,
}

/// Wanted members.
#[derive(Debug)]
pub(super) struct JsonFields {
    pub(super) columns: Vec<(String, JsonColumn)>,
    places: HashMap<String, usize>,
}

impl JsonFields {
    /// The place of a member; `next` is where it is if members come in the order of the schema.
    #[inline]
    pub(super) fn place(&self, name: &str, next: usize) -> Option<usize> {
        match self.columns.get(next) {
            Some((expected, _)) if expected == name => Some(next),
            _ => self.places.get(name).copied(),
        }
    }
}

impl JsonColumn {
    pub(super) fn data_type(&self) -> DataType {
        let nullable = |name: &str, of: &Self| Field::new(name, of.data_type(), true);
        match self {
            Self::Boolean => DataType::Boolean,
            Self::Integer => DataType::Int64,
            Self::Number => DataType::Float64,
            Self::String | Self::Text => DataType::Utf8,
            Self::List(item) => DataType::List(Arc::new(nullable("item", item))),
            Self::Map(value) => {
                let entry = vec![
                    Field::new("key", DataType::Utf8, false),
                    nullable("value", value),
                ];
                let entries = Field::new("entries", DataType::Struct(entry.into()), false);
                DataType::Map(Arc::new(entries), false)
            }
            Self::Struct(fields) => {
                let columns = fields.columns.iter();
                let columns = columns.map(|(name, column)| nullable(name, column));
                DataType::Struct(columns.collect::<Fields>())
            }
        }
    }
}

/// The column of a schema: a struct of the wanted members where it is an object with typed properties, else text.
///
/// # Errors
/// `BadSchema`
pub(super) fn column(schema: &SchemaText<'_>, wanted: &FieldTree) -> Result<JsonColumn, Undecoded> {
    let parsed = |text: &str| {
        serde_json::from_str(text).map_err(|error| {
            Undecoded::new(
                Cause::BadSchema,
                format_args!("its text is not JSON: {error}"),
            )
        })
    };
    let mut documents: Vec<(&str, Value)> = vec![("", parsed(schema.text)?)];
    for &(name, text) in &schema.references {
        documents.push((name, parsed(text)?));
    }
    let mut columns = JsonColumns {
        documents: &documents,
        within: Vec::new(),
        count: 0,
    };
    Ok(match documents.first() {
        Some((_, root)) => match columns.of(0, root, wanted) {
            found @ JsonColumn::Struct(_) => found,
            _ => JsonColumn::Text,
        },
        None => JsonColumn::Text,
    })
}

struct JsonColumns<'s> {
    /// The schema, and those that it refers to by name.
    documents: &'s [(&'s str, Value)],
    /// The schemas around this one.
    within: Vec<*const Value>,
    count: usize,
}

impl<'s> JsonColumns<'s> {
    fn of(&mut self, document: usize, schema: &'s Value, wanted: &FieldTree) -> JsonColumn {
        self.count = self.count.saturating_add(1);
        let here: *const Value = schema;
        let is_bounded = self.within.len() < MAX_LEVELS && self.count < MAX_COLUMNS;
        let Value::Object(words) = schema else {
            return JsonColumn::Text;
        };
        if !is_bounded || self.within.contains(&here) {
            return JsonColumn::Text;
        }
        self.within.push(here);
        let found = self.words(document, words, wanted);
        self.within.pop();
        found.unwrap_or(JsonColumn::Text)
    }

    fn words(
        &mut self,
        document: usize,
        words: &'s Map<String, Value>,
        wanted: &FieldTree,
    ) -> Option<JsonColumn> {
        if let Some(target) = words.get("$ref") {
            let (document, schema) = self.resolve(document, target.as_str()?)?;
            return Some(self.of(document, schema, wanted));
        }
        if let Some(only) = nullable(words) {
            return Some(self.of(document, only, wanted));
        }
        if CHOICES.iter().any(|word| words.contains_key(*word)) {
            return None;
        }
        match type_of(words)? {
            "boolean" => Some(JsonColumn::Boolean),
            "integer" => Some(JsonColumn::Integer),
            "number" => Some(JsonColumn::Number),
            "string" => Some(JsonColumn::String),
            "array" => {
                let items = words.get("items").filter(|items| items.is_object())?;
                if words.contains_key("prefixItems") {
                    return None;
                }
                let item = self.of(document, items, &FieldTree::All);
                Some(JsonColumn::List(Box::new(item)))
            }
            "object" => self.object(document, words, wanted),
            _ => None,
        }
    }

    fn object(
        &mut self,
        document: usize,
        words: &'s Map<String, Value>,
        wanted: &FieldTree,
    ) -> Option<JsonColumn> {
        let properties = words.get("properties").and_then(Value::as_object);
        let Some(properties) = properties.filter(|properties| !properties.is_empty()) else {
            let values = words.get("additionalProperties");
            let values = values.filter(|values| values.is_object())?;
            let value = self.of(document, values, &FieldTree::All);
            return Some(JsonColumn::Map(Box::new(value)));
        };
        let mut columns = Vec::new();
        for (name, schema) in properties {
            if let Some(wanted) = wanted.field(name) {
                columns.push((name.clone(), self.of(document, schema, wanted)));
            }
        }
        let names = columns.iter().enumerate();
        let places = names.map(|(i, (name, _))| (name.clone(), i)).collect();
        Some(JsonColumn::Struct(JsonFields { columns, places }))
    }

    /// The schema that `$ref` means, and its document.
    fn resolve(&self, document: usize, target: &str) -> Option<(usize, &'s Value)> {
        let (name, pointer) = target.split_once('#').unwrap_or((target, ""));
        let place = if name.is_empty() {
            document
        } else {
            let mut all = self.documents.iter();
            all.position(|(known, root)| *known == name || id_of(root) == Some(name))?
        };
        let (_, root) = self.documents.get(place)?;
        root.pointer(&from_percent(pointer))
            .map(|found| (place, found))
    }
}

/// The text of a URI's fragment, in which any byte may be a percent sign and two digits.
fn from_percent(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('%') {
        bytes.extend_from_slice(before.as_bytes());
        let digits = after.split_at_checked(2);
        let byte = digits.and_then(|(digits, _)| u8::from_str_radix(digits, 16).ok());
        bytes.push(byte.unwrap_or(b'%'));
        rest = match (byte, digits) {
            (Some(_), Some((_, rest))) => rest,
            _ => after,
        };
    }
    bytes.extend_from_slice(rest.as_bytes());
    String::from_utf8_lossy(&bytes).into_owned()
}

fn id_of(root: &Value) -> Option<&str> {
    let id = root.get("$id").or_else(|| root.get("id"))?.as_str()?;
    Some(id.trim_end_matches('#'))
}

/// The only type besides null; that of the symbols of an enum, if all are text.
fn type_of(words: &Map<String, Value>) -> Option<&str> {
    match words.get("type") {
        Some(Value::String(name)) => Some(name),
        Some(Value::Array(names)) => {
            let mut names = names.iter().filter_map(Value::as_str);
            let mut names = names.by_ref().filter(|name| *name != "null");
            let only = names.next()?;
            names.next().is_none().then_some(only)
        }
        Some(_) => None,
        None => {
            let symbols = words.get("enum").and_then(Value::as_array)?;
            let is_text = |symbol: &Value| symbol.is_string() || symbol.is_null();
            symbols.iter().all(is_text).then_some("string")
        }
    }
}

/// The schema besides null, of a choice between these two.
fn nullable(words: &Map<String, Value>) -> Option<&Value> {
    let choice = words.get("oneOf").or_else(|| words.get("anyOf"))?;
    let is_null = |schema: &&Value| schema.get("type").and_then(Value::as_str) == Some("null");
    match choice.as_array()?.as_slice() {
        [null, other] | [other, null] if is_null(&null) && !is_null(&other) => Some(other),
        _ => None,
    }
}
