// Pods by node, a square for each: all that runs, and all that does not, at a glance. Of very many the server sends a part.

import { Counters } from "./levels.js";
import { element, number } from "./words.js";

const PODS = "v1/pods", NODES = "v1/nodes";
const WIDEST = 250, EDGES = 24, LETTER = 8, ROOM = 100;  // pixels: of squares, around them, of a name, beside it

export class Nodes {
  constructor(store, filter, open) {
    Object.assign(this, { store, filter, open });
    this.grid = document.getElementById("grid");
    this.nothing = document.getElementById("no-pods");
    this.cards = new Map();
    this.squares = new Map();
    this.shown = false;
    this.current = null;  // the square that the Tab key reaches: the first, until another one was chosen
    this.chosen = false;
    this.counters = new Counters(document.getElementById("legend"), filter);
    this.grid.addEventListener("click", (event) => {
      const square = event.target.closest(".pod"), name = event.target.closest(".node-name")?.known;
      if (square) { this.reach(square); this.chosen = true; this.open(PODS, square.key); }
      else if (name) this.open(NODES, name);
    });
    this.grid.addEventListener("focusin", (event) => { if (event.target.matches(".pod")) { this.reach(event.target); this.chosen = true; } });
    this.grid.addEventListener("keydown", (event) => this.key(event));
  }

  show() {
    this.shown = true;
    this.count();
  }

  hide() {
    this.shown = false;
  }

  // The squares and cards that have changed, by name. Those that stay keep their elements, and the focus.
  apply({ begins, data }) {
    if (begins) this.forget(data);
    const cards = new Map();
    for (const [name, content] of Object.entries(data)) {
      const key = name.slice(name.indexOf(" ") + 1);
      if (name.startsWith("node ")) cards.set(key, content);
      else if (content) this.place(key, ...content);
      else this.remove(key);
    }
    for (const [name, content] of cards) {
      if (content) [this.card(name).count, this.card(name).words, this.card(name).level, this.card(name).reason] = content;
      else if (this.cards.has(name)) this.drop(this.cards.get(name));
    }
    for (const card of this.cards.values()) this.describe(card);
    this.arrange();
    this.count();
  }

  // Forgets what is not in all of it.
  forget(data) {
    for (const key of [...this.squares.keys()]) if (!data[`pod ${key}`]) this.remove(key);
    for (const [name, card] of this.cards) if (!data[`node ${name}`]) this.drop(card);
  }

  card(name) {
    let card = this.cards.get(name);
    if (!card) {
      card = { name, pods: new Set(), status: element("span", { class: "status" }), total: element("span", { class: "quiet" }) };
      card.title = element(name ? "button" : "span", { class: "node-name", ...(name ? { type: "button" } : {}) }, name || "not on a node");
      card.title.known = name;
      card.body = element("div", { class: "pods", role: "group", "aria-label": name ? `pods on ${name}` : "pods that are not on a node" });
      card.made = element("article", { class: "card node" }, element("header", {}, card.title, card.status, card.total), card.body);
      this.cards.set(name, card);
    }
    return card;
  }

  drop(card) {
    this.cards.delete(card.name);
    card.made.remove();
  }

  place(key, node, level, status, reason, dim) {
    let square = this.squares.get(key);
    if (!square) {
      square = element("button", { class: "pod", type: "button", tabIndex: -1 });
      square.key = key;
      this.squares.set(key, square);
    }
    const card = this.card(node);
    if (square.card !== card) {
      const focused = document.activeElement === square;
      if (square.card) square.card.pods.delete(key);
      square.card = card;
      card.pods.add(key);
      card.body.insertBefore(square, following(card.body.children, key));
      if (focused) square.focus();
    }
    const kind = `pod ${level}${dim ? " dim" : ""}`, words = [key, status, reason].filter(Boolean).join("\n");
    if (square.className !== kind) square.className = kind;
    if (square.title !== words) square.title = words;
  }

  remove(key) {
    const square = this.squares.get(key);
    if (!square) return;
    const focused = document.activeElement === square, near = square.nextElementSibling ?? square.previousElementSibling;
    square.card.pods.delete(key);
    square.remove();
    this.squares.delete(key);
    if (this.current === square) {
      this.current = null;
      this.reach(near ?? this.grid.querySelector(".pod"));
      if (focused) (this.current ?? document.getElementById("main")).focus();
    }
  }

  // Pods without a node come first: they are waiting. Then come nodes that are broken. Cards that are in their place are
  // not touched, and keep the focus.
  arrange() {
    const place = (card) => (!card.name ? 0 : card.ill ? 1 : 2);
    const order = [...this.cards.values()].sort((a, b) => place(a) - place(b) || a.name.localeCompare(b.name, "en", { numeric: true }));
    order.forEach((card, place) => {
      if (this.grid.children[place] !== card.made) this.grid.insertBefore(card.made, this.grid.children[place] ?? null);
    });
  }

  // --- with the keyboard: Tab reaches one square, the arrows the others ----------------------------------------------

  reach(square) {
    if (!square || this.current === square) return;
    if (this.current) this.current.tabIndex = -1;
    this.current = square;
    square.tabIndex = 0;
  }

  key(event) {
    const square = event.target;
    if (!square.matches?.(".pod") || event.ctrlKey || event.metaKey || event.altKey) return;
    const all = this.grid.getElementsByClassName("pod");
    let next = null;
    if (event.key === "Home") next = all[0];
    else if (event.key === "End") next = all[all.length - 1];
    else if (event.key === "ArrowRight" || event.key === "ArrowLeft") {
      const list = [...all], at = list.indexOf(square) + (event.key === "ArrowRight" ? 1 : -1);
      next = list[Math.min(list.length - 1, Math.max(0, at))];
    } else if (event.key === "ArrowDown" || event.key === "ArrowUp") next = this.beyond(square, event.key === "ArrowDown" ? 1 : -1);
    else return;
    next?.focus();
    event.preventDefault();
    event.stopPropagation();
  }

  // The nearest square below or above, in this card or the next.
  beyond(square, way) {
    const from = square.getBoundingClientRect(), x = from.left + from.width / 2;
    let cards = [square.card.made];
    const children = [...this.grid.children], at = children.indexOf(square.card.made);
    cards = cards.concat(way > 0 ? children.slice(at + 1) : children.slice(0, at).reverse());
    for (const card of cards) {
      let best = null, least = Infinity;
      for (const other of card.getElementsByClassName("pod")) {
        const box = other.getBoundingClientRect(), down = way * (box.top - from.top);
        if (down < from.height / 2) continue;
        const far = down * 8 + Math.abs(box.left + box.width / 2 - x);
        if (far < least) { least = far; best = other; }
      }
      if (best) return best;
    }
    return null;
  }

  // --- words and numbers ----------------------------------------------------------------------------------------------

  describe(card) {
    const more = card.count - card.pods.size, gone = card.level === null && Boolean(card.name) && Boolean(this.store.about(NODES)?.synced);
    card.total.textContent = more > 0 ? `${number.format(card.pods.size)} of ${number.format(card.count)}` : number.format(card.count);
    card.status.textContent = gone ? "gone" : card.words;
    card.status.title = card.reason ?? "";
    card.status.className = `status ${card.level ?? "bad"}`;
    card.ill = gone || card.level === "bad";
    card.made.classList.toggle("ill", card.ill);
    card.made.classList.toggle("waiting", !card.name);
  }

  count() {
    if (!this.chosen) this.reach(this.grid.querySelector(".pod"));
    this.counters.draw((level) => this.store.level(PODS, level));
    const size = this.squares.size < 400 ? "19px" : this.squares.size < 1500 ? "14px" : "11px";
    write(this.grid.style, "--square", size);
    this.nothing.hidden = this.squares.size > 0 || !this.store.report;
    this.nothing.textContent = this.store.about(PODS)?.synced ? "There are no pods." : this.store.about(PODS)?.error ?? "The pods are not here yet.";
    this.divide(parseFloat(size) * 1.2);
  }

  // Cards are as wide as the names and squares of nine tenths of the nodes need, and the squares fill them.
  divide(step) {
    const usual = (numbers) => numbers.sort((a, b) => a - b)[Math.floor(numbers.length * 0.9)] ?? 0, cards = [...this.cards.values()];
    const most = usual(cards.map((card) => card.pods.size)), rows = Math.max(1, Math.ceil((most * step) / WIDEST));
    const across = Math.max(6, Math.ceil(most / rows)), names = usual(cards.map((card) => card.name.length)) * LETTER + ROOM;
    write(this.grid.style, "--across", String(across));
    write(this.grid.style, "--card", `${Math.round(Math.min(WIDEST + EDGES, Math.max(across * step + EDGES, names)))}px`);
  }
}

function write(style, name, value) {
  if (style.getPropertyValue(name) !== value) style.setProperty(name, value);
}

// The first of some squares, which are in the order of their names, that comes after a name; null if none does.
function following(squares, key) {
  let low = 0, high = squares.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (squares[middle].key < key) low = middle + 1;
    else high = middle;
  }
  return squares[low] ?? null;
}
