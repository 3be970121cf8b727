//! How servers refuse what they do not speak: the HTTP statuses and error codes by which
//! their era and transport are recognised.
//!
//! The lists differ because the questions do. A status is only a hint: what it hints at is
//! confirmed by a probe.

/// Whether servers that do not support the era of a request answer with this HTTP status.
/// The widest list, because frameworks refuse unknown headers and bodies in their own ways.
pub fn is_unknown_era(status: u16) -> bool {
    matches!(status, 400 | 404 | 405 | 406 | 415 | 422)
}

/// Whether servers of the HTTP+SSE transport answer with this HTTP status to a message
/// posted as by streamable HTTP. The protocol names these three.
pub fn is_unknown_transport(status: u16) -> bool {
    matches!(status, 400 | 404 | 405)
}

/// Whether this HTTP status suggests that a server no longer uses streamable HTTP, which it
/// used before. 400 is left out: such a server sends it for a single bad request.
pub fn is_lost_transport(status: u16) -> bool {
    matches!(status, 404 | 405)
}

/// Whether a legacy server that answers with this HTTP status to a GET has no streams, or
/// does not know the session. Other statuses may be temporary: the server may still see the
/// old stream, or be busy.
pub fn is_without_stream(status: u16) -> bool {
    matches!(status, 400 | 404 | 405)
}

/// Whether only servers of the modern era answer with this error code.
pub fn is_modern_error_code(code: &str) -> bool {
    matches!(code, "-32020" | "-32021" | "-32022")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_question_has_its_own_statuses() {
        let statuses = |is_meant: fn(u16) -> bool| {
            (100..600).filter(|status| is_meant(*status)).collect::<Vec<_>>()
        };
        assert_eq!(statuses(is_unknown_era), [400, 404, 405, 406, 415, 422]);
        assert_eq!(statuses(is_unknown_transport), [400, 404, 405]);
        assert_eq!(statuses(is_lost_transport), [404, 405]);
        assert_eq!(statuses(is_without_stream), [400, 404, 405]);
    }

    #[test]
    fn a_modern_server_is_recognised_by_its_errors() {
        assert!(is_modern_error_code("-32021") && !is_modern_error_code("-32602"));
    }
}
