//! Patterns: a literal, or a regular expression over bytes.
//!
//! Expressions are those of the `regex` crate without Unicode, which is what Python's `re` makes of a pattern of bytes:
//! `.` is any byte but a line feed, `\d`, `\w`, `\s`, `\b` and `(?i)` know ASCII alone, and values need not be UTF-8.
//! `(?u)` switches to characters. `$` is `re`'s, which also holds before a line feed at the end.
//!
//! # Candidates
//! A match of a concatenation has a match of each of its parts, one of a group or of a repetition has one of what is
//! repeated; and every match begins and ends with one of the literals that `regex-syntax` extracts, if there are any.
//! The set of literals that is best to look for is chosen among these.

use memchr::memmem;
use regex_automata::meta::{BuildError, Cache, Regex};
use regex_automata::util::prefilter::Prefilter;
use regex_automata::{Input, MatchKind};
use regex_syntax::ast::{
    Alternation, Assertion, AssertionKind, Ast, Concat, Flags, Group, GroupKind, Literal,
    LiteralKind, Span, parse::ParserBuilder,
};
use regex_syntax::hir::literal::{self, ExtractKind, Extractor, Seq};
use regex_syntax::hir::translate::TranslatorBuilder;
use regex_syntax::hir::{Hir, HirKind};

use crate::error::{Error, Result};

/// Longest expression, in bytes.
const MOST_EXPRESSION: usize = 1 << 16;
/// Most memory of a compiled one.
const MOST_COMPILED: usize = 10 << 20;
/// Groups within groups.
const MOST_NESTED: u32 = 100;
/// Most literals that are looked for at once with vector instructions.
const MOST_LITERALS: usize = 64;
/// Parts of parts that are examined for literals.
const MOST_DEPTH: usize = 4;

/// Something to look for in the fields of records.
#[derive(Debug)]
pub(super) enum BytePattern {
    /// These bytes.
    Literal(Box<memmem::Finder<'static>>),
    /// An expression.
    Expression {
        /// All of it.
        regex: Box<Regex>,
        /// Literals one of which every match has, if any are known and quick to find.
        literals: Option<Prefilter>,
    },
}

/// Memory of a thread for matching.
#[derive(Debug)]
pub(super) struct PatternCache(Option<Box<Cache>>);

impl BytePattern {
    /// These bytes, anywhere.
    #[must_use]
    pub(super) fn literal(bytes: &[u8]) -> Self {
        Self::Literal(Box::new(memmem::Finder::new(bytes).into_owned()))
    }

    /// A regular expression.
    ///
    /// # Errors
    /// `InvalidArgument` for one that cannot be parsed, with the place, or that is too large.
    pub(super) fn expression(pattern: &str) -> Result<Self> {
        let too_large = |found: String| Error::InvalidArgument(format!("the pattern {found}"));
        if pattern.len() > MOST_EXPRESSION {
            let found = format!("has {} bytes; at most {MOST_EXPRESSION}", pattern.len());
            return Err(too_large(found));
        }
        let mut parser = ParserBuilder::new().nest_limit(MOST_NESTED).build();
        let mut ast = parser
            .parse(pattern)
            .map_err(|error| refused(pattern, error.span(), error.kind()))?;
        adapt(&mut ast).map_err(|span| {
            let what = "a repetition of a repetition (possessive or not) needs a group";
            refused(pattern, &span, what)
        })?;
        let mut translator = TranslatorBuilder::new().unicode(false).utf8(false).build();
        let hir = translator
            .translate(pattern, &ast)
            .map_err(|error| refused(pattern, error.span(), error.kind()))?;
        let config = Regex::config()
            .utf8_empty(false)
            .nfa_size_limit(Some(MOST_COMPILED));
        let regex = Regex::builder().configure(config).build_from_hir(&hir);
        Ok(Self::Expression {
            regex: Box::new(regex.map_err(|error: BuildError| {
                too_large(match error.size_limit() {
                    Some(limit) => format!("takes more than {limit} bytes when compiled"),
                    None => format!("cannot be compiled: {error}"),
                })
            })?),
            literals: literals_of(&hir),
        })
    }

    /// Memory for [`BytePattern::is_match`].
    #[must_use]
    pub(super) fn cache(&self) -> PatternCache {
        PatternCache(match self {
            Self::Literal(_) => None,
            Self::Expression { regex, .. } => Some(Box::new(regex.create_cache())),
        })
    }

    /// Returns whether it is found in a field.
    #[inline]
    #[must_use]
    pub(super) fn is_match(&self, cache: &mut PatternCache, field: &[u8]) -> bool {
        match (self, &mut cache.0) {
            (Self::Literal(finder), _) => finder.find(field).is_some(),
            (Self::Expression { regex, .. }, Some(cache)) => {
                let input = Input::new(field).earliest(true);
                regex.search_half_with(cache, &input).is_some()
            }
            (Self::Expression { regex, .. }, None) => regex.is_match(field),
        }
    }

    /// Returns whether [`BytePattern::find_candidate`] can be asked.
    #[must_use]
    pub(super) const fn has_candidates(&self) -> bool {
        match self {
            Self::Literal(_) => true,
            Self::Expression { literals, .. } => literals.is_some(),
        }
    }

    /// The first place in `start..end` at which a literal begins that lies in some match.
    #[inline]
    #[must_use]
    pub(super) fn find_candidate(&self, bytes: &[u8], start: usize, end: usize) -> Option<usize> {
        let bytes = bytes.get(start..end)?;
        let found = match self {
            Self::Literal(finder) => finder.find(bytes)?,
            Self::Expression { literals, .. } => {
                let span = regex_automata::Span::from(0..bytes.len());
                literals.as_ref()?.find(bytes, span)?.start
            }
        };
        start.checked_add(found)
    }
}

#[cold]
fn refused(pattern: &str, span: &Span, what: impl std::fmt::Display) -> Error {
    let before = pattern.get(..span.start.offset).unwrap_or(pattern);
    let at = before.chars().count();
    Error::InvalidArgument(format!("the pattern '{pattern}' at position {at}: {what}"))
}

/// Gives `$` the meaning that it has in `re`, and finds what `re` would refuse or understand in another way.
fn adapt(ast: &mut Ast) -> std::result::Result<(), Span> {
    match ast {
        Ast::Assertion(assertion) if assertion.kind == AssertionKind::EndLine => {
            *ast = end_or_last_line(assertion.span);
            Ok(())
        }
        Ast::Repetition(repetition) => match &mut *repetition.ast {
            Ast::Repetition(_) => Err(repetition.op.span),
            repeated => adapt(repeated),
        },
        Ast::Group(group) => adapt(&mut group.ast),
        Ast::Alternation(all) => all.asts.iter_mut().try_for_each(adapt),
        Ast::Concat(all) => all.asts.iter_mut().try_for_each(adapt),
        _ => Ok(()),
    }
}

/// `(?:$|\n\z)`: where a match ends does not matter, so the line feed may be part of it.
fn end_or_last_line(span: Span) -> Ast {
    let assertion = |kind| Ast::assertion(Assertion { span, kind });
    let line_feed = Ast::literal(Literal {
        span,
        kind: LiteralKind::Verbatim,
        c: '\n',
    });
    let last_line = Ast::concat(Concat {
        span,
        asts: vec![line_feed, assertion(AssertionKind::EndText)],
    });
    Ast::group(Group {
        span,
        kind: GroupKind::NonCapturing(Flags {
            span,
            items: Vec::new(),
        }),
        ast: Box::new(Ast::alternation(Alternation {
            span,
            asts: vec![assertion(AssertionKind::EndLine), last_line],
        })),
    })
}

fn literals_of(hir: &Hir) -> Option<Prefilter> {
    let mut best = None;
    choose(hir, MOST_DEPTH, &mut best);
    let (_, literals) = best?;
    let literals: Vec<_> = literals
        .literals()?
        .iter()
        .map(literal::Literal::as_bytes)
        .collect();
    Prefilter::new(MatchKind::LeftmostFirst, &literals).filter(Prefilter::is_fast)
}

/// Length of the shortest literal up to which longer is better, and how few there are.
type Quality = (usize, std::cmp::Reverse<usize>);

/// Keeps the best set of literals of this expression and its parts.
fn choose(hir: &Hir, depth: usize, best: &mut Option<(Quality, Seq)>) {
    for kind in [ExtractKind::Prefix, ExtractKind::Suffix] {
        let mut found = Extractor::new().kind(kind.clone()).extract(hir);
        for most in [4, 3, 2] {
            if found.len().is_some_and(|len| len > MOST_LITERALS) {
                match kind {
                    ExtractKind::Suffix => found.keep_last_bytes(most),
                    _ => found.keep_first_bytes(most),
                }
                found.sort();
                found.dedup();
            }
        }
        let Some((len, shortest)) = found.len().zip(found.min_literal_len()) else {
            continue;
        };
        let quality = (shortest.min(6), std::cmp::Reverse(len));
        if (1..=MOST_LITERALS).contains(&len)
            && shortest > 0
            && best.as_ref().is_none_or(|(other, _)| quality > *other)
        {
            *best = Some((quality, found));
        }
    }
    let Some(depth) = depth.checked_sub(1) else {
        return;
    };
    match hir.kind() {
        HirKind::Concat(parts) => parts.iter().for_each(|part| choose(part, depth, best)),
        HirKind::Capture(capture) => choose(&capture.sub, depth, best),
        HirKind::Repetition(repetition) if repetition.min > 0 => {
            choose(&repetition.sub, depth, best);
        }
        _ => {}
    }
}
