// The interactive part of the report: the map on a canvas.
"use strict";
(() => {
  const { points, viewSets, colors, titles, nColors, nShapes } = JSON.parse(document.getElementById("data").textContent);
  const find = (selector) => document.querySelector(selector);
  const all = (selector) => [...document.querySelectorAll(selector)];
  const n = points.x.length, clusters = titles.length;

  // --- the map ------------------------------------------------------------------------------------------
  const plane = find("#plane"), canvas = find("#plane canvas"), tip = find("#tip"), context = canvas.getContext("2d");
  const width = Math.max(1, ...points.x), height = Math.max(1, ...points.y);
  const radius = n > 5000 ? 2.6 : n > 1500 ? 3.4 : 4.4;
  const outlines = Array.from({ length: nShapes }, (_, i) => find(`#shape${i} path`).getAttribute("d"));
  const shapes = outlines.map((outline) => new Path2D(outline));
  const OUTLINE = 0.22, FONT = "system-ui, sans-serif";  // width of the line around a point of radius 1
  const labels = titles.map((title) => (title.length > 20 ? `${title.slice(0, 19)}…` : title));
  const visible = new Array(clusters).fill(true);
  const view = { zoom: 1, x: width / 2, y: height / 2 };
  let colorBy = "cluster", marked = null, focused = null, pending = false, theme;  // focused: a cluster

  // Drawn last is drawn on top: small clusters, low confidence, rare sets of views and categories, high numbers.
  const byKey = (key) => Array.from({ length: n }, (_, i) => i).sort((a, b) => key(a) - key(b));
  const order = {
    cluster: byKey((i) => points.cluster[i]),
    confidence: byKey((i) => -points.confidence[i]),
    viewSet: byKey((i) => points.viewSet[i]),
  };
  for (const key in colors) {
    const { categories } = colors[key];
    order[key] = byKey((i) => categories ? -categories[points[key][i]][1] : points[key][i]);
  }

  // The name of a cluster is drawn at the point nearest to the median of its points.
  const anchors = (() => {
    const members = Array.from({ length: clusters }, () => []);
    points.cluster.forEach((c, i) => members[c].push(i));
    const median = (values) => values.sort((a, b) => a - b)[values.length >> 1];
    return members.map((rows) => {
      if (!rows.length) return null;
      const x = median(rows.map((i) => points.x[i])), y = median(rows.map((i) => points.y[i]));
      const gap = (i) => (points.x[i] - x) ** 2 + (points.y[i] - y) ** 2;
      return rows.reduce((best, i) => (gap(i) < gap(best) ? i : best));
    });
  })();

  function readTheme() {
    const style = getComputedStyle(document.documentElement);
    const value = (name) => style.getPropertyValue(`--${name}`).trim();
    const rgb = (name) => [1, 3, 5].map((at) => parseInt(value(name).slice(at, at + 2), 16));
    const mix = (a, b, t) => `rgb(${a.map((x, i) => Math.round(x + t * (b[i] - x))).join()})`;
    const [low, middle, high] = ["low", "middle", "high"].map(rgb);
    theme = {
      page: value("page"),
      ink: value("ink"),
      quiet: value("quiet"),
      colors: Array.from({ length: nColors }, (_, i) => value(`c${i}`)),
      ramp: Array.from({ length: 101 }, (_, i) =>
        i < 50 ? mix(low, middle, i / 50) : mix(middle, high, (i - 50) / 50)),
    };
  }

  function color(i) {
    const code = points[colorBy][i];
    if (colorBy !== "confidence" && colors[colorBy]?.categories !== null) return theme.colors[code % nColors];
    return code < 0 ? theme.quiet : theme.ramp[Math.round(code / 10)];
  }

  const shape = (i) => (colors[colorBy]?.categories ? points[colorBy] : points.cluster)[i] % nShapes;

  const scale = () =>
    view.zoom * Math.min((canvas.clientWidth - 40) / width, (canvas.clientHeight - 40) / height);
  function toScreen(i) {
    const s = scale();
    return [(points.x[i] - view.x) * s + canvas.clientWidth / 2, (points.y[i] - view.y) * s + canvas.clientHeight / 2];
  }

  // What is in sight: the points, in the order they are drawn, and the names of the clusters.
  function pointsInSight() {
    const w = canvas.clientWidth, h = canvas.clientHeight;
    return order[colorBy].filter((i) => visible[points.cluster[i]]).map((i) => [i, ...toScreen(i)])
      .filter(([, x, y]) => x >= -9 && y >= -9 && x <= w + 9 && y <= h + 9);
  }

  function namesInSight() {
    const taken = [];
    context.font = `bold 14px ${FONT}`;
    anchors.forEach((i, c) => {
      if (i === null || !visible[c]) return;
      const [x, y] = toScreen(i), half = context.measureText(labels[c]).width / 2 + 3;
      const above = y - 14;  // the name must not cover a tiny cluster
      if (taken.some(([, a, b, other]) => Math.abs(a - x) < half + other && Math.abs(b - above) < 16)) return;  // overlaps; zooming in separates them
      taken.push([c, x, above, half]);
    });
    return taken;
  }

  const pointSize = () => radius * Math.sqrt(Math.sqrt(view.zoom));
  const hasRing = () => marked !== null && visible[points.cluster[marked]];

  function draw(dense) {
    const size = pointSize() * dense;
    canvas.width = Math.round(canvas.clientWidth * dense);
    canvas.height = Math.round(canvas.clientHeight * dense);
    context.fillStyle = theme.page;
    context.fillRect(0, 0, canvas.width, canvas.height);
    context.strokeStyle = theme.page;
    context.lineWidth = OUTLINE;
    for (const [i, x, y] of pointsInSight()) {
      context.setTransform(size, 0, 0, size, x * dense, y * dense);
      context.fillStyle = color(i);
      context.globalAlpha = focused === null || points.cluster[i] === focused ? 1 : 0.12;
      context.fill(shapes[shape(i)]);
      context.stroke(shapes[shape(i)]);
    }
    context.globalAlpha = 1;
    context.setTransform(dense, 0, 0, dense, 0, 0);
    drawNames();
    if (hasRing()) drawRing();
    plane.classList.toggle("near", view.zoom > 1);
  }

  function drawNames() {
    context.font = `bold 14px ${FONT}`;
    context.textAlign = "center";
    context.textBaseline = "middle";
    context.lineJoin = "round";
    context.lineWidth = 4;
    context.strokeStyle = theme.page;
    context.fillStyle = theme.ink;
    for (const [c, x, y] of namesInSight()) {
      context.strokeText(labels[c], x, y);
      context.fillText(labels[c], x, y);
    }
  }

  function drawRing() {
    const [x, y] = toScreen(marked);
    context.beginPath();
    context.arc(x, y, pointSize() + 5, 0, 2 * Math.PI);
    context.strokeStyle = theme.ink;
    context.lineWidth = 2.5;
    context.stroke();
  }

  function redraw() {
    placeTip();
    if (!pending) requestAnimationFrame(() => { pending = false; draw(window.devicePixelRatio || 1); });
    pending = true;
  }

  // --- the map as a file --------------------------------------------------------------------------------------
  function makeSvg() {
    const space = find("svg").namespaceURI, w = canvas.clientWidth, h = canvas.clientHeight;
    const add = (parent, tag, attributes, text = "") => {
      const element = document.createElementNS(space, tag);
      for (const name in attributes) element.setAttribute(name, attributes[name]);
      element.textContent = text;
      if (parent) parent.append(element);
      return element;
    };
    const svg = add(null, "svg", { width: w, height: h, viewBox: `0 0 ${w} ${h}` });
    const by = find("[data-color][aria-pressed=true]").textContent, size = pointSize().toFixed(2);
    add(svg, "title", {}, `${document.title}, colored by ${by}`);
    add(svg, "rect", { width: w, height: h, fill: theme.page });
    const marks = add(svg, "g", { stroke: theme.page, "stroke-width": OUTLINE });
    for (const [i, x, y] of pointsInSight()) {
      const transform = `translate(${x.toFixed(1)} ${y.toFixed(1)}) scale(${size})`;
      add(marks, "path", { d: outlines[shape(i)], transform, fill: color(i) });
    }
    const style = { "font-family": FONT, "font-size": 14, "font-weight": "bold", "text-anchor": "middle", fill: theme.ink };
    const texts = add(svg, "g", style);
    for (const [c, x, y] of namesInSight()) {
      const place = { x: x.toFixed(1), y: (y + 5).toFixed(1) };  // of the base line
      add(texts, "text", { ...place, stroke: theme.page, "stroke-width": 4, "stroke-linejoin": "round" }, labels[c]);
      add(texts, "text", place, labels[c]);
    }
    if (hasRing()) {
      const [cx, cy] = toScreen(marked);
      add(svg, "circle", { cx, cy, r: pointSize() + 5, fill: "none", stroke: theme.ink, "stroke-width": 2.5 });
    }
    return new Blob([new XMLSerializer().serializeToString(svg)], { type: "image/svg+xml" });
  }

  function save(blob, name) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60000);
  }

  find("[data-save=svg]").addEventListener("click", () => save(makeSvg(), "map.svg"));
  find("[data-save=png]").addEventListener("click", () => {
    draw(3);  // pixels per pixel of the page, enough for print
    canvas.toBlob((blob) => save(blob, "map.png"));
    redraw();
  });

  // --- the tooltip of a sample -----------------------------------------------------------------------------
  function lines(i) {
    const found = [`Cluster ${titles[points.cluster[i]]}`, `Confidence ${(points.confidence[i] / 1000).toFixed(2)}`];
    if (viewSets.length > 1) found.push(`Views: ${viewSets[points.viewSet[i]][0]}`);
    for (const key in colors) found.push(`${colors[key].name}: ${valueOf(colors[key], points[key][i])}`);
    return found;
  }

  function valueOf({ categories, low, high }, code) {
    if (categories) return categories[code][0];
    return code < 0 ? "missing" : `≈ ${Number((low + (high - low) * code / 1000).toPrecision(4))}`;
  }

  function mark(i) {
    if (i === marked) return;
    marked = i;
    tip.replaceChildren();
    if (i !== null) {
      const name = document.createElement("b");
      name.textContent = points.id[i];
      tip.append(name);
      for (const line of lines(i)) {
        const row = document.createElement("div");
        row.textContent = line;
        tip.append(row);
      }
    }
    redraw();
  }

  function placeTip() {
    tip.hidden = marked === null || !visible[points.cluster[marked]];
    if (tip.hidden) return;
    const [x, y] = toScreen(marked), w = tip.offsetWidth, h = tip.offsetHeight;
    const left = x + 14 + w > canvas.clientWidth ? x - 14 - w : x + 14;
    tip.style.left = `${Math.max(2, Math.min(left, canvas.clientWidth - w - 2))}px`;
    tip.style.top = `${Math.max(2, Math.min(y - h / 2, canvas.clientHeight - h - 2))}px`;
  }

  function nearest(x, y, reach) {
    let best = null, least = reach ** 2;
    for (let i = 0; i < n; i++) {
      if (!visible[points.cluster[i]]) continue;
      const [a, b] = toScreen(i), gap = (a - x) ** 2 + (b - y) ** 2;
      if (gap < least) [best, least] = [i, gap];
    }
    return best;
  }

  // --- zoom and pan ---------------------------------------------------------------------------------------
  function zoomBy(factor, x = canvas.clientWidth / 2, y = canvas.clientHeight / 2) {
    const before = scale(), zoom = Math.min(64, Math.max(1, view.zoom * factor));
    view.zoom = zoom;
    const shift = 1 / before - 1 / scale();  // the point under the pointer does not move
    view.x += (x - canvas.clientWidth / 2) * shift;
    view.y += (y - canvas.clientHeight / 2) * shift;
    keepInside();
  }

  function moveBy(dx, dy) {
    view.x -= dx / scale();
    view.y -= dy / scale();
    keepInside();
  }

  function keepInside() {
    if (view.zoom === 1) Object.assign(view, { x: width / 2, y: height / 2 });
    view.x = Math.min(width, Math.max(0, view.x));
    view.y = Math.min(height, Math.max(0, view.y));
    redraw();
  }

  function reset() {
    view.zoom = 1;
    keepInside();
  }

  const held = new Map();  // pointers that are down, by their id
  const spread = () => {
    const [a, b] = [...held.values()];
    return Math.hypot(a.x - b.x, a.y - b.y);
  };
  const position = (event) => {
    const box = canvas.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  };
  canvas.addEventListener("pointerdown", (event) => {
    held.set(event.pointerId, position(event));
    canvas.setPointerCapture(event.pointerId);
    mark(nearest(position(event).x, position(event).y, event.pointerType === "mouse" ? 12 : 24));
  });
  canvas.addEventListener("pointermove", (event) => {
    const now = position(event), before = held.get(event.pointerId);
    if (!before) {
      if (event.pointerType === "mouse") mark(nearest(now.x, now.y, 12));
      return;
    }
    const gap = held.size === 2 ? spread() : 0;
    held.set(event.pointerId, now);
    if (held.size === 2) zoomBy(spread() / Math.max(gap, 1), now.x, now.y);
    else if (view.zoom > 1) moveBy(now.x - before.x, now.y - before.y);
  });
  for (const end of ["pointerup", "pointercancel"]) {
    canvas.addEventListener(end, (event) => held.delete(event.pointerId));
  }
  canvas.addEventListener("pointerleave", (event) => {
    if (event.pointerType === "mouse" && !held.size) mark(null);
  });
  canvas.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey && document.activeElement !== plane) return;  // the page scrolls
    if (view.zoom === 1 && event.deltaY > 0) return;  // already zoomed out
    event.preventDefault();
    zoomBy(Math.exp(-event.deltaY / 300), position(event).x, position(event).y);
  }, { passive: false });
  canvas.addEventListener("dblclick", (event) => zoomBy(2, position(event).x, position(event).y));

  const KEYS = {
    ArrowLeft: () => moveBy(60, 0), ArrowRight: () => moveBy(-60, 0),
    ArrowUp: () => moveBy(0, 60), ArrowDown: () => moveBy(0, -60),
    "+": () => zoomBy(1.5), "=": () => zoomBy(1.5), "-": () => zoomBy(1 / 1.5), 0: reset, Escape: () => mark(null),
  };
  plane.addEventListener("keydown", (event) => {
    if (!(event.key in KEYS) || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    KEYS[event.key]();
  });
  all("[data-zoom]").forEach((button) => button.addEventListener("click", () =>
    Number(button.dataset.zoom) ? zoomBy(Number(button.dataset.zoom)) : reset()));

  // --- visibility and color ----------------------------------------------------------------------------------------
  function show(cluster, on) {
    visible[cluster] = on;
    find(`[data-cluster="${cluster}"]`).setAttribute("aria-pressed", String(on));
    redraw();
  }

  const focus = (cluster) => { focused = cluster; redraw(); };
  all("[data-cluster]").forEach((button) => {
    const cluster = Number(button.dataset.cluster);
    button.addEventListener("click", () => show(cluster, !visible[cluster]));
    for (const event of ["mouseenter", "focus"]) button.addEventListener(event, () => visible[cluster] && focus(cluster));
    for (const event of ["mouseleave", "blur"]) button.addEventListener(event, () => focus(null));
  });
  all("[data-show]").forEach((button) => button.addEventListener("click", () =>
    all("[data-cluster]").forEach((entry) => show(Number(entry.dataset.cluster), button.dataset.show === "all"))));
  all("[data-color]").forEach((button) => button.addEventListener("click", () => {
    colorBy = button.dataset.color;
    all("[data-color]").forEach((other) => other.setAttribute("aria-pressed", String(other === button)));
    find("#atlas").className = colors[colorBy]?.categories ? "by-category" : `by-${colorBy}`;
    all("[data-key]").forEach((key) => { key.hidden = key.dataset.key !== colorBy; });
    redraw();
  }));

  find("#find").addEventListener("submit", (event) => {
    event.preventDefault();
    const wanted = find("#sample").value.trim(), status = find("#status");
    const i = [(id) => id === wanted, (id) => id.startsWith(wanted), (id) => id.includes(wanted)]
      .map((fits) => points.id.findIndex(fits)).find((found) => found >= 0);
    if (!wanted || i === undefined) {
      status.textContent = wanted ? `No sample on the map has the name ${wanted}.` : "Enter the name of a sample.";
      return;
    }
    show(points.cluster[i], true);
    Object.assign(view, { x: points.x[i], y: points.y[i], zoom: Math.max(view.zoom, 3) });
    mark(i);
    redraw();
    status.textContent = `Sample ${points.id[i]}: ${lines(i).join(", ")}.`;
  });

  // --- start --------------------------------------------------------------------------------------------------
  for (const part of [find(".controls"), plane]) part.hidden = false;
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  dark.addEventListener("change", () => { readTheme(); redraw(); });
  new ResizeObserver(redraw).observe(canvas);
  window.addEventListener("beforeprint", () => all("details").forEach((part) => { part.open = true; }));
  readTheme();
  redraw();
})();
