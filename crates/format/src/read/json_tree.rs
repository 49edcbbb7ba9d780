//! Trees of calls as JSON, objects that hold a list of those they called: read one token after the other, since a tree
//! of calls may be deeper than a parser that calls itself could go.

use std::io::{BufReader, Read};

use pyrograph_profile::{Frame, FrameId, FrameKind, Marker, StackId};
use struson::reader::{
    JsonReader, JsonStreamReader, ReaderError, ReaderSettings, ValueType as Type,
};

use super::text::Collector;
use crate::input::Head;
use crate::read::calls::MOST_DEPTH;
use crate::warnings::{WarningKind, Warnings};

/// Tokens of an input.
pub(crate) type Tokens = JsonStreamReader<BufReader<Box<dyn Read + Send>>>;

/// A call and its fields. Callers come before those they called.
pub(crate) struct Node<T> {
    /// The place of its caller among all nodes; none for a root.
    pub caller: Option<usize>,
    pub fields: T,
}

/// A field of a node: takes its value if it knows it, and returns `false` if it does not.
pub(crate) type TakeField<T> = fn(&mut T, &str, &mut Tokens) -> Result<bool, ReaderError>;

/// Reads the tree in the field `root` of the object that an input is. A node's callees are in its field `children`.
/// Keeps the part before a cut or an error.
pub(crate) fn read<T: Default>(
    input: Head,
    root: &str,
    children: &str,
    field: TakeField<T>,
) -> (Vec<Node<T>>, Warnings) {
    let is_marked = input.bytes().starts_with(b"\xef\xbb\xbf");
    let mut stream = input.into_stream();
    let mut warnings = Warnings::default();
    let mut nodes = Vec::new();
    if is_marked {
        // They are in memory: what `bytes` returned.
        let _ = stream.read_exact(&mut [0; 3]);
    }
    // How deep lists and objects are nested takes no more than a byte for each.
    let settings =
        ReaderSettings { max_nesting_depth: None, track_path: false, ..ReaderSettings::default() };
    let mut tokens = JsonStreamReader::new_custom(BufReader::new(stream), settings);
    let mut read = || -> Result<(), ReaderError> {
        tokens.begin_object()?;
        while tokens.has_next()? {
            if tokens.next_name()? == root && tokens.peek()? == Type::Object {
                tree(&mut tokens, children, field, &mut nodes)?;
            } else {
                tokens.skip_value()?;
            }
        }
        tokens.end_object()
    };
    if let Err(error) = read() {
        warnings.add(WarningKind::Truncated(error.to_string()), 1, []);
    }
    (nodes, warnings)
}

fn tree<T: Default>(
    tokens: &mut Tokens,
    children: &str,
    field: TakeField<T>,
    nodes: &mut Vec<Node<T>>,
) -> Result<(), ReaderError> {
    tokens.begin_object()?;
    nodes.push(Node { caller: None, fields: T::default() });
    // Nodes that have not ended, and whether their callees are being read.
    let mut open = vec![(nodes.len() - 1, false)];
    while let Some((node, in_children)) = open.last_mut() {
        match (*in_children, tokens.has_next()?) {
            (true, true) if tokens.peek()? == Type::Object => {
                tokens.begin_object()?;
                nodes.push(Node { caller: Some(*node), fields: T::default() });
                open.push((nodes.len() - 1, false));
            }
            (true, true) => tokens.skip_value()?,
            (true, false) => {
                tokens.end_array()?;
                *in_children = false;
            }
            (false, true) => {
                let name = tokens.next_name_owned()?;
                if name == children && tokens.peek()? == Type::Array {
                    tokens.begin_array()?;
                    *in_children = true;
                } else if !field(&mut nodes[*node].fields, &name, tokens)? {
                    tokens.skip_value()?;
                }
            }
            (false, false) => {
                tokens.end_object()?;
                open.pop();
            }
        }
    }
    Ok(())
}

/// The stack of each node. Calls inside of [`MOST_DEPTH`] others are one frame. A node without a frame stands for
/// its caller.
pub(crate) fn stacks<T>(
    nodes: &[Node<T>],
    out: &mut Collector,
    warnings: &mut Warnings,
    mut frame: impl FnMut(&T, &mut Collector) -> Option<FrameId>,
) -> Vec<StackId> {
    let deeper = out.intern("[deeper calls]");
    let deeper = out.profile.frames.intern(Frame::named(deeper, FrameKind::Marker(Marker::Remark)));
    let mut places: Vec<(StackId, usize)> = Vec::with_capacity(nodes.len());
    let mut too_deep = 0;
    for node in nodes {
        let (caller, depth) = node.caller.map_or((StackId::ROOT, 0), |caller| places[caller]);
        let frame = match depth {
            MOST_DEPTH.. => {
                too_deep += 1;
                (depth == MOST_DEPTH).then_some(deeper)
            }
            _ => frame(&node.fields, out),
        };
        places.push(match frame {
            Some(frame) => (out.profile.stacks.intern(caller, frame), depth + 1),
            None => (caller, depth),
        });
    }
    if too_deep > 0 {
        warnings.add(WarningKind::TooDeep, too_deep, []);
    }
    places.into_iter().map(|(stack, _)| stack).collect()
}

/// A text; empty for what is none.
pub(crate) fn text(tokens: &mut Tokens) -> Result<String, ReaderError> {
    match tokens.peek()? {
        Type::String => tokens.next_string(),
        _ => tokens.skip_value().map(|()| String::new()),
    }
}

/// A number; 0 for what is none.
pub(crate) fn number(tokens: &mut Tokens) -> Result<f64, ReaderError> {
    match tokens.peek()? {
        Type::Number => Ok(tokens.next_number_as_str()?.parse().unwrap_or(0.0)),
        _ => tokens.skip_value().map(|()| 0.0),
    }
}
