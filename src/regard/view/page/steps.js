// The four steps of attention with their numbers: of the head that is seen where the text is short, or of a designed
// head whose strength can be turned up.

import { scaleOf } from "./colour.js";
import { make, segments } from "./dom.js";
import { latest } from "./surface.js";
import { clean, digits, number } from "./words.js";

export const name = "steps", title = "Steps";
const SHORT = 16; // tokens
const DESIGNED = ["previous_token", "next_token", "first_token", "current_token", "local"];

export function mount(element, app) {
  const ask = latest(app), own = { i: 2, j: null }, body = make("div", { class: "rest steps" }), range = make("input", { id: "strength", type: "range", min: 0, max: 64, value: 8, "aria-label": "strength", on: { input: fetch } });
  const which = make("select", { id: "designed", "aria-label": "designed head", on: { change: fetch } }, ...DESIGNED.map((value) => make("option", { value, text: value.replaceAll("_", " ") })));
  const kind = segments("steps-of", "whose steps", [["", "this head"], ["designed", "a designed head"]], (mode) => app.store.set({ mode: mode || null }));
  const told = make("output", { class: "number" }), knobs = make("span", { class: "tools" }, which, make("label", {}, "strength", range, told));
  element.append(make("div", { class: "tools" }, kind, knobs), body);

  async function fetch() {
    const { n_q, n_k } = app.layer, long = Math.max(n_q, n_k) > SHORT, designed = long || app.state.mode === "designed", cell = designed ? own : app.state;
    app.root.classList.toggle("designed", designed);
    kind.choose(designed ? "designed" : "");
    kind.firstChild.disabled = long;
    kind.firstChild.title = long ? `of texts of up to ${SHORT} tokens` : "";
    knobs.hidden = !designed;
    told.textContent = range.value;
    const params = designed ? { name: which.value, strength: range.value, n: 6 } : { ...app.profileParams(), i: Math.min(cell.i ?? 0, n_q - 1) };
    const found = await ask([params, cell.i, cell.j, app.themeName, app.state.map], (signal) => app.source[designed ? "designed" : "steps"](params, signal));
    if (found) fill(found, cell);
  }
  function fill({ tokens, key_tokens, scores, scaled, final, weights, output, d = 6, scale = 1 / Math.sqrt(d) }, cell) {
    const keys = key_tokens ?? tokens, n = tokens.length, i = Math.min(cell.i ?? 0, n - 1), designed = cell === own;
    const j = cell.j === null ? weights[i].indexOf(Math.max(...weights[i])) : Math.min(cell.j, keys.length - 1);
    const last = (final ?? scaled)[i], hidden = last[j] === null;
    const colours = (x, diverging = true) => app.palette(scaleOf({ n: keys.length, diverging, largest: Math.max(...x.flat().map(Math.abs)) }), app.state.map);
    const [q, k] = [tokens[i], keys[j]].map(clean), raised = last.map((x) => (x === null ? 0 : Math.exp(x))), sum = raised.reduce((a, b) => a + b, 0);
    /** A table with row i marked; without names of its columns it is one of colours. */
    const table = (values, names, shade = colours(values)) => make("table", { class: names ? "" : "vectors" },
      names && make("tr", {}, make("th"), ...names.map((name, at) => make("th", { class: at === j ? "key" : "", scope: "col", text: clean(name) }))),
      ...values.map((row, r) => make("tr", { class: r === i && "mine" }, make("th", { class: "query", scope: "row", text: clean(tokens[r]) }), ...row.map((value, c) => {
        const box = make("td", { class: names && r === i && c === j ? "mine" : value === null && "hidden", title: names ? null : number(value ?? NaN), text: names && (value === null ? "" : digits(value)) });
        if (value !== null) Object.assign(box.style, { background: shade.css(value), color: shade.ink(value) });
        if (names) box.addEventListener("click", () => (designed ? (Object.assign(own, { i: r, j: c }), fetch()) : app.choose(r, c)));
        return box;
      }))));
    const step = (at, name, sentence, made) => make("section", { data: { step: at } }, make("h2", { text: `${at}  ${name}` }), make("p", { class: "small", text: sentence }), made);
    body.style.setProperty("--columns", keys.length);
    body.replaceChildren(
      step(1, "Scores", `q(${q}) · k(${k}) = ${number(scores[i][j] ?? NaN)}, a product of ${d} numbers each`, table(scores, keys)),
      step(2, "Scaled", hidden ? `${k} is hidden from ${q}` : `${number(scores[i][j])} × ${number(scale)}${Math.abs(last[j] - scaled[i][j]) > 1e-4 ? " and what the head adds" : ""} = ${number(last[j])}`, table(final ?? scaled, keys)),
      step(3, "Weights", `e^${number(last[j] ?? -Infinity)} ÷ the sum of the row = ${number(raised[j])} ÷ ${number(sum)} = ${number(weights[i][j])}; each row sums to 1`, table(weights, keys, colours([1], false))),
      ...(output ? [step(4, "Output", `the values of all keys, each times its weight, added up: ${output[0].length} numbers for each query`, table(output, null))] : []),
      ...(designed ? [make("p", { class: "faint", text: "A head by hand: its queries point at their keys. With strength 0 the rows are even; the stronger, the sharper." })] : []),
    );
  }
  return { show: fetch, hide: () => app.root.classList.remove("designed") };
}
