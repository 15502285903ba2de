//! Schema resolution: how a reader schema reads what a writer schema wrote, by the rules of Avro's Java
//! (`org.apache.avro.Resolver` and `Schema.applyAliases` of 1.12).

use std::collections::{HashMap, HashSet};

use arrow_schema::DECIMAL128_MAX_PRECISION;

use super::super::fault::Undecoded;
use super::super::field_tree::FieldTree;
use super::column::{self, UnionColumn, is_null, union_column};
use super::cursor::{EXPANSION, MAX_DEPTH};
use super::default::encoded;
use super::parse::bad;
use super::schema::{AvroField, AvroKind, AvroLogical, AvroSchema, AvroType, TypeId, short};
use super::step::{ByteLength, FieldStep, Items, Step, Symbols, Wire, WriterType};

/// Most steps of a program, and most comparisons of types on the way to it.
const MAX_STEPS: usize = 1_000_000;

/// The reader's names for what writers called otherwise.
#[derive(Debug, Default)]
pub(super) struct AvroAliases {
    types: HashMap<Box<str>, Box<str>>,
    /// By the reader's full name of the record, and the alias.
    fields: HashMap<(Box<str>, Box<str>), Box<str>>,
}

impl AvroAliases {
    pub(super) fn of(reader: &AvroSchema) -> Self {
        let mut aliases = Self::default();
        for made in &reader.types {
            let Some(name) = &made.name else { continue };
            for alias in &name.aliases {
                aliases.types.insert(alias.clone(), name.full.clone());
            }
            let AvroKind::Record(fields) = &made.kind else {
                continue;
            };
            for field in fields {
                for alias in &field.aliases {
                    let key = (name.full.clone(), alias.clone());
                    aliases.fields.insert(key, field.name.clone());
                }
            }
        }
        aliases
    }
}

/// Most records that are compared to find two unions equal.
const MAX_RECORDS: usize = 256;

/// Compiles one writer schema.
pub(super) struct Resolver<'s> {
    writer: &'s AvroSchema,
    reader: &'s AvroSchema,
    aliases: &'s AvroAliases,
    /// Names from the root to the type at hand.
    path: Vec<&'s str>,
    steps: usize,
    /// Pairs of records that clash; while one is being compared, it counts as fitting.
    clashes: HashMap<(TypeId, TypeId), bool>,
}

type Resolved = Result<Step, Undecoded>;

impl<'s> Resolver<'s> {
    pub(super) fn new(
        writer: &'s AvroSchema,
        reader: &'s AvroSchema,
        aliases: &'s AvroAliases,
    ) -> Self {
        Self {
            writer,
            reader,
            aliases,
            path: Vec::new(),
            steps: 0,
            clashes: HashMap::new(),
        }
    }

    /// The program of the whole schema.
    pub(super) fn root(mut self, wanted: &FieldTree) -> Resolved {
        let (writer, reader) = (self.writer.root, self.reader.root);
        // Confluent's serializers write such values without Avro's length.
        let size = match self.writer.get(writer).kind {
            AvroKind::Bytes => ByteLength::Rest,
            _ => ByteLength::Prefixed,
        };
        self.of(writer, reader, wanted, size)
    }

    fn count(&mut self) -> Result<(), Undecoded> {
        self.steps = self.steps.saturating_add(1);
        if self.steps > MAX_STEPS {
            return Err(bad(format_args!("reader and writer have too many types")));
        }
        Ok(())
    }

    fn conflict(&self, text: std::fmt::Arguments<'_>) -> Step {
        let at = if self.path.is_empty() {
            String::new()
        } else {
            format!("{}: ", self.path.join("."))
        };
        Step::Conflict(format!("{at}{text}").into())
    }

    fn mismatch(&self, writer: &AvroType, reader: &AvroType) -> Step {
        let (found, expected) = (writer.branch(), reader.branch());
        self.conflict(format_args!(
            "the writer has {found}, the reader expects {expected}"
        ))
    }

    /// A writer's full name, as the reader calls it.
    fn name(&self, writer: &'s AvroType) -> &'s str {
        let full = writer.branch();
        self.aliases.types.get(full).map_or(full, |name| &**name)
    }

    fn same_short_name(&self, writer: &'s AvroType, reader: &AvroType) -> bool {
        short(self.name(writer)) == reader.short_name()
    }

    fn of(&mut self, w: TypeId, r: TypeId, wanted: &FieldTree, size: ByteLength) -> Resolved {
        self.count()?;
        let (writer, reader) = (self.writer.get(w), self.reader.get(r));
        match (&writer.kind, &reader.kind) {
            (AvroKind::Union(branches), kind) => {
                // The branches of equal unions belong together by place, even if one could be promoted to another.
                let equal = match kind {
                    AvroKind::Union(others) if self.equivalent(w, r, &mut HashSet::new())? => {
                        Some(others)
                    }
                    _ => None,
                };
                let steps = branches.iter().enumerate().map(|(at, &branch)| {
                    match equal.and_then(|others| others.get(at)) {
                        Some(_) => self.branch(branch, r, at, wanted, size),
                        None => self.of(branch, r, wanted, size),
                    }
                });
                let steps: Vec<Step> = steps.collect::<Result<_, _>>()?;
                Ok(Step::Union(steps.into()))
            }
            (_, AvroKind::Union(_)) => match self.first_branch(w, r)? {
                Some(at) => self.branch(w, r, at, wanted, size),
                None => Ok(self.mismatch(writer, reader)),
            },
            (AvroKind::Array(items), AvroKind::Array(others)) => {
                Ok(Step::List(self.items(*items, *others)?))
            }
            (AvroKind::Map(values), AvroKind::Map(others)) => {
                Ok(Step::Map(self.items(*values, *others)?))
            }
            (AvroKind::Record(_), AvroKind::Record(_)) => self.record(w, r, wanted),
            _ => Ok(self.scalar(writer, reader, size)),
        }
    }

    fn items(&mut self, w: TypeId, r: TypeId) -> Result<Box<Items>, Undecoded> {
        let step = self.of(w, r, &FieldTree::All, ByteLength::Prefixed)?;
        let width = column::width(self.reader, r)?.saturating_add(step.default_bytes());
        // Below, the bytes of the item pay for it.
        let counts = width > EXPANSION;
        let width = if counts { width } else { 0 };
        Ok(Box::new(Items { step, width }))
    }

    /// The branch `at` of the reader's union `r`.
    fn branch(
        &mut self,
        w: TypeId,
        r: TypeId,
        at: usize,
        wanted: &FieldTree,
        size: ByteLength,
    ) -> Resolved {
        let AvroKind::Union(branches) = &self.reader.get(r).kind else {
            return Ok(Step::Null);
        };
        let Some(&branch) = branches.get(at) else {
            return Ok(Step::Null);
        };
        if is_null(self.reader, branch) {
            return Ok(Step::Null);
        }
        if matches!(union_column(self.reader, branches), UnionColumn::Nullable) {
            return self.of(w, branch, wanted, size);
        }
        let name = |id: TypeId| self.reader.get(id).branch();
        let Some(inner) = wanted.field(name(branch)) else {
            return Ok(if self.clash(w, branch, 0)? {
                self.mismatch(self.writer.get(w), self.reader.get(branch))
            } else {
                Step::OtherBranch(WriterType(w))
            });
        };
        let before = branches.iter().take(at);
        let before = before
            .filter(|&&other| !is_null(self.reader, other) && wanted.field(name(other)).is_some());
        let child = before.count();
        self.path.push(name(branch));
        let step = self.of(w, branch, inner, size)?;
        self.path.pop();
        Ok(Step::Branch(child, Box::new(step)))
    }

    fn record(&mut self, w: TypeId, r: TypeId, wanted: &FieldTree) -> Resolved {
        let (Some(theirs), Some(ours)) = (fields(self.writer, w), fields(self.reader, r)) else {
            return Ok(Step::Null);
        };
        let pairs = self.pairs(w, r);
        let mut left: HashSet<usize> = (0..ours.len()).collect();
        let mut child = 0_usize;
        let children: Vec<Option<(usize, &FieldTree)>> = ours
            .iter()
            .map(|field| {
                let wanted = wanted.field(&field.name)?;
                let own = child;
                child = child.saturating_add(1);
                Some((own, wanted))
            })
            .collect();
        let mut steps = Vec::with_capacity(theirs.len());
        for (field, pair) in theirs.iter().zip(pairs) {
            let Some((at, mine)) = pair.and_then(|at| Some((at, ours.get(at)?))) else {
                steps.push(FieldStep::Skip(WriterType(field.value)));
                continue;
            };
            left.remove(&at);
            self.path.push(&mine.name);
            match children.get(at).copied().flatten() {
                Some((child, wanted)) => {
                    let step = self.of(field.value, mine.value, wanted, ByteLength::Prefixed)?;
                    steps.push(FieldStep::Value(child, step));
                }
                // A field that nobody wants still decides whether there is a value.
                None if self.clash(field.value, mine.value, 0)? => {
                    let (found, expected) = (field.value, mine.value);
                    let step = self.mismatch(self.writer.get(found), self.reader.get(expected));
                    self.path.pop();
                    return Ok(step);
                }
                None => steps.push(FieldStep::Skip(WriterType(field.value))),
            }
            self.path.pop();
        }
        for (at, field) in ours.iter().enumerate().filter(|(at, _)| left.contains(at)) {
            self.path.push(&field.name);
            let step = self.default(field, children.get(at).copied().flatten())?;
            self.path.pop();
            match step {
                Ok(step) => steps.extend(step),
                Err(conflict) => return Ok(conflict),
            }
        }
        Ok(Step::Record(steps.into()))
    }

    /// The step for a field that only the reader has; nothing for one that nobody wants.
    fn default(
        &mut self,
        field: &'s AvroField,
        child: Option<(usize, &FieldTree)>,
    ) -> Result<Result<Option<FieldStep>, Step>, Undecoded> {
        let Some(default) = &field.default else {
            let text = format_args!("the writer has no such field, and the reader no default");
            return Ok(Err(self.conflict(text)));
        };
        let Some(bytes) = encoded(self.reader, field.value, default) else {
            let text = format_args!("the default {default} is no value of the field's type");
            return Ok(Err(self.conflict(text)));
        };
        let Some((child, wanted)) = child else {
            return Ok(Ok(None));
        };
        let none = AvroAliases::default();
        let mut same = Resolver::new(self.reader, self.reader, &none);
        same.steps = self.steps;
        let step = same.of(field.value, field.value, wanted, ByteLength::Prefixed)?;
        self.steps = same.steps;
        Ok(Ok(Some(FieldStep::Default(child, bytes.into(), step))))
    }

    /// The index in the reader's record of each field of the writer's record.
    fn pairs(&self, w: TypeId, r: TypeId) -> Vec<Option<usize>> {
        let (Some(theirs), Some(ours)) = (fields(self.writer, w), fields(self.reader, r)) else {
            return Vec::new();
        };
        let places = ours.iter().enumerate();
        let mut places: HashMap<&str, usize> = places.map(|(at, f)| (&*f.name, at)).collect();
        let names: HashSet<&str> = theirs.iter().map(|field| &*field.name).collect();
        let record: Box<str> = self.name(self.writer.get(w)).into();
        let pair = |field: &AvroField| {
            let key = (record.clone(), field.name.clone());
            // A field of the name itself comes before one of an alias.
            let alias = self.aliases.fields.get(&key);
            let alias = alias.filter(|name| !names.contains(&***name));
            places.remove(alias.map_or(&*field.name, |name| &**name))
        };
        theirs.iter().map(pair).collect()
    }

    /// True if the two types themselves do not fit, as Java finds without looking into arrays, maps, and the writer's
    /// unions.
    fn clash(&mut self, w: TypeId, r: TypeId, depth: usize) -> Result<bool, Undecoded> {
        self.count()?;
        let (writer, reader) = (self.writer.get(w), self.reader.get(r));
        Ok(match (&writer.kind, &reader.kind) {
            (AvroKind::Union(_), _)
            | (AvroKind::Array(_), AvroKind::Array(_))
            | (AvroKind::Map(_), AvroKind::Map(_)) => false,
            (_, AvroKind::Union(_)) => self.first_branch_at(w, r, depth)?.is_none(),
            (AvroKind::Record(_), AvroKind::Record(ours)) => {
                let pairs = self.pairs(w, r);
                let read: HashSet<usize> = pairs.into_iter().flatten().collect();
                let mut fields = ours.iter().enumerate();
                fields.any(|(at, field)| !read.contains(&at) && field.default.is_none())
            }
            _ => matches!(
                self.scalar(writer, reader, ByteLength::Prefixed),
                Step::Conflict(_)
            ),
        })
    }

    /// True if a record clashes, or one of its fields does.
    fn clash_within(&mut self, w: TypeId, r: TypeId, depth: usize) -> Result<bool, Undecoded> {
        if let Some(&known) = self.clashes.get(&(w, r)) {
            return Ok(known);
        }
        if depth > MAX_DEPTH {
            return Ok(true);
        }
        self.clashes.insert((w, r), false);
        let mut found = self.clash(w, r, depth)?;
        if let (Some(theirs), Some(ours)) = (fields(self.writer, w), fields(self.reader, r)) {
            for (field, pair) in theirs.iter().zip(self.pairs(w, r)) {
                if let Some(mine) = pair.and_then(|at| ours.get(at)) {
                    let deeper = depth.saturating_add(1);
                    found = found || self.clash(field.value, mine.value, deeper)?;
                }
            }
        }
        self.clashes.insert((w, r), found);
        Ok(found)
    }

    fn first_branch(&mut self, w: TypeId, r: TypeId) -> Result<Option<usize>, Undecoded> {
        self.first_branch_at(w, r, 0)
    }

    /// The branch of the reader's union that takes a value of the writer: the one of the same type and name, else a
    /// record of the same structure, else the first that it can be promoted to.
    fn first_branch_at(
        &mut self,
        w: TypeId,
        r: TypeId,
        depth: usize,
    ) -> Result<Option<usize>, Undecoded> {
        let writer = self.writer.get(w);
        let AvroKind::Union(branches) = &self.reader.get(r).kind else {
            return Ok(None);
        };
        let mut structure = None;
        for (at, &branch) in branches.iter().enumerate() {
            self.count()?;
            let reader = self.reader.get(branch);
            if writer.kind.word() != reader.kind.word() {
                continue;
            }
            if reader.name.is_none() || self.name(writer) == reader.branch() {
                return Ok(Some(at));
            }
            if matches!(writer.kind, AvroKind::Record(_))
                && (structure.is_none() || self.same_short_name(writer, reader))
                && !self.clash_within(w, branch, depth)?
            {
                structure = Some(at);
            }
        }
        if structure.is_some() {
            return Ok(structure);
        }
        let promoted = branches.iter().position(|&branch| {
            matches!(
                (&writer.kind, &self.reader.get(branch).kind),
                (
                    AvroKind::Int,
                    AvroKind::Long | AvroKind::Float | AvroKind::Double
                ) | (AvroKind::Long, AvroKind::Float | AvroKind::Double)
                    | (AvroKind::Float, AvroKind::Double)
                    | (AvroKind::String, AvroKind::Bytes)
                    | (AvroKind::Bytes, AvroKind::String)
            )
        });
        Ok(promoted)
    }

    /// True if the types are the same but for what does not change the bytes (`Resolver.unionEquiv`).
    fn equivalent(
        &mut self,
        w: TypeId,
        r: TypeId,
        seen: &mut HashSet<(TypeId, TypeId)>,
    ) -> Result<bool, Undecoded> {
        self.count()?;
        let (writer, reader) = (self.writer.get(w), self.reader.get(r));
        if reader.name.is_some() && !self.same_short_name(writer, reader) {
            return Ok(false);
        }
        let pairs: Vec<(TypeId, TypeId)> = match (&writer.kind, &reader.kind) {
            (AvroKind::Fixed(size), AvroKind::Fixed(other)) => return Ok(size == other),
            (
                AvroKind::Enum { symbols, .. },
                AvroKind::Enum {
                    symbols: others, ..
                },
            ) => {
                return Ok(symbols == others);
            }
            (AvroKind::Array(items), AvroKind::Array(others))
            | (AvroKind::Map(items), AvroKind::Map(others)) => vec![(*items, *others)],
            (AvroKind::Union(branches), AvroKind::Union(others)) => {
                if branches.len() != others.len() {
                    return Ok(false);
                }
                branches
                    .iter()
                    .copied()
                    .zip(others.iter().copied())
                    .collect()
            }
            (AvroKind::Record(theirs), AvroKind::Record(ours)) => {
                if !seen.insert((w, r)) {
                    return Ok(true);
                }
                let pairs = self.pairs(w, r);
                let same = pairs.iter().enumerate().all(|(at, pair)| *pair == Some(at));
                if theirs.len() != ours.len() || !same || seen.len() > MAX_RECORDS {
                    return Ok(false);
                }
                let values = theirs.iter().zip(ours);
                values
                    .map(|(field, mine)| (field.value, mine.value))
                    .collect()
            }
            (kind, other) => return Ok(kind.word() == other.word()),
        };
        for (w, r) in pairs {
            if !self.equivalent(w, r, seen)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn scalar(&self, writer: &'s AvroType, reader: &'s AvroType, size: ByteLength) -> Step {
        let wire = match writer.kind {
            AvroKind::Int => Wire::Int,
            AvroKind::Long => Wire::Long,
            AvroKind::Float => Wire::Float,
            _ => Wire::Double,
        };
        match (&writer.kind, &reader.kind) {
            (AvroKind::Null, AvroKind::Null) => Step::Null,
            (AvroKind::Boolean, AvroKind::Boolean) => Step::Boolean,
            (AvroKind::Int, AvroKind::Int) => match reader.logical {
                Some(AvroLogical::TimeMillis) => Step::TimeMillis,
                _ => Step::Int,
            },
            (AvroKind::Int | AvroKind::Long, AvroKind::Long) => match (reader.logical, wire) {
                (Some(AvroLogical::TimeMicros), wire) => Step::TimeMicros(wire),
                (_, Wire::Int) => Step::Widened,
                _ => Step::Long,
            },
            (AvroKind::Int | AvroKind::Long | AvroKind::Float, AvroKind::Float) => {
                Step::Float(wire)
            }
            (
                AvroKind::Int | AvroKind::Long | AvroKind::Float | AvroKind::Double,
                AvroKind::Double,
            ) => Step::Double(wire),
            (AvroKind::Bytes | AvroKind::String, AvroKind::Bytes) => binary(reader, size),
            (AvroKind::Bytes | AvroKind::String, AvroKind::String) => Step::Text(size),
            (AvroKind::Fixed(length), AvroKind::Fixed(other))
                if length == other && self.same_short_name(writer, reader) =>
            {
                match reader.logical {
                    Some(AvroLogical::Uuid) => Step::Uuid,
                    _ => binary(reader, ByteLength::Exactly(*length)),
                }
            }
            (
                AvroKind::Enum { symbols, .. },
                AvroKind::Enum {
                    symbols: ours,
                    default,
                },
            ) if self.same_short_name(writer, reader) => {
                let default = default.and_then(|at| ours.get(at));
                let known: HashSet<&str> = ours.iter().map(|symbol| &**symbol).collect();
                let texts = symbols.iter().map(|symbol| {
                    let same = known.contains(&**symbol).then_some(symbol);
                    same.or(default).map(|text| &**text)
                });
                Step::Enum(Symbols::new(texts))
            }
            _ => self.mismatch(writer, reader),
        }
    }
}

/// Bytes, as the reader's column holds them.
fn binary(reader: &AvroType, size: ByteLength) -> Step {
    match (column::decimal_precision(reader), size) {
        (Some((precision, _)), size) if precision <= DECIMAL128_MAX_PRECISION => {
            Step::Decimal128(size, precision)
        }
        (Some((precision, _)), size) => Step::Decimal256(size, precision),
        (None, ByteLength::Exactly(length)) => Step::Fixed(length),
        (None, size) => Step::Bytes(size),
    }
}

fn fields(schema: &AvroSchema, id: TypeId) -> Option<&[AvroField]> {
    match &schema.get(id).kind {
        AvroKind::Record(fields) => Some(fields),
        _ => None,
    }
}
