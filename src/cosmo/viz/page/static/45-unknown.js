// Rejection of samples of no known class: risk and coverage, and the answers seen, unseen and unknown.

const DOMAINS = ["seen", "unseen", "unknown"];

function riskFigure({ curve, risk }) {
  const xs = [...curve.coverage, 1].map((share) => 100 * share).slice(0, curve.coverage.length);
  const ys = curve.risk.map((share) => 100 * share);
  const most = Math.max(5, ...ys), some = Object.entries(risk).map(([share, wrong]) => `${percent(wrong)} at ${percent(Number(share), 0)}`);
  return figure({
    title: "Risk and coverage", file: fileName("risk and coverage"),
    caption: "Wrong answers among the samples that are answered, those with the largest conformity first. An answer to "
      + "an unknown sample is wrong.",
    draw: (width) => {
      const size = Math.min(width, 440);
      const { root, X, Y } = chart({
        width: size, height: size * 0.75, x: [0, 100], y: [0, most], xLabel: "answered (%)", yLabel: "wrong (%)",
        label: `Wrong answers, in percent, by percent answered: ${some.join(", ")}`,
      });
      root.append(svg("path", { d: linePath(xs, ys, X, Y), class: "curve c0 current" }));
      return root;
    },
    table: () => [["answered", "wrong"], ...curve.coverage.map((share, j) => [share, curve.risk[j]])],
  });
}

const unknownView = {
  id: "unknown", title: "Unknown",
  available: (set) => Boolean(set.raw.unknown),
  build(panel) {
    const found = state.set.raw.unknown;
    const rows = DOMAINS.filter((domain) => found.answers[domain].unknown !== null)
      .map((domain) => [domain, ...DOMAINS.map((answer) => percent(found.answers[domain][answer]))]);
    panel.append(
      el("dl", { class: "numbers" },
        termOf("AUROC, known against unknown", `${percent(found.auroc)} %`),
        termOf("unknown accepted, with 95 % of the known", `${percent(found.fpr_95)} %`)),
      el("div", { class: "columns even" },
        el("div", {}, el("h3", {}, "Answers"),
          el("p", { class: "hint" }, `In percent of the samples of each domain; at most ${percent(found.reject, 0)} % of the `
            + "samples of seen classes are to be rejected, and likewise of unseen classes."),
          tableOf(["sample \\ answer", ...DOMAINS], rows)),
        riskFigure(found).node));
    return () => {};
  },
};
