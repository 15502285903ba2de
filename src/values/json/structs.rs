//! JSON objects as structs.

use arrow_schema::DataType;

use super::scan::JsonScan;
use super::schema::{self, JsonColumn, JsonFields};
use crate::values::builder::{Builder, ListBuilder, StructBuilder};
use crate::values::decoder::{Body, Decoder, ProgramId, SchemaText};
use crate::values::fault::{Cause, Undecoded};
use crate::values::field_tree::FieldTree;

/// A decoder into the type of a reader schema.
#[derive(Debug)]
pub(crate) struct JsonStructs {
    column: JsonColumn,
}

impl JsonStructs {
    /// # Errors
    /// `BadSchema`
    pub(crate) fn try_new(reader: &SchemaText<'_>, wanted: &FieldTree) -> Result<Self, Undecoded> {
        let column = schema::column(reader, wanted)?;
        Ok(Self { column })
    }
}

impl Decoder for JsonStructs {
    fn data_type(&self) -> DataType {
        self.column.data_type()
    }

    fn compile(&mut self, _writer: &SchemaText<'_>) -> Result<ProgramId, Undecoded> {
        Ok(0)
    }

    fn decode(
        &self,
        _program: ProgramId,
        body: Body<'_>,
        column: &mut Builder,
    ) -> Result<(), Undecoded> {
        let mut scan = JsonScan::new(body.bytes)?;
        let mut text = Vec::new();
        let mut reading = JsonReading {
            scan: &mut scan,
            text: &mut text,
        };
        let Err(fault) = reading.value(&self.column, column) else {
            return scan.end();
        };
        // Text that is no JSON is that first of all, wherever it is.
        let mut whole = JsonScan::new(body.bytes)?;
        whole.value()?;
        whole.end()?;
        Err(fault)
    }
}

struct JsonReading<'r, 'a> {
    scan: &'r mut JsonScan<'a>,
    /// Room for unescaped text.
    text: &'r mut Vec<u8>,
}

impl JsonReading<'_, '_> {
    #[cold]
    fn misfit(&self, expected: &str) -> Undecoded {
        let text = format_args!("the schema has {expected} here");
        Undecoded::at(Cause::Malformed, self.scan.position(), text)
    }

    fn value(&mut self, column: &JsonColumn, to: &mut Builder) -> Result<(), Undecoded> {
        // The null of JSON has no other form here; `decode_as="json"` keeps its text.
        if self.scan.null()? {
            to.push_null();
            return Ok(());
        }
        match (column, to) {
            (JsonColumn::Struct(fields), Builder::Struct(to)) => self.object(fields, to),
            (JsonColumn::String, Builder::Bytes(to)) => {
                if self.scan.peek() != b'"' {
                    return Err(self.misfit("text"));
                }
                let string = self.scan.string()?;
                if !string.has_escapes {
                    return to.push(string.raw.as_bytes());
                }
                self.text.clear();
                string.unescape(self.text)?;
                to.push(self.text)
            }
            (JsonColumn::Text, Builder::Bytes(to)) => to.push(self.scan.value()?.as_bytes()),
            (JsonColumn::Integer, Builder::Int64(to)) => {
                let number = self.number("an integer of 64 bits")?;
                let found = integer(number);
                to.push(found.ok_or_else(|| self.misfit("an integer of 64 bits"))?);
                Ok(())
            }
            (JsonColumn::Number, Builder::Float64(to)) => {
                let number = self.number("a number")?;
                let found = number.parse().ok().filter(|found: &f64| found.is_finite());
                to.push(found.ok_or_else(|| self.misfit("a number of 64 bits"))?);
                Ok(())
            }
            (JsonColumn::Boolean, Builder::Boolean(to)) => {
                if !matches!(self.scan.peek(), b't' | b'f') {
                    return Err(self.misfit("a boolean"));
                }
                to.push(self.scan.boolean()?);
                Ok(())
            }
            (JsonColumn::List(item), Builder::List(to)) => self.list(item, to),
            (JsonColumn::Map(value), Builder::List(to)) => self.map(value, to),
            _ => Err(Undecoded::new(Cause::Malformed, "a column of another type")),
        }
    }

    fn number(&mut self, expected: &str) -> Result<&str, Undecoded> {
        if !matches!(self.scan.peek(), b'-' | b'0'..=b'9') {
            return Err(self.misfit(expected));
        }
        self.scan.number()
    }

    fn object(&mut self, fields: &JsonFields, to: &mut StructBuilder) -> Result<(), Undecoded> {
        if !self.scan.take(b'{') {
            return Err(self.misfit("an object"));
        }
        let rows = to.rows();
        let mut next = 0;
        let mut is_first = true;
        while !self.scan.take(b'}') {
            if !is_first {
                self.scan.expect(b',')?;
            }
            is_first = false;
            let name = self.scan.string()?;
            let place = if name.has_escapes {
                self.text.clear();
                name.unescape(self.text)?;
                let name = std::str::from_utf8(self.text).unwrap_or_default();
                fields.place(name, next)
            } else {
                fields.place(name.raw, next)
            };
            self.scan.expect(b':')?;
            let place = place.and_then(|at| Some((at, &fields.columns.get(at)?.1)));
            let found =
                place.and_then(|(at, column)| Some((at, column, to.children().get_mut(at)?)));
            let Some((at, column, child)) = found else {
                self.scan.value()?;
                continue;
            };
            if child.len() > rows {
                child.truncate(rows);
            }
            self.value(column, child)?;
            next = at.saturating_add(1);
        }
        for child in to.children() {
            if child.len() == rows {
                child.push_null();
            }
        }
        to.close();
        Ok(())
    }

    fn list(&mut self, item: &JsonColumn, to: &mut ListBuilder) -> Result<(), Undecoded> {
        if !self.scan.take(b'[') {
            return Err(self.misfit("an array"));
        }
        let mut is_first = true;
        while !self.scan.take(b']') {
            if !is_first {
                self.scan.expect(b',')?;
            }
            is_first = false;
            self.value(item, to.item())?;
        }
        to.close()
    }

    fn map(&mut self, value: &JsonColumn, to: &mut ListBuilder) -> Result<(), Undecoded> {
        if !self.scan.take(b'{') {
            return Err(self.misfit("an object"));
        }
        // Where each name's last value begins.
        let mut members: Vec<(Vec<u8>, JsonScan<'_>)> = Vec::new();
        let mut places = std::collections::HashMap::new();
        let mut is_first = true;
        while !self.scan.take(b'}') {
            if !is_first {
                self.scan.expect(b',')?;
            }
            is_first = false;
            let mut name = Vec::new();
            self.scan.string()?.unescape(&mut name)?;
            self.scan.expect(b':')?;
            let begin = self.scan.clone();
            self.scan.value()?;
            let at = *places.entry(name.clone()).or_insert(members.len());
            if let Some(known) = members.get_mut(at) {
                known.1 = begin;
            } else {
                members.push((name, begin));
            }
        }
        for (name, mut begin) in members {
            let Builder::Struct(entry) = to.item() else {
                break;
            };
            let [Builder::Bytes(keys), values] = entry.children() else {
                break;
            };
            keys.push(&name)?;
            let mut reading = JsonReading {
                scan: &mut begin,
                text: self.text,
            };
            reading.value(value, values)?;
            entry.close();
        }
        to.close()
    }
}

/// A number that is an integer, however it is written.
fn integer(number: &str) -> Option<i64> {
    if let Ok(found) = number.parse() {
        return Some(found);
    }
    // Floats are exact integers below 2^53.
    let float: f64 = number.parse().ok()?;
    let is_exact = float.fract() == 0.0 && float.abs() < 9_007_199_254_740_992.0;
    // A text of digits only was beyond 64 bits.
    let text = is_exact.then(|| format!("{float:.0}"))?;
    text.parse().ok()
}
