// Details, zoom and keyboard for one heat map. See heatmap.rs for the structure it finds.
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
  var MARGIN = 10;
  var SIDE = 72;
  var GAP = 6;
  var alone = document.documentElement === root;
  function setting(name) { return root.getAttribute("data-" + name) || ""; }
  function numbers(text) { return text ? text.split(" ").map(Number) : []; }
  var fixed = root.hasAttribute("data-fixed");
  var log = root.hasAttribute("data-log");
  var gridLines = root.hasAttribute("data-grid");
  var columnStep = Number(setting("step"));
  var edges = numbers(setting("edges"));
  var points = numbers(setting("points"));
  var below = root.hasAttribute("data-below") ? numbers(setting("below")) : null;
  var noun = setting("noun");
  var columns = points.length;
  var rows = edges.length - 1;

  var picture = root.querySelector(".cells");
  var over = root.querySelector(".over");
  var side = root.querySelector(".side");
  var axes = root.querySelector(".axes");
  var foot = root.querySelector(".foot");
  if (!picture) { return; }
  var width = root.viewBox.baseVal.width;
  var height = root.viewBox.baseVal.height;
  var fontSize = parseFloat(root.getAttribute("font-size"));
  var left = parseFloat(picture.getAttribute("x"));
  var top = parseFloat(picture.getAttribute("y"));
  var across = parseFloat(picture.getAttribute("width"));
  var down = parseFloat(picture.getAttribute("height"));
  // The numbers of the axis of times, and its title.
  var underCells = 2 * fontSize + 24;
  var footHeight = height - top - down - underCells;

  // How many points each cell has, by column, then by row from the bottom.
  var counts = new Map();
  function cellKey(column, row) { return column * rows * level.y + row; }
  function readCells() {
    picture.querySelectorAll("[data-n]").forEach(function (path) {
      var each = numbers(path.getAttribute("data-n"));
      var index = 0;
      path.getAttribute("d").slice(1).split("M").forEach(function (run) {
        var parts = run.split(/[ h]/).map(Number);
        for (var k = 0; parts[2] > k; k++) {
          counts.set(cellKey(parts[0] + k, rows - 1 - parts[1]),
            each.length > 1 ? each[index] : each[0]);
          index++;
        }
      });
    });
  }
  function countOf(column, row) { return shownCells.get(cellKey(column, row)) || 0; }

