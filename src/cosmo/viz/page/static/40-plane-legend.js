// Legend of the plane, in which a curve is chosen.

/** Table of curves: which are drawn, which one is in use, and their accuracies. */
function buildLegend(set, swatch, redraw) {
  const cells = [];
  const row = (curve, j) => {
    const numbers = ["accTs", "accTr", "accH"].map((key) =>
      ({ key, cell: el("td", { class: key === "accH" ? null : "roomy" }) }));
    const radio = el("input", {
      type: "radio", name: "operated", checked: j === state.curve, "aria-label": `operate on ${curve.name}`,
      change: () => operateAt(curve.now, j),
    });
    const box = el("input", {
      type: "checkbox", checked: curve.shown, "aria-label": `draw ${curve.name}`,
      change: () => { curve.shown = box.checked; redraw(); },
    });
    cells.push({ curve, numbers, radio, box });
    return el("tr", {}, el("td", {}, radio), el("td", {}, box),
      el("th", { scope: "row" }, el("div", { class: "method" }, swatch(j), el("span", {}, breakable(fullName(curve))))),
      numbers.map(({ cell }) => cell), el("td", {}, areaText(curve)));
  };
  const head = el("tr", {}, el("th", { scope: "col", title: "the curve whose operating point you move" }, "use"),
    el("th", { scope: "col" }, "draw"), el("th", { scope: "col" }, "method"),
    el("th", { scope: "col", class: "roomy" }, "Acc_ts"), el("th", { scope: "col", class: "roomy" }, "Acc_tr"),
    el("th", { scope: "col" }, "Acc_H"), el("th", { scope: "col" }, "AUSUC"));
  const all = (shown) => () => {
    for (const [j, one] of cells.entries()) one.box.checked = one.curve.shown = shown || j === state.curve;
    redraw();
  };
  const node = el("div", { class: "card" },
    set.curves.length > 0 && el("div", { class: "scroll tall" }, el("table", { class: "legend" },
      el("caption", {}, "Curves (percent, at the current operating points)"), el("thead", {}, head),
      el("tbody", {}, set.curves.map(row)))),
    set.curves.length > 3 && el("p", { class: "buttons" },
      el("button", { type: "button", class: "small", click: all(true) }, "draw all"),
      el("button", { type: "button", class: "small", click: all(false) }, "only the one in use")),
    set.points.length > 0 && el("details", { open: set.curves.length === 0 },
      el("summary", {}, plural(set.points.length, "published point")),
      tableOf(["point", "Acc_ts", "Acc_tr", "Acc_H"], set.points.map((one) => [
        el("span", { title: one.note || null }, breakable(one.name)),
        ...[one.acc_ts, one.acc_tr, harmonicMean(one.acc_ts, one.acc_tr)].map((value) => percent(value))]))));
  return {
    node,
    update() {
      for (const [j, { curve, numbers, radio, box }] of cells.entries()) {
        const point = pointOf(curve);
        for (const { key, cell } of numbers) setText(cell, percent(point[key]));
        radio.checked = j === state.curve;
        box.checked = curve.shown;
      }
    },
  };
}
