//! The API over a data directory without a running gateway, such as one that only wraps
//! use: it runs in this process, on the store alone.

use std::{path::Path, sync::Arc};

use bytes::Bytes;
use http::{HeaderValue, Request, Response, header};
use http_body_util::BodyExt as _;
use sluice_admin::{
    Api, Eventual, FileProblem, HeadExport, InForce, Live, Running, Settings, TakeError, Tool,
};
use sluice_http::{AnswerBody, BodyError};
use sluice_listener::AllowedCallers;
use sluice_store::{Grant, Name, Secret, Store, TokenHash};

use crate::data::{catalog_file, read_master_key};

/// The URL and the token of the API; both are used inside this process only.
pub(super) const URL: &str = "http://localhost";
const HOST: &str = "localhost";
const TOKEN: &str = "in-process";

/// The stored data of a data directory.
pub(super) struct Offline {
    api: Api,
}

impl Offline {
    /// `None` if the directory has no recorded data.
    pub(super) fn open(directory: &Path) -> anyhow::Result<Option<Offline>> {
        if !Store::exists(directory) {
            return Ok(None);
        }
        sluice_config::private::check(directory)?;
        let key = read_master_key(directory)?;
        let store = Store::open_read_only(directory, key.as_ref())?;
        let settings = Settings {
            callers: AllowedCallers::new([HOST], [""; 0])?,
            are_metrics_open: false,
            catalog: catalog_file(directory),
        };
        let token = Secret::new(TOKEN.into());
        Ok(Some(Offline { api: Api::new(Arc::new(Nobody), store, token, settings) }))
    }

    pub(super) async fn answer(&self, request: Request<Bytes>) -> Response<AnswerBody> {
        let mut request = request;
        request
            .headers_mut()
            .insert(header::AUTHORIZATION, HeaderValue::from_static("Bearer in-process"));
        let answer = self.api.answer(request).await;
        answer.map(|body| {
            AnswerBody::Made(body.map_err(|error| BodyError(error.to_string())).boxed_unsync())
        })
    }
}

/// Stands in for the gateway: no configuration is active.
struct Nobody;

impl Live for Nobody {
    fn in_force(&self) -> Arc<InForce> {
        Arc::default()
    }

    fn take_stored(&self) -> Eventual<'_, Result<(), TakeError>> {
        Box::pin(async { Err(TakeError("no gateway is running".into())) })
    }

    fn set_grant(&self, _: &TokenHash, _: Option<&Grant>) {}

    fn store_uses(&self) -> Eventual<'_, ()> {
        Box::pin(async {})
    }

    fn problems(&self) -> Vec<FileProblem> {
        Vec::new()
    }

    fn running(&self) -> Option<Running> {
        None
    }

    fn tools<'a>(&'a self, _: &'a Name, _: bool) -> Eventual<'a, Result<Vec<Tool>, String>> {
        Box::pin(async { Err("no gateway is running".into()) })
    }

    fn check_address<'a>(&'a self, _: &'a Secret) -> Eventual<'a, Result<(), String>> {
        Box::pin(async { Ok(()) })
    }

    fn head_exports(&self) -> Vec<HeadExport> {
        Vec::new()
    }

    fn metrics(&self) -> String {
        String::new()
    }
}
