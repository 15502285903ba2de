//! Defaults of fields as Avro's bytes, which the column then decodes as it does those of records.
//!
//! As `ResolvingGrammarGenerator.encode` of Avro's Java.

use serde_json::Value;

use super::cursor::MAX_DEPTH;
use super::schema::{AvroKind, AvroSchema, TypeId};
use crate::format::varint::put_varlong;

/// Most bytes of one default, and most values in it.
const MAX_DEFAULT: usize = 1 << 20;

/// The bytes of `json` as a value of the type; none where it is not one.
pub(super) fn encoded(schema: &AvroSchema, id: TypeId, json: &Value) -> Option<Vec<u8>> {
    let mut encoder = DefaultEncoder {
        schema,
        out: Vec::new(),
        left: MAX_DEFAULT,
    };
    encoder.put(id, json, 0)?;
    Some(encoder.out)
}

struct DefaultEncoder<'s> {
    schema: &'s AvroSchema,
    out: Vec<u8>,
    /// Values that may still come: a record's default may be made of those of its fields, and theirs again.
    left: usize,
}

/// Bytes in JSON: each character is one, as in ISO 8859-1.
fn latin1(json: &Value) -> Option<Vec<u8>> {
    let chars = json.as_str()?.chars();
    // As Java, which puts a question mark for what is no byte.
    Some(chars.map(|c| u8::try_from(c).unwrap_or(b'?')).collect())
}

impl DefaultEncoder<'_> {
    fn length(&mut self, length: usize) -> Option<()> {
        put_varlong(i64::try_from(length).ok()?, &mut self.out);
        Some(())
    }

    fn bytes(&mut self, bytes: &[u8]) -> Option<()> {
        self.length(bytes.len())?;
        self.out.extend_from_slice(bytes);
        Some(())
    }

    #[expect(clippy::little_endian_bytes, reason = "Avro's floats are")]
    #[expect(clippy::cast_possible_truncation, reason = "as Java narrows")]
    fn put(&mut self, id: TypeId, json: &Value, depth: usize) -> Option<()> {
        self.left = self.left.checked_sub(1)?;
        if depth > MAX_DEPTH || self.out.len() > MAX_DEFAULT {
            return None;
        }
        let deeper = depth.saturating_add(1);
        let schema = self.schema;
        match &schema.get(id).kind {
            AvroKind::Null => json.as_null()?,
            AvroKind::Boolean => self.out.push(u8::from(json.as_bool()?)),
            AvroKind::Int => {
                let number = integer(json)?;
                put_varlong(i64::from(i32::try_from(number).ok()?), &mut self.out);
            }
            AvroKind::Long => put_varlong(integer(json)?, &mut self.out),
            AvroKind::Float => {
                let number = json.as_f64()? as f32;
                self.out.extend_from_slice(&number.to_le_bytes());
            }
            AvroKind::Double => self.out.extend_from_slice(&json.as_f64()?.to_le_bytes()),
            AvroKind::Bytes => self.bytes(&latin1(json)?)?,
            AvroKind::String => self.bytes(json.as_str()?.as_bytes())?,
            AvroKind::Fixed(size) => {
                let mut bytes = latin1(json)?;
                if *size > MAX_DEFAULT {
                    return None;
                }
                bytes.resize(*size, 0);
                self.out.extend_from_slice(&bytes);
            }
            AvroKind::Enum { symbols, .. } => {
                let text = json.as_str()?;
                let symbol = symbols.iter().position(|symbol| **symbol == *text)?;
                self.length(symbol)?;
            }
            AvroKind::Array(items) => {
                let list = json.as_array()?;
                if !list.is_empty() {
                    self.length(list.len())?;
                }
                for item in list {
                    self.put(*items, item, deeper)?;
                }
                self.out.push(0);
            }
            AvroKind::Map(values) => {
                let map = json.as_object()?;
                if !map.is_empty() {
                    self.length(map.len())?;
                }
                for (key, value) in map {
                    self.bytes(key.as_bytes())?;
                    self.put(*values, value, deeper)?;
                }
                self.out.push(0);
            }
            AvroKind::Union(branches) => {
                // The first by the specification; the first that fits since Avro 1.12.
                let at = branches
                    .iter()
                    .position(|&branch| self.fits(branch, json))?;
                self.length(at)?;
                self.put(*branches.get(at)?, json, deeper)?;
            }
            AvroKind::Record(fields) => {
                let object = json.as_object()?;
                for field in fields {
                    let value = object.get(&*field.name).or(field.default.as_ref())?;
                    self.put(field.value, value, deeper)?;
                }
            }
        }
        Some(())
    }

    fn fits(&self, branch: TypeId, json: &Value) -> bool {
        match &self.schema.get(branch).kind {
            AvroKind::Null => json.is_null(),
            AvroKind::Boolean => json.is_boolean(),
            AvroKind::Int | AvroKind::Long | AvroKind::Float | AvroKind::Double => json.is_number(),
            AvroKind::Bytes | AvroKind::String | AvroKind::Fixed(_) | AvroKind::Enum { .. } => {
                json.is_string()
            }
            AvroKind::Array(_) => json.is_array(),
            AvroKind::Map(_) | AvroKind::Record(_) => json.is_object(),
            AvroKind::Union(_) => false,
        }
    }
}

/// A number, without its fraction as in Java.
#[expect(clippy::cast_possible_truncation, reason = "as Java narrows")]
fn integer(json: &Value) -> Option<i64> {
    json.as_i64().or_else(|| json.as_f64().map(|n| n as i64))
}
