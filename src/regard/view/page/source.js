// Where numbers come from. A source answers the same questions over HTTP, in a notebook and in an exported file; only
// `ask(path, params, signal)` differs: it resolves to {json}, {values: Float32Array, head: {…}} or {pending: {…}}.

/** An answer that is an error, with one sentence. */
export class Refused extends Error {
  constructor(sentence, status = 0) {
    super(sentence);
    this.status = status;
  }
}

export class Source {
  /** @returns {Promise<{json?: any, values?: Float32Array, head?: any, pending?: any}>} */
  ask(_path, _params, _signal) {
    throw new Error("a source has to answer");
  }
  async json(path, params, signal) {
    return (await this.ask(path, params, signal)).json;
  }
  about() {
    return this.json("about", {});
  }
  tokens(params, signal) {
    return this.json("tokens", params, signal);
  }
  overview(text, signal) {
    return this.json("overview", text, signal);
  }
  /** {rows, columns, values} or {pending: {state, share}} while the first pass of a long head is not done. */
  async tile(params, signal) {
    const { values, head, pending } = await this.ask("tile", params, signal);
    return pending ? { pending } : { ...head, values };
  }
  async thumbs(params, signal) {
    const { values, head, pending } = await this.ask("thumbs", params, signal);
    return pending ? { pending } : { ...head, values };
  }
  cell(params, signal) {
    return this.json("cell", params, signal);
  }
  async row(params, signal) {
    return (await this.ask("row", params, signal)).values;
  }
  async column(params, signal) {
    return (await this.ask("column", params, signal)).values;
  }
  /** {lines: [first, second], size}, a number for each `size` cells, or null while there is no pass yet. */
  async profile(params, signal) {
    const { values, head } = await this.ask("profile", params, signal);
    return values ? { lines: [values.subarray(0, values.length / 2), values.subarray(values.length / 2)], size: head.size ?? 1 } : null;
  }
  async distance(params, signal) {
    const { values, head, pending } = await this.ask("distance", params, signal);
    return pending ? { pending } : { ...head, values };
  }
  skyline(params, signal) {
    return this.ask("skyline", params, signal);
  }
  arcs(params, signal) {
    return this.json("arcs", params, signal);
  }
  search(params, signal) {
    return this.json("search", params, signal);
  }
  steps(params, signal) {
    return this.json("steps", params, signal);
  }
  designed(params, signal) {
    return this.json("designed", params, signal);
  }
  compare(params, signal) {
    return this.json("compare", params, signal);
  }
  base(head, signal) {
    return this.json("base", head, signal);
  }
  /** The address of a download, or null where there is none. */
  link(_path, _params) {
    return null;
  }
}

const given = (params) => Object.entries(params).filter(([, value]) => value !== null && value !== undefined && value !== "");

/** The server that the page came from. */
export class HttpSource extends Source {
  constructor(root = "api/") {
    super();
    this.root = root;
  }
  link(path, params) {
    return `${this.root}${path}?${new URLSearchParams(given(params))}`;
  }
  async ask(path, params, signal) {
    let answer;
    for (let wait = 40; ; wait *= 2) {
      answer = await fetch(this.link(path, params), { signal, credentials: "omit" }).catch((problem) => {
        throw problem.name === "AbortError" ? problem : new Refused("The server no longer answers: start regard view again.");
      });
      if (answer.status !== 429 || wait > 2000) break; // too many at once: a little later
      await new Promise((resolve) => setTimeout(resolve, wait * (1 + Math.random())));
      signal?.throwIfAborted();
    }
    if (answer.status === 202) return { pending: await answer.json() };
    if (!answer.ok) {
      const said = await answer.json().catch(() => ({}));
      throw new Refused(said.error ?? `The server answered ${answer.status}.`, answer.status);
    }
    if ((answer.headers.get("content-type") ?? "").startsWith("application/json")) return { json: await answer.json() };
    const head = JSON.parse(answer.headers.get("x-regard") ?? "{}");
    return { values: new Float32Array(await answer.arrayBuffer()), head };
  }
}
