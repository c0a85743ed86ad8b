// Builds the page, and keeps the address in step with the view.

const VIEWS = [
  answersView, planeView, gateView, classesView, walkView, calibrationView, unknownView, tryView, rejectsView, addView,
];
const page = document.getElementById("page");

/** Builds everything for the current set; each view is built when it is first shown. */
function showSet(message = "") {
  const { view, set, live } = state;
  followers.clear();
  const shown = VIEWS.filter((one) => one.available(set, live));
  const tabs = new Map(), panels = new Map(), updates = new Map();
  const bar = set.curves.length ? operatingBar(set) : null;
  const liveText = el("p", { class: "unseeable", "aria-live": "polite" });

  for (const { id, title } of shown) {
    tabs.set(id, el("button", {
      type: "button", role: "tab", id: `tab-${id}`, "aria-controls": `panel-${id}`,
      click: () => select(id), keydown: step,
    }, title));
    panels.set(id, el("section", {
      role: "tabpanel", id: `panel-${id}`, "aria-labelledby": `tab-${id}`, tabindex: 0, hidden: true,
    }));
  }
  const ids = [...tabs.keys()];

  function step(event) {
    const at = ids.indexOf(state.tab);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: ids.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    select(ids[(to + ids.length) % ids.length]);
    tabs.get(state.tab).focus();
  }

  function select(id) {
    state.tab = ids.includes(id) ? id : ids[0];
    for (const [one, tab] of tabs) {
      const chosen = one === state.tab;
      tab.setAttribute("aria-selected", chosen);
      tab.tabIndex = chosen ? 0 : -1;
      panels.get(one).hidden = !chosen;
    }
    if (!state.tab) return;
    if (!updates.has(state.tab)) {
      updates.set(state.tab, shown.find((one) => one.id === state.tab).build(panels.get(state.tab)));
    }
    changed();
  }

  const chooser = state.sets.length > 1 && el("label", { class: "chooser" }, "Data set ", el("select", {
    change: (event) => enterSet(event.target.selectedIndex, true),
  }, view.sets.map((one) => el("option", { selected: one === set.raw }, one.name))));

  page.replaceChildren(...[
    el("h1", {}, view.title),
    set.raw.words?.length > 0 && el("ul", { class: "answers" }, set.raw.words.map((text) => el(
      "li", { class: text.startsWith("Warning:") ? "warning" : null }, text))),
    view.lead && el("p", { class: "lead" }, view.lead),
    chooser,
    set.raw.stage === "validation" && el("p", { class: "hint" },
      "No labelled samples were given: these are held-out samples of the training."),
    el("div", { class: set.raw.tables.length ? "columns wide-left" : null },
      set.raw.tables.length > 0 && el("div", {}, set.raw.tables.map((table, j) => resultsTable(table, j === 0 || set.raw.words?.length > 0))),
      factsList(set.raw.facts)),
    message && el("p", { class: "notice", role: "status" }, message),
    el("div", { class: "bar" }, el("div", { role: "tablist", "aria-label": "views" }, [...tabs.values()]), bar?.node),
    [...panels.values()],
    liveText,
    el("footer", {}, `Written by cosmo ${view.version}. Acc_ts: accuracy on new (unseen) classes; Acc_tr: on known (seen) `
      + "classes; both are means over classes, among all classes. Acc_H: their harmonic mean. AUSUC: area under the exact curve."),
  ].flat().filter(Boolean));

  // Screen readers read the numbers when the point rests.
  const announce = atRest(() => { if (bar && state.set === set) liveText.textContent = pointText(currentCurve()); }, 600);
  // Browsers refuse addresses that change too often, as they would under a held key.
  const keepAddress = atRest(() => {
    const hash = hashFor();
    if (location.hash !== hash) history.replaceState(null, "", hash);
  }, 150);
  followers.add(() => {
    bar?.update();
    updates.get(state.tab)?.();
    announce();
    keepAddress();
  });
  showSet.select = select;
  select(state.tab);
}

function enterSet(index, fresh = false) {
  state.sets[index] ??= prepareSet(state.view, state.view.sets[index]);
  state.set = state.sets[index];
  if (fresh) Object.assign(state, { curve: state.set.main, sample: 0 });
  showSet();
}

/** Follows the address: `#sample=17`, or view, curve, sample and, where there are several, the data set. */
function followHash() {
  const hash = location.hash.replace(/^#sample=(\d+)$/, (_, number) => `#walk//${number - 1}`);
  const [tab, curve, sample, name] = hash.slice(1).split("/").map((part) => {
    try { return decodeURIComponent(part); } catch { return ""; }
  });
  const index = Math.max(0, state.view.sets.findIndex((one) => one.name === name));
  const moved = state.set === null || (name && state.view.sets[index] !== state.set.raw);
  if (moved) {
    state.sets[index] ??= prepareSet(state.view, state.view.sets[index]);
    state.set = state.sets[index];
    Object.assign(state, { curve: state.set.main, sample: 0 });
  }
  const wanted = state.set.curves.findIndex((one) => one.name === curve);
  if (wanted >= 0) state.curve = wanted;
  const number = Number(sample);
  if (sample && Number.isInteger(number) && number >= 0 && number < Math.max(1, state.set.n)) state.sample = number;
  const before = state.tab;
  if (tab) state.tab = tab;
  if (moved) showSet(); else showSet.select(state.tab);
  // A link leads to the view, not to the top of the page.
  if (state.tab && state.tab !== before) document.getElementById(`panel-${state.tab}`).scrollIntoView();
}

/** Replaces the view by the server's, after the model has changed. */
async function reload(message) {
  const index = state.view.sets.indexOf(state.set.raw);
  const view = await decodeView(await request("/view"));
  Object.assign(state, { view, sets: new Array(view.sets.length) });
  state.sets[index] = state.set = prepareSet(view, view.sets[index]);
  state.curve = Math.min(state.curve, state.set.curves.length - 1);
  state.sample = Math.min(state.sample, Math.max(0, state.set.n - 1));
  showSet(message);
  document.getElementById(`tab-${state.tab}`)?.focus(); // the focused element was replaced
}

async function start() {
  const opening = document.getElementById("opening");
  try {
    state.live = JSON.parse(document.getElementById("live").textContent);
    const view = await decodeView(document.getElementById("view").textContent);
    if (!view.sets.length) {
      opening.textContent = "This page contains no results.";
      return;
    }
    Object.assign(state, { view, sets: new Array(view.sets.length) });
    followHash();
    window.addEventListener("hashchange", followHash);
  } catch (error) {
    console.error(error);
    opening.textContent = `The data of this page cannot be read: ${error.message}.`;
  }
}

// For tests: the state, and the computations without drawing.
window.cosmoPage = {
  state, ready: start(),
  makeCurve, bestPoint, predictionsAt, pointOf, operateAt, operateAtPoint,
  rocOf, aucOf, fprAt, gateProbability, stepsOf, rowOf, ruleOf, verdictsOf, perClass, csvText, numbersIn,
};
