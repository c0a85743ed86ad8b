// Above the views: lead, tables of results, set-up, and the operating point in one line.

/** Returns the number format of one column. */
function columnText(rows, j) {
  const numbers = rows.map((row) => row[j]).filter((value) => typeof value === "number");
  const whole = numbers.every(Number.isInteger), large = numbers.some((value) => Math.abs(value) >= 1);
  return (value) => {
    if (value === null || value === undefined) return "–";
    if (typeof value !== "number") return String(value);
    return whole ? value.toLocaleString("en") : fixed(value, large ? 1 : 3);
  };
}

function resultsTable({ title, columns, rows, note }, open) {
  const texts = columns.map((_, j) => columnText(rows, j));
  const wordy = (value) => typeof value === "string" && value.length > 20;
  const kinds = columns.map((_, j) => (rows.some((row) => wordy(row[j])) ? "words" : null));
  return el("details", { open, class: "results" }, el("summary", {}, title),
    el("div", { class: "scroll" }, el("table", {},
      el("thead", {}, el("tr", {}, columns.map((text, j) => el("th", { scope: "col", class: kinds[j] }, text)))),
      el("tbody", {}, rows.map((row) => el("tr", {}, row.map((value, j) => el(
        j === 0 ? "th" : "td", j === 0 ? { scope: "row" } : { class: kinds[j] }, texts[j](value)))))))),
    el("p", { class: "hint" }, note, " ", el("button", {
      type: "button", class: "small", "aria-label": `download "${title}" as CSV`,
      click: () => offer(csvText([columns, ...rows]), "text/csv;charset=utf-8", `${fileName(title)()}.csv`),
    }, "CSV")));
}

/** Set-up; open if there is room beside the results. */
const factsList = (facts) => facts.length > 0 && el("details", { open: matchMedia("(min-width: 60rem)").matches },
  el("summary", {}, "Set-up"),
  el("dl", { class: "facts" }, facts.map(([term, text]) => [el("dt", {}, term), el("dd", {}, text)])));

/** The line that shows and moves the operating point from every view. */
function operatingBar(set) {
  const numbers = Object.fromEntries(["accTs", "accTr", "accH", "threshold"].map((key) => [key, el("dd")]));
  const chooser = el("select", {
    "aria-label": "curve to operate on",
    change: () => operateAt(set.curves[chooser.selectedIndex].now, chooser.selectedIndex),
  }, set.curves.map((one) => el("option", {}, fullName(one))));
  // To the right: more samples predicted seen, as on the plane.
  const slider = el("input", {
    type: "range", min: 0, step: 1, "aria-label": "operating point, from all unseen to all seen",
    input: () => operateAtPoint(Number(slider.max) - Number(slider.value)),
  });
  const pair = (term, key, long) => el("div", { class: key }, el("dt", { title: long }, term), numbers[key]);
  const where = pair("", "threshold", null);
  const node = el("div", { class: "operating" }, chooser,
    el("dl", {},
      pair("new", "accTs", "Acc_ts: accuracy on new (unseen) classes, percent"),
      pair("known", "accTr", "Acc_tr: accuracy on known (seen) classes, percent"),
      pair("balanced", "accH", "Acc_H: their harmonic mean, percent"),
      where),
    el("span", { class: "ends" },
      el("span", { "aria-hidden": "true" }, "new"), slider, el("span", { "aria-hidden": "true" }, "known")));
  return {
    node,
    update() {
      const curve = currentCurve(), point = pointOf(curve), last = curve.exact.accTr.length - 1;
      chooser.selectedIndex = state.curve;
      slider.max = last;
      slider.value = last - point.k;
      slider.setAttribute("aria-valuetext", pointText(curve));
      for (const key of ["accTs", "accTr", "accH"]) setText(numbers[key], percent(point[key]));
      setText(where.firstChild, curve.share ? "unseen share" : "threshold");
      where.firstChild.title = curve.share ? "expected share of samples of unseen classes"
        : "a sample whose flip is below it is predicted unseen";
      setText(numbers.threshold, pointValue(curve, curve.now));
    },
  };
}
