//! The document as OpenAPI tells it, from the one table of its members.

use std::borrow::Cow;

use serde_json::json;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{
    AdditionalProperties, ArrayBuilder, KnownFormat, Object, ObjectBuilder, OneOfBuilder, Ref, Schema, SchemaFormat,
    Type,
};
use utoipa::{PartialSchema, ToSchema};

use super::document::Document;
use super::members::{CLUSTER, Kind, Member};
use super::name::MAX_CLUSTER_NAME;
use super::schema::{self, ray_cluster};

impl PartialSchema for Document {
    fn schema() -> RefOr<Schema> {
        let example = json!({
            "name": "demo",
            "head": {"cpu": "1", "memory": "2Gi"},
            "workerGroups": {"small": {"replicas": 2, "cpu": "1", "memory": "2Gi"}},
        });
        let described = ObjectBuilder::from(with_members(&[CLUSTER]));
        described.description(Some("A Ray cluster as people write it.")).required("name").examples([example]).into()
    }
}

impl ToSchema for Document {
    fn name() -> Cow<'static, str> {
        "Document".into()
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        collect(&[CLUSTER], schemas);
    }
}

/// The schemas of the objects that these members hold, each under its name.
fn collect(lists: &[&'static [Member]], schemas: &mut Vec<(String, RefOr<Schema>)>) {
    for member in lists.iter().flat_map(|list| list.iter()) {
        let mut kind = member.kind;
        while let Kind::Map(_, inner) = kind {
            kind = *inner;
        }
        if let Kind::Object(name, lists) = kind
            && !schemas.iter().any(|(known, _)| known == name)
        {
            schemas.push((name.to_owned(), Schema::Object(with_members(lists)).into()));
            collect(lists, schemas);
        }
    }
}

fn with_members(lists: &[&'static [Member]]) -> Object {
    let object = ObjectBuilder::new().schema_type(Type::Object);
    let object = lists
        .iter()
        .flat_map(|list| list.iter())
        .fold(object, |object, member| object.property(member.name, describe(member)));
    object.additional_properties(Some(AdditionalProperties::FreeForm(false))).build()
}

fn describe(member: &Member) -> RefOr<Schema> {
    match of_kind(&member.kind) {
        RefOr::Ref(mut reference) => {
            member.about.clone_into(&mut reference.description);
            reference.into()
        }
        RefOr::T(Schema::Object(object)) if member.name == "name" && member.place == "metadata.name" => {
            let object = ObjectBuilder::from(object).description(Some(member.about)).max_length(Some(MAX_CLUSTER_NAME));
            object.pattern(Some("^[a-z]([-a-z0-9]*[a-z0-9])?$")).into()
        }
        RefOr::T(Schema::Object(object)) => ObjectBuilder::from(object).description(Some(member.about)).into(),
        RefOr::T(Schema::Array(array)) => ArrayBuilder::from(array).description(Some(member.about)).into(),
        RefOr::T(Schema::OneOf(any)) => OneOfBuilder::from(any).description(Some(member.about)).into(),
        RefOr::T(other) => RefOr::T(other),
    }
}

fn of_kind(kind: &Kind) -> RefOr<Schema> {
    let typed = |kind: Type| ObjectBuilder::new().schema_type(kind);
    match kind {
        Kind::Text(_) => typed(Type::String).into(),
        Kind::Choice(choices) => typed(Type::String).enum_values(Some(choices.iter().copied())).into(),
        Kind::Flag => typed(Type::Boolean).into(),
        Kind::Whole(least) => {
            let whole = typed(Type::Integer).format(Some(SchemaFormat::KnownFormat(KnownFormat::Int32)));
            whole.minimum((*least > i32::MIN).then_some(*least)).into()
        }
        Kind::Amount | Kind::WholeAmount => {
            OneOfBuilder::new().item(typed(Type::String)).item(typed(Type::Number)).into()
        }
        Kind::Texts(_) => ArrayBuilder::new().items(typed(Type::String)).into(),
        Kind::Map(_, kind) => typed(Type::Object).additional_properties(Some(of_kind(kind))).into(),
        Kind::Object(name, _) => Ref::from_schema_name(*name).into(),
        Kind::Extended(own, place) => {
            let object = ObjectBuilder::from(with_members(&[own]));
            let rest = ray_cluster().at(place).into_iter().flat_map(schema::Schema::members);
            let object = rest.fold(object, |object, name| object.property(name, Schema::default()));
            object.additional_properties(Some(AdditionalProperties::FreeForm(false))).into()
        }
        Kind::Upstream(place) if ray_cluster().at(place).is_some_and(|schema| schema.items().is_some()) => {
            ArrayBuilder::new().items(typed(Type::Object)).into()
        }
        Kind::Upstream(_) => typed(Type::Object).into(),
        Kind::Named(..) | Kind::TextOr(_) => {
            OneOfBuilder::new().item(typed(Type::String)).item(typed(Type::Object)).into()
        }
    }
}
