//! The stores that are mounted in this process.

use std::path::Path;
use std::sync::{Arc, Mutex};

use super::listing::is_within;
use super::request::RequestLimits;
use super::view::{MountedStore, StoreView};
use crate::io::provider::Provider;
use crate::io::threads::lock;

/// Views that a mount remembers: the listings of that many log dirs stay in memory.
const MAX_VIEWS: usize = 4;

static MOUNTS: Mutex<Vec<Arc<Mount>>> = Mutex::new(Vec::new());

/// A store that is mounted, and what was listed of it.
#[derive(Debug)]
struct Mount {
    store: Arc<MountedStore>,
    views: Mutex<Vec<Arc<StoreView>>>,
}

/// Mounts a store at `root`, in place of one that was mounted there before.
pub(crate) fn mount(root: &str, provider: Arc<dyn Provider>, limits: RequestLimits) {
    let root = root.trim_end_matches('/').to_owned();
    let mut mounts = lock(&MOUNTS);
    mounts.retain(|mount| mount.store.root != root);
    mounts.push(Arc::new(Mount {
        store: Arc::new(MountedStore {
            root,
            provider,
            limits,
        }),
        views: Mutex::default(),
    }));
    // The longest root comes first.
    mounts.sort_by_key(|mount| std::cmp::Reverse(mount.store.root.len()));
}

/// Returns whether a path lies in a mounted store.
pub(crate) fn is_mounted(path: &Path) -> bool {
    find(path).is_some()
}

/// The mount that a path lies in, and the path's key there.
fn find(path: &Path) -> Option<(Arc<Mount>, String)> {
    let text = path.to_str().filter(|text| text.contains(":/"))?;
    let mounts = lock(&MOUNTS);
    let found = mounts
        .iter()
        .find(|mount| is_within(&mount.store.root, text))?;
    let rest = text.strip_prefix(&found.store.root).unwrap_or_default();
    Some((Arc::clone(found), rest.trim_matches('/').to_owned()))
}

/// The view that a path lies in, and its key there; `None` for a path in no mounted store.
pub(super) fn view_at(path: &Path) -> Option<(Arc<StoreView>, String)> {
    let (mount, key) = find(path)?;
    let mut views = lock(&mount.views);
    if let Some(known) = views.iter().find(|each| is_within(&each.root, &key)) {
        return Some((Arc::clone(known), key));
    }
    let made = Arc::new(StoreView::new(&mount.store, &key));
    views.insert(0, Arc::clone(&made));
    views.truncate(MAX_VIEWS);
    drop(views);
    Some((made, key))
}

/// Forgets the listings of what is at a path, above and below: the next use lists anew. Folders that are open keep
/// theirs.
pub(crate) fn forget_listings(path: &Path) {
    if let Some((mount, key)) = find(path) {
        let stays =
            |each: &Arc<StoreView>| !is_within(&each.root, &key) && !is_within(&key, &each.root);
        lock(&mount.views).retain(stays);
    }
}
