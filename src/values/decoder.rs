//! The trait of all formats: schemas compiled to programs, payloads decoded into a column.

use std::fmt::Debug;

use arrow_schema::DataType;

use super::builder::Builder;
use super::fault::Undecoded;

/// A schema's text and the texts that it refers to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SchemaText<'a> {
    pub(crate) text: &'a str,
    /// Name (an Avro type, a `.proto` path, a JSON `$ref`) and text of every schema that it needs, also through others;
    /// each after those that it needs itself.
    pub(crate) references: Vec<(&'a str, &'a str)>,
}

/// Most payloads that are decoded side by side.
pub(crate) const BLOCK: usize = 16;

/// Index of a compiled writer schema in its decoder.
pub(crate) type ProgramId = usize;

/// The part of a payload after its framing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Body<'a> {
    pub(crate) bytes: &'a [u8],
    /// Path to a Protobuf message in its file; empty stands for the first one, and for other formats.
    pub(crate) message: &'a [i32],
    /// A value that is Avro `bytes` as a whole has no length.
    pub(crate) bare_bytes: bool,
}

/// Decodes payloads of one format into one column.
///
/// A decoder for structs has a reader schema, and compiles writer schemas against it. A decoder for JSON has none: its
/// column is text, under the writer schemas.
pub(crate) trait Decoder: Debug + Send + Sync {
    /// The type of the column.
    fn data_type(&self) -> DataType;

    /// Compiles a writer schema.
    ///
    /// # Errors
    /// `BadSchema` for a text that cannot be used, `Incompatible` where the reader schema cannot read any value of it.
    fn compile(&mut self, writer: &SchemaText<'_>) -> Result<ProgramId, Undecoded>;

    /// Decodes a payload into the column, as one row.
    ///
    /// # Errors
    /// The reason why there is no value. The column then has parts of the row: the caller truncates it.
    fn decode(
        &self,
        program: ProgramId,
        body: Body<'_>,
        column: &mut Builder,
    ) -> Result<(), Undecoded>;

    /// Returns whether there is any use in [`Decoder::decode_block`].
    fn has_blocks(&self) -> bool {
        false
    }

    /// Decodes payloads side by side, as one row each. Returns whether all were decoded; the column has parts of rows
    /// otherwise: the caller truncates it, and goes payload by payload.
    fn decode_block(&self, payloads: &[(ProgramId, Body<'_>)], column: &mut Builder) -> bool {
        let _ = (payloads, column);
        false
    }

    /// Fields of Protobuf messages so far that their schemas do not have.
    fn unknown_fields(&self) -> u64 {
        0
    }
}
