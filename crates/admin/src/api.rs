//! The people's plane: which path leads where, and serving it.

mod approvals;
mod assessment;
mod audit;
mod catalog;
mod extract;
mod grants;
mod health;
mod listen;
mod policies;
mod problem;
mod servers;

use std::{fmt, path::PathBuf, sync::Arc};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::DefaultBodyLimit,
    handler::Handler as _,
    middleware,
    response::{IntoResponse as _, Response},
    routing::{get, post},
};
use sluice_listener::AllowedCallers;
use sluice_store::{Secret, Store, TokenHash};
use tokio::net::TcpListener;
use tower::Service as _;

pub use assessment::AssessedTool;
pub(crate) use problem::Problem;

use crate::{auth, failures::Failures, live::Live, ops::Ops};

/// Bytes of a request's body: the longest policy there can be, and a bit.
const LARGEST_BODY: usize = (1 << 20) + (64 << 10);

/// Settings of the people's plane.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Hosts that it may be called by, and origins of pages that may call it.
    pub callers: AllowedCallers,
    /// Whether only this machine can connect, so that metrics need no token.
    pub is_loopback: bool,
    /// The file of the catalogue, which is made if it is not there.
    pub catalog: PathBuf,
}

/// The API over one running gateway.
pub struct Api(Arc<Plane>);

/// What every request is answered with.
pub(crate) struct Plane {
    pub(crate) ops: Ops,
    pub(crate) admin: TokenHash,
    pub(crate) settings: Settings,
    pub(crate) failures: Failures,
}

impl fmt::Debug for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Api").field(&self.0.settings).finish()
    }
}

impl Api {
    /// The API over a gateway and its store, for whoever has the admin token.
    #[expect(clippy::needless_pass_by_value, reason = "only the token's hash is kept")]
    pub fn new(live: Arc<impl Live>, store: Store, admin_token: Secret, settings: Settings) -> Api {
        Api(Arc::new(Plane {
            ops: Ops::new(live, store, settings.catalog.clone()),
            admin: TokenHash::of(admin_token.expose()),
            settings,
            failures: Failures::default(),
        }))
    }

    /// Answers requests until `end` comes; then lets those under way finish.
    pub async fn serve(
        self,
        listener: TcpListener,
        end: impl Future<Output = ()> + Send + 'static,
    ) {
        let plane = Arc::clone(&self.0);
        listen::serve(self.router(), listener, end).await;
        plane.failures.finish(plane.ops.store());
    }

    /// Answers one request in process.
    pub async fn answer(&self, request: axum::http::Request<Bytes>) -> Response {
        let mut router = Api(Arc::clone(&self.0)).router();
        let answered = router.call(request.map(Body::from)).await;
        answered.unwrap_or_else(|never| match never {})
    }

    /// The same as a service, for calling it in process.
    pub fn router(self) -> Router {
        let Api(plane) = self;
        let authenticated = middleware::from_fn_with_state(Arc::clone(&plane), auth::require_token);
        let names = middleware::from_fn_with_state(Arc::clone(&plane), auth::check_names);
        let api = routes().layer(authenticated);
        Router::new()
            .nest("/api/v1", api)
            .route("/", get(health::home))
            .route("/healthz", get(health::alive))
            .route("/readyz", get(health::ready))
            .route(
                "/metrics",
                get(health::metrics.layer(middleware::from_fn_with_state(
                    Arc::clone(&plane),
                    auth::require_token_from_afar,
                ))),
            )
            .fallback(not_found)
            .method_not_allowed_fallback(not_allowed)
            .layer(DefaultBodyLimit::max(LARGEST_BODY))
            .layer(names)
            .layer(middleware::map_response(guarded))
            .with_state(plane)
    }
}

fn routes() -> Router<Arc<Plane>> {
    let policy = get(policies::show).put(policies::put).delete(policies::remove);
    Router::new()
        .route("/servers", get(servers::list).post(servers::add))
        .route("/servers/{name}", get(servers::show).delete(servers::remove))
        .route("/servers/{name}/tools", get(servers::tools))
        .route("/servers/{name}/refresh", post(servers::refresh))
        .route("/servers/{name}/policies", get(policies::list))
        .route("/servers/{name}/policies/{policy}", policy)
        .route("/servers/{name}/policies/{policy}/versions", get(policies::versions))
        .route("/policies/check", post(policies::check))
        .route("/policies/suggest", post(policies::suggest))
        .route("/grants", get(grants::list).post(grants::create))
        .route("/grants/{id}", get(grants::show).delete(grants::revoke))
        .route("/grants/{id}/rotate", post(grants::rotate))
        .route("/approvals", get(approvals::list))
        .route("/audit", get(audit::list))
        .route("/audit/export", get(audit::export))
        .route("/audit/verify", post(audit::verify))
        .route("/catalog/servers", get(catalog::list))
        .route("/catalog/servers/{slug}", get(catalog::server))
        .route("/catalog/servers/{slug}/tools/{tool}", get(catalog::tool))
        .route("/status", get(health::status))
        .fallback(not_found)
        .method_not_allowed_fallback(not_allowed)
}

async fn not_found() -> Problem {
    Problem::no_such_path()
}

async fn not_allowed() -> Problem {
    Problem::not_allowed()
}

/// Keeps answers out of caches, and browsers from doing anything clever with them.
async fn guarded(response: Response) -> Response {
    let headers = [
        ("cache-control", "no-store"),
        ("content-security-policy", "default-src 'self'; frame-ancestors 'none'"),
        ("referrer-policy", "no-referrer"),
        ("x-content-type-options", "nosniff"),
    ];
    (headers, response).into_response()
}

/// Carries a write to its end even if whoever asked for it goes away meanwhile: a
/// change that is stored and not in force would be neither.
async fn whole<T: Send + 'static>(
    work: impl Future<Output = Result<T, crate::ops::Refused>> + Send + 'static,
) -> Result<T, Problem> {
    match tokio::spawn(work).await {
        Ok(done) => Ok(done?),
        Err(_) => Err(crate::ops::Refused::Lost.into()),
    }
}
