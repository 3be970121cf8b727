//! Any JSON as a tool's definition: it is classified, twice the same, and every
//! place that is named can be marked.

use sluice_classify::{Assessment, Definition, Siblings, Spot, classify};
use sluice_wire::json::{Bounds, Document};

/// Classifies `data` if it is JSON with a name.
pub fn check(data: &[u8]) {
    let Ok(document) = Document::parse(data, &Bounds::default()) else { return };
    let Some(definition) = Definition::from_tool(document.root()) else { return };
    let siblings = Siblings::new(definition.name, &[definition]);
    let assessment = classify(&definition, &siblings);
    assert_eq!(assessment, classify(&definition, &siblings));
    assert!(assessment.confidence.percent() <= 100);
    for spot in spots(&assessment) {
        assert!(spot.start <= spot.end, "{spot:?}");
        let whole = match spot.part.name() {
            "name" => definition.name,
            "title" => definition.title.unwrap_or_default(),
            "description" => definition.description.unwrap_or_default(),
            _ => continue,
        };
        let marked = whole.get(spot.start..spot.end).expect("a place in its text");
        assert!(marked.starts_with(&spot.quote), "{spot:?}");
    }
}

fn spots(assessment: &Assessment) -> impl Iterator<Item = &Spot> {
    let reasons = assessment.reasons.iter().map(|one| &one.at);
    let signals = assessment.signals.iter().map(|one| &one.at);
    reasons.chain(signals).chain(assessment.findings.iter().map(|one| &one.at))
}
