//! The secrets of one server, and their removal from what the server writes: from texts
//! for operators (log lines, audit records, errors), and from its answers as they stream.
//!
//! A secret is found as it is, and percent-encoded, in base64 and escaped in JSON
//! (`secrets/forms.rs`). All occurrences are found in one pass, also where they overlap
//! or straddle chunks. A server that transforms its secrets in other ways on purpose is
//! not stopped by this.

mod forms;
mod matcher;
mod stream;

use std::{
    borrow::Cow,
    collections::BTreeSet,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use data_encoding::BASE64;

use self::{forms::forms, matcher::Matcher};
use crate::arguments;

pub use stream::MaskedStream;

/// Replaces a secret in what a server writes.
pub const MARK: &str = "[secret]";
/// Replaces a secret that could be part of a JSON number, so that it stays one.
const NUMBER_MARK: &str = "11111111";
/// Shorter secrets are not searched for in answers: they could be ordinary words, and
/// removing those would garble the answers.
const SHORTEST_IN_ANSWER: usize = 8;
/// The same for texts for operators, which may be garbled more.
const SHORTEST_IN_TEXT: usize = 4;

/// Collects the secrets of one server from its definition.
#[derive(Default)]
pub struct KnownSecrets {
    certain: BTreeSet<String>,
    /// Texts that may be secrets, and may be ordinary words.
    possible: BTreeSet<String>,
}

impl fmt::Debug for KnownSecrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KnownSecrets(…)")
    }
}

impl KnownSecrets {
    /// A text that is secret as a whole.
    pub fn add(&mut self, secret: &str) {
        let secret = secret.trim();
        if secret.len() >= SHORTEST_IN_TEXT {
            self.certain.insert(secret.to_owned());
        }
    }

    /// A text that may be secret. It is removed only from texts for operators.
    pub fn add_possible(&mut self, secret: &str) {
        let secret = secret.trim();
        if secret.len() >= SHORTEST_IN_TEXT {
            self.possible.insert(secret.to_owned());
        }
    }

    /// The value of a header: the part after `Bearer ` or another scheme if there is one,
    /// of `Basic` also the password, of cookies each value.
    pub fn add_header(&mut self, name: &str, value: &str) {
        if name.eq_ignore_ascii_case("cookie") {
            for (_, value) in value.split(';').filter_map(|pair| pair.split_once('=')) {
                self.add(value);
            }
            return;
        }
        let Some((scheme, credential)) = value.trim().split_once(' ') else {
            return self.add(value);
        };
        if !scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
            return self.add(value);
        }
        self.add(credential);
        let decoded = BASE64.decode(credential.trim().as_bytes()).ok();
        let decoded = decoded.and_then(|bytes| String::from_utf8(bytes).ok());
        if scheme.eq_ignore_ascii_case("basic")
            && let Some((_, password)) = decoded.as_deref().and_then(|pair| pair.split_once(':'))
        {
            self.add(password);
        }
    }

    /// A variable of a command's environment. Its value is a secret if it was looked up as
    /// one, or if it or its name looks like one; of a URL, the parts that are secret.
    pub fn add_variable(&mut self, name: &str, value: &str, was_looked_up: bool) {
        let is_named_so = arguments::sounds_secret(name) && !value.starts_with('/');
        if was_looked_up || is_named_so || arguments::is_like_a_key(value) {
            self.add(value);
        }
        if value.contains("://") {
            self.add_url(value);
        }
    }

    /// The secrets in a command's arguments.
    pub fn add_command(&mut self, command: &[String]) {
        for secret in arguments::secrets(command) {
            self.add(&secret);
        }
    }

    /// The user, the password and the values in the query of a URL, and segments of its
    /// path that look like a key.
    pub fn add_url(&mut self, url: &str) {
        let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
        let rest = rest.split('#').next().unwrap_or_default();
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = place.split_once('/').unwrap_or((place, ""));
        let user = authority.rsplit_once('@').map_or("", |(user, _)| user);
        let keys = path.split('/').filter(|part| arguments::is_like_a_path_key(part));
        let values =
            query.split('&').map(|pair| pair.split_once('=').map_or(pair, |(_, value)| value));
        for part in user.split(':').chain(keys).chain(values) {
            self.add(part);
            self.add(&forms::percent_decoded(part));
        }
    }

    /// The same of the URL of a server, where other segments of the path may be secrets too.
    pub fn add_server_url(&mut self, url: &str) {
        self.add_url(url);
        let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
        let place = rest.split(['?', '#']).next().unwrap_or_default();
        for part in place.split('/').skip(1).filter(|part| part.len() >= SHORTEST_IN_ANSWER) {
            self.add_possible(part);
            self.add_possible(&forms::percent_decoded(part));
        }
    }

    /// Prepares the search.
    pub fn build(self) -> Secrets {
        let matcher = |secrets: &mut dyn Iterator<Item = &String>, shortest: usize| {
            Matcher::new(&secrets.flat_map(|secret| forms(secret, shortest)).collect())
                .map(Arc::new)
        };
        let is_long = |secret: &&String| secret.len() >= SHORTEST_IN_ANSWER;
        let answers = matcher(&mut self.certain.iter().filter(is_long), SHORTEST_IN_ANSWER);
        let texts =
            if self.possible.is_empty() && self.certain.iter().all(|secret| is_long(&secret)) {
                answers.clone()
            } else {
                matcher(&mut self.certain.iter().chain(&self.possible), SHORTEST_IN_TEXT)
            };
        Secrets { texts, answers, masked: Arc::default() }
    }
}

/// The secrets of one server, to be removed from what it writes; clones share the count.
#[derive(Clone, Default)]
pub struct Secrets {
    /// `None` if there are none.
    texts: Option<Arc<Matcher>>,
    answers: Option<Arc<Matcher>>,
    /// How many were removed from answers.
    masked: Arc<AtomicU64>,
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secrets(…)")
    }
}

impl Secrets {
    /// Whether there is nothing to remove from any text.
    pub fn is_empty(&self) -> bool {
        self.texts.is_none()
    }

    /// A text without the secrets in it.
    pub fn mask<'t>(&self, text: &'t str) -> Cow<'t, str> {
        match &self.texts {
            Some(matcher) => mask_with(MaskedStream::new(Arc::clone(matcher), None), text, false),
            None => Cow::Borrowed(text),
        }
    }

    /// The same for a text that may have been cut at its end, in the middle of a secret.
    pub fn mask_cut<'t>(&self, text: &'t str) -> Cow<'t, str> {
        match &self.texts {
            Some(matcher) => mask_with(MaskedStream::new(Arc::clone(matcher), None), text, true),
            None => Cow::Borrowed(text),
        }
    }

    /// Removes the secrets from an answer that arrives in chunks; `None` if there are none
    /// to remove.
    pub fn answer(&self) -> Option<MaskedStream> {
        let matcher = self.answers.as_ref()?;
        Some(MaskedStream::new(Arc::clone(matcher), Some(Arc::clone(&self.masked))))
    }

    /// Removes them from other output that arrives in chunks, in which ordinary words must
    /// stay too; `None` if there are none to remove.
    pub fn output(&self) -> Option<MaskedStream> {
        Some(MaskedStream::new(Arc::clone(self.answers.as_ref()?), None))
    }

    /// How many secrets were removed from answers.
    pub fn count_masked(&self) -> u64 {
        self.masked.load(Ordering::Relaxed)
    }
}

fn mask_with(mut stream: MaskedStream, text: &str, is_cut: bool) -> Cow<'_, str> {
    let Some(mut bytes) = stream.push(text.as_bytes()) else {
        return Cow::Borrowed(text);
    };
    let rest = stream.finish();
    if is_cut && rest.len() >= SHORTEST_IN_TEXT {
        bytes.extend_from_slice(MARK.as_bytes());
    } else {
        bytes.extend_from_slice(&rest);
    }
    // Secrets are whole texts and so is the mark, but escaped forms may begin within a
    // character.
    Cow::Owned(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests;
