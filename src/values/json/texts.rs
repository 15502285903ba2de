//! JSON text as it is.

use arrow_schema::DataType;

use super::scan::JsonScan;
use crate::values::builder::Builder;
use crate::values::decoder::{Body, Decoder, ProgramId, SchemaText};
use crate::values::fault::{Cause, Undecoded};

/// Checks text, and keeps it.
#[derive(Debug)]
pub(crate) struct JsonTexts;

impl Decoder for JsonTexts {
    fn data_type(&self) -> DataType {
        DataType::Utf8
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
        let Builder::Bytes(column) = column else {
            return Err(Undecoded::new(Cause::Malformed, "a column of another type"));
        };
        let mut scan = JsonScan::new(body.bytes)?;
        scan.value()?;
        scan.end()?;
        column.push(body.bytes)
    }
}
