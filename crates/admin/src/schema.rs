//! Schemas of strings that can only have certain values or forms, and of policies.
//! Values come from the enums that have them, so that the OpenAPI document cannot
//! name others. These types are only named in descriptions; none has a value.

use std::borrow::Cow;

use sluice_catalog::Standing;
use sluice_classify::{Category, FindingKind, Part, Risk, SignalKind};
use sluice_policy::{Outcome as Call, Treatment};
use sluice_store::{Instances, Kind, Outcome, Start};
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{
        RefOr,
        schema::{AdditionalProperties, ObjectBuilder, Schema, Type},
    },
};

/// Declares types whose schema is a string with one of these values.
macro_rules! choices {
    ($($name:ident, $description:literal: $values:expr;)*) => {$(
        #[doc = $description]
        pub(crate) enum $name {}

        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                let text = ObjectBuilder::new().schema_type(Type::String);
                text.description(Some($description)).enum_values(Some($values)).into()
            }
        }

        impl ToSchema for $name {
            fn name() -> Cow<'static, str> {
                stringify!($name).into()
            }
        }
    )*};
}

choices! {
    ToolCategory, "The most harmful thing a tool can do.":
        Category::ALL.map(Category::name);
    ToolRisk, "How harmful a tool can be.":
        Risk::ALL.map(Risk::name);
    ToolSignal, "Something in a definition that makes a tool riskier.":
        SignalKind::ALL.map(SignalKind::name);
    EvidenceKind, "A category, a signal, or a sign of poisoning.":
        list_evidence_kinds();
    DefinitionPart, "A part of a tool's definition, or of its server's.":
        Part::ALL.map(Part::name);
    CatalogStanding, "Whether an entry is part of the program, or was imported by the user.":
        [Standing::Shipped, Standing::Own].map(Standing::name);
    ProcessSharing, "Whether all sessions share one process, or each has its own.":
        [Instances::Shared, Instances::Session].map(Instances::name);
    ProcessStart, "Whether the command is started when it is first used, or with the gateway.":
        [Start::Use, Start::Up].map(Start::name);
    RecordKind, "The kind of an audit record.":
        Kind::ALL.map(Kind::as_str);
    RecordOutcome, "The outcome that an audit record reports.":
        Outcome::ALL.map(Outcome::as_str);
    CallOutcome, "What happens to a call.":
        [Call::Allow, Call::Deny, Call::Hide, Call::Hold].map(Call::name);
    ToolTreatment, "What happens to calls of a tool: an outcome, or `depends` if conditions on their arguments decide.":
        Treatment::ALL.map(Treatment::name);
    AnyVersion, "Any version.":
        ["*"];
}

fn list_evidence_kinds() -> Vec<&'static str> {
    let categories = Category::ALL.map(Category::name).into_iter();
    let signals = SignalKind::ALL.map(SignalKind::name);
    categories.chain(signals).chain(FindingKind::ALL.map(FindingKind::name)).collect()
}

/// Declares types whose schema is a string that matches a pattern.
macro_rules! patterns {
    ($($name:ident, $description:literal: $pattern:literal;)*) => {$(
        #[doc = $description]
        pub(crate) enum $name {}

        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                let text = ObjectBuilder::new().schema_type(Type::String);
                text.description(Some($description)).pattern(Some($pattern)).into()
            }
        }

        impl ToSchema for $name {
            fn name() -> Cow<'static, str> {
                stringify!($name).into()
            }
        }
    )*};
}

patterns! {
    ObjectName, "The name of a server, a policy or a grant.":
        "^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?$";
    TimeSpan, "A span of time of at most ten years: seconds, minutes, hours or days.":
        "^0*[1-9][0-9]* *[smhd]$";
    TimeOrSpan, "A span of time such as `24h`, or a time such as `2027-01-31T12:00:00Z`.":
        "^(0*[1-9][0-9]* *[smhd]|[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9:.]+([Zz]|[+-][0-9:]+))$";
    RecordId, "A ULID.":
        "^[0-7][0-9A-HJKMNP-TV-Z]{25}$";
}

/// A policy, of which only the required members are described here.
pub(crate) enum PolicyDocument {}

impl PartialSchema for PolicyDocument {
    fn schema() -> RefOr<Schema> {
        let choice = |values: &[&str]| {
            ObjectBuilder::new().schema_type(Type::String).enum_values(Some(values.to_vec()))
        };
        ObjectBuilder::new()
            .description(Some(
                "A policy. `schema/policy.schema.json` is the schema of the language.",
            ))
            .property("version", choice(&["1"]))
            .required("version")
            .property("default", choice(&["allow", "deny"]))
            .required("default")
            .additional_properties(Some(AdditionalProperties::FreeForm(true)))
            .into()
    }
}

impl ToSchema for PolicyDocument {
    fn name() -> Cow<'static, str> {
        "PolicyDocument".into()
    }
}
