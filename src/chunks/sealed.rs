//! Encrypted chunks and the keys to them.

use std::fmt;

use aes_gcm::aead::{Aead, Payload};
use aes_gcm::{Aes256Gcm, KeyInit, Nonce};
use rsa::PrivateKey;
use rsa::pkcs1::DecodeRsaPrivateKey;
use rsa::pkcs8::DecodePrivateKey;
use sha3::Sha3_512;

use crate::error::{Error, Result};
use crate::types::Position;

const NONCE: usize = 12;

/// The key of a segment's chunks, and the bytes that each tag covers besides.
pub struct DataKey {
    cipher: Aes256Gcm,
    aad: Vec<u8>,
}

impl fmt::Debug for DataKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DataKey")
    }
}

impl DataKey {
    /// A key of 32 bytes.
    ///
    /// # Errors
    /// `InvalidArgument` for one of another length.
    pub fn new(key: &[u8], aad: &[u8]) -> Result<Self> {
        let cipher = Aes256Gcm::new_from_slice(key).map_err(|_| {
            Error::InvalidArgument(format!("a data key of {} bytes, expected 32", key.len()))
        })?;
        Ok(Self {
            cipher,
            aad: aad.to_vec(),
        })
    }

    /// Plaintext of `sealed`.
    ///
    /// # Errors
    /// `CorruptRecord` where key, additional data or bytes are not those of the encryption.
    pub fn open(&self, sealed: &[u8], at: Position) -> Result<Vec<u8>> {
        let opened = sealed
            .split_first_chunk::<NONCE>()
            .and_then(|(nonce, msg)| {
                let payload = Payload {
                    msg,
                    aad: &self.aad,
                };
                self.cipher.decrypt(&Nonce::from(*nonce), payload).ok()
            });
        let expected = "bytes that their AES-GCM tag fits";
        opened.ok_or_else(|| Error::corrupt("encrypted chunk", at, expected, "others"))
    }
}

/// Unwraps a data key with a private key: PEM of PKCS#8 or PKCS#1.
///
/// # Errors
/// `InvalidArgument` where the private key cannot be read, or is not the one of the pair.
pub fn unwrap_data_key(private_key: &str, wrapped: &[u8]) -> Result<Vec<u8>> {
    let key = PrivateKey::from_pkcs8_pem(private_key)
        .or_else(|_| PrivateKey::from_pkcs1_pem(private_key))
        .map_err(|_| {
            let text = "the private key: expected PEM of an unencrypted RSA key (PKCS#8 or PKCS#1)";
            Error::InvalidArgument(text.to_owned())
        })?;
    key.oaep_decrypt::<Sha3_512>(wrapped).map_err(|_| {
        let text = "the private key does not open the data key: it is of another pair, or the data key is damaged";
        Error::InvalidArgument(text.to_owned())
    })
}
