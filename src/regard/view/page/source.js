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
  /** {rows, columns, values, …}, or {pending: {state, share}} while the first pass of a long head is not done. */
  async picture(path, params, signal) {
    const { values, head, pending } = await this.ask(path, params, signal);
    return pending ? { pending } : { ...head, values };
  }
  async values(path, params, signal) {
    return (await this.ask(path, params, signal)).values;
  }
  skyline(params, signal) {
    return this.ask("skyline", params, signal);
  }
  /** {lines: [first, second], size}, a number for each `size` cells, or null while there is no pass yet. */
  async profile(params, signal) {
    const { values, head } = await this.ask("profile", params, signal);
    return values ? { lines: [values.subarray(0, values.length / 2), values.subarray(values.length / 2)], size: head.size ?? 1 } : null;
  }
  /** The address of a download, or null where there is none. */
  link(_path, _params) {
    return null;
  }
}

// The others are asked by their names: source.cell(params, signal).
for (const [kind, names] of Object.entries({
  json: ["about", "tokens", "overview", "cell", "arcs", "search", "steps", "designed", "compare", "base"],
  picture: ["tile", "thumbs", "distance"],
  values: ["row", "column"],
})) {
  for (const name of names) {
    Source.prototype[name] = function (params = {}, signal = undefined) {
      return this[kind](name, params, signal);
    };
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
