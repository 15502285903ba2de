//! Logs in object stores: folders and files over a [`Provider`](super::provider::Provider).
//!
//! A store is mounted at a root, such as `s3://bucket`: from then on a path below it is a folder of the store wherever a
//! path becomes a [`Folder`](super::storage::Folder). Paths stay plain text, which plans, messages and other processes
//! can carry; credentials are in the mounted provider alone.
//!
//! | module | what |
//! |---|---|
//! | [`mount`] | the stores that are mounted in this process |
//! | [`view`] | objects below a path, listed once |
//! | [`listing`] | keys as folders and files |
//! | [`folder`] | a folder of a view |
//! | [`file`] | an object, read in windows and ahead |
//! | [`damage`] | an object some of whose bytes cannot be read |
//! | [`request`] | limits, retries and time-outs of requests |

pub(crate) mod damage;
pub(crate) mod file;
pub(crate) mod folder;
pub(crate) mod listing;
pub(crate) mod mount;
pub(crate) mod request;
pub(crate) mod view;
