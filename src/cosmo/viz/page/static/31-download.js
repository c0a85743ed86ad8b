// Figures as files: SVG with inline colours, PNG at twice the size, CSV of the data.

const DRAWN = [
  "fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "stroke-opacity", "stroke-linejoin",
  "opacity", "font-size", "font-weight", "text-anchor", "paint-order",
];

/** One cell of a CSV file. A quote before texts that begin like a formula prevents CSV formula injection. */
function csvCell(value) {
  if (value === null || value === undefined) return "";
  if (typeof value === "number") return Number.isNaN(value) ? "" : String(value);
  let text = String(value);
  if (/^[=+\-@\t\r]/.test(text)) text = `'${text}`;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

const csvText = (rows) => rows.map((row) => row.map(csvCell).join(",") + "\r\n").join("");

/** A copy of a drawing that needs no style sheet. */
function standalone(drawing) {
  const copy = drawing.cloneNode(true);
  const from = [drawing, ...drawing.querySelectorAll("*")], to = [copy, ...copy.querySelectorAll("*")];
  from.forEach((node, i) => {
    const style = getComputedStyle(node);
    for (const property of DRAWN) to[i].setAttribute(property, style.getPropertyValue(property));
    for (const attribute of ["class", "tabindex", "role"]) to[i].removeAttribute(attribute);
  });
  copy.querySelectorAll("[data-tool]").forEach((node) => node.remove());
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.setAttribute("font-family", "system-ui, sans-serif");
  copy.prepend(svg("rect", { width: "100%", height: "100%", fill: getComputedStyle(document.body).backgroundColor }));
  return new XMLSerializer().serializeToString(copy);
}

function offer(content, type, name) {
  const address = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type }));
  el("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}

async function offerPng(drawing, name) {
  const address = URL.createObjectURL(new Blob([standalone(drawing)], { type: "image/svg+xml" }));
  const picture = el("img", { src: address });
  await picture.decode();
  const canvas = el("canvas", { width: 2 * drawing.width.baseVal.value, height: 2 * drawing.height.baseVal.value });
  canvas.getContext("2d").drawImage(picture, 0, 0, canvas.width, canvas.height);
  URL.revokeObjectURL(address);
  // Encodes at once; `toBlob` waits for an idle browser.
  const encoded = atob(canvas.toDataURL("image/png").split(",")[1]);
  offer(Uint8Array.from(encoded, (byte) => byte.charCodeAt(0)), "image/png", name);
}

/**
 * A figure with a title, a drawing that follows the width of its place, and download buttons.
 * `draw(width)` returns the drawing, `table()` the rows of the CSV file, header first.
 */
function figure({ title, file, draw, table, caption }) {
  const place = el("div", { class: "drawing" });
  const named = (ending) => `${file()}.${ending}`;
  const button = (label, save) => el("button", {
    type: "button", class: "small", click: save, title: `download as ${label}`,
    "aria-label": `download "${title}" as ${label}`,
  }, label);
  const drawing = () => place.querySelector("svg");
  const node = el("figure", {},
    el("div", { class: "figure-head" }, el("h3", {}, title), el("span", { class: "downloads" },
      button("SVG", () => drawing() && offer(standalone(drawing()), "image/svg+xml", named("svg"))),
      button("PNG", () => drawing() && offerPng(drawing(), named("png"))),
      button("CSV", () => offer(csvText(table()), "text/csv;charset=utf-8", named("csv"))))),
    place,
    caption && el("figcaption", {}, caption));
  let width = 0;
  const redraw = () => { if (width) place.replaceChildren(draw(width)); };
  new ResizeObserver(perFrame(() => {
    const now = Math.floor(place.clientWidth);
    if (now && now !== width) { width = now; redraw(); }
  })).observe(place);
  return { node, redraw };
}
