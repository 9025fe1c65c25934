// The other places that numbers come from: the kernel of a notebook, and what an exported file holds.

import { Refused, Source } from "./source.js";
import { clean, headName, percent } from "./words.js";

/** A notebook: questions and answers are messages, numbers their buffers. */
export class MessageSource extends Source {
  constructor(model) {
    super();
    Object.assign(this, { model, waiting: new Map(), mine: Math.random().toString(36).slice(2), count: 0 });
    model.on("msg:custom", (said, buffers) => {
      this.waiting.get(said.id)?.(said, buffers);
      this.waiting.delete(said.id);
    });
  }
  ask(path, params, signal) {
    return new Promise((resolve, reject) => {
      signal?.throwIfAborted();
      const id = `${this.mine}.${this.count++}`;
      this.waiting.set(id, ({ error, status, head, ...said }, [buffer] = []) => {
        if (error) reject(new Refused(error, status));
        else resolve(head ? { head, values: new Float32Array(buffer.buffer.slice(buffer.byteOffset, buffer.byteOffset + buffer.byteLength)) } : said);
      });
      signal?.addEventListener("abort", () => {
        if (this.waiting.delete(id)) this.model.send({ cancel: id });
        reject(signal.reason);
      });
      this.model.send({ id, path, params: Object.fromEntries(Object.entries(params).filter(([, value]) => value !== null && value !== "")) });
    });
  }
  /** A whole page as one file. */
  async file(params) {
    return (await this.json("export", params)).file;
  }
}

const floats = (text) => new Float32Array(Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)).buffer);
/** [place, token, value] of the largest of a line. */
const largest = (values, names, most) => [...values.keys()].filter((k) => values[k] > -Infinity).sort((a, b) => values[b] - values[a] || a - b).slice(0, most).map((k) => [k, names[k] ?? "", values[k]]);
const entropy = (values) => -values.reduce((sum, w) => (w > 0 ? sum + w * Math.log(w) : sum), 0);
const highest = (values) => values.reduce((a, b) => (b > a ? b : a), -Infinity);

/** An exported file: whole heads, from which all is computed here, and answers that were given when it was made. */
export class EmbeddedSource extends Source {
  constructor(data) {
    super();
    Object.assign(this, { data, heads: new Map() });
  }
  async ask(path, params) {
    const { answers, left } = this.data, { l, h, axis, i, j, bins } = params, name = path === "distance" && params.pool === "sum" ? "shares" : path;
    const key = [name, ...(path === "steps" ? [l, h] : [l, h, axis, i, j])].filter((part) => part !== undefined).join(".");
    const found = this[`$${path}`]?.(params) ?? (params.of || params.without || params.minus || params.unit ? undefined : answers[key]);
    if (found === undefined) throw new Refused(left);
    if (typeof found.values !== "string") return found;
    found.read ??= floats(found.values);
    return path === "row" || path === "column" ? this.binned(found.read, bins) : { ...found, values: found.read };
  }
  /** A whole head: {n_q, n_k, at(i, j), row(i), column(j)}, or undefined. */
  head({ l, h, of, without, minus, unit }) {
    if (without || unit === "words") throw new Refused(this.data.left);
    const name = [l, h, of, minus].join(), { n_q, n_k } = this.data.answers.about.json.recordings[0].texts[0].layers.find((layer) => layer.l === l);
    if (this.heads.has(name)) return this.heads.get(name);
    const held = this.data.heads[`${l}.${h}`], weights = held && floats(held.values), lengths = of === "length" && held ? floats(held.lengths) : null;
    const less = minus && this.head({ l: Number(minus.split(".")[2]), h: Number(minus.split(".")[3]), of });
    if (!weights || (minus && !less)) return undefined;
    const values = weights.map((w, k) => (w > 0 && lengths ? w * lengths[k % n_k] : w) - (less && w > -Infinity ? less.values[k] : 0));
    const row = (i) => values.subarray(i * n_k, (i + 1) * n_k), column = (j) => Float32Array.from({ length: n_q }, (_, i) => values[i * n_k + j]);
    this.heads.set(name, { n_q, n_k, values, row, column });
    return this.heads.get(name);
  }
  get names() {
    return this.data.answers.tokens.json.tokens;
  }
  $tokens({ from, count }) {
    const { json } = this.data.answers.tokens, part = (list) => list?.slice(from, from + count);
    return { json: { ...json, from, tokens: part(json.tokens), key_tokens: part(json.key_tokens), offsets: part(json.offsets), special: json.special.filter((at) => at >= from && at < from + count) } };
  }
  binned(values, bins = Infinity) {
    const size = Math.ceil(values.length / bins) || 1;
    return { head: { size, n: values.length }, values: size === 1 ? values : Float32Array.from({ length: Math.ceil(values.length / size) }, (_, k) => highest(values.subarray(k * size, (k + 1) * size))) };
  }
  $tile(params) {
    const { l, h, a, b, i, j, pool, minus } = params, found = this.head(params), [tall, wide] = [2 ** a, 2 ** b];
    if (!found) {
      const name = [l, h, a, b, i, j].join("."), piece = !minus && !params.of && this.data.tiles[name];
      return piece ? { head: piece.head, values: (piece.read ??= floats(piece.values)) } : undefined;
    }
    const { n_q, n_k, values } = found, rows = Math.min(256, Math.ceil(n_q / tall) - 256 * i), columns = Math.min(256, Math.ceil(n_k / wide) - 256 * j), made = new Float32Array(rows * columns);
    for (let r = 0; r < rows; r++) for (let c = 0; c < columns; c++) {
      let [most, sum, seen] = [-Infinity, 0, 0];
      for (let y = (256 * i + r) * tall; y < Math.min(n_q, (256 * i + r + 1) * tall); y++) for (let x = (256 * j + c) * wide; x < Math.min(n_k, (256 * j + c + 1) * wide); x++) {
        const value = values[y * n_k + x];
        if (value === -Infinity) continue;
        [sum, seen] = [sum + value, seen + 1];
        if (!(Math.abs(value) <= Math.abs(most)) || most === -Infinity) most = value;
      }
      made[r * columns + c] = pool === "mean" && seen && !minus ? sum / seen : most;
    }
    return { head: { rows, columns }, values: made };
  }
  $row(params) {
    const found = this.head(params);
    return found && this.binned(found.row(params.i), params.bins);
  }
  $column(params) {
    const found = this.head(params);
    return found && this.binned(found.column(params.j), params.bins);
  }
  $skyline(params) {
    const found = this.head(params);
    return found && this.binned(params.i === undefined ? Float32Array.from({ length: found.n_k }, (_, j) => highest(found.column(j))) : found.row(params.i), params.bins);
  }
  $profile(params) {
    const found = this.head(params), rows = params.axis === "rows";
    if (!found) return undefined;
    const lines = Array.from({ length: rows ? found.n_q : found.n_k }, (_, k) => (rows ? found.row(k) : found.column(k)).filter((w) => w > -Infinity));
    const mean = (line) => line.reduce((a, b) => a + b, 0) / line.length;
    return { head: {}, values: Float32Array.from([...lines.map(rows ? highest : mean), ...lines.map(rows ? entropy : highest)]) };
  }
  $arcs(params) {
    const found = this.head(params), { i, top } = params;
    return found && { json: { i, j: i + found.n_k - found.n_q, looks_at: largest(found.row(i), this.names, top), looked_at_by: largest(found.column(i + found.n_k - found.n_q), this.names.slice(found.n_k - found.n_q), top) } };
  }
  $cell(params) {
    const found = this.head(params), { l, h, i, j, of } = params, { names } = this;
    if (!found) return undefined;
    const row = found.row(i), seen = row.filter((w) => w > -Infinity), late = found.n_k - found.n_q, weight = row[j], hidden = weight === -Infinity, even = 1 / seen.length;
    const name = (k) => `'${clean(names[k] ?? k)}'${names.indexOf(names[k]) !== names.lastIndexOf(names[k]) ? ` at ${k}` : ""}`, key = j === i + late ? "itself" : name(j), given = this.head({ l, h }).row(i)[j], times = given / even;
    let sentence = this.data.heads[`${l}.${h}`].said[`${i}.${j}`] ?? `${name(i + late)} gives ${percent(given)} of its attention in ${headName(l, h)} to ${key}, ${times < 0.1 ? "less than 0.1" : times.toFixed(times < 9.95 ? 1 : 0)} times an even spread over ${seen.length} tokens.`;
    if (hidden) sentence = `${name(i + late)} cannot see ${key} in ${headName(l, h)}: it is masked.`;
    else if (seen.length === 1) sentence = `${name(i + late)} sees only ${key}, so 100 % says nothing.`;
    const heads = of ? [] : Object.keys(this.data.heads).map((head) => head.split(".").map(Number)).filter(([layer, k]) => this.head({ l: layer, h: k })?.values.length === found.values.length).map(([layer, k]) => [layer, k, this.head({ l: layer, h: k }).row(i)[j]]);
    return { json: { sentence, weight: hidden ? null : weight, nan: Number.isNaN(weight), even, times: hidden || of ? null : times, effective: of ? null : Math.exp(entropy(seen)), visible: seen.length, hidden,
      row_top: largest(row, names, 5), column_top: largest(found.column(j), names.slice(late), 5), heads: heads.map(([layer, k, w]) => [layer, k, w === -Infinity ? null : w]), caution: this.data.caution } };
  }
  $compare({ minus, ...params }) {
    const one = this.head(params), other = this.head({ l: Number(minus.split(".")[2]), h: Number(minus.split(".")[3]) });
    if (!one || !other) return undefined;
    const part = (a, m) => (a > 0 ? a * Math.log(a / m) : 0);
    const rows = Array.from({ length: one.n_q }, (_, i) => Math.sqrt(Math.max(0, one.row(i).reduce((sum, a, j) => {
      const [p, q] = [Math.max(0, a), Math.max(0, other.row(i)[j])];
      return sum + (part(p, (p + q) / 2) + part(q, (p + q) / 2)) / 2;
    }, 0))));
    return { json: { distance: rows.reduce((a, b) => a + b, 0) / rows.length, rows, same_tokens: true, sampled: 0 } };
  }
  $search({ q, from = 0 }) {
    const { names } = this, said = names.map(clean), hits = [...said.keys()].filter((k) => said[k].toLowerCase().includes(q.toLowerCase()));
    return { json: { total: hits.length, hits: hits.slice(from, from + 200).map((k) => [k, names[k], `${said.slice(Math.max(0, k - 8), k).join(" ")} `, ` ${said.slice(k + 1, k + 9).join(" ")}`]) } };
  }
  /** A head by hand has been asked for with a strength of 1, and its scores grow with it. */
  $designed({ name, strength }) {
    const { tokens, ...of } = this.data.answers[`designed.${name}`].json, [scores, scaled] = [of.scores, of.scaled].map((rows) => rows.map((row) => row.map((x) => x * strength)));
    const weights = scaled.map((row) => row.map((x) => Math.exp(x) / row.reduce((sum, y) => sum + Math.exp(y), 0)));
    return { json: { tokens, scores, scaled, weights } };
  }
  $base() {
    return { json: { state: "done", share: 1 } };
  }
}
