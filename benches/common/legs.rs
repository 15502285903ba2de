//! Legs of a bench, one after the other in each round, and how they compare.

use std::hint::black_box;
use std::time::Instant;

/// Wall and processor time of one pass, in ms.
pub(crate) type Took = (f64, f64);

/// A name, and one pass.
pub(crate) type Leg<'a> = (&'a str, Box<dyn Fn() -> Took + 'a>);

/// Nanoseconds that threads of this process have been on a processor.
fn processor_time() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

/// Does something, and says how long that took.
pub(crate) fn timed<T>(work: impl FnOnce() -> T) -> Took {
    let (began, used) = (Instant::now(), processor_time());
    black_box(work());
    let cpu = (processor_time() - used) as f64 / 1e6;
    (began.elapsed().as_secs_f64() * 1e3, cpu)
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// Prints each leg's median wall time, its median time on the processors, and both as multiples of the first leg's.
pub(crate) fn compare(legs: &[Leg<'_>], rounds: usize) {
    let mut times = vec![(Vec::new(), Vec::new()); legs.len()];
    for round in 0..=rounds {
        for ((_, leg), (walls, cpus)) in legs.iter().zip(&mut times) {
            let (wall, cpu) = leg();
            // The first round warms up.
            if round > 0 {
                walls.push(wall);
                cpus.push(cpu);
            }
        }
    }
    let mut first = None;
    for ((name, _), (walls, cpus)) in legs.iter().zip(times) {
        let (wall, cpu) = (median(walls), median(cpus));
        let (of, limit) = *first.get_or_insert((name, (wall, cpu)));
        println!(
            "{name:8} {wall:8.1} ms {cpu:8.1} ms  {:5.2} {:5.2} of the {of}",
            wall / limit.0,
            cpu / limit.1
        );
    }
}
