  // Load over time: of everything, or a row a thread; or when within a second it was, seconds to the right. A drag chooses a
  // range, with Shift the one to compare with.
  const timeline = (function () {
    const canvas = $("timeline");
    const LANE = 26;
    const AXIS = 16;
    // Of the map of seconds: rows, and the most that a column is wide.
    const ROWS = 50;
    const COLUMN = 48;
    let lanes = [];
    let binned = "";
    let drag = null;
    let map = null;
    // Of each sample what of its value was lost; null where none was.
    let lost = null;
    let lostOf = -1;

    function isMap() { return state.times === "seconds"; }
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
    // What was lost on its way is no idle time: `Marker::Lost` of crates/profile stands for it.
    const LOST = 33;
    function findLost() {
      if (lostOf === state.value) { return; }
      lostOf = state.value;
      const { samples, stacks, frames } = data;
      const isLost = stacks.leaf.map((frame, stack) => stack > 0 && frames.kind[frame] === LOST ? 1 : 0);
      const values = samples.values[state.value];
      lost = isLost.includes(1) ? values.map((value, i) => isLost[samples.stack[i]] ? value : 0) : null;
    }
    function hatch(context, x, y, width, height) {
      const tile = element("canvas", { width: 6, height: 6 });
      const pen = tile.getContext("2d");
      pen.strokeStyle = cssColour("text");
      pen.lineWidth = 1.5;
      for (const from of [-6, 0, 6]) { pen.moveTo(from - 1, 7); pen.lineTo(from + 7, -1); }
      pen.stroke();
      context.fillStyle = cssColour("paper");
      context.fillRect(x, y, width, height);
      context.fillStyle = context.createPattern(tile, "repeat");
      context.fillRect(x, y, width, height);
    }
    // Sums by bar and row; rows are threads, the busiest first.
    // Bars are wide enough that some samples are in each.
    function bin(pixels) {
      const { samples } = data;
      const values = samples.values[state.value];
      const key = [pixels, state.value, state.times, model.treeKey].join();
      if (binned === key) { return; }
      binned = key;
      findLost();
      if (isMap()) { map = seconds(pixels); return; }
      const width = Math.ceil(pixels / Math.min(12, Math.max(2, 4 * pixels / samples.count)));
      const per = width / length();
      const made = new Map();
      const all = { name: "", sums: new Float64Array(width), lost: new Float64Array(width), total: 0, most: 0 };
      for (let i = samples.untimed; i < samples.count; i++) {
        if (model.tree.node[i] < 0) { continue; }
        const x = Math.min(width - 1, Math.floor(samples.time[i] * per));
        all.sums[x] += values[i];
        if (lost) { all.lost[x] += lost[i]; }
        all.total += values[i];
        if (state.times !== "threads") { continue; }
        const thread = samples.thread[i];
        let lane = made.get(thread);
        if (!lane) {
          made.set(thread, lane = { name: threadName(thread), thread, sums: new Float64Array(width),
            lost: new Float64Array(width), total: 0, most: 0 });
        }
        lane.sums[x] += values[i];
        if (lost) { lane.lost[x] += lost[i]; }
        lane.total += values[i];
      }
      lanes = [all, ...[...made.values()].sort((a, b) => b.total - a.total).slice(0, 200)];
      for (const lane of lanes) { for (const sum of lane.sums) { lane.most = Math.max(lane.most, sum); } }
      // Rows of threads are of one scale.
      const most = Math.max(...lanes.slice(1).map((lane) => lane.most));
      lanes.slice(1).forEach((lane) => { lane.most = most; });
    }
    // The clock of the recording says where a second begins.
    function seconds(pixels) {
      const second = data.about.second || 1e9;
      const phase = (data.about.first || 0) % second;
      const all = Math.max(1, Math.ceil((phase + length()) / second));
      const made = { second, phase, all, columns: Math.min(all, pixels), rows: ROWS, across: Math.min(pixels, all * COLUMN) };
      made.sums = core.bySecond(data.samples, model.tree.node, data.samples.values[state.value], made);
      made.lost = lost && core.bySecond(data.samples, model.tree.node, lost, made);
      const sorted = made.sums.filter((sum) => sum > 0).sort();
      made.most = sorted[Math.floor(0.99 * (sorted.length - 1))] || 1;
      return made;
    }
    function draw() {
      $("time").hidden = !isThere();
      $("threads").setAttribute("aria-pressed", state.times === "threads");
      $("seconds").setAttribute("aria-pressed", isMap());
      canvas.style.touchAction = isMap() ? "none" : "pan-y";
      if (!isThere() || !canvas.clientWidth) { return; }
      const width = Math.max(1, Math.floor(canvas.clientWidth));
      bin(width);
      const ratio = window.devicePixelRatio || 1;
      const height = AXIS + (isMap() ? 4 * ROWS : lanes.length * LANE + (lanes.length === 1 ? 18 : 0));
      canvas.style.height = height + "px";
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
      const context = canvas.getContext("2d");
      context.scale(ratio, ratio);
      context.font = "11px " + getComputedStyle(document.body).fontFamily;
      if (isMap()) { drawMap(context, height - AXIS); } else { drawLanes(context, width); }
      axis(context, width, height);
      mark(context, state.base, "other", width, height);
      mark(context, state.range, "mark", width, height);
      words();
    }
    function drawMap(context, tall) {
      const { sums, rows, columns, across, most, all, second, phase } = map;
      const [w, h] = [across / columns, tall / rows];
      const ranges = [state.range, state.base].filter(Boolean);
      context.fillStyle = cssColour("accent");
      sums.forEach((sum, i) => {
        if (sum === 0) { return; }
        // What is not chosen is pale.
        const time = (Math.floor(Math.floor(i / rows) * all / columns) + (i % rows + 0.5) / rows) * second - phase;
        const isChosen = ranges.length === 0 || ranges.some(([from, to]) => time >= from && time < to);
        context.globalAlpha = (0.15 + 0.85 * Math.min(1, sum / most)) * (isChosen ? 1 : 0.25);
        context.fillRect(Math.floor(i / rows) * w, tall - (i % rows + 1) * h, w > 4 ? w - 1 : w, h);
      });
      context.globalAlpha = 1;
      (map.lost || []).forEach((sum, i) => {
        if (sum > 0) { hatch(context, Math.floor(i / rows) * w, tall - (i % rows + 1) * h, w > 4 ? w - 1 : w, h); }
      });
    }
    function drawLanes(context, width) {
      const tall = lanes.length === 1 ? LANE + 18 : LANE;
      lanes.forEach((lane, row) => {
        context.fillStyle = row === 0 ? cssColour("accent") : cssColour("muted");
        const bottom = row * LANE + tall - 1;
        const each = width / lane.sums.length;
        lane.sums.forEach((sum, i) => {
          const h = sum > 0 ? Math.max(1, (tall - 4) * sum / lane.most) : 0;
          if (h > 0) { context.fillRect(i * each, bottom - h, each > 3 ? each - 0.7 : each, h); }
        });
        // The whole height: of how much was lost then, only what would have been a sample each is known.
        lane.lost.forEach((sum, i) => { if (sum > 0) { hatch(context, i * each, bottom - tall + 4, Math.max(2, each), tall - 4); } });
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
    }
    // Where a time is, to the right.
    function across(time, width) {
      return isMap() ? Math.floor((time + map.phase) / map.second) / map.all * map.across : time / length() * width;
    }
    function axis(context, width, height) {
      context.fillStyle = cssColour("muted");
      const { ticks, step } = clock.ticks(0, length(), (isMap() ? map.across : width) / 90);
      for (const tick of ticks) {
        const x = Math.min(across(tick, width), width - 30);
        context.fillRect(Math.round(x), height - 16, 1, 4);
        context.fillText(clock.text(tick, length(), step), x + 3, height - 4);
      }
    }
    function mark(context, range, colour, width, height) {
      if (!range) { return; }
      context.fillStyle = cssColour(colour);
      if (!isMap()) {
        const [from, to] = range.map((time) => across(time, width));
        context.fillRect(from, 0, Math.max(1, to - from), height);
        return;
      }
      const { second, phase, all } = map;
      const [from, to] = range.map((time) => time + phase);
      const tall = height - AXIS;
      for (let column = Math.floor(from / second); column * second < to; column++) {
        const [low, high] = [from, to].map((time) => Math.min(1, Math.max(0, time / second - column)));
        context.fillRect(column / all * map.across, tall * (1 - high), map.across / all, Math.max(1, tall * (high - low)));
      }
    }
    function words() {
      const text = (range) => clock.range(range[0], range[1]);
      const { range, base } = state;
      $("range").textContent = range && base ? text(range) + " compared with " + text(base) :
        range ? text(range) : "all of the time, " + duration(length()) + " (drag chooses a range, with Shift one to compare with)";
      $("lost").textContent = lostText();
      $("all-time").hidden = !range && !base;
      $("one-range").hidden = !base;
      canvas.setAttribute("aria-valuetext", $("range").textContent);
      canvas.setAttribute("aria-valuenow", range ? Math.round(100 * range[0] / length()) : 0);
    }
    function lostText() {
      if (!lost) { return ""; }
      const { untimed } = data.samples;
      let [all, unknown] = [0, 0];
      lost.forEach((value, i) => {
        if (model.tree.node[i] < 0) { return; }
        all += value;
        if (i < untimed) { unknown += value; }
      });
      return all === 0 ? "" : unknown === all ? amount(all) + " lost, it is not known when" :
        amount(all) + " lost, hatched" + (unknown ? ", of which of " + amount(unknown) + " it is not known when" : "");
    }
    function timeAt(event) {
      const box = canvas.getBoundingClientRect();
      const within = (part, most) => Math.min(most, Math.max(0, part));
      if (!isMap()) { return within((event.clientX - box.left) / box.width, 1) * length(); }
      const { second, phase, all } = map;
      const column = within(Math.floor((event.clientX - box.left) / map.across * all), all - 1);
      const up = within((box.bottom - AXIS - event.clientY) / (box.height - AXIS), 1);
      return within((column + up) * second - phase, length());
    }
    // What a cell of the map holds.
    function tell(event) {
      const box = canvas.getBoundingClientRect();
      const [x, y] = [event.clientX - box.left, box.bottom - AXIS - event.clientY];
      const tip = $("tip");
      tip.hidden = !isMap() || Boolean(drag) || x >= map.across || y < 0;
      if (tip.hidden) { return; }
      const row = Math.min(ROWS - 1, Math.floor(y / (box.height - AXIS) * ROWS));
      const sum = map.sums[Math.floor(x / map.across * map.columns) * ROWS + row];
      tip.replaceChildren(element("b", {}, amount(sum)), element("span", {},
        duration(row / ROWS * map.second) + " to " + duration((row + 1) / ROWS * map.second) + " into each " + duration(map.second)));
      tip.style.left = Math.max(4, Math.min(event.clientX + 12, innerWidth - tip.offsetWidth - 4)) + "px";
      tip.style.top = event.clientY - tip.offsetHeight - 8 + "px";
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
        const { clientX: x, clientY: y } = event;
        drag = { x, y, from: timeAt(event), name: event.shiftKey ? "base" : "range", moved: false, before: state };
      });
      on(canvas, "pointermove", (event) => {
        tell(event);
        if (!drag) { return; }
        const to = timeAt(event);
        const far = Math.max(Math.abs(event.clientX - drag.x), isMap() ? Math.abs(event.clientY - drag.y) : 0);
        if (far < 3 && !drag.moved) { return; }
        drag.moved = true;
        choose(drag.name, [Math.min(to, drag.from), Math.max(to, drag.from, Math.min(to, drag.from) + 1)].map(Math.round));
      });
      on(canvas, "pointerup", () => {
        flush();
        if (drag && drag.moved) { makeStep(drag.before); }
        drag = null;
      });
      on(canvas, "pointercancel", () => { drag = null; });
      on(canvas, "pointerleave", () => { $("tip").hidden = true; });
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
      for (const times of ["threads", "seconds"]) { on($(times), "click", () => turnTo(times)); }
      on(canvas, "dblclick", (event) => {
        const row = Math.floor((event.clientY - canvas.getBoundingClientRect().top) / LANE);
        if (!isMap() && lanes[row] && row > 0) { addThread(lanes[row].thread); }
      });
    }
    // Shows it, or the load again.
    function turnTo(times) { return go({ times: state.times === times ? "load" : times }); }
    return { draw, start, turnTo };
  })();
  panes.push(timeline);
