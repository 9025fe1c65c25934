// Elements in one call. Text goes in as text, never as markup.

/** make("button", {id, class, text, title, data: {…}, on: {click}, …attributes}, ...children) */
export function make(tag, options = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(options)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "text") element.textContent = value;
    else if (name === "on") for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
    else if (name === "data") Object.assign(element.dataset, value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/** A bar of choices of which one is pressed: choose(value) tells which. */
export function segments(id, label, choices, pick) {
  const bar = make("div", { id, class: "segments", role: "group", "aria-label": label });
  for (const [value, text, title] of choices) {
    bar.append(make("button", { text, title, data: { value }, on: { click: () => pick(value) } }));
  }
  bar.choose = (chosen) => {
    for (const button of bar.children) button.setAttribute("aria-pressed", String(button.dataset.value === String(chosen)));
  };
  return bar;
}
