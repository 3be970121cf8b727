//! The JSON API.
