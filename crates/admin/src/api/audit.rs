//! `/audit`. Records are sent byte for byte as they were hashed, so that the recipient can check
//! the chain.

mod record;
pub(super) mod verification;

use std::{io, sync::Arc};

use axum::{
    body::Body,
    extract::State,
    http::header,
    response::{IntoResponse as _, Response},
};
use futures_util::stream;
use serde::Deserialize;
use sluice_config::span;
use sluice_policy::Timestamp;
use sluice_store::{Cursor, CursorError, Filter, Id, Kind, Outcome, Page};
use utoipa::IntoParams;

use self::record::RecordPage;
use super::{
    AdminState, Problem,
    extract::{QueryParams, RequestCaller},
    openapi::{InternalServerError, ServiceUnavailable},
};
use crate::{
    clock,
    schema::{RecordKind, RecordOutcome, TimeOrSpan},
};

/// Records on a page by default.
const DEFAULT_LIMIT: usize = 100;
/// Records on a page, at most.
const MAX_LIMIT: usize = 1_000;

/// Requests that one question names, at most.
const MOST_REQUESTS: usize = 100;

/// Filters, all of which must hold, and the place to read from.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct AuditQuery {
    /// Records from this time on: a span such as `24h`, counted back from now, or a time such as `2027-01-31T12:00:00Z`.
    #[param(value_type = TimeOrSpan, required = false)]
    since: Option<String>,
    /// Records before this time, written like `since`.
    #[param(value_type = TimeOrSpan, required = false)]
    until: Option<String>,
    /// Records of this server.
    #[param(nullable = false)]
    server: Option<String>,
    /// Records of the grant with this id or label.
    #[param(nullable = false)]
    grant: Option<String>,
    /// Records of this tool.
    #[param(nullable = false)]
    tool: Option<String>,
    /// Records with this outcome.
    #[param(value_type = RecordOutcome, required = false)]
    outcome: Option<String>,
    /// Records of this kind.
    #[param(value_type = RecordKind, required = false)]
    kind: Option<String>,
    /// Records of the request with this id, or of several: ids with commas between them.
    #[param(nullable = false)]
    request: Option<String>,
    /// Records with this rule. An outcome has none; its decision has.
    #[param(nullable = false)]
    rule: Option<String>,
    /// Records of this session.
    #[param(nullable = false)]
    session: Option<String>,
    /// How many records to answer with.
    #[param(value_type = u64, required = false)]
    limit: Option<usize>,
    /// Records of this principal.
    #[param(nullable = false)]
    principal: Option<String>,
    /// Records before this place: `next` of the page before.
    #[param(nullable = false)]
    cursor: Option<String>,
    /// Records after this place, the oldest first: `newest` of an earlier answer.
    #[param(nullable = false)]
    after: Option<String>,
}

impl AuditQuery {
    /// The filters, without a place in the log.
    fn filter(&self) -> Result<Filter, Problem> {
        let kind = |text: &String| {
            let names = Kind::ALL.map(Kind::as_str);
            Kind::from_name(text).ok_or_else(|| build_choice_problem("kind", &names))
        };
        let outcome = |text: &String| {
            let names = Outcome::ALL.map(Outcome::as_str);
            Outcome::from_name(text).ok_or_else(|| build_choice_problem("outcome", &names))
        };
        let moment = |name: &str, text: &Option<String>| {
            text.as_ref().map(|text| parse_moment(name, text)).transpose()
        };
        let (since, until) = (moment("since", &self.since)?, moment("until", &self.until)?);
        if since.zip(until).is_some_and(|(since, until)| since >= until) {
            let why = "`since` must be before `until`: no record could be between them";
            return Err(Problem::request(why));
        }
        Ok(Filter {
            since,
            until,
            server: self.server.clone(),
            grant: self.grant.clone(),
            tool: self.tool.clone(),
            outcome: self.outcome.as_ref().map(outcome).transpose()?,
            principal: self.principal.clone(),
            kind: self.kind.as_ref().map(kind).transpose()?,
            rule: self.rule.clone(),
            session: self.session.clone(),
            requests: self.request.as_deref().map(parse_requests).transpose()?.unwrap_or_default(),
            ..Filter::default()
        })
    }

    /// The filters and the place: newest first, or onward from `after`.
    fn page(&self) -> Result<Filter, Problem> {
        let filter = self.filter()?;
        match (
            parse_cursor("after", self.after.as_deref())?,
            parse_cursor("cursor", self.cursor.as_deref())?,
        ) {
            (Some(_), Some(_)) => {
                Err(Problem::request("`after` goes on by itself; leave out `cursor`"))
            }
            (Some(after), None) => Ok(Filter { after: Some(after), ..filter }),
            (None, before) => Ok(Filter { before, newest_first: true, ..filter }),
        }
    }
}

/// Parses ids with commas between them.
fn parse_requests(text: &str) -> Result<Vec<Id>, Problem> {
    let ids: Option<Vec<_>> = text.split(',').map(Id::read).collect();
    let ids = ids.ok_or_else(|| {
        Problem::request("`request` must be the id of a request, or several with commas between")
    })?;
    if ids.len() > MOST_REQUESTS {
        let most = format!("`request` names at most {MOST_REQUESTS} requests at a time");
        return Err(Problem::request(most));
    }
    Ok(ids)
}

fn build_choice_problem(name: &str, words: &[&str]) -> Problem {
    let words: Vec<_> = words.iter().map(|word| format!("`{word}`")).collect();
    Problem::request(format!("`{name}` must be one of {}", words.join(", ")))
}

/// Parses a place in the log.
fn parse_cursor(name: &str, text: Option<&str>) -> Result<Option<Cursor>, Problem> {
    let read = text.map(str::parse).transpose();
    read.map_err(|error: CursorError| Problem::request(format!("`{name}`: {error}")))
}

/// Parses a time, or a span counted back from now.
fn parse_moment(name: &str, text: &str) -> Result<Timestamp, Problem> {
    match span::read(text) {
        Some(span) => Ok(span::before(clock::now(), span)),
        None => Timestamp::from_rfc3339(text).ok_or_else(|| {
            let forms = "or a time such as `2027-01-31T12:00:00Z`";
            Problem::request(format!("`{name}` must be {}, {forms}", span::EXPECTED))
        }),
    }
}

/// Read a page of the audit log
///
/// The newest records come first. To follow the log, ask again with `after` set to
/// `newest` of the answer before; then the oldest come first.
#[utoipa::path(
    get,
    path = "/audit",
    operation_id = "list_records",
    tag = "audit",
    params(AuditQuery),
    responses(
        (status = 200, description = "At most 1000 records, by default 100", body = RecordPage),
        InternalServerError,
        ServiceUnavailable,
    )
)]
pub(super) async fn list(
    State(state): State<Arc<AdminState>>,
    RequestCaller(caller): RequestCaller,
    QueryParams(question): QueryParams<AuditQuery>,
) -> Result<Response, Problem> {
    Problem::check_server(&caller, question.server.as_deref())?;
    let limit = question.limit.unwrap_or(DEFAULT_LIMIT).clamp(1, MAX_LIMIT);
    let filter = question.page()?;
    let page = state.ops.records(&filter, limit).await?;
    let newest = page.entries.iter().map(|entry| entry.cursor).max().or(filter.after);
    let media_type = [(header::CONTENT_TYPE, "application/json")];
    Ok((media_type, write_page(&page, newest.unwrap_or(Cursor::START))).into_response())
}

/// Writes a page as JSON by hand, so that the text of records is sent unchanged.
fn write_page(page: &Page, newest: Cursor) -> String {
    let records: Vec<_> = page.entries.iter().map(sluice_store::Entry::text).collect();
    let next = page.next.map_or_else(|| "null".to_owned(), |next| format!("\"{next}\""));
    format!(r#"{{"records":[{}],"next":{next},"newest":"{newest}"}}"#, records.join(","))
}

/// Export the audit log
///
/// All records that pass the filters, the oldest first, one JSON object a line.
#[utoipa::path(
    get,
    path = "/audit/export",
    operation_id = "export_records",
    tag = "audit",
    params(AuditQuery),
    responses((
        status = 200,
        description = "One `AuditRecord` a line",
        body = String,
        content_type = "application/x-ndjson"
    ))
)]
pub(super) async fn export(
    State(state): State<Arc<AdminState>>,
    RequestCaller(caller): RequestCaller,
    QueryParams(question): QueryParams<AuditQuery>,
) -> Result<Response, Problem> {
    Problem::check_server(&caller, question.server.as_deref())?;
    let (after, before) = (
        parse_cursor("after", question.after.as_deref())?,
        parse_cursor("cursor", question.cursor.as_deref())?,
    );
    let filter = Filter { after, before, ..question.filter()? };
    let export = Export { state, filter, left: question.limit.unwrap_or(usize::MAX) };
    let lines = stream::try_unfold(export, Export::read_next);
    let media_type = [(header::CONTENT_TYPE, "application/x-ndjson")];
    Ok((media_type, Body::from_stream(lines)).into_response())
}

/// A running export: the oldest records first, one page in memory at a time.
struct Export {
    state: Arc<AdminState>,
    filter: Filter,
    left: usize,
}

impl Export {
    /// Reads the next lines. A failure aborts the answer, so that no client takes it for complete.
    async fn read_next(mut self) -> io::Result<Option<(String, Export)>> {
        if self.left == 0 {
            return Ok(None);
        }
        let limit = self.left.min(MAX_LIMIT);
        let page = self.state.ops.records(&self.filter, limit).await;
        let page = page.map_err(|error| {
            tracing::warn!(%error, "an export of the audit log was cut short");
            io::Error::other("the log cannot be read")
        })?;
        if page.entries.is_empty() {
            return Ok(None);
        }
        self.left = if page.next.is_some() { self.left - limit } else { 0 };
        self.filter.after = page.next;
        let mut lines = String::new();
        for entry in &page.entries {
            lines.push_str(&entry.text());
            lines.push('\n');
        }
        Ok(Some((lines, self)))
    }
}
