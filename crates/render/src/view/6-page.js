  // What all panes share: the profile, the state, and what follows from them. Names come from outside: they are only ever
  // set as text.
  const core = makeCore();
  const $ = (id) => document.getElementById(id);
  const isCoarse = matchMedia("(pointer: coarse)");
  const isPrinted = matchMedia("print");
  const darkSetting = matchMedia("screen and (prefers-color-scheme: dark)");
  let data;
  let state;
  // Of the state: tree, sums, start, base (sums to compare with), hits, byFunction, baseByFunction.
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
    const before = data.about.unfiltered[state.value] || 0;
    return state.range || state.filters.length ? model.whole : Math.max(before, model.whole);
  }
  function nameOf(node) { return node === 0 ? "all" : keyName(model.tree.key[node]); }
  function keyName(key) {
    const { keys } = model.tree;
    return key < keys.labels.length ? keys.names[keys.labels[key]] : "[unknown]";
  }
  function moduleOf(key) {
    return key < data.functions.first.length ? data.texts[data.frames.module[data.functions.first[key]]] : "";
  }
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
  function verdictOf(node) {
    const known = data.verdicts && model.tree.isWhole && !state.filters.length && !state.range;
    return known ? data.verdicts[node] : null;
  }
  function functionVerdict(key) {
    if (!data.verdicts || state.filters.length || state.range) { return null; }
    return data.functionVerdicts.get(model.tree.keys.labels[key]) || 0;
  }
  const VERDICTS = ["noise", "more", "less"];

  // Goes to another state; what is a step of its own comes into the history.
  function go(change, quiet) {
    const before = state;
    state = { ...state, ...change };
    if (state.filters !== before.filters || state.group !== before.group) { keepPlace(before); }
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
  // In another tree the zoomed and the selected node are those of the same names.
  function keepPlace(before) {
    const { tree } = model;
    const names = (node) => pathOf(node).filter((at) => tree.key[at] < tree.keys.functions).map(nameOf);
    model.place = { zoom: names(before.zoom), selected: names(before.selected) };
    state.zoom = state.selected = 0;
    state.span = null;
  }
  function nodeOfNames(names) {
    const { tree } = model;
    let at = 0;
    for (const name of names) {
      for (let child = at + 1; child < tree.end[at]; child = tree.end[child]) {
        const isRow = tree.key[child] >= tree.keys.functions;
        const inRow = isRow && [...childrenOf(child)].find((of) => nameOf(of) === name);
        if (inRow || nameOf(child) === name) { at = inRow || child; break; }
      }
    }
    return names.length && nameOf(at) === names[names.length - 1] ? at : 0;
  }
  function* childrenOf(node) {
    const { tree } = model;
    for (let child = node + 1; child < tree.end[node]; child = tree.end[child]) { yield child; }
  }

  // Computes what the state needs and is not there, and draws all.
  let latest = 0;
  async function refresh() {
    const turn = ++latest;
    const treeKey = JSON.stringify([state.group, state.filters]);
    if (treeKey !== model.treeKey) {
      const building = buildTree({ group: state.group, filters: state.filters });
      const tree = building instanceof Promise ? await building : building;
      if (turn !== latest) { return; }
      Object.assign(model, { tree, treeKey, sumsKey: null });
    }
    const place = model.place;
    model.place = null;
    if (place) { state.zoom = nodeOfNames(place.zoom); state.selected = nodeOfNames(place.selected); }
    const sumsKey = JSON.stringify([state.value, state.range, state.base, state.side]);
    if (sumsKey !== model.sumsKey) { addUp(sumsKey); }
    const { tree, sums } = model;
    if (state.zoom >= tree.size || sums.total[state.zoom] === 0) { state.zoom = 0; }
    if (state.selected >= tree.size) { state.selected = 0; }
    if (state.key !== null && state.key >= tree.keys.functions) { state.key = null; }
    findHits();
    panes.forEach((pane) => pane.draw());
  }
  function addUp(sumsKey) {
    const { tree } = model;
    const { samples, about } = data;
    const add = (of, column, range) => core.sums(of, of.node, samples.values[column], core.slice(samples, range));
    const both = (column, range) => {
      const sums = add(tree, column, range);
      return [sums, core.functions(tree.fine, tree.fine.node === tree.node ? sums : add(tree.fine, column, range))];
    };
    const [column, old] = about.compared ? [1, 0] : [state.value, state.value];
    [model.after, model.functions] = both(column, state.range);
    model.base = model.baseFunctions = null;
    if (isCompared()) { [model.base, model.baseFunctions] = both(old, about.compared ? state.range : state.base); }
    // The side that gives the widths.
    model.sums = model.base && state.side === "before" ? model.base : model.after;
    model.whole = model.sums.total[0];
    model.start = core.layout(tree, model.sums);
    setRoles();
    model.largest = 0;
    for (let i = 0; model.base && i < tree.size; i++) {
      model.largest = Math.max(model.largest, Math.abs(change(model.base.own[i], model.after.own[i])));
    }
    Object.assign(model, { sumsKey, hitsKey: null, reversed: null });
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
    const kindOf = (node) => tree.key[node] < tree.keys.functions ?
      data.frames.kind[data.functions.first[tree.key[node]]] : 0;
    const waited = new Float64Array(tree.size);
    for (let i = tree.size - 1; waiting && i > 0; i--) {
      const kind = kindOf(i);
      if (kind >= WAITS && kind < WAKER) { waited[i] = sums.total[i]; }
      waited[tree.parent[i]] += waited[i];
      roles[i] = tree.key[i] < tree.keys.functions && waited[i] > sums.total[i] / 2 ? 1 : 0;
    }
    for (let i = 1; waker && i < tree.size; i++) {
      const caller = tree.parent[i];
      if (roles[caller] === 2 && kindOf(i) < 16 || caller > 0 && kindOf(caller) === WAKER) { roles[i] = 2; }
    }
  }
  function findHits() {
    const hitsKey = state.search + "\n" + state.zoom;
    if (hitsKey === model.hitsKey) { return; }
    if (model.hitsKey === null || !hitsKey.startsWith(model.searched + "\n")) { model.isStepping = false; }
    Object.assign(model, { hitsKey, searched: state.search, hits: null });
    $("search").removeAttribute("aria-invalid");
    if (!state.search) { return; }
    try {
      const { total } = model.sums;
      model.hits = core.findHits(model.tree, new RegExp(state.search, "u"), total, state.zoom);
      const { hit } = model.hits;
      const before = new Uint32Array(hit.length + 1);
      for (let i = 0; i < hit.length; i++) { before[i + 1] = before[i] + (hit[i] && total[i] > 0 ? 1 : 0); }
      model.hits.before = before;
      if (model.isStepping) { sortHits(); }
    } catch {
      $("search").setAttribute("aria-invalid", "true");
    }
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
    say("Adding up \u2026");
    return (worker === undefined ? startWorker() : Promise.resolve(worker))
      .then((at) => at ? inWorker(at, view) : inSlices(core.build(data, view)))
      .then((tree) => { say(""); return tree; });
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
  function say(text) { $("notes").textContent = text; }
