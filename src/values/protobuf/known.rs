//! Text of well-known messages in Protobuf's JSON.

use chrono::{DateTime, SecondsFormat};

const NANOS: i32 = 1_000_000_000;

/// The nanoseconds of a Timestamp; none outside of the years 1 to 9999.
fn nanos_of(seconds: i64, nanos: i32) -> Option<u32> {
    if !(-62_135_596_800..=253_402_300_799).contains(&seconds) {
        return None;
    }
    let nanos = u32::try_from(nanos).ok();
    nanos.filter(|&nanos| nanos < NANOS.unsigned_abs())
}

/// Microseconds since 1970 of a Timestamp, rounded down: nanoseconds would not reach the years 1 and 9999.
pub(super) fn micros(seconds: i64, nanos: i32) -> Option<i64> {
    let micros = i64::from(nanos_of(seconds, nanos)? / 1000);
    seconds.checked_mul(1_000_000)?.checked_add(micros)
}

/// RFC 3339 with 0, 3, 6 or 9 digits; none outside of the years 1 to 9999.
pub(super) fn timestamp(seconds: i64, nanos: i32) -> Option<String> {
    let nanos = nanos_of(seconds, nanos)?;
    let time = DateTime::from_timestamp(seconds, nanos)?;
    Some(time.to_rfc3339_opts(SecondsFormat::AutoSi, true))
}

/// Seconds with 0, 3, 6 or 9 digits; none where the range is exceeded or the signs differ.
pub(super) fn duration(seconds: i64, nanos: i32) -> Option<String> {
    if !(-315_576_000_000..=315_576_000_000).contains(&seconds)
        || !(-999_999_999..=999_999_999).contains(&nanos)
        || seconds < 0 && nanos > 0
        || seconds > 0 && nanos < 0
    {
        return None;
    }
    let sign = if seconds < 0 || nanos < 0 { "-" } else { "" };
    let (seconds, nanos) = (seconds.unsigned_abs(), nanos.unsigned_abs());
    Some(match nanos {
        0 => format!("{sign}{seconds}s"),
        _ if nanos % 1_000_000 == 0 => format!("{sign}{seconds}.{:03}s", nanos / 1_000_000),
        _ if nanos % 1000 == 0 => format!("{sign}{seconds}.{:06}s", nanos / 1000),
        _ => format!("{sign}{seconds}.{nanos:09}s"),
    })
}

/// A path of a FieldMask in camel case; none where it would not be read back.
pub(super) fn camel_case(path: &str) -> Option<String> {
    let mut result = String::with_capacity(path.len());
    let mut after_underscore = false;
    for c in path.chars() {
        match c {
            _ if c.is_uppercase() => return None,
            _ if after_underscore => {
                if !c.is_ascii_lowercase() {
                    return None;
                }
                result.push(c.to_ascii_uppercase());
                after_underscore = false;
            }
            '_' => after_underscore = true,
            _ => result.push(c),
        }
    }
    (!after_underscore).then_some(result)
}
