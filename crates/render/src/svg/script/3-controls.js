  // Controls, as HTML in a shadow tree: the page's style does not reach them.
  var bar;
  var said;
  var tip;
  var tipBox;
  var ring;
  var controls = {};
  // What the picture is drawn for, if not for the reader's setting.
  var theme = root.getAttribute("data-theme");
  var DARK = theme === "dark" ? "@media all{" : theme === "light" ? "@media not all{"
    : "@media(prefers-color-scheme:dark){";
  // Over the frames, where the page is scrolled.
  var FLOATS = "background:#fff;border-radius:8px;box-shadow:0 2px 10px rgba(0,0,0,.25)";
  function buildControls() {
    var made = foreign(
      ".line{display:flex;gap:6px;align-items:center;justify-content:flex-end;width:max-content;" +
      "max-width:100%;margin-left:auto;" + font() + "height:28px;color:#3f3f46;pointer-events:auto}" +
      ".line.floats{padding:4px;margin:-5px -5px 0 auto;" + FLOATS + "}" +
      "button,input{font:inherit;color:inherit;box-sizing:border-box;height:26px;margin:0;" +
      "border:1px solid #8e8e98;border-radius:6px;background:#fff;padding:0 8px}" +
      "button{cursor:pointer;flex:none}button[hidden]{display:none}" +
      "button:hover{background:#f0f0f3}" +
      "button[aria-pressed=true]{background:#3f3f46;color:#fff;border-color:#3f3f46}" +
      "input{width:150px;flex:0 1 150px;min-width:60px}" +
      "input[aria-invalid=true]{border-color:#c4002b;outline-color:#c4002b}" +
      "button:focus-visible,input:focus-visible{outline:2px solid #0a66d8;outline-offset:1px}" +
      "@media(pointer:coarse){.line{height:42px}button,input{height:40px;min-width:44px}}" +
      DARK +
      ".line{color:#dcdce0}.line.floats{background:#17171b}" +
      "button,input{background:#26262b;border-color:#77777f}" +
      "button:hover{background:#34343a}" +
      "button[aria-pressed=true]{background:#dcdce0;color:#17171b;border-color:#dcdce0}}",
      30);
    bar = made.holder;
    var line = controls.line =
      html("div", { "class": "line", role: "toolbar", "aria-label": "Flame graph" });
    var below = foreign(
      "div{text-align:right;" + font() + "line-height:18px;padding:5px 0;" +
      "box-sizing:border-box;color:#3f3f46;overflow-wrap:anywhere;font-variant-numeric:tabular-nums}" +
      "span{pointer-events:auto;-webkit-user-select:text;user-select:text}div.floats span:not(:empty){" +
      "padding:4px 8px;-webkit-box-decoration-break:clone;box-decoration-break:clone;" + FLOATS + "}" +
      DARK + "div{color:#dcdce0}div.floats span:not(:empty){background:#17171b}}",
      30);
    said = below.holder;
    controls.said = html("div", {});
    controls.status = html("span", { role: "status", "aria-live": "polite" });
    controls.said.appendChild(controls.status);
    below.shadow.appendChild(controls.said);
    controls.out = html("button", { type: "button", title: "Zoom out one step (Escape)" }, "Out");
    controls.reset = html("button", { type: "button", title: "Show everything (Home)" }, "Reset");
    controls.input = html("input", {
      type: "search", placeholder: "Search", "aria-label": "Search functions by regular expression",
      title: "A regular expression (/ or Ctrl-F); Enter goes to the widest, then to the next", spellcheck: "false"
    });
    controls.ignore = html("button", {
      type: "button", title: "Ignore case", "aria-label": "Ignore case", "aria-pressed": "true"
    }, "aA");
    ["out", "reset", "input", "ignore"].forEach(function (key) {
      line.appendChild(controls[key]);
    });
    made.shadow.appendChild(line);
    controls.out.addEventListener("click", function () { stepOut(); });
    controls.reset.addEventListener("click", function () { zoomTo(0); });
    controls.input.addEventListener("input", function () {
      search(controls.input.value, caseMode, pattern === "");
    });
    controls.ignore.addEventListener("click", function () {
      var other = ignoresCase(pattern, caseMode) ? "exact" : "ignore";
      search(pattern, ignoresCase(pattern, "") === (other === "ignore") ? "" : other, true);
    });
    line.addEventListener("keydown", function (event) {
      event.stopPropagation();
      if (event.key === "Escape") {
        if (event.target === controls.input) { search("", "", true); }
        focusFrame(current, true);
      } else if (event.key === "Enter") {
        if (event.target === controls.input) { nextHit(event.shiftKey ? -1 : 1); }
      }
    });
  }
  function buildTip() {
    ring = svgElement("rect", {
      fill: "none", stroke: "#0a66d8", "stroke-width": 2.5,
      "pointer-events": "none", visibility: "hidden"
    });
    var made = foreign(tipStyle(560, DARK), 100);
    tip = made.holder;
    tipBox = html("div", { hidden: "", "aria-hidden": "true" });
    made.shadow.appendChild(tipBox);
  }

  // What is said of a frame: its name, then lines.
  function describe(i) {
    var lines = details(i).slice();
    if (!lines[1].includes("%")) { lines[1] += ", " + percent(widths[i], whole); }
    if (lines[1].endsWith("%")) { lines[1] += ofWhole; }
    if (saysSelf) { if (i > 0) { addSelf(i, lines); } }
    if (zoomed !== 0) {
      if (isInZoom(i)) {
        lines[1] += ", " + percent(widths[i], viewWidth) + " of " +
          (nameOf(zoomed).length > 40 ? "the zoomed frame" : nameOf(zoomed));
      }
    }
    return lines;
  }
  // Callers of the zoomed frame are no part of it, also where they begin where it does.
  function isInZoom(i) {
    if (depths[zoomed] > depths[i]) { return false; }
    return starts[i] >= viewStart ? viewStart + viewWidth >= starts[i] + widths[i] : false;
  }
  // Where the file does not say what a frame has itself, it follows from the picture.
  function addSelf(i, lines) {
    if (lines.length > 2) { if (/^self \d/.test(lines[2])) { return; } }
    var row = rows[depths[i] + 1] || [];
    var above = frameAt(depths[i] + 1, starts[i] + widths[i] / 2, widths[i] / 2);
    var calls = 0 > above ? false : row.some(function (k) {
      return starts[k] >= starts[i] ? starts[i] + widths[i] > starts[k] : false;
    });
    lines.splice(2, 0, calls ? "self 0" : "self: all of it");
  }
  function showTip(i, x, y) {
    var title = elements[i].querySelector("title");
    if (title) {
      details(i);
      title.remove();
    }
    if (tipBox.pyrograph !== i) {
      tipBox.pyrograph = i;
      var lines = describe(i);
      tipBox.replaceChildren(html("b", {}, lines[0]));
      lines.slice(1).forEach(function (line) { tipBox.appendChild(html("span", {}, line)); });
    }
    tipBox.removeAttribute("hidden");
    var w = tipBox.offsetWidth;
    var h = tipBox.offsetHeight;
    var below = y + 18 + h > height ? y - h - 10 : y + 18;
    tipBox.style.left = Math.max(4, Math.min(x + 12, width - w - 4)) + "px";
    tipBox.style.top = Math.max(4, below) + "px";
  }
  function hideTip() {
    tipBox.setAttribute("hidden", "");
    tipBox.pyrograph = -1;
  }

  // The frame under the pointer, by its coordinates: lines of a tenth of a pixel are hard to hit.
  function pointed(event) {
    var matrix = root.getScreenCTM();
    var place = new DOMPoint(event.clientX, event.clientY).matrixTransform(matrix.inverse());
    var x = place.x;
    var y = place.y;
    var value = viewStart + (x - MARGIN) / scale();
    var inside = x >= MARGIN ? width - MARGIN >= x : false;
    return { frame: inside ? frameAt(depthAt(y), value, 1 / scale()) : -1, x: x, y: y };
  }
