  // A comparison: the same frames with the widths before and after. It wraps what the other files
  // define; each path has its place on the other side in data-other.
  var views = { after: [], before: [] };
  var view = picture.getAttribute("data-view");
  var parents = [];
  var rowsOfBoth = [];
  var wantedView = view;
  var firstView = view;
  function other(which) { return which === "after" ? "before" : "after"; }
  function placeOf(d) {
    var at = d.indexOf("h");
    return { start: parseInt(d.slice(1, at), 10), width: parseInt(d.slice(at + 1), 10) };
  }
  var readPaths = readFrames;
  readFrames = function () {
    readPaths();
    elements.forEach(function (element) {
      views[view].push(placeOf(element.getAttribute("d")));
      views[other(view)].push(placeOf(element.getAttribute("data-other")));
    });
    rowsOfBoth = rows.map(function (row) { return row.slice(); });
    // The caller is found on a side where the frame is.
    ["before", "after"].forEach(function (which) {
      useView(which);
      for (var i = 0; elements.length > i; i++) {
        if (widths[i] > 0) { parents[i] = callerByPlace(i); }
      }
    });
    useView(firstView);
  };
  var callerByPlace = parentOf;
  parentOf = function (i) { return parents[i]; };

  // Takes the places of a side. Frames that are not there are in no row.
  function useView(which) {
    view = which;
    var places = views[which];
    var filled = rows.map(function () { return []; });
    for (var i = 0; elements.length > i; i++) {
      starts[i] = places[i].start;
      widths[i] = places[i].width;
      if (widths[i] > 0) { filled[depths[i]].push(i); }
    }
    filled.forEach(function (row) { row.sort(function (a, b) { return starts[a] - starts[b]; }); });
    rows.splice.apply(rows, [0, rows.length].concat(filled));
  }
  function showView(which, push) {
    if (which === view) { return; }
    useView(which);
    elements.forEach(function (element, i) {
      element.setAttribute("d", "M" + starts[i] + " 0h" + widths[i]);
    });
    noticeText = noticeText.replace(/widths: \w+/, "widths: " + which);
    // The zoomed frame may not be there: then its caller is.
    while (widths[zoomed] === 0) { zoomed = parents[zoomed]; }
    while (widths[current] === 0) { focusable(parents[current]); }
    hits.sort(function (a, b) { return starts[a] - starts[b] || depths[a] - depths[b]; });
    showZoom();
    focusable(current);
    controls.view.setAttribute("aria-pressed", String(which !== "after"));
    if (push) { saveView(); }
  }
  function toggleView() { showView(other(view), true); }

  // The widths in the address: view=before.
  function saveView() {
    var own = key + "view";
    var parts = location.hash.slice(1).split(AND).filter(function (part) {
      return part ? part.split("=")[0] !== own : false;
    });
    if (view !== firstView) { parts.push(own + "=" + view); }
    var hash = parts.join(AND);
    try {
      history.pushState(null, "", location.pathname + location.search + (hash ? "#" + hash : ""));
    } catch (error) {
      if (alone) { location.hash = hash; }
    }
  }
  var restoreRest = restore;
  restore = function () {
    wantedView = firstView;
    location.hash.slice(1).split(AND).forEach(function (part) {
      if (part === key + "view=" + other(firstView)) { wantedView = other(firstView); }
    });
    showView(wantedView, false);
    restoreRest();
    while (widths[zoomed] === 0) { zoomed = parents[zoomed]; showZoom(); }
  };

  var buildRest = buildControls;
  buildControls = function () {
    buildRest();
    controls.view = html("button", {
      type: "button", title: "Widths before or after (b)", "aria-pressed": String(view !== "after")
    }, "Before");
    controls.line.insertBefore(controls.view, controls.out);
    controls.view.addEventListener("click", toggleView);
    // What is pressed on a control goes no further.
    controls.view.addEventListener("keydown", function (event) {
      if (event.key === "b") { toggleView(); }
    });
  };
  var onOtherKey = onKey;
  onKey = function (event) {
    if (event.key !== "b" || event.ctrlKey || event.metaKey || event.altKey) {
      onOtherKey(event);
      return;
    }
    toggleView();
    event.preventDefault();
  };

  // The side that is shown comes first; a frame that is not on it has no share of the zoomed one.
  var describeAfter = describe;
  describe = function (i) {
    var kept = details(i);
    if (widths[i] === 0) { return kept.slice(); }
    if (view === "after") { return describeAfter(i); }
    elements[i].pyrographDetails = [kept[0], kept[2], kept[1]].concat(kept.slice(3));
    var said = describeAfter(i);
    elements[i].pyrographDetails = kept;
    return said;
  };

  // A row that has nothing but such boxes is in view, too.
  var isFilled = isWithin;
  isWithin = function (depth) {
    return isFilled(depth) || rowsOfBoth[depth].some(function (i) { return boxPlace(i) >= 0; });
  };
  // Where the box of a frame is that is not on this side; -1 where it has none.
  function boxPlace(i) {
    if (widths[i] > 0) { return -1; }
    if (widths[parents[i]] === 0) { return -1; }
    if (3 > views[other(view)][i].width * scale()) { return -1; }
    if (viewStart > starts[i]) { return -1; }
    if (starts[i] > viewStart + viewWidth) { return -1; }
    var x = (starts[i] - viewStart) * scale() - 3;
    return Math.min(Math.max(x, 0.5), framesWidth() - 6.5);
  }

  // Dashed boxes where a stack stands that is not on this side, by the rule of diff.rs.
  var absent = [];
  var boxesOf = [];
  var boxes = root.querySelector(".absent");
  var drawFrames = drawText;
  drawText = function () {
    placeBoxes();
    drawFrames();
    textLayer.insertBefore(boxes, textLayer.children[1] || null);
  };
  function placeBoxes() {
    var d = "";
    absent = [];
    boxesOf = [];
    for (var i = 0; elements.length > i; i++) {
      var x = boxPlace(i);
      if (0 > x) { continue; }
      d += "M" + x.toFixed(1) + " " + (rowTop(depths[i]) + 0.5) + "h6v" + (rowHeight - 2) + "h-6z";
      var box = { frame: i, x: x };
      absent.push(box);
      (boxesOf[depths[i]] = boxesOf[depths[i]] || []).push(box);
    }
    boxes.setAttribute("d", d);
  }
  hiddenUnder = function (depth, x) {
    var most = 0;
    (boxesOf[depth] || []).forEach(function (box) {
      if (x + PADDING >= box.x) { most = Math.max(most, box.x + 6 - x); }
    });
    return most;
  };
  var pointedFrame = pointed;
  pointed = function (event) {
    var at = pointedFrame(event);
    var depth = depthAt(at.y);
    absent.forEach(function (box) {
      if (depths[box.frame] !== depth) { return; }
      var off = at.x - MARGIN - box.x;
      if (off >= 0) { if (6 >= off) { at.frame = box.frame; } }
    });
    return at;
  };
  // There is nothing to zoom to where a stack is not.
  var zoomToFrame = zoomTo;
  zoomTo = function (i, silent) { if (widths[i] > 0) { zoomToFrame(i, silent); } };
