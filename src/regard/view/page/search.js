// Search in the text and jump there: a list of places with what stands beside them; Enter walks.

import { make } from "./dom.js";
import { latest } from "./surface.js";
import { count } from "./words.js";

export function mount(element, app) {
  const input = make("input", { type: "search", "aria-label": "find in the text", placeholder: "find in the text", maxlength: 200, autocomplete: "off", spellcheck: "false" });
  const told = make("span", { class: "faint number", role: "status" }), list = make("ol"), ask = latest(app);
  element.append(make("div", { class: "between" }, input, told), list);
  element.popover = "auto";
  let hits = [], total = 0, at = -1, timer = 0;

  async function find(from = 0) {
    const q = input.value, found = await ask([q, from, app.place()], (signal) => (q ? app.source.search({ ...app.place(), q, from }, signal) : { total: 0, hits: [] }));
    if (!found) return;
    [hits, total] = [from ? [...hits, ...found.hits] : found.hits, found.total];
    if (!from) at = -1;
    list.replaceChildren(...hits.map(([index, , left, right], k) => make("li", {}, make("button", { class: "line", data: { hit: index }, on: { click: () => go(k) } },
      make("span", { class: "faint number", text: count(index) }), make("span", { class: "left", text: left }), make("b", { text: q }), make("span", { text: right })))));
    say();
  }
  function say() {
    told.textContent = !input.value ? "" : at < 0 ? `${count(total)} ${total === 1 ? "place" : "places"}` : `${count(at + 1)} of ${count(total)}`;
    [...list.children].forEach((line, k) => line.firstChild.setAttribute("aria-current", String(k === at)));
    list.children[at]?.scrollIntoView({ block: "nearest" });
  }
  /** Show a place: the row of its token, in the view that is open. */
  async function go(k) {
    if (k >= hits.length && hits.length < total) await find(hits.length);
    if (!hits.length) return;
    at = (k + hits.length) % hits.length;
    say();
    if (app.state.unit === "words") app.store.set({ unit: "tokens", top: 0, left: 0, zoomA: null, zoomB: null });
    const [index] = hits[at], { state, views, tokens } = app, i = index - tokens.shift;
    await tokens.ensure(index, index + 1);
    await app.chooseLine(i < 0 ? "column" : "row", i < 0 ? index : i);
    views[state.view].jump?.(index);
    if (state.view === "matrix" && state.i !== null) {
      views.matrix.camera.show(state.i, state.j);
      app.store.set(views.matrix.camera.said());
    }
  }
  input.addEventListener("input", () => (clearTimeout(timer), (timer = setTimeout(find, 150))));
  input.addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    event.preventDefault();
    go(at + (event.shiftKey ? -1 : 1));
  });
  return {
    open() {
      element.showPopover();
      input.select();
      input.focus();
    },
    show() {},
  };
}
