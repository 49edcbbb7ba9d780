  // What all panes share: the profile, the state, and what follows from them. Names come from outside: they are only ever
  // set as text.
  const core = makeCore();
  const $ = (id) => document.getElementById(id);
  const isCoarse = matchMedia("(pointer: coarse)");
  const isPrinted = matchMedia("print");
  const darkSetting = matchMedia("screen and (prefers-color-scheme: dark)");
  let data;
  let state;
  // Of the state: tree, the nodes of `zoom` and `selected`, the `line` of the function in focus, sums, start, base (sums to
  // compare with), the same of the finer tree and by function, verdicts, hits.
  const model = {};
  // Panes, each with `draw`.
  const panes = [];

  function element(tag, attributes, ...content) {
    const made = document.createElement(tag);
    for (const name in attributes) {
      if (name.startsWith("on")) { on(made, name.slice(2), attributes[name]);
      } else if (attributes[name] !== null) { made.setAttribute(name, attributes[name]); }
    }
    made.append(...content);
    return made;
  }
  // Listens to one or several sorts of events.
  function on(target, types, action, options) {
    types.split(" ").forEach((type) => target.addEventListener(type, action, options));
  }
  function isDark() {
    const theme = document.documentElement.dataset.theme;
    return !isPrinted.matches && (theme ? theme === "dark" : darkSetting.matches);
  }
  // The colour and its ink, of `light, dark, ink on light, ink on dark`.
  function shade(colours) { return isDark() ? [colours[1], colours[3]] : [colours[0], colours[2]]; }
  function cssColour(name) { return getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim(); }

  const TIMES = { ns: 1, us: 1e3, ms: 1e6, s: 1e9 };
  const clock = makeScale(1, "");
  function duration(time) {
    return clock.text(time, time, Math.pow(10, Math.floor(Math.log10(Math.max(1, Math.abs(time)))) - 2));
  }
  function valueType() { return data.about.values[state.value]; }
  function amount(value) {
    const { unit, decimals, ...of } = valueType();
    const name = data.about.compared ? data.about.compared.noun : of.name;
    const exact = value / Math.pow(10, decimals);
    if (TIMES[unit]) { return value === 0 ? "0 s" : duration(exact * TIMES[unit]); }
    if (unit === "bytes" || unit === "B") {
      const power = Math.min(4, Math.max(0, Math.floor(Math.log2(Math.max(1, Math.abs(exact))) / 10)));
      return (exact / Math.pow(1024, power)).toFixed(power ? 2 : 0) + " " + ["B", "KiB", "MiB", "GiB", "TiB"][power];
    }
    const noun = unit === "count" ? name : unit;
    return grouped(String(exact).split(".")[0]) + (exact % 1 ? String(exact).replace(/^-?\d+/, "") : "") + (noun ? " " + noun : "");
  }
  function percent(part, whole) {
    if (!part || !whole) { return "0%"; }
    const share = 100 * part / whole;
    return share.toFixed(Math.abs(share) >= 0.01 ? 2 : 4) + "%";
  }
  // What percentages are of: also what was left out on request before, as the command line has it.
  function whole() {
    const ofSide = data.about.compared && data.about.compared.wholes && wholes()[state.side === "before" ? 0 : 1];
    const before = ofSide || data.about.unfiltered[state.value] || 0;
    return state.range || state.filters.length ? model.whole : Math.max(before, model.whole);
  }
  // Names as they are shown; filters and links have those of other outputs.
  function nameOf(node) { return node === 0 ? "all" : core.withoutMark(textOf(model.tree.key[node])); }
  function ownName(node) { return ownText(model.tree.key[node]); }
  function ownText(key) { return key < model.tree.keys.count ? data.texts[data.frames.name[data.functions.first[key]]] : textOf(key); }
  // With all that is known of it.
  function fullText(key) {
    return core.withoutMark(key < model.tree.keys.count ? data.texts[data.frames.full[data.functions.first[key]]] : textOf(key));
  }
  function textOf(key) {
    const { keys } = model.tree;
    return keys.names[keys.labels[key]];
  }
  // Of a line of the table, or of a row at the root: one of its keys.
  function keyOfLine(line) {
    const { functions, count } = model.tree.keys;
    return line < functions ? data.functions.firstKey[line] : count + line - functions;
  }
  function lineName(line) { return core.withoutMark(textOf(keyOfLine(line))); }
  // The lines of what is no function: rows at the root, and samples without frames.
  function isFunction(line) { return line !== null && line < model.tree.keys.functions; }
  function functionName(line) { return isFunction(line) ? lineName(line) : "[unknown]"; }
  function moduleOf(line) {
    return isFunction(line) ? data.texts[data.frames.module[data.functions.first[data.functions.firstKey[line]]]] : "";
  }
  // The key that most of a node is of: it gives the colour.
  function leadOf(node) { return model.leads.lead[node]; }
  function isMixed(node) { return Boolean(model.leads.isMixed && model.leads.isMixed[node]); }
  // The lines of a node that has samples, the one with the most of them first: several where a name is in several modules.
  function linesOf(node) {
    const { tree, fineSums, fineBase } = model;
    const { line } = tree.keys;
    if (node === 0) { return []; }
    if (!isMixed(node)) { return [{ line: line[leadOf(node)] }]; }
    const found = new Map();
    for (const part of core.partsOf(tree, node)) {
      const of = line[tree.fine.key[part]];
      const known = found.get(of) || { line: of, total: 0, base: 0 };
      known.total += fineSums.total[part];
      known.base += fineBase ? fineBase.total[part] : 0;
      found.set(of, known);
    }
    return [...found.values()].filter((of) => of.total > 0 || of.base > 0).sort((a, b) => b.total - a.total || a.line - b.line);
  }
  // The line of a node's function; null where it is no function, or several.
  function lineOf(node) {
    if (node === 0 || isMixed(node)) { return null; }
    const line = model.tree.keys.line[leadOf(node)];
    return isFunction(line) ? line : null;
  }
  function modulesText(lines) {
    const modules = new Set(lines.filter((of) => isFunction(of.line)).map((of) => moduleOf(of.line)));
    const known = [...modules].filter(Boolean);
    return known.length > 1 ? "in " + known.length + " modules" : (known[0] || "") + (known.length && modules.has("") ? ", or not known" : "");
  }
  function rowsText(count) { return grouped(count) + (count === 1 ? " row" : " rows"); }
  function isRow(node) { return model.tree.key[node] >= model.tree.keys.count; }
  function placeOf(node) {
    if (node === 0) { return null; }
    const path = pathOf(node);
    return { rows: path.filter(isRow).map(ownName), names: path.filter((of) => !isRow(of)).map(ownName) };
  }
  function keyOf(line) { return isFunction(line) ? { name: ownText(keyOfLine(line)), module: moduleOf(line) } : null; }
  // The line of a function of that name and module; of another module, where there is none of that name in this one.
  function findLine(key) {
    const { keys } = model.tree;
    let found = null;
    let count = 0;
    const name = key && asShown(key.name);
    for (let line = 0; key && line < keys.functions; line++) {
      if (textOf(keyOfLine(line)) !== name) { continue; }
      if (moduleOf(line) === key.module) { return line; }
      found = line;
      count++;
    }
    return count === 1 ? found : null;
  }
  // The label of a name; an address may have labels, too.
  function asShown(name) { return data.shownAs.has(name) ? data.shownAs.get(name) : name; }
  function pathOf(node) {
    const path = [];
    for (; node > 0; node = model.tree.parent[node]) { path.unshift(node); }
    return path;
  }

  // Comparisons: of the two columns of a file, or of two ranges of time.
  function isCompared() { return Boolean(data.about.compared || state.range && state.base); }
  function ofShares() { return !data.about.compared || data.about.compared.shares; }
  function wholes() {
    return data.about.compared && data.about.compared.wholes || [model.base.total[0], model.after.total[0]];
  }
  // By how much a value changed: as share of the whole, or as it is.
  function change(before, after) {
    if (!ofShares()) { return after - before; }
    const [old, now] = wholes();
    return (now ? after / now : 0) - (old ? before / old : 0);
  }
  function changeText(before, after) {
    const by = change(before, after);
    const sign = by > 0 ? "+" : by < 0 ? "\u2212" : "\u00b1";
    return sign + (ofShares() ? Math.abs(100 * by).toFixed(2) : amount(Math.abs(by)));
  }
  // 1 for more beyond noise, 2 for less, 0 for noise; null where it was not computed.
  function verdictOf(node) { return model.verdicts ? model.verdicts[node] : null; }
  function functionVerdict(line) { return model.functionVerdicts ? model.functionVerdicts(line) : null; }
  const VERDICTS = ["noise", "more", "less"];
  // Verdicts on two ranges are computed here, those on two files came with them.
  function judge() {
    const { tree, base } = model;
    model.verdicts = model.functionVerdicts = null;
    if (!base) { return; }
    const isWhole = !state.filters.length && !state.range && tree.fine.isWhole;
    if (data.verdicts && isWhole) {
      model.verdicts = new Uint8Array(tree.size);
      data.verdicts.forEach((verdict, i) => { model.verdicts[tree.of ? tree.of[i] : i] = verdict; });
      const { keys } = tree;
      const lines = new Map();
      for (let line = 0; line < keys.functions; line++) {
        const label = keys.labels[keyOfLine(line)];
        lines.set(label, (lines.get(label) || 0) + 1);
      }
      // They were judged by name.
      model.functionVerdicts = (line) => {
        const key = keyOfLine(line);
        if (!isFunction(line) || lines.get(keys.labels[key]) !== 1) { return null; }
        return data.functionVerdicts.get(data.frames.name[data.functions.first[key]]) || 0;
      };
    }
    if (data.about.compared || data.about.step || data.about.sums) { return; }
    judgeRanges();
  }
  function judgeRanges() {
    const { tree, base, after } = model;
    const { samples } = data;
    const values = samples.values[state.value];
    const both = (of) => {
      const [a, b] = [state.range, state.base].map((range) => core.sums(of, of.node, values, core.slice(samples, range), 2));
      for (const part of ["own", "total"]) { a[part].forEach((_, i) => { a[part][i] += b[part][i]; }); }
      return a;
    };
    const count = base.samples + after.samples;
    const squares = both(tree);
    model.verdicts = core.verdicts(base.total, after.total, squares.total, count);
    const byFunction = core.functions(tree.fine, tree.of ? both(tree.fine) : squares);
    const all = (whole, of) => [whole.total[0], ...of.total];
    const found = core.verdicts(all(base, model.baseFunctions), all(after, model.functionsAfter), all(squares, byFunction), count);
    model.functionVerdicts = (line) => found[line + 1];
  }

  // Goes to another state; what is a step of its own comes into the history.
  function go(change, quiet) {
    state = { ...state, ...change };
    if (change.filters || change.group) { state.span = null; }
    setAddress(state, quiet ? "replaceState" : "pushState");
    return refresh();
  }
  function setAddress(of, how) {
    try {
      const hash = "#" + core.toHash(of, data.about);
      if (hash !== (location.hash || "#")) { history[how](null, "", hash); }
    } catch {
      // A frame without an address of its own has no history.
    }
  }
  // Makes one step of the history of all that was shown quietly since.
  function makeStep(before) {
    setAddress(before, "replaceState");
    setAddress(state, "pushState");
  }
  function* childrenOf(node) {
    const { tree } = model;
    for (let child = node + 1; child < tree.end[node]; child = tree.end[child]) { yield child; }
  }

  // Computes what the state needs and is not there, and draws all.
  let latest = 0;
  async function refresh() {
    const turn = ++latest;
    const wrong = state.filters.find((filter) => filter.wrong);
    document.body.dataset.wrong = Boolean(wrong);
    if (wrong) {
      remark("The address has a filter that cannot be read, \u201c" + wrong.kind + "=" + wrong.text + "\u201d: " + wrong.wrong +
        ". What it should leave out is not known, so that nothing is shown. Take it off, or mend the address.");
      chips();
      return;
    }
    const treeKey = JSON.stringify([state.group, state.filters]);
    if (treeKey !== model.treeKey) {
      const building = buildTree({ group: state.group, filters: state.filters });
      const tree = building instanceof Promise ? await building : building;
      if (turn !== latest) { return; }
      Object.assign(model, { tree, treeKey, sumsKey: null });
    }
    const sumsKey = JSON.stringify([state.value, state.range, state.base, state.side]);
    if (sumsKey !== model.sumsKey) { addUp(sumsKey); }
    const rowsKey = JSON.stringify([treeKey, sumsKey, state.all]);
    if (rowsKey !== model.rowsKey) {
      const [fineTotal, otherTotal] = [model.fineSums.total, model.fineBase && model.fineBase.total];
      const { total } = model.sums;
      Object.assign(model, { rowsKey, rows: core.rowsOf(data, model.tree, { total, fineTotal, otherTotal }, state.all) });
    }
    findPlaces();
    findHits();
    drawAll();
  }
  // Nothing is drawn of what a filter should leave out that cannot be read.
  function isShown() { return Boolean(model.tree) && !isWrong(); }
  function drawAll() { if (isShown()) { panes.forEach((pane) => pane.draw()); } }
  function isWrong() { return document.body.dataset.wrong === "true"; }
  // What the state names, as numbers; and the state as what is shown.
  function findPlaces() {
    const { tree, sums } = model;
    const missing = [];
    for (const name of ["zoom", "selected"]) {
      const of = state[name];
      const at = of ? core.nodeOf(tree, { rows: of.rows, names: of.names.map(asShown) }, sums.total) : 0;
      if (state[name] && !at && name === "zoom") { missing.push(state.zoom.names.concat(state.zoom.rows).slice(-1)[0]); }
      model[name] = at;
      state[name] = placeOf(at);
    }
    model.line = findLine(state.key);
    if (state.key && model.line === null) { missing.push(state.key.name); }
    state.key = keyOf(model.line);
    setAddress(state, "replaceState");
    remark(model.whole === 0 && !(model.base && (model.base.total[0] || model.after.total[0])) ? nothing() :
      missing.length ? "Not here: " + [...new Set(missing)].map(core.withoutMark).join(", ") : "");
  }
  function nothing() {
    const isChosen = state.filters.length || state.range;
    return isChosen ? "There is nothing to show: no sample passes the filters" + (state.range ? " in this range." : ".") :
      "There is nothing to show: the values add up to 0.";
  }
  function addUp(sumsKey) {
    const { tree } = model;
    const { fine } = tree;
    const { samples, about } = data;
    const add = (of, column, range) => core.sums(of, of.node, samples.values[column], core.slice(samples, range));
    const both = (column, range) => {
      const sums = add(tree, column, range);
      const ofFine = tree.of ? add(fine, column, range) : sums;
      return [sums, ofFine, core.functions(fine, ofFine)];
    };
    const [column, old] = about.compared ? [1, 0] : [state.value, state.value];
    let [fineAfter, fineBase] = [null, null];
    [model.after, fineAfter, model.functionsAfter] = both(column, state.range);
    model.base = model.baseFunctions = null;
    if (isCompared()) { [model.base, fineBase, model.baseFunctions] = both(old, about.compared ? state.range : state.base); }
    // The side that gives the widths.
    const isBefore = model.base && state.side === "before";
    model.sums = isBefore ? model.base : model.after;
    model.functions = isBefore ? model.baseFunctions : model.functionsAfter;
    Object.assign(model, { fineSums: isBefore ? fineBase : fineAfter, fineBase: isBefore ? fineAfter : fineBase });
    model.leads = core.leads(data, tree, model.fineSums.total, model.fineBase && model.fineBase.total);
    model.whole = model.sums.total[0];
    model.start = core.layout(tree, model.sums);
    setRoles();
    judge();
    model.largest = 0;
    for (let i = 1; model.base && i < tree.size; i++) {
      if (verdictOf(i) === 0) { continue; }
      model.largest = Math.max(model.largest, Math.abs(change(model.base.total[i], model.after.total[i])));
    }
    Object.assign(model, { sumsKey, hitsKey: null });
  }
  // Frames of which more than half waited, 1, and the stacks of wakers, 2, have colours of their own.
  const WAITS = 21;
  const WAKER = 29;
  function setRoles() {
    const { tree, sums } = model;
    const { waiting, waker } = data.about;
    model.roles = null;
    if (!waiting && !waker) { return; }
    const roles = model.roles = new Uint8Array(tree.size);
    const kindOf = (node) => leadOf(node) >= tree.keys.count ? 0 : data.frames.kind[data.functions.first[leadOf(node)]];
    const waited = new Float64Array(tree.size);
    for (let i = tree.size - 1; waiting && i > 0; i--) {
      const kind = kindOf(i);
      if (kind >= WAITS && kind < WAKER) { waited[i] = sums.total[i]; }
      waited[tree.parent[i]] += waited[i];
      roles[i] = !isRow(i) && waited[i] > sums.total[i] / 2 ? 1 : 0;
    }
    for (let i = 1; waker && i < tree.size; i++) {
      const caller = tree.parent[i];
      if (roles[caller] === 2 && kindOf(i) < 16 || caller > 0 && kindOf(caller) === WAKER) { roles[i] = 2; }
    }
  }
  function findHits() {
    const hitsKey = [state.search, state.case, model.zoom].join("\n");
    if (hitsKey === model.hitsKey) { return; }
    const searched = [state.search, state.case].join("\n");
    if (model.hitsKey === null || searched !== model.searched) { model.isStepping = false; }
    Object.assign(model, { hitsKey, searched, hits: null, finder: null, wrong: "" });
    if (!state.search) { return; }
    try {
      model.finder = core.regexpOf(state.search, core.ignoresCase(state.search, state.case));
    } catch (error) {
      model.wrong = "No regular expression: " + core.reasonOf(error);
      return;
    }
    const { total } = model.sums;
    model.isFound = core.matcherOf(data, model.tree, model.finder);
    model.hits = core.findHits(model.tree, model.isFound, total, model.zoom);
    const { hit } = model.hits;
    const before = new Uint32Array(hit.length + 1);
    for (let i = 0; i < hit.length; i++) { before[i + 1] = before[i] + (hit[i] && total[i] > 0 ? 1 : 0); }
    model.hits.before = before;
    if (model.isStepping) { sortHits(); }
  }

  // The widest first; only who goes through them needs it.
  function sortHits() {
    const { total } = model.sums;
    model.hits.nodes.sort((a, b) => total[b] - total[a] || a - b);
  }

  // Above so many nodes a tree is built in a worker, or in slices where there is none.
  const MANY = 2e6;
  let worker;
  function buildTree(view) {
    if (data.stacks.parent.length < MANY) { return core.steps(core.build(data, view)); }
    remark("Adding up \u2026");
    return (worker === undefined ? startWorker() : Promise.resolve(worker))
      .then((at) => at ? inWorker(at, view) : inSlices(core.build(data, view)))
      .then((tree) => { remark(""); return tree; });
  }
  function startWorker() {
    return new Promise((done) => {
      const give = (made) => { worker = made; done(made); };
      try {
        const source = "const core=(" + makeCore + ")();let data;onmessage=({data:m})=>{" +
          "if(m.bytes){data=core.decode(m.bytes);postMessage('ready');return}" +
          "const tree=core.steps(core.build(data,m));delete tree.keys.ofRow;delete tree.fine.keys.ofRow;postMessage(tree)}";
        const made = new Worker(URL.createObjectURL(new Blob([source], { type: "text/javascript" })));
        made.onerror = () => give(null);
        made.onmessage = () => give(made);
        made.postMessage({ bytes: data.bytes });
      } catch {
        give(null);
      }
    });
  }
  function inWorker(at, view) {
    return new Promise((done, failed) => {
      at.onmessage = (event) => done(event.data);
      at.onerror = (event) => failed(new Error(event.message));
      at.postMessage(view);
    });
  }
  async function inSlices(work) {
    for (let end = performance.now() + 12;;) {
      const { done, value } = work.next();
      if (done) { return value; }
      if (performance.now() > end) {
        await new Promise((next) => { setTimeout(next); });
        end = performance.now() + 12;
      }
    }
  }
  // What was done, for a while; and what there is to know of what is shown.
  let saying;
  function say(text) {
    $("said").textContent = text;
    clearTimeout(saying);
    saying = setTimeout(() => { $("said").textContent = ""; }, 4000);
  }
  function remark(text) { $("notes").textContent = text; }
