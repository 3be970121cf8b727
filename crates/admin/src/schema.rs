//! Schemas of strings that can only have certain values. The values come from the
//! enums that have them, so that the OpenAPI document cannot name others. These
//! types are only named in descriptions; none has a value.

use std::borrow::Cow;

use sluice_catalog::Standing;
use sluice_classify::{Category, FindingKind, Part, Risk, SignalKind};
use sluice_store::{Instances, Kind, Outcome, Start};
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{
        RefOr,
        schema::{ObjectBuilder, Schema, Type},
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
}

fn list_evidence_kinds() -> Vec<&'static str> {
    let categories = Category::ALL.map(Category::name).into_iter();
    let signals = SignalKind::ALL.map(SignalKind::name);
    categories.chain(signals).chain(FindingKind::ALL.map(FindingKind::name)).collect()
}

/// The name of a server, a policy or a grant.
pub(crate) enum ObjectName {}

impl PartialSchema for ObjectName {
    fn schema() -> RefOr<Schema> {
        let text = ObjectBuilder::new().schema_type(Type::String);
        text.description(Some("The name of a server, a policy or a grant."))
            .pattern(Some("^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?$"))
            .into()
    }
}

impl ToSchema for ObjectName {
    fn name() -> Cow<'static, str> {
        "ObjectName".into()
    }
}
