// The text itself, at any length: only what is seen is in the page. Tokens are tinted by what one of them gives, or is
// given; arcs go to the twelve strongest; the skyline tells where in the whole text these lie.

import { THEMES, place } from "./colour.js";
import { make, segments } from "./dom.js";
import { latest, surface } from "./surface.js";
import { SIDE } from "./tiles.js";
import { clean, count, number } from "./words.js";

export const name = "text", title = "Text";
const KEPT = 64; // tiles

export function mount(element, app) {
  const inner = make("div"), flow = make("div", { id: "flow", tabindex: 0, role: "region", "aria-label": "the text: left and right move, Enter chooses" }, inner);
  const chips = make("div"), over = make("div", { id: "over" }, chips), side = make("div", { id: "skyline", title: "the whole text: a click jumps" });
  const way = segments("way", "direction", [["", "looks at"], ["looked", "who looks here"]], (value) => mode(value, has("flow")));
  const turn = make("button", { id: "show-flow", text: "show flow", title: "arrows from key to query, the way that information goes", on: { click: () => mode(has("looked"), !has("flow")) } });
  element.append(make("div", { class: "tools" }, way, turn), make("div", { class: "rest" }, flow, over, side));
  const arcs = surface(over, { "aria-hidden": "true" }, drawArcs), skyline = surface(side, { "aria-hidden": "true" }, drawSkyline);
  const askArcs = latest(app), askSky = latest(app), tiles = new Map(), blocks = new Map(); // blocks of SIDE tokens, as tiles have
  let text = null, heights = [], starts = [0], hovered = null, wanted = null, ends = [], sky = null, asked = 0;

  const has = (word) => Boolean(app.state.mode?.includes(word)), mode = (looked, flows) => app.store.set({ mode: [looked && "looked", flows && "flow"].filter(Boolean).join("-") || null });
  const shift = () => app.tokens.shift, dims = (t) => app.state.sinks === "dim" && text.special.has(t);
  /** The token that is asked about: under the hand, or chosen. */
  const active = () => hovered ?? (has("looked") ? app.state.j : app.state.i === null ? null : app.state.i + shift());

  // What is in the page.

  function begin() {
    text = app.tokens;
    for (const [p, block] of blocks) block.remove(), blocks.delete(p);
    heights = Array(Math.ceil(text.n / SIDE)).fill(800); // a guess, until they are seen
    inner.className = text.n <= 64 ? "short" : "";
    flow.scrollTop = 0;
  }
  /** Put the blocks that are seen into the page, take out the others, and learn how high they are. */
  function settle() {
    asked = 0;
    const { clientHeight: tall } = flow, first = wanted === null ? -1 : Math.floor(wanted / SIDE);
    if (!tall || !text) return;
    for (let moved = true; moved; ) {
      moved = false;
      starts = heights.reduce((all, height) => (all.push(all.at(-1) + height), all), [0]);
      inner.style.height = `${starts.at(-1)}px`;
      if (first >= 0) flow.scrollTop = yOf(wanted) + flow.scrollTop - tall / 2;
      const top = flow.scrollTop, seen = (p) => starts[p + 1] > top - 200 && starts[p] < top + tall + 200;
      for (const [p, block] of blocks) if (!seen(p)) block.remove(), blocks.delete(p);
      for (let p = 0; p < heights.length; p++) {
        if (!seen(p)) continue;
        if (!blocks.has(p)) blocks.set(p, inner.appendChild(make("p", { data: { block: p } })));
        const block = blocks.get(p);
        if (!block.full) moved = fill(block, p) || moved;
        block.style.transform = `translateY(${starts[p]}px)`;
        if (!block.full || block.offsetHeight === heights[p]) continue;
        if (starts[p + 1] < top) flow.scrollTop += block.offsetHeight - heights[p];
        heights[p] = block.offsetHeight;
        moved = true;
      }
    }
    if (blocks.get(first)?.full) wanted = null;
    element.classList.toggle("fits", starts.at(-1) <= tall);
    tint();
    arcs.redraw();
    skyline.redraw();
  }
  const again = () => void (asked ||= requestAnimationFrame(settle));
  function fill(block, p) {
    const first = p * SIDE, last = Math.min(first + SIDE, text.n), { raw, names, spaced } = text;
    text.ensure(first, last);
    if (raw[first] === undefined || raw[last - 1] === undefined) return false;
    block.replaceChildren(make("span", { class: "faint number", text: heights.length > 1 ? count(first) : "" }));
    for (let t = first; t < last; t++) {
      block.append(t === first ? "" : text.space(t), make("span", { data: { t }, class: text.special.has(t) && "faint", text: spaced ? clean(raw[t].replace(/^[ Ġ▁]/, "")) : names[t] }), /[\nĊ]/.test(raw[t]) ? make("br") : "");
    }
    return (block.full = true);
  }
  const spanOf = (t) => blocks.get(Math.floor(t / SIDE))?.querySelector(`[data-t="${t}"]`);
  /** How far below the upper edge a token stands: known if it is in the page, else about. */
  function yOf(t) {
    const p = Math.floor(t / SIDE), span = spanOf(t);
    return starts[p] - flow.scrollTop + (span ? span.offsetTop : ((t % SIDE) / SIDE) * heights[p]);
  }
  function whereIs(t) {
    const span = spanOf(t), y = yOf(t);
    return span && y > -8 && y < flow.clientHeight - 12 ? { x: span.offsetLeft + span.offsetWidth / 2, y: y + 4 } : null;
  }
  const jump = (t) => ((wanted = Math.max(0, Math.min(text.n - 1, Math.floor(t)))), again());

  // What is asked of the head.

  function tint() {
    const at = active(), { nQ } = app.extent(), params = { ...app.cellParams(), pool: "max", a: 0, b: 0 }, name = JSON.stringify(params);
    const tileOf = (i, j) => {
      const key = `${name} ${i} ${j}`;
      if (!tiles.has(key)) {
        tiles.set(key, null);
        app.busy(app.source.tile({ ...params, i, j })).then((tile) => (tiles.set(key, tile), again()), () => tiles.delete(key));
        if (tiles.size > KEPT) tiles.delete(tiles.keys().next().value);
      }
      return tiles.get(key);
    };
    for (const span of inner.querySelectorAll("[data-t]")) {
      const t = Number(span.dataset.t), [i, j] = has("looked") ? [t - shift(), at] : [at - shift(), t];
      const tile = at === null || i < 0 || i >= nQ ? null : tileOf(Math.floor(i / SIDE), Math.floor(j / SIDE));
      const value = tile?.values ? tile.values[(i % SIDE) * tile.columns + (j % SIDE)] : -Infinity, plain = value === -Infinity || dims(t);
      Object.assign(span.style, plain ? { background: "", color: "" } : { background: app.colours.css(value), color: app.colours.ink(value) });
      span.classList.toggle("unseen", Boolean(tile) && value === -Infinity);
      span.classList.toggle("active", t === at);
    }
  }
  async function look() {
    const at = active(), i = at - shift(), { source } = app, looked = has("looked"), none = at === null, params = app.cellParams();
    const bins = Math.max(64, side.clientHeight), what = [params, at, looked, bins];
    again();
    if (none || i < 0) ends = [];
    else askArcs(what, (signal) => source.arcs({ ...params, i, top: 12 }, signal)).then((found) => {
      if (!found) return;
      ends = (looked ? found.looked_at_by.map(([q, ...rest]) => [q + shift(), ...rest]) : found.looks_at).filter(([, , weight]) => weight > 0.1 / text.n);
      const [t, , value] = ends.find(([t]) => !text.special.has(t)) ?? ends[0] ?? [at];
      if (hovered !== null) app.hover({ ...(looked ? { i: t - shift(), j: at } : { i, j: t }), value, a: 0, b: 0 });
      arcs.redraw();
    });
    const found = await askSky(what, (signal) => none || (i < 0 && !looked) ? source.skyline({ ...params, bins }, signal).then(({ values }) => values)
      : looked ? source.column({ ...params, j: at, bins }, signal) : source.row({ ...params, i, bins }, signal));
    if (found) sky = found;
    skyline.redraw();
  }

  // What is drawn.

  function drawArcs(pen, width, height) {
    if (!text) return;
    pen.clearRect(0, 0, width, height);
    const at = active(), from = at === null ? null : whereIs(at), colours = THEMES[app.themeName], made = [], looked = has("looked"), narrow = width < 400;
    const arrow = looked === has("flow") ? "→" : "←", room = { top: 4, bottom: height - 28 };
    /** What stands for a token that is not seen, at the margin on its side. */
    const chip = (t, before, token, weight = "") => {
      const edge = yOf(t) < 0 ? "top" : "bottom", y = room[edge];
      room[edge] += edge === "top" ? 25 : -25;
      made.push(make("button", { class: "chip", data: { t }, on: { click: () => jump(t) } }, `${before} ${count(t)} ${clean(token)} `, make("b", { text: weight })));
      made.at(-1).style.top = `${y}px`;
      return { x: width - (narrow ? 140 : 172), y: y + 11 };
    };
    if (at !== null && !from) chip(at, yOf(at) < 0 ? "↑" : "↓", text.raw[at] ?? "");
    for (const [t, token, weight] of at === null ? [] : ends.slice(0, narrow ? 5 : 12)) { // chips lie over the words there
      const to = whereIs(t) ?? chip(t, arrow, token, number(weight)), level = Math.abs((from?.y ?? 0) - to.y) < 8;
      if (!from || t === at) continue;
      const hue = dims(t) ? colours.faint : looked ? colours.key : colours.query, tip = (arrow === "→") === !looked ? to : from;
      const x = (from.x + to.x) / 2 + (level ? 0 : 24), y = Math.min(from.y, to.y) - (level ? 16 + Math.abs(from.x - to.x) * 0.14 : 18);
      Object.assign(pen, { strokeStyle: hue, fillStyle: hue, lineWidth: 1 + 4 * weight, globalAlpha: 0.35 + (0.65 * weight) / ends[0][2] });
      pen.setLineDash(dims(t) ? [3, 3] : []);
      pen.beginPath();
      pen.moveTo(from.x, from.y);
      pen.quadraticCurveTo(x, y, to.x, to.y);
      pen.stroke();
      const angle = Math.atan2(tip.y - y, tip.x - x), size = 6 + 4 * weight;
      pen.beginPath();
      pen.moveTo(tip.x, tip.y);
      for (const turned of [2.7, -2.7]) pen.lineTo(tip.x + size * Math.cos(angle + turned), tip.y + size * Math.sin(angle + turned));
      pen.fill();
    }
    pen.globalAlpha = 1;
    chips.replaceChildren(...made);
  }
  function drawSkyline(pen, width, height) {
    if (!text) return;
    const colours = THEMES[app.themeName], { scale } = app.colours, at = active(), tall = height / (sky?.length || 1), all = starts.at(-1) || 1;
    pen.fillStyle = colours.field;
    pen.fillRect(0, 0, width, height);
    pen.fillStyle = has("looked") ? colours.query : colours.key;
    sky?.forEach((value, k) => value > -Infinity && pen.fillRect(0, k * tall, Math.max(1, place(scale, value) * width), Math.max(1, tall)));
    pen.fillStyle = pen.strokeStyle = colours.ink;
    pen.lineWidth = 1.5;
    pen.strokeRect(1, Math.min(height - 5, (flow.scrollTop / all) * height), width - 2, Math.max(4, (flow.clientHeight / all) * height));
    if (at !== null) pen.fillRect(0, (at / text.n) * height - 1, width, 2);
  }

  // Hands and keys.

  const token = ({ target }) => (target.dataset?.t === undefined ? null : Number(target.dataset.t));
  function hover(t) {
    if (t === hovered) return;
    hovered = t;
    if (t === null) app.hover(null);
    look();
  }
  function choose(t) {
    hover(null);
    if (has("looked")) app.chooseLine("column", t);
    else if (t >= shift()) app.chooseLine("row", t - shift());
  }
  flow.addEventListener("scroll", again, { passive: true });
  flow.addEventListener("pointerover", (event) => event.pointerType === "mouse" && token(event) !== null && hover(token(event)));
  flow.addEventListener("pointerleave", () => hover(null));
  flow.addEventListener("click", (event) => token(event) !== null && choose(token(event)));
  flow.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key], at = active() ?? 0;
    if (step) hover(Math.max(0, Math.min(text.n - 1, at + step)));
    else if (event.key === "Enter") choose(at);
    else return;
    event.preventDefault();
    if (!whereIs(active())) jump(active());
  });
  for (const kind of ["pointerdown", "pointermove"]) side.addEventListener(kind, (event) => event.buttons && jump((event.offsetY / side.clientHeight) * text.n));
  new ResizeObserver(again).observe(flow);

  return {
    jump,
    show(state, changed) {
      if (text !== app.tokens) begin();
      way.choose(has("looked") ? "looked" : "");
      turn.setAttribute("aria-pressed", String(has("flow")));
      look();
      if ((!changed || changed.has("i") || changed.has("j")) && hovered === null && active() !== null && !whereIs(active())) jump(active());
    },
    hide: () => (hovered = null),
  };
}
