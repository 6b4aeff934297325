//! A value of a RayCluster and where it is.

use std::borrow::Cow;
use std::rc::Rc;

use serde_json::Value;

use crate::ray::fault::escape;

/// A value and where it is. The pointer is made for a violation only.
///
/// What has another type than the operator takes can't be decoded by it and so becomes no pod. It is judged all the
/// same: a list's items are looked for in an object too, and what is no text is its JSON. Members in another case than
/// Kubernetes' own, which Go would decode, aren't looked for: the RayCluster's structural schema doesn't keep them.
#[derive(Debug, Clone)]
pub(super) struct At<'v> {
    pub(super) value: &'v Value,
    place: Rc<Place<'v>>,
}

#[derive(Debug)]
enum Place<'v> {
    Root,
    Member(Rc<Place<'v>>, &'v str),
    Item(Rc<Place<'v>>, usize),
}

impl<'v> At<'v> {
    pub(super) fn root(value: &'v Value) -> Self {
        Self { value, place: Rc::new(Place::Root) }
    }

    /// The member of this name, if it is there and not null.
    pub(super) fn get(&self, name: &'v str) -> Option<Self> {
        let value = self.value.get(name).filter(|value| !value.is_null())?;
        Some(Self { value, place: Rc::new(Place::Member(Rc::clone(&self.place), name)) })
    }

    /// The members of an object, nulls too.
    pub(super) fn members(&self) -> impl Iterator<Item = (&'v str, Self)> {
        let up = Rc::clone(&self.place);
        self.value.as_object().into_iter().flatten().map(move |(name, value)| {
            let place = Rc::new(Place::Member(Rc::clone(&up), name));
            (name.as_str(), Self { value, place })
        })
    }

    /// The items of a list, or the members of an object that is in its place.
    pub(super) fn items(&self) -> impl Iterator<Item = Self> {
        let up = Rc::clone(&self.place);
        let items = self.value.as_array().into_iter().flatten().enumerate().map(move |(index, value)| {
            let place = Rc::new(Place::Item(Rc::clone(&up), index));
            Self { value, place }
        });
        items.chain(self.members().map(|(_, member)| member))
    }

    /// What is at the end of this path of members; `*` is every item.
    pub(super) fn all(&self, path: &'v str) -> Vec<Self> {
        path.split('/').fold(vec![self.clone()], |reached, step| {
            let next = reached.iter();
            if step == "*" {
                next.flat_map(Self::items).collect()
            } else {
                next.filter_map(|at| at.get(step)).collect()
            }
        })
    }

    /// The text, or the JSON of what is none.
    pub(super) fn text(&self) -> Cow<'v, str> {
        match self.value {
            Value::String(text) => text.into(),
            Value::Null => "".into(),
            Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => self.value.to_string().into(),
        }
    }

    /// The text of a member; none where it isn't set.
    pub(super) fn text_of(&self, name: &'v str) -> Cow<'v, str> {
        self.get(name).map(|member| member.text()).unwrap_or_default()
    }

    /// The JSON Pointer (RFC 6901).
    pub(super) fn pointer(&self) -> String {
        let mut steps = Vec::new();
        let mut place = &self.place;
        loop {
            match &**place {
                Place::Root => break,
                Place::Member(up, name) => {
                    steps.push(escape(name));
                    place = up;
                }
                Place::Item(up, index) => {
                    steps.push(index.to_string());
                    place = up;
                }
            }
        }
        steps.iter().rev().fold(String::new(), |pointer, step| pointer + "/" + step)
    }
}
