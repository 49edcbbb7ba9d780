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
      const high = height();
      if (i * high < holder.scrollTop) { holder.scrollTop = i * high; }
      if ((i + 1) * high > holder.scrollTop + holder.clientHeight) { holder.scrollTop = (i + 1) * high - holder.clientHeight; }
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
    return { set(next, isChosen) { rows = next; chosen = next.findIndex(isChosen || (() => false)); paint(); }, paint };
  }
  function number(value, of) {
    const cell = element("span", { class: "n", title: amount(value) }, percent(value, of));
    const bar = element("i", {});
    bar.style.width = Math.min(100, of ? 100 * value / of : 0) + "%";
    cell.append(bar);
    return cell;
  }
  function name(text, room) {
    return element("span", { class: "name", title: text }, room > 40 ? fitted(text, room) : text);
  }
  // A long name is cut where a namespace ends, as in the graph.
  const pen = document.createElement("canvas").getContext("2d");
  function fitted(text, room) {
    pen.font = "13px " + getComputedStyle(document.body).fontFamily;
    return fitName(text, room, (part) => pen.measureText(part).width) || text;
  }
  function changed(before, after, verdict) {
    return element("span", { class: "n change " + (verdict === null ? "" : VERDICTS[verdict]),
      title: amount(before) + " \u2192 " + amount(after) + (verdict === null ? "" : ", " + VERDICTS[verdict]) },
    changeText(before, after));
  }

  const table = (function () {
    let sorted = [];
    const list = makeList($("list"), {
      columns(key) {
        const { functions, baseFunctions } = model;
        return [number(functions.self[key], whole()), number(functions.total[key], whole()),
          ...(baseFunctions ? [changed(baseFunctions.total[key], functions.total[key], functionVerdict(key))] : []),
          name(functionName(key), $("list").clientWidth - (baseFunctions ? 328 : 236)), element("span", { class: "module", title: moduleOf(key) }, moduleOf(key).replace(/.*\//, ""))];
      },
      onChoose(key) { if (key < data.functions.first.length) { go({ key }, true); } },
      onOpen(key) { if (key < data.functions.first.length) { go({ key, view: "callers" }); } }
    });
    let listed = "";
    function draw() {
      const { functions, baseFunctions } = model;
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
        sorted = rows(functions, baseFunctions);
      }
      if ($("filter") !== document.activeElement) { $("filter").value = state.table; }
      $("count").textContent = grouped(sorted.length) + (sorted.length === 1 ? " function" : " functions");
      list.set(sorted, (of) => of === state.key);
    }
    function rows(functions, before) {
      let test = () => true;
      try {
        const regexp = state.table && new RegExp(state.table, "ui");
        if (regexp) { test = (key) => regexp.test(functionName(key)) || regexp.test(moduleOf(key)); }
        $("filter").removeAttribute("aria-invalid");
      } catch {
        $("filter").setAttribute("aria-invalid", "true");
      }
      const { self, total } = functions;
      const found = [];
      for (let key = 0; key < total.length; key++) {
        if ((total[key] > 0 || before && before.total[key] > 0) && test(key)) { found.push(key); }
      }
      const usual = (a, b) => self[b] - self[a] || total[b] - total[a] || a - b;
      const text = (of) => (a, b) => of(a) < of(b) ? -1 : of(a) > of(b) ? 1 : usual(a, b);
      const by = before && ((key) => Math.abs(change(before.total[key], total[key])));
      const orders = { self: usual, total: (a, b) => total[b] - total[a] || usual(a, b), name: text(functionName),
        module: text(moduleOf), change: (a, b) => by ? by(b) - by(a) || usual(a, b) : usual(a, b) };
      return found.sort(orders[state.sort]);
    }
    return { draw, paint: list.paint };
  })();
  panes.push(table);
  function functionName(key) { return key < data.functions.first.length ? keyName(key) : "[unknown]"; }

  // The tree from the root, or from what was sampled; its hottest path is open at first.
  const treeView = (function () {
    let roots = [];
    let made = "";
    const list = makeList($("tree"), {
      columns(entry) {
        const mark = entry.children && !entry.children.length ? "" : entry.isOpen ? "\u25be" : "\u25b8";
        const toggle = element("span", { class: "toggle", "aria-hidden": "true" }, mark);
        toggle.style.marginLeft = 14 * entry.level + "px";
        return [number(entry.value, whole()), ...(state.up ? [] : [number(entry.own, whole())]), toggle, name(entry.name)];
      },
      onChoose(entry) {
        const key = entry.key < model.tree.keys.functions ? entry.key : null;
        go({ key, selected: state.up ? state.selected : entry.node }, true);
      },
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
      return { node, level, key: tree.key[node], name: nameOf(node), value: sums.total[node], own: sums.own[node] };
    }
    function ofCaller(of, level) { return { of, level, key: of.key, name: keyName(of.key), value: of.value }; }
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
      $("tree-view").hidden = state.view !== "tree";
      if (state.view !== "tree") { return; }
      $("up").setAttribute("aria-pressed", state.up);
      $("down").setAttribute("aria-pressed", !state.up);
      const key = [model.treeKey, model.sumsKey, state.up, state.zoom].join("\n");
      if (key === made) { list.paint(); return; }
      made = key;
      const { tree, sums } = model;
      if (state.up) {
        const fine = tree.fine.node === tree.node ? sums :
          core.sums(tree.fine, tree.fine.node, data.samples.values[state.value], core.slice(data.samples, state.range));
        roots = core.reversed(tree.fine, fine).map((of) => ofCaller(of, 0));
      } else {
        roots = [ofNode(state.zoom, 0)];
      }
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
      columns: ([key, value]) => [number(value, whole()), name(keyName(key))],
      onChoose() {},
      onOpen([key]) { if (key < model.tree.keys.functions) { go({ key }); } }
    });
    const lists = [make("callers"), make("callees")];
    function draw() {
      $("callers-view").hidden = state.view !== "callers";
      if (state.view !== "callers") { return; }
      const { key } = state;
      const { functions, tree } = model;
      $("function").textContent = key === null ? "Choose a function in the table or in the graph." :
        functionName(key) + ": " + percent(functions.total[key], whole()) + " total, " +
        percent(functions.self[key], whole()) + " self";
      if (key === null) { lists.forEach((list) => list.set([])); return; }
      const fine = tree.fine.node === tree.node ? model.after :
        core.sums(tree.fine, tree.fine.node, data.samples.values[state.value], core.slice(data.samples, state.range));
      const { callers, callees } = core.neighbours(tree.fine, fine, key);
      lists[0].set(callers);
      lists[1].set(callees);
    }
    return { draw, paint: () => lists.forEach((list) => list.paint()) };
  })();
  panes.push(callersView);

  // The selected frame, or the function in focus, in all its words.
  const detail = { draw() {
    const holder = $("detail");
    const { key, selected, zoom } = state;
    const { tree, sums, functions, base, baseFunctions, after } = model;
    const facts = [];
    const add = (term, text) => { if (text) { facts.push(element("dt", {}, term), element("dd", {}, text)); } };
    const of = (value) => amount(value) + ", " + percent(value, whole());
    const isFrame = selected > 0 && (key === null || tree.keys.labels[tree.key[selected]] === tree.keys.labels[key]);
    if (isFrame) {
      add("here", of(sums.total[selected]) + "; itself " + of(sums.own[selected]));
      if (zoom > 0 && selected >= zoom && selected < tree.end[zoom]) {
        add("of the zoom", percent(sums.total[selected], sums.total[zoom]) + " of " + nameOf(zoom));
      }
      if (base) {
        const verdict = verdictOf(selected);
        add("change here", of(base.total[selected]) + " \u2192 " + of(after.total[selected]) + ": " +
          changeWords(base.total[selected], after.total[selected]) + verdictText(verdict));
      }
    }
    if (key !== null) {
      add("self", of(functions.self[key]));
      add("total", of(functions.total[key]));
      if (baseFunctions) {
        add("change", changeWords(baseFunctions.total[key], functions.total[key]) + verdictText(functionVerdict(key)));
      }
      add("module", moduleOf(key));
      const frame = data.functions.first[key];
      const { file, line, kind } = data.frames;
      add("source", data.texts[file[frame]] + (line[frame] ? ":" + line[frame] : ""));
      add("kind", ["user", "kernel", "inlined", "compiled at run time", "interpreted"][kind[frame]] || "remark");
    }
    const title = key !== null ? functionName(key) : isFrame ? nameOf(selected) : "";
    const button = (text, title, click) => element("button", { type: "button", title, onclick: click }, text);
    holder.replaceChildren(...(title ? [element("b", {}, title), element("dl", {}, ...facts),
      ...(key === null ? [] : [element("div", { class: "bar" },
        button("Callers", "Enter in the table", () => go({ view: "callers" })),
        button("Focus", "f", () => addFilter("focus")), button("Ignore", "x", () => addFilter("ignore")),
        button("Hide", "h", () => addFilter("hide")), button("From here", "b", () => addFilter("from-frame")),
        button("Copy name", "c", copyName), button("Copy stack", "C", copyStack))]), ...codeOf(key)] :
      [element("span", { class: "noise" }, "Point at a frame, or choose one, and here is what is known of it.")]));
  } };
  // Source and instructions, as they were packed: `crates/render/src/annotate/packed.rs` says what rows are.
  function codeOf(key) {
    const code = key === null ? null : data.code.find((of) => of.name === functionName(key) && of.module === moduleOf(key));
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
    if (verdict === null) { return " (not judged: only whole profiles are)"; }
    return verdict ? ", " + VERDICTS[verdict] + " " + data.about.compared.meaning : ", noise";
  }
  panes.push(detail);
