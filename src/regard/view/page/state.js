// What is looked at, in one object: subscribe to it, change it with set(), and find it in the URL's hash.
// Continuous changes replace the entry of the history; acts (a head, a view, a pinned cell) make a new one, so that
// Back undoes them.

// name: [its letter in the URL, what it is without being told]. null means "as it comes".
const FIELDS = {
  r: ["r", 0], x: ["x", 0], l: ["l", null], h: ["h", null], view: ["view", "matrix"],
  i: ["i", null], j: ["j", null], pinned: ["pin", false],
  top: ["top", 0], left: ["left", 0], zoomA: ["za", null], zoomB: ["zb", null], // cells per pixel; null: all of it
  pool: ["pool", "max"], of: ["of", "weight"], unit: ["unit", "tokens"], turn: ["turn", false],
  map: ["map", "regard"], scale: ["scale", "auto"], range: ["range", null], sinks: ["sinks", "dim"],
  minus: ["minus", null], theme: ["theme", "auto"], open: ["open", null], mode: ["mode", null],
};
const KINDS = {
  view: /^[a-z]{1,12}$/, pool: /^(max|mean)$/, of: /^(weight|length)$/, unit: /^(tokens|words)$/, map: /^[a-z]{1,12}$/,
  scale: /^(auto|linear|log)$/, sinks: /^(show|dim|without)$/, theme: /^(auto|light|dark)$/, minus: /^\d+(\.\d+){3}$/,
  open: /^[a-z]{1,12}$/, mode: /^[a-z-]{1,24}$/,
};
const FLAGS = ["pinned", "turn"], REAL = ["top", "left", "zoomA", "zoomB"];

function parse(name, text) {
  if (name === "range") {
    const ends = text.split(",").map(Number);
    return ends.length === 2 && ends.every(Number.isFinite) && ends[0] < ends[1] ? ends : null;
  }
  if (FLAGS.includes(name)) return text === "1";
  if (KINDS[name]) return KINDS[name].test(text) ? text : FIELDS[name][1];
  const value = Number(text);
  const fine = REAL.includes(name) ? Number.isFinite(value) && value >= 0 : /^\d{1,12}$/.test(text);
  return fine ? value : FIELDS[name][1];
}

/** The state that a hash tells. What cannot be read is as it comes. */
export function fromHash(hash) {
  const said = new URLSearchParams(hash.replace(/^#/, "")), state = {};
  for (const [name, [letter, usual]] of Object.entries(FIELDS)) {
    state[name] = said.has(letter) ? parse(name, said.get(letter)) : usual;
  }
  return state;
}

/** The hash of a state: what is not as it comes. */
export function toHash(state) {
  const said = [];
  for (const [name, [letter, usual]] of Object.entries(FIELDS)) {
    let value = state[name];
    if (value === usual || value === null || value === undefined || (REAL.includes(name) && value === 0)) continue;
    if (FLAGS.includes(name)) value = "1";
    else if (REAL.includes(name)) value = Number(value.toPrecision(8));
    said.push(`${letter}=${encodeURIComponent(value).replaceAll("%2C", ",")}`);
  }
  return said.join("&");
}

/** The state of one page. Without `url` (in a notebook) the history is its own. */
export class State {
  constructor({ url = true, first = "" } = {}) {
    this.url = url;
    this.now = fromHash(url ? location.hash : first);
    this.past = [];
    this.listeners = new Set();
    this.timer = 0;
    if (url) {
      addEventListener("popstate", () => this.restore(location.hash));
      addEventListener("hashchange", () => this.restore(location.hash));
    }
  }
  subscribe(listener) {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }
  /** Change some fields; `act` makes an entry of the history. Returns whether anything changed. */
  set(patch, { act = false } = {}) {
    const changed = Object.keys(patch).filter((name) => String(this.now[name]) !== String(patch[name]));
    if (!changed.length) return false;
    if (act) this.flush();
    if (act && !this.url) this.past.push(toHash(this.now));
    Object.assign(this.now, patch);
    if (act) {
      if (this.url) history.pushState({ depth: (history.state?.depth ?? 0) + 1 }, "", `#${toHash(this.now)}`);
    } else if (this.url && !this.timer) {
      this.timer = setTimeout(() => this.flush(), 250); // browsers limit how often the URL may change
    }
    this.tell(changed);
    return true;
  }
  flush() {
    clearTimeout(this.timer);
    this.timer = 0;
    if (this.url) history.replaceState(history.state, "", `#${toHash(this.now)}`);
  }
  tell(changed) {
    const names = new Set(changed);
    for (const listener of this.listeners) listener(this.now, names);
  }
  restore(hash) {
    const state = fromHash(hash);
    const changed = Object.keys(FIELDS).filter((name) => String(this.now[name]) !== String(state[name]));
    clearTimeout(this.timer);
    this.timer = 0;
    Object.assign(this.now, state);
    if (changed.length) this.tell(changed);
  }
  /** Undo the last act, if there was one. */
  back() {
    if (!this.url && this.past.length) this.restore(this.past.pop());
    if (this.url && history.state?.depth > 0) history.back();
  }
}
