// Thumbnails of samples, cut from the atlas in the view.

/** Object URL of the atlas, shared by all elements. */
function atlasAddress(pictures) {
  if (!pictures.address) {
    const [head, data] = pictures.uri.split(",");
    const type = /^data:(image\/(?:png|jpeg|webp));base64$/.exec(head)?.[1];
    pictures.address = type ? URL.createObjectURL(new Blob([bytesOf(data)], { type })) : "";
  }
  return pictures.address;
}

/** The picture of sample i, `size` pixels wide; null if it has none. */
function picture(set, i, size) {
  const pictures = set.samples?.pictures;
  if (!pictures || i >= pictures.count) return null;
  const scale = size / Math.max(pictures.width, pictures.height);
  const node = el("span", { class: "picture", role: "img", "aria-label": `picture of sample ${i + 1}` });
  const column = i % pictures.columns, row = Math.floor(i / pictures.columns);
  Object.assign(node.style, {
    width: `${pictures.width * scale}px`,
    height: `${pictures.height * scale}px`,
    backgroundImage: `url("${atlasAddress(pictures)}")`,
    backgroundSize: `${pictures.columns * pictures.width * scale}px auto`,
    backgroundPosition: `${-column * pictures.width * scale}px ${-row * pictures.height * scale}px`,
    imageRendering: scale >= 2 ? "pixelated" : "auto",
  });
  return node;
}
