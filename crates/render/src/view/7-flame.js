  // The flame graph: only what is half a pixel wide or more is drawn, runs of narrower frames as one tint.
  const flame = (function () {
    const canvas = $("canvas");
    const scroller = $("scroller");
    const tree = $("keys");
    const PADDING = 3;
    const LEAST = 0.5;
    let row = 18;
    let depth = 1;
    let hasRing = false;
    const advances = new Map();
    const boxes = [];

    // What is in view: a part of the whole, as values.
    function view() {
      const { total } = model.sums;
      if (!state.span) { return { from: model.start[model.zoom], size: total[model.zoom] || 1 }; }
      const [from, to] = state.span;
      return { from: from * total[0], size: (to - from) * total[0] || 1 };
    }
    // Whose callees are drawn: a part of the width is one of all.
    function outermost() { return state.span ? 0 : model.zoom; }
    function deepest() {
      const { tree, sums } = model;
      const { level } = model.rows;
      let most = 0;
      for (let i = outermost(); i < tree.end[outermost()]; i++) {
        if (level[i] > most && sums.total[i] > 0) { most = level[i]; }
      }
      return most + 1;
    }
    function textWidth(context, text) {
      let sum = 0;
      for (const c of text) {
        if (!advances.has(c)) { advances.set(c, context.measureText(c).width); }
        sum += advances.get(c);
      }
      return sum;
    }
    function top(level) { return state.upright ? sheetHeight() - (level + 1) * row : level * row; }
    function sheetHeight() { return Math.max(depth * row, state.upright ? scroller.clientHeight : 0); }

    function draw() {
      if (!isShown()) { return; }
      $("main").dataset.view = state.view;
      scroller.hidden = $("legend").hidden = state.view !== "flame";
      // The others are gone before the room is measured that is left.
      for (const view of ["tree", "callers"]) { $(view + "-view").hidden = state.view !== view; }
      if (scroller.hidden || !canvas.clientWidth) { return; }
      row = isCoarse.matches ? 28 : 18;
      depth = deepest();
      $("sheet").style.height = depth * row + "px";
      const width = canvas.clientWidth;
      const height = Math.max(row, Math.min(scroller.clientHeight, 4000));
      const ratio = window.devicePixelRatio || 1;
      canvas.style.height = height + "px";
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
      const context = canvas.getContext("2d");
      context.scale(ratio, ratio);
      context.font = "12px " + getComputedStyle(document.body).fontFamily;
      context.textBaseline = "middle";
      paint(context, width, height);
      describe();
    }
    function colourOf(node) {
      const { base, after, hits, largest } = model;
      if (hits) { return isHit(node) ? look.hit : look.plain; }
      if (base) {
        // As in the picture of a comparison: by the whole of a frame, and noise has none.
        const by = change(base.total[node], after.total[node]);
        const verdict = verdictOf(node);
        const sign = verdict === null ? Math.sign(by) : verdict ? 3 - 2 * verdict : 0;
        const strength = Math.min(1, Math.max(0.3, Math.sqrt(Math.abs(by) / (largest || 1))));
        return look.change[STEPS + sign * Math.ceil(STEPS * strength - 1e-9)];
      }
      // A process and a function of its name beside it are one frame: whichever most of it is.
      if (node === 0 || leadOf(node) >= model.tree.keys.count) { return look.whole; }
      if (model.roles && model.roles[node]) { return look.roles[model.roles[node]]; }
      return look.paints[data.frames.paint[data.functions.first[leadOf(node)]]];
    }
    // Whether it was found, or one of the rows that it stands for.
    function isHit(node) {
      if (model.hits.hit[node]) { return true; }
      if (!model.rows.more[node]) { return false; }
      return [...childrenOf(node)].some((child) => model.rows.folded[child] && isHit(child));
    }
    // The frame that is drawn for a node.
    function drawnFor(node) {
      while (model.rows.folded[node] && node !== outermost()) { node = model.tree.parent[node]; }
      return node;
    }
    const STEPS = 12;
    let look;
    function setLook() {
      const plain = isDark() ? "#34343b" : "#e4e4e8";
      const { waiting, waker } = data.about;
      look = { roles: [null, waiting && shade(waiting), waker && shade(waker)], paints: data.about.paints.map(shade), change: data.about.change.map(shade), whole: shade(data.about.whole),
        hit: isDark() ? ["#b0006a", "#fff"] : ["#f06abf", "#000"], plain: [plain, isDark() ? "#ddd" : "#333"],
        text: cssColour("text"), mark: cssColour("hit"), tint: isDark() ? "#55555f" : "#c9c9d2" };
    }
    function paint(context, width, height) {
      const { tree, sums, start, hits } = model;
      const { end } = tree;
      const { total } = sums;
      const { level: levels, folded, more } = model.rows;
      const shown = view();
      const per = width / shown.size;
      const offset = scroller.scrollTop;
      const columns = [];
      boxes.length = 0;
      setLook();
      function box(node, level) {
        const y = top(level) - offset;
        const x = Math.max(0, (start[node] - shown.from) * per);
        const w = Math.min(width, (start[node] + total[node] - shown.from) * per) - x;
        if (w <= 0) { return false; }
        if (y > -row && y < height) {
          const [fill, ink] = colourOf(node);
          context.fillStyle = fill;
          context.globalAlpha = level < levels[outermost()] ? 0.6 : 1;
          context.fillRect(x, y, w >= 3 ? w - 0.7 : w, row - 1);
          if (model.line !== null && node > 0 && lineOf(node) === model.line) { frameOf(context, x, y, w); }
          boxes.push({ node, x, y, w });
          if (w > 24) {
            const text = fitName(nameOf(node) + (more[node] ? " +" + rowsText(more[node]) : "") + verdictMark(node), w - 2 * PADDING, (part) => textWidth(context, part));
            if (text) { context.fillStyle = ink; context.fillText(text, x + PADDING, y + row / 2); }
          }
          context.globalAlpha = 1;
        }
        return state.upright ? y > 0 : y < height;
      }
      // A run of narrow frames beside each other; those that were found light their column.
      function tint(first, last, level) {
        const y = top(level) - offset;
        const x = Math.max(0, (start[first] - shown.from) * per);
        const w = Math.min(width, (start[last] + total[last] - shown.from) * per) - x;
        if (w <= 0) { return; }
        const found = hits && hits.before[end[last]] > hits.before[first];
        if (found) { columns.push([x, w]); }
        if (y > -row && y < height) {
          context.fillStyle = hits ? (found ? look.hit[0] : look.plain[0]) : look.tint;
          context.fillRect(x, y, Math.max(w, 0.3), row - 1);
          boxes.push({ node: first, x, y, w, last });
        }
      }
      // The zoomed frame itself, also where it is one of those that are drawn as one row.
      for (const node of [0, ...pathOf(outermost())]) {
        if (node === outermost() || levels[node] < levels[outermost()] && !folded[node]) { box(node, levels[node]); }
      }
      const open = [outermost()];
      while (open.length) {
        const node = open.pop();
        const level = levels[node] + 1;
        let first = 0;
        let last = 0;
        for (let child = node + 1; child < end[node]; child = end[child]) {
          if (total[child] === 0) { continue; }
          const x = (start[child] - shown.from) * per;
          if (x >= width) { break; }
          const w = total[child] * per;
          if (x + w <= 0) { continue; }
          if (w < LEAST) {
            if (!first) { first = child; }
            last = child;
            continue;
          }
          if (first) { tint(first, last, level); first = 0; }
          if (folded[child] || box(child, level)) { open.push(child); }
        }
        if (first) { tint(first, last, level); }
      }
      context.fillStyle = look.mark;
      context.globalAlpha = 0.5;
      for (const [x, w] of columns) { context.fillRect(x, 0, Math.max(1, w), height); }
      context.globalAlpha = 1;
      if (hasRing || model.selected) { ring(context); }
    }
    function verdictMark(node) { return ["", " \u25b2", " \u25bc"][verdictOf(node) || 0]; }
    function frameOf(context, x, y, w) {
      context.strokeStyle = look.text;
      context.lineWidth = 1;
      if (w > 2) { context.strokeRect(x + 0.5, y + 0.5, w - 1.7, row - 2); }
    }
    function ring(context) {
      const at = boxes.find((box) => box.node === drawnFor(model.selected));
      if (!at) { return; }
      context.strokeStyle = look.text;
      context.lineWidth = 2;
      context.strokeRect(at.x + 1, at.y + 1, Math.max(2, at.w - 2), row - 3);
    }

    // For who does not see the canvas: the path of the selected frame, and what it calls, as a tree.
    function describe() {
      const { tree: nodes, sums } = model;
      const item = (node, isSelected) => element("div", { role: "treeitem", id: "node-" + node,
        "aria-level": nodes.depth[node] + 1, "aria-selected": isSelected, "aria-expanded": nodes.end[node] > node + 1 },
        nameOf(node) + ", " + amount(sums.total[node]) + ", " + percent(sums.total[node], whole()));
      const at = model.selected || model.zoom;
      const children = [...childrenOf(at)].filter((node) => sums.total[node] > 0);
      children.sort((a, b) => sums.total[b] - sums.total[a]);
      tree.replaceChildren(...[0, ...pathOf(at)].map((node) => item(node, node === at)),
        ...children.slice(0, 30).map((node) => item(node, false)));
      tree.setAttribute("aria-activedescendant", "node-" + at);
    }

    function under(event) {
      const box = canvas.getBoundingClientRect();
      const x = event.clientX - box.left;
      const y = event.clientY - box.top;
      let best = null;
      for (const at of boxes) {
        if (y < at.y || y >= at.y + row) { continue; }
        const off = Math.max(at.x - x, x - at.x - at.w, 0);
        if (off <= 1 && (!best || off < best.off)) { best = { ...at, off }; }
      }
      return best;
    }
    // What the state is once a frame is chosen: its function is in focus, or none where it is several.
    function choice(node) {
      return node === 0 ? { selected: null } : { selected: placeOf(node), key: keyOf(lineOf(node)) };
    }
    function zoomTo(node) { return go({ zoom: placeOf(node), span: null, ...choice(node) }).then(() => reveal(node)); }
    function select(node) { return go(choice(node), true).then(() => reveal(node)); }
    function reveal(node) {
      const y = top(model.rows.level[node]);
      if (y < scroller.scrollTop) { scroller.scrollTop = y; }
      if (y + row > scroller.scrollTop + scroller.clientHeight) { scroller.scrollTop = y + 2 * row - scroller.clientHeight; }
    }
    // Neighbours in view; `up` is towards the root.
    function move(key) {
      const { tree: nodes, sums } = model;
      const { level, folded } = model.rows;
      const at = drawnFor(model.selected || model.zoom);
      const isUp = key === (state.upright ? "ArrowDown" : "ArrowUp");
      if (isUp) { return select(drawnFor(nodes.parent[at])); }
      if (key === "ArrowDown" || key === "ArrowUp") {
        const drawnIn = (node) => [...childrenOf(node)].flatMap((child) => folded[child] ? drawnIn(child) : [child]);
        const callees = drawnIn(at).filter((node) => sums.total[node] > 0);
        return callees.length && select(callees.reduce((best, node) => sums.total[node] > sums.total[best] ? node : best));
      }
      const row = boxes.filter((box) => level[box.node] === level[at]).sort((a, b) => a.x - b.x);
      const to = row[row.findIndex((box) => box.node === at) + (key === "ArrowLeft" ? -1 : 1)];
      return to && select(to.node);
    }
    // A part of the whole, within it.
    function spanTo(from, size) {
      const least = 1e-7;
      size = Math.min(1, Math.max(least, size));
      from = Math.min(1 - size, Math.max(0, from));
      go({ span: size === 1 ? null : [from, from + size], ...(size === 1 ? { zoom: null } : {}) }, true);
    }
    function present() {
      const { from, size } = view();
      return [from / (model.sums.total[0] || 1), size / (model.sums.total[0] || 1)];
    }
    function zoomAt(clientX, factor) {
      const box = canvas.getBoundingClientRect();
      const part = (clientX - box.left) / box.width;
      const [from, size] = present();
      spanTo(from + part * size * (1 - factor), size * factor);
    }
    function pan(pixels) {
      const [from, size] = present();
      if (size < 1) { spanTo(from + size * pixels / canvas.clientWidth, size); }
    }

    return { canvas, scroller, keys: tree, draw, under, choice, zoomTo, select, move, zoomAt, pan,
      showRing(on) { hasRing = on; draw(); } };
  })();
  panes.push(flame);
