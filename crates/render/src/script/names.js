  // What of a name fits, by the rules of text.rs: all; all but long template arguments; what follows a namespace; the beginning of
  // the last part of it. Of a name that is cut, four letters are left at least.
  var LEAST_LETTERS = 4;
  // What compilers and file systems put behind a dot.
  var SUFFIXES = ("cold part constprop isra llvm lto_priv localalias so dll exe py pyc pyx js mjs cjs ts rb " +
    "php lua pl c cc cpp cxx h hpp rs go java kt").split(" ");
  function heads(name) {
    var found = [];
    var depth = 0;
    var first = behindType(name);
    if (first > 0) { found.push(first); }
    for (var at = first + 1; name.length > at; at++) {
      var c = name[at - 1];
      if ("\u003c([{".includes(c)) { depth++; }
      else if (">)]}".includes(c)) { depth = Math.max(0, depth - 1); }
      else if (depth === 0) {
        if (c === " ") { break; }
        if (c === "/") { found.push(at); }
        else if (c === ":") { if (name[at - 2] === ":") { found.push(at); } }
        else if (c === ".") { if (isPart(name, at)) { found.push(at); } }
      }
    }
    return found;
  }
  // Where the name begins in what Java writes, `void java.util.List.sort(Comparator)`; 0 where there is no type before it.
  function behindType(name) {
    var typed = /^([^ (]+) [^ (\/]+\([^]*\)$/.exec(name);
    return typed ? typed[1] === "operator" ? 0 : typed[1].length + 1 : 0;
  }
  // Whether a part of the name begins behind a dot, and no suffix.
  function isPart(name, at) {
    var part = name.slice(at).match(/^[A-Za-z_$][A-Za-z0-9_$]*/);
    if (!part) { return "\u003c(".includes(name[at] || " "); }
    return !SUFFIXES.includes(part[0]);
  }
  // The name with an ellipsis for long arguments of templates, as `pyrograph_names::elide_arguments` has it.
  var LONG_ARGUMENTS = 16;
  var OPERATOR = new RegExp("^operator(\\(\\)|\\[\\]|\u003c=>|\u003c\u003c=|>>=|->\\*|\u003c\u003c|>>|\u003c=|>=|->|\u003c|>)");
  function elide(name) {
    var out = "";
    var depth = 0;
    var at = 0;
    while (name.length > at) {
      var c = name[at];
      var before = at > 0 ? name[at - 1] : "";
      var operator = c === "o" ? /[A-Za-z0-9_]/.test(before) ? null : OPERATOR.exec(name.slice(at)) : null;
      if (operator) {
        out += operator[0];
        at += operator[0].length;
        continue;
      }
      if (c === "\u003c") {
        var end = depth === 0 ? /[A-Za-z0-9_:]/.test(before) ? closing(name, at) : -1 : -1;
        if (end > at) {
          if (Array.from(name.slice(at + 1, end)).length > LONG_ARGUMENTS) {
            out += "\u003c\u2026>";
            at = end + 1;
            continue;
          }
        }
      }
      if ("\u003c([{".includes(c)) { depth++; }
      else if (")]}".includes(c)) { depth = Math.max(0, depth - 1); }
      else if (c === ">") { if (before !== "-") { depth = Math.max(0, depth - 1); } }
      out += c;
      at++;
    }
    return out;
  }
  // Where the bracket at a place is closed; -1 if it is not.
  function closing(name, start) {
    var depth = 0;
    for (var at = start; name.length > at; at++) {
      var c = name[at];
      if ("\u003c([{".includes(c)) { depth++; }
      else if (c === ">" ? name[at - 1] !== "-" : ")]}".includes(c)) {
        depth--;
        if (depth === 0) { return at; }
      }
    }
    return -1;
  }
  function fitName(text, room, measure) {
    if (room >= measure(text)) { return text; }
    text = text.replace(/::h[0-9a-f]{16}$/, "");
    if (room >= measure(text)) { return text; }
    if (text.includes("\u003c")) {
      text = elide(text);
      if (room >= measure(text)) { return text; }
    }
    var left = room - measure("\u2026");
    var cuts = heads(text);
    for (var k = 0; cuts.length > k; k++) {
      var tail = text.slice(cuts[k]);
      if (left >= measure(tail)) {
        return Array.from(tail).length >= LEAST_LETTERS ? "\u2026" + tail : "";
      }
    }
    var rest = Array.from(cuts.length ? text.slice(cuts[cuts.length - 1]) : text);
    var count = 0;
    while (rest.length > count) {
      left -= measure(rest[count]);
      if (0 > left) { break; }
      count++;
    }
    return count >= LEAST_LETTERS ? rest.slice(0, count).join("") + "\u2026" : "";
  }
