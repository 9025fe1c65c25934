// The reading of a cell, or of a whole row or column: its number, what it is beside an even spread, the largest of its
// row and column with their profiles, and the same cell in all heads.

import { make } from "./dom.js";
import { latest, surface } from "./surface.js";
import { clean, count, headName, number, percent } from "./words.js";

const ADDS = /^(.*?)\. Its value vector (.*?) of the weighted length\.(.*)$/s; // said first where that is what is seen
const MORE = 12; // bars of a line that is read alone; a cell has five

export function mount(element, app) {
  const place = make("h2", { class: "place" }), big = make("p", { class: "big" }), beside = make("dl", { class: "beside" });
  const heads = make("div", { class: "everyhead" });
  const caution = make("details", { class: "caution" }, make("summary", { text: "ⓘ What a weight says" }), make("p"));
  const lines = { row: line("row", "query"), column: line("column", "key") };
  element.append(place, big, beside, ...lines.row.parts, ...lines.column.parts, make("h3", { text: "This cell in all heads" }), heads, caution);
  const ask = latest(app, (sentence) => app.say(sentence));
  let timer = 0;

  /** The section of a row or of a column: a title that reads it alone, its profile, its largest. */
  function line(which, hue) {
    const name = make("button", { class: hue, id: `read-${which}`, title: `read the whole ${which}`, on: { click: () => app.store.set(which === "row" ? { j: null } : { i: null }, { act: true }) } });
    const title = make("h3", {}, ...(which === "row" ? [name, " looks at"] : ["who looks at ", name]));
    const box = make("div", { class: `profile ${hue}` }), list = make("ol", { class: `bars ${hue}` });
    const self = { name, list, box, values: null, parts: [title, box, list] };
    self.drawn = surface(box, { id: `profile-${which}`, "aria-hidden": "true" }, (pen, width, height) => {
      pen.clearRect(0, 0, width, height);
      const { values } = self, most = values?.reduce((a, b) => (b > a ? b : a), 0);
      if (!most) return;
      pen.fillStyle = getComputedStyle(box).color;
      const wide = width / values.length;
      values.forEach((value, at) => value > 0 && pen.fillRect(at * wide, height, Math.max(1, wide - (wide > 4)), -Math.max(1, (height * value) / most)));
    });
    return self;
  }
  function bars(list, top, go) {
    const most = Math.max(...top.map(([, , weight]) => weight), 1e-9);
    list.replaceChildren(...top.map(([at, token, weight]) => {
      const bar = make("span", { class: "bar" });
      bar.style.setProperty("--part", `${(100 * weight) / most}%`);
      const name = make("span", { class: "token", title: `${count(at)} ${clean(token)}`, text: token ? clean(token) : count(at) });
      return make("li", {}, make("button", { class: "line", data: { at }, on: { click: () => go(at) } }, name, bar, make("span", { class: "number", text: number(weight) })));
    }));
  }
  /** Everything that is asked of a cell; where a row or a column is read alone, of its largest cell. */
  async function answers(cell, alone, signal) {
    const { source } = app, params = app.cellParams(), { shift } = app.tokens;
    let { i, j } = cell, top = null;
    if (alone) {
      const arcs = await source.arcs({ ...params, i: alone === "row" ? i : Math.max(0, j - shift), top: MORE }, signal);
      top = alone === "row" ? arcs.looks_at : arcs.looked_at_by;
      if (alone === "row") j = top[0]?.[0] ?? 0;
      else i = top[0]?.[0] ?? 0;
    }
    const bins = Math.max(64, Math.floor(element.clientWidth / 2));
    const [said, along, down] = await Promise.all([
      source.cell({ ...params, i, j }, signal), app.hovered ? null : source.row({ ...params, i, bins }, signal),
      app.hovered ? null : source.column({ ...params, j, bins }, signal), app.tokens.ensure(j, j + 1), app.tokens.ensure(i + shift, i + shift + 1),
    ]);
    return { i, j, top, said, along, down };
  }
  function fill({ i, j, top, said, along, down }, alone) {
    const { of, unit, l, h } = app.state, length = of === "length", weight = said.weight ?? NaN;
    const query = app.tokens.query(i) ?? count(i), key = app.tokens.key(j) ?? count(j);
    const [from, to] = [["query", query], ["key", key]].map(([kind, text]) => make("span", { class: kind, text }));
    place.replaceChildren(...(alone === "row" ? [from, " looks at"] : alone ? ["who looks at ", to] : [from, " → ", to]));
    element.dataset.alone = alone;
    big.textContent = said.hidden ? "hidden" : said.nan ? "NaN" : length ? number(weight) : percent(weight);
    const facts = [];
    if (!said.hidden) facts.push([length ? "weight × length of value" : "weight", number(weight)]);
    if (said.even && !length) facts.push(["even spread", number(said.even)]);
    if (said.effective) facts.push(["spread over", `≈ ${said.effective < 100 ? said.effective.toFixed(1) : count(Math.round(said.effective))} of ${count(said.visible)} ${unit}`]);
    beside.replaceChildren(...facts.map(([name, value]) => make("div", {}, make("dt", { text: name }), make("dd", { text: value }))));
    for (const [which, name, values, mine, go] of [
      ["row", query, along, said.row_top, (at) => app.choose(i, at)], ["column", key, down, said.column_top, (at) => app.choose(at, j)],
    ]) {
      const { list, box, drawn, name: title } = lines[which];
      title.textContent = name;
      bars(list, alone === which ? top : mine, go);
      box.hidden = !values || values.length < 8;
      lines[which].values = values;
      drawn.redraw();
    }
    const grid = new Map();
    for (const [layer, head, value] of said.heads) grid.set(layer, [...(grid.get(layer) ?? []), [head, value ?? -Infinity]]);
    heads.previousSibling.hidden = !grid.size;
    heads.replaceChildren(...[...grid].map(([layer, all]) => make("div", { class: "line" }, ...all.map(([head, value]) => {
      const title = `${headName(layer, head)}: ${number(value)}`;
      const square = make("button", { tabindex: -1, title, "aria-label": title, class: layer === l && head === h && "mine", on: { click: () => app.go(layer, head) } });
      square.style.background = value === -Infinity ? "var(--hidden)" : app.plain().css(value);
      return square;
    }))));
    caution.lastChild.textContent = said.caution;
    app.say(length ? said.sentence.replace(ADDS, (_, gives, adds, rest) => `The value vector of '${key}' ${adds} of the weighted length: ${gives}.${rest}`) : said.sentence);
  }
  return {
    /** Called when the state or the hovered cell changes. */
    show({ i, j }) {
      const cell = app.hovered ?? (i !== null || j !== null ? { i, j } : null);
      clearTimeout(timer);
      element.classList.toggle("empty", !cell);
      if (!cell || !app.chosen) return void ask(null, () => null); // what is read next is read anew
      if (cell.a || cell.b) return app.sayBlock(cell);
      const alone = cell.j === null ? "row" : cell.i === null ? "column" : "";
      timer = setTimeout(async () => {
        const found = await ask([app.cellParams(), cell.i, cell.j, app.hovered ? 1 : app.themeName], (signal) => answers(cell, alone, signal));
        if (found) fill(found, alone);
      }, app.hovered ? 60 : 0);
    },
  };
}
