// Numbers, tokens and heads as they are written in sentences, labels and tables; the same as in the terminal.

const SIGNS = { " ": "·", "\n": "↵", "\r": "↵", "\t": "⇥", "\x7f": "␡" };
const UNSEEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Zl}\p{Zp}]/u;

/** A token that can be shown: a space is ·, a new line is ↵, and nothing in it can turn a line around. */
export function clean(token) {
  let shown = "";
  for (const c of String(token).normalize("NFC")) {
    if (SIGNS[c]) shown += SIGNS[c];
    else if (c < " ") shown += String.fromCodePoint(0x2400 + c.codePointAt(0));
    else if (c === "\u200c" || c === "\u200d") continue;
    else shown += UNSEEN.test(c) ? `⟨${c.codePointAt(0).toString(16).toUpperCase()}⟩` : c;
  }
  return shown || "∅";
}

/** Text cut to so many letters, the cut marked. */
export function clip(text, most) {
  const letters = [...text];
  return letters.length <= most ? text : letters.slice(0, most - 1).join("") + "…";
}

/** A share in a sentence: never 0 %, and 100 % only if nothing is left. */
export function percent(share) {
  if (!(share >= 0.001)) return "< 0.1 %";
  if (share >= 1) return "100 %";
  if (share > 0.999) return "> 99.9 %";
  return share < 0.0095 || share >= 0.995 ? `${(100 * share).toFixed(1)} %` : `${(100 * share).toFixed(0)} %`;
}

/** A weight or a score in a table: 0.812, and 3.1e-5 under 0.001. */
export function number(x) {
  if (Number.isNaN(x)) return "NaN";
  if (x === -Infinity) return "hidden";
  if (x === Infinity) return "inf";
  if (x === 0) return "0";
  const size = Math.abs(x);
  const said = size < 0.001 ? x.toExponential(1).replace("e+", "e") : size < 100 ? x.toFixed(3) : x.toFixed(1);
  return said.replace("-", size < 0.001 && x > 0 ? "-" : "−");
}

/** A number in as few digits as tell it, for the ticks of a scale. */
export function short(x) {
  const said = Math.abs(x) < 0.001 && x ? x.toExponential(1).replace(".0e", "e") : String(+x.toPrecision(3));
  return x < 0 ? said.replace("-", "−") : said;
}

/** The number inside a cell: two digits that matter. */
export function digits(x) {
  if (Number.isNaN(x)) return "NaN";
  if (x === -Infinity) return "";
  if (x === 0) return "0";
  const size = Math.abs(x);
  if (size < 0.00095) return x.toExponential(0);
  return (size < 0.00995 ? x.toFixed(3) : x.toFixed(2)).replace(/^(-?)0\./, "$1.").replace("-", "−");
}

/** A large number in groups of three. */
export function count(n) {
  return n < 10000 ? String(n) : String(n).replace(/\B(?=(\d{3})+$)/g, "\u202f");
}

export const headName = (l, h) => `L${l}H${h}`;
