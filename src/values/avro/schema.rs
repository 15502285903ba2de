//! An Avro schema: types that refer to each other by index, so that recursion needs no pointers.

use serde_json::Value;

/// Index of a type in its schema.
pub(super) type TypeId = usize;

/// A schema with all named types that it needs.
#[derive(Debug)]
pub(super) struct AvroSchema {
    pub(super) types: Vec<AvroType>,
    pub(super) root: TypeId,
}

#[derive(Debug)]
pub(super) struct AvroType {
    pub(super) kind: AvroKind,
    /// Present only where it fits the base type.
    pub(super) logical: Option<AvroLogical>,
    pub(super) name: Option<AvroName>,
}

/// Name of a record, enum or fixed.
#[derive(Debug)]
pub(super) struct AvroName {
    /// With the namespace.
    pub(super) full: Box<str>,
    pub(super) aliases: Vec<Box<str>>,
}

#[derive(Debug)]
pub(super) enum AvroKind {
    Null,
    Boolean,
    Int,
    Long,
    Float,
    Double,
    Bytes,
    String,
    Fixed(usize),
    Enum {
        symbols: Vec<Box<str>>,
        /// Index of the symbol that stands for those that a reader does not have.
        default: Option<usize>,
    },
    Array(TypeId),
    Map(TypeId),
    Union(Vec<TypeId>),
    Record(Vec<AvroField>),
}

#[derive(Debug)]
pub(super) struct AvroField {
    pub(super) name: Box<str>,
    /// The name as a key of JSON, with the colon.
    pub(super) key: Box<str>,
    pub(super) aliases: Vec<Box<str>>,
    pub(super) value: TypeId,
    pub(super) default: Option<Value>,
}

/// Logical types that change how a value is shown. Others (`duration`, `map`, `variant`) are their base type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AvroLogical {
    Date,
    TimeMillis,
    TimeMicros,
    TimestampMillis,
    TimestampMicros,
    TimestampNanos,
    LocalTimestampMillis,
    LocalTimestampMicros,
    LocalTimestampNanos,
    Uuid,
    Decimal { precision: u32, scale: u32 },
}

static NULL: AvroType = AvroType {
    kind: AvroKind::Null,
    logical: None,
    name: None,
};

impl AvroSchema {
    #[inline]
    pub(super) fn get(&self, id: TypeId) -> &AvroType {
        self.types.get(id).unwrap_or(&NULL)
    }
}

impl AvroType {
    pub(super) const fn new(kind: AvroKind, logical: Option<AvroLogical>) -> Self {
        Self {
            kind,
            logical,
            name: None,
        }
    }

    /// The name as a branch of a union: named types by their full name.
    pub(super) fn branch(&self) -> &str {
        let word = self.kind.word();
        self.name.as_ref().map_or(word, |name| &name.full)
    }

    /// The name without its namespace.
    pub(super) fn short_name(&self) -> &str {
        short(self.branch())
    }
}

/// A full name without its namespace.
pub(super) fn short(full: &str) -> &str {
    full.rsplit_once('.').map_or(full, |(_, name)| name)
}

impl AvroKind {
    /// The word for it in schemas.
    pub(super) const fn word(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Boolean => "boolean",
            Self::Int => "int",
            Self::Long => "long",
            Self::Float => "float",
            Self::Double => "double",
            Self::Bytes => "bytes",
            Self::String => "string",
            Self::Fixed(_) => "fixed",
            Self::Enum { .. } => "enum",
            Self::Array(_) => "array",
            Self::Map(_) => "map",
            Self::Union(_) => "union",
            Self::Record(_) => "record",
        }
    }
}
