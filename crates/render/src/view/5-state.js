  // The one state that everything shown is a function of, and its forms: the URL's hash, and a command line.
  const FILTERS = ["focus", "ignore", "hide", "from-frame", "tid", "comm", "fold-recursion"];
  const VIEWS = ["flame", "tree", "callers"];
  // What is shown over time: the load, that of each thread, or when within a second it was.
  const TIMES = ["load", "threads", "seconds"];
  function defaults(about) {
    return {
      value: about.shown, group: "name", range: null, base: null, filters: [], view: "flame", key: null, zoom: 0, span: null,
      selected: 0, search: "", upright: about.upright === true, side: "after", up: false, sort: about.compared ? "change" : "self", table: "",
      times: about.second ? "seconds" : "load"
    };
  }
  function toHash(state, about) {
    const usual = defaults(about);
    const parts = new URLSearchParams();
    for (const name of ["value", "group", "view", "key", "zoom", "selected", "search", "side", "sort", "table", "times"]) {
      if (state[name] !== usual[name]) { parts.append(name, state[name]); }
    }
    for (const name of ["upright", "up"]) {
      if (state[name] !== usual[name]) { parts.append(name, state[name] ? 1 : 0); }
    }
    for (const name of ["range", "base"]) { if (state[name]) { parts.append(name, spanText(state[name])); } }
    if (state.span) { parts.append("span", state.span.map((part) => part.toPrecision(9)).join("..")); }
    for (const { kind, text } of state.filters) { parts.append(kind, text || ""); }
    return parts.toString();
  }
  // What does not make sense is taken for the default: links are edited, and come from other files.
  function fromHash(hash, about) {
    const state = defaults(about);
    const number = (text, most) => Math.min(Math.max(0, Math.floor(Number(text)) || 0), most);
    const one = (of, text, usual) => of.includes(text) ? text : usual;
    for (const [name, text] of new URLSearchParams(hash.replace(/^#/, ""))) {
      if (FILTERS.includes(name)) {
        if (isFilter(name, text)) { state.filters.push({ kind: name, text }); }
      } else if (name === "value") { state.value = number(text, about.values.length - 1);
      } else if (name === "zoom" || name === "selected" || name === "key") { state[name] = number(text, 0xffffffff);
      } else if (name === "range" || name === "base") { state[name] = spanOf(text);
      } else if (name === "span") { state.span = partOf(text);
      } else if (name === "search" || name === "table") { state[name] = text;
      } else if (name === "upright" || name === "up") { state[name] = text === "1";
      } else if (name === "group") { state.group = one(GROUPS, text, "name");
      } else if (name === "times") { state.times = one(TIMES, text, "load");
      } else if (name === "view") { state.view = one(VIEWS, text, "flame");
      } else if (name === "side") { state.side = one(["before", "after"], text, "after");
      } else if (name === "sort") { state.sort = one(["self", "total", "name", "module", "change"], text, "self"); }
    }
    return state;
  }
  function isFilter(kind, text) {
    try {
      new RegExp(text.replace(/^module:/, ""), "u");
      return kind !== "tid" || /^-?\d+$/.test(text);
    } catch {
      return false;
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
    const flags = state.upright ? "" : "--inverted ";
    return "pyrograph flamegraph " + flags + of(state.range) + " -o flamegraph.svg";
  }
