//! Pages of lists that are in memory as a whole, in the order of a key.

/// The default and the maximum number of items on a page.
const MAX_LIMIT: usize = 1_000;

/// At most `limit` items whose key is after the cursor, and the next cursor if more follow. The
/// items are in the order of their keys.
pub(super) fn cut_page<T>(
    items: impl IntoIterator<Item = T>,
    key: impl Fn(&T) -> &str,
    cursor: Option<&str>,
    limit: Option<usize>,
) -> (Vec<T>, Option<String>) {
    let limit = limit.unwrap_or(MAX_LIMIT).clamp(1, MAX_LIMIT);
    let mut rest = items.into_iter().filter(|item| cursor.is_none_or(|cursor| key(item) > cursor));
    let page: Vec<_> = rest.by_ref().take(limit).collect();
    let last = page.last().map(|last| key(last).to_owned());
    let next = last.filter(|_| rest.next().is_some());
    (page, next)
}
