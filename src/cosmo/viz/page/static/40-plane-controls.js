// Controls of the operating point.

/** Buttons that choose an operating point, and the confusion between the two domains. */
function buildControls(set) {
  const status = el("p", { class: "hint", role: "status" });
  let statusAt = null; // the status is valid at this threshold only
  const setStatus = (text) => { status.textContent = text; statusAt = currentCurve().now; };
  const floor = el("input", {
    type: "number", min: 0, max: 100, step: 1, value: 50, "aria-label": "least Acc_tr in percent",
  });
  const go = (k, text) => { operateAtPoint(k); setStatus(text); };
  const atLeast = () => {
    const { exact } = currentCurve(), wanted = Number(floor.value) / 100;
    const k = bestPoint(exact, wanted);
    if (k < 0) setStatus(`No point of this curve has Acc_tr of ${floor.value} %; its largest is ${percent(exact.accTr[0])} %.`);
    else go(k, `The best Acc_H with Acc_tr of at least ${floor.value} %, chosen on these samples.`);
  };
  // Only the main curve is that of the model behind a live page.
  const settable = state.live && (state.live.point === "unseen_share") === Boolean(set.curves[set.main].share);
  const keep = settable && el("button", {
    type: "button", title: "for new predictions, and in the downloaded model",
    click: () => during(keep, status, async () => {
      const { now, share } = set.curves[set.main], value = share ? Math.min(1 - 1e-6, Math.max(1e-6, shareAt(now))) : now;
      await request("/operate", { [state.live.point]: value });
      await reload(`The model now operates at ${pointPhrase(set.curves[set.main], now)}.`);
    }),
  }, "Set in the model");
  const cells = Array.from({ length: 4 }, () => el("td"));
  const line = (text, [a, b]) => el("tr", {}, el("th", { scope: "row" }, text), a, b);
  const node = el("div", { class: "card" },
    el("h3", {}, "Operating point"),
    el("p", { class: "buttons" },
      el("button", {
        type: "button",
        click: () => { operateAt(currentCurve().threshold); setStatus(`The point chosen on ${currentCurve().chosen_on}.`); },
      }, "Back to the chosen point"),
      el("button", {
        type: "button", title: "chosen on these samples, so it is optimistic for new ones",
        click: () => go(bestPoint(currentCurve().exact), "Chosen on these samples: expect less on new ones."),
      }, "Best Acc_H"), keep),
    el("form", { class: "buttons", submit: (event) => { event.preventDefault(); atLeast(); } },
      el("button", { type: "submit" }, "At least"), floor, el("span", {}, "% on seen classes")),
    status,
    el("table", { class: "confusion" },
      el("caption", {}, "Confusion between the domains"),
      el("thead", {}, el("tr", {},
        ["samples of", "predicted seen", "predicted unseen"].map((text) => el("th", { scope: "col" }, text)))),
      el("tbody", {}, line("seen classes", cells), line("unseen classes", cells.slice(2)))));
  return {
    node,
    update() {
      if (currentCurve().now !== statusAt) status.textContent = "";
      if (keep) keep.hidden = state.curve !== set.main || currentCurve().now === currentCurve().threshold;
      const { exact } = currentCurve(), { seenAsUnseen, unseenAsUnseen } = pointOf(currentCurve());
      const counts = [exact.totalSeen - seenAsUnseen, seenAsUnseen, exact.totalUnseen - unseenAsUnseen, unseenAsUnseen];
      counts.forEach((count, j) => {
        const of = j < 2 ? exact.totalSeen : exact.totalUnseen;
        setText(cells[j], of ? `${count.toLocaleString("en")} (${percent(count / of)} %)` : "–");
        cells[j].className = j === 0 || j === 3 ? "good" : "bad";
      });
    },
  };
}
