//! Time from start to ready, with a new data directory and with an existing one.

use super::{
    super::{
        Arguments,
        config::ORDINARY,
        gateway::Installation,
        parts,
        row::{Promise, Row},
    },
    calls::SMALL,
};

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<Vec<Row>> {
    let upstream = parts::upstream(arguments, arguments.era, SMALL, ORDINARY.tools)?;
    let (mut first, mut again) = (Vec::new(), Vec::new());
    for _ in 0..arguments.rounds {
        let installation = Installation::new(arguments, "start", ORDINARY, &upstream)?;
        for times in [&mut first, &mut again] {
            let gateway = installation.start()?;
            times.push(gateway.ready_after.as_secs_f64() * 1000.0);
            gateway.part.process.stop()?;
        }
    }
    let row = |what: &str, times: Vec<f64>| {
        Row::alone("start", what, "ms", times.into_iter().collect())
            .promising(Promise::AtMost(50.0))
    };
    Ok(vec![row("to ready, new data directory", first), row("to ready, again", again)])
}
