  // Lists of rows, of which only those in view are in the page: table, tree, callers, callees; and what says more.
  function makeList(holder, { columns, onChoose, onOpen }) {
    let rows = [];
    let chosen = -1;
    const spacer = element("div", { style: null });
    const height = () => isCoarse.matches ? 40 : 22;
    holder.append(spacer);
    function paint() {
      const high = height();
      // On paper they do not scroll.
      const count = Math.min(rows.length, isPrinted.matches ? 40 : rows.length);
      spacer.style.height = count * high + "px";
      const first = Math.max(0, Math.floor(holder.scrollTop / high) - 2);
      const last = Math.min(count, first + Math.ceil(holder.clientHeight / high) + 4);
      const made = [];
      for (let i = first; i < last; i++) {
        const row = element("div", { class: i === chosen ? "row chosen" : "row", role: "row", "aria-rowindex": i + 1,
          "aria-selected": i === chosen, id: holder.id + "-" + i }, ...columns(rows[i]));
        row.dataset.row = i;
        row.style.top = i * high + "px";
        made.push(row);
      }
      spacer.replaceChildren(...made);
      holder.setAttribute("aria-rowcount", rows.length);
      holder.setAttribute("aria-activedescendant", chosen >= 0 ? holder.id + "-" + chosen : "");
    }
    function choose(i) {
      if (i < 0 || i >= rows.length) { return; }
      chosen = i;
      reveal();
      paint();
      onChoose(rows[i]);
    }
    const rowOf = (event) => Number((event.target.closest(".row") || { dataset: { row: -1 } }).dataset.row);
    on(holder, "scroll", paint);
    on(holder, "click", (event) => {
      const i = rowOf(event);
      if (i < 0) { return; }
      if (event.target.classList.contains("toggle") && onOpen) { onOpen(rows[i], "toggle"); return; }
      if (!String(getSelection())) { choose(i); }
    });
    on(holder, "dblclick", (event) => { const i = rowOf(event); if (i >= 0 && onOpen) { onOpen(rows[i], "open"); } });
    on(holder, "keydown", (event) => {
      const by = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10, Home: -rows.length, End: rows.length }[event.key];
      if (by) { choose(Math.min(rows.length - 1, Math.max(0, chosen + by)));
      } else if (["Enter", "ArrowRight", "ArrowLeft"].includes(event.key) && chosen >= 0 && onOpen) {
        onOpen(rows[chosen], { Enter: "open", ArrowRight: "more", ArrowLeft: "less" }[event.key]);
      } else { return; }
      event.preventDefault();
      event.stopPropagation();
    });
    // What was chosen elsewhere comes into view.
    function reveal() {
      const high = height();
      if (chosen * high < holder.scrollTop) { holder.scrollTop = chosen * high; }
      if ((chosen + 1) * high > holder.scrollTop + holder.clientHeight) { holder.scrollTop = (chosen + 1) * high - holder.clientHeight; }
    }
    function set(next, isChosen) {
      const before = rows[chosen];
      rows = next;
      chosen = next.findIndex(isChosen || (() => false));
      if (chosen >= 0 && rows[chosen] !== before) { reveal(); }
      paint();
    }
    return { set, paint };
  }
  function number(value, of) {
    const cell = element("span", { class: "n", title: amount(value) }, percent(value, of));
    const bar = element("i", {});
    bar.style.width = Math.min(100, of ? 100 * value / of : 0) + "%";
    cell.append(bar);
    return cell;
  }
  // The name of a function or a row, by its key; `other` is that of what has none.
  function name(key, room, other, apart) {
    const { keys } = model.tree;
    const text = key === null ? other : core.withoutMark(textOf(key));
    const isFound = model.finder && (key === null ? model.finder.test(text) : model.isFound(keys.labels[key], key < keys.count));
    return element("span", { class: isFound ? "name found" : "name", title: key === null ? text : fullText(key) },
      apart || (room > 40 ? fitted(text, room) : text));
  }
  // A long name is cut where a namespace ends, as in the graph.
  const pen = document.createElement("canvas").getContext("2d");
  function fitted(text, room) {
    pen.font = "13px " + getComputedStyle(document.body).fontFamily;
    return fitName(text, room, (part) => pen.measureText(part).width) || text;
  }
  // What rows show whose names would be cut to one text: where each differs from the one that is most like it.
  function tellApart(lines, room) {
    const alike = new Map();
    for (const line of lines) {
      const seen = fitted(functionName(line), room) + "\n" + fileOf(moduleOf(line));
      alike.set(seen, (alike.get(seen) || new Set()).add(functionName(line)));
    }
    const shown = new Map();
    for (const texts of alike.values()) {
      for (const text of texts) {
        let shared = 0;
        for (const other of texts) {
          let i = 0;
          while (other !== text && i < text.length && text[i] === other[i]) { i++; }
          shared = Math.max(shared, i);
        }
        if (texts.size === 1) { continue; }
        // As much before that as there is surely room for: what is cut off is at the end.
        let from = Math.min(1, shared);
        while (from < shared - 8 && pen.measureText("\u2026" + text.slice(from)).width > 0.7 * room) { from++; }
        shown.set(text, (from ? "\u2026" : "") + text.slice(from));
      }
    }
    return shown;
  }
  function fileOf(path) { return path.replace(/.*\//, ""); }
  function changed(before, after, verdict) {
    return element("span", { class: "n change " + (verdict === null ? "" : VERDICTS[verdict]),
      title: amount(before) + " \u2192 " + amount(after) + (verdict === null ? "" : ", " + VERDICTS[verdict]) },
    changeText(before, after));
  }

  const table = (function () {
    let sorted = [];
    // Of the first rows.
    let apart = new Map();
    let known = "";
    const room = () => $("list").clientWidth - (model.baseFunctions ? 350 : 258);
    const list = makeList($("list"), {
      columns(line) {
        const { functions, functionsAfter: after, baseFunctions: before } = model;
        const module = moduleOf(line);
        return [number(functions.self[line], whole()), number(functions.total[line], whole()),
          ...(before ? [changed(before.total[line], after.total[line], functionVerdict(line))] : []),
          name(isFunction(line) ? keyOfLine(line) : null, room(), "[unknown]", apart.get(functionName(line))),
          element("span", { class: "module", title: module }, fileOf(module))];
      },
      onChoose(line) { if (isFunction(line)) { go({ key: keyOf(line) }, true); } },
      onOpen(line) { if (isFunction(line)) { go({ key: keyOf(line), view: "callers" }); } }
    });
    let listed = "";
    function draw() {
      const { baseFunctions } = model;
      const columns = ["self", "total", ...(baseFunctions ? ["change"] : []), "name", "module"];
      $("heads").replaceChildren(...columns.map((column) => {
        const isIt = column === state.sort;
        return element("button", { type: "button", role: "columnheader", class: { name: "name", module: "module",
          change: "n change" }[column] || "n", "aria-sort": isIt ? (column === "name" || column === "module" ? "ascending" : "descending") : null,
        onclick: () => go({ sort: column }) }, (column === "change" && ofShares() ? "points" : column) + (isIt ? " \u25be" : ""));
      }));
      const key = [model.sumsKey, model.treeKey, state.sort, state.table].join("\n");
      if (key !== listed) {
        listed = key;
        sorted = rows();
      }
      if (known !== key + room()) {
        known = key + room();
        apart = tellApart(sorted.slice(0, 200), room());
      }
      if ($("filter") !== document.activeElement) { $("filter").value = state.table; }
      $("count").textContent = grouped(sorted.length) + (sorted.length === 1 ? " function" : " functions");
      list.set(sorted, (of) => of === model.line);
    }
    function rows() {
      const { functions, functionsAfter: after, baseFunctions: before } = model;
      let test = () => true;
      $("filter").removeAttribute("aria-invalid");
      $("filter").title = "";
      try {
        const regexp = state.table && core.regexpOf(state.table, core.ignoresCase(state.table, ""));
        if (regexp) {
          const isFound = core.matcherOf(data, model.tree, regexp);
          test = (line) => regexp.test(moduleOf(line)) ||
            (isFunction(line) ? isFound(model.tree.keys.labels[keyOfLine(line)], true) : regexp.test(functionName(line)));
        }
      } catch (error) {
        $("filter").setAttribute("aria-invalid", "true");
        $("filter").title = "No regular expression: " + core.reasonOf(error);
      }
      const { self, total } = functions;
      const found = [];
      for (let line = 0; line < total.length; line++) {
        if ((after.total[line] > 0 || before && before.total[line] > 0) && test(line)) { found.push(line); }
      }
      const usual = (a, b) => self[b] - self[a] || total[b] - total[a] || a - b;
      const text = (of) => (a, b) => of(a) < of(b) ? -1 : of(a) > of(b) ? 1 : usual(a, b);
      const by = before && ((line) => Math.abs(change(before.total[line], after.total[line])));
      const orders = { self: usual, total: (a, b) => total[b] - total[a] || usual(a, b), name: text(functionName),
        module: text(moduleOf), change: (a, b) => by ? by(b) - by(a) || usual(a, b) : usual(a, b) };
      return found.sort(orders[state.sort]);
    }
    return { draw, paint: list.paint };
  })();
  panes.push(table);

  // The tree from the root, or from what was sampled; its hottest path is open at first.
  const treeView = (function () {
    let roots = [];
    let made = "";
    const list = makeList($("tree"), {
      columns(entry) {
        const mark = entry.children && !entry.children.length ? "" : entry.isOpen ? "\u25be" : "\u25b8";
        const toggle = element("span", { class: "toggle", "aria-hidden": "true" }, mark);
        toggle.style.marginLeft = 14 * entry.level + "px";
        return [number(entry.value, whole()), ...(state.up ? [] : [number(entry.own, whole())]), toggle, name(entry.key, 0, "all")];
      },
      onChoose(entry) { go(state.up ? { key: keyOf(entry.line), selected: null } : flame.choice(entry.node), true); },
      onOpen(entry, how) {
        const isOpen = how === "more" ? true : how === "less" ? false : !entry.isOpen;
        entry.isOpen = isOpen;
        fill(entry);
        show(entry);
      }
    });
    function fill(entry) {
      if (entry.children) { return; }
      const { tree, sums } = model;
      if (state.up) {
        entry.children = core.callersOf(tree.fine, entry.of).map((of) => ofCaller(of, entry.level + 1));
      } else {
        entry.children = [...childrenOf(entry.node)].filter((node) => sums.total[node] > 0)
          .sort((a, b) => sums.total[b] - sums.total[a] || a - b).map((node) => ofNode(node, entry.level + 1));
      }
    }
    function ofNode(node, level) {
      const { tree, sums } = model;
      return { node, level, key: node === 0 ? null : tree.key[node], value: sums.total[node], own: sums.own[node] };
    }
    function ofCaller(of, level) { return { of, level, line: of.key, key: keyOfLine(of.key), value: of.value }; }
    function show(chosen) {
      const rows = [];
      const add = (entries) => entries.forEach((entry) => {
        rows.push(entry);
        if (entry.isOpen) { add(entry.children); }
      });
      add(roots);
      list.set(rows, (entry) => entry === chosen);
    }
    function draw() {
      if (state.view !== "tree") { return; }
      $("up").setAttribute("aria-pressed", state.up);
      $("down").setAttribute("aria-pressed", !state.up);
      const key = [model.treeKey, model.sumsKey, state.up, model.zoom].join("\n");
      if (key === made) { list.paint(); return; }
      made = key;
      roots = state.up ? core.reversed(model.tree.fine, model.fineSums).map((of) => ofCaller(of, 0)) : [ofNode(model.zoom, 0)];
      for (let entry = roots[0], depth = 0; entry && depth < 40; entry = entry.children[0], depth++) {
        fill(entry);
        entry.isOpen = entry.children.length > 0;
        if (state.up || entry.children.length && entry.children[0].value < entry.value / 2) { break; }
      }
      show(null);
    }
    return { draw, paint: list.paint };
  })();
  panes.push(treeView);

  const callersView = (function () {
    const make = (id) => makeList($(id), {
      columns: ([line, value]) => [number(value, whole()), name(keyOfLine(line)),
        element("span", { class: "module", title: moduleOf(line) }, fileOf(moduleOf(line)))],
      onChoose() {},
      onOpen([line]) { if (isFunction(line)) { go({ key: keyOf(line), selected: null }); } }
    });
    const lists = [make("callers"), make("callees")];
    function draw() {
      if (state.view !== "callers") { return; }
      const { functions, tree, line, selected } = model;
      $("function").textContent = line !== null ? functionName(line) + ": " + percent(functions.total[line], whole()) + " total, " +
        percent(functions.self[line], whole()) + " self" : isMixed(selected) ? nameOf(selected) + " is " + modulesText(linesOf(selected)) +
        ": choose one of them." : "Choose a function in the table or in the graph.";
      const { callers, callees } = line === null ? { callers: [], callees: [] } : core.neighbours(tree.fine, model.fineSums, line);
      lists[0].set(callers);
      lists[1].set(callees);
    }
    return { draw, paint: () => lists.forEach((list) => list.paint()) };
  })();
  panes.push(callersView);

  // The selected frame, or the function in focus, in all its words.
  const detail = { draw() {
    const { line, selected, zoom, tree, sums, functions, base, functionsAfter, baseFunctions, after } = model;
    const facts = [];
    const add = (term, ...content) => { if (content[0]) { facts.push(element("dt", {}, term), element("dd", {}, ...content)); } };
    const of = (value) => amount(value) + ", " + percent(value, whole());
    const button = (text, title, click) => element("button", { type: "button", title, onclick: click }, text);
    const isFrame = selected > 0 && lineOf(selected) === line;
    if (isFrame) {
      add("here", of(sums.total[selected]) + "; itself " + of(sums.own[selected]));
      if (zoom > 0 && selected >= zoom && selected < tree.end[zoom]) {
        add("of the zoom", percent(sums.total[selected], sums.total[zoom]) + " of " + nameOf(zoom));
      }
      if (base) {
        add("change here", sides(base.total[selected], after.total[selected]) + verdictText(verdictOf(selected)));
      }
    }
    if (line !== null) {
      add("self", of(functions.self[line]));
      add("total", of(functions.total[line]));
      if (baseFunctions) {
        add("change", sides(baseFunctions.total[line], functionsAfter.total[line]) + verdictText(functionVerdict(line)));
      }
      add("module", moduleOf(line));
      add("source", sourceOf(line));
    }
    if (isFrame && isMixed(selected)) { add("in modules", ...linesOf(selected).map(partOf)); }
    if (isFrame && isRow(selected)) { add("command line", ...commandLinesOf(selected)); }
    const keys = isFrame ? core.partsOf(tree, selected).filter(isShown).map((node) => tree.fine.key[node]) :
      line === null ? [] : [...data.functions.row.keys()].filter((key) => data.functions.row[key] === line);
    add("kind", kindsOf(keys));
    const full = [...new Set(keys.map(fullText))];
    const more = full.length - MOST_NAMES;
    const title = line !== null ? functionName(line) : isFrame ? nameOf(selected) : "";
    if (full.length > 1 || full[0] !== title) {
      add("name", ...full.slice(0, MOST_NAMES).concat(more > 0 ? ["and " + grouped(more) + " more"] : []).map((text) => element("div", {}, text)));
    }
    add("tier", tiersOf(isFrame ? core.partsOf(tree, selected) : null, keys));
    $("detail").replaceChildren(...(title ? [element("b", {}, title), element("dl", {}, ...facts),
      ...(chosenNames() === null ? [] : [element("div", { class: "bar" },
        ...(line === null ? [] : [button("Callers", "Enter in the table", () => go({ view: "callers" }))]),
        button("Focus", "f", () => addFilter("focus")), button("Ignore", "x", () => addFilter("ignore")),
        button("Hide", "h", () => addFilter("hide")), button("From here", "b", () => addFilter("from-frame")),
        button("Copy name", "c", copyName), button("Copy stack", "C", copyStack))]), ...codeOf(line)] :
      [element("span", { class: "noise" }, "Point at a frame, or choose one, and here is what is known of it.")]));
    function isShown(node) { return model.fineSums.total[node] > 0 || model.fineBase && model.fineBase.total[node] > 0; }
    function sides(before, now) {
      const [old, all] = wholes();
      return amount(before) + ", " + percent(before, old) + " \u2192 " + amount(now) + ", " + percent(now, all) + ": " +
        changeWords(before, now);
    }
    function partOf({ line: of, total }) {
      const text = (isFunction(of) ? moduleOf(of) || "not known" : "a row") + ": " + amount(total);
      return element("div", {}, isFunction(of) ? button(text, "choose this one", () => go({ key: keyOf(of) })) : text);
    }
  } };
  // What the processes of a row were started as; the row may say it itself.
  function commandLinesOf(row) {
    const { node, end } = model.tree;
    const threads = new Set();
    node.forEach((of, i) => { if (of >= row && of < end[row]) { threads.add(data.samples.thread[i]); } });
    const found = new Set([...threads].map((of) => data.threads[of]).filter((of) => of.hasCmdline).map((of) => data.texts[of.cmdline]));
    if (found.has(nameOf(row))) { return []; }
    const more = found.size - MOST_COMMAND_LINES;
    return [...[...found].sort().slice(0, MOST_COMMAND_LINES), ...(more > 0 ? ["and " + grouped(more) + " more"] : [])]
      .map((text) => element("div", {}, text));
  }
  const MOST_COMMAND_LINES = 8;
  const MOST_NAMES = 8;
  // How far a compiler at run time had got with a function; of a frame, which part of it was in which tier.
  const TIERS = ["", "interpreted", "compiled quickly", "optimized", "compiled ahead of time"];
  function tiersOf(nodes, keys) {
    const tierOf = (key) => key < model.tree.keys.count ? data.frames.tier[data.functions.first[key]] : 0;
    const totals = new Map();
    keys.forEach((key) => totals.set(tierOf(key), 0));
    if (!nodes || totals.size < 2) { return [...totals.keys()].sort().map((tier) => TIERS[tier]).filter(Boolean).join(", "); }
    nodes.forEach((node) => {
      const tier = tierOf(model.tree.fine.key[node]);
      totals.set(tier, (totals.get(tier) || 0) + model.fineSums.total[node]);
    });
    return [...totals].sort((a, b) => b[1] - a[1]).map(([tier, total]) => (TIERS[tier] || "not known") + " " + amount(total)).join(", ");
  }
  // The names that the function in focus, or the chosen frame, has in filters; null for what is none.
  function chosenNames() {
    const { line, selected, tree } = model;
    const key = line !== null ? keyOfLine(line) : selected > 0 && !isRow(selected) ? tree.key[selected] : null;
    return key === null ? null : data.names.get(tree.keys.labels[key]).map((of) => data.texts[of]);
  }
  const KINDS = ["user", "kernel", "inlined", "compiled at run time", "interpreted"];
  function kindsOf(keys) {
    const kinds = keys.filter((key) => key < model.tree.keys.count).map((key) => KINDS[data.functions.kind[key]] || "remark");
    return [...new Set(kinds)].join(" and ");
  }
  // Where the function is: its file, and the line if all its frames have one.
  function sourceOf(line) {
    const { file, line: lines, label, module } = data.frames;
    const first = data.functions.first[data.functions.firstKey[line]];
    let isOne = true;
    for (let i = first; label[i] === label[first] && module[i] === module[first]; i++) {
      if (file[i] !== file[first]) { return ""; }
      isOne = isOne && lines[i] === lines[first];
    }
    return data.texts[file[first]] + (isOne && lines[first] ? ":" + lines[first] : "");
  }
  // Source and instructions, as they were packed: `crates/render/src/annotate/packed.rs` says what rows are.
  function codeOf(of) {
    const code = of === null ? null : data.code.find(({ name, module }) => module === moduleOf(of) && asShown(name) === textOf(keyOfLine(of)));
    if (!code) { return []; }
    const line = (row) => row.length > 2 ? element("div", {},
      element("span", { class: "share" }, row[0] ? (100 * row[0] / code.self).toFixed(2) : ""), row[2] + " " + row[1] + "  " + row[3]) :
      element("div", { class: "source" }, row.length > 1 ? row.join("  ") :
        typeof row[0] === "number" ? "\u2026 " + row[0] + " instructions without samples" : row[0]);
    return [element("details", { open: true }, element("summary", {}, "Source and instructions (whole profile)"),
      ...[code.hottest && "hottest: " + code.hottest, ...code.notes].filter(Boolean).map((text) => element("p", {}, text)),
      element("pre", {}, ...code.rows.map(line)))];
  }
  function changeWords(before, after) { return changeText(before, after) + (ofShares() ? " points" : ""); }
  function verdictText(verdict) {
    if (verdict === null) { return " (not judged: " + unjudged() + ")"; }
    return verdict ? ", " + VERDICTS[verdict] + " " + (data.about.compared ? data.about.compared.meaning : "beyond noise at 95 %") : ", noise";
  }
  // Why there is no verdict.
  function unjudged() {
    const { about } = data;
    if (about.compared) { return model.verdicts ? "by name, and it is in several modules" : "only the whole of both files is"; }
    return "these are sums of samples";
  }
  panes.push(detail);
