"use strict";
// Decodes the view: base64 of zlib of JSON, with typed arrays.

const ARRAY_TYPES = {
  f8: Float64Array, f4: Float32Array, i4: Int32Array, u4: Uint32Array, u2: Uint16Array, u1: Uint8Array,
};

function bytesOf(base64) {
  const text = atob(base64.trim());
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return bytes;
}

async function decodeView(base64) {
  let view;
  try {
    const stream = new Blob([bytesOf(base64)]).stream().pipeThrough(new DecompressionStream("deflate"));
    view = JSON.parse(await new Response(stream).text());
  } catch {
    throw new Error("it is damaged or truncated");
  }
  if (view.format !== 1) throw new Error(`this page reads format 1, the data has format ${view.format}`);
  return view;
}

function decodeArray(view, index) {
  const stored = view.arrays[index];
  // Shared arrays are decoded once.
  stored.values ??= new ARRAY_TYPES[stored.type](bytesOf(stored.data).buffer);
  return stored.values;
}
