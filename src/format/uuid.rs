//! Kafka's ids of topics, clusters and log dirs (`org.apache.kafka.common.Uuid`).
//!
//! 16 bytes, spelled as 22 characters of base64url (RFC 4648, section 5) without padding.

use std::fmt::{self, Write};
use std::str::FromStr;

use super::put::Put;
use crate::error::{Error, Result};

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
/// Characters of an id.
const LEN: usize = 22;
/// Bits of a character.
const DIGIT_BITS: u32 = 6;
/// 22 characters hold 132 bits; the last four are nothing.
const UNUSED_BITS: u32 = 4;
/// Ids below it mean something of their own (`DirectoryId.reserved`).
const RESERVED: u128 = 100;

/// An id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uuid(pub u128);

impl Uuid {
    /// The id that means none (`Uuid.ZERO_UUID`).
    pub const ZERO: Self = Self(0);

    /// A random id of these bytes (RFC 9562, version 4); `None` where Kafka would not make it: ids that begin with a dash
    /// are a nuisance on command lines.
    #[must_use]
    pub fn of_random(bytes: [u8; 16]) -> Option<Self> {
        const VERSION: u128 = 0x4 << 76;
        const VARIANT: u128 = 0b10 << 62;
        let random = u128::from_be_bytes(bytes) & !(0xf << 76) & !(0b11 << 62);
        let id = Self(random | VERSION | VARIANT);
        (!id.to_string().starts_with('-') && !id.is_reserved()).then_some(id)
    }

    /// Its characters.
    fn digits(self) -> [u8; LEN] {
        let mut rest = self.0;
        let mut digits = [0; LEN];
        // The bits that run out at the end are zeros.
        for place in &mut digits {
            *place = digit(rest >> (u128::BITS - DIGIT_BITS));
            rest <<= DIGIT_BITS;
        }
        digits
    }

    /// Returns whether Kafka gives it a meaning of its own, as for "no directory".
    #[must_use]
    pub const fn is_reserved(self) -> bool {
        self.0 < RESERVED
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.digits()
            .iter()
            .try_for_each(|&digit| f.write_char(char::from(digit)))
    }
}

impl Put for Uuid {
    fn put(self, to: &mut Vec<u8>) {
        to.extend_from_slice(&self.digits());
    }
}

/// The character of the low six bits.
fn digit(bits: u128) -> u8 {
    let [.., low] = bits.to_be_bytes();
    DIGITS.get(usize::from(low)).copied().unwrap_or_default()
}

impl FromStr for Uuid {
    type Err = Error;

    /// As Java decodes it: padding may stand there, the last four bits are nothing.
    fn from_str(text: &str) -> Result<Self> {
        let fault = || {
            let found = format_args!("{text:?}");
            Error::corrupt_index("id", 0, "22 characters of base64url", found)
        };
        let digits = text.strip_suffix("==").unwrap_or(text);
        if digits.len() != LEN {
            return Err(fault());
        }
        let mut id = 0u128;
        for (n, byte) in digits.bytes().enumerate() {
            let digit = DIGITS.iter().position(|&d| d == byte).ok_or_else(fault)? as u128;
            id = if n.saturating_add(1) == LEN {
                id << (DIGIT_BITS - UNUSED_BITS) | digit >> UNUSED_BITS
            } else {
                id << DIGIT_BITS | digit
            };
        }
        Ok(Self(id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Spellings by Kafka 4.3.1's `Uuid`.
    #[test]
    fn ids_as_kafka_spells_them() {
        for (id, text) in [
            (0u128, "AAAAAAAAAAAAAAAAAAAAAA"),
            (1, "AAAAAAAAAAAAAAAAAAAAAQ"),
            (u128::MAX, "_____________________w"),
            (
                0x0123_4567_89ab_cdef_fedc_ba98_7654_3210,
                "ASNFZ4mrze_-3LqYdlQyEA",
            ),
        ] {
            assert_eq!(Uuid(id).to_string(), text);
            assert_eq!(text.parse::<Uuid>().unwrap(), Uuid(id));
            assert_eq!(format!("{text}==").parse::<Uuid>().unwrap(), Uuid(id));
        }
        assert_eq!(
            "_____________________x".parse::<Uuid>().unwrap().0,
            u128::MAX
        );
        for bad in [
            "",
            "AAAAAAAAAAAAAAAAAAAAA",
            "AAAAAAAAAAAAAAAAAAAAAAA",
            "AAAAAAAAAA+AAAAAAAAAAA",
        ] {
            let error = bad.parse::<Uuid>().unwrap_err();
            assert!(matches!(error, Error::CorruptIndex(_)), "{bad}");
        }
    }

    #[test]
    fn random_ids() {
        let id = Uuid::of_random([0; 16]).unwrap();
        assert_eq!(id.0, 0x4000_8000_0000_0000_0000);
        assert_eq!(id.to_string().parse::<Uuid>().unwrap(), id);
        // 0xf8... begins with the dash.
        assert_eq!(Uuid::of_random([0xf8; 16]), None);
        assert!(Uuid(99).is_reserved() && !Uuid(100).is_reserved());
    }
}
