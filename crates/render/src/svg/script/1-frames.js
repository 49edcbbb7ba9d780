// Zoom, search and keyboard for one flame graph. See svg.rs for the structure it finds.
//
// It stands inside pages and XML as it is, so there is no less-than sign and no ampersand in it:
// comparisons are turned round, and conditions are nested. Editors mangle both.
// Nothing here draws what was not drawn before: without it the picture is whole.
(function () {
  "use strict";
  var script = document.currentScript;
  var root = script ? script.parentNode : null;
  if (!root || !root.querySelector || root.pyrograph) { return; }
  root.pyrograph = true;

  var XHTML = "http://www.w3.org/1999/xhtml";
  var SVG = "http://www.w3.org/2000/svg";
  var AND = String.fromCharCode(38);
  var MARGIN = 10;
  var PADDING = 3;
  var alone = document.documentElement === root;
  var fixed = root.hasAttribute("data-fixed");
  var inverted = root.hasAttribute("data-inverted");
  var rowHeight = parseFloat(root.getAttribute("data-row"));
  var charShare = parseFloat(root.getAttribute("data-char"));
  var prefix = root.getAttribute("data-nametype");
  prefix = prefix ? prefix + " " : "";

  var id = root.getAttribute("class");
  var picture = root.querySelector(".frames");
  var textLayer = root.querySelector(".text");
  var head = root.querySelector(".head");
  var foot = root.querySelector(".foot");
  var notice = root.querySelector(".notice");
  var noticeText = notice ? notice.textContent : "";
  var legend = root.querySelector(".legend");
  if (!picture) { return; }
  var box = root.viewBox.baseVal;
  var width = box.width;
  var height = box.height;
  var span = picture.viewBox.baseVal.width;
  // Percentages are of the whole input, of which filters may have left a part.
  var whole = parseFloat(picture.getAttribute("data-whole")) || span;
  // How many frames were too narrow to be drawn.
  var narrow = parseInt(picture.getAttribute("data-narrow") || "0", 10);
  var saysSelf = picture.hasAttribute("data-self");
  var ofWhole = whole > span ? " of the whole input" : " of all";
  var rowsHeight = picture.viewBox.baseVal.height;
  var rowGroups = [];
  var top = parseFloat(picture.getAttribute("y"));
  var designTop = top;
  var fontSize = parseFloat(root.getAttribute("font-size"));

  // The frames, as arrays: element, start, width, row from the root; and per row, sorted by start.
  var elements = [];
  var starts = [];
  var widths = [];
  var depths = [];
  var rows = [];
  var names = null;
  function readFrames() {
    var groups = picture.children;
    for (var g = 0; groups.length > g; g++) {
      rowGroups.push(groups[g]);
      var paths = groups[g].querySelectorAll("path");
      var row = [];
      for (var p = 0; paths.length > p; p++) {
        var d = paths[p].getAttribute("d");
        var at = d.indexOf("h");
        paths[p].pyrograph = elements.length;
        row.push(elements.length);
        elements.push(paths[p]);
        starts.push(parseInt(d.slice(1, at), 10));
        widths.push(parseInt(d.slice(at + 1), 10));
        depths.push(rows.length);
      }
      row.sort(function (a, b) { return starts[a] - starts[b]; });
      rows.push(row);
    }
  }

  // Details: the lines of the native tooltip. They are taken out when a frame is first pointed at,
  // or the browser would show its own tooltip over ours.
  function details(i) {
    var element = elements[i];
    if (!element.pyrographDetails) {
      var title = element.querySelector("title");
      element.pyrographDetails = (title ? title.textContent : "").split("\n");
    }
    return element.pyrographDetails;
  }
  function nameOf(i) {
    return details(i)[0].slice(prefix.length);
  }
  function allNames() {
    if (!names) {
      names = [];
      for (var i = 0; elements.length > i; i++) { names.push(nameOf(i)); }
    }
    return names;
  }
  function percent(part, whole) {
    if (part === 0) { return "0%"; }
    var value = 100 * part / whole;
    return value.toFixed(value >= 0.01 ? 2 : 4) + "%";
  }

  // The frame at a value in a row; the nearest where none is exactly there.
  function frameAt(depth, value, slack) {
    var row = rows[depth];
    if (!row) { return -1; }
    var low = 0;
    var high = row.length;
    while (high > low) {
      var middle = (low + high) >> 1;
      if (starts[row[middle]] > value) { high = middle; } else { low = middle + 1; }
    }
    var best = -1;
    var distance = slack;
    for (var k = Math.max(0, low - 1); Math.min(row.length, low + 1) > k; k++) {
      var i = row[k];
      var off = Math.max(starts[i] - value, value - starts[i] - widths[i], 0);
      if (distance >= off) { best = i; distance = off; }
    }
    return best;
  }
  function parentOf(i) {
    return depths[i] > 0 ? frameAt(depths[i] - 1, starts[i] + widths[i] / 2, span) : i;
  }
