// Try it: the prediction of a new sample by the live model, drawn as in the walk-through.

const IMAGES = ["image/png", "image/jpeg", "image/webp"];

const tryView = {
  id: "try", title: "Try it",
  available: (set, live) => live !== null && set.curves.length > 0,
  build(panel) {
    const { set, live } = state;
    const figures = walkFigures((what) => fileName(`trial ${what}`)(), ruleOf(set));
    const status = el("p", { class: "hint", role: "status" });
    const head = el("div", { class: "card sample", hidden: true, "aria-live": "polite" });
    const shown = el("div", { class: "card", hidden: true }, figures.node);
    let record = null; // the shown prediction, redrawn when the operating point moves

    const draw = () => {
      if (!record) return;
      const { row, names, nSeen, truth, subject } = record;
      const steps = figures.draw(row, { ...ruleOf(set), nSeen, nUnseen: names.length - nSeen }, names, truth);
      head.hidden = shown.hidden = false;
      head.replaceChildren(...[subject(), el("dl", { class: "numbers" },
        termOf("prediction", el("strong", {}, names[steps.predicted]), " ", domainTag(!steps.toUnseen)),
        termOf("probability", `${percent(steps.probability)} %`),
        row.conformity != null && termOf("conformity", `${percent(row.conformity)} % `, row.conformity <= 0.05
          && el("span", { class: "tag bad", title: "of no known class, if 5 % of the known samples may be rejected" }, "unknown")),
        ruleOf(set).smoothing !== "none" && termOf("without smoothing", names[steps.predictedBefore]),
        truth !== null && termOf("true class", names[truth], " ",
          verdictTag(verdictOf(truth, steps.predicted, steps.predictedBefore, nSeen))),
        row.milliseconds && termOf("time", `${Math.max(1, Math.round(row.milliseconds))} ms`))].filter(Boolean));
    };
    const predict = (button, prepare, subject) => during(button, status, async () => {
      const [body, type] = prepare();
      const row = await request("/predict", body, type);
      record = { row, names: row.classes ?? set.names, nSeen: row.n_seen ?? set.nSeen, truth: null, subject };
      draw();
    });

    const form = { text: textForm, images: imageForm, features: rowForm }[live.takes](live, predict);
    const random = set.walk && el("button", { type: "button", click: () => {
      const i = Math.floor(Math.random() * set.n);
      record = {
        row: rowOf(set, i), names: set.names, nSeen: set.nSeen, truth: set.target[i],
        subject: () => el("div", {}, picture(set, i, 160), el("p", { class: "quoted" }, sampleTitle(set, i))),
      };
      form.fill?.(set.samples.texts?.[i]);
      status.className = "hint";
      status.textContent = `Sample ${i + 1} of the evaluated ones.`;
      draw();
    } }, "A random evaluated sample");
    panel.append(el("div", { class: "card" }, form.node, random && el("p", { class: "buttons" }, random), status),
      el("div", { class: "columns wide-right" }, head, shown));
    return draw;
  },
};

function textForm(live, predict) {
  const box = el("textarea", {
    rows: 4, maxlength: live.limits?.text ?? null, "aria-label": "a text", placeholder: "Write or paste a text",
  });
  const button = el("button", { type: "submit", class: "primary" }, "Classify");
  const submit = (event) => {
    event.preventDefault();
    const text = box.value;
    predict(button, () => {
      if (!text.trim()) throw new Error("There is no text yet: write one, then classify.");
      return [{ text }];
    }, () => el("p", { class: "quoted" }, text));
  };
  return {
    node: el("form", { submit }, el("h3", {}, "A text"), box, el("p", { class: "buttons" }, button)),
    fill: (text) => { if (text) box.value = text; },
  };
}

function rowForm(live, predict) {
  const box = el("textarea", {
    rows: 4, "aria-label": "a row of features",
    placeholder: `${live.features ?? "The"} numbers, separated by commas, spaces or lines`,
  });
  const button = el("button", { type: "submit", class: "primary" }, "Classify");
  const submit = (event) => {
    event.preventDefault();
    predict(button, () => {
      const features = numbersIn(box.value);
      if (live.features && features.length !== live.features) {
        throw new Error(`The model takes ${live.features} numbers, this row has ${features.length}.`);
      }
      return [{ features }];
    }, () => el("p", {}, "A row of features."));
  };
  return { node: el("form", { submit }, el("h3", {}, "A row of features"), box, el("p", { class: "buttons" }, button)) };
}

const megabytes = (bytes) => (bytes / 1e6).toFixed(1);

function imageForm(live, predict) {
  const input = el("input", { type: "file", accept: IMAGES.join(","), change: () => send(input.files[0]) });
  const send = (file) => {
    if (!file) return;
    const address = URL.createObjectURL(file);
    predict(input, () => {
      if (!IMAGES.includes(file.type)) throw new Error(`"${file.name}" is not a PNG, JPEG or WebP image.`);
      const most = live.limits?.upload_bytes;
      if (most && file.size > most) {
        throw new Error(`"${file.name}" has ${megabytes(file.size)} MB; the limit is ${megabytes(most)} MB.`);
      }
      return [file, file.type];
    }, () => el("div", {}, el("img", { src: address, alt: "your image", class: "upload" }), el("p", {}, file.name)));
  };
  const zone = el("label", {
    class: "drop",
    dragover: (event) => { event.preventDefault(); zone.classList.add("over"); },
    dragleave: () => zone.classList.remove("over"),
    drop: (event) => { event.preventDefault(); zone.classList.remove("over"); send(event.dataTransfer.files[0]); },
  }, el("span", {}, "Drop an image here, or choose one"), input);
  return { node: el("div", {}, el("h3", {}, "An image"), zone) };
}
