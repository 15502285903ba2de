//! The decoders of all formats.

use super::avro::structs::AvroStructs;
use super::avro::texts::AvroTexts;
use super::decoder::{Decoder, SchemaText};
use super::fault::{Cause, Undecoded};
use super::field_tree::{FieldTree, Projection};
use super::json::structs::JsonStructs;
use super::json::texts::JsonTexts;
use super::protobuf::structs::ProtoStructs;
use super::protobuf::texts::ProtoTexts;
use super::schemas::SchemaKind;

/// A decoder into the type of a reader schema, or into some fields of it. `message` is that of Protobuf, if it is not the
/// first one.
///
/// # Errors
/// `BadSchema` for a text that cannot be used.
pub(super) fn reader(
    kind: &SchemaKind,
    reader: &SchemaText<'_>,
    message: Option<&str>,
    projection: &Projection,
) -> Result<Box<dyn Decoder>, Undecoded> {
    let wanted = FieldTree::of(projection);
    match kind {
        SchemaKind::Avro => Ok(Box::new(AvroStructs::try_new(reader, wanted)?)),
        SchemaKind::Json => Ok(Box::new(JsonStructs::try_new(reader, &wanted)?)),
        SchemaKind::Protobuf => Ok(Box::new(ProtoStructs::try_new(reader, message, &wanted)?)),
        other @ SchemaKind::Other(_) => Err(unsupported(other)),
    }
}

/// A decoder into JSON text.
///
/// # Errors
/// `BadSchema` for a format that is not known.
pub(super) fn json(kind: &SchemaKind) -> Result<Box<dyn Decoder>, Undecoded> {
    match kind {
        SchemaKind::Avro => Ok(Box::new(AvroTexts::default())),
        SchemaKind::Json => Ok(Box::new(JsonTexts)),
        SchemaKind::Protobuf => Ok(Box::new(ProtoTexts::default())),
        other @ SchemaKind::Other(_) => Err(unsupported(other)),
    }
}

fn unsupported(kind: &SchemaKind) -> Undecoded {
    Undecoded::new(
        Cause::BadSchema,
        format_args!("schemas of type {} are not supported", kind.name()),
    )
}
