//! What the lab says while it works: progress bars on a terminal, plain lines elsewhere. All of it
//! goes to standard error; results go to standard output.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar's look: what runs, how far it is, what came last.
const STYLE: &str = "{prefix:36!} {bar:16} {pos:>3}/{len:3} {msg}";

/// Where progress goes.
#[derive(Debug, Clone)]
pub struct Console {
    bars: Option<MultiProgress>,
}

impl Default for Console {
    /// Standard error: with bars where that is a terminal.
    fn default() -> Self {
        Self {
            bars: std::io::stderr()
                .is_terminal()
                .then(|| MultiProgress::with_draw_target(ProgressDrawTarget::stderr())),
        }
    }
}

impl Console {
    /// A line, above all bars.
    pub fn say(&self, line: &str) {
        match &self.bars {
            // Nothing is lost but a line of progress where the terminal is gone.
            Some(bars) => drop(bars.println(line)),
            None => drop(writeln!(std::io::stderr(), "{line}")),
        }
    }

    /// A line of results, above all bars, to standard output.
    pub fn line(&self, line: &str) {
        match &self.bars {
            Some(bars) => bars.suspend(|| result(line)),
            None => result(line),
        }
    }

    /// Something that turns for as long as a thing lasts, and says how long that should be.
    pub fn spinner(&self, expected: f64) -> Progress {
        let bar = self.bars.as_ref().map(|bars| {
            let bar = bars.add(ProgressBar::new_spinner());
            let template =
                format!("   {{spinner}} {{elapsed}} of about {expected:.0} s  {{wide_msg}}");
            if let Ok(style) = ProgressStyle::with_template(&template) {
                bar.set_style(style);
            }
            bar.enable_steady_tick(Duration::from_millis(100));
            bar
        });
        Progress {
            console: self.clone(),
            name: String::new(),
            length: 0,
            done: 0,
            bar,
        }
    }

    /// A bar that goes to `length`.
    pub fn bar(&self, name: &str, length: u64) -> Progress {
        let bar = self.bars.as_ref().map(|bars| {
            let bar = bars.add(ProgressBar::new(length));
            if let Ok(style) = ProgressStyle::with_template(STYLE) {
                bar.set_style(style.progress_chars("━╸─"));
            }
            bar.set_prefix(name.to_owned());
            bar
        });
        Progress {
            console: self.clone(),
            name: name.to_owned(),
            length,
            done: 0,
            bar,
        }
    }
}

/// One bar; on something that is no terminal, a line for each step.
#[derive(Debug)]
pub struct Progress {
    console: Console,
    name: String,
    length: u64,
    done: u64,
    bar: Option<ProgressBar>,
}

impl Progress {
    /// What is being done, without a step forward. Shown on a bar only.
    pub fn doing(&self, message: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(message.to_owned());
        }
    }

    /// One step is done.
    pub fn step(&mut self, message: &str) {
        self.done += 1;
        match &self.bar {
            Some(bar) => {
                bar.set_message(message.to_owned());
                bar.inc(1);
            }
            None => self.console.say(&format!(
                "{} {}/{}: {message}",
                self.name, self.done, self.length
            )),
        }
    }

    /// All is done: the bar goes.
    pub fn finish(self) {
        self.clear();
    }

    /// Takes the bar off the terminal.
    pub fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// A line of results, to standard output.
pub fn result(line: &str) {
    // A reader that has gone away is no reason to leave a lab standing.
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// A duration as people say it: `50 s`, `12 min`, `3 h 20 min`.
pub fn human_duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let minutes = seconds.div_ceil(60);
    match seconds {
        0..=90 => format!("{} s", duration.as_secs_f64().ceil()),
        91..=5400 => format!("{minutes} min"),
        _ => format!("{} h {} min", minutes / 60, minutes % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_rounded_up() {
        let of = |seconds| human_duration(Duration::from_secs_f64(seconds));
        assert_eq!(of(0.2), "1 s");
        assert_eq!(of(75.0), "75 s");
        assert_eq!(of(121.0), "3 min");
        assert_eq!(of(12_000.0), "3 h 20 min");
    }
}
