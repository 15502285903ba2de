//! Descriptors of a schema: `.proto` text as registries keep it, or descriptors in base64 as clients send them.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use prost_reflect::prost::Message as _;
use prost_reflect::prost_types::{
    DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorProto,
    FileDescriptorSet, UninterpretedOption,
};
use prost_reflect::{DescriptorPool, FieldDescriptor, FileDescriptor};

use crate::values::decoder::SchemaText;
use crate::values::fault::{Cause, Undecoded};

/// Files that registries know and that are in no references (`ProtobufSchema.KNOWN_DEPENDENCIES`), without options and
/// comments. Those of `google/protobuf` are in prost-reflect.
const KNOWN_IMPORTS: &str = include_str!("imports.txt");

/// Most bytes of all texts of a schema. A registry's record has at most some megabytes.
const MAX_TEXT: usize = 16 << 20;

/// Most files of a schema.
const MAX_FILES: usize = 1000;

/// The fault of a file of an edition.
const EDITIONS: &str = "Protobuf editions are not supported, proto2 and proto3 are";

/// The name of the schema's own file, which no import can name.
const OWN_NAME: &str = "\u{1}schema.proto";

/// The beginning of what stands in for a field's name, and of that name.
const RENAMED: char = '\u{1}';

/// Compiles a schema with all that it imports.
///
/// # Errors
/// `BadSchema`
pub(super) fn compile(schema: &SchemaText<'_>) -> Result<FileDescriptor, Undecoded> {
    let texts = schema.references.iter().map(|(_, text)| text.len());
    if texts.fold(schema.text.len(), usize::saturating_add) > MAX_TEXT {
        return Err(bad(format_args!("more than {MAX_TEXT} bytes of text")));
    }
    // The parser and the linker are other people's code, and any text may reach them.
    catch_unwind(AssertUnwindSafe(|| linked(schema)))
        .unwrap_or_else(|_| Err(bad("the compiler of .proto files failed on it")))
}

/// A fault of the schema.
#[cold]
pub(super) fn bad(text: impl std::fmt::Display) -> Undecoded {
    Undecoded::new(Cause::BadSchema, text)
}

fn linked(schema: &SchemaText<'_>) -> Result<FileDescriptor, Undecoded> {
    let mut files = BTreeMap::new();
    let mut own = match from_base64(schema.text) {
        Some(mut set) => {
            // The compiler writes a file after those that it imports.
            let last = set.pop().ok_or_else(|| bad("no file in the descriptors"))?;
            files.extend(set.into_iter().map(|file| (file.name().to_owned(), file)));
            last
        }
        None => parse(OWN_NAME, schema.text)?,
    };
    own.name = Some(OWN_NAME.to_owned());
    let mut wanted = own.dependency.clone();
    wanted.extend(files.values().flat_map(|file| file.dependency.clone()));
    while let Some(name) = wanted.pop() {
        if files.contains_key(&name) {
            continue;
        }
        let file = imported(schema, &name)?;
        wanted.extend(file.dependency.iter().cloned());
        files.insert(name, file);
        if files.len() > MAX_FILES {
            return Err(bad(format_args!("more than {MAX_FILES} files")));
        }
    }
    let mut pool = DescriptorPool::new();
    let mut added = HashSet::new();
    while !files.is_empty() {
        let ready = |file: &FileDescriptorProto| file.dependency.iter().all(|d| added.contains(d));
        let (now, later) = files.into_iter().partition(|(_, file)| ready(file));
        let now: BTreeMap<String, FileDescriptorProto> = now;
        if now.is_empty() {
            return Err(bad("its imports form a circle"));
        }
        added.extend(now.keys().cloned());
        add(&mut pool, now.into_values())?;
        files = later;
    }
    add(&mut pool, [own])?;
    let file = pool.get_file_by_name(OWN_NAME);
    file.ok_or_else(|| bad("its own file is missing"))
}

/// Adds files whose imports are there, without custom options: these say nothing of the bytes, and often use newer
/// extensions than those known here.
fn add(
    pool: &mut DescriptorPool,
    files: impl IntoIterator<Item = FileDescriptorProto>,
) -> Result<(), Undecoded> {
    let files = files.into_iter().map(|mut file| {
        // prost-reflect panics on others.
        match file.syntax() {
            "" | "proto2" | "proto3" => {}
            "editions" => return Err(bad(EDITIONS)),
            other => {
                return Err(bad(format_args!(
                    "expected syntax proto2 or proto3, found {other:?}"
                )));
            }
        }
        file.source_code_info = None;
        if let Some(options) = &mut file.options {
            keep_plain(&mut options.uninterpreted_option);
        }
        file.service.clear();
        file.message_type.iter_mut().for_each(strip_message);
        file.enum_type.iter_mut().for_each(strip_enum);
        file.extension.iter_mut().for_each(strip_field);
        Ok(file)
    });
    let added = pool.add_file_descriptor_protos(files.collect::<Result<Vec<_>, _>>()?);
    added.map_err(|error| bad(shown(&error)))
}

fn strip_message(message: &mut DescriptorProto) {
    if let Some(options) = &mut message.options {
        keep_plain(&mut options.uninterpreted_option);
    }
    for oneof in &mut message.oneof_decl {
        oneof.options = None;
    }
    for range in &mut message.extension_range {
        range.options = None;
    }
    message.field.iter_mut().for_each(strip_field);
    rename_similar(&mut message.field);
    message.extension.iter_mut().for_each(strip_field);
    message.enum_type.iter_mut().for_each(strip_enum);
    // Parsers nest at most some hundred messages.
    message.nested_type.iter_mut().for_each(strip_message);
}

/// Gives another name to a field whose name differs from an earlier one's in case and underscores alone (`user_id`,
/// `userid`): the linker refuses those of proto3, registries and newer compilers do not. [`name`] is its own.
fn rename_similar(fields: &mut [FieldDescriptorProto]) {
    let mut seen: HashMap<String, String> = HashMap::new();
    for (at, field) in fields.iter_mut().enumerate() {
        let name = field.name().to_owned();
        let plain = name.replace('_', "").to_ascii_lowercase();
        let first = seen.entry(plain).or_insert_with(|| name.clone());
        if *first != name {
            field.json_name = Some(format!("{RENAMED}{name}"));
            field.name = Some(format!("{RENAMED}{at}"));
        }
    }
}

/// The name of a field in its text.
pub(super) fn name(field: &FieldDescriptor) -> &str {
    let renamed = field.json_name().strip_prefix(RENAMED);
    renamed.unwrap_or_else(|| field.name())
}

fn strip_enum(of: &mut EnumDescriptorProto) {
    if let Some(options) = &mut of.options {
        keep_plain(&mut options.uninterpreted_option);
    }
    for value in &mut of.value {
        value.options = None;
    }
}

fn strip_field(field: &mut FieldDescriptorProto) {
    if let Some(options) = &mut field.options {
        keep_plain(&mut options.uninterpreted_option);
    }
}

/// Drops custom options.
fn keep_plain(options: &mut Vec<UninterpretedOption>) {
    options.retain(|option| {
        option.aggregate_value.is_none() && !option.name.iter().any(|part| part.is_extension)
    });
}

fn imported(schema: &SchemaText<'_>, name: &str) -> Result<FileDescriptorProto, Undecoded> {
    if name.starts_with("google/protobuf/") {
        let known = DescriptorPool::global().get_file_by_name(name);
        if let Some(file) = known {
            return Ok(file.file_descriptor_proto().clone());
        }
    }
    let referred = schema.references.iter().find(|(named, _)| *named == name);
    let text = referred.map(|(_, text)| *text).or_else(|| known(name));
    let missing = || {
        bad(format_args!(
            "it imports {name:?}, which its references lack"
        ))
    };
    let text = text.ok_or_else(missing)?;
    match from_base64(text).and_then(|mut set| set.pop()) {
        Some(mut file) => {
            file.name = Some(name.to_owned());
            Ok(file)
        }
        None => parse(name, text),
    }
}

/// The text of a file that registries know.
fn known(name: &str) -> Option<&'static str> {
    let mut files = KNOWN_IMPORTS.split("== ");
    files.find_map(|file| file.strip_prefix(name)?.strip_prefix('\n'))
}

fn parse(name: &str, text: &str) -> Result<FileDescriptorProto, Undecoded> {
    if is_of_edition(text) {
        return Err(bad(EDITIONS));
    }
    protox_parse::parse(name, text).map_err(|error| bad(shown(&error)))
}

/// Returns whether the first statement is `edition = "2023"` or another.
fn is_of_edition(text: &str) -> bool {
    let mut text = text.trim_start();
    while let Some(comment) = text.strip_prefix('/') {
        let rest = match comment.strip_prefix('*') {
            Some(block) => block.split_once("*/"),
            None => comment.split_once('\n'),
        };
        text = rest.map_or("", |(_, rest)| rest).trim_start();
    }
    let rest = text.strip_prefix("edition").map(str::trim_start);
    rest.is_some_and(|rest| rest.starts_with('='))
}

/// The error without the name that the schema's own file has here.
fn shown(error: &dyn std::fmt::Display) -> String {
    let text = error.to_string();
    text.replace(OWN_NAME, "the schema")
}

/// The files of a `FileDescriptorSet` or a `FileDescriptorProto` in base64.
fn from_base64(text: &str) -> Option<Vec<FileDescriptorProto>> {
    // Every .proto file has a semicolon or a brace, which base64 has not.
    let bytes = STANDARD.decode(text.trim()).ok()?;
    // Both begin with the same tag: the name of a file, or a file, whose first byte is that tag again.
    let file = FileDescriptorProto::decode(bytes.as_slice()).ok();
    if let Some(file) = file.filter(|file| !file.name().contains(char::is_control)) {
        return (!bytes.is_empty()).then(|| vec![file]);
    }
    let set = FileDescriptorSet::decode(bytes.as_slice()).ok()?;
    Some(set.file)
}
