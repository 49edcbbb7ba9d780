//! Interpreted languages: whose functions are recorded, and which frames are shown.

use clap::ValueEnum;
use clap::builder::PossibleValue;
use pyrograph_analyze::StackView;
use pyrograph_recorder::Language;

use crate::say::misuse;

/// The flags of `record`.
#[derive(clap::Args)]
pub struct LanguageArgs {
    /// Languages whose functions are shown in place of those of their interpreters: auto for all, none, or a list
    /// [default: auto; only with --engine ebpf]
    #[arg(long, value_name = "LANG,…", value_delimiter = ',')]
    lang: Vec<Choice>,

    /// Frames where functions of interpreted languages are known: merged with native ones, lang for these and the
    /// kernel alone, native without them
    #[arg(long, value_name = "VIEW", default_value = "merged", hide_default_value = true)]
    stacks: View,

    /// A frame for each line of an interpreted function that calls or runs
    #[arg(long)]
    pub lines: bool,
}

/// A word of `--lang`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Choice {
    Auto,
    None,
    Language(Language),
}

/// All words.
static CHOICES: [Choice; 2 + Language::ALL.len()] = {
    let mut all = [Choice::None; 2 + Language::ALL.len()];
    all[0] = Choice::Auto;
    let mut at = 0;
    while at < Language::ALL.len() {
        all[at + 2] = Choice::Language(Language::ALL[at]);
        at += 1;
    }
    all
};

impl ValueEnum for Choice {
    fn value_variants<'a>() -> &'a [Self] {
        &CHOICES
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(match self {
            Self::Auto => PossibleValue::new("auto"),
            Self::None => PossibleValue::new("none"),
            Self::Language(language) => PossibleValue::new(language.name()),
        })
    }
}

/// A word of `--stacks`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View(pub StackView);

impl ValueEnum for View {
    fn value_variants<'a>() -> &'a [Self] {
        &[Self(StackView::Merged), Self(StackView::Language), Self(StackView::Native)]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let (name, help) = match self.0 {
            StackView::Merged => ("merged", "Both"),
            StackView::Language => ("lang", "Functions of interpreted languages and of the kernel"),
            StackView::Native => ("native", "Native functions and those of the kernel"),
        };
        Some(PossibleValue::new(name).help(help))
    }
}

impl LanguageArgs {
    /// The languages that are wanted.
    pub fn languages(&self) -> anyhow::Result<Vec<Language>> {
        if self.stacks.0 == StackView::Native {
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

    /// The frames that are shown.
    pub fn view(&self) -> StackView {
        self.stacks.0
    }

    /// The flag that only programs in the kernel can do, if there is one.
    pub fn needs_in_kernel(&self) -> Option<&'static str> {
        let asks = self.lang.iter().any(|choice| matches!(choice, Choice::Language(_)));
        asks.then_some("--lang").or(self.lines.then_some("--lines"))
    }
}
