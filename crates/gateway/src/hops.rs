//! The gateways that a request came through. A server's URL may lead back to this gateway;
//! without this, one call would be sent round for ever, with the gateway's own requests besides.
//!
//! Each request to a server names the gateways in a header, this one last; each command has them
//! in a variable of its environment, for a `sluice wrap` that it may start. A request that names
//! this gateway already is refused. A client can make its own requests be refused, and nothing
//! else.

use std::ffi::OsString;

use http::{HeaderMap, HeaderName, HeaderValue, header::Entry};
use sluice_policy::Timestamp;
use sluice_store::new_id;

use crate::refusal::Refusal;

pub(crate) const HOPS: HeaderName = HeaderName::from_static("sluicegate-hops");
/// The same for commands.
const VARIABLE: &str = "SLUICE_HOPS";
/// Gateways that a request may come through.
const MOST_HOPS: usize = 8;
/// The length of one id.
const ID: usize = 26;

/// This gateway's place among the gateways that requests come through.
#[derive(Debug, Clone)]
pub struct Hops {
    own: String,
    /// The gateways that this process was started through, and this one.
    all: HeaderValue,
}

impl Hops {
    /// A new id for this process. `inherited` is what the variable of the environment says.
    pub fn new(now: Timestamp, inherited: Option<&str>) -> Hops {
        let own = new_id(now).to_string();
        let before = inherited.filter(|text| read(text).is_some_and(|ids| ids.len() < MOST_HOPS));
        let all = before.map_or_else(|| own.clone(), |before| format!("{before},{own}"));
        // Ids are letters and digits.
        let all = HeaderValue::try_from(all).unwrap_or(HeaderValue::from_static(""));
        Hops { own, all }
    }

    /// The variable for commands.
    pub fn variable(&self) -> (OsString, OsString) {
        (VARIABLE.into(), self.all.to_str().unwrap_or_default().into())
    }

    /// The name of that variable.
    pub fn variable_name() -> &'static str {
        VARIABLE
    }

    /// Refuses a request that came through this gateway already, or through too many.
    pub(crate) fn check(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let Some(value) = headers.get(HOPS) else { return Ok(()) };
        match value.to_str().ok().and_then(read) {
            Some(ids) if ids.contains(&&*self.own) || ids.len() >= MOST_HOPS => Err(Refusal::Loop),
            Some(_) => Ok(()),
            None => Err(Refusal::Request(format!("header `{HOPS}` is malformed"))),
        }
    }

    /// Adds this gateway to the headers of a request to a server.
    pub(crate) fn add_to(&self, headers: &mut HeaderMap) {
        match headers.entry(HOPS) {
            Entry::Vacant(place) => {
                place.insert(self.all.clone());
            }
            Entry::Occupied(mut place) => {
                let both = [place.get().as_bytes(), self.all.as_bytes()].join(&b","[..]);
                if let Ok(both) = HeaderValue::try_from(both) {
                    place.insert(both);
                }
            }
        }
    }
}

/// The ids in a list.
fn read(text: &str) -> Option<Vec<&str>> {
    let ids: Vec<_> = text.split(',').take(2 * MOST_HOPS).map(str::trim).collect();
    let is_id = |id: &&str| id.len() == ID && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
    ids.iter().all(is_id).then_some(ids)
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;
    use sluice_policy::Timestamp;

    use super::{HOPS, Hops, MOST_HOPS};
    use crate::refusal::Refusal;

    fn gateway(inherited: Option<&str>) -> Hops {
        Hops::new(Timestamp::from_millis(1), inherited)
    }

    #[test]
    fn a_request_that_comes_back_is_refused() {
        let (a, b) = (gateway(None), gateway(None));
        let mut headers = HeaderMap::new();
        assert_eq!(a.check(&headers), Ok(()));
        a.add_to(&mut headers);
        assert_eq!((a.check(&headers), b.check(&headers)), (Err(Refusal::Loop), Ok(())));
        b.add_to(&mut headers);
        assert_eq!(a.check(&headers), Err(Refusal::Loop), "also over another gateway");
        assert_eq!(b.check(&headers), Err(Refusal::Loop));
        assert_eq!(gateway(None).check(&headers), Ok(()));
    }

    #[test]
    fn a_command_inherits_the_gateways_before_it() {
        let a = gateway(None);
        let (_, inherited) = a.variable();
        let wrap = gateway(inherited.to_str());
        let mut headers = HeaderMap::new();
        wrap.add_to(&mut headers);
        assert_eq!(a.check(&headers), Err(Refusal::Loop));
    }

    #[test]
    fn too_many_gateways_and_nonsense_are_refused() {
        let last = gateway(None);
        let mut headers = HeaderMap::new();
        for _ in 0..MOST_HOPS {
            assert_eq!(last.check(&headers), Ok(()));
            gateway(None).add_to(&mut headers);
        }
        assert_eq!(last.check(&headers), Err(Refusal::Loop));
        for wrong in ["", "x", "01ARZ3NDEKTSV4RRFFQ69G5FAV,", "01ARZ3NDEKTSV4RRFFQ69G5FA\""] {
            headers.insert(HOPS, wrong.parse().unwrap());
            assert!(matches!(last.check(&headers), Err(Refusal::Request(_))), "{wrong}");
        }
    }
}
