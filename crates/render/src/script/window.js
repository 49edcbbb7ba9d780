  // What all pictures share: their text, and the window of a telephone.
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
