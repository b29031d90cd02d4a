// The interactive part of the report: a map on a canvas, and the histogram of one cluster.
"use strict";
(() => {
  const { points, classNames, viewSets, histogram, nColors, nShapes } = JSON.parse(document.getElementById("data").textContent);
  const find = (selector) => document.querySelector(selector);
  const all = (selector) => [...document.querySelectorAll(selector)];
  const n = points.x.length, clusters = histogram.length - 1;

  // --- the histogram ------------------------------------------------------------------------------------
  function percent(share) {
    if (share === 0 || share === 1) return `${100 * share}%`;
    if (share < 0.0005) return "<0.1%";
    return share >= 0.9995 ? ">99.9%" : `${(100 * share).toFixed(1)}%`;
  }

  function showHistogram(which) {
    const counts = histogram[which], total = counts.reduce((a, b) => a + b), most = Math.max(...counts);
    all("#histogram tbody tr").forEach((row, i) => {
      row.querySelectorAll("rect")[1].setAttribute("width", `${100 * counts[i] / most}%`);
      row.cells[2].textContent = counts[i].toLocaleString("en");
      row.cells[3].textContent = percent(counts[i] / total);
    });
    find("#histogram caption").textContent =
      which ? `Samples of cluster ${which - 1} by confidence` : "Samples by confidence";
  }

  find("#choose").hidden = false;
  find("#which").addEventListener("change", (event) => showHistogram(Number(event.target.value)));

  // --- the map ------------------------------------------------------------------------------------------
  const plane = find("#plane"), canvas = find("#plane canvas"), tip = find("#tip"), context = canvas.getContext("2d");
  const width = Math.max(1, ...points.x), height = Math.max(1, ...points.y);
  const radius = n > 5000 ? 2.6 : n > 1500 ? 3.4 : 4.4;
  const shapes = Array.from({ length: nShapes }, (_, i) =>
    new Path2D(find(`#shape${i} path`).getAttribute("d")));
  const visible = new Array(clusters).fill(true);
  const view = { zoom: 1, x: width / 2, y: height / 2 };
  let colorBy = "cluster", marked = null, pending = false, theme;

  // Drawn last is drawn on top: small clusters, low confidence, rare sets of views.
  const byKey = (key) => Array.from({ length: n }, (_, i) => i).sort((a, b) => key(a) - key(b));
  const order = {
    cluster: byKey((i) => points.cluster[i]),
    confidence: byKey((i) => -points.confidence[i]),
    viewSet: byKey((i) => points.viewSet[i]),
  };

  // The number of a cluster is drawn at the point nearest to the median of its points.
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
      colors: Array.from({ length: nColors }, (_, i) => value(`c${i}`)),
      ramp: Array.from({ length: 101 }, (_, i) =>
        i < 50 ? mix(low, middle, i / 50) : mix(middle, high, (i - 50) / 50)),
    };
  }

  function color(i) {
    if (colorBy === "confidence") return theme.ramp[Math.round(points.confidence[i] / 10)];
    return theme.colors[points[colorBy][i] % nColors];
  }

  const scale = () =>
    view.zoom * Math.min((canvas.clientWidth - 40) / width, (canvas.clientHeight - 40) / height);
  function toScreen(i) {
    const s = scale();
    return [(points.x[i] - view.x) * s + canvas.clientWidth / 2, (points.y[i] - view.y) * s + canvas.clientHeight / 2];
  }

  function draw() {
    pending = false;
    const dense = window.devicePixelRatio || 1, w = canvas.clientWidth, h = canvas.clientHeight;
    canvas.width = Math.round(w * dense);
    canvas.height = Math.round(h * dense);
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.fillStyle = theme.page;
    context.fillRect(0, 0, canvas.width, canvas.height);
    const size = radius * Math.sqrt(Math.sqrt(view.zoom));
    context.strokeStyle = theme.page;
    context.lineWidth = 0.22;
    for (const i of order[colorBy]) {
      if (!visible[points.cluster[i]]) continue;
      const [x, y] = toScreen(i);
      if (x < -9 || y < -9 || x > w + 9 || y > h + 9) continue;
      drawPoint(i, x, y, size * dense, dense);
    }
    context.setTransform(dense, 0, 0, dense, 0, 0);
    drawNumbers();
    if (marked !== null && visible[points.cluster[marked]]) drawRing(size);
    plane.classList.toggle("near", view.zoom > 1);
  }

  function drawPoint(i, x, y, size, dense) {
    const shape = shapes[points.cluster[i] % nShapes];
    context.setTransform(size, 0, 0, size, x * dense, y * dense);
    context.fillStyle = color(i);
    context.fill(shape);
    context.stroke(shape);
  }

  function drawNumbers() {
    const taken = [];
    context.font = "bold 14px system-ui, sans-serif";
    context.textAlign = "center";
    context.textBaseline = "middle";
    context.lineJoin = "round";
    context.lineWidth = 4;
    context.strokeStyle = theme.page;
    context.fillStyle = theme.ink;
    anchors.forEach((i, c) => {
      if (i === null || !visible[c]) return;
      const [x, y] = toScreen(i);
      const above = y - 14;  // the number must not cover a tiny cluster
      if (taken.some(([a, b]) => Math.abs(a - x) < 28 && Math.abs(b - above) < 16)) return;  // overlaps; zooming in separates them
      taken.push([x, above]);
      context.strokeText(String(c), x, above);
      context.fillText(String(c), x, above);
    });
  }

  function drawRing(size) {
    const [x, y] = toScreen(marked);
    context.beginPath();
    context.arc(x, y, size + 5, 0, 2 * Math.PI);
    context.strokeStyle = theme.ink;
    context.lineWidth = 2.5;
    context.stroke();
  }

  function redraw() {
    placeTip();
    if (!pending) requestAnimationFrame(draw);
    pending = true;
  }

  // --- the tooltip of a sample -----------------------------------------------------------------------------
  function lines(i) {
    const found = [`Cluster ${points.cluster[i]}`, `Confidence ${(points.confidence[i] / 1000).toFixed(2)}`];
    if (viewSets.length > 1) found.push(`Views: ${viewSets[points.viewSet[i]][0]}`);
    if (classNames) found.push(`True class: ${classNames[points.class[i]]}`);
    return found;
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

  all("[data-cluster]").forEach((button) => button.addEventListener("click", () =>
    show(Number(button.dataset.cluster), !visible[button.dataset.cluster])));
  all("[data-show]").forEach((button) => button.addEventListener("click", () =>
    all("[data-cluster]").forEach((entry) => show(Number(entry.dataset.cluster), button.dataset.show === "all"))));
  all("[data-color]").forEach((button) => button.addEventListener("click", () => {
    colorBy = button.dataset.color;
    all("[data-color]").forEach((other) => other.setAttribute("aria-pressed", String(other === button)));
    find("#atlas").className = `by-${colorBy}`;
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
  find("#atlas").hidden = false;
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  dark.addEventListener("change", () => { readTheme(); redraw(); });
  new ResizeObserver(redraw).observe(canvas);
  window.addEventListener("beforeprint", () => all("details").forEach((part) => { part.open = true; }));
  readTheme();
  redraw();
})();
