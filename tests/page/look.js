// What tests read off the page: `look.name(…)`. It comes before the page's own code and changes nothing in it.
"use strict";

globalThis.look = (() => {
  const one = (selector) => document.querySelector(selector), all = (selector) => [...document.querySelectorAll(selector)];
  const matrix = () => regard.views.matrix;
  const channels = (text) => text.match(/[\d.]+/g).map(Number);
  const texts = (elements) => elements.map((element) => element.textContent);
  const seen = (element) => element.checkVisibility({ opacityProperty: true, visibilityProperty: true });
  const tick = () => new Promise((resolve) => setTimeout(resolve, 20));
  const base64 = (bytes) => btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));

  /** Lightness of a colour, and the contrast of two, as WCAG has them. */
  function light(colour) {
    const parts = colour.slice(0, 3).map((c) => ((c /= 255) <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
  }
  function contrast(a, b) {
    const [low, high] = [light(a), light(b)].sort((x, y) => x - y);
    return (high + 0.05) / (low + 0.05);
  }
  function behind(element) {
    for (; element; element = element.parentElement) {
      const colour = channels(getComputedStyle(element).backgroundColor);
      if ((colour[3] ?? 1) > 0.99) return colour;
    }
    return [255, 255, 255];
  }

  return {
    /** Nothing is loading and all is drawn. */
    async ready(most = 20000) {
      for (const end = performance.now() + most; !globalThis.regard?.chosen && performance.now() < end; ) await tick();
      await regard.idle(most);
    },
    /** As following a link does; the event that this makes comes later, unless the address says that already. */
    follow: (hash) => new Promise((done) => {
      addEventListener("hashchange", done, { once: true });
      if (location.hash !== `#${hash}`) location.hash = hash;
      else done(regard.store.restore(`#${hash}`));
    }),
    state: () => ({ ...regard.state }),
    flush: () => regard.store.flush(),
    levels: () => matrix().levels(),
    camera: () => Object.fromEntries(["q", "k"].map((name) => [name, (({ at, seen, zoom }) => ({ at, seen, zoom }))(matrix().camera[name])])),
    /** The middle of a cell in the window. */
    place(i, j) {
      const box = matrix().above.getBoundingClientRect(), { x, y } = matrix().where(i, j);
      return [box.x + x, box.y + y];
    },
    /** Colours of the matrix at places told in queries and keys. */
    pixels(cells) {
      const { map, size, camera, canvas } = matrix(), { q, k } = camera, { width, height } = canvas;
      const { data } = canvas.getContext("2d").getImageData(0, 0, width, height);
      return cells.map(([i, j]) => {
        const [across, down] = camera.turn ? [q.pixel(i), k.pixel(j)] : [k.pixel(j), q.pixel(i)];
        const [x, y] = [map.x + across, map.y + down].map((at) => Math.floor(at * size.ratio));
        return [...data.slice(4 * (y * width + x), 4 * (y * width + x) + 3)];
      });
    },
    /** A canvas: its width, its height and the bytes of its pixels. */
    sheet(selector) {
      const { width, height } = one(selector);
      return [width, height, base64(one(selector).getContext("2d").getImageData(0, 0, width, height).data)];
    },
    /** How much of a square about a cell is drawn on, above the matrix. */
    drawn(i, j, side) {
      const { above, size } = matrix(), { x, y } = matrix().where(i, j), from = [x - side, y - side].map((at) => at * size.ratio);
      const { data } = above.getContext("2d").getImageData(...from, 2 * side * size.ratio, 2 * side * size.ratio);
      return data.filter((_, at) => at % 4 === 3 && data[at] > 0).length / (data.length / 4);
    },
    texts: (selector) => texts(all(selector)),
    /** Which of some elements are cut, by themselves or by the window. */
    cut: (selector) => texts(all(selector).filter((x) => {
      const { left, right, top, bottom } = x.getBoundingClientRect(), around = x.parentElement.getBoundingClientRect();
      return x.scrollWidth > x.clientWidth + 1 || left < 0 || top < 0 || right > Math.min(innerWidth, around.right + 1) || bottom > innerHeight;
    })),
    titles: (selector) => all(selector).map((element) => element.title),
    data: (selector, name) => all(selector).map((element) => element.dataset[name]),
    papers: (selector) => all(selector).map((element) => channels(getComputedStyle(element).backgroundColor).slice(0, 3)),
    /** The tokens in the lists of the reading. */
    tops: () => all("#reading ol").map((list) => [...list.querySelectorAll("[data-at]")].map((line) => Number(line.dataset.at))),
    focused: () => document.activeElement.dataset.head ?? document.activeElement.id,
    /** [name, whether it can be seen that it has the focus] */
    ring() {
      const at = document.activeElement, style = getComputedStyle(at);
      const ring = style.outlineStyle !== "none" || style.boxShadow !== "none" || ["CANVAS", "BODY"].includes(at.tagName);
      return [at.id || at.dataset.head || at.dataset.value || at.textContent.slice(0, 20), ring];
    },
    /** What can be used and has no name to be read out. */
    nameless: () => all("button, select, input, [role=grid], [role=application], dialog, aside, nav").filter(seen)
      .filter((x) => !x.getAttribute("aria-label") && !x.getAttribute("aria-labelledby"))
      .filter((x) => !x.textContent.trim() && !x.title && !x.labels?.length).map((x) => x.outerHTML.slice(0, 120)),
    /** Text that is too faint on what lies behind it. */
    faint: (least) => all(".regard *").filter((x) => seen(x) && [...x.childNodes].some((part) => part.nodeType === 3 && part.data.trim()))
      .map((x) => [contrast(channels(getComputedStyle(x).color), behind(x)), x.id || x.className || x.tagName, x.textContent.slice(0, 20)])
      .filter(([ratio]) => ratio < least),
    /** Controls in the window that are smaller than a finger needs; links within a sentence may be. */
    small: (least) => all("button:not(.inline), select, [role=tab]").filter(seen)
      .map((x) => [x.getBoundingClientRect(), x.id || x.textContent])
      .filter(([box]) => box.width && box.right > 0 && box.left < innerWidth && Math.min(box.width, box.height) < least)
      .map(([{ width, height }, name]) => `${name} ${Math.round(width)} × ${Math.round(height)}`),
  };
})();
