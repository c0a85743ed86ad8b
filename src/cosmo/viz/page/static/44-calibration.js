// Reliability diagrams: observed frequency against predicted probability, at the chosen operating point.

const RELIABILITY = {
  "p(y)": { title: "p(y): probability of the answer", event: "answers that are correct" },
  "p(U)": { title: "p(U): probability of a new class", event: "samples of new classes" },
};

/** ECE, and that of perfectly calibrated probabilities on as many samples. */
const errorText = ({ error, chance }) =>
  `Mean error (ECE) ${percent(error)} %; exact probabilities would have about ${percent(chance)} % by chance`;

function reliabilityFigure(curve) {
  const { title, event } = RELIABILITY[curve.name] ?? { title: curve.name, event: "events" };
  return figure({
    title, file: fileName(`reliability ${curve.name}`),
    caption: `${errorText(curve)}. On average ${percent(Math.abs(curve.excess))} percentage points too `
      + `${curve.excess >= 0 ? "high" : "low"}. Points: ${plural(curve.bins.length, "bin")} of equally many samples.`,
    draw: (width) => {
      const size = Math.min(width, 440);
      const { root, X, Y } = chart({
        width: size, height: size, x: [0, 100], y: [0, 100], square: true, xLabel: "predicted probability (%)",
        yLabel: `${event} (%)`, label: `Reliability diagram of ${curve.name}: ${errorText(curve)}`,
      });
      const xs = curve.bins.map((bin) => 100 * bin.probability), ys = curve.bins.map((bin) => 100 * bin.share);
      root.append(svg("line", { x1: X(0), y1: Y(0), x2: X(100), y2: Y(100), class: "chance" }),
        svg("path", { d: linePath(xs, ys, X, Y), class: "curve c0 current" }),
        ...curve.bins.map((bin, j) => svg("circle", { cx: X(xs[j]), cy: Y(ys[j]), r: 5, class: "chosen c0" },
          svg("title", {}, `predicted ${percent(bin.probability)} %, observed ${percent(bin.share)} %, `
            + plural(bin.samples, "sample")))));
      return root;
    },
    table: () => [["predicted probability", "observed frequency", "samples"],
      ...curve.bins.map((bin) => [bin.probability, bin.share, bin.samples])],
  });
}

const calibrationView = {
  id: "calibration", title: "Calibration",
  available: (set) => Boolean(set.raw.calibration),
  build(panel) {
    const { set } = state, { expected, actual, samples, curves } = set.raw.calibration;
    const main = set.curves[set.main], moved = el("p", { class: "hint" });
    panel.append(
      el("dl", { class: "numbers" },
        termOf("method", fullName(main)), termOf("samples", samples.toLocaleString("en")),
        curves.map((curve) => termOf(`ECE of ${curve.name}`, `${percent(curve.error)} %`)),
        expected !== null && termOf("expected share of unseen samples", shareText(expected)),
        termOf("actual share", shareText(actual))),
      el("p", { class: "hint" }, expected === null
        ? "Probabilities of the paper's method are scores with a sum of one; its gate is not fitted for a share of unseen samples."
        : "p(U) depends on the expected share of unseen samples: where the actual share is another, p(U) is too high or too low."),
      moved,
      el("div", { class: "columns even" }, curves.map((curve) => reliabilityFigure(curve).node)));
    return () => setText(moved, main.now === main.threshold ? ""
      : `This view shows the chosen operating point (${pointPhrase(main, main.threshold)}), not the current one.`);
  },
};
