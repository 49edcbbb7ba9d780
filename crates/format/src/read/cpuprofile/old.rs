//! Parser of the tree of the older form, as written by V8's own interface and Node before version 12.
//!
//! ```text
//! {"typeId":"CPU","head":{"functionName":"(root)","id":1,"hitCount":0,"children":[
//!   {"functionName":"main","url":"/app.js","lineNumber":3,"id":2,"hitCount":7,"children":[]}]},
//!  "startTime":163140,"endTime":163140,"samples":[2,2],"timestamps":[163140599286,163140610861]}
//! ```

use struson::reader::ReaderError;

use super::{CallFrame, Node};
use crate::input::Input;
use crate::read::json_tree::{self, Tokens};
use crate::warnings::Warnings;

/// The fields of a node; its lines count from 1.
#[derive(Default)]
struct Fields {
    id: u64,
    hit_count: u64,
    call_frame: CallFrame,
}

/// Returns the nodes of a file's tree.
pub(super) fn nodes(text: Vec<u8>, warnings: &mut Warnings) -> Vec<Node> {
    // Reading bytes in memory does not fail.
    let Ok(head) = Input::bytes("", text).begin() else { return Vec::new() };
    let (tree, said) = json_tree::read(head, "head", "children", field);
    warnings.extend(said);
    let ids: Vec<u64> = tree.iter().map(|node| node.fields.id).collect();
    let node = |json_tree::Node { caller, fields }: json_tree::Node<Fields>| {
        let Fields { id, hit_count, mut call_frame } = fields;
        call_frame.line_number -= 1.0;
        let parent = caller.map(|caller| ids[caller]);
        Node { id, call_frame, hit_count, children: Vec::new(), parent }
    };
    tree.into_iter().map(node).collect()
}

fn field(fields: &mut Fields, name: &str, tokens: &mut Tokens) -> Result<bool, ReaderError> {
    match name {
        "functionName" => fields.call_frame.function_name = json_tree::text(tokens)?,
        "url" => fields.call_frame.url = json_tree::text(tokens)?,
        "lineNumber" => fields.call_frame.line_number = json_tree::number(tokens)?,
        "id" => fields.id = json_tree::number(tokens)? as u64,
        "hitCount" => fields.hit_count = json_tree::number(tokens)? as u64,
        _ => return Ok(false),
    }
    Ok(true)
}
