// Two heads beside each other, of one recording or of two of the same text: linked, for both are the matrix of the
// same state; or one less the other.

import { scaleOf } from "./colour.js";
import { make, segments } from "./dom.js";
import { sketching } from "./export.js";
import { mount as matrix } from "./matrix.js";
import { latest } from "./surface.js";
import { Tiles } from "./tiles.js";
import { headName, percent } from "./words.js";

export const name = "compare", title = "Compare";
const APART = Math.sqrt(Math.LN2); // the largest Jensen–Shannon distance

/** A matrix of its own in an app that is the other in all but the head. */
function beside(app, id) {
  const element = make("section", { id }), box = make("div", { class: "side" }, make("h3"), element);
  const source = { tile: (...asked) => app.busy(app.source.tile(...asked)), base: (...asked) => app.source.base(...asked) };
  const side = Object.create(app, { hovered: { get: () => app.hovered, set: (cell) => (app.hovered = cell) } });
  let named = "";
  const tiles = new Tiles(source, () => (paint(), view.redraw()));
  Object.assign(side, { tiles, drawn() {}, hover: (cell) => app.hover(cell) });
  const view = matrix(element, side);
  for (const canvas of [view.canvas, view.above]) canvas.id += `-${id}`;
  sketching(view);
  function paint() {
    const { series } = side, n = series.nK;
    box.firstChild.textContent = named + (series.pending ? ` · first pass ${percent(series.pending.share ?? 0)}` : "");
    side.colours = series.params.minus ? app.palette(scaleOf({ n, diverging: true, largest: series.whole?.largest }), app.state.map) : app.plain();
  }
  return { box, view, show([r, x, l, h], minus, changed) {
    const { nQ, nK } = app.extent(), head = { r, x, l, h };
    const other = headName(l, h) + (r === app.state.r ? "" : ` · ${app.about.recordings.find((rec) => rec.r === r)?.name}`);
    named = minus ? `${headName(app.state.l, app.state.h)} less ${other}` : other;
    if (!minus) side.profileParams = () => head;
    side.series = tiles.series({ ...app.cellParams(), ...(minus ? { minus: [r, x, l, h].join(".") } : head), pool: app.state.pool }, nQ, nK);
    paint();
    view.show(app.state, changed);
  } };
}

export function mount(element, app) {
  const ask = latest(app), other = make("select", { id: "other", "aria-label": "the other head", on: { change: () => app.store.set({ minus: other.value }, { act: true }) } });
  const how = segments("compare-how", "how", [["", "side by side"], ["less", "difference"]], (mode) => app.store.set({ mode: mode || null }));
  const told = make("p", { id: "apart", class: "faint small" }), sides = make("div", { class: "rest" });
  element.append(make("div", { class: "tools" }, make("span", {}, "with ", other), how), told, sides);
  let panels = null, listed = "";

  /** The heads of as many tokens, of this recording and of others with the same text. */
  function list() {
    const { r, x } = app.state, { n_q, n_k } = app.layer, name = [r, x, n_q, n_k].join();
    if (name === listed) return;
    listed = name;
    const same = app.about.recordings.flatMap((rec) => rec.texts.filter((text) => text.title === app.text.title).map((text) => [rec, text]));
    other.replaceChildren(...same.map(([rec, text]) => make("optgroup", { label: rec.name }, ...text.layers.filter((layer) => layer.n_q === n_q && layer.n_k === n_k)
      .flatMap(({ l, heads }) => Array.from({ length: heads }, (_, h) => make("option", { value: [rec.r, text.x, l, h].join("."), text: `${headName(l, h)}${same.length > 1 ? ` · ${rec.name}` : ""}` }))))));
  }
  /** The other head to begin with: another that tells something, or the next. */
  function first() {
    const { r, x, l, h } = app.state, told = app.said?.telling?.find((head) => head.l !== l || head.h !== h) ?? { l, h: h ? h - 1 : Math.min(1, app.layer.heads - 1) };
    return [r, x, told.l, told.h].join(".");
  }
  async function apart(minus) {
    told.textContent = "";
    const found = await ask([app.profileParams(), minus, Math.random()], (signal) => app.source.compare({ ...app.profileParams(), minus, bins: 1 }, signal));
    if (found) told.textContent = `apart by ${found.distance.toFixed(3)} of ${APART.toFixed(3)} (Jensen–Shannon)${found.sampled ? `, sampled ${found.sampled} queries` : ""}${found.same_tokens ? "" : " · their tokens differ"}`;
  }
  document.addEventListener("click", (event) => { // Shift-click on a head
    const head = event.shiftKey && event.target.closest?.("#overview [data-head]")?.dataset.head;
    if (!head || !app.root.contains(event.target)) return;
    event.stopPropagation();
    app.store.set({ view: "compare", minus: `${app.state.r}.${app.state.x}.${head}` }, { act: true });
  }, true);
  return {
    get matrix() {
      return panels?.[app.state.mode === "less" ? 2 : 0].view;
    },
    remark: () => panels?.forEach(({ view }) => view.remark()),
    show(state, changed) {
      if (!state.minus) return void app.store.set({ minus: first() });
      panels ??= ["one", "two", "less"].map((id) => beside(app, id));
      list();
      other.value = state.minus;
      how.choose(state.mode === "less" ? "less" : "");
      const less = state.mode === "less", { r, x, l, h } = state, minus = state.minus.split(".").map(Number);
      const [one, two, difference] = panels, seen = less ? [difference] : [one, two];
      if (sides.children.length !== seen.length) sides.replaceChildren(...seen.map(({ box }) => box));
      if (less) difference.show(minus, true, changed);
      else {
        one.show([r, x, l, h], false, changed);
        two.show(minus, false, changed);
        app.colours = app.plain();
        app.shell.legend();
      }
      if (!changed || ["minus", "l", "h"].some((field) => changed.has(field))) apart(state.minus);
      this.on = true;
    },
    hide() {
      panels?.forEach(({ view }) => view.hide());
      if (this.on) queueMicrotask(() => app.state.view !== "compare" && app.store.set({ minus: null }));
      this.on = false;
    },
  };
}
