// The seen-unseen plane: all operating points, and a handle on the current one.

const DASHES = ["", "7 3", "7 3 1.5 3", "1.5 3", "12 4", "4 2 1 2 1 2"];
const COLOURS = 7;
const CROWD = 12; // more curves than this are drawn fainter

/** Colour and dashes of every curve: by family if there are families, so that one method keeps its dashes. */
function lineStyles(curves) {
  const families = [...new Set(curves.map((one) => one.family))];
  if (families.length < 2) {
    let others = 0; // the main curve is the solid one in the first colour
    return curves.map((one) => {
      if (one === curves[state.set.main]) return { colour: 0, dash: DASHES[0] };
      const place = others++;
      return { colour: 1 + (place % (COLOURS - 1)), dash: DASHES[1 + (place % (DASHES.length - 1))] };
    });
  }
  const places = curves.map((one, j) => curves.slice(0, j).filter((other) => other.family === one.family).length);
  const solid = places[state.set.main]; // the way of using an expert that the main curve shows
  return curves.map((one, j) => ({
    colour: families.indexOf(one.family) % COLOURS,
    dash: DASHES[(places[j] === solid ? 0 : places[j] < solid ? places[j] + 1 : places[j]) % DASHES.length],
  }));
}

const planeView = {
  id: "plane", title: "Plane",
  available: (set) => set.curves.length > 0 || set.points.length > 0,
  build(panel) {
    const { set } = state, styles = lineStyles(set.curves);
    let area = null, handle = null;

    const stroke = (j, extra = "") =>
      ({ class: `curve c${styles[j].colour}${extra}`, "stroke-dasharray": styles[j].dash });
    const swatch = (j) => svg("svg", { width: 28, height: 10, "aria-hidden": "true", class: "swatch" },
      svg("line", { x1: 1, x2: 27, y1: 5, y2: 5, ...stroke(j) }));

    const drawCurves = (width) => {
      const most = (pick, points) => Math.min(100, 10 * Math.ceil(10 * Math.max(0.1, ...points,
        ...set.curves.filter((one) => one.shown).map((one) => pick(one.exact))) + 0.2));
      const x = [0, most((exact) => exact.accTr[0], set.points.map((one) => one.acc_tr))];
      const y = [0, most((exact) => exact.accTs.at(-1), set.points.map((one) => one.acc_ts))];
      area = chart({
        width, height: Math.round(Math.min(540, Math.max(300, width * 0.72))), x, y,
        role: set.curves.length ? "group" : "img",
        xLabel: "accuracy on known (seen) classes, Acc_tr (%)", yLabel: "on new (unseen) classes, Acc_ts (%)",
        label: `Seen-unseen plane: ${plural(set.curves.length, "curve")}, ${plural(set.points.length, "published point")}`,
      });
      const { root, X, Y } = area;
      root.classList.add("plane");
      drawHeights(area, x, y);
      const order = [...set.curves.keys()].sort((a, b) => (a === state.curve) - (b === state.curve));
      for (const j of order) {
        const { exact, shown, name } = set.curves[j];
        if (!shown) continue;
        root.append(svg("path", {
          d: linePath(exact.accTr.map((v) => 100 * v), exact.accTs.map((v) => 100 * v), X, Y),
          ...stroke(j, j === state.curve ? " current" : set.curves.length > CROWD ? " crowded" : ""),
        }, svg("title", {}, name)));
      }
      for (const j of order) {
        if (!set.curves[j].shown) continue;
        const { accTr, accTs } = pointOf(set.curves[j], set.curves[j].threshold);
        root.append(svg("rect", {
          x: X(100 * (accTr || 0)) - 4, y: Y(100 * (accTs || 0)) - 4, width: 8, height: 8,
          class: `chosen c${styles[j].colour}`,
        }, svg("title", {}, `${set.curves[j].name}: the chosen point`)));
      }
      drawPublished(area, set.points);
      root.append(keyForFiles(order.filter((j) => set.curves[j].shown)));
      if (set.curves.length) addHandle();
      return root;
    };

    // On the page the table beside the plane is its key; a file of the figure needs its own.
    const keyForFiles = (drawn) => {
      const { margin, h } = area, top = margin.top + h - 16 * Math.min(drawn.length, CROWD) - 2;
      return svg("g", { class: "only-file", transform: `translate(${margin.left + 8} ${top})` },
        drawn.slice(-CROWD).reverse().map((j, at) => [
          svg("line", { x1: 0, x2: 30, y1: 16 * at + 6, y2: 16 * at + 6, ...stroke(j) }),
          svg("text", { x: 36, y: 16 * at + 10, class: "label" },
            `${fullName(set.curves[j])} (AUSUC ${areaText(set.curves[j])})`)]));
    };

    const addHandle = () => {
      const { root, X, Y } = area;
      handle = svg("g", {
        role: "slider", tabindex: 0, class: "handle", keydown,
        "aria-label": "operating point on the curve", "aria-valuemin": 0,
      }, svg("circle", { r: 18, class: "reach", "data-tool": "reach" }),
      svg("circle", { r: 7.5 }), svg("circle", { r: 2, class: "dot" }));
      root.append(handle);
      draggable(root, (px, py) => {
        const { exact } = currentCurve();
        let nearest = 0, distance = Infinity;
        for (let k = 0; k < exact.accTr.length; k++) {
          const d = (X(100 * exact.accTr[k]) - px) ** 2 + (Y(100 * exact.accTs[k]) - py) ** 2;
          if (d < distance) [nearest, distance] = [k, d];
        }
        operateAtPoint(nearest);
      });
      root.addEventListener("pointerup", () => handle.focus({ preventScroll: true }));
      moveHandle();
    };

    // Right and down lead to more seen accuracy, as the curve does on the plane.
    const keydown = (event) => {
      const { k } = pointOf(currentCurve()), last = currentCurve().exact.accTr.length - 1;
      const many = Math.max(1, Math.round(last / 50));
      const to = {
        ArrowRight: k - 1, ArrowDown: k - 1, ArrowLeft: k + 1, ArrowUp: k + 1,
        PageDown: k - many, PageUp: k + many, Home: last, End: 0,
      }[event.key];
      if (to === undefined) return;
      event.preventDefault();
      operateAtPoint(to);
    };

    const moveHandle = () => {
      if (!handle) return;
      const curve = currentCurve(), { accTr, accTs, k } = pointOf(curve), last = curve.exact.accTr.length - 1;
      handle.setAttribute("transform", `translate(${area.X(100 * (accTr || 0))} ${area.Y(100 * (accTs || 0))})`);
      handle.setAttribute("aria-valuemax", last);
      handle.setAttribute("aria-valuenow", last - k);
      handle.setAttribute("aria-valuetext", pointText(curve));
    };

    const plane = figure({
      title: "The seen-unseen plane", file: fileName("plane"), draw: drawCurves,
      caption: set.curves.length
        ? "What each method can trade: known classes against new ones. Square: the point chosen on held-out samples. "
          + "Ring: the current point; drag it, click, or use the arrow keys. Thin lines: equal balanced score (H)."
        : "Published points. Thin lines: equal balanced score (H).",
      table: () => [["method", "threshold", "acc_ts", "acc_tr", "acc_h"],
        ...set.curves.filter((one) => one.shown).flatMap(({ name, exact }) =>
          exact.thresholds.map((t, k) => [name, t, exact.accTs[k], exact.accTr[k], exact.accH[k]])),
        ...set.points.map((one) => [one.name, null, one.acc_ts, one.acc_tr, harmonicMean(one.acc_ts, one.acc_tr)])],
    });

    const legend = buildLegend(set, swatch, plane.redraw);
    const controls = set.curves.length ? buildControls(set) : null;
    panel.append(
      el("div", { class: "columns wide-left" }, plane.node, el("div", {}, legend.node, controls?.node)));

    let drawnCurve = state.curve;
    return () => {
      if (drawnCurve !== state.curve) {
        drawnCurve = state.curve;
        set.curves[drawnCurve].shown = true;
        plane.redraw(); // the current curve lies on top
      } else moveHandle();
      legend.update();
      controls?.update();
    };
  },
};
