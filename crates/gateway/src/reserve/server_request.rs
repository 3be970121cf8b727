//! Decisions on requests of a server to its client: sampling, elicitation, roots.

use sluice_policy::AccessDenial;
use sluice_store::{Outcome, Record};

use super::{denial_message, deny, describe_decision, new_record, shorten, shorten_method, write};
use crate::{exchange::Exchange, refusal::Refusal};

/// What a server asks of its client, without the server's secrets.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) method: String,
    /// The URL that a person is sent to, without its query.
    pub(crate) target: Option<String>,
}

/// Records that a request of the server is passed on to its client.
pub(crate) async fn allow_server_request(
    exchange: &Exchange,
    asked: &Asked,
) -> Result<(), Refusal> {
    let mut record = record_request(exchange, asked);
    record.outcome = Some(Outcome::Allow);
    write(exchange, record).await
}

/// Records that the policy denies a request of the server to its client. `Ok` in shadow
/// mode, in which the request is passed on anyway.
pub(crate) async fn deny_server_request(
    exchange: &Exchange,
    asked: &Asked,
    denial: AccessDenial,
) -> Result<(), Refusal> {
    let mut record = record_request(exchange, asked);
    let message = denial_message(&asked.method);
    let in_shadow = denial.in_shadow;
    deny(&mut record, denial, &message);
    let rule = record.rule.as_deref().unwrap_or_default();
    let decision = describe_decision(&record, Outcome::Deny, rule, &[]);
    write(exchange, record).await?;
    if in_shadow { Ok(()) } else { Err(Refusal::Denied { message, decision }) }
}

fn record_request(exchange: &Exchange, asked: &Asked) -> Box<Record> {
    let mut record = new_record(exchange, shorten_method(&asked.method));
    let is_shortened = record.method.as_deref() != Some(&asked.method);
    let target = if is_shortened { Some(&asked.method) } else { asked.target.as_ref() };
    record.target = target.map(|target| shorten(target, 256).into_owned());
    record
}
