//! View of a profile, or of the difference of two, on the terminal.

use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, channel};

use anyhow::Context;
use pyrograph_analyze::{Alike, Diff, DiffOptions, Filter, diff, origin};
use pyrograph_export::write_output;
use pyrograph_format::{Options, ThreadDetail};
use pyrograph_profile::Profile;
use pyrograph_render::{DiffStyle, SvgOptions, diff_svg, subtitle};
use pyrograph_terminal::{ScreenSignal, send_stop};
use pyrograph_tui::{Action, App, Code, Settings, Status};

use super::Args;
use crate::diff::Sides;
use crate::interactive::{Desk, End, Happened, free_name, look, message, write_svg};
use crate::streams::inputs;

/// File that the key `w` writes.
const PICTURE: &str = "flamegraph.svg";

/// A file yields no news.
type NoNews = std::convert::Infallible;

/// Shows the files until the user quits. Two files are compared, unless `--merge` makes one profile of them.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let title = args.title();
    let content = match &args.files[..] {
        [before, after] if !args.reading.merges() => {
            let of = std::slice::from_ref;
            Content::Sides(Sides::of_files(&args.reading, of(before), of(after))?)
        }
        files => {
            let options = Options { threads: ThreadDetail::Thread, ..Options::default() };
            let (profile, _) = args.reading.read(inputs(files)?, options)?;
            match profile.is_comparison() {
                true => Content::Sides(Sides::of_comparison(profile, &title)),
                false => Content::Profile(Some(Box::new(profile))),
            }
        }
    };
    let keeps_names = args.reading.names().is_some();
    let settings = Settings { look: look(), flame_first: true, keeps_names, ..Settings::default() };
    let levels = args.reading.levels().max(1);
    let mut view = View { app: App::new(settings), content, levels, title };
    view.open().context("failed to show it")?;
    let (sender, happened) = channel::<Happened<NoNews>>();
    let mut desk = Desk::take(&sender)?;
    Desk::listen(sender)?;
    let end = view.show(&happened, &mut desk);
    drop(desk);
    Ok(ExitCode::from(u8::try_from(end?.code()).unwrap_or(1)))
}

/// The data to show.
enum Content {
    /// A profile, until it is passed to the view.
    Profile(Option<Box<Profile>>),
    /// Both sides of a comparison, kept to compare them again with other filters.
    Sides(Sides),
}

struct View {
    app: App,
    content: Content,
    /// Number of levels at the root of each stack: processes, threads, hosts.
    levels: usize,
    title: String,
}

impl View {
    /// Passes the content to the view.
    fn open(&mut self) -> anyhow::Result<()> {
        match &mut self.content {
            Content::Profile(profile) => {
                let profile = *profile.take().unwrap_or_default();
                let status = status(&self.title, &profile);
                self.app.update(profile, status);
                Ok(())
            }
            Content::Sides(_) => self.compare(&Filter::default(), Code::All),
        }
    }

    /// Compares both sides, filtered, and passes the result to the view.
    fn compare(&mut self, filter: &Filter, code: Code) -> anyhow::Result<()> {
        let Content::Sides(sides) = &self.content else { return Ok(()) };
        let filtered = match filter.is_empty() && code == Code::All {
            true => None,
            false => Some(sides.filtered(filter, code)?),
        };
        let shown = filtered.as_ref().unwrap_or(sides);
        let (before, after) = shown.runs();
        let alike = Alike::new(&before, &after, self.levels);
        let compared = diff(&before, &after, &alike, &DiffOptions::default())?;
        let (before, after) = sides.names();
        let status =
            Status { subject: differences(&compared, &before, &after), ..Status::default() };
        self.app.compare(compared, status);
        Ok(())
    }

    /// Handles input and signals, and draws, until the user quits or a signal ends the program.
    fn show(
        &mut self,
        happened: &Receiver<Happened<NoNews>>,
        desk: &mut Desk,
    ) -> anyhow::Result<End> {
        desk.draw(&mut self.app)?;
        while let Ok(first) = happened.recv() {
            let mut is_changed = false;
            // Everything that has arrived is handled before the next drawing.
            for what in std::iter::once(first).chain(happened.try_iter()) {
                let action = match what {
                    Happened::Input(event) => self.app.handle(&event),
                    Happened::NoInput => Action::Quit,
                    Happened::News(news) => match news {},
                    Happened::Signal(ScreenSignal::End(signal)) => return Ok(End::Signal(signal)),
                    Happened::Signal(ScreenSignal::Stop) => {
                        desk.stop_for_a_while()?;
                        Action::Draw
                    }
                };
                is_changed |= !matches!(action, Action::None);
                match action {
                    Action::Quit => return Ok(End::Quit),
                    // Comes back as a signal, like one from another process.
                    Action::Suspend => send_stop(),
                    Action::Write(profile, labels) => {
                        let path = Path::new(PICTURE);
                        self.app.say(write_svg(path, &profile, &labels, &self.title));
                    }
                    Action::WriteComparison => self.write_comparison(),
                    Action::Compare(filter, code) => {
                        if let Err(error) = self.compare(&filter, code) {
                            self.app.refuse_filter(format!("{error:#}"));
                        }
                    }
                    _ => {}
                }
            }
            if is_changed {
                desk.draw(&mut self.app)?;
            }
        }
        Ok(End::Quit)
    }

    fn write_comparison(&mut self) {
        let Some(diff) = self.app.comparison() else { return };
        let path: PathBuf = free_name(Path::new(PICTURE));
        let options = SvgOptions { title: self.title.clone(), ..SvgOptions::default() };
        let graph = diff.graph(options.min_width.share(options.frames_width()));
        let written = write_output(Some(&path), |out| {
            diff_svg(&graph, &options, DiffStyle::default(), &mut BufWriter::new(out))
        });
        self.app.say(message(&path, written.map_err(Into::into)));
    }
}

fn status(title: &str, profile: &Profile) -> Status {
    let origin = origin(profile, profile.shown);
    Status {
        subject: title.to_owned(),
        span: origin.as_ref().map(|origin| subtitle(origin, None, 1.0)),
        lost: profile.about.lost,
        ..Status::default()
    }
}

/// `before.folded → after.folded`, and how they differ in kind if they count different things.
fn differences(diff: &Diff, before: &str, after: &str) -> String {
    let unlike = diff.before.unlike(&diff.after).map(|unlike| format!(" · {unlike}"));
    format!("{before} → {after}{}", unlike.unwrap_or_default())
}
