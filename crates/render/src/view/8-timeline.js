  // Load over time: of everything, or a row a thread. A drag chooses a range, with Shift the one to compare with.
  const timeline = (function () {
    const canvas = $("timeline");
    const LANE = 26;
    let lanes = [];
    let binned = "";
    let drag = null;

    // The samples' time, to the end of the last.
    function length() {
      const { samples, about } = data;
      const last = samples.count > samples.untimed ? samples.time[samples.count - 1] : 0;
      return Math.max(last + 1, (about.duration || 0) <= 1.5 * last ? about.duration || 0 : 0);
    }
    function isThere() { return data.samples.count > data.samples.untimed && !data.about.compared; }
    function threadName(thread) {
      const { labels } = data.threads[thread];
      return data.texts[labels[2]] || data.texts[labels[0]] || "[unknown]";
    }
    // Sums by bar and row; rows are threads, the busiest first.
    // Bars are wide enough that some samples are in each.
    function bin(pixels) {
      const { samples } = data;
      const values = samples.values[state.value];
      const key = [pixels, state.value, state.rows, model.treeKey].join();
      if (binned === key) { return; }
      binned = key;
      const width = Math.ceil(pixels / Math.min(12, Math.max(2, 4 * pixels / samples.count)));
      const per = width / length();
      const made = new Map();
      const all = { name: "", sums: new Float64Array(width), total: 0, most: 0 };
      for (let i = samples.untimed; i < samples.count; i++) {
        if (model.tree.node[i] < 0) { continue; }
        const x = Math.min(width - 1, Math.floor(samples.time[i] * per));
        all.sums[x] += values[i];
        all.total += values[i];
        if (!state.rows) { continue; }
        const thread = samples.thread[i];
        let lane = made.get(thread);
        if (!lane) {
          made.set(thread, lane = { name: threadName(thread), thread, sums: new Float64Array(width), total: 0, most: 0 });
        }
        lane.sums[x] += values[i];
        lane.total += values[i];
      }
      lanes = [all, ...[...made.values()].sort((a, b) => b.total - a.total).slice(0, 200)];
      for (const lane of lanes) { for (const sum of lane.sums) { lane.most = Math.max(lane.most, sum); } }
      // Rows of threads are of one scale.
      const most = Math.max(...lanes.slice(1).map((lane) => lane.most));
      lanes.slice(1).forEach((lane) => { lane.most = most; });
    }
    function draw() {
      $("time").hidden = !isThere();
      $("rows").setAttribute("aria-pressed", state.rows);
      if (!isThere() || !canvas.clientWidth) { return; }
      const width = Math.max(1, Math.floor(canvas.clientWidth));
      bin(width);
      const ratio = window.devicePixelRatio || 1;
      const height = lanes.length * LANE + (lanes.length === 1 ? 18 : 0) + 16;
      canvas.style.height = height + "px";
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
      const context = canvas.getContext("2d");
      context.scale(ratio, ratio);
      context.font = "11px " + getComputedStyle(document.body).fontFamily;
      const tall = lanes.length === 1 ? LANE + 18 : LANE;
      lanes.forEach((lane, row) => {
        context.fillStyle = row === 0 ? cssColour("accent") : cssColour("muted");
        const bottom = row * LANE + tall - 1;
        const each = width / lane.sums.length;
        lane.sums.forEach((sum, i) => {
          const h = sum > 0 ? Math.max(1, (tall - 4) * sum / lane.most) : 0;
          if (h > 0) { context.fillRect(i * each, bottom - h, each > 3 ? each - 0.7 : each, h); }
        });
        if (lane.name) {
          const name = fitName(lane.name, width / 3, (part) => context.measureText(part).width);
          context.fillStyle = cssColour("paper");
          context.globalAlpha = 0.75;
          context.fillRect(0, row * LANE + 6, context.measureText(name).width + 8, 15);
          context.globalAlpha = 1;
          context.fillStyle = cssColour("text");
          context.fillText(name, 4, row * LANE + 17);
        }
      });
      axis(context, width, height);
      mark(context, state.base, "other", width, height);
      mark(context, state.range, "mark", width, height);
      words();
    }
    function axis(context, width, height) {
      context.fillStyle = cssColour("muted");
      const { ticks, step } = clock.ticks(0, length(), width / 90);
      for (const tick of ticks) {
        const x = Math.min(tick / length() * width, width - 30);
        context.fillRect(Math.round(x), height - 16, 1, 4);
        context.fillText(clock.text(tick, length(), step), x + 3, height - 4);
      }
    }
    function mark(context, range, colour, width, height) {
      if (!range) { return; }
      const [from, to] = range.map((time) => time / length() * width);
      context.fillStyle = cssColour(colour);
      context.fillRect(from, 0, Math.max(1, to - from), height);
    }
    function words() {
      const text = (range) => clock.range(range[0], range[1]);
      const { range, base } = state;
      $("range").textContent = range && base ? text(range) + " compared with " + text(base) :
        range ? text(range) : "all of the time, " + duration(length()) + " (drag chooses a range, with Shift one to compare with)";
      $("all-time").hidden = !range && !base;
      $("one-range").hidden = !base;
      canvas.setAttribute("aria-valuetext", $("range").textContent);
      canvas.setAttribute("aria-valuenow", range ? Math.round(100 * range[0] / length()) : 0);
    }
    function timeAt(event) {
      const box = canvas.getBoundingClientRect();
      return Math.min(1, Math.max(0, (event.clientX - box.left) / box.width)) * length();
    }
    let wanted = null;
    // A drag sends more ranges than can be drawn.
    function choose(name, range) {
      if (!wanted) { requestAnimationFrame(flush); }
      wanted = { [name]: range, ...(name === "base" && !state.range ? { range: [0, length()] } : {}) };
    }
    function flush() {
      if (wanted) { go(wanted, true); }
      wanted = null;
    }
    function start() {
      on(canvas, "pointerdown", (event) => {
        if (event.button !== 0) { return; }
        canvas.setPointerCapture(event.pointerId);
        drag = { from: timeAt(event), name: event.shiftKey ? "base" : "range", moved: false, before: state };
      });
      on(canvas, "pointermove", (event) => {
        if (!drag) { return; }
        const to = timeAt(event);
        const least = 3 * length() / canvas.clientWidth;
        if (Math.abs(to - drag.from) < least && !drag.moved) { return; }
        drag.moved = true;
        choose(drag.name, [Math.min(to, drag.from), Math.max(to, drag.from, Math.min(to, drag.from) + 1)].map(Math.round));
      });
      on(canvas, "pointerup", () => {
        flush();
        if (drag && drag.moved) { makeStep(drag.before); }
        drag = null;
      });
      on(canvas, "pointercancel", () => { drag = null; });
      on(canvas, "keydown", (event) => {
        const [from, to] = state.range || [0, length()];
        const step = (to - from) / 4;
        const within = (a, b) => [Math.max(0, a), Math.min(length(), b)].map(Math.round);
        const ranges = event.shiftKey ? { ArrowRight: [from, to + step], ArrowLeft: [from, to - step] } :
          { ArrowRight: [from + step, to + step], ArrowLeft: [from - step, to - step], Enter: [from, from + 2 * step] };
        if (event.key === "Escape") { go({ range: null, base: null }); event.preventDefault(); event.stopPropagation(); }
        if (!ranges[event.key]) { return; }
        const [a, b] = within(...ranges[event.key]);
        if (a < b) { go({ range: [a, b] }); }
        event.preventDefault();
      });
      on($("all-time"), "click", () => go({ range: null, base: null }));
      on($("one-range"), "click", () => go({ base: null }));
      on($("rows"), "click", () => go({ rows: !state.rows }));
      on(canvas, "dblclick", (event) => {
        const row = Math.floor((event.clientY - canvas.getBoundingClientRect().top) / LANE);
        if (lanes[row] && row > 0) { addThread(lanes[row].thread); }
      });
    }
    return { draw, start };
  })();
  panes.push(timeline);
