// Lines of equal Acc_H and published points on the plane.

/** Lines of equal harmonic mean, with their value at the top. */
function drawHeights({ root, X, Y, margin, w }, x, y) {
  const group = svg("g", { class: "heights", "aria-hidden": "true" });
  let free = 0; // left end of the free space
  for (let height = 10; height < 100; height += 10) {
    const xs = [], ys = [];
    for (let tr = height / 2 + 0.01; tr <= x[1]; tr += Math.max(0.05, (tr - height / 2) / 16)) {
      const ts = (height * tr) / (2 * tr - height);
      if (ts <= y[1]) { xs.push(tr); ys.push(ts); }
    }
    if (xs.length < 2) continue;
    const path = xs.map((v, j) => `${j ? "L" : "M"}${X(v).toFixed(1)} ${Y(ys[j]).toFixed(1)}`).join("");
    group.append(svg("path", { d: path }));
    const place = X(xs[0]) + 3;
    if (place < free || place + 26 > margin.left + w) continue;
    group.append(svg("text", { x: place, y: margin.top - 3, class: "tiny" }, `H ${height}`));
    free = place + 30;
  }
  root.append(group);
}

/** Published points as diamonds; a label that would cover another is a tooltip only. */
function drawPublished({ root, X, Y, w, margin }, points) {
  const occupied = points.map((one) => [X(100 * one.acc_tr) - 6, Y(100 * one.acc_ts) - 6, 12, 12]);
  const free = ([a, b, c, d]) => a >= margin.left && a + c <= margin.left + w && b >= margin.top
    && occupied.every(([e, f, g, h]) => a + c <= e || e + g <= a || b + d <= f || f + h <= b);
  for (const one of points) {
    const x = X(100 * one.acc_tr), y = Y(100 * one.acc_ts), text = fit(one.name, 200);
    const length = text.length * 6.3;
    const title = [`${one.name}: Acc_ts ${percent(one.acc_ts)} %, Acc_tr ${percent(one.acc_tr)} %`, one.note];
    root.append(svg("path", { d: `M${x} ${y - 6}l6 6l-6 6l-6 -6z`, class: "published" },
      svg("title", {}, title.filter(Boolean).join("; "))));
    const right = 9, left = -9 - length, over = -length / 2;
    const place = [[right, -6], [left, -6], [over, -20], [over, 8], [right, -18], [right, 6], [left, 6], [left, -18]]
      .map(([dx, dy]) => [x + dx, y + dy, length, 12]).find(free);
    if (!place) continue;
    occupied.push(place);
    root.append(svg("text", { x: place[0], y: place[1] + 10, class: "label" }, text));
  }
}
