  // A drag shows what it spans; a drag along one axis, all of the other.
  var from = null;
  function spanned(at) {
    var span = {
      x0: Math.min(from.column, at.column) / level.x,
      x1: (Math.max(from.column, at.column) + 1) / level.x,
      y0: Math.min(from.row, at.row) / level.y,
      y1: (Math.max(from.row, at.row) + 1) / level.y
    };
    if (8 > Math.abs(at.x - from.x)) { span.x0 = view.x0; span.x1 = view.x1; }
    if (8 > Math.abs(at.y - from.y)) { span.y0 = view.y0; span.y1 = view.y1; }
    return span;
  }
  function isDrag(at) {
    return Math.max(Math.abs(at.x - from.x), Math.abs(at.y - from.y)) >= 8;
  }
  function showBand(at) {
    if (!isDrag(at)) { band.setAttribute("visibility", "hidden"); return; }
    var span = spanned(at);
    var low = cellBox(span.x0 * level.x, span.y1 * level.y - 1);
    var high = cellBox(span.x1 * level.x, span.y0 * level.y - 1);
    set(band, {
      x: low.x, y: low.y, width: high.x - low.x, height: high.y - low.y, visibility: "visible"
    });
  }
  function listen() {
    picture.addEventListener("pointermove", function (event) {
      var at = pointed(event);
      if (from) {
        hideTip();
        showBand(at);
      } else { showTip(at.column, at.row, at.x, at.y); }
    });
    picture.addEventListener("pointerleave", function (event) {
      // A finger leaves with every tap: what it tapped stays until it taps elsewhere.
      if (from || event.pointerType === "touch") { return; }
      hideTip();
    });
    document.addEventListener("pointerdown", function (event) {
      if (!picture.contains(event.target)) { hideTip(); }
    });
    picture.addEventListener("pointerdown", function (event) {
      if (event.button !== 0) { return; }
      from = pointed(event);
      picture.setPointerCapture(event.pointerId);
    });
    picture.addEventListener("pointerup", function (event) {
      if (!from) { return; }
      var at = pointed(event);
      var span = isDrag(at) ? spanned(at) : null;
      from = null;
      band.setAttribute("visibility", "hidden");
      if (!span) { if (event.pointerType === "touch") { showTip(at.column, at.row, at.x, at.y); } }
      if (span) { zoom(span.x0, span.x1, span.y0, span.y1); }
    });
    picture.addEventListener("pointercancel", function () {
      from = null;
      band.setAttribute("visibility", "hidden");
    });
    picture.addEventListener("dblclick", showAll);
    picture.addEventListener("blur", hideTip);
    root.addEventListener("keydown", onKey);
  }
  function showAll() { zoom(0, columns, 0, rows); }
  function onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) { return; }
    var move = {
      ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1]
    }[event.key];
    if (move) {
      var to = within(current.column + (shown ? move[0] : 0), current.row + (shown ? move[1] : 0));
      var box = cellBox(to.column, to.row);
      showTip(to.column, to.row, box.x + box.w / 2, box.y + box.h / 2);
    } else if (event.key === "Escape" || event.key === "Home") {
      showAll();
    } else {
      return;
    }
    event.preventDefault();
  }
  function start() {
    readCells();
    root.querySelectorAll(".head text").forEach(function (element) {
      heading.push({ element: element, full: element.textContent });
    });
    buildOverlay();
    set(picture, { tabindex: 0, role: "application",
      "aria-label": "Cells. Arrow keys move, a drag zooms, Escape shows everything." });
    // So that empty cells answer too.
    var under = document.createElementNS(SVG, "rect");
    set(under, { width: columns, height: rows, fill: "none", "pointer-events": "all" });
    picture.insertBefore(under, picture.firstChild);
    if (!fixed) {
      root.style.height = "";
      root.style.maxWidth = "";
      root.setAttribute("width", "100%");
    }
    if (alone) { fitTelephone(); }
    layOut();
    listen();
    if (!fixed) { watchWidth(); }
  }
  function watchWidth() {
    var before = width;
    function changed() {
      var now = Math.round(root.getBoundingClientRect().width);
      if (now === before || now === 0) { return; }
      before = now;
      layOut();
    }
    if (alone) { window.addEventListener("resize", changed); }
    else { new ResizeObserver(changed).observe(root); }
  }
  start();
})();
