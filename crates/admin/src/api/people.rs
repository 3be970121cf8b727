//! `/people`.

use std::sync::Arc;

use axum::{
    Json,
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse as _, Response},
};
use serde::{Deserialize, Serialize};
use sluice_store::{Name, Patch, Person, Role};
use utoipa::{IntoParams, ToSchema};

use super::{
    AdminState, Problem,
    extract::{self, JsonBody, PathParams, Preconditions, QueryParams, RequestActor},
    openapi::{
        Conflict, ContentTooLarge, InternalServerError, NotFound, PreconditionFailed,
        ServiceUnavailable, UnprocessableContent, UnsupportedMediaType,
    },
    paging::cut_page,
    run_to_completion,
};
use crate::{
    ops::{Invited, PersonChanges, WantedPerson, person_version},
    schema::ObjectName,
};

/// A page of people, in the order of their ids.
#[derive(Serialize, ToSchema)]
pub(super) struct PersonList {
    people: Vec<PersonView>,
    /// The cursor of the next page; null on the last one.
    #[schema(required)]
    next: Option<String>,
}

/// A person who may sign in.
#[derive(Serialize, ToSchema)]
pub(super) struct PersonView {
    id: String,
    login: String,
    name: String,
    role: RoleName,
    /// The servers that the role is limited to; null for all.
    #[schema(value_type = Option<Vec<ObjectName>>, required)]
    servers: Option<Vec<String>>,
    /// Why the person has this role.
    reason: String,
    state: PersonState,
    /// The identity provider that signs the person in.
    #[schema(required)]
    issuer: Option<String>,
    #[schema(format = DateTime)]
    created_at: String,
    created_by: String,
    /// Until when an invitation that was not accepted is valid.
    #[schema(format = DateTime, required)]
    invited_until: Option<String>,
    #[schema(format = DateTime, required)]
    last_sign_in: Option<String>,
}

/// Whether a person can sign in.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum PersonState {
    Active,
    /// Has no password yet.
    Invited,
    Disabled,
}

/// The name of a role.
#[derive(Serialize, Deserialize, ToSchema, Clone, Copy)]
#[serde(rename_all = "kebab-case")]
pub(super) enum RoleName {
    Admin,
    PolicyManager,
    Approver,
    Auditor,
    Viewer,
}

impl From<Role> for RoleName {
    fn from(role: Role) -> RoleName {
        match role {
            Role::Admin => RoleName::Admin,
            Role::PolicyManager => RoleName::PolicyManager,
            Role::Approver => RoleName::Approver,
            Role::Auditor => RoleName::Auditor,
            Role::Viewer => RoleName::Viewer,
        }
    }
}

/// A person to invite.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewPerson {
    /// The name to sign in with, such as an e-mail address.
    login: String,
    /// The name that is shown; the login by default.
    name: Option<String>,
    #[schema(value_type = RoleName)]
    role: String,
    /// The servers that the role is limited to; all by default.
    #[schema(value_type = Option<Vec<ObjectName>>, min_items = 1)]
    servers: Option<Vec<String>>,
}

/// New values for some properties of a person. A property that is left out keeps its value.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PersonPatch {
    #[schema(nullable = false)]
    name: Option<String>,
    #[schema(value_type = Option<RoleName>, nullable = false)]
    role: Option<String>,
    /// The servers that the role is limited to; null for all.
    #[schema(value_type = Option<Vec<ObjectName>>, min_items = 1)]
    #[serde(default, deserialize_with = "extract::read_patch")]
    servers: Patch<Vec<String>>,
    /// A disabled person cannot sign in, and all sessions end.
    #[schema(nullable = false)]
    disabled: Option<bool>,
}

/// An invitation, whose link is shown only here.
#[derive(Serialize, ToSchema)]
pub(super) struct InvitationView {
    person: PersonView,
    /// The path of the link on this listener, with its secret, by which the person sets a
    /// password, once.
    path: String,
    #[schema(format = DateTime, required)]
    expires_at: Option<String>,
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct PersonQuery {
    /// Only people with this role.
    #[param(value_type = Option<RoleName>, nullable = false)]
    role: Option<String>,
    /// How many people to answer with, at most and by default 1000.
    #[param(value_type = u64, required = false)]
    limit: Option<usize>,
    /// `next` of the page before.
    #[param(nullable = false)]
    cursor: Option<String>,
}

/// List the people
#[utoipa::path(
    get,
    path = "/people",
    operation_id = "list_people",
    tag = "people",
    params(PersonQuery),
    responses(
        (status = 200, description = "A page of people", body = PersonList),
        InternalServerError,
        ServiceUnavailable,
    )
)]
pub(super) async fn list(
    State(state): State<Arc<AdminState>>,
    QueryParams(PersonQuery { role, limit, cursor }): QueryParams<PersonQuery>,
) -> Result<Json<PersonList>, Problem> {
    let people = state.ops.people().await?.into_iter();
    let wanted = people
        .filter(|person| role.as_deref().is_none_or(|role| person.access.role.name() == role));
    let (people, next) = cut_page(wanted, |person| &person.id, cursor.as_deref(), limit);
    Ok(Json(PersonList { people: people.iter().map(PersonView::of).collect(), next }))
}

/// Invite a person
///
/// The answer has the path of a link by which the person sets a password, once, within three days.
#[utoipa::path(
    post,
    path = "/people",
    operation_id = "invite_person",
    tag = "people",
    request_body = NewPerson,
    responses(
        (status = 201, description = "The person, and the invitation", body = InvitationView),
        Conflict,
        ContentTooLarge,
        UnsupportedMediaType,
        UnprocessableContent,
        InternalServerError,
        ServiceUnavailable,
    )
)]
pub(super) async fn invite(
    State(state): State<Arc<AdminState>>,
    RequestActor(actor): RequestActor,
    JsonBody(new): JsonBody<NewPerson>,
) -> Result<(StatusCode, Json<InvitationView>), Problem> {
    let NewPerson { login, name, role, servers } = new;
    let wanted = WantedPerson { login, name, role, servers };
    let invited = async move { state.ops.invite_person(wanted, &actor).await };
    Ok((StatusCode::CREATED, Json(InvitationView::of(run_to_completion(invited).await?))))
}

/// Invite a person again
///
/// The link until now stops working. For people who have lost their link or their password.
#[utoipa::path(
    post,
    path = "/people/{id}/invitation",
    operation_id = "invite_person_again",
    tag = "people",
    params(("id" = String, Path, description = "The id or the login of the person")),
    responses(
        (status = 201, description = "The person, and the invitation", body = InvitationView),
        NotFound,
        Conflict,
        InternalServerError,
        ServiceUnavailable,
    )
)]
pub(super) async fn invite_again(
    State(state): State<Arc<AdminState>>,
    RequestActor(actor): RequestActor,
    PathParams(id): PathParams<String>,
) -> Result<(StatusCode, Json<InvitationView>), Problem> {
    let invited = async move { state.ops.invite_again(&id, &actor).await };
    Ok((StatusCode::CREATED, Json(InvitationView::of(run_to_completion(invited).await?))))
}

/// Show a person
#[utoipa::path(
    get,
    path = "/people/{id}",
    operation_id = "show_person",
    tag = "people",
    params(("id" = String, Path, description = "The id or the login of the person")),
    responses(
        (
            status = 200,
            description = "The person",
            body = PersonView,
            headers(("ETag" = String, description = "The version of the properties, in quotes"))
        ),
        NotFound,
        InternalServerError,
        ServiceUnavailable,
    )
)]
pub(super) async fn show(
    State(state): State<Arc<AdminState>>,
    PathParams(id): PathParams<String>,
) -> Result<Response, Problem> {
    Ok(answer_with_tag(&state.ops.person(&id).await?))
}

/// Change a person
#[utoipa::path(
    patch,
    path = "/people/{id}",
    operation_id = "edit_person",
    tag = "people",
    params(
        ("id" = String, Path, description = "The id or the login of the person"),
        ("If-Match" = Option<String>, Header, nullable = false, description = "Versions one of which must be current, in quotes and separated by commas"),
    ),
    request_body = PersonPatch,
    responses(
        (
            status = 200,
            description = "The person as they are now",
            body = PersonView,
            headers(("ETag" = String, description = "The version of the properties, in quotes"))
        ),
        NotFound,
        Conflict,
        PreconditionFailed,
        ContentTooLarge,
        UnsupportedMediaType,
        UnprocessableContent,
        InternalServerError,
        ServiceUnavailable,
    )
)]
pub(super) async fn edit(
    State(state): State<Arc<AdminState>>,
    RequestActor(actor): RequestActor,
    PathParams(id): PathParams<String>,
    Preconditions(expected): Preconditions,
    JsonBody(patch): JsonBody<PersonPatch>,
) -> Result<Response, Problem> {
    let PersonPatch { name, role, servers, disabled } = patch;
    let changes = PersonChanges { name, role, servers, is_disabled: disabled };
    let edit = async move { state.ops.edit_person(&id, changes, &expected, &actor).await };
    Ok(answer_with_tag(&run_to_completion(edit).await?))
}

/// Remove a person
///
/// Their sessions and API tokens go with them. The audit log keeps their name.
#[utoipa::path(
    delete,
    path = "/people/{id}",
    operation_id = "remove_person",
    tag = "people",
    params(
        ("id" = String, Path, description = "The id or the login of the person"),
        ("If-Match" = Option<String>, Header, nullable = false, description = "Versions one of which must be current, in quotes and separated by commas"),
    ),
    responses(
        (status = 204, description = "The person is removed"),
        NotFound,
        Conflict,
        PreconditionFailed,
        InternalServerError,
        ServiceUnavailable,
    )
)]
pub(super) async fn remove(
    State(state): State<Arc<AdminState>>,
    RequestActor(actor): RequestActor,
    PathParams(id): PathParams<String>,
    Preconditions(expected): Preconditions,
) -> Result<StatusCode, Problem> {
    run_to_completion(async move { state.ops.remove_person(&id, &expected, &actor).await }).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// A person with the entity tag.
fn answer_with_tag(person: &Person) -> Response {
    let tag = [(header::ETAG, format!("\"{}\"", person_version(person)))];
    (tag, Json(PersonView::of(person))).into_response()
}

impl PersonView {
    fn of(person: &Person) -> PersonView {
        let state = if person.disabled_at.is_some() {
            PersonState::Disabled
        } else if person.has_password || person.identity.is_some() {
            PersonState::Active
        } else {
            PersonState::Invited
        };
        PersonView {
            id: person.id.clone(),
            login: person.login.clone(),
            name: person.name.clone(),
            role: person.access.role.into(),
            servers: name_servers(person.access.servers.as_deref()),
            reason: person.reason.clone(),
            state,
            issuer: person.identity.as_ref().map(|identity| identity.issuer.clone()),
            created_at: person.created_at.to_string(),
            created_by: person.created_by.clone(),
            invited_until: person.invited_until.map(|at| at.to_string()),
            last_sign_in: person.last_sign_in.map(|at| at.to_string()),
        }
    }
}

/// The servers of an access as text; `None` for all.
pub(super) fn name_servers(servers: Option<&[Name]>) -> Option<Vec<String>> {
    Some(servers?.iter().map(ToString::to_string).collect())
}

impl InvitationView {
    fn of(Invited { person, token }: Invited) -> InvitationView {
        InvitationView {
            path: format!("/invitation/{}", token.text()),
            expires_at: person.invited_until.map(|at| at.to_string()),
            person: PersonView::of(&person),
        }
    }
}
