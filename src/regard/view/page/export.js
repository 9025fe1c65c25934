// Share: the address, a picture of what is seen (SVG with text as text, or PNG), a row as CSV, all of it as one file.

import { make } from "./dom.js";
import { toHash } from "./state.js";
import { headName } from "./words.js";

const escaped = (text) => String(text).replace(/[&<>"]/g, (c) => `&#${c.charCodeAt(0)};`).replace(/[\x00-\x08\x0b\x0c\x0e-\x1f]/g, "");
const FRESH = { fillStyle: "#000", strokeStyle: "#000", lineWidth: 1, globalAlpha: 1, font: "", textAlign: "left", textBaseline: "", dash: "", groups: 0 };
const box = (x, y, w, h) => `M${x} ${y}h${w}v${h}h${-w}z`;
let clips = 0;

/** Stands in for the pen of a canvas and writes SVG: as much of it as the page uses. */
class SvgPen {
  out = [];
  kept = [];
  path = "";
  constructor(x, y, out = []) {
    Object.assign(this, FRESH, { base: new DOMMatrix([1, 0, 0, 1, x, y]), out });
    this.at = this.base;
  }
  put(tag, paint, inside = "") {
    this.out.push(`<${tag} transform="${this.at}" opacity="${this.globalAlpha}" ${paint}>${inside}</${tag}>`);
  }
  save() {
    const { out, kept, path, ...now } = this;
    kept.push(now);
  }
  restore() {
    const before = this.kept.pop();
    this.out.push("</g>".repeat(this.groups - before.groups));
    Object.assign(this, before);
  }
  setTransform(...matrix) {
    this.at = this.base.multiply(new DOMMatrix(matrix));
  }
  transform(...matrix) {
    this.at = this.at.multiply(new DOMMatrix(matrix));
  }
  translate(x, y) {
    this.at = this.at.translate(x, y);
  }
  rotate(angle) {
    this.at = this.at.rotate((angle * 180) / Math.PI);
  }
  setLineDash(dash) {
    this.dash = dash.join();
  }
  clearRect() {}
  createPattern() {
    return "#88888840"; // hatching
  }
  beginPath() {
    this.path = "";
  }
  moveTo(x, y) {
    this.path += `M${x} ${y}`;
  }
  lineTo(x, y) {
    this.path += `L${x} ${y}`;
  }
  quadraticCurveTo(...at) {
    this.path += `Q${at}`;
  }
  rect(...at) {
    this.path += box(...at);
  }
  arc(x, y, r) {
    this.path += `M${x - r} ${y}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0`;
  }
  clip() {
    this.out.push(`<clipPath id="c${++clips}"><path transform="${this.at}" d="${this.path}"/></clipPath><g clip-path="url(#c${clips})">`);
    this.groups++;
  }
  fill() {
    this.put("path", `d="${this.path}" fill="${this.fillStyle}"`);
  }
  get line() {
    return `fill="none" stroke="${this.strokeStyle}" stroke-width="${this.lineWidth}" stroke-dasharray="${this.dash}"`;
  }
  stroke() {
    this.put("path", `d="${this.path}" ${this.line}`);
  }
  fillRect(...at) {
    this.put("path", `d="${box(...at)}" fill="${this.fillStyle}"`);
  }
  strokeRect(...at) {
    this.put("path", `d="${box(...at)}" ${this.line}`);
  }
  fillText(text, x, y, paint = `fill="${this.fillStyle}"`) {
    const anchor = { center: "middle", right: "end" }[this.textAlign] ?? "start", down = this.textBaseline === "middle" ? ".35em" : "0";
    this.put("text", `x="${x}" y="${y}" dy="${down}" text-anchor="${anchor}" style="font:${escaped(this.font)}" ${paint}`, escaped(text));
  }
  strokeText(text, x, y) {
    this.fillText(text, x, y, `stroke-linejoin="round" ${this.line}`);
  }
  drawImage(picture, ...at) {
    const { width, height } = picture, [sx, sy, sw, sh, x, y, w, h] = at.length > 4 ? at : [0, 0, width, height, at[0], at[1], at[2] ?? width, at[3] ?? height];
    const copy = make("canvas", { width: Math.max(1, sw), height: Math.max(1, sh) });
    copy.getContext("2d").drawImage(picture, sx, sy, sw, sh, 0, 0, sw, sh);
    this.put("image", `x="${x}" y="${y}" width="${w}" height="${h}" preserveAspectRatio="none" style="image-rendering:pixelated" href="${copy.toDataURL()}"`);
  }
}

/** An element as it is seen: its background, its words where they stand, and its canvases drawn once more. */
function trace(element, pen) {
  const style = getComputedStyle(element), { x, y, width, height } = element.getBoundingClientRect(), cut = style.overflowX !== "visible";
  if (style.display === "none" || style.visibility === "hidden" || element.className === "tools") return;
  pen.save();
  pen.globalAlpha *= style.opacity;
  pen.beginPath();
  pen.rect(x, y, width, height);
  if (cut) pen.clip();
  pen.fillStyle = style.backgroundColor;
  pen.fill();
  if (element.sketch) element.sketch(new SvgPen(pen.base.e + x, pen.base.f + y, pen.out));
  else if (element.tagName === "CANVAS" && element.width) pen.drawImage(element, x, y, width, height);
  for (const child of element.childNodes) {
    if (child.nodeType === 1) trace(child, pen);
    else if (child.nodeType === 3) {
      const range = document.createRange();
      Object.assign(pen, { fillStyle: style.color, font: `${style.fontWeight} ${style.fontSize} ${style.fontFamily}` });
      for (const { 0: word, index } of child.data.matchAll(/\S+/g)) {
        range.setStart(child, index);
        range.setEnd(child, index + word.length);
        const at = range.getBoundingClientRect();
        if (at.width) pen.fillText(word, at.x, at.bottom - at.height * 0.24);
      }
    }
  }
  pen.restore();
}

/** Let the canvases of a matrix be drawn with another pen. */
export function sketching(view) {
  view.canvas.sketch = (pen) => {
    const kept = { pen: view.pen, size: view.size, hatches: null };
    Object.assign(view, { pen, size: { ...view.size, ratio: 1 }, hatches: null });
    view.paint();
    Object.assign(view, kept).redraw();
  };
  view.above.sketch = (pen) => view.marks.draw(pen, 1);
}

export function mount(menu, app) {
  const button = make("button", { id: "share", text: "Share", title: "copy the address, save a picture, numbers or a page" });
  app.root.querySelector("#share").replaceWith(button);
  Object.assign(menu, { popover: "auto" }).setAttribute("role", "menu");
  button.popoverTargetElement = menu;
  const item = (id, text, title, does) => menu.append(make("button", { id: `share-${id}`, role: "menuitem", title, text, on: { click: () => {
    menu.hidePopover();
    app.busy(Promise.resolve().then(does)).catch((problem) => app.note(problem.message));
  } } }));
  function save(parts, type, ending) {
    const href = URL.createObjectURL(new Blob(parts, { type }));
    make("a", { href, download: `regard-${headName(app.state.l, app.state.h)}${ending}` }).click();
    setTimeout(() => URL.revokeObjectURL(href), 10000);
  }
  /** What the centre shows, with the text above it, the sentence and the scale below it. */
  function drawing() {
    const pieces = ["#typed", "#head", "#title", `#view-${app.state.view}`, "#told > :first-child", "#legend"].flatMap((name) => app.root.querySelector(name) ?? []).filter((piece) => piece.offsetHeight && (piece.textContent || piece.firstChild));
    const width = app.root.querySelector("#stage").clientWidth + 32, out = [];
    sketching(app.views.matrix);
    let height = 12;
    for (const piece of pieces) {
      const at = piece.getBoundingClientRect();
      trace(piece, new SvgPen(16 - at.x, height - at.y, out));
      height += Math.ceil(at.height) + 8;
    }
    const source = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}"><rect width="100%" height="100%" fill="${getComputedStyle(app.root).backgroundColor}"/>${out.join("")}</svg>`;
    return { width, height, source };
  }
  async function png() {
    const { width, height, source } = drawing(), picture = new Image(), canvas = new OffscreenCanvas(2 * width, 2 * height);
    picture.src = URL.createObjectURL(new Blob([source], { type: "image/svg+xml" }));
    await picture.decode();
    canvas.getContext("2d").drawImage(picture, 0, 0, canvas.width, canvas.height);
    URL.revokeObjectURL(picture.src);
    save([await canvas.convertToBlob()], "image/png", ".png");
  }
  async function csv() {
    const i = app.state.i ?? 0, params = { ...app.cellParams(), i }, href = app.source.link("row.csv", params);
    if (href) return make("a", { href, download: "" }).click();
    const values = await app.source.row(params);
    await app.tokens.ensure(0, values.length);
    const lines = [...values].map((value, j) => `${j},"${String(app.tokens.raw[j] ?? "").replaceAll('"', '""')}",${value === -Infinity ? "" : value}\n`);
    save(["key,token,weight\n", ...lines], "text/csv", `-${i}.csv`);
  }
  async function page() {
    const params = { ...app.profileParams(), state: toHash(app.state) }, href = app.source.link("export", params);
    if (href) make("a", { href, download: "" }).click();
    else save([await app.source.file(params)], "text/html", ".html");
  }
  if (app.options.url !== false) item("link", "Copy link", "the address of this view", async () => {
    app.store.flush();
    await navigator.clipboard?.writeText(location.href).catch(() => {});
    app.note("The address of this view is copied.");
  });
  item("png", "PNG", "what is seen, as a picture", png);
  item("svg", "SVG", "what is seen, as a drawing", () => save([drawing().source], "image/svg+xml", ".svg"));
  item("csv", "CSV of the row", "the weights of the chosen query", csv);
  if (app.source.file || app.source.link("export", {})) item("html", "HTML file", "this text and page in one file that works offline", page);
  return { show() {}, drawing };
}
