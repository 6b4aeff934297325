//! The document as OpenAPI tells it, from the one table of its members.

use std::borrow::Cow;

use serde_json::json;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{
    AdditionalProperties, ArrayBuilder, KnownFormat, Object, ObjectBuilder, OneOfBuilder, Ref, Schema, SchemaFormat,
    SchemaType, Type,
};
use utoipa::{PartialSchema, ToSchema};

use super::document::{Document, WorkerGroup};
use super::members::{CLUSTER, GROUP, Kind, Member, NODE};
use super::name::MAX_CLUSTER_NAME;
use super::schema::{self, ray_cluster};

impl PartialSchema for Document {
    fn schema() -> RefOr<Schema> {
        let example = json!({
            "name": "demo",
            "head": {"cpu": "1", "memory": "2Gi"},
            "workerGroups": {"small": {"replicas": 2, "cpu": "1", "memory": "2Gi"}},
        });
        // Open, since it is part of what is answered, and members that only the server writes may be sent back.
        let described =
            ObjectBuilder::from(with_members(&[CLUSTER])).additional_properties::<AdditionalProperties<_>>(None);
        let about =
            "A Ray cluster as people write it. A create needs `name`; a path that names the cluster says it otherwise.";
        described.description(Some(about)).examples([example]).into()
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

impl PartialSchema for WorkerGroup {
    fn schema() -> RefOr<Schema> {
        Schema::Object(with_members(&[GROUP, NODE])).into()
    }
}

impl ToSchema for WorkerGroup {
    fn name() -> Cow<'static, str> {
        "WorkerGroup".into()
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        collect(&[GROUP, NODE], schemas);
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
            let upstream = ray_cluster().at(place);
            let rest = upstream.into_iter().flat_map(schema::Schema::members);
            let object = rest.fold(object, |object, name| {
                object.property(name, of_upstream(upstream.and_then(|schema| schema.member(name))))
            });
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

/// The type of what a RayCluster takes; what it consists of is Kubernetes' and KubeRay's to tell.
fn of_upstream(schema: Option<&schema::Schema>) -> RefOr<Schema> {
    let typed = |kind: Type| ObjectBuilder::new().schema_type(kind);
    match schema.map(schema::Schema::kind) {
        Some(schema::Kind::Object) => typed(Type::Object).into(),
        Some(schema::Kind::Array) => {
            ArrayBuilder::new().items(ObjectBuilder::new().schema_type(SchemaType::AnyValue)).into()
        }
        Some(schema::Kind::String) => typed(Type::String).into(),
        Some(schema::Kind::Integer) => typed(Type::Integer).into(),
        Some(schema::Kind::Boolean) => typed(Type::Boolean).into(),
        Some(schema::Kind::IntOrString) | None => ObjectBuilder::new().schema_type(SchemaType::AnyValue).into(),
    }
}
