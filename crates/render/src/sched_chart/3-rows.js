  // Which rows there are, where each is, and what of the data is drawn in it.
  var holder = document.getElementById("data");
  var scroller = document.getElementById("scroll");
  var tall = document.getElementById("tall");
  var pane = document.getElementById("pane");
  var canvas = document.getElementById("chart");
  var over = document.getElementById("over");
  var axis = document.getElementById("axis");
  // Paper is light.
  var dark = matchMedia("screen and (prefers-color-scheme: dark)");
  var coarse = matchMedia("(pointer: coarse)").matches;
  var data;

  function setting(name) { return (holder.getAttribute("data-" + name) || "").split(" "); }
  // Of each code, its kind and the state's letter.
  var kindOf = new Uint8Array(256);
  var letterOf = [];
  setting("codes").forEach(function (code, index) {
    kindOf[index] = parseInt(code, 10);
    letterOf[index] = code.slice(-1);
  });
  var KINDS = setting("kinds").length;
  var LABELS = holder.getAttribute("data-labels").split(",");
  var READY = 1;

  // A colour of six digits as a pixel: red is the first byte.
  function pixel(colour) {
    var hex = colour.length === 4 ? colour.replace(/[0-9a-f]/g, "$&$&") : colour;
    var rgb = parseInt(hex.slice(1), 16);
    return (255 << 24 | (rgb & 255) << 16 | rgb & 0xff00 | rgb >> 16) >>> 0;
  }
  // Black or white, by the rule of color.rs.
  function inkOn(colour) {
    var light = [0, 8, 16].map(function (shift) {
      var c = (colour >> shift & 255) / 255;
      return c <= 0.04045 ? c / 12.92 : Math.pow((c + 0.055) / 1.055, 2.4);
    });
    return 0.2126 * light[0] + 0.7152 * light[1] + 0.0722 * light[2] > 0.179 ? "#000" : "#fff";
  }
  // A colour on its way to another one.
  function mixed(from, to, share) {
    var sum = 255 << 24 >>> 0;
    for (var shift = 0; shift < 24; shift += 8) {
      var a = from >> shift & 255;
      sum += Math.round(a + ((to >> shift & 255) - a) * share) << shift;
    }
    return sum >>> 0;
  }
  var colours;
  function chooseColours() {
    function list(name) {
      return setting(name).map(function (pair) { return pixel(pair.split("/")[dark.matches ? 1 : 0]); });
    }
    var style = getComputedStyle(document.documentElement);
    var page = pixel(style.getPropertyValue("--background").trim());
    colours = { kinds: list("kinds"), processes: list("processes"), idle: list("idle"), page: page };
    colours.text = style.getPropertyValue("--text").trim();
    colours.muted = style.getPropertyValue("--muted").trim();
    colours.line = dark.matches ? "#33333a" : "#e4e4e8";
    colours.dimmed = colours.processes.map(function (colour) { return mixed(colour, page, 0.85); });
    colours.accent = dark.matches ? "#6db1ff" : "#0a5fd0";
  }
  function colourOfProcess(index) { return Math.min(index, colours.processes.length - 1); }

  // Rows from the top: what each is, its number, its place. A process of one thread is one row.
  var items = [];
  // Processes whose threads are not shown, by index; and what rows are asked for.
  var closed = new Set();
  var wanted = "";
  var narrow = false;
  var gutter = 0;
  // Height of a row's bar, and of what is above it: in a narrow window, the name.
  var bar = 0;
  var above = 0;
  function name(row) { return data.names[data.rowNames[row]]; }
  function title(row) {
    var process = data.processes[data.processOf[row]];
    var tid = data.tids[row];
    return name(row) + " " + (process.pid < 0 ? tid : process.pid === tid ? tid : process.pid + "/" + tid);
  }
  function matches(text) { return text.toLowerCase().includes(wanted); }
  // The rows that the filter leaves; null for all.
  var shownRows = null;
  function findShown() {
    shownRows = null;
    if (!wanted) { return; }
    shownRows = new Uint8Array(data.rows);
    data.processes.forEach(function (process) {
      var whole = matches(process.name + " " + process.pid);
      for (var row = process.first; row < process.first + process.rows; row++) {
        shownRows[row] = whole || matches(title(row)) ? 1 : 0;
      }
    });
  }
  function lay() {
    narrow = scroller.clientWidth < 640;
    gutter = narrow ? 0 : Math.round(Math.min(230, 100 + scroller.clientWidth * 0.07));
    bar = coarse ? 26 : 18;
    above = narrow ? 17 : 0;
    items = [];
    var y = 0;
    function add(kind, index, height) {
      items.push({ kind: kind, index: index, y: y, height: height });
      y += height;
    }
    var high = bar + above + 3;
    add("head", "CPUs", 20);
    data.cpus.forEach(function (_, cpu) { add("cpu", cpu, high + 2); });
    add("head", "Processes and threads", 24);
    data.processes.forEach(function (process, index) {
      var rows = [];
      for (var row = process.first; row < process.first + process.rows; row++) {
        if (!shownRows || shownRows[row]) { rows.push(row); }
      }
      if (rows.length === 0) { return; }
      if (process.rows === 1) { add("row", rows[0], high); return; }
      add("process", index, high);
      if (!closed.has(index)) { rows.forEach(function (row) { add("row", row, high); }); }
    });
    tall.style.height = y + 6 + "px";
  }
  function itemAt(y) {
    var low = 0;
    var high = items.length;
    while (low < high) {
      var middle = (low + high) >> 1;
      if (items[middle].y > y) { high = middle; } else { low = middle + 1; }
    }
    var item = items[low - 1];
    return item && y < item.y + item.height ? item : null;
  }
  function itemOfRow(row) {
    return items.find(function (item) {
      return item.kind === "row" && item.index === row ||
        item.kind === "process" && item.index === data.processOf[row] && closed.has(item.index);
    });
  }
