// The regions of the page and what stands in them besides views: the bar at the top, the text as typed, the sentence,
// the lesson and the cards under it, and the line at the bottom with the scale of colours.

import { MAP_NAMES, place, ticks } from "./colour.js";
import { make, segments } from "./dom.js";
import { painted } from "./profiles.js";
import { count, headName, percent, short } from "./words.js";

const WHOLE = { i: null, j: null, pinned: false, top: 0, left: 0, zoomA: null, zoomB: null }; // all of it, no cell chosen
const OF = [["weight", "Weight"], ["length", "Weight × value", "the length of what each key adds  v"]];
const UNIT = [["words", "Words", "words  u"], ["tokens", "Tokens", "tokens  u"]];
const CHOICES = [ // of the panel: field, label, values; some where the bar above has no room for them
  ["of", "Shown", OF, "narrow"], ["unit", "Of", UNIT, "narrow"],
  ["map", "Colours", MAP_NAMES.map((name) => [name, name])],
  ["scale", "Scale", [["auto", "as it comes"], ["linear", "linear"], ["log", "log"]]],
  ["turn", "Columns are", [[false, "keys"], [true, "queries"]]],
  ["pool", "A pixel is the", [["max", "largest"], ["mean", "mean"]]],
  ["sinks", "Special tokens", [["dim", "dim"], ["show", "show"], ["without", "without"]]],
  ["theme", "Page", [["auto", "system"], ["light", "light"], ["dark", "dark"]]],
];

export function shell(app, views) {
  const { store } = app, set = (patch, act = true) => store.set(patch, { act });
  const button = (id, text, title, click, more = {}) => make("button", { id, text, title, on: { click }, ...more });
  const bars = []; // [field, its choices]
  const choice = (field, id, label, choices, act = false, more = {}) => {
    bars.push([field, segments(id, label, choices, (value) => set({ [field]: value, ...more }, act))]);
    return bars.at(-1)[1];
  };

  // Above.
  const { recordings } = app.about;
  const texts = make("select", { id: "texts", "aria-label": "text", on: { change: () => {
    const [r, x] = texts.value.split(".").map(Number);
    set({ r, x, l: null, h: null, ...WHOLE, minus: null, unit: "tokens" });
  } } }, ...recordings.flatMap(({ r, name, texts }) => texts.map(({ x, title }) => make("option", { value: `${r}.${x}`, text: title + (recordings.length > 1 ? ` · ${name}` : "") }))));
  const head = make("output", { id: "head", title: "the head in view" });
  const step = (id, sign, title, by) => button(id, sign, title, () => app.step(by), { "aria-label": title });
  const stepper = make("div", { class: "stepper" }, step("before", "◂", "the head before  ,", -1), head, step("after", "▸", "the next head  .", 1));
  const of = choice("of", "of", "what is shown", OF, true), unit = choice("unit", "unit", "unit", UNIT, true, WHOLE);
  const turn = button("turn", "Turn", "columns are queries  t", () => app.toggle("turn", true, false));
  const search = button("find", "Search", "find a token  /", () => app.parts.search.open());
  const more = button("more", "…", "colours and more", () => panel.togglePopover(), { "aria-label": "colours and more" });
  const bar = make("header", { id: "top" }, texts, stepper, search, make("span", { class: "space" }), of, unit, turn, make("span", { id: "share" }), more, button("help", "?", "all keys  ?", () => app.sheet.showModal()));

  // The centre.
  const typed = make("p", { id: "text" }), meta = make("p", { id: "meta" });
  const tabs = make("nav", { id: "views", role: "tablist", "aria-label": "views" }), stages = {};
  const stage = make("div", { id: "stage" });
  for (const { name, title } of views) {
    tabs.append(button(`tab-${name}`, title, null, () => set({ view: name }), { role: "tab", "aria-controls": `view-${name}`, data: { view: name } }));
    stages[name] = stage.appendChild(make("section", { id: `view-${name}`, role: "tabpanel", "aria-labelledby": `tab-${name}`, hidden: true }));
  }
  const fingers = matchMedia("(pointer: coarse)").matches, [title, lesson] = ["title", "lesson"].map((id) => make("p", { id }));
  const hint = make("p", { id: "hint", text: fingers ? "tap a word · pinch to zoom" : "hover a word · click a head · scroll to zoom" });
  const sentence = make("p", { id: "sentence", "aria-live": "polite", role: "status" }), cards = make("div", { id: "cards" });
  const told = make("div", { id: "told" }, make("div", { id: "said" }, sentence, " ", lesson), cards);
  const centre = make("main", { id: "centre" }, make("div", { id: "typed" }, typed, meta), make("div", { class: "between" }, tabs), stage, told);
  stage.append(title, hint);

  // Below.
  const [scale, exact, progress] = ["scale", "exact", "progress"].map((id) => make("span", { id }));
  const notes = make("span", { id: "notes", role: "status" });
  const strip = make("canvas", { id: "strip", width: 1, height: 1, "aria-hidden": "true" }), marks = make("span", { class: "ticks" });
  const legend = button("legend", null, null, () => panel.togglePopover(), { "aria-expanded": "false" });
  legend.append(make("span", { class: "ramp" }, strip, marks));
  const line = (label, bar, kind = "") => make("div", { class: `between ${kind}` }, make("span", { text: label }), bar);
  const ends = ["low", "high"].map((name) => make("input", { id: name, "aria-label": `${name}est value`, inputmode: "decimal", size: 6, on: { change: () => {
    const [low, high] = ends.map((end) => Number(end.value.replace("−", "-")));
    if (low < high) set({ range: [low, high] }, false);
  } } }));
  const reset = button("reset", "reset", "the usual range", () => set({ range: null, scale: "auto" }, false));
  const panel = make("div", { id: "colours", popover: "auto", role: "dialog", "aria-label": "colours" },
    ...CHOICES.map(([field, label, choices, kind]) => line(label, choice(field, `set-${field}`, label, choices), kind)),
    line("From, to", make("span", {}, ends[0], " ", ends[1], " ", reset)),
    line("This view", button("hand-on", "Share", null, () => app.root.querySelector("#sharing").showPopover()), "narrow"));
  panel.addEventListener("toggle", (event) => legend.setAttribute("aria-expanded", String(event.newState === "open")));
  const sheet = (id, name) => button(`open-${id}`, name, null, () => set({ open: store.now.open === id ? null : id }), { "aria-controls": id });
  const sheets = make("span", { class: "sheets" }, sheet("overview", "Heads"), sheet("reading", "Reading"));
  const status = make("footer", { id: "bottom" }, scale, legend, progress, notes, make("span", { class: "space" }), exact, sheets);
  const regions = { overview: make("aside", { id: "overview", "aria-label": "heads" }), reading: make("aside", { id: "reading", "aria-label": "reading" }) };
  app.root.replaceChildren(bar, regions.overview, centre, regions.reading, status, panel);

  /** The text with each of its tokens, to be pointed at; of long texts the title. */
  function type() {
    const { tokens, text } = app, { n, title } = text, { raw, special, offsets } = tokens, made = [];
    typed.className = n > 400 ? "long" : (tokens.text ?? title).length > 90 ? "some" : "";
    if (n > 400 || !raw.length) return void (typed.textContent = title || tokens.phrase(0, 80));
    const span = (at, text) => make("span", { data: { token: at }, text });
    let done = 0;
    if (!tokens.text) raw.forEach((_, at) => special.has(at) || made.push(tokens.space(at), span(at, tokens.bare(at))));
    else offsets.forEach(([from, to], at) => {
      if (to <= from || from < done) return;
      made.push(tokens.text.slice(done, from), span(at, tokens.text.slice(from, to)));
      done = to;
    });
    typed.replaceChildren(...made, tokens.text?.slice(done) ?? "");
  }
  const token = (event) => event.target.dataset?.token;
  typed.addEventListener("click", (event) => token(event) && app.chooseLine("row", Number(token(event)) - app.tokens.shift));
  typed.addEventListener("pointerover", (event) => {
    if (!token(event) || event.pointerType !== "mouse") return;
    const i = Number(token(event)) - app.tokens.shift, best = app.views.matrix.strongest(i);
    if (best) app.hover(best);
  });
  typed.addEventListener("pointerleave", () => app.hover(null));

  let last = "", timer = 0;
  const self = {
    hint, sentence, region: (id) => regions[id] ?? app.root.appendChild(make("div", { id })), stage: (name) => stages[name],
    show(state, changed) {
      const has = (...names) => !changed || names.some((name) => changed.has(name));
      texts.value = `${state.r}.${state.x}`;
      head.textContent = app.chosen ? headName(state.l, state.h) : "–";
      for (const [field, bar] of bars) {
        bar.choose(state[field]);
        (bar.id === field ? bar : bar.parentNode).hidden = (field === "of" && !app.layer.values) || (field === "unit" && !app.text.n_words);
      }
      turn.setAttribute("aria-pressed", String(state.turn));
      app.root.dataset.open = state.open ?? "";
      for (const tab of tabs.children) {
        tab.setAttribute("aria-selected", String(tab.dataset.view === state.view));
        stages[tab.dataset.view].hidden = tab.dataset.view !== state.view;
      }
      if (has("tokens", "r", "x")) {
        type();
        const { text, recording } = app, { heads, masked } = app.layer, { nQ: n_q, nK: n_k } = app.extent(), shape = n_q === n_k ? `${count(n_k)} ${state.unit}` : `${count(n_q)} queries × ${count(n_k)} keys`;
        meta.textContent = [...new Set([recording.model?.name ?? recording.model ?? recording.name, `${text.layers.length} × ${heads} heads`, shape, masked ? "reads what came before" : "reads both directions", ...(recording.notes ?? [])])].filter(Boolean).join(" · ");
        if (store.url) document.title = `${text.title} · Regard`;
      }
      for (const span of typed.children) {
        const at = Number(span.dataset.token) - app.tokens.shift;
        span.className = at === state.i ? "query" : Number(span.dataset.token) === state.j ? "key" : "";
      }
      const names = [...app.tokens.special].map((at) => app.tokens.key(at)).filter((name, at, all) => all.indexOf(name) === at).join(", ");
      title.textContent = state.minus ? `less ${state.minus}` : state.sinks === "without" && names ? `without ${names}; not the model's weights` : "";
      const label = app.chosen ? `weights of ${headName(state.l, state.h)}: arrows move, + and − zoom, Enter chooses a cell` : "";
      app.views.matrix?.above.setAttribute("aria-label", label);
      self.lead();
      if (app.chosen) self.legend();
    },
    /** The lesson is about the head that tells most: it stands with no other. */
    lead() {
      const lead = app.said?.telling?.[0];
      lesson.hidden = lead?.l !== app.state.l || lead?.h !== app.state.h;
    },
    /** The scale of colours with its ticks, one of them at the even spread. */
    legend() {
      const { colours } = app, { scale: of } = colours, { nK } = app.extent(), name = JSON.stringify([of, app.themeName, app.state.map, app.state.of, nK]);
      if (name === last) return;
      last = name;
      const line = Float32Array.from({ length: 256 }, (_, k) => (of.kind === "log" ? of.low * (of.high / of.low) ** (k / 255) : of.low + ((of.high - of.low) * k) / 255));
      Object.assign(strip, { width: 256, height: 1 });
      strip.getContext("2d").drawImage(painted({ values: line, rows: 1, columns: 256 }, colours), 0, 0);
      const shown = ticks(of), step = Math.ceil(shown.length / 5);
      const mark = (value, text, kind) => {
        const made = make("span", { class: kind, text });
        made.style.left = `${100 * place(of, value)}%`;
        return made;
      };
      marks.replaceChildren(...shown.map((value, k) => mark(value, (shown.length - 1 - k) % step ? "" : short(value), "tick")));
      const even = of.kind === "diverging" || app.state.of === "length" ? "" : `even spread ${short(1 / nK)}`;
      if (even) marks.append(mark(1 / nK, "", "even"));
      legend.setAttribute("aria-label", `colours from ${short(of.low)} to ${short(of.high)} ${even}`);
      legend.title = `${even && `${even} · `}change colours, scale and pooling  c`;
      [ends[0].value, ends[1].value] = [short(of.low), short(of.high)];
    },
    /** What a pixel is, how far loading is, and whether numbers are exact. */
    status() {
      const view = app.views[app.state.view], { series } = app, map = view?.matrix ?? view;
      if (!view || !series) return;
      let said = view.scale?.() ?? "";
      if (map.map?.width) {
        const [a, b] = map.levels(), { pool } = app.state, { q, k } = map.camera, [tall, wide] = [q, k].map((axis) => Math.round(1 / axis.zoom));
        said = a || b ? `1 px = ${count(2 ** a)} × ${count(2 ** b)} cells, ${pool}` : `1 cell = ${tall === wide ? tall : `${wide} × ${tall}`} px`;
      }
      if (scale.textContent !== said) scale.textContent = said;
      const what = map.sampled ? "sampled" : "exact";
      if (exact.textContent !== what) exact.textContent = what;
      const far = series.pending ? `first pass ${percent(series.pending.share ?? 0)}` : app.loading + app.tiles.running.size ? "loading" : "";
      if (progress.textContent !== far) progress.textContent = far;
    },
    /** The lesson and the cards of what the overview found. */
    cards(said) {
      const sorted = (text) => (text.title.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? []).sort().join(" ");
      const other = app.recording.texts.find((text) => text !== app.text && text.n === app.text.n && sorted(text) === sorted(app.text));
      const text = said.lesson?.replaceAll(" %", "\u00a0%") ?? "";
      lesson.replaceChildren(text);
      if (said.lesson && other) {
        const link = make("button", { class: "inline", data: { text: other.x }, text: `'${other.title}'`, on: { click: () => set({ x: other.x }) } });
        lesson.replaceChildren(`${text.replace(/\.$/, "")}, so try `, link, ".");
      }
      const found = (said.telling ?? []).slice(0, 3).map((head) => {
        const choose = () => (app.act("card"), app.begin(head, true)), { l, h } = head;
        const card = make("button", { class: "card", data: { head: `${l}.${h}` }, title: head.sentence || null, on: { click: choose } });
        card.append(make("b", { text: headName(l, h) }), ` ${head.name ? head.said : `brightest ${said.sampled && !head.exact ? "sampled " : ""}cell ${percent(head.weight ?? 0)}`}`);
        return card;
      });
      if (!found.length) found.push(make("p", { class: "card quiet", text: "no simple pattern" }));
      if (said.sinks) found.splice(2, 0, make("p", { class: "card quiet", text: said.sinks, title: said.sinks }));
      cards.replaceChildren(...found);
      self.lead();
    },
    noted(text) {
      notes.textContent = text;
      clearTimeout(timer);
      timer = setTimeout(() => (notes.textContent = ""), 5000);
    },
  };
  return self;
}
