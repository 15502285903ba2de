//! Schemas with what a registry keeps beside them: plain data.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::guid::{Guid, SchemaReference};
use crate::types::{NO_TIMESTAMP, Offset, TimestampMs};

/// The context of subjects that name none.
pub(crate) const DEFAULT_CONTEXT: &str = ".";

/// Avro's primitive types, each a schema by its name alone.
const PRIMITIVES: [&str; 8] = [
    "null", "boolean", "int", "long", "float", "double", "bytes", "string",
];

/// Part of a record that has a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum Side {
    /// The key.
    Key,
    /// The value.
    Value,
}

impl Side {
    /// Its name in subjects and headers.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Key => "key",
            Self::Value => "value",
        }
    }

    /// The subject of this side of a topic (`TopicNameStrategy`).
    pub(crate) fn subject(self, topic: &str) -> String {
        format!("{topic}-{}", self.name())
    }
}

/// Format of a schema.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum SchemaKind {
    /// Avro.
    Avro,
    /// Protobuf: `.proto` text, or a `FileDescriptorSet` in base64.
    Protobuf,
    /// JSON Schema.
    Json,
    /// Another one, of a plug-in.
    Other(Box<str>),
}

impl SchemaKind {
    /// The format by its name in a registry; none is Avro.
    pub(crate) fn of(name: Option<&str>) -> Self {
        match name {
            None | Some("" | "AVRO") => Self::Avro,
            Some("PROTOBUF") => Self::Protobuf,
            Some("JSON") => Self::Json,
            Some(other) => Self::Other(other.into()),
        }
    }

    /// Its name in a registry.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Avro => "AVRO",
            Self::Protobuf => "PROTOBUF",
            Self::Json => "JSON",
            Self::Other(name) => name,
        }
    }

    /// The format that a text looks like. A JSON that may be Avro and JSON Schema alike, such as `{"type": "string"}`, is
    /// Avro.
    pub(crate) fn guess(text: &str) -> Self {
        let text = text.trim();
        if PRIMITIVES.contains(&text) {
            return Self::Avro;
        }
        if matches!(text, "true" | "false") {
            return Self::Json;
        }
        if !text.starts_with(['{', '[', '"']) {
            return Self::Protobuf;
        }
        let words = [
            "$schema",
            "$id",
            "$ref",
            "$defs",
            "definitions",
            "properties",
            "oneOf",
            "anyOf",
            "allOf",
            "const",
        ];
        let is_word = |word: &Value| {
            let word = word.as_str().unwrap_or_default();
            matches!(word, "object" | "integer" | "number")
        };
        match serde_json::from_str(text) {
            Ok(Value::Object(members)) => {
                let has_word = words.iter().any(|word| members.contains_key(*word));
                let kind = members.get("type");
                let is_of_json = kind.is_some_and(is_word)
                    || kind
                        .and_then(Value::as_array)
                        .is_some_and(|kinds| kinds.iter().any(is_word));
                if has_word || is_of_json || kind.is_none() {
                    Self::Json
                } else {
                    Self::Avro
                }
            }
            _ => Self::Avro,
        }
    }
}

/// Deletion of a schema.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Deletion {
    /// It is not deleted.
    #[default]
    No,
    /// Its version is deleted: it can be read by its id, and restored.
    Soft,
    /// The registry has forgotten it; only its topic still has it.
    Hard,
}

impl Deletion {
    /// As tables spell it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::No => "no",
            Self::Soft => "soft",
            Self::Hard => "hard",
        }
    }
}

/// Spelling of a record's key in the registry's topic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum KeyFormat {
    /// Byte for byte as a registry of today writes it: compaction removes older records of the same version.
    #[default]
    Canonical,
    /// Another: a later deletion does not remove it, and the schema comes back.
    Old,
}

impl KeyFormat {
    /// As tables spell it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Canonical => "canonical",
            Self::Old => "old",
        }
    }
}

/// A version of a subject, or a schema that the user gave.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RegisteredSchema {
    /// As the registry spells it, with its context if that is not the default one; empty for a schema that was given by
    /// its id.
    pub(crate) subject: String,
    /// 0 for a schema that was given.
    pub(crate) version: i32,
    /// Within its context. Apicurio's have 64 bits.
    pub(crate) id: Option<i64>,
    /// `None` only in a history, for the deletion of a schema that is not known.
    pub(crate) guid: Option<Guid>,
    pub(crate) kind: SchemaKind,
    pub(crate) text: Arc<str>,
    pub(crate) references: Vec<SchemaReference>,
    /// Names and texts of files that a schema from a file imports, each after those that it imports itself.
    pub(crate) imports: Vec<(String, String)>,
    /// JSON.
    pub(crate) metadata: Option<String>,
    /// JSON.
    pub(crate) rule_set: Option<String>,
    pub(crate) deleted: Deletion,
    /// Its id has another text already, that of this row.
    pub(crate) duplicate_of: Option<usize>,
    pub(crate) key_format: KeyFormat,
    /// Of the last record that holds it.
    pub(crate) log_offset: Offset,
    /// Of that record.
    pub(crate) log_timestamp: TimestampMs,
}

impl RegisteredSchema {
    /// Creates a schema that is in no log.
    pub(crate) fn given(subject: String, kind: SchemaKind, text: &str) -> Self {
        Self {
            subject,
            version: 0,
            id: None,
            guid: Some(Guid::of(text, &[], None, None)),
            kind,
            text: text.into(),
            references: Vec::new(),
            imports: Vec::new(),
            metadata: None,
            rule_set: None,
            deleted: Deletion::No,
            duplicate_of: None,
            key_format: KeyFormat::Canonical,
            log_offset: -1,
            log_timestamp: NO_TIMESTAMP,
        }
    }

    /// The context of its subject.
    pub(crate) fn context(&self) -> &str {
        split_subject(&self.subject).0
    }

    /// Its subject without the context.
    pub(crate) fn name(&self) -> &str {
        split_subject(&self.subject).1
    }

    pub(super) fn is_held(&self) -> bool {
        self.deleted != Deletion::Hard
    }
}

impl fmt::Display for RegisteredSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&*self.subject, self.id) {
            ("", Some(id)) => write!(f, "the schema given for id {id}"),
            ("", None) => f.write_str("the schema given for a GUID"),
            (subject, _) if self.version == 0 => write!(f, "the schema given for {subject}"),
            (subject, Some(id)) => write!(f, "{subject} version {} (id {id})", self.version),
            (subject, None) => write!(f, "{subject} version {}", self.version),
        }
    }
}

/// Splits a qualified subject: `:.context:name` is `name` in that context (`QualifiedSubject`).
pub(crate) fn split_subject(subject: &str) -> (&str, &str) {
    let parts = subject
        .strip_prefix(':')
        .filter(|rest| rest.starts_with('.'));
    let parts = parts.and_then(|rest| rest.split_once(':'));
    parts.unwrap_or((DEFAULT_CONTEXT, subject))
}
