//! A browser as far as a sign-in needs one: it follows redirects and keeps cookies.

use std::collections::BTreeMap;

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use url::Url;

use crate::provider::REDIRECT_URI;

#[derive(Debug, Default)]
pub(crate) struct Browser {
    cookies: BTreeMap<String, String>,
}

impl Browser {
    /// Follows redirects until one leads back to the gateway, and returns its query.
    pub(crate) async fn follow(&mut self, start: &str) -> String {
        let mut url = Url::parse(start).unwrap();
        for _ in 0..10 {
            let answer = self.get(&url).await;
            let location = header(&answer, "location").next();
            let location = location.unwrap_or_else(|| panic!("{url} does not redirect: {answer}"));
            url = url.join(location).unwrap();
            if url.as_str().starts_with(REDIRECT_URI) {
                return url.query().unwrap_or_default().to_owned();
            }
        }
        panic!("the provider redirects without end, last to {url}");
    }

    async fn get(&mut self, url: &Url) -> String {
        let cookies: Vec<_> =
            self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let (host, port) = (url.host_str().unwrap(), url.port().unwrap());
        let target = &url[url::Position::BeforePath..];
        let request = format!(
            "GET {target} HTTP/1.1\r\nhost: {host}:{port}\r\ncookie: {}\r\nconnection: close\r\n\r\n",
            cookies.join("; ")
        );
        let mut stream = TcpStream::connect((host, port)).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        for cookie in header(&answer, "set-cookie") {
            let pair = cookie.split(';').next().unwrap_or_default();
            let (name, value) = pair.split_once('=').unwrap();
            self.cookies.insert(name.into(), value.into());
        }
        answer
    }
}

fn header<'a>(answer: &'a str, name: &'a str) -> impl Iterator<Item = &'a str> {
    let head = answer.split("\r\n\r\n").next().unwrap_or_default();
    head.lines().filter_map(move |line| {
        let (key, value) = line.split_once(": ")?;
        key.eq_ignore_ascii_case(name).then_some(value)
    })
}
