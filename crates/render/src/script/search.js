  // Searches and filters: regular expressions as the command line reads them, where scripts would differ. `(?i)` and the like
  // may stand before one, marks may be escaped that mean nothing.
  function regexpOf(text, ignoresCase) {
    var flags = ignoresCase ? { u: true, i: true } : { u: true };
    var head = /^\(\?([ims]*)(?:-([ims]+))?\)/.exec(text);
    if (head) {
      text = text.slice(head[0].length);
      Array.from(head[1]).forEach(function (flag) { flags[flag] = true; });
      Array.from(head[2] || "").forEach(function (flag) { delete flags[flag]; });
    }
    text = text.replace(/\\([^])/g, function (all, c) {
      if (/[A-Za-z0-9^$\\.*+?()[\]{}|\/]/.test(c)) { return all; }
      return c > "\x7f" ? c : "\\x" + ("0" + c.charCodeAt(0).toString(16)).slice(-2);
    });
    return new RegExp(text.replace(/\(\?P\u003c/g, "(?\u003c"), Object.keys(flags).join(""));
  }
  // What is typed finds upper case and lower case alike, unless it has an upper case letter. `mode` is "ignore" or "exact" where
  // the reader chose.
  function ignoresCase(text, mode) {
    if (mode) { return mode === "ignore"; }
    return !/\p{Lu}/u.test(text.replace(/\\[pP]\{[^}]*\}|\\[^]/g, ""));
  }
  // What is wrong with an expression, in words.
  function reasonOf(error) { return String(error.message).replace(/^[^]*: /, "").replace(/^./, function (c) { return c.toLowerCase(); }); }
  // The name without the mark at its end which says what sort of code it is: `_[k]`, `_[i]`, `_[j]`, `_[w]`.
  function withoutMark(name) { return name.replace(/_\[[kijw]\]$/, ""); }
