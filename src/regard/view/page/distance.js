// By distance: rows are queries, columns how far back the key is, on a logarithmic axis, so that heads that look at the
// token before, at near ones or at the first are bands that can be read at any length.

import { Camera } from "./camera.js";
import { THEMES } from "./colour.js";
import { Labels, SANS } from "./labels.js";
import { painted } from "./profiles.js";
import { latest, surface } from "./surface.js";
import { count, digits, percent } from "./words.js";

export const name = "distance", title = "Distance";
const STEPS = [0, 1, 2, 3, 4, 5, 6].flatMap((power) => [1, 2, 5].map((m) => m * 10 ** power));
const ROUND = [...STEPS.map((step) => -step).reverse(), 0, ...STEPS]; // distances to write
const ROWS = 256, COLUMNS = 96, BELOW = 74, ABOVE = 48;

export function mount(element, app) {
  const labels = new Labels(), axis = new Camera().q, ask = latest(app);
  let found = null, cursor = null, map = { x: 0, y: ABOVE, width: 1, height: 1 };
  const sheet = surface(element, { id: "distance", tabindex: 0, role: "application", "aria-label": "weights by distance: arrow keys move, Enter chooses a cell" }, draw);

  /** The picture, and the share of all weight that each distance has. */
  async function fetch() {
    const params = { ...app.cellParams(), columns: COLUMNS }, { pool } = app.state;
    const both = await ask([params, pool], (signal) => Promise.all([
      app.source.distance({ ...params, rows: ROWS, pool }, signal), app.source.distance({ ...params, rows: 1, pool: "sum" }, signal),
    ]));
    if (!both) return;
    const [, { values }] = both, all = app.state.of === "length" ? values.reduce((a, b) => a + b, 0) : 1;
    found = { ...both[0], shares: values.map((share) => share / all) };
    sheet.redraw();
  }
  /** Queries of a row of the picture. */
  const queries = (y) => [y, y + 1].map((r) => Math.floor((r * app.extent().nQ) / found.rows));

  function draw(pen, width, height) {
    const colours = THEMES[app.themeName], left = width < 480 ? 76 : 132, { nQ } = app.extent();
    pen.fillStyle = colours.paper;
    pen.fillRect(0, 0, width, height);
    if (!found) return;
    map = { x: left, y: ABOVE, width: width - left - 16, height: height - ABOVE - BELOW };
    Object.assign(axis, { n: nQ, at: 0, room: map.height, zoom: nQ / map.height });
    labels.down(pen, { axis, x: map.x, y: map.y, width: left, colours }, app.tokens, true);
    pen.fillStyle = colours.hidden;
    pen.fillRect(map.x, map.y, map.width, map.height);
    pen.drawImage(painted(found, app.colours), map.x, map.y, map.width, map.height);
    const { edges, columns, shares } = found, wide = map.width / columns;
    pen.font = `12px ${SANS}`;
    pen.textAlign = "center";
    let past = -99;
    for (const distance of ROUND) { // one is written where it has its column
      const c = edges.findIndex((edge, k) => edge <= distance && distance < edges[k + 1]), x = map.x + (c + 0.5) * wide;
      if (c < 0 || x - past < 34) continue;
      past = x;
      pen.fillStyle = distance ? colours.key : colours.ink;
      pen.fillText(count(Math.abs(distance)), x, ABOVE - 9);
      pen.fillRect(Math.round(x), ABOVE - 5, 1, 4);
    }
    pen.textAlign = "left";
    pen.font = `600 12px ${SANS}`;
    pen.fillStyle = colours.key;
    pen.fillText(edges[0] < 0 ? "← key after · key before →" : "key so many before →", map.x, 14);
    pen.textAlign = "right";
    pen.fillStyle = colours.query;
    pen.fillText("query ↓", map.x - 8, ABOVE - 9);
    // What all queries give to each distance.
    const base = map.y + map.height + 10, most = shares.reduce((a, b) => (b > a ? b : a), 0);
    pen.fillStyle = colours.key;
    pen.globalAlpha = 0.72;
    shares.forEach((share, c) => share > 0 && pen.fillRect(map.x + c * wide, base, wide - (wide > 3), Math.max(1, (34 * share) / most)));
    pen.globalAlpha = 1;
    pen.font = `11px ${SANS}`;
    pen.fillStyle = colours.faint;
    pen.fillText(`largest ${percent(most)}`, map.x + map.width, base + 52);
    pen.textAlign = "left";
    pen.fillText(`share of all weight${found.sampled ? ` · sampled ${count(found.sampled)} of ${count(nQ)} queries` : ""}`, map.x, base + 52);
    pen.strokeStyle = colours.hatch;
    pen.strokeRect(map.x - 0.5, map.y - 0.5, map.width + 1, map.height + 1);
    if (!cursor) return;
    const tall = map.height / found.rows, [x, y] = [map.x + cursor.x * wide, map.y + cursor.y * tall];
    for (const [colour, ...box] of [[colours.query, map.x, y, map.width, tall], [colours.key, x, map.y, wide, map.height + 10 + 34]]) {
      pen.strokeStyle = colour;
      pen.strokeRect(...box.map((at, k) => Math.round(at) + (k < 2 ? -0.5 : 1)));
    }
  }
  function move(to) {
    cursor = to && { x: Math.max(0, Math.min(found.columns - 1, to.x)), y: Math.max(0, Math.min(found.rows - 1, to.y)) };
    sheet.redraw();
    if (!cursor) return;
    app.act("hover");
    const [first, end] = queries(cursor.y), [near, far] = [found.edges[cursor.x], found.edges[cursor.x + 1] - 1];
    const value = found.values[cursor.y * found.columns + cursor.x], share = found.shares[cursor.x];
    const one = end - first === 1, far2 = near < 0 ? -near : far, near2 = near < 0 ? -far : near;
    const where = near2 === 0 ? (one ? "itself" : "themselves") : `${far2 > near2 ? `keys ${count(near2)} to ${count(far2)}` : `the key ${count(near2)}`} ${near < 0 ? "after" : "before"} ${one ? "it" : "them"}`;
    const how = one && far === near ? "" : app.state.pool === "max" ? "at most " : "on average ";
    const who = one ? `'${app.tokens.query(first) ?? count(first)}' gives` : `Queries ${count(first)} to ${count(end - 1)} give`;
    app.say(`${value === -Infinity ? who.replace(/gives?$/, "cannot see") : `${who} ${how}${digits(value).replace(/^\./, "0.")} to`} ${where}. All queries together give ${percent(share)} of their weight to that distance.`);
  }
  const at = (event) => {
    const [x, y] = [(event.offsetX - map.x) / map.width, (event.offsetY - map.y) / map.height];
    return found && x >= 0 && x < 1 && y >= 0 && y < 1 ? { x: Math.floor(x * found.columns), y: Math.floor(y * found.rows) } : null;
  };
  /** Choose the brightest cell of a query at that distance: of several queries the middle one. */
  async function choose() {
    if (!cursor) return;
    const [first, end] = queries(cursor.y), i = (first + end - 1) >> 1, { nQ, nK } = app.extent(), late = app.layer.masked ? nK - nQ : 0;
    const values = await app.busy(app.source.row({ ...app.cellParams(), i })).catch(() => []), size = Math.ceil(nK / values.length);
    let best = -1;
    const [from, to] = [i + late - found.edges[cursor.x + 1] + 1, i + late - found.edges[cursor.x]];
    for (let j = Math.max(0, from); j <= Math.min(nK - 1, to); j++) if (best < 0 || values[Math.floor(j / size)] > values[Math.floor(best / size)]) best = j;
    if (best >= 0) app.choose(i, best);
  }
  sheet.canvas.addEventListener("pointermove", (event) => move(at(event)));
  sheet.canvas.addEventListener("pointerleave", () => move(null));
  sheet.canvas.addEventListener("click", (event) => (move(at(event)), choose()));
  sheet.canvas.addEventListener("keydown", (event) => {
    const [x, y] = { ArrowUp: [0, -1], ArrowDown: [0, 1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] }[event.key] ?? [0, 0];
    if (event.key === "Enter") choose();
    else if (found && (x || y)) move({ x: (cursor?.x ?? 0) + x, y: (cursor?.y ?? 0) + y });
    else return;
    event.preventDefault();
  });
  return {
    show() {
      labels.clear();
      fetch();
      sheet.redraw();
    },
    hide() {},
    get sampled() {
      return found?.sampled;
    },
    scale() {
      const each = found ? Math.ceil(app.extent().nQ / found.rows) : 1;
      return each > 1 ? `1 row = ${count(each)} queries, ${app.state.pool}` : "1 row = 1 query";
    },
  };
}
