  // The keyboard's frame: the only one that Tab reaches; arrows go on from there.
  var current = 0;
  function focusable(i) {
    elements[current].removeAttribute("tabindex");
    current = i;
    var element = elements[i];
    var lines = describe(i);
    element.setAttribute("tabindex", "0");
    element.setAttribute("role", "treeitem");
    element.setAttribute("aria-level", depths[i] + 1);
    element.setAttribute("aria-label", lines.join(", "));
  }
  function focusFrame(i, visibly) {
    if (0 > i) { return; }
    focusable(i);
    elements[i].focus({ preventScroll: true, focusVisible: visibly });
    showRing(i);
    ring.scrollIntoView({ block: "nearest" });
  }
  function showRing(i) {
    if (places[depths[i]] === undefined) { hideRing(); return; }
    var left = Math.max(0, (starts[i] - viewStart) * scale());
    var right = Math.min(framesWidth(), (starts[i] + widths[i] - viewStart) * scale());
    ring.setAttribute("x", MARGIN + left);
    ring.setAttribute("y", top + rowTop(depths[i]));
    ring.setAttribute("width", Math.max(2, right - left));
    ring.setAttribute("height", rowHeight - 1);
    ring.setAttribute("visibility", right >= left ? "visible" : "hidden");
    var details = Math.min(width - 40, MARGIN + left);
    showTip(i, details, top + rowTop(depths[i]) + rowHeight - 8);
  }
  function hideRing() {
    ring.setAttribute("visibility", "hidden");
    hideTip();
  }
  function move(key) {
    var step = key === "ArrowLeft" ? -1 : key === "ArrowRight" ? 1 : 0;
    if (step) {
      var row = rows[depths[current]];
      var next = row[row.indexOf(current) + step];
      if (next === undefined) { return; }
      var after = starts[next] >= viewStart + viewWidth;
      if (after) { return; }
      if (viewStart >= starts[next] + widths[next]) { return; }
      focusFrame(next, true);
    } else if ((key === "ArrowUp") !== inverted) {
      // The widest callee that is in view.
      var best = -1;
      (rows[depths[current] + 1] || []).forEach(function (i) {
        if (starts[current] > starts[i]) { return; }
        if (starts[i] >= starts[current] + widths[current]) { return; }
        if (viewStart > starts[i]) { return; }
        if (starts[i] >= viewStart + viewWidth) { return; }
        if (best === -1 || widths[i] > widths[best]) { best = i; }
      });
      if (0 > best) {
        // Above a caller of the zoomed frame: the way to it.
        if (depths[zoomed] > depths[current]) {
          best = frameAt(depths[current] + 1, viewStart + viewWidth / 2, 0);
        }
      }
      focusFrame(best, true);
    } else if (depths[current] > 0) {
      focusFrame(parentOf(current), true);
    }
  }

  // Zoom.
  function zoomTo(i, silent) {
    if (i === zoomed) { return; }
    if (!silent) { steps.push(zoomed); }
    if (i === 0) { steps = []; }
    zoomed = i;
    showZoom();
    if (!silent) { save(true); }
  }
  function stepOut() {
    if (zoomed === 0) { return; }
    var to = steps.pop();
    if (to === undefined) {
      to = zoomed;
      while (to !== 0) {
        to = parentOf(to);
        if (widths[to] > widths[zoomed]) { break; }
      }
    }
    zoomed = to;
    showZoom();
    save(true);
  }

  // Search.
  var wrong = "";
  var walked = false;
  function search(text, mode, push) {
    pattern = text;
    caseMode = mode;
    var anyCase = ignoresCase(text, mode);
    if (controls.input.value !== text) { controls.input.value = text; }
    controls.ignore.setAttribute("aria-pressed", String(anyCase));
    hits.forEach(function (i) { elements[i].classList.remove("hit"); });
    hits = [];
    walked = false;
    wrong = "";
    var regex = null;
    if (text) {
      try { regex = regexpOf(text, anyCase); } catch (error) { wrong = reasonOf(error); }
    }
    controls.input.setAttribute("aria-invalid", String(wrong !== ""));
    if (regex) {
      // The first stands for the whole, and is no function.
      allNames().forEach(function (name, i) {
        if (i > 0) { if (regex.test(name)) { hits.push(i); } }
      });
    }
    hits.sort(function (a, b) { return starts[a] - starts[b] || depths[a] - depths[b]; });
    hits.forEach(function (i) { elements[i].classList.add("hit"); });
    root.classList.toggle("hits", regex !== null);
    showStatus();
    save(push);
  }
  // The width of all hits inside a range; one inside another counts once.
  function covered(from, to) {
    var sum = 0;
    var end = from;
    hits.forEach(function (i) {
      var begin = Math.max(starts[i], end);
      var stop = Math.min(starts[i] + widths[i], to);
      if (stop > begin) {
        sum += stop - begin;
        end = stop;
      }
    });
    return sum;
  }
  // Frames too narrow to be in the file may match, too.
  function foundShare(from, to, of) {
    var sum = covered(from, to);
    var sure = narrow === 0 || sum === 0 || sum === to - from;
    return (sure ? "" : "at least ") + percent(sum, of);
  }
  // The first is the widest; then come the others in view, the wider before the narrower.
  function nextHit(step) {
    var shown = hits.filter(function (i) {
      if (starts[i] >= viewStart + viewWidth) { return false; }
      return starts[i] + widths[i] > viewStart;
    });
    if (shown.length === 0) { return; }
    shown.sort(function (a, b) {
      return widths[b] - widths[a] || depths[a] - depths[b] || starts[a] - starts[b];
    });
    var at = shown.indexOf(current);
    if (!walked || 0 > at) { at = step > 0 ? -1 : 0; }
    walked = true;
    focusFrame(shown[(at + step + shown.length) % shown.length], true);
  }
  function showStatus() {
    var text = "";
    if (wrong) {
      text = "Not a regular expression: " + wrong;
    } else if (pattern) {
      text = hits.length.toLocaleString("en") + (hits.length === 1 ? " frame, " : " frames, ") +
        foundShare(0, span, whole) + ofWhole;
      if (zoomed !== 0) {
        text += ", " + foundShare(viewStart, viewStart + viewWidth, viewWidth) +
          " of the zoomed frame";
      }
      if (narrow > 0) {
        text += "; " + narrow.toLocaleString("en") + " narrow " +
          (narrow === 1 ? "frame" : "frames") + " not searched";
      }
    } else if (zoomed !== 0) {
      text = nameOf(zoomed) + ": " + percent(viewWidth, whole) + ofWhole;
    }
    say(text);
    ["out", "reset"].forEach(function (key) {
      if (zoomed === 0) { controls[key].setAttribute("hidden", ""); }
      else { controls[key].removeAttribute("hidden"); }
    });
    keepInPlace(function () {
      headTop = fitHead();
      placeHead();
      fitHeight();
    });
  }
  function say(text) {
    if (controls.status.textContent !== text) { controls.status.textContent = text; }
  }
  // What is copied: the name of the frame that is pointed at, or has the keyboard; or its stack.
  function copy(all) {
    var i = tipBox.hasAttribute("hidden") ? current : tipBox.pyrograph;
    var text = nameOf(i);
    while (all) {
      i = parentOf(i);
      if (depths[i] === 0) { break; }
      text = nameOf(i) + ";" + text;
    }
    var what = all ? "the stack" : "the name";
    var done = navigator.clipboard ? navigator.clipboard.writeText(text) : Promise.reject();
    done.then(function () { told("Copied " + what + ": " + text); },
      function () { told("The browser does not permit copying: " + text); });
  }
  function told(text) {
    say(text);
    placeHead();
    fitHeight();
  }
