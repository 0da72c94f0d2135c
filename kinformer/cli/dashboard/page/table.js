// A table of one resource. Only the rows that can be seen are elements; the others are a number of pixels.

import { now } from "./clock.js";
import { Hold } from "./hold.js";
import { Counters, rank } from "./levels.js";
import { Order } from "./order.js";
import { age, element, number, plural } from "./words.js";

const HEIGHT = 34;      // pixels a row, as in style.css
const SPARE = 8;        // rows beyond the edges, for scrolling
const calm = matchMedia("(prefers-reduced-motion: reduce)");

// Least width in rem, and how soon a column goes if they do not fit: the highest first.
const WIDTHS = {
  NAME: [13, 0], STATUS: [10.5, 1], AGE: [4.4, 2], READY: [4.6, 3], NAMESPACE: [7.5, 4], NODE: [7.5, 5],
  RESTARTS: [6, 7], DATA: [4.4, 4], TYPE: [7, 4], MESSAGE: [16, 3],
};
const OTHER = [7, 6];
const LETTER = 7.4, LETTER_OF_NAMES = 8.2, PADDING = 24;  // pixels, about
const LONGEST = 60;  // letters of a column for which there is room before that of others
const TONED = new Set(["STATUS", "READY"]);  // columns in the colour of the row's level

export class Table {
  constructor(store, filter, { open, sorted }) {
    Object.assign(this, { store, filter, open, sorted });
    this.scroll = document.getElementById("scroll");
    this.head = document.getElementById("head");
    this.body = document.getElementById("body");
    this.nothing = document.getElementById("nothing");
    this.title = document.getElementById("title");
    this.counted = document.getElementById("count");
    this.resource = "";
    this.order = new Order();
    this.hold = new Hold(this.body, () => { this.rearrange(); this.tell(); this.paint(); });
    this.held = document.getElementById("held");
    this.counters = new Counters(document.getElementById("counters"), filter);
    this.pool = [];
    this.selected = "";
    this.sort = sortOf("");
    this.painting = 0;
    this.scroll.addEventListener("scroll", () => this.paint(), { passive: true });
    new ResizeObserver(() => { if (this.resource) { this.layOut(); this.draw(); } }).observe(this.scroll);
    setInterval(() => { if (this.resource && !document.hidden) this.paint(); }, 1000);  // ages grow
  }

  // The rows as they are shown, in their order.
  get list() {
    return this.hold.list ?? this.order.list;
  }

  show(resource, sort) {
    const moved = this.resource !== resource, wanted = sortOf(sort);
    if (!moved && wanted.column === this.sort.column && wanted.up === this.sort.up) return;
    this.resource = resource;
    this.sort = wanted;
    this.columns = "";
    if (moved) {
      this.selected = this.refused = "";
      this.scroll.scrollTop = 0;
    }
    this.rebuild();
  }

  hide() {
    this.resource = "";
  }

  layOut() {
    const about = this.store.about(this.resource);
    const names = this.fitting(["NAME", ...(about?.namespaced === false ? [] : ["NAMESPACE"]), ...(about?.columns ?? []), "AGE"]);
    this.told = `${about?.error ?? ""} ${about?.synced ?? ""}`;
    const signature = `${this.resource} ${names.join()} ${this.sort.column} ${this.sort.up}`;
    if (this.columns === signature) return;
    this.columns = signature;
    this.names = names;
    this.values = names.map((name) => this.value(name));
    this.letters = names.map((name) => name.length + 2);
    this.divide();
    const focused = this.head.contains(document.activeElement) ? document.activeElement.parentElement.dataset.column : "";
    this.head.replaceChildren(...names.map((name) => element("span", {
      class: "cell", role: "columnheader", "data-column": name,
      "aria-sort": name === this.sort.column ? (this.sort.up ? "ascending" : "descending") : "none",
    }, element("button", { type: "button", onclick: () => this.sortBy(name) }, name.charAt(0) + name.slice(1).toLowerCase()))));
    if (focused) this.head.querySelector(`[data-column="${CSS.escape(focused)}"] button`)?.focus();
    this.scroll.setAttribute("aria-colcount", String(names.length));
    for (const row of this.pool) row.remove();
    this.pool = [];
  }

  // Each column has a share of the width by the longest text that was seen in it: none is cut beside room that another one leaves.
  divide() {
    this.grown = false;
    const least = this.names.map((name) => (name === "NAME" ? 9 : (WIDTHS[name] ?? OTHER)[0]));
    const shares = this.letters.map((count, place) => Math.round(count * (this.names[place] === "NAME" ? LETTER_OF_NAMES : LETTER) + PADDING));
    this.scroll.style.setProperty("--columns", least.map((rem, place) => `minmax(${rem}rem, ${shares[place]}fr)`).join(" "));
    this.scroll.style.setProperty("--least", `${least.reduce((sum, rem) => sum + rem, 1)}rem`);
  }

  // Writes a cell. True if its text has changed.
  write(made, place, words) {
    const cell = made.cells[place];
    if (cell.was === words) return false;
    cell.was = words;
    cell.textContent = words;
    if (words.length > this.letters[place] && this.letters[place] < LONGEST) {
      this.letters[place] = Math.min(words.length, LONGEST);
      this.grown = true;
    }
    return true;
  }

  // The columns that fit.
  fitting(names) {
    const rem = parseFloat(getComputedStyle(document.documentElement).fontSize), left = [...names];
    const width = () => left.reduce((sum, name) => sum + (WIDTHS[name] ?? OTHER)[0], 1) * rem;
    while (left.length > 2 && this.scroll.clientWidth && width() > this.scroll.clientWidth) {
      const turn = (name) => (WIDTHS[name] ?? OTHER)[1];
      const least = left.reduce((worst, name) => (turn(name) >= turn(worst) ? name : worst));
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
    const down = this.sort.column === name && this.sort.up;
    this.sorted(`${down ? "-" : ""}${name}`);
  }

  // All of it anew: another resource, sort or filter, or other columns.
  rebuild() {
    if (!this.resource) return;
    this.layOut();
    this.hold.release();
    const rows = this.store.rows.get(this.resource) ?? new Map();
    this.order.reset(rows.values(), this.comparison(), (row) => this.filter.matches(row));
    this.rearrange();
    this.tell();
    this.paint();
  }

  update(changed) {
    if (!this.resource) return;
    const own = new Map(), prefix = `${this.resource} `;
    for (const [place, row] of changed) if (place.startsWith(prefix)) own.set(place.slice(prefix.length), row);
    if (!own.size) return;
    this.order.update(own);
    if (!this.hold.list) this.rearrange();
    else {
      for (const [key, row] of own) if (row && !this.filter.matches(row)) own.set(key, null);
      this.hold.update(own);
    }
    this.tell();
    this.paint();
  }

  // The order is held while a pointer rests on the rows, and taken up again when it leaves them.
  rearrange() {
    const settled = !this.store.loading && this.store.about(this.resource)?.synced;
    if (this.hold.over && settled && !this.hold.list && this.order.list.length) this.hold.take(this.order.list);
    else if (!this.hold.over) this.hold.release();
  }

  tell() {
    const { list } = this, total = this.store.count(this.resource), about = this.store.about(this.resource), { added, gone } = this.hold;
    write(this.body.style, "height", `${list.length * HEIGHT}px`);
    write(this.title, "textContent", about ? plural(about) : this.resource);
    const shown = this.order.list.length;
    write(this.counted, "textContent", shown === total ? number.format(total) : `${number.format(shown)} of ${number.format(total)}`);
    const held = [added ? `${number.format(added)} new` : "", gone ? `${number.format(gone)} gone` : ""].filter(Boolean).join(", ");
    write(this.held, "textContent", held ? `${held}; rows keep their places while the pointer is on them` : "");
    this.scroll.setAttribute("aria-rowcount", String(list.length + 1));
    this.counters.draw((level) => this.store.levels.count(this.resource, level));
    this.nothing.hidden = list.length > 0;
    write(this.nothing, "textContent", this.filter.wrong ? "The label selector cannot be read." : total ? "Nothing matches the filter." : this.why(about));
  }

  why(about) {
    if (this.refused) return this.refused;
    if (!about) return "This resource is not followed yet.";
    return about.synced ? "There are none." : about.error ?? "The first list has not come yet.";
  }

  // By the chosen column, also while there is no room for it.
  comparison() {
    const { column, up } = this.sort, sign = up ? 1 : -1;
    const byName = (a, b) => (a.k < b.k ? -1 : a.k > b.k ? 1 : 0);
    if (column === "NAME") return (a, b) => sign * (a.name < b.name ? -1 : a.name > b.name ? 1 : 0) || byName(a, b);
    if (column === "AGE") return (a, b) => sign * (b.t - a.t) || byName(a, b);
    const value = this.value(column), toned = TONED.has(column);
    return (a, b) => {
      const worse = toned ? rank(a) - rank(b) : 0;
      if (worse) return sign * worse;
      let x = value(a), y = value(b);
      if (Array.isArray(x) && Array.isArray(y) && !x[0] && !y[0]) return sign * (y[1] - x[1]) || byName(a, b);
      x = Array.isArray(x) ? x[0] : x;
      y = Array.isArray(y) ? y[0] : y;
      if (x === y) return byName(a, b);
      // Numbers before words: an order without circles, in which a row is found again.
      const p = parseFloat(x), q = parseFloat(y), numeric = (Number.isNaN(p) ? 1 : 0) - (Number.isNaN(q) ? 1 : 0);
      return sign * (numeric || p - q || (x < y ? -1 : 1));
    };
  }

  paint() {
    if (this.painting || !this.resource) return;
    this.painting = requestAnimationFrame(() => { this.painting = 0; this.draw(); });
  }

  draw() {
    if (!this.names) return;
    const { list } = this, top = this.scroll.scrollTop, height = this.scroll.clientHeight;
    const first = Math.max(0, Math.floor(top / HEIGHT) - SPARE);
    const last = Math.min(list.length, Math.ceil((top + height) / HEIGHT) + SPARE);
    while (this.pool.length < last - first) this.pool.push(this.body.appendChild(this.blank()));
    const moment = performance.now(), time = now();
    for (let place = 0; place < this.pool.length; place += 1) {
      // Each row keeps its element while it scrolls by: which one depends on its place alone.
      const at = first + ((place - first) % this.pool.length + this.pool.length) % this.pool.length;
      this.fill(this.pool[place], at < last ? list[at] : null, at, time, moment);
    }
    if (this.grown) this.divide();
  }

  blank() {
    const row = element("div", { class: "row", role: "row", "aria-selected": "false", onclick: (event) => this.choose(event.currentTarget.row?.k) });
    row.id = `row-${this.pool.length}`;
    row.cells = this.names.map((name) => row.appendChild(element("span", { class: "cell", role: "gridcell", "data-column": name })));
    return row;
  }

  fill(made, row, at, time, moment) {
    if (!row) {
      if (made.row) { made.hidden = true; made.row = null; }
      return;
    }
    if (made.at !== at) {
      made.at = at;
      made.style.transform = `translateY(${at * HEIGHT}px)`;
      made.setAttribute("aria-rowindex", String(at + 2));
    }
    if (made.row !== row) {
      const known = made.row?.k === row.k;
      made.row = row;
      made.hidden = false;
      made.title = row.k;
      made.classList.toggle("gone", Boolean(row.gone));
      for (let place = 0; place < this.names.length; place += 1) {
        if (this.names[place] === "AGE") continue;
        const cell = made.cells[place], word = this.values[place](row);
        if (Array.isArray(word)) continue;
        if (this.write(made, place, word) && known && !calm.matches) flash(cell);
        if (TONED.has(this.names[place])) this.tone(cell, row, this.names[place]);
      }
      if (!known && row.at && moment - row.at < 100 && !calm.matches) flash(made);
    }
    for (let place = 0; place < this.names.length; place += 1) {
      const word = this.names[place] === "AGE" ? (row.t ? ["", row.t, ""] : "") : this.values[place](row);
      if (Array.isArray(word)) this.write(made, place, `${word[0]}${age(time - word[1])}${word[2]}`);
      else if (this.names[place] === "AGE") this.write(made, place, word);
    }
    const selected = row.k === this.selected;
    if (made.selected !== selected) {
      made.selected = selected;
      made.classList.toggle("selected", selected);
      made.setAttribute("aria-selected", String(selected));
    }
    if (selected) this.scroll.setAttribute("aria-activedescendant", made.id);
  }

  // A kind without a status has its dot beside what is ready.
  tone(cell, row, name) {
    const dotted = name === "STATUS" || !this.names.includes("STATUS"), ill = row.level === "bad" || row.level === "busy";
    const kind = dotted ? `cell status dotted ${row.level}` : ill ? `cell status ${row.level}` : "cell";
    if (cell.className !== kind) cell.className = kind;
    if (cell.title !== (row.w ?? "")) cell.title = row.w ?? "";
  }

  choose(key) {
    if (!key) return;
    this.selected = key;
    this.paint();
    this.open(this.resource, key);
  }

  focus() {
    this.scroll.focus({ preventScroll: true });
  }

  move(by) {
    if (!this.list.length) return;
    const { list } = this, at = list.findIndex((row) => row.k === this.selected);
    const next = Math.min(list.length - 1, Math.max(0, at < 0 ? 0 : at + by));
    this.selected = list[next].k;
    this.focus();
    const top = next * HEIGHT, bottom = top + 2 * HEIGHT, view = this.scroll;
    if (top < view.scrollTop) view.scrollTop = top;
    else if (bottom > view.scrollTop + view.clientHeight) view.scrollTop = bottom - view.clientHeight;
    this.paint();
  }
}

function write(holder, name, words) {
  if (holder[name] !== words) holder[name] = words;
}

// "-AGE" is by age, from the greatest down.
function sortOf(words) {
  return words ? { column: words.replace(/^-/, ""), up: !words.startsWith("-") } : { column: "NAME", up: true };
}

function flash(made) {
  made.animate([{ backgroundColor: "var(--flash)" }, { backgroundColor: "transparent" }], { duration: 900, easing: "ease-out" });
}
