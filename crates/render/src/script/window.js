  // What all pictures share: elements, the look of details, text that is cut, and the window of a telephone.
  function set(element, attributes) {
    for (var name in attributes) { element.setAttribute(name, attributes[name]); }
  }
  function html(tag, attributes, text) {
    var element = document.createElementNS(XHTML, tag);
    set(element, attributes);
    if (text) { element.textContent = text; }
    return element;
  }
  function svgElement(tag, attributes) {
    var element = document.createElementNS(SVG, tag);
    set(element, attributes);
    root.appendChild(element);
    return element;
  }
  // HTML in a shadow tree: the page's style does not reach it.
  function foreign(style, high) {
    var holder = svgElement("foreignObject", {
      "class": "controls", x: 0, y: 0, width: 100, height: high
    });
    holder.style.overflow = "visible";
    holder.style.pointerEvents = "none";
    var host = html("div", {});
    holder.appendChild(host);
    var shadow = host.attachShadow({ mode: "open" });
    shadow.appendChild(html("style", {}, style));
    return { holder: holder, shadow: shadow };
  }
  function font() {
    return "font:" + fontSize + "px " + getComputedStyle(root).fontFamily + ";";
  }
  // The box with the details of what is pointed at; `dark` begins the rules for dark pages.
  function tipStyle(widest, dark) {
    return "div{position:absolute;box-sizing:border-box;width:max-content;max-width:min(" + widest + "px,96%);" +
      "padding:7px 10px;border-radius:7px;background:#202024;color:#f4f4f6;" + font() +
      "line-height:1.4;box-shadow:0 3px 14px rgba(0,0,0,.28);overflow-wrap:anywhere;pointer-events:none;" +
      "font-variant-numeric:tabular-nums}div[hidden]{display:none}b{font-weight:600}" +
      "span{display:block;color:#c6c6cc}" +
      dark + "div{background:#f4f4f6;color:#17171b}span{color:#46464d}}";
  }
  // A text is cut where it is longer than there is room.
  function cutText(element, text, room) {
    element.textContent = text;
    while (text.length > 4) {
      if (room >= element.getComputedTextLength()) { break; }
      text = text.slice(0, Math.floor(text.length * 0.9));
      element.textContent = text + "\u2026";
    }
  }
  // Telephones lay a picture that is opened alone out for 980 pixels, and make it smaller, unless it
  // says that it fits their window.
  function fitTelephone() {
    var meta = document.createElementNS(XHTML, "meta");
    meta.setAttribute("name", "viewport");
    meta.setAttribute("content", "width=device-width,initial-scale=1");
    root.appendChild(meta);
  }
