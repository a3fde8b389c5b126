"use strict";
// Draws the graphs that stand as JSON in the element "data", in a page or in a picture of its own. Names come from traced
// programs: they become text of elements and nothing else.
(function () {
  var NS = "http://www.w3.org/2000/svg", ROW = 17, CHARACTER = 6.7, LEAST = 0.4;
  var find = function (id) { return document.getElementById(id); };
  var data = JSON.parse(find("data").textContent);

  function element(name, attributes, text) {
    var made = document.createElementNS(NS, name);
    Object.keys(attributes).forEach(function (key) { made.setAttribute(key, attributes[key]); });
    if (text !== undefined) made.textContent = text;
    return made;
  }

  function shortened(text, width) {
    var room = Math.floor((width - 6) / CHARACTER);
    if (room < 3) return "";
    return text.length <= room ? text : text.slice(0, room - 1) + "…";
  }

  function share(part, whole) { return whole ? (100 * part / whole).toFixed(part === whole ? 0 : 2) + "%" : "0%"; }

  function changed(value, before) {
    var most = Math.max(value, before), by = most ? (value - before) / most : 0;
    var faded = Math.round(235 - 165 * Math.abs(by));
    if (by > 0) return "rgb(235," + faded + "," + faded + ")";
    return by < 0 ? "rgb(" + faded + "," + faded + ",235)" : "rgb(235,235,235)";
  }

  // One graph in one element. `told` is called with a line about the frame under the pointer, "" for none.
  function Chart(into, map, width, told) {
    this.into = into;
    this.map = map;
    this.width = width;
    this.told = told;
    this.focus = 0;
    this.matches = null;
    this.rootOnTop = false;
    this.useBefore = false;
    this.rows = 1 + map.depth.reduce(function (most, each) { return Math.max(most, each); }, 0);
    var count = map.depth.length, open = [];
    this.end = new Array(count);
    this.parent = new Array(count);
    for (var i = 0; i < count; i++) {
      while (open.length > map.depth[i]) this.end[open.pop()] = i;
      this.parent[i] = open.length ? open[open.length - 1] : -1;
      open.push(i);
    }
    while (open.length) this.end[open.pop()] = count;
  }

  Chart.prototype.values = function () { return this.useBefore ? this.map.before : this.map.value; };
  Chart.prototype.height = function () { return this.rows * ROW; };
  Chart.prototype.name = function (i) { return this.map.names[this.map.frame[i]]; };

  Chart.prototype.about = function (i) {
    var map = this.map, name = this.name(i), value = map.value[i];
    var text = name[0] + " — " + value.toLocaleString("en") + " " + map.unit + ", " + share(value, map.value[0]);
    if (this.focus && this.focus !== i) text += " of all, " + share(value, map.value[this.focus]) + " of what is shown";
    if (map.compared) {
      var by = value - map.before[i];
      text += ", before " + map.before[i].toLocaleString("en") + " (" + (by > 0 ? "+" : "") + by.toLocaleString("en") + ")";
    }
    return text + (i ? " — " + (name[3] || data.kinds[name[1]][0]) : "");
  };

  Chart.prototype.frame = function (i, x, width, faded) {
    var map = this.map, name = this.name(i), self = this;
    var y = (this.rootOnTop ? map.depth[i] : this.rows - 1 - map.depth[i]) * ROW;
    var found = this.matches && this.matches[map.frame[i]];
    var fill = found ? "#e600e6" : map.compared ? changed(map.value[i], map.before[i]) : data.palette[name[2]];
    var group = element("g", { tabindex: 0, "data-row": i, "data-found": found ? 1 : 0 });
    group.appendChild(element("title", {}, this.about(i)));
    group.appendChild(element("rect", {
      x: x, y: y, width: Math.max(width - 0.5, 0.3), height: ROW - 1, rx: 1, fill: fill, opacity: faded ? 0.45 : 1
    }));
    var text = shortened(name[0], width);
    if (text) group.appendChild(element("text", { x: x + 3, y: y + 12, fill: found ? "#fff" : "#111" }, text));
    group.addEventListener("click", function () { self.zoom(i); });
    group.addEventListener("keydown", function (event) { if (event.key === "Enter") self.zoom(i); });
    group.addEventListener("mouseenter", function () { self.told(self.about(i)); });
    group.addEventListener("focus", function () { self.told(self.about(i)); });
    group.addEventListener("mouseleave", function () { self.told(""); });
    this.into.appendChild(group);
  };

  Chart.prototype.draw = function () {
    var values = this.values(), focus = this.focus, scale = values[focus] ? this.width / values[focus] : 0;
    while (this.into.firstChild) this.into.removeChild(this.into.firstChild);
    for (var above = this.parent[focus]; above >= 0; above = this.parent[above]) this.frame(above, 0, this.width, true);
    // The left end of the next frame at each depth.
    var next = [], bottom = this.map.depth[focus];
    next[bottom] = 0;
    for (var i = focus; i < this.end[focus];) {
      var depth = this.map.depth[i], x = next[depth], width = values[i] * scale;
      next[depth] = x + width;
      next[depth + 1] = x;
      if (width < LEAST) { i = this.end[i]; continue; }
      this.frame(i, x, width, false);
      i++;
    }
  };

  Chart.prototype.zoom = function (i) {
    this.focus = i;
    this.told("");
    this.draw();
    if (this.zoomed) this.zoomed();
  };

  // Marks what `test` holds for; the values of all stacks, of those in view, that have one such frame.
  Chart.prototype.search = function (test) {
    this.matches = test && this.map.names.map(function (name) { return test(name[0]); });
    this.draw();
    var values = this.values(), found = 0;
    for (var i = this.focus; this.matches && i < this.end[this.focus];) {
      if (this.matches[this.map.frame[i]]) { found += values[i]; i = this.end[i]; } else i++;
    }
    return found;
  };

  // A word anywhere in the name, or a regular expression between slashes. Throws where that is none.
  function tester(text) {
    if (!text.trim()) return null;
    var between = /^\/(.+)\/$/.exec(text);
    if (between) {
      var expression = new RegExp(between[1], "i");
      return function (name) { return expression.test(name); };
    }
    var wanted = text.toLowerCase();
    return function (name) { return name.toLowerCase().indexOf(wanted) >= 0; };
  }

  // Searches all charts; what to say of it.
  function searched(charts, text) {
    var test;
    try { test = tester(text); } catch (error) { return null; }
    var found = 0, whole = 0;
    charts.forEach(function (chart) {
      found += chart.search(test);
      whole += chart.values()[chart.focus];
    });
    return test ? "found in " + share(found, whole) + " (" + found.toLocaleString("en") + ")" : "";
  }

  function page() {
    var into = find("chart"), details = find("details"), search = find("search"), choice = find("map"), chart;
    var around = into.parentNode;

    function told(text) { details.textContent = text; }

    function look() {
      var said = searched([chart], search.value);
      find("found").textContent = said === null ? "no regular expression" : said;
      find("found").className = said === null ? "wrong" : "";
      find("reset").disabled = !chart.focus;
    }

    function fit() {
      into.setAttribute("height", chart.height());  // there may be a scrollbar from now on
      chart.width = into.clientWidth || 1200;
      look();
    }

    // Where the root is.
    function scroll() { around.scrollTop = chart.rootOnTop ? 0 : around.scrollHeight; }

    function show(number) {
      var map = data.maps[number], kinds = {};
      chart = new Chart(into, map, 0, told);
      chart.zoomed = look;
      chart.rootOnTop = find("flip").checked;
      chart.useBefore = map.compared && find("before").checked;
      map.names.forEach(function (name, at) { if (at) kinds[name[1]] = true; });
      var legend = find("legend");
      legend.textContent = map.compared ? "red: more than before; blue: less" : "";
      Object.keys(map.compared ? {} : kinds).forEach(function (kind) {
        var entry = document.createElement("span"), square = document.createElement("i");
        square.style.background = data.kinds[kind][1];
        entry.appendChild(square);
        entry.appendChild(document.createTextNode(data.kinds[kind][0]));
        legend.appendChild(entry);
      });
      find("beside").hidden = !map.compared;
      find("note").textContent = map.leftOut ? map.leftOut + " stacks left out: their values are 0 or less" : "";
      fit();
      scroll();
    }

    data.maps.forEach(function (map, number) {
      var option = document.createElement("option");
      option.value = number;
      option.textContent = map.name;
      choice.appendChild(option);
    });
    choice.hidden = data.maps.length < 2;
    choice.addEventListener("change", function () { show(+choice.value); });
    search.addEventListener("input", look);
    find("reset").addEventListener("click", function () { chart.zoom(0); });
    find("flip").addEventListener("change", function () {
      chart.rootOnTop = find("flip").checked;
      chart.draw();
      scroll();
    });
    find("before").addEventListener("change", function () { chart.useBefore = find("before").checked; look(); });
    document.addEventListener("keydown", function (event) { if (event.key === "Escape") chart.zoom(0); });
    window.addEventListener("resize", fit);
    if (data.maps.length) show(0);
    around.focus({ preventScroll: true });  // keys scroll it
  }

  function picture() {
    var sought = "", charts = data.maps.map(function (map, number) {
      var into = find("chart" + number);
      var chart = new Chart(into, map, +into.getAttribute("data-width"), function (text) {
        find("details").textContent = text;
      });
      chart.zoomed = look;
      return chart;
    });

    function look() { find("found").textContent = searched(charts, sought) || ""; }

    find("reset").addEventListener("click", function () {
      charts.forEach(function (chart) { chart.focus = 0; });
      look();
    });
    find("search").addEventListener("click", function () {
      var text = window.prompt("Search for (a word, or /a regular expression/):", sought);
      if (text !== null) { sought = text; look(); }
    });
    find("tools").removeAttribute("display");
    look();
  }

  if (document.documentElement.namespaceURI === NS) picture(); else page();
})();
