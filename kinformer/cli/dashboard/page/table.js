// A table of one resource. Only the rows that can be seen are elements; the others are a number of pixels.

import { age, element, meaning, number } from "./words.js";

const HEIGHT = 34;      // pixels a row, as in style.css
const SPARE = 8;        // rows beyond the edges, for scrolling
const calm = matchMedia("(prefers-reduced-motion: reduce)");

// Least width in rem, share of what is left, and how soon a column goes where there is no room: the highest first.
const WIDTHS = {
  NAME: [13, 3, 0], STATUS: [10.5, 1.1, 1], AGE: [4.4, 0.5, 2], READY: [4.6, 0.5, 3], NAMESPACE: [7.5, 1.1, 4], NODE: [7.5, 1.2, 5],
  RESTARTS: [6, 0.7, 7], DATA: [4.4, 0.5, 4], TYPE: [7, 1, 4], MESSAGE: [16, 3, 3],
};
const OTHER = [7, 1, 6];

export class Table {
  constructor(store, filter, open) {
    Object.assign(this, { store, filter, open });
    this.scroll = document.getElementById("scroll");
    this.head = document.getElementById("head");
    this.body = document.getElementById("body");
    this.nothing = document.getElementById("nothing");
    this.title = document.getElementById("title");
    this.counted = document.getElementById("count");
    this.resource = "";
    this.list = [];
    this.pool = [];
    this.selected = "";
    this.sort = { column: "NAME", up: true };
    this.painting = 0;
    this.scroll.addEventListener("scroll", () => this.paint(), { passive: true });
    new ResizeObserver(() => { if (this.resource) { this.layOut(); this.paint(); } }).observe(this.scroll);
    setInterval(() => { if (this.resource && !document.hidden) this.paint(); }, 1000);  // ages grow
  }

  show(resource) {
    if (this.resource === resource) return;
    this.resource = resource;
    this.columns = "";
    this.sort = { column: "NAME", up: true };
    this.selected = "";
    this.scroll.scrollTop = 0;
    this.rebuild();
  }

  hide() {
    this.resource = "";
  }

  layOut() {
    const about = this.store.about(this.resource);
    const names = this.fitting(["NAME", ...(about?.namespaced === false ? [] : ["NAMESPACE"]), ...(about?.columns ?? []), "AGE"]);
    this.told = about?.error ?? about?.synced;
    const signature = `${this.resource} ${names.join()} ${this.sort.column} ${this.sort.up}`;
    if (this.columns === signature) return;
    this.columns = signature;
    this.names = names;
    this.values = names.map((name) => this.value(name));
    const widths = names.map((name) => {
      const [least, share] = WIDTHS[name] ?? OTHER;
      return [name === "NAME" ? Math.min(least, 9) : least, share];
    });
    this.scroll.style.setProperty("--columns", widths.map(([least, share]) => `minmax(${least}rem, ${share}fr)`).join(" "));
    this.scroll.style.setProperty("--least", `${widths.reduce((sum, [least]) => sum + least, 1)}rem`);
    this.head.replaceChildren(...names.map((name) => element("button", {
      class: "cell", type: "button", role: "columnheader", "data-column": name,
      "aria-sort": name === this.sort.column ? (this.sort.up ? "ascending" : "descending") : "none",
      onclick: () => this.sortBy(name),
    }, name.charAt(0) + name.slice(1).toLowerCase())));
    for (const row of this.pool) row.remove();
    this.pool = [];
  }

  // The columns that there is room for.
  fitting(names) {
    const rem = parseFloat(getComputedStyle(document.documentElement).fontSize), left = [...names];
    const width = () => left.reduce((sum, name) => sum + (WIDTHS[name] ?? OTHER)[0], 1) * rem;
    while (left.length > 2 && this.scroll.clientWidth && width() > this.scroll.clientWidth) {
      const rank = (name) => (WIDTHS[name] ?? OTHER)[2];
      const least = left.reduce((worst, name) => (rank(name) >= rank(worst) ? name : worst));
      left.splice(left.indexOf(least), 1);
    }
    return left;
  }

  value(name) {
    if (name === "NAME") return (row) => row.name;
    if (name === "NAMESPACE") return (row) => row.ns;
    if (name === "AGE") return (row) => row.t;
    const place = this.store.about(this.resource)?.columns.indexOf(name) ?? -1;
    return (row) => row.c[place] ?? "";
  }

  sortBy(name) {
    this.sort = { column: name, up: this.sort.column === name ? !this.sort.up : true };
    this.rebuild();
  }

  rebuild() {
    if (!this.resource) return;
    this.layOut();
    const rows = this.store.rows.get(this.resource) ?? new Map();
    const list = [];
    for (const row of rows.values()) if (this.filter.matches(row)) list.push(row);
    list.sort(this.order());
    this.list = list;
    this.body.style.height = `${list.length * HEIGHT}px`;
    const about = this.store.about(this.resource);
    this.title.textContent = about ? plural(about) : this.resource;
    this.counted.textContent = list.length === rows.size
      ? number.format(rows.size) : `${number.format(list.length)} of ${number.format(rows.size)}`;
    this.nothing.hidden = list.length > 0;
    this.nothing.textContent = rows.size
      ? "Nothing matches the filter." : about && !about.synced ? about.error ?? "The first list has not come yet." : "There are none.";
    this.paint();
  }

  // By the chosen column, also while there is no room for it.
  order() {
    const { column, up } = this.sort, sign = up ? 1 : -1;
    const byName = (a, b) => (a.k < b.k ? -1 : a.k > b.k ? 1 : 0);
    const value = this.value(column);
    if (column === "AGE") return (a, b) => sign * (b.t - a.t) || byName(a, b);
    return (a, b) => {
      const x = value(a), y = value(b);
      if (x === y) return byName(a, b);
      const p = parseFloat(x), q = parseFloat(y);
      return sign * (p - q || (x < y ? -1 : 1));
    };
  }

  paint() {
    if (this.painting || !this.resource) return;
    this.painting = requestAnimationFrame(() => { this.painting = 0; this.draw(); });
  }

  draw() {
    if (!this.names) return;
    const top = this.scroll.scrollTop, height = this.scroll.clientHeight;
    const first = Math.max(0, Math.floor(top / HEIGHT) - SPARE);
    const last = Math.min(this.list.length, Math.ceil((top + height) / HEIGHT) + SPARE);
    while (this.pool.length < last - first) this.pool.push(this.body.appendChild(this.blank()));
    const now = Date.now() / 1000, moment = performance.now();
    for (let place = 0; place < this.pool.length; place += 1) {
      // Each row keeps its element while it scrolls by: which one depends on its place alone.
      const at = first + ((place - first) % this.pool.length + this.pool.length) % this.pool.length;
      this.fill(this.pool[place], at < last ? this.list[at] : null, at, now, moment);
    }
  }

  blank() {
    const row = element("div", { class: "row", role: "row", onclick: (event) => this.choose(event.currentTarget.row?.k, true) });
    row.cells = this.names.map((name) => row.appendChild(element("span", { class: "cell", role: "cell", "data-column": name })));
    return row;
  }

  fill(made, row, at, now, moment) {
    if (!row) {
      if (made.row) { made.hidden = true; made.row = null; }
      return;
    }
    const aged = made.cells[this.names.indexOf("AGE")];
    if (made.at !== at) { made.at = at; made.style.transform = `translateY(${at * HEIGHT}px)`; }
    if (made.row !== row) {
      const known = made.row?.k === row.k;
      made.row = row;
      made.hidden = false;
      made.title = row.k;
      for (let place = 0; place < this.names.length; place += 1) {
        if (this.names[place] === "AGE") continue;
        const cell = made.cells[place], word = this.values[place](row);
        if (text(cell, word) && known && !calm.matches) flash(cell);
        const kind = this.names[place] === "STATUS" ? `cell status ${meaning(word)}` : "cell";
        if (cell.className !== kind) cell.className = kind;
      }
      if (!known && row.at && moment - row.at < 100 && !calm.matches) flash(made);
    }
    if (aged) text(aged, row.t ? age(now - row.t) : "");
    made.classList.toggle("selected", row.k === this.selected);
  }

  choose(key, open) {
    if (!key) return;
    this.selected = key;
    this.paint();
    if (open) this.open(this.resource, key);
  }

  move(by) {
    if (!this.list.length) return;
    const at = this.list.findIndex((row) => row.k === this.selected);
    const next = Math.min(this.list.length - 1, Math.max(0, at < 0 ? 0 : at + by));
    this.selected = this.list[next].k;
    const top = next * HEIGHT, bottom = top + 2 * HEIGHT, view = this.scroll;
    if (top < view.scrollTop) view.scrollTop = top;
    else if (bottom > view.scrollTop + view.clientHeight) view.scrollTop = bottom - view.clientHeight;
    this.paint();
  }
}

function text(cell, words) {
  if (cell.was === words) return false;
  cell.was = words;
  cell.textContent = words;
  return true;
}

function flash(made) {
  made.animate([{ backgroundColor: "var(--flash)" }, { backgroundColor: "transparent" }], { duration: 900, easing: "ease-out" });
}

export function plural(about) {
  const kind = about.kind;
  if (/(s|x|ch)$/.test(kind)) return `${kind}es`;
  return /[^aeiou]y$/.test(kind) ? `${kind.slice(0, -1)}ies` : `${kind}s`;
}
