//! The admin listener: its routes, and serving them.

mod access;
mod approvals;
mod assessment;
mod audit;
mod catalog;
mod events;
pub(crate) mod extract;
mod grants;
mod health;
mod listen;
mod openapi;
mod paging;
mod people;
mod policies;
mod problem;
mod servers;
pub(crate) mod session;
mod tokens;

use std::{
    fmt,
    path::PathBuf,
    sync::{Arc, LazyLock},
};

use axum::{
    Extension, Router,
    body::{Body, Bytes},
    extract::DefaultBodyLimit,
    middleware,
    response::{IntoResponse as _, Response},
    routing::get,
};
use sluice_listener::AllowedCallers;
use sluice_store::{Secret, Store, TokenHash};
use tokio::net::TcpListener;
use tower::Service as _;
use utoipa_axum::{
    router::{OpenApiRouter, UtoipaMethodRouterExt as _},
    routes,
};

pub use assessment::AssessedTool;
pub(crate) use problem::Problem;

use crate::{
    auth::{self, Auth},
    live::Live,
    ops::Ops,
    pages,
};

/// The largest request body in bytes: the longest policy, and some more.
const LARGEST_BODY: usize = (1 << 20) + (64 << 10);

/// Settings of the admin listener.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Host names under which it may be called, and origins of pages that may call it.
    pub callers: AllowedCallers,
    /// Whether metrics need no token.
    pub are_metrics_open: bool,
    /// The file of the catalogue, which is created if it does not exist.
    pub catalog: PathBuf,
}

/// The API over one running gateway.
pub struct Api(Arc<AdminState>);

/// The state that all handlers share.
pub(crate) struct AdminState {
    pub(crate) ops: Ops,
    pub(crate) auth: Auth,
    pub(crate) settings: Settings,
}

impl fmt::Debug for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Api").field(&self.0.settings).finish()
    }
}

impl Api {
    /// Creates the API over a gateway and its store, for holders of the admin token.
    #[expect(clippy::needless_pass_by_value, reason = "only the token's hash is kept")]
    pub fn new(live: Arc<impl Live>, store: Store, admin_token: Secret, settings: Settings) -> Api {
        Api(Arc::new(AdminState {
            ops: Ops::new(live, store, settings.catalog.clone()),
            auth: Auth::new(TokenHash::of(admin_token.expose())),
            settings,
        }))
    }

    /// Answers requests until `end` is ready; then lets pending requests finish.
    pub async fn serve(
        self,
        listener: TcpListener,
        end: impl Future<Output = ()> + Send + 'static,
    ) {
        let state = Arc::clone(&self.0);
        // Describing the API takes memory that a gateway without visitors never needs.
        let router = LazyLock::new(move || self.router());
        let ending = Arc::clone(&state);
        let end = async move {
            end.await;
            // Streams would go on until they are cut.
            ending.ops.events().end();
        };
        tokio::select! {
            () = listen::serve(&router, listener, end) => {}
            never = auth::sweep_failures(&state.auth.failures, state.ops.store()) => match never {},
        }
        auth::record_failures(state.ops.store(), state.auth.failures.finish());
    }

    /// The path of a new link that signs in the owner of the data directory, once and from this
    /// machine; `None` if the system provides no randomness.
    pub fn issue_sign_in_link(&self) -> Option<String> {
        session::build_link(&self.0)
    }

    /// Answers one request in process.
    pub async fn answer(&self, request: axum::http::Request<Bytes>) -> Response {
        let mut router = Api(Arc::clone(&self.0)).router();
        let answered = router.call(request.map(Body::from)).await;
        answered.unwrap_or_else(|never| match never {})
    }

    /// Returns the API as a service, for calls in process.
    pub fn router(self) -> Router {
        let Api(state) = self;
        let permitted =
            middleware::from_fn_with_state(Arc::clone(&state), auth::require_permission);
        let callers =
            middleware::from_fn_with_state(Arc::clone(&state), auth::check_host_and_origin);
        let for_metrics = middleware::from_fn_with_state(
            Arc::clone(&state),
            auth::require_permission_for_metrics,
        );
        // Signing in is the one request of the API that needs nobody to be signed in.
        let routes = add_fallbacks(build_routes())
            .layer(permitted)
            .merge(OpenApiRouter::default().routes(routes!(session::sign_in)));
        let (described, mut document) = OpenApiRouter::with_openapi(openapi::describe_api())
            .nest("/api/v1", routes)
            .routes(routes!(health::check_liveness))
            .routes(routes!(health::check_readiness))
            .routes(routes!(health::read_metrics).layer(for_metrics))
            .split_for_parts();
        openapi::add_access_control(&mut document);
        described
            .route("/approvals/{id}", get(health::show_approval))
            .merge(pages::build_routes())
            .fallback(answer_no_such_path)
            .method_not_allowed_fallback(answer_method_not_allowed)
            .layer(DefaultBodyLimit::max(LARGEST_BODY))
            .layer(callers)
            .layer(middleware::map_response(add_security_headers))
            .layer(Extension(Arc::new(document)))
            .with_state(state)
    }
}

/// The routes under `/api/v1`. `routes!` accepts only handlers with an OpenAPI description, so the
/// OpenAPI document is complete.
fn build_routes() -> OpenApiRouter<Arc<AdminState>> {
    OpenApiRouter::default()
        .routes(routes!(servers::list, servers::add))
        .routes(routes!(servers::show, servers::edit, servers::remove))
        .routes(routes!(servers::list_tools))
        .routes(routes!(servers::refresh))
        .routes(routes!(policies::list))
        .routes(routes!(policies::show, policies::put, policies::remove))
        .routes(routes!(policies::list_versions))
        .routes(routes!(policies::check))
        .routes(routes!(policies::suggest))
        .routes(routes!(policies::explain::explain))
        .routes(routes!(grants::list, grants::create))
        .routes(routes!(grants::show, grants::edit, grants::revoke))
        .routes(routes!(grants::rotate))
        .routes(routes!(access::show_grant))
        .routes(routes!(access::list))
        .routes(routes!(approvals::list))
        .routes(routes!(audit::list))
        .routes(routes!(audit::export))
        .routes(routes!(audit::verification::verify))
        .routes(routes!(audit::verification::compare_heads))
        .routes(routes!(events::stream))
        .routes(routes!(catalog::list))
        .routes(routes!(catalog::show_server))
        .routes(routes!(catalog::show_tool))
        .routes(routes!(health::show_status))
        .routes(routes!(session::show, session::sign_out))
        .routes(routes!(session::change_password))
        .routes(routes!(session::create_link))
        .routes(routes!(people::list, people::invite))
        .routes(routes!(people::show, people::edit, people::remove))
        .routes(routes!(people::invite_again))
        .routes(routes!(tokens::list, tokens::create))
        .routes(routes!(tokens::revoke))
        .routes(routes!(openapi::show))
}

/// Adds the answers for unknown paths and methods.
fn add_fallbacks(router: OpenApiRouter<Arc<AdminState>>) -> OpenApiRouter<Arc<AdminState>> {
    let (inner, document) = router.split_for_parts();
    let inner =
        inner.fallback(answer_no_such_path).method_not_allowed_fallback(answer_method_not_allowed);
    let mut described = OpenApiRouter::from(inner);
    *described.get_openapi_mut() = document;
    described
}

async fn answer_no_such_path() -> Problem {
    Problem::no_such_path()
}

async fn answer_method_not_allowed() -> Problem {
    Problem::not_allowed()
}

/// Adds headers that forbid caching, framing and content sniffing.
async fn add_security_headers(response: Response) -> Response {
    let headers = [
        ("cache-control", "no-store"),
        (
            "content-security-policy",
            "default-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
        ),
        // Not `no-referrer`: browsers then send forms with `Origin: null`.
        ("referrer-policy", "same-origin"),
        ("x-content-type-options", "nosniff"),
    ];
    (headers, response).into_response()
}

/// Runs a write to completion even if the client disconnects meanwhile, so that no
/// change is stored without being applied.
pub(crate) async fn run_to_completion<T: Send + 'static>(
    work: impl Future<Output = Result<T, crate::ops::Refused>> + Send + 'static,
) -> Result<T, Problem> {
    match tokio::spawn(work).await {
        Ok(done) => Ok(done?),
        Err(_) => Err(crate::ops::Refused::Lost.into()),
    }
}
