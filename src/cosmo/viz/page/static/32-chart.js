// Scales, axes, dragging and bars of all figures.

/** About `count` round numbers between low and high. */
function ticks(low, high, count) {
  const rough = (high - low) / Math.max(count, 1);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough * 0.999);
  const found = [];
  for (let v = Math.ceil(low / step - 1e-9); v * step <= high + step * 1e-9; v++) found.push(v * step);
  return found;
}

const tickText = (value) => String(Number(value.toPrecision(6))).replace("-", "−");

/**
 * An empty chart: axes, grid, and the functions from data to pixels.
 * A chart with a handle is a "group": screen readers do not see the children of an "img".
 */
function chart({ width, height, x, y, xLabel, yLabel, label, yTicks = 5, square = false, role = "img" }) {
  const margin = { left: 46, right: 12, top: 14, bottom: 40 };
  const w = width - margin.left - margin.right, h = height - margin.top - margin.bottom;
  const X = (value) => margin.left + ((value - x[0]) / (x[1] - x[0])) * w;
  const Y = (value) => margin.top + h - ((value - y[0]) / (y[1] - y[0])) * h;
  const root = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role, "aria-label": label });
  const grid = svg("g", { class: "grid", "aria-hidden": "true" });
  for (const value of ticks(...x, square ? yTicks : Math.max(3, w / 80))) {
    grid.append(svg("line", { x1: X(value), x2: X(value), y1: margin.top, y2: margin.top + h }),
      svg("text", { x: X(value), y: margin.top + h + 16, class: "middle" }, tickText(value)));
  }
  for (const value of ticks(...y, yTicks)) {
    grid.append(svg("line", { x1: margin.left, x2: margin.left + w, y1: Y(value), y2: Y(value) }),
      svg("text", { x: margin.left - 6, y: Y(value) + 4, class: "end" }, tickText(value)));
  }
  grid.append(
    svg("text", { x: margin.left + w / 2, y: height - 6, class: "middle axis" }, xLabel),
    svg("text", { transform: `translate(12 ${margin.top + h / 2}) rotate(-90)`, class: "middle axis" }, yLabel));
  root.append(grid);
  return {
    root, X, Y, w, h, margin,
    toX: (pixel) => x[0] + ((pixel - margin.left) / w) * (x[1] - x[0]),
    toY: (pixel) => y[0] + ((margin.top + h - pixel) / h) * (y[1] - y[0]),
  };
}

/** The `d` of a line through points, at the resolution of the screen: steps smaller than that are not drawn. */
function linePath(xs, ys, X, Y) {
  let path = "", lastX = NaN, lastY = NaN, dx = 0, dy = 0, pending = "";
  for (let j = 0; j < xs.length; j++) {
    const px = Math.round(2 * X(xs[j])) / 2, py = Math.round(2 * Y(ys[j])) / 2;
    if (px === lastX && py === lastY) continue;
    // Points on one straight run need only its end.
    const ddx = Math.sign(px - lastX), ddy = Math.sign(py - lastY);
    if (pending && !(ddx === dx && ddy === dy && (dx === 0 || dy === 0))) path += pending;
    pending = `${path ? "L" : "M"}${px} ${py}`;
    if (!path) { path = pending; pending = ""; }
    [lastX, lastY, dx, dy] = [px, py, ddx, ddy];
  }
  return path + pending;
}

/** Calls `move(x, y)` in pixels of the drawing while a pointer drags on it, once per frame. */
function draggable(root, move) {
  let last = null, held = false;
  const follow = perFrame(() => {
    const box = root.getBoundingClientRect();
    move((last.clientX - box.left) * (root.width.baseVal.value / box.width),
      (last.clientY - box.top) * (root.height.baseVal.value / box.height));
  });
  const update = (event) => {
    if (!held) return;
    last = event;
    follow();
  };
  root.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    root.setPointerCapture(event.pointerId);
    held = true;
    // A touch may start a scroll: it counts once it moves sideways or ends.
    if (event.pointerType !== "touch") update(event);
  });
  root.addEventListener("pointermove", update);
  root.addEventListener("pointerup", (event) => { update(event); held = false; });
  root.addEventListener("pointercancel", () => { held = false; });
}

/** The sign of a domain: a disc for seen, a diamond for unseen. */
const domainMark = (x, y, seen) => (seen
  ? svg("circle", { cx: x, cy: y, r: 4, class: "seen" })
  : svg("path", { d: `M${x} ${y - 5}l5 5l-5 5l-5 -5z`, class: "unseen" }));

const barText = (value) => (value > 0 && value < 1e-3 ? "<0.001" : short(value));

/**
 * Horizontal bars. Each row: {label, seen, values: [{value, hollow}], note, strong}; a second value goes below the first.
 */
function barChart({ width, rows, label, max, widest = 240, text = barText }) {
  const many = Math.max(1, ...rows.map((row) => row.values.length));
  const thick = many > 1 ? 9 : 14, height = many * (thick + 2) + 8;
  const longest = Math.max(0, ...rows.map((row) => row.label.length + (row.note?.length ?? 0)));
  const left = Math.min(Math.max(70, 30 + 7.4 * longest), widest, width * 0.42), right = 58;
  const span = Math.max(20, width - left - right);
  const low = Math.min(0, ...rows.flatMap((row) => row.values.map((one) => one.value)));
  const high = max ?? Math.max(1e-12, ...rows.flatMap((row) => row.values.map((one) => one.value)));
  const X = (value) => left + (Math.max(low, Math.min(high, value)) - low) / (high - low || 1) * span;
  const rowText = (row) => `${row.label} ${row.values.map((one) => text(one.value)).join(" then ")}`;
  const root = svg("svg", {
    width, height: rows.length * height + 4, viewBox: `0 0 ${width} ${rows.length * height + 4}`, role: "img",
    "aria-label": `${label}: ${rows.map(rowText).join("; ")}`,
  });
  rows.forEach((row, j) => {
    const y = j * height + 4, middle = y + (height - 8) / 2;
    root.append(domainMark(8, middle, row.seen),
      svg("text", { x: 18, y: middle + 4, class: row.strong ? "strong" : null },
        svg("title", {}, row.label), fit(`${row.label}${row.note ?? ""}`, left - 26, row.strong ? 7.4 : 6.4)));
    row.values.forEach((one, i) => {
      const top = y + i * (thick + 2);
      root.append(
        svg("rect", {
          x: Math.min(X(0), X(one.value)), y: top, width: Math.max(1, Math.abs(X(one.value) - X(0))), height: thick,
          class: `${row.seen ? "seen" : "unseen"}${one.hollow ? " hollow" : ""}`,
        }),
        svg("text", {
          x: X(Math.max(0, one.value)) + 5, y: top + thick - (many > 1 ? 0.5 : 2.5), class: many > 1 ? "tiny" : null,
        }, text(one.value)));
    });
  });
  return root;
}
