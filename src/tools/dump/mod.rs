//! The text of `kafka-dump-log` for the files of a partition folder, field by field (`DumpLogSegments` of Kafka 4.3).
//!
//! Where the real tool ends with an exception, this one ends with an error that names the file and the byte, after
//! printing everything before. Files are copied in windows, so those of a running broker may be dumped; memory is
//! bounded by the largest batch per thread, whose length is checked against the file before anything is allocated.
//!
//! | module | what |
//! |---|---|
//! | `log` | `.log`, `.checkpoint`: batches and records |
//! | `pieces` | pieces of a log, printed by several threads |
//! | `records` | the records of a batch |
//! | `index` | `.index`, `.timeindex`, compared with the log |
//! | `snapshot` | `.snapshot`, `.txnindex` |
//! | `control` | control records |
//! | `decoded` | keys and payloads of internal topics |
//! | `walk` | iterates over batches without checks |
//! | `findings` | the findings printed at the end |
//! | `target` | names of files as Java gives them |
//! | `text` | the buffer, numbers, Java's reading of UTF-8 |

mod control;
mod decoded;
mod findings;
mod index;
mod log;
mod pieces;
mod records;
mod snapshot;
mod target;
mod text;
mod walk;

use std::io::Write;
use std::path::PathBuf;

use crate::error::{Error, Result};
use crate::io::storage::Folder;
use crate::tables::topic::Topic;
use findings::DumpFindings;
use target::DumpTarget;
use text::{TextOutput, put};

/// Decoder of keys or values (`org.apache.kafka.tools.api.Decoder`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum PrintedAs {
    /// As UTF-8, what is none replaced as Java does.
    #[default]
    String,
    /// The first 4 bytes.
    Integer,
    /// The first 8 bytes.
    Long,
    /// As they are. (Java prints the array's identity, which says nothing.)
    Bytes,
}

/// The tool's flags.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "one field a flag, by the flags' names"
)]
pub(crate) struct Options {
    /// Print keys and values; includes `deep_iteration`.
    pub print_data_log: bool,
    /// Print each record.
    pub deep_iteration: bool,
    /// Leave out what is not key or value.
    pub skip_record_metadata: bool,
    /// Check indexes without printing their entries.
    pub verify_index_only: bool,
    /// Check indexes as a broker does at its start, nothing else.
    pub index_sanity_check: bool,
    /// Look at no more of a log than this.
    pub max_bytes: Option<u64>,
    /// Bytes after an indexed position within which its batch must end.
    pub max_message_size: i32,
    /// For keys.
    pub key_decoder: PrintedAs,
    /// For values.
    pub value_decoder: PrintedAs,
    /// Records are this topic's, whatever file they are in; takes the place of the other decoders.
    pub topic_decoder: Option<Topic>,
}

impl Options {
    /// The tool's default for `max_message_size`.
    pub(crate) const MAX_MESSAGE_SIZE: i32 = 5 << 20;
}

impl Default for Options {
    fn default() -> Self {
        Self {
            print_data_log: false,
            deep_iteration: false,
            skip_record_metadata: false,
            verify_index_only: false,
            index_sanity_check: false,
            max_bytes: None,
            max_message_size: Self::MAX_MESSAGE_SIZE,
            key_decoder: PrintedAs::String,
            value_decoder: PrintedAs::String,
            topic_decoder: None,
        }
    }
}

/// Dumps `files`, each with the name to show, in their order to `out`, and prints the findings to `err`.
///
/// Returns whether something is wrong: an invalid batch, bytes after the last one, an index that contradicts its log, a
/// corrupt snapshot, offsets that step back. Gaps between offsets are printed but are not damage. A reader that closes
/// the output ends the run early, which is not an error.
///
/// # Errors
/// What ends the real tool too, once everything before it is printed: a batch length or a record that makes no sense,
/// an index that points outside its log or fails its sanity check, a file that cannot be read.
pub(crate) fn dump(
    files: &[(PathBuf, PathBuf)],
    options: &Options,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Result<bool> {
    let mut findings = DumpFindings::default();
    let mut text = TextOutput::new(out);
    let dumped = files.iter().try_for_each(|(file, shown)| {
        let target = DumpTarget::new(file).shown_as(shown);
        dump_file(&target, options, &mut text, &mut findings, err)
    });
    // Half a line stays half a line, as the real tool leaves it.
    let flushed = text.flush();
    if text.is_closed() {
        return Ok(false);
    }
    flushed?;
    match findings.report(err).and_then(|()| err.flush()) {
        Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => {}
        said => said.map_err(Error::io("error output"))?,
    }
    dumped.map(|()| findings.damaged)
}

fn dump_file(
    target: &DumpTarget,
    options: &Options,
    text: &mut TextOutput<'_>,
    findings: &mut DumpFindings,
    err: &mut dyn Write,
) -> Result<()> {
    put!(text, "Dumping ", target.shown.as_str());
    text.end_line()?;
    let exists = || Folder::at(&target.path).is_folder();
    if matches!(
        target.suffix(),
        Some(".log" | ".checkpoint" | ".index" | ".timeindex")
    ) {
        // Before its name is judged: a file that does not exist is the likelier mistake.
        exists()?;
    }
    match target.suffix() {
        Some(".log" | ".checkpoint") => pieces::dump_log(target, options, text, findings),
        Some(".index") => index::dump_index(target, options, text, findings),
        Some(".timeindex") => index::dump_time_index(target, options, text, findings),
        Some(".txnindex") => snapshot::dump_txn_index(target, text),
        Some(".snapshot") => match snapshot::dump_snapshot(target, text) {
            // The real tool says so and continues, too.
            Err(error @ Error::CorruptIndex(_)) => {
                findings.damaged = true;
                tell(text, err, &error.to_string())
            }
            dumped => dumped,
        },
        _ => {
            let said = format!("Ignoring unknown file {}", target.shown);
            tell(text, err, &said)?;
            // The real tool does not look whether there is one.
            exists().map(drop)
        }
    }
}

/// A line on the error stream, after what was printed before it.
fn tell(text: &mut TextOutput<'_>, err: &mut dyn Write, line: &str) -> Result<()> {
    text.flush()?;
    writeln!(err, "{line}").map_err(Error::io("error output"))
}
