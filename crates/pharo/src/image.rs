//! The HTTP client for an image's port, with a time limit per request.

use std::{net::IpAddr, time::Duration};

use bytes::Bytes;
use http::{HeaderValue, Request, StatusCode, header::USER_AGENT};
use sluice_builtin::Progress;
use sluice_http::{CollectError, HttpUpstream, SendError, address::Reach, collect};
use tokio::time::{Instant, interval_at};

use crate::options::{Options, OptionsError};

/// The longest answer that is read.
const LONGEST_ANSWER: usize = 64 << 20;
/// How often progress is reported to a caller that has asked for it.
const REPORT_EVERY: Duration = Duration::from_secs(1);

/// Networks in which an image may run; the operator configures its host. Link-local addresses,
/// where clouds serve credentials, are not included.
const PRIVATE: [&str; 5] =
    ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7"];

/// The address of an image, and connections to it.
#[derive(Debug)]
pub(crate) struct Image {
    http: HttpUpstream,
    url: String,
    timeout: Duration,
    is_here: bool,
}

/// The answer of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) body: Bytes,
}

/// Why there is no answer. The texts start like the original's, because clients may look for them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoAnswer {
    #[error(
        "Connection error: {why} at {url}. Is the image running, and its interop server in it? \
         In Pharo, `SisServer current start` starts it. Another port is named by `--port`, by \
         PHARO_SIS_PORT, or by the option `port`"
    )]
    Unreachable { url: String, why: String },
    #[error("Connection error: {url} broke off: {why}. The image may have done what it was asked")]
    Lost { url: String, why: String },
    #[error(
        "Connection error: timed out: no answer from {url} within {seconds} s. \
         The image goes on with what it was asked. `--timeout`, or the option `timeout`, allows more"
    )]
    TimedOut { url: String, seconds: u64 },
    #[error("Connection error: the answer of {url} is longer than {LONGEST_ANSWER} bytes")]
    TooLong { url: String },
}

impl Image {
    pub(crate) fn new(options: &Options) -> Result<Image, OptionsError> {
        let url = options.url();
        if !is_host(&options.host) {
            return Err(OptionsError::Host(options.host.clone()));
        }
        let allowed = PRIVATE.iter().filter_map(|range| range.parse().ok()).collect();
        let reach = Reach { allowed, loopback: true };
        let http = HttpUpstream::new(&format!("{url}/"), reach)
            .map_err(|_| OptionsError::Host(options.host.clone()))?;
        Ok(Image { http, url, timeout: options.timeout, is_here: is_here(&options.host) })
    }

    /// Whether the image runs on this machine, and so shares its files.
    pub(crate) fn is_here(&self) -> bool {
        self.is_here
    }

    /// Sends a request and waits for the whole answer. Dropping the future closes the connection.
    pub(crate) async fn ask(
        &self,
        request: Request<Bytes>,
        progress: &Progress,
    ) -> Result<Answer, NoAnswer> {
        let asking = async {
            let asked = tokio::time::timeout(self.timeout, self.exchange(request)).await;
            asked.unwrap_or_else(|_| {
                Err(NoAnswer::TimedOut { url: self.url.clone(), seconds: self.timeout.as_secs() })
            })
        };
        if !progress.is_wanted() {
            return asking.await;
        }
        tokio::pin!(asking);
        let total = self.timeout.as_secs();
        let mut ticks = interval_at(Instant::now() + REPORT_EVERY, REPORT_EVERY);
        let mut seconds = 0;
        loop {
            tokio::select! {
                biased;
                asked = &mut asking => return asked,
                _ = ticks.tick() => {
                    seconds += REPORT_EVERY.as_secs();
                    let message = format!("the image has been at it for {seconds} s");
                    progress.report(seconds, total, &message);
                }
            }
        }
    }

    async fn exchange(&self, mut request: Request<Bytes>) -> Result<Answer, NoAnswer> {
        let agent = HeaderValue::from_static(concat!("sluice/", env!("CARGO_PKG_VERSION")));
        request.headers_mut().insert(USER_AGENT, agent);
        let place = request.uri().clone();
        let answer =
            self.http.send_to(&place, &request).await.map_err(|error| self.no_answer(error))?;
        let status = answer.status();
        match collect(answer.into_body(), LONGEST_ANSWER).await {
            Ok(body) => Ok(Answer { status, body: body.into() }),
            Err(CollectError::TooLong(_)) => Err(NoAnswer::TooLong { url: self.url.clone() }),
            Err(CollectError::Lost(error)) => {
                Err(self.no_answer(SendError::Lost(error.to_string())))
            }
        }
    }

    fn no_answer(&self, error: SendError) -> NoAnswer {
        let url = self.url.clone();
        match error {
            SendError::NotSent(why) | SendError::NotStarted(why) => {
                NoAnswer::Unreachable { url, why }
            }
            SendError::Lost(why) | SendError::BadAnswer(why) => NoAnswer::Lost { url, why },
        }
    }
}

/// Whether a text is a host name or an address, and contains nothing that would end the host part
/// of a URL.
fn is_host(host: &str) -> bool {
    host.parse::<IpAddr>().is_ok() || url::Host::parse(host).is_ok()
}

fn is_here(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let is_loopback = |address: IpAddr| address.to_canonical().is_loopback();
    bare.eq_ignore_ascii_case("localhost") || bare.parse().is_ok_and(is_loopback)
}

#[cfg(test)]
mod tests {
    use super::{Image, is_here};
    use crate::Options;

    #[test]
    fn only_a_loopback_image_is_on_this_machine() {
        for host in ["localhost", "LocalHost", "127.0.0.1", "127.1.2.3", "::1", "[::1]"] {
            assert!(is_here(host), "{host}");
        }
        for host in ["example.com", "192.168.1.7", "localhost.example.com", "::2"] {
            assert!(!is_here(host), "{host}");
        }
    }

    #[test]
    fn only_host_names_and_addresses_are_hosts() {
        let new = |host: &str| Image::new(&Options { host: host.into(), ..Options::default() });
        for host in ["localhost", "::1", "image.example.com"] {
            assert!(new(host).is_ok(), "{host}");
        }
        for host in ["a b", "user@host", "a/b", "a?b"] {
            assert!(new(host).is_err(), "{host}");
        }
    }
}
