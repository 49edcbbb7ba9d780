  // The one state that everything shown is a function of, and its forms: the URL's hash, and a command line.
  const FILTERS = ["focus", "ignore", "hide", "from-frame", "tid", "comm", "fold-recursion"];
  const VIEWS = ["flame", "tree", "callers"];
  // What is shown over time: the load, that of each thread, or when within a second it was.
  const TIMES = ["load", "threads", "seconds"];
  function defaults(about) {
    return {
      value: about.shown, group: "name", range: null, base: null, filters: [], view: "flame", key: null, zoom: null, span: null,
      selected: null, search: "", case: "", upright: about.upright === true, all: about.allRows === true, side: "after", up: false,
      sort: about.compared ? "change" : "self", table: "", times: about.second ? "seconds" : "load"
    };
  }
  // A place in the tree is its names, so that a link shows the same in another recording: { rows, names }, the rows that samples
  // are grouped by first. A function is { name, module }.
  function listText(names) { return names.map((name) => name.replace(/[%;|]/g, encodeURIComponent)).join(";"); }
  function listOf(text) { return text === "" ? [] : text.split(";").map((name) => name.replace(/%(25|3B|7C)/g, decodeURIComponent)); }
  function placeText({ rows, names }) { return listText(rows) + "|" + listText(names); }
  function placeOf(text) {
    const [rows, names] = text.split("|");
    return names === undefined ? null : { rows: listOf(rows), names: listOf(names) };
  }
  function keyText({ name, module }) { return listText([name]) + (module ? "|" + listText([module]) : ""); }
  function keyOf(text) {
    const [[name], [module]] = text.split("|").concat("").map(listOf);
    return name ? { name, module: module || "" } : null;
  }
  // The node at a place of the tree. Where there is none, of those of that name the one which has the most of the others around
  // it: frames that are hidden, and other rows, are no other place. 0 if there is none.
  function nodeOf(tree, { rows, names }, total) {
    const { labels, names: texts, count } = tree.keys;
    const nameOf = (node) => texts[labels[tree.key[node]]];
    const pathOf = (node) => {
      const path = { rows: [], names: [] };
      for (; node > 0; node = tree.parent[node]) { path[tree.key[node] >= count ? "rows" : "names"].unshift(nameOf(node)); }
      return path;
    };
    const isIn = (part, of) => {
      let at = 0;
      for (const name of of) { if (at < part.length && part[at] === name) { at++; } }
      return at === part.length;
    };
    const isSame = (a, b) => a.length === b.length && a.every((name, i) => name === b[i]);
    const last = names.length ? names[names.length - 1] : rows[rows.length - 1];
    const isLast = Uint8Array.from(labels, (label, key) => texts[label] === last && (key >= count) === (names.length === 0) ? 1 : 0);
    let best = 0;
    let rank = [0, 0, 0];
    for (let node = 1; node < tree.size; node++) {
      if (!isLast[tree.key[node]] || total[node] === 0) { continue; }
      const path = pathOf(node);
      const isExact = isSame(path.names, names);
      if (!isExact && !isIn(path.names, names) && !isIn(names, path.names)) { continue; }
      const hasRows = isSame(path.rows, rows) ? 1 : 0;
      const of = [isExact ? 1e9 : Math.min(path.names.length, names.length), hasRows, total[node]];
      const by = of.findIndex((part, i) => part !== rank[i]);
      if (by >= 0 && of[by] > rank[by]) { best = node; rank = of; }
    }
    return best;
  }
  function toHash(state, about) {
    const usual = defaults(about);
    const parts = new URLSearchParams();
    for (const name of ["value", "group", "view", "search", "case", "side", "sort", "table", "times"]) {
      if (state[name] !== usual[name]) { parts.append(name, state[name]); }
    }
    if (state.key) { parts.append("key", keyText(state.key)); }
    const [zoom, selected] = [state.zoom, state.selected].map((place) => place && placeText(place));
    if (zoom) { parts.append("zoom", zoom); }
    if (selected) { parts.append("selected", selected === zoom ? "zoom" : selected); }
    for (const name of ["upright", "up", "all"]) {
      if (state[name] !== usual[name]) { parts.append(name, state[name] ? 1 : 0); }
    }
    for (const name of ["range", "base"]) { if (state[name]) { parts.append(name, spanText(state[name])); } }
    if (state.span) { parts.append("span", state.span.map((part) => part.toPrecision(9)).join("..")); }
    for (const { kind, text } of state.filters) { parts.append(kind, text || ""); }
    return parts.toString();
  }
  // What does not make sense is taken for the default: links are edited, and come from other files. But a filter or a range that
  // cannot be read is kept with what is `wrong` with it: what it should have left out is not to be shown.
  function fromHash(hash, about) {
    const state = defaults(about);
    const number = (text, most) => Math.min(Math.max(0, Math.floor(Number(text)) || 0), most);
    const one = (of, text, usual) => of.includes(text) ? text : usual;
    const usual = defaults(about);
    const parts = new URLSearchParams(hash.replace(/^#/, ""));
    for (const [name, text] of parts) {
      if (FILTERS.includes(name)) {
        const wrong = wrongWith(name, text);
        state.filters.push(wrong ? { kind: name, text, wrong } : { kind: name, text });
      } else if (name === "value") { state.value = number(text, about.values.length - 1);
      } else if (name === "zoom" || name === "selected") {
        state[name] = placeOf(text === "zoom" ? parts.get("zoom") || "" : text);
      } else if (name === "key") { state.key = keyOf(text);
      } else if (name === "range" || name === "base") {
        state[name] = spanOf(text);
        if (!state[name]) { state.filters.push({ kind: name, text, wrong: "no range of seconds, as 0.5..2" }); }
      } else if (name === "span") { state.span = partOf(text);
      } else if (name === "search" || name === "table") { state[name] = text;
      } else if (name === "case") { state.case = one(["ignore", "exact"], text, "");
      } else if (["upright", "up", "all"].includes(name)) { state[name] = text === "1";
      } else if (name === "group") { state.group = one(GROUPS, text, usual.group);
      } else if (name === "times") { state.times = one(TIMES, text, usual.times);
      } else if (name === "view") { state.view = one(VIEWS, text, usual.view);
      } else if (name === "side") { state.side = one(["before", "after"], text, usual.side);
      } else if (name === "sort") { state.sort = one(["self", "total", "name", "module", "change"], text, usual.sort); }
    }
    return state;
  }
  // Why a filter cannot be read; nothing if it can.
  function wrongWith(kind, text) {
    if (kind === "tid") { return /^-?\d+$/.test(text) ? "" : "no number of a thread"; }
    if (kind === "comm" || kind === "fold-recursion") { return ""; }
    try {
      regexpOf(text.replace(/^module:/, ""));
      return text ? "" : "it is empty";
    } catch (error) {
      return reasonOf(error);
    }
  }
  // Nanoseconds as seconds, with all digits.
  function seconds(time) {
    const digits = String(Math.round(time)).padStart(10, "0");
    return (digits.slice(0, -9) + "." + digits.slice(-9)).replace(/\.?0+$/, "");
  }
  function spanText([start, end]) { return seconds(start) + ".." + seconds(end); }
  function spanOf(text) {
    const found = /^(\d+(?:\.\d+)?)\.\.(\d+(?:\.\d+)?)$/.exec(text);
    const span = found && [Math.round(found[1] * 1e9), Math.round(found[2] * 1e9)];
    return span && span[0] < span[1] ? span : null;
  }

  // A part of the width.
  function partOf(text) {
    const [from, to] = text.split("..").map(Number);
    return from >= 0 && from < to && to <= 1 ? [from, to] : null;
  }

  function quoted(text) { return /^[\w@%+=:,./-]+$/.test(text) ? text : "'" + text.replace(/'/g, "'\\''") + "'"; }
  // The command that makes the same of the same file: every verb reads the page.
  function commandLine(state, about, file) {
    const options = [];
    if (state.value !== about.shown) {
      const of = about.values[state.value];
      options.push("--value " + quoted(of.name + (of.unit ? "/" + of.unit : "")));
    }
    for (const { kind, text } of state.filters) { options.push("--" + kind + (text ? "=" + quoted(text) : "")); }
    if (!["name", "none"].includes(state.group)) { options.push("--by " + state.group); }
    const of = (span) => [...options, ...(span ? ["--time " + spanText(span)] : []), quoted(file)].join(" ");
    if (state.range && state.base) {
      const part = (span) => "<(pyrograph convert --to pprof " + of(span) + ")";
      return "pyrograph diff " + part(state.base) + " " + part(state.range) + " -o diff.svg";
    }
    if (state.view === "tree") {
      return "pyrograph report " + (state.up ? "--callers " : "--callees ") + of(state.range);
    }
    const flags = (state.upright ? "" : "--inverted ") + (state.all ? "--all-rows " : "");
    return "pyrograph flamegraph " + flags + of(state.range) + " -o flamegraph.svg";
  }
