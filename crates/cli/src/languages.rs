//! Options for interpreted languages: which languages are recorded, and which frames are shown.

use clap::builder::TypedValueParser;
use pyrograph_analyze::StackView;
use pyrograph_session::Language;

use crate::say::misuse;
use crate::units::one_of;

/// The flags of `record`.
#[derive(clap::Args)]
pub struct LanguageArgs {
    /// Languages whose functions are shown in place of those of their interpreters: auto for all, none, or a list
    /// [default: auto; only with --engine ebpf]
    #[arg(long, value_name = "LANG,…", value_parser = choices(), value_delimiter = ',')]
    lang: Vec<Choice>,

    /// Frames where functions of interpreted languages are known: merged with native ones, lang for these and the
    /// kernel alone, native without them
    #[arg(long, value_name = "VIEW", value_parser = views(), default_value = "merged", hide_default_value = true)]
    stacks: StackView,

    /// A frame for each line of a function that calls or runs: work (app.c:12)
    #[arg(long)]
    pub lines: bool,
}

/// A word in the list of `--lang`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Choice {
    Auto,
    None,
    Language(Language),
}

/// Parser for a word of `--lang`.
fn choices() -> impl TypedValueParser<Value = Choice> {
    let mut words = [(Choice::Auto, "auto", ""); 2 + Language::ALL.len()];
    words[1] = (Choice::None, "none", "");
    for (word, language) in words[2..].iter_mut().zip(Language::ALL) {
        *word = (Choice::Language(language), language.name(), "");
    }
    one_of(words)
}

/// Parser for `--stacks`.
pub fn views() -> impl TypedValueParser<Value = StackView> {
    one_of([
        (StackView::Merged, "merged", "Both"),
        (StackView::Language, "lang", "Functions of interpreted languages and of the kernel"),
        (StackView::Native, "native", "Native functions and those of the kernel"),
    ])
}

impl LanguageArgs {
    /// The requested languages.
    pub fn languages(&self) -> anyhow::Result<Vec<Language>> {
        if self.stacks == StackView::Native {
            return Ok(Vec::new());
        }
        let several = self.lang.len() > 1;
        if several && self.lang.iter().any(|choice| !matches!(choice, Choice::Language(_))) {
            misuse!("--lang takes auto, none, or a list of languages");
        }
        Ok(match self.lang[..] {
            [] | [Choice::Auto] => Language::ALL.to_vec(),
            [Choice::None] => Vec::new(),
            _ => Language::ALL
                .into_iter()
                .filter(|language| self.lang.contains(&Choice::Language(*language)))
                .collect(),
        })
    }

    /// The frames to show.
    pub fn view(&self) -> StackView {
        self.stacks
    }

    /// Returns the flag that only the in-kernel engine supports, if it is set.
    pub fn needs_in_kernel(&self) -> Option<&'static str> {
        let asks = self.lang.iter().any(|choice| matches!(choice, Choice::Language(_)));
        asks.then_some("--lang")
    }
}
