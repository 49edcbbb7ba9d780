  // Controls, keys and pointers.
  function addFilter(kind) {
    if (kind === "fold-recursion") {
      const has = state.filters.some((of) => of.kind === kind);
      return go({ filters: has ? state.filters.filter((of) => of.kind !== kind) : [...state.filters, { kind, text: "" }] });
    }
    const names = chosenNames();
    if (names === null) { return say("Choose a function first."); }
    const escaped = names.map((name) => name.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
    const text = escaped.length > 1 ? "^(" + escaped.join("|") + ")$" : "^" + escaped[0] + "$";
    if (state.filters.some((of) => of.kind === kind && of.text === text)) { return undefined; }
    return go({ filters: [...state.filters, { kind, text }] });
  }
  function addThread(thread) {
    const of = data.threads[thread];
    const filter = of.tid !== null ? { kind: "tid", text: String(of.tid) } :
      { kind: "comm", text: data.texts[of.name || of.process] };
    if (filter.text) { go({ filters: [...state.filters.filter((old) => old.kind !== filter.kind), filter] }); }
  }
  async function copy(text, what) {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      // Frames without the permission have only this.
      const area = element("textarea", { readonly: "" });
      area.value = text;
      document.body.append(area);
      area.select();
      const done = document.execCommand("copy");
      area.remove();
      if (!done) { prompt("Copy:", text); }
    }
    say(what + " copied");
  }
  function plainName(node) { return node === 0 ? "all" : ownName(node); }
  function copyName() {
    return copy(core.withoutMark(model.line !== null ? ownText(keyOfLine(model.line)) : plainName(model.selected || model.zoom)), "Name");
  }
  function copyStack() {
    return copy(pathOf(model.selected || model.zoom).map((node) => core.withoutMark(ownName(node))).join(";"), "Stack");
  }
  function fileName() {
    const name = decodeURIComponent(location.pathname.split("/").pop() || "");
    return /\.html?$/.test(name) ? name : "app.html";
  }

  const controls = { draw() {
    for (const name of ["value", "group", "side"]) { $(name).value = state[name]; }
    $("side-label").hidden = !model.base;
    document.querySelectorAll("[data-view]").forEach((tab) => {
      if (tab.tagName === "BUTTON") { tab.setAttribute("aria-selected", tab.dataset.view === state.view); }
    });
    if ($("search") !== document.activeElement) { $("search").value = state.search; }
    found();
    chips();
    const path = [0, ...pathOf(model.zoom)];
    const zoom = (node) => element("button", { type: "button", onclick: () => flame.zoomTo(node) }, nameOf(node));
    $("path").replaceChildren(...path.flatMap((node, i) => i ? [" \u203a ", zoom(node)] : [zoom(node)]),
      " \u2003" + amount(model.sums.total[model.zoom]) + ", " + percent(model.sums.total[model.zoom], whole()));
    $("path").scrollLeft = $("path").scrollWidth;
    const { samples } = model.after;
    const count = data.about.step || samples !== 1 ? " samples" : " sample";
    const text = grouped(samples) + (data.about.step ? " sums of" : "") + count;
    const isTimed = data.samples.untimed < data.samples.count && !data.about.sums;
    // Where samples are counted, and all are shown, it stands there already.
    $("sample-count").textContent = isTimed && !data.about.subtitle.startsWith(text) ? " \u00b7 " + text : "";
    legend();
  } };
  function chips() {
    $("chips").replaceChildren(...state.filters.map((filter) => {
      const text = filter.kind.replace(/-/g, " ") + (filter.text ? " " + filter.text : "");
      return element("button", { type: "button", title: filter.wrong || "Take off", class: filter.wrong ? "wrong" : null,
        "aria-label": "Take off: " + text,
        onclick: () => go({ filters: state.filters.filter((of) => of !== filter) }) }, text + " \u2715");
    }));
  }
  function found() {
    const { hits } = model;
    $("previous").disabled = $("next").disabled = !hits || !hits.nodes.length;
    const ignores = core.ignoresCase(state.search, state.case);
    $("case").setAttribute("aria-pressed", ignores);
    $("case").title = (ignores ? "Upper and lower case are alike" : "Upper and lower case differ") + (state.case ? "" : ", as what is typed suggests");
    $("search").setAttribute("aria-invalid", Boolean(model.wrong));
    if (!hits) { $("found").textContent = model.wrong; return; }
    const at = model.isStepping ? hits.nodes.indexOf(model.selected) : -1;
    $("found").textContent = (hits.nodes.length ? (at >= 0 ? grouped(at + 1) + "/" : "") + grouped(hits.nodes.length) : "none") +
      ": " + percent(hits.all, whole()) + " of all" +
      (model.zoom ? ", " + percent(hits.zoomed, model.sums.total[model.zoom]) + " of the zoomed" : "");
    $("found").title = $("found").textContent;
  }
  function step(by) {
    const { hits } = model;
    if (!hits || !hits.nodes.length) { return; }
    if (!model.isStepping) { model.isStepping = true; sortHits(); }
    const at = hits.nodes.indexOf(model.selected);
    const next = hits.nodes[(at + by + hits.nodes.length) % hits.nodes.length];
    const isInView = !state.span && next >= model.zoom && next < model.tree.end[model.zoom];
    const { total } = model.sums;
    const narrow = total[next] / total[isInView ? model.zoom : 0] * flame.canvas.clientWidth < 3;
    const change = isInView && !narrow ? {} : { zoom: narrow ? placeOf(next) : null, span: null };
    go(change, true).then(() => flame.select(next));
  }
  function legend() {
    const swatch = (colour, text) => {
      const mark = element("i", {});
      mark.style.background = colour;
      return element("span", {}, mark, text);
    };
    const { legend: meanings, paints, change: steps } = data.about;
    $("legend").replaceChildren(...(model.base ?
      [swatch(shade(steps[24])[0], "more"), swatch(shade(steps[12])[0], model.verdicts ? "same or noise" : "same"),
        swatch(shade(steps[0])[0], "less"), model.verdicts ? "\u25b2 \u25bc beyond noise" : "changes are not judged here: " + unjudged()] :
      [...meanings.map(([paint, meaning]) => swatch(shade(paints[paint])[0], meaning)),
        ...(data.about.waker ? [swatch(shade(data.about.waker)[0], "waker")] : [])]));
  }
  panes.unshift(controls);

  function head() {
    const { about } = data;
    document.title = about.title;
    $("title").textContent = about.title;
    $("line").append(about.subtitle, element("span", { id: "sample-count" }),
      about.step ? " \u00b7 so many samples that those of a stack within " + about.step / 1e6 + " ms are added up" : "");
    const option = (value, text) => element("option", { value }, text);
    $("value").append(...about.values.map((of, i) => option(i, of.name + (of.unit && of.unit !== "count" ? " (" + of.unit + ")" : ""))));
    $("value-label").hidden = about.values.length < 2 || Boolean(about.compared);
    const has = (test) => data.threads.some(test);
    const known = { name: has((of) => of.labels[0]), process: has((of) => of.pid !== null), pool: has((of) => of.name || of.process),
      thread: has((of) => of.tid !== null), cpu: data.samples.cpu,
      cgroup: has((of) => of.cgroup), cmdline: has((of) => of.hasCmdline), host: has((of) => of.host), none: true };
    const options = [...$("group").options];
    options.filter((of) => !known[of.value]).forEach((of) => of.remove());
    // Then the usual grouping puts nothing there.
    if (!known.name) { options.find((of) => of.value === "none").value = "name"; }
    $("group").parentNode.hidden = $("group").options.length < 2;
  }
  function onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || $("keys-help").open || isWrong() && event.key !== "Backspace") { return; }
    if (/^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) {
      if (event.key === "Escape" && event.target.value !== undefined) { event.target.blur(); }
      return;
    }
    const inGraph = state.view === "flame" && (event.target === flame.keys || event.target === document.body);
    const actions = {
      "/": () => $("search").focus(), n: () => step(1), N: () => step(-1), "?": () => $("keys-help").showModal(),
      i: () => go({ upright: !state.upright }), a: () => go({ all: !state.all }), t: () => timeline.turnTo("threads"), s: () => timeline.turnTo("seconds"),
      1: () => go({ view: "flame" }), 2: () => go({ view: "tree" }), 3: () => go({ view: "callers" }),
      c: copyName, C: copyStack, f: () => addFilter("focus"), x: () => addFilter("ignore"), h: () => addFilter("hide"),
      b: () => addFilter("from-frame"), r: () => addFilter("fold-recursion"),
      Backspace: () => state.filters.length && go({ filters: state.filters.slice(0, -1) })
    };
    const graph = {
      Enter: () => flame.zoomTo(model.selected || model.zoom), " ": () => flame.zoomTo(model.selected || model.zoom),
      Escape: () => go({ zoom: null, span: null }), Home: () => go({ zoom: null, span: null }),
      "+": () => zoomMiddle(0.5), "-": () => zoomMiddle(2)
    };
    const action = actions[event.key] || (inGraph && (graph[event.key] || (event.key.startsWith("Arrow") && (() => flame.move(event.key)))));
    if (!action) { return; }
    action();
    event.preventDefault();
  }
  function zoomMiddle(factor) {
    const box = flame.canvas.getBoundingClientRect();
    flame.zoomAt(box.left + box.width / 2, factor);
  }

  function pointers() {
    const { canvas, scroller, keys } = flame;
    const tip = $("tip");
    let touched = false;
    const fingers = new Map();
    let spread = 0;
    function apart() {
      const xs = [...fingers.values()];
      return xs.length === 2 ? Math.abs(xs[0] - xs[1]) : 0;
    }
    function show(at, event) {
      if (!at) { tip.hidden = true; return; }
      const { total, own } = model.sums;
      const lines = at.last ? ["frames too narrow to be drawn alone", "the first: " + nameOf(at.node)] :
        [nameOf(at.node), amount(total[at.node]) + ", " + percent(total[at.node], whole()) + " of all; itself " + amount(own[at.node])];
      if (!at.last && model.zoom && at.node > model.zoom && at.node < model.tree.end[model.zoom]) {
        lines.push(percent(total[at.node], total[model.zoom]) + " of " + nameOf(model.zoom));
      }
      if (!at.last && model.base) {
        const verdict = verdictOf(at.node);
        lines.push(changeWords(model.base.total[at.node], model.after.total[at.node]) + (verdict === null ? "" : ", " + VERDICTS[verdict]));
      }
      const full = at.last || at.node === 0 ? lines[0] : fullText(leadOf(at.node));
      if (full !== lines[0]) { lines.push(full); }
      const module = at.last || at.node === 0 ? "" : modulesText(linesOf(at.node));
      if (module) { lines.push(module); }
      const more = at.last ? 0 : model.rows.more[at.node];
      if (more) { lines.push("+" + rowsText(more) + " of the start of threads in this one; a shows them"); }
      tip.replaceChildren(...lines.map((line, i) => element(i ? "span" : "b", {}, line)));
      tip.hidden = false;
      tip.style.left = Math.max(4, Math.min(event.clientX + 12, innerWidth - tip.offsetWidth - 4)) + "px";
      const below = event.clientY + 18;
      tip.style.top = (below + tip.offsetHeight > innerHeight ? event.clientY - tip.offsetHeight - 8 : below) + "px";
    }
    on(canvas, "pointerdown", (event) => {
      touched = event.pointerType === "touch";
      fingers.set(event.pointerId, event.clientX);
      spread = apart();
    });
    on(canvas, "pointermove", (event) => {
      if (event.pointerType !== "touch") { show(flame.under(event), event); return; }
      if (!fingers.has(event.pointerId)) { return; }
      const last = fingers.get(event.pointerId);
      fingers.set(event.pointerId, event.clientX);
      const xs = [...fingers.values()];
      if (xs.length === 1) { flame.pan(last - event.clientX); return; }
      const now = apart();
      if (spread && now > 10) { flame.zoomAt((xs[0] + xs[1]) / 2, spread / now); }
      spread = now;
    });
    on(canvas, "pointerup pointercancel pointerleave", (event) => {
      fingers.delete(event.pointerId);
      spread = apart();
      tip.hidden = true;
    });
    on(canvas, "click", (event) => {
      const at = flame.under(event);
      if (!at) { return; }
      // A finger selects first; a second tap zooms.
      if (touched && model.selected !== at.node) { flame.select(at.node); return; }
      go({ zoom: placeOf(at.node), span: null, ...flame.choice(at.node) });
      keys.focus({ preventScroll: true });
    });
    on(canvas, "contextmenu", (event) => {
      const at = flame.under(event);
      if (at) { flame.select(at.node); event.preventDefault(); }
    });
    on(scroller, "wheel", (event) => {
      tip.hidden = true;
      if (event.ctrlKey) {
        flame.zoomAt(event.clientX, Math.exp(Math.max(-60, Math.min(60, event.deltaY)) / 150));
        event.preventDefault();
      } else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
        flame.pan(event.deltaX || event.deltaY);
        event.preventDefault();
      }
    }, { passive: false });
    on(scroller, "scroll", () => { tip.hidden = true; flame.draw(); });
    on(keys, "focus", () => flame.showRing(true));
    on(keys, "blur", () => flame.showRing(false));
  }
  function wire() {
    on($("value"), "change", (event) => go({ value: Number(event.target.value) }));
    on($("group"), "change", (event) => go({ group: event.target.value }));
    on($("side"), "change", (event) => go({ side: event.target.value }));
    document.querySelectorAll("button[data-view]").forEach((tab) => {
      on(tab, "click", () => go({ view: tab.dataset.view }));
    });
    const pane = (name) => {
      document.body.dataset.pane = name;
      document.querySelectorAll("button[data-pane]").forEach((tab) => tab.setAttribute("aria-selected", tab.dataset.pane === name));
      drawAll();
    };
    document.querySelectorAll("button[data-pane]").forEach((tab) => on(tab, "click", () => pane(tab.dataset.pane)));
    // Letters that are typed are one step of the history.
    const typed = (input, name) => {
      let before = null;
      on(input, "focus", () => { before = null; });
      on(input, "input", () => {
        go({ [name]: input.value }, before === state);
        before = state;
      });
      on(input, "keydown", (event) => { if (event.key === "Enter" && name === "search") { step(event.shiftKey ? -1 : 1); } });
    };
    typed($("search"), "search");
    typed($("filter"), "table");
    on($("case"), "click", () => {
      const wanted = core.ignoresCase(state.search, state.case) ? "exact" : "ignore";
      const usual = core.ignoresCase(state.search, "") ? "ignore" : "exact";
      go({ case: wanted === usual ? "" : wanted });
    });
    on($("next"), "click", () => step(1));
    on($("previous"), "click", () => step(-1));
    on($("up"), "click", () => go({ up: true }));
    on($("down"), "click", () => go({ up: false }));
    on($("link"), "click", () => copy(location.href.replace(/#.*/, "") + "#" + core.toHash(state, data.about), "Link"));
    on($("command"), "click", () => copy(core.commandLine(state, data.about, fileName()), "Command"));
    on($("help"), "click", () => $("keys-help").showModal());
    on($("keys-help"), "click", () => $("keys-help").close());
    on(document, "keydown", onKey);
    on(window, "hashchange popstate", follow);
    timeline.start();
    pointers();
    let width = 0;
    const resized = new ResizeObserver(() => {
      const now = [flame.scroller.clientWidth, flame.scroller.clientHeight, $("timeline").clientWidth].join();
      if (now !== width) { width = now; drawAll(); }
    });
    resized.observe(flame.scroller);
    resized.observe(document.body);
    for (const setting of [darkSetting, isCoarse, isPrinted]) {
      on(setting, "change", () => drawAll());
    }
    pane("main");
  }
  // The address was changed: by Back, by a link, by hand.
  function follow() {
    const next = core.fromHash(location.hash, data.about);
    if (core.toHash(next, data.about) === core.toHash(state, data.about)) { return; }
    state = next;
    refresh();
  }
  async function start() {
    // What stands in for it where scripts are forbidden.
    document.documentElement.dataset.runs = "";
    $("page").hidden = false;
    try {
      const bytes = await gunzip($("pyrograph-profile").textContent.trim());
      data = core.decode(bytes);
      if (data.stacks.parent.length >= MANY) { data.bytes = bytes; }
    } catch (error) {
      remark("This browser cannot unpack the profile: " + error.message);
      return;
    }
    state = core.fromHash(location.hash, data.about);
    head();
    await refresh();
    wire();
  }
  start();
