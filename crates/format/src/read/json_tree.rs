//! Parser of call trees in JSON, objects with a list of their callees. It reads one token at a time, because a call
//! tree may be deeper than a recursive parser can handle.

use std::io::{BufReader, Read};

use pyrograph_profile::{Frame, FrameId, FrameKind, Marker, StackId};
use struson::reader::{
    JsonReader, JsonStreamReader, ReaderError, ReaderSettings, ValueType as Type,
};

use super::text::Collector;
use crate::input::Head;
use crate::read::calls::MOST_DEPTH;
use crate::warnings::{WarningKind, Warnings};

/// Token stream of an input.
pub(crate) type Tokens = JsonStreamReader<BufReader<Box<dyn Read + Send>>>;

/// A call and its fields. Callers precede their callees.
pub(crate) struct Node<T> {
    /// Index of its caller; `None` for a root.
    pub caller: Option<usize>,
    pub fields: T,
}

/// Parser of a node's field: reads the value if the field is known, otherwise returns `false`.
pub(crate) type TakeField<T> = fn(&mut T, &str, &mut Tokens) -> Result<bool, ReaderError>;

/// Reads the tree in the field `root` of the input's top-level object. A node's callees are in its field `children`.
/// If the input is truncated or invalid, the part before the error is returned.
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
        // This does not fail: the bytes are the ones that `bytes` returned, which are in memory.
        let _ = stream.read_exact(&mut [0; 3]);
    }
    // Nesting of lists and objects is tracked with at most a byte per level.
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

/// Interns the stack of each node. Calls deeper than [`MOST_DEPTH`] become one frame. A node without a frame gets the
/// stack of its caller.
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

/// Reads a string; any other value is read as an empty one.
pub(crate) fn text(tokens: &mut Tokens) -> Result<String, ReaderError> {
    match tokens.peek()? {
        Type::String => tokens.next_string(),
        _ => tokens.skip_value().map(|()| String::new()),
    }
}

/// Reads a number; any other value is read as 0.
pub(crate) fn number(tokens: &mut Tokens) -> Result<f64, ReaderError> {
    match tokens.peek()? {
        Type::Number => Ok(tokens.next_number_as_str()?.parse().unwrap_or(0.0)),
        _ => tokens.skip_value().map(|()| 0.0),
    }
}
