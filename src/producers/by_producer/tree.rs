//! A crowded bin of a Java `HashMap`: a red-black tree by hash and id, whose nodes also form the list that an iteration
//! follows.
//!
//! A new node comes right behind its parent in the list, and after an insertion the root goes to the front; so the list's
//! order hangs on the shape of the tree, which is the textbook's (Cormen and others, chapter 13). What an iterator removes
//! leaves the front where it is.

use std::cmp::Ordering;
use std::collections::HashMap;

use super::hash;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Left,
    Right,
}

impl Side {
    const fn other(self) -> Self {
        match self {
            Self::Left => Self::Right,
            Self::Right => Self::Left,
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Node {
    is_red: bool,
    parent: Option<i64>,
    left: Option<i64>,
    right: Option<i64>,
    previous: Option<i64>,
    next: Option<i64>,
}

/// The ids in one bin.
#[derive(Clone, Debug, Default)]
pub(super) struct Tree {
    nodes: HashMap<i64, Node>,
    root: Option<i64>,
    first: Option<i64>,
}

impl Tree {
    /// Makes a tree of a list, which keeps its order but for the root.
    pub(super) fn of(ids: &[i64]) -> Self {
        let mut tree = Self::default();
        let mut last = None;
        for &id in ids {
            tree.list_behind(last, id);
            last = Some(id);
        }
        for &id in ids {
            let _parent = tree.attach(id);
        }
        tree.root_to_front();
        tree
    }

    pub(super) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The ids as an iteration gives them.
    pub(super) fn ids(&self) -> impl Iterator<Item = i64> {
        std::iter::successors(self.first, |&id| self.node(Some(id)).next)
    }

    /// Adds an id that is not there.
    pub(super) fn insert(&mut self, id: i64) {
        let parent = self.attach(id);
        self.list_behind(parent, id);
        self.root_to_front();
    }

    /// Removes an id that is there, as an iterator does.
    pub(super) fn remove(&mut self, id: i64) {
        self.unlist(id);
        let node = self.node(Some(id));
        if let (Some(_), Some(right)) = (node.left, node.right) {
            let mut successor = right;
            while let Some(left) = self.node(Some(successor)).left {
                successor = left;
            }
            self.exchange(id, successor);
        }
        let node = self.node(Some(id));
        let child = node.left.or(node.right);
        match child {
            // A lone child is red, and its parent black.
            Some(_) => self.paint(child, false),
            None if node.is_red => {}
            None => self.mend_black(id),
        }
        let (above, side) = self.place(id);
        self.link(above, side, child);
        self.nodes.remove(&id);
    }

    fn node(&self, id: Option<i64>) -> Node {
        let found = id.and_then(|id| self.nodes.get(&id));
        found.copied().unwrap_or_default()
    }

    fn change(&mut self, id: Option<i64>, change: impl FnOnce(&mut Node)) {
        if let Some(id) = id {
            change(self.nodes.entry(id).or_default());
        }
    }

    // The list

    fn list_behind(&mut self, previous: Option<i64>, id: i64) {
        let next = match previous {
            Some(_) => self.node(previous).next,
            None => self.first,
        };
        match previous {
            Some(_) => self.change(previous, |node| node.next = Some(id)),
            None => self.first = Some(id),
        }
        self.change(next, |node| node.previous = Some(id));
        self.change(Some(id), |node| {
            (node.previous, node.next) = (previous, next);
        });
    }

    fn unlist(&mut self, id: i64) {
        let Node { previous, next, .. } = self.node(Some(id));
        match previous {
            Some(_) => self.change(previous, |node| node.next = next),
            None => self.first = next,
        }
        self.change(next, |node| node.previous = previous);
    }

    fn root_to_front(&mut self) {
        if let Some(root) = self.root
            && self.first != self.root
        {
            self.unlist(root);
            self.list_behind(None, root);
        }
    }

    // The tree

    /// The parent of a node, and the side of it on which the node is.
    fn place(&self, id: i64) -> (Option<i64>, Side) {
        let parent = self.node(Some(id)).parent;
        let is_left = self.child(parent, Side::Left) == Some(id);
        (parent, if is_left { Side::Left } else { Side::Right })
    }

    fn child(&self, id: Option<i64>, side: Side) -> Option<i64> {
        match side {
            Side::Left => self.node(id).left,
            Side::Right => self.node(id).right,
        }
    }

    fn is_red(&self, id: Option<i64>) -> bool {
        self.node(id).is_red
    }

    fn paint(&mut self, id: Option<i64>, is_red: bool) {
        self.change(id, |node| node.is_red = is_red);
    }

    /// Hangs a node below another, or makes it the root.
    fn link(&mut self, parent: Option<i64>, side: Side, child: Option<i64>) {
        match (parent, side) {
            (None, _) => self.root = child,
            (_, Side::Left) => self.change(parent, |node| node.left = child),
            (_, Side::Right) => self.change(parent, |node| node.right = child),
        }
        self.change(child, |node| node.parent = parent);
    }

    fn rotate(&mut self, top: i64, side: Side) {
        let (above, place) = self.place(top);
        let rising = self.child(Some(top), side.other());
        self.link(Some(top), side.other(), self.child(rising, side));
        self.link(above, place, rising);
        self.link(rising, side, Some(top));
    }

    /// Hangs a new node where it belongs; returns below which, before anything is rotated.
    fn attach(&mut self, id: i64) -> Option<i64> {
        let key = |id: i64| (hash(id).cast_signed(), id);
        let (mut parent, mut side, mut at) = (None, Side::Left, self.root);
        while let Some(here) = at {
            side = match key(id).cmp(&key(here)) {
                Ordering::Greater => Side::Right,
                _ => Side::Left,
            };
            parent = at;
            at = self.child(at, side);
        }
        self.link(parent, side, Some(id));
        self.paint(Some(id), true);
        self.mend_red(id);
        parent
    }

    /// A red node may have a red parent.
    fn mend_red(&mut self, mut id: i64) {
        loop {
            let (Some(parent), side) = self.place(id) else {
                return self.paint(Some(id), false);
            };
            let (Some(top), outer) = self.place(parent) else {
                return;
            };
            if !self.is_red(Some(parent)) {
                return;
            }
            let uncle = self.child(Some(top), outer.other());
            self.paint(Some(top), true);
            if self.is_red(uncle) {
                self.paint(uncle, false);
                self.paint(Some(parent), false);
                id = top;
                continue;
            }
            let rising = if side == outer {
                parent
            } else {
                self.rotate(parent, outer);
                id
            };
            self.paint(Some(rising), false);
            return self.rotate(top, outer.other());
        }
    }

    /// Below a node there is one black less than below its sibling.
    fn mend_black(&mut self, mut id: i64) {
        while let (Some(parent), side) = self.place(id) {
            if self.is_red(Some(id)) {
                break;
            }
            let (above, far) = (Some(parent), side.other());
            let mut sibling = self.child(above, far);
            if self.is_red(sibling) {
                self.paint(sibling, false);
                self.paint(above, true);
                self.rotate(parent, side);
                sibling = self.child(above, far);
            }
            let (inner, outer) = (self.child(sibling, side), self.child(sibling, far));
            if !self.is_red(inner) && !self.is_red(outer) {
                self.paint(sibling, true);
                id = parent;
                continue;
            }
            if let Some(rotated) = sibling
                && !self.is_red(outer)
            {
                self.paint(inner, false);
                self.paint(sibling, true);
                self.rotate(rotated, far);
                sibling = self.child(above, far);
            }
            self.paint(sibling, self.is_red(above));
            self.paint(self.child(sibling, far), false);
            self.paint(above, false);
            return self.rotate(parent, side);
        }
        self.paint(Some(id), false);
    }

    /// Lets a node and the next one by key change their places and colours.
    fn exchange(&mut self, id: i64, successor: i64) {
        let (above, side) = self.place(id);
        let (above_successor, side_of_successor) = self.place(successor);
        let (node, next) = (self.node(Some(id)), self.node(Some(successor)));
        self.link(above, side, Some(successor));
        self.link(Some(successor), Side::Left, node.left);
        if above_successor == Some(id) {
            self.link(Some(successor), Side::Right, Some(id));
        } else {
            self.link(Some(successor), Side::Right, node.right);
            self.link(above_successor, side_of_successor, Some(id));
        }
        self.link(Some(id), Side::Left, None);
        self.link(Some(id), Side::Right, next.right);
        self.paint(Some(id), next.is_red);
        self.paint(Some(successor), node.is_red);
    }
}
