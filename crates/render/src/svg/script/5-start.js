  // The state in the address: #zoom=12, search and case; with the picture's class before each name
  // where it is one of several in a page. Everything else in the fragment stays.
  var key = "";
  if (!alone) {
    var twins = Array.from(document.getElementsByClassName(id)).indexOf(root);
    key = id + (twins > 0 ? "-" + twins : "") + ".";
  }
  function save(push) {
    var own = ["zoom", "search", "case"].map(function (name) { return key + name; });
    var parts = location.hash.slice(1).split(AND).filter(function (part) {
      return part ? !own.includes(part.split("=")[0]) : false;
    });
    if (zoomed !== 0) { parts.push(key + "zoom=" + zoomed); }
    if (pattern) { parts.push(key + "search=" + encodeURIComponent(pattern)); }
    if (pattern) { if (caseMode) { parts.push(key + "case=" + caseMode); } }
    var hash = parts.join(AND);
    if (location.hash.slice(1) === hash) { return; }
    // Not everywhere is a history allowed: in a frame without an address, for one.
    try {
      var url = location.pathname + location.search + (hash ? "#" + hash : "");
      if (push) { history.pushState(null, "", url); } else { history.replaceState(null, "", url); }
    } catch (error) {
      if (alone) { location.hash = hash; }
    }
  }
  function restore() {
    var state = {};
    location.hash.slice(1).split(AND).forEach(function (part) {
      var at = part.indexOf("=");
      if (part.startsWith(key)) { state[part.slice(key.length, at)] = part.slice(at + 1); }
    });
    var to = parseInt(state.zoom || "0", 10);
    to = elements[to] ? to : 0;
    var text = "";
    try { text = decodeURIComponent(state.search || ""); } catch (error) { text = ""; }
    var mode = ["ignore", "exact"].includes(state["case"]) ? state["case"] : "";
    if (to !== zoomed) {
      if (steps[steps.length - 1] === to) { steps.pop(); } else { steps = []; }
      zoomed = to;
      showZoom();
    }
    if (text !== pattern || mode !== caseMode) {
      var saved = save;
      save = function () {};
      search(text, mode, false);
      save = saved;
    }
  }

  function start() {
    readFrames();
    if (elements.length === 0) { return; }
    head.querySelectorAll("text").forEach(function (element) {
      heading.push({
        element: element, full: element.textContent, isTitle: element.classList.contains("title"),
        lines: 1 + element.querySelectorAll("tspan").length
      });
    });
    buildControls();
    buildTip();
    // Its listeners would make it a stop for Tab in some browsers.
    picture.setAttribute("tabindex", "-1");
    picture.setAttribute("role", "tree");
    picture.querySelectorAll("g").forEach(function (g) { g.setAttribute("role", "none"); });
    picture.setAttribute("aria-label",
      "Frames. Arrow keys move, Enter zooms, Escape zooms out, slash searches.");
    if (!fixed) {
      root.style.height = "";
      root.style.maxWidth = "";
      root.setAttribute("width", "100%");
    }
    if (alone) { fitTelephone(); }
    focusable(0);
    layOut();
    restore();
    openAtRoot();
    listen();
    root.addEventListener("keydown", onKey);
    window.addEventListener("popstate", restore);
    if (alone) { window.addEventListener("scroll", floatBar); }
    if (!fixed) { watchWidth(); }
  }
  // Names can be selected, so the pointer is over them, too.
  function listen() {
    textLayer.removeAttribute("pointer-events");
    textLayer.querySelector(".gap").setAttribute("pointer-events", "none");
    // The background is what is seen between rows: there is no place between two frames.
    var ground = root.querySelector("rect");
    [picture, textLayer, ground].forEach(function (layer) {
      layer.addEventListener("pointermove", function (event) {
        var at = pointed(event);
        ground.style.cursor = at.frame >= 0 ? "pointer" : "";
        if (at.frame >= 0) { showTip(at.frame, at.x, at.y); } else { hideTip(); }
      });
      layer.addEventListener("pointerleave", hideTip);
      layer.addEventListener("pointerdown", onPress);
      layer.addEventListener("click", onClick);
    });
    root.addEventListener("pointerup", onRelease);
    picture.addEventListener("focusin", function (event) {
      var i = event.target.pyrograph;
      if (i === undefined) { return; }
      if (event.target.matches(":focus-visible")) { showRing(i); }
    });
    picture.addEventListener("focusout", hideRing);
  }
  // A drag over a name selects it: the browser's own selection goes on to others where the drag leaves it.
  var pressed = null;
  function isDrag(event) {
    return pressed ? Math.abs(event.clientX - pressed.x) + Math.abs(event.clientY - pressed.y) > 4 : false;
  }
  function onPress(event) {
    pressed = { x: event.clientX, y: event.clientY, text: event.target.closest("text"),
      touch: event.pointerType === "touch" };
  }
  function onRelease(event) {
    if (!isDrag(event)) { return; }
    if (pressed.text) { window.getSelection().selectAllChildren(pressed.text); }
  }
  function onClick(event) {
    if (event.target.closest("a") || event.ctrlKey || event.metaKey) { return; }
    if (isDrag(event)) { return; }
    var at = pointed(event);
    if (0 > at.frame) { hideTip(); return; }
    focusable(at.frame);
    elements[at.frame].focus({ preventScroll: true, focusVisible: false });
    zoomTo(at.frame);
    // A finger does not point before it clicks.
    if (pressed) { if (pressed.touch) { showTip(at.frame, at.x, at.y); } }
  }
  function onKey(event) {
    var find = event.key === "f" ? event.ctrlKey || event.metaKey : false;
    if (find || event.key === "/") {
      controls.input.focus();
      controls.input.select();
    } else if (event.ctrlKey || event.metaKey || event.altKey) {
      return;
    } else if (event.key.startsWith("Arrow")) {
      move(event.key);
    } else if (event.key === "Enter" || event.key === " ") {
      zoomTo(current);
      focusFrame(current, true);
    } else if (event.key === "Escape" || event.key === "Backspace") {
      if (zoomed === 0) { return; }
      stepOut();
      focusFrame(current, true);
    } else if (event.key === "Home") {
      zoomTo(0);
      focusFrame(0, true);
    } else if (event.key === "n" || event.key === "N") {
      nextHit(event.key === "n" ? 1 : -1);
    } else if (event.key === "c" || event.key === "C") {
      copy(event.key === "C");
    } else {
      return;
    }
    event.preventDefault();
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
