  // Pointers, wheel, keys, buttons.
  var LEAST = 200;
  var selecting = false;
  var frame = 0;
  function redraw() {
    if (frame) { return; }
    frame = requestAnimationFrame(function () { frame = 0; draw(); });
  }
  function show(from, to) {
    var length = Math.min(data.length, Math.max(LEAST, to - from));
    from = Math.max(0, Math.min(from, data.length - length));
    view.from = from;
    view.to = from + length;
    document.getElementById("all").disabled = length >= data.length;
    redraw();
  }
  // Zooms with a time that stays where it is.
  function zoom(factor, time) {
    show(time - (time - view.from) / factor, time + (view.to - time) / factor);
  }
  function move(share) {
    var by = (view.to - view.from) * share;
    by = Math.max(-view.from, Math.min(by, data.length - view.to));
    show(view.from + by, view.to + by);
  }
  var still = matchMedia("(prefers-reduced-motion: reduce)");
  // Goes there in a sixth of a second, unless the reader wants no motion.
  function glide(from, to) {
    if (still.matches) { show(from, to); return; }
    var before = [view.from, view.to];
    var begin = performance.now();
    function step(now) {
      var part = Math.min(1, Math.max(0, (now - begin) / 160));
      var eased = 1 - Math.pow(1 - part, 3);
      show(before[0] + (from - before[0]) * eased, before[1] + (to - before[1]) * eased);
      if (part < 1) { requestAnimationFrame(step); }
    }
    requestAnimationFrame(step);
  }
  function select(from, to) {
    selection = { from: Math.max(0, Math.min(from, to)), to: Math.min(data.length, Math.max(from, to)) };
    if (selection.to <= selection.from) { selection = null; }
    drawOver();
    showPanel();
  }
  function clear() {
    selection = null;
    drawOver();
    showPanel();
  }
  function pointSpan(row, span) {
    var item = itemOfRow(row);
    var middle = Math.max(view.from, (data.starts[span] + data.starts[span + 1]) / 2);
    pointed = { item: item, row: row, span: span, time: middle };
    var y = middleOf(item);
    showTip(pointed, Math.max(gutter, Math.min(wide, xOf(middle))), y);
    drawOver();
  }
  function toggle(index) {
    if (closed.has(index)) { closed.delete(index); } else { closed.add(index); }
    laidAnew();
  }
  function laidAnew() {
    resize();
    pointAt(null, 0, 0);
    draw();
  }

  function listenPointers() {
    var down = new Map();
    var drag = null;
    function at(event) {
      var box = over.getBoundingClientRect();
      return { x: event.clientX - box.left, y: event.clientY - box.top };
    }
    over.addEventListener("pointerdown", function (event) {
      if (event.button > 0) { return; }
      var place = at(event);
      down.set(event.pointerId, place);
      over.setPointerCapture(event.pointerId);
      var time = timeAt(place.x);
      drag = {
        place: place, time: time, moved: false, from: view.from, to: view.to, top: scroller.scrollTop,
        selects: place.x >= gutter ? event.shiftKey || selecting : false, touch: event.pointerType === "touch"
      };
      if (down.size === 2) { beginPinch(); }
    });
    function beginPinch() {
      var xs = Array.from(down.values()).map(function (place) { return place.x; });
      drag = { pinch: [timeAt(xs[0]), timeAt(xs[1])], moved: true };
    }
    function pinch() {
      var xs = Array.from(down.values()).map(function (place) { return place.x - gutter; });
      var times = drag.pinch;
      if (Math.abs(xs[1] - xs[0]) < 8) { return; }
      var per = (times[1] - times[0]) / (xs[1] - xs[0]);
      if (per > 0) { show(times[0] - xs[0] * per, times[0] + (plotWidth() - xs[0]) * per); }
    }
    over.addEventListener("pointermove", function (event) {
      var place = at(event);
      if (!down.has(event.pointerId)) { pointAt(target(place.x, place.y), place.x, place.y); return; }
      down.set(event.pointerId, place);
      if (!drag) { return; }
      if (drag.pinch) { if (down.size === 2) { pinch(); } return; }
      if (!drag.moved) { if (Math.hypot(place.x - drag.place.x, place.y - drag.place.y) < 4) { return; } }
      drag.moved = true;
      tip.hidden = true;
      if (drag.selects) {
        var time = timeAt(Math.max(gutter, place.x));
        selection = { from: Math.max(0, Math.min(drag.time, time)), to: Math.min(data.length, Math.max(drag.time, time)) };
        drawOver();
      } else {
        var by = (place.x - drag.place.x) / plotWidth() * (drag.to - drag.from);
        by = Math.max(drag.to - data.length, Math.min(by, drag.from));
        // A finger's way up and down is the browser's.
        if (!drag.touch) { scroller.scrollTop = drag.top - (place.y - drag.place.y); }
        show(drag.from - by, drag.to - by);
      }
    });
    function up(event) {
      var place = at(event);
      down.delete(event.pointerId);
      if (!drag || down.size > 0) { return; }
      var done = drag;
      drag = null;
      if (done.pinch) { return; }
      if (done.moved) { if (done.selects) { select(selection.from, selection.to); } return; }
      var found = target(place.x, place.y);
      if (found) {
        if (found.item.kind === "process") { if (found.time === undefined || narrow) { toggle(found.item.index); return; } }
      }
      pointAt(found, place.x, place.y);
    }
    over.addEventListener("pointerup", up);
    over.addEventListener("pointercancel", function (event) { down.delete(event.pointerId); drag = null; });
    over.addEventListener("pointerleave", function (event) {
      if (event.pointerType === "touch" || down.size > 0) { return; }
      pointAt(null, 0, 0);
    });
    over.addEventListener("dblclick", function (event) {
      var place = at(event);
      var found = target(place.x, place.y);
      if (!found || found.row === undefined) { return; }
      zoomToSpan(found.span);
    });
    over.addEventListener("wheel", function (event) {
      var unit = event.deltaMode === 1 ? 16 : 1;
      if (event.ctrlKey || event.metaKey) {
        zoom(Math.exp(-event.deltaY * unit / 300), timeAt(Math.max(gutter, at(event).x)));
      } else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
        move((event.deltaX || event.deltaY) * unit / plotWidth());
      } else {
        return;
      }
      event.preventDefault();
    }, { passive: false });
  }
  function zoomToSpan(span) {
    var from = data.starts[span];
    var to = data.starts[span + 1];
    glide(from - (to - from), to + (to - from));
  }
  // In the load of all CPUs, a drag chooses what is in view, and a click where its middle is.
  function listenAxis() {
    var begin = null;
    function time(event) {
      var box = axis.getBoundingClientRect();
      return Math.max(0, Math.min(1, (event.clientX - box.left - gutter) / plotWidth())) * data.length;
    }
    axis.addEventListener("pointerdown", function (event) {
      begin = time(event);
      axis.setPointerCapture(event.pointerId);
    });
    axis.addEventListener("pointermove", function (event) {
      if (begin === null) { return; }
      var now = time(event);
      if (Math.abs(now - begin) > data.length / plotWidth() * 3) { show(Math.min(begin, now), Math.max(begin, now)); }
    });
    axis.addEventListener("pointerup", function (event) {
      if (begin === null) { return; }
      if (Math.abs(time(event) - begin) <= data.length / plotWidth() * 3) {
        var half = (view.to - view.from) / 2;
        show(begin - half, begin + half);
      }
      begin = null;
    });
    axis.addEventListener("dblclick", function () { glide(0, data.length); });
  }

  // The row with the keyboard, and from there to others.
  function moveRow(step) {
    var rows = items.filter(function (item) { return item.kind === "row"; });
    if (rows.length === 0) { return; }
    var at = pointed ? rows.findIndex(function (item) { return item.index === pointed.row; }) : -1;
    var next = at < 0 ? 0 : Math.max(0, Math.min(rows.length - 1, at + step));
    var time = pointed && pointed.time !== undefined ? pointed.time : (view.from + view.to) / 2;
    bringIn(rows[next]);
    pointSpan(rows[next].index, Math.min(lastOf(rows[next].index), spanAt(data, rows[next].index, time)));
  }
  function bringIn(item) {
    if (item.y < scroller.scrollTop) { scroller.scrollTop = item.y - 4; }
    if (item.y + item.height > scroller.scrollTop + high) { scroller.scrollTop = item.y + item.height - high + 4; }
  }
  function moveSpan(step) {
    if (!pointed || pointed.row === undefined) { moveRow(0); return; }
    goTo(pointed.row, Math.max(data.rowFirst[pointed.row], Math.min(lastOf(pointed.row), pointed.span + step)));
  }
  function goTo(row, span) {
    var item = itemOfRow(row);
    if (!item || item.kind !== "row") { closed.delete(data.processOf[row]); resize(); item = itemOfRow(row); }
    if (!item) { return; }
    bringIn(item);
    var middle = (data.starts[span] + data.starts[span + 1]) / 2;
    if (middle < view.from || middle > view.to) {
      var half = (view.to - view.from) / 2;
      show(middle - half, middle + half);
    }
    pointSpan(row, span);
    redraw();
  }
  // To who woke the thread, at that moment: again and again, along what the work waited for.
  function goToWaker() {
    if (!pointed || pointed.row === undefined) { return; }
    var wake = wakeOf(pointed.row, pointed.span);
    if (wake < 0 || data.details[wake] < 2) { return; }
    var row = data.details[wake] - 2;
    if (shownRows) { if (!shownRows[row]) { return; } }
    goTo(row, Math.min(lastOf(row), spanAt(data, row, data.starts[wake])));
  }
  function pressed(key, shift) {
    var middle = pointed && pointed.time !== undefined ? pointed.time : (view.from + view.to) / 2;
    if (key === "ArrowLeft") { if (shift) { moveSpan(-1); } else { move(-0.1); } }
    else if (key === "ArrowRight") { if (shift) { moveSpan(1); } else { move(0.1); } }
    else if (key === "ArrowUp") { moveRow(-1); }
    else if (key === "ArrowDown") { moveRow(1); }
    else if (key === "+" || key === "=") { zoom(1.5, middle); }
    else if (key === "-" || key === "_") { zoom(1 / 1.5, middle); }
    else if (key === "PageUp") { scroller.scrollTop -= high * 0.9; }
    else if (key === "PageDown") { scroller.scrollTop += high * 0.9; }
    else if (key === "Home" || key === "0") { glide(0, data.length); }
    else if (key === "s") {
      if (!pointed || pointed.row === undefined) { return true; }
      select(data.starts[pointed.span], data.starts[pointed.span + 1]);
    }
    else if (key === "v") { select(view.from, view.to); }
    else if (key === "w") { goToWaker(); }
    else if (key === "Enter") { if (pointed) { if (pointed.span !== undefined) { zoomToSpan(pointed.span); } } }
    else if (key === "Escape") { if (selection) { clear(); } else { pointAt(null, 0, 0); } }
    else { return false; }
    return true;
  }
  function listenKeys() {
    over.addEventListener("keydown", function (event) {
      if (event.ctrlKey || event.metaKey || event.altKey) { return; }
      if (pressed(event.key, event.shiftKey)) { event.preventDefault(); }
    });
    over.addEventListener("blur", function () { pointAt(null, 0, 0); });
    document.addEventListener("keydown", function (event) {
      var input = document.getElementById("filter");
      if (event.key !== "/" || /^(INPUT|TEXTAREA)$/.test(event.target.tagName)) { return; }
      input.focus();
      event.preventDefault();
    });
  }
  function listenButtons() {
    function on(id, action) { document.getElementById(id).addEventListener("click", action); }
    function middle() { return (view.from + view.to) / 2; }
    on("in", function () { zoom(2, middle()); });
    on("less", function () { zoom(0.5, middle()); });
    on("all", function () { glide(0, data.length); });
    on("clear", clear);
    on("tozoom", function () { if (selection) { glide(selection.from, selection.to); } });
    on("more", function () { allLines = true; showTable(); });
    on("select", function (event) {
      selecting = !selecting;
      event.currentTarget.setAttribute("aria-pressed", selecting);
      over.classList.toggle("selecting", selecting);
    });
    on("fold", function () {
      var all = closed.size === 0;
      closed = new Set();
      if (all) { data.processes.forEach(function (process, index) { if (process.rows > 1) { closed.add(index); } }); }
      document.getElementById("fold").textContent = all ? "Open all" : "Close all";
      laidAnew();
    });
    document.getElementById("filter").addEventListener("input", function (event) {
      wanted = event.target.value.trim().toLowerCase();
      findShown();
      laidAnew();
      var some = items.some(function (item) { return item.kind === "row" || item.kind === "process"; });
      event.target.setAttribute("aria-invalid", some ? "false" : "true");
      showPanel();
    });
  }

  async function start() {
    chooseColours();
    try {
      data = await unpack(holder.textContent.trim());
    } catch (error) {
      document.getElementById("span").textContent = "This browser cannot unpack the chart: " + error.message;
      return;
    }
    data.length = Math.max(1, data.length);
    view.to = data.length;
    document.getElementById("fold").hidden = !data.processes.some(function (process) { return process.rows > 1; });
    document.getElementById("all").disabled = true;
    resize();
    draw();
    listenPointers();
    listenAxis();
    listenKeys();
    listenButtons();
    scroller.addEventListener("scroll", redraw);
    dark.addEventListener("change", function () { chooseColours(); draw(); });
    new ResizeObserver(function () {
      if (scroller.clientWidth !== wide || shownHeight() !== high) { resize(); draw(); }
    }).observe(scroller);
    showPanel();
  }
  start();
