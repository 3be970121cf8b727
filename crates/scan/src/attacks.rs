//! The attack patterns that match a server, the closest first.

use sluice_classify::Attack;

use super::Scan;

/// A pattern and the tools that it applies to.
#[derive(Debug)]
pub struct Bearing<'s> {
    pub attack: &'static Attack,
    pub tools: Vec<&'s str>,
}

impl Bearing<'_> {
    /// Its ids in public catalogues.
    pub fn ids(&self) -> String {
        let ids = self.attack.owasp.iter().chain(&self.attack.safe_mcp);
        ids.map(String::as_str).collect::<Vec<_>>().join(" ")
    }
}

/// The patterns that do not apply to every tool: the closest one of the worst tool first, then that
/// of the next tool, and so on.
pub fn bearing(scan: &Scan) -> Vec<Bearing<'_>> {
    let fitting: Vec<(&str, Vec<&'static Attack>)> = scan
        .tools
        .iter()
        .map(|tool| {
            let fitting = Attack::fitting(&tool.assessment).into_iter();
            (tool.name.as_str(), fitting.filter(|attack| !attack.is_general()).collect())
        })
        .collect();
    let most = fitting.iter().map(|(_, attacks)| attacks.len()).max().unwrap_or_default();
    let mut found: Vec<Bearing<'_>> = Vec::new();
    for round in 0..most {
        for (_, attacks) in &fitting {
            let Some(attack) = attacks.get(round) else { continue };
            if found.iter().any(|one| one.attack.id == attack.id) {
                continue;
            }
            let bears = |attacks: &[&Attack]| attacks.iter().any(|one| one.id == attack.id);
            let tools = fitting.iter().filter(|(_, attacks)| bears(attacks));
            found.push(Bearing { attack, tools: tools.map(|(name, _)| *name).collect() });
        }
    }
    found
}
