//! Kafka's ids of topics, clusters and log dirs (`org.apache.kafka.common.Uuid`).
//!
//! 16 bytes, spelled as 22 characters of base64url (RFC 4648, section 5) without padding.

use std::fmt;
use std::str::FromStr;

use base64::display::Base64Display;
use base64::engine::general_purpose::{GeneralPurpose, NO_PAD};
use base64::{Engine as _, alphabet};

use super::put::Put;
use crate::error::{Error, Result};

/// 22 characters hold 132 bits; the last four may be any.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::URL_SAFE,
    NO_PAD.with_decode_allow_trailing_bits(true),
);
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

    /// Returns whether Kafka gives it a meaning of its own, as for "no directory".
    #[must_use]
    pub const fn is_reserved(self) -> bool {
        self.0 < RESERVED
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Base64Display::new(&self.0.to_be_bytes(), &BASE64).fmt(f)
    }
}

impl Put for Uuid {
    fn put(self, to: &mut Vec<u8>) {
        to.extend_from_slice(BASE64.encode(self.0.to_be_bytes()).as_bytes());
    }
}

impl FromStr for Uuid {
    type Err = Error;

    /// As Java decodes it: padding may stand there, the last four bits are nothing.
    fn from_str(text: &str) -> Result<Self> {
        let mut id = [0; 16];
        let digits = text.strip_suffix("==").unwrap_or(text);
        if BASE64.decode_slice(digits, &mut id) != Ok(16) {
            let found = format_args!("{text:?}");
            let expected = "22 characters of base64url";
            return Err(Error::corrupt_index("id", 0, expected, found));
        }
        Ok(Self(u128::from_be_bytes(id)))
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
