// A table of one resource. The server sorts and filters it, and sends the rows about those in sight. Only the rows that
// can be seen are elements; the others are a number of pixels.

import { now } from "./clock.js";
import { Hold } from "./hold.js";
import { Counters } from "./levels.js";
import { rowOf } from "./store.js";
import { age, element, number, plural } from "./words.js";

const HEIGHT = 34;      // pixels a row, as in style.css
const SPARE = 8;        // rows beyond the edges, for scrolling
const PAGE = 200;       // rows that the server sends
const EDGE = 40;        // rows that are left beyond those in sight when others are asked for
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
  constructor(store, filter, { open, sorted, moved }) {
    Object.assign(this, { store, filter, open, sorted, moved });
    this.scroll = document.getElementById("scroll");
    this.head = document.getElementById("head");
    this.body = document.getElementById("body");
    this.nothing = document.getElementById("nothing");
    this.title = document.getElementById("title");
    this.counted = document.getElementById("count");
    this.resource = "";
    this.rows = new Map();  // key -> row, of those that the server has sent
    this.keys = [];         // their keys in order, from the place `first` on
    this.first = this.shown = this.total = 0;
    this.query = "";        // what was asked for
    this.waiting = false;   // true until it comes
    this.then = 0;          // steps to another row as soon as it has come
    this.after = null;      // what follows these steps
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

  // The keys as they are shown, in their order, from the place `first` on.
  get list() {
    return this.filter.wrong ? [] : this.hold.keys ?? this.keys;
  }

  // The number of rows, of which most are not here.
  get length() {
    return this.filter.wrong ? 0 : Math.max(this.shown, this.first + this.list.length);
  }

  // What the server is to send.
  get view() {
    const { column, up } = this.sort, sort = `${up ? "" : "-"}${column}`;
    return { view: "table", resource: this.resource, sort, first: this.first, limit: PAGE };
  }

  show(resource, sort) {
    const moved = this.resource !== resource, next = sortOf(sort);
    if (!moved && next.column === this.sort.column && next.up === this.sort.up) return;
    this.resource = resource;
    this.sort = next;
    this.columns = "";
    if (moved) this.selected = this.refused = "";
    this.rebuild({ moved });
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
    this.body.classList.toggle("placed", about?.namespaced !== false && !names.includes("NAMESPACE"));  // it is under the name
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

  // All of it anew: another resource, sort or filter, or other columns. What is there stays in sight until it comes.
  rebuild({ moved = false } = {}) {
    if (!this.resource) return;
    this.layOut();
    const query = JSON.stringify([this.resource, this.sort, this.filter.state]);
    if (moved || query !== this.query) {
      this.query = query;
      this.waiting = true;
      this.then = 0;
      this.after = null;
      this.hold.release();
      this.first = this.scroll.scrollTop = 0;
    }
    if (moved) {
      this.rows.clear();
      this.keys = [];
      this.shown = this.total = 0;
    }
    this.tell();
    this.paint();
  }

  // Takes up what the server has sent. The rows that are held stay.
  apply({ view, begins, data }) {
    if (view.query !== this.query || view.first !== this.first) return;
    const before = this.rows, moment = performance.now();
    if (begins && view.first !== this.begun) this.hold.release();
    if (begins) {
      this.begun = view.first;
      this.rows = new Map();
      for (const key of this.hold.keys ?? []) if (before.has(key)) this.rows.set(key, before.get(key));
    }
    for (const row of data.rows) {
      const known = this.rows.has(row.k);
      this.hold.gone.delete(row.k);
      this.rows.set(row.k, rowOf(row));
      if (known && !begins) row.at = moment;
    }
    if (data.keys) this.place(data);
    Object.assign(this, { shown: data.shown, total: data.total, waiting: false });
    this.rearrange();
    this.tell();
    this.paint();
    if (this.then) this.move(0);
    if (!this.then) {
      const { after } = this;
      this.after = null;
      after?.();
    }
  }

  place({ keys, gone }) {
    const whole = this.first + this.keys.length >= this.shown, now = new Set(keys);
    if (this.hold.keys && whole) this.hold.add(keys);
    for (const key of gone) if (this.hold.has(key)) {
      this.hold.gone.add(key);
      this.rows.set(key, { ...this.rows.get(key), gone: true, at: 0 });
    }
    this.keys = keys;
    for (const key of [...this.rows.keys()]) if (!now.has(key) && !this.hold.has(key)) this.rows.delete(key);
  }

  // The order is held while a pointer rests on the rows, and taken up again when it leaves them.
  rearrange() {
    if (this.hold.over && !this.waiting && !this.hold.keys && this.keys.length) this.hold.take(this.keys, this.shown);
    else if (!this.hold.over) this.hold.release();
  }

  tell() {
    const { total, shown, length } = this, about = this.store.about(this.resource), added = this.hold.added(shown), gone = this.hold.gone.size;
    write(this.body.style, "height", `${length * HEIGHT}px`);
    write(this.title, "textContent", about ? plural(about) : this.resource);
    const matching = this.filter.wrong ? 0 : shown;
    write(this.counted, "textContent", !about?.synced || (this.waiting && !total) ? ""
      : this.filter.active && matching !== total ? `${number.format(matching)} of ${number.format(total)}` : number.format(total));
    const held = [added ? `${number.format(added)} new` : "", gone ? `${number.format(gone)} gone` : ""].filter(Boolean).join(", ");
    write(this.held, "textContent", held ? `${held}; rows keep their places while the pointer is on them` : "");
    this.scroll.setAttribute("aria-rowcount", String(length + 1));
    this.counters.draw((level) => this.store.level(this.resource, level));
    this.nothing.hidden = length > 0;
    write(this.nothing, "textContent", this.filter.wrong ? "The label selector cannot be read." : total ? "Nothing matches the filter." : this.why(about));
  }

  why(about) {
    if (this.refused) return this.refused;
    if (!about) return "This resource is not followed yet.";
    if (this.waiting && about.objects) return "Loading …";
    return about.synced ? "There are none." : about.error ?? "The first list has not come yet.";
  }

  paint() {
    if (this.painting || !this.resource) return;
    this.painting = requestAnimationFrame(() => { this.painting = 0; this.draw(); });
  }

  draw() {
    if (!this.names) return;
    const { list, length } = this, top = this.scroll.scrollTop, height = this.scroll.clientHeight;
    const first = Math.max(0, Math.floor(top / HEIGHT) - SPARE);
    const last = Math.min(length, Math.ceil((top + height) / HEIGHT) + SPARE);
    while (this.pool.length < last - first) this.pool.push(this.body.appendChild(this.blank()));
    const moment = performance.now(), time = now();
    for (let place = 0; place < this.pool.length; place += 1) {
      // Each row keeps its element while it scrolls by: which one depends on its place alone.
      const at = first + ((place - first) % this.pool.length + this.pool.length) % this.pool.length;
      this.fill(this.pool[place], (at < last && this.rows.get(list[at - this.first])) || null, at, time, moment);
    }
    if (this.grown) this.divide();
    this.follow(first, last);
  }

  // Asks for other rows if those in sight are close to the edge of what is here.
  follow(first, last) {
    if (this.waiting || !this.shown) return;
    const near = (first < this.first + EDGE && this.first > 0) || (last > this.first + PAGE - EDGE && this.first + PAGE < this.shown);
    const start = Math.max(0, Math.min(this.shown - PAGE, Math.round((first + last - PAGE) / 2)));
    if (!near || start === this.first) return;
    // What is here stays in its place until the others come.
    const gap = start - this.first;
    this.keys = Array.from({ length: PAGE }, (_, place) => this.keys[place + gap]);
    this.first = start;
    this.hold.release();
    this.moved();
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
      made.cells[0].dataset.namespace = row.ns;
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

  // To the next or previous row. Steps to rows that are not here yet are taken when they are.
  move(by) {
    this.focus();
    const { list } = this, view = this.scroll, steps = this.then + by;
    this.then = this.waiting ? steps : 0;
    if (this.waiting || !list.length) return;
    const at = list.indexOf(this.selected), seen = Math.max(0, Math.ceil(view.scrollTop / HEIGHT) - this.first);
    const aim = at < 0 ? seen : at + steps, step = Math.sign(steps);
    let next = Math.min(list.length - 1, Math.max(0, aim));
    while (!list[next] && next !== at && next > 0 && next < list.length) next -= step;
    if (!list[next]) return;
    const place = this.first + next;
    if (at >= 0 && place > 0 && place < this.length - 1) this.then = aim - next;
    this.selected = list[next];
    const top = place * HEIGHT, bottom = top + 2 * HEIGHT;
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
