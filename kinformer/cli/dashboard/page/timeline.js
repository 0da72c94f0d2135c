// The timeline: the changes of all resources as they come, newest first. Each opens to its differences and its object's owners.

import { differences } from "./changes.js";
import { relations } from "./relations.js";
import { element, number } from "./words.js";

const KEPT = 10_000;  // changes, as many as the server keeps
const SIZE = 5_000_000;  // characters of them
const SHOWN = 200;    // lines, before more are asked for
const FOUND = 2000;   // characters of a line and its members that a filter looks at
const TONES = { created: "good", deleted: "bad", changed: "" };
const clock = new Intl.DateTimeFormat("en", { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });

export class Timeline {
  constructor(store, filter, { href, chosen }) {
    Object.assign(this, { store, filter, href });
    const at = (id) => document.getElementById(id);
    this.list = at("timeline-list");
    this.nothing = at("no-changes");
    this.counted = at("timeline-count");
    this.kind = at("timeline-kind");
    this.noise = at("timeline-noise");
    this.more = at("timeline-more");
    this.news = at("timeline-news");
    this.forget();
    this.chosen = "";  // the kind
    this.shown = this.over = false;
    this.kind.addEventListener("change", () => chosen({ kind: this.kind.value }));
    this.noise.addEventListener("click", () => chosen({ noise: this.noise.getAttribute("aria-pressed") !== "true" }));
    this.more.addEventListener("click", () => { this.most += SHOWN; this.rebuild(); });
    this.news.addEventListener("click", () => this.release());
    // While a pointer rests on the lines, each stays in its place.
    this.list.addEventListener("pointerenter", (event) => { this.over = event.pointerType !== "touch"; });
    this.list.addEventListener("pointerleave", () => { this.over = false; this.release(); });
  }

  forget() {
    this.items = [];
    this.held = [];
    this.heads = new Map();   // number of a cause -> its first change, with the others as members
    this.opened = new Map();  // number -> what the line shows when it is open
    this.last = this.count = this.size = 0;
    this.most = SHOWN;
    this.began = null;
  }

  show({ kind, noise }) {
    const fresh = !this.shown;
    this.shown = true;
    if ((this.noise.getAttribute("aria-pressed") === "true") !== noise) {
      this.noise.setAttribute("aria-pressed", String(noise));
      this.forget();
      this.rebuild();
    }
    if (![...this.kind.options].some((option) => option.value === kind)) this.kind.append(new Option(kind, kind));
    if (this.chosen !== kind || fresh) {
      this.chosen = this.kind.value = kind;
      this.rebuild();
    }
    this.read();
  }

  hide() {
    this.shown = false;
  }

  // What came since the last time, when a report says that there is more.
  async read() {
    const { report } = this.store;
    if (!this.shown || !report || this.reading) return;
    if (this.began !== report.began) {  // another server, or the first time
      this.forget();
      this.began = report.began;
      this.rebuild();
    }
    this.tell();
    if (report.changes.last <= this.last) return;
    this.reading = true;
    const noise = this.noise.getAttribute("aria-pressed") === "true", { began } = this;
    try {
      const answer = await this.store.get("timeline", { after: this.last, noise });
      if (this.began !== began || (this.noise.getAttribute("aria-pressed") === "true") !== noise) return;
      this.last = answer.last;
      this.add(answer.items, answer.outcomes);
    } catch { /* the banner says why, and the next report tries again */ } finally {
      this.reading = false;
    }
  }

  add(all, outcomes) {
    const items = [];
    for (const change of all) {
      change.ns = change.namespace;
      change.text = [change.kind, change.namespace, change.name, change.change, change.by].join(" ").toLowerCase();
      change.members = [];
      change.weight = change.text.length;
      change.count = 1;  // with all members. The last of them are kept
      this.weigh(change, 1);
      const head = change.cause && this.heads.get(change.cause);
      if (!head) {
        this.heads.set(change.cause || change.number, change);
        items.push(change);
      } else {
        head.members.push(change);
        head.count += 1;
        if (head.members.length > SHOWN) this.weigh(head.members.shift(), -1);
        if (head.text.length < FOUND) head.text += ` ${change.text}`;
      }
    }
    for (const [cause, words] of Object.entries(outcomes)) this.tellOutcome(this.heads.get(Number(cause)), Number(cause), words);
    this.items.push(...items);
    let gone = 0;
    for (; this.count > KEPT || this.size > SIZE; gone += 1) {
      const forgotten = this.items[gone];
      for (const change of [forgotten, ...forgotten.members]) this.weigh(change, -1);
      this.opened.delete(forgotten.number);
      this.heads.delete(forgotten.cause || forgotten.number);
    }
    this.items.splice(0, gone);
    const kinds = [...new Set([...this.kind.options].map((option) => option.value).concat(items.map((item) => item.kind)))];
    if (kinds.length !== this.kind.options.length) {
      this.kind.replaceChildren(new Option("All kinds", ""), ...kinds.filter(Boolean).sort().map((kind) => new Option(kind, kind)));
      this.kind.value = this.chosen;
    }
    this.held.push(...items.filter((item) => this.fits(item)));
    if (!this.over || !this.list.children.length) this.release();
    else this.tell();
  }

  weigh(change, sign) {
    this.count += sign;
    this.size += sign * change.weight;
  }

  tellOutcome(head, cause, words) {
    if (head?.number !== cause) return;  // the first change is forgotten
    head.change = words;
    if (!head.made) return;
    write(head.made.querySelector(".what"), words);
    write(head.made.querySelector(".members"), `${number.format(head.count)} changes`);
  }

  // New lines come in at the top; a line that has the focus keeps it.
  release() {
    const lines = this.held.slice(-this.most).reverse().map((change) => this.line(change));
    this.held = [];
    this.list.prepend(...lines);
    while (this.list.children.length > this.most && !this.list.lastChild.contains(document.activeElement)) this.list.lastChild.remove();
    this.tell();
  }

  rebuild() {
    if (!this.shown) return;
    this.held = [];
    const fitting = this.items.filter((change) => this.fits(change));
    this.list.replaceChildren(...fitting.slice(-this.most).reverse().map((change) => this.line(change)));
    this.tell();
  }

  fits(change) {
    return (!this.chosen || change.kind === this.chosen) && this.filter.fits(change);
  }

  tell() {
    const fitting = this.items.reduce((count, change) => count + (this.fits(change) ? 1 : 0), 0), { report } = this.store;
    const from = report ? ` since ${new Date(report.changes.since * 1000).toLocaleString("en")}` : "";
    const words = fitting === this.items.length ? number.format(fitting) : `${number.format(fitting)} of ${number.format(this.items.length)}`;
    write(this.counted, `${words}${from}`);
    this.nothing.hidden = this.list.children.length > 0;
    write(this.nothing, this.items.length ? "Nothing matches the filter." : "Nothing has changed yet.");
    this.news.hidden = !this.held.length;
    write(this.news, `${number.format(this.held.length)} new`);
    this.more.hidden = this.list.children.length + this.held.length >= fitting;
  }

  line(change) {
    const open = this.opened.has(change.number);
    const button = element("button", { type: "button", class: `line${change.noise ? " noise" : ""}`, onclick: () => this.turn(change, made) },
      element("time", { dateTime: new Date(change.time * 1000).toISOString() }, clock.format(change.time * 1000)),
      element("span", { class: "quiet" }, change.kind),
      element("b", {}, change.namespace ? element("span", { class: "quiet" }, `${change.namespace}/`) : null, change.name),
      element("span", { class: `what ${TONES[change.type]}` }, change.change),
      element("span", { class: "quiet members" }, change.count > 1 ? `${number.format(change.count)} changes` : ""),
      element("span", { class: "quiet by" }, change.by));
    button.setAttribute("aria-expanded", String(open));
    const made = change.made = element("li", {}, button, this.opened.get(change.number) ?? null);
    return made;
  }

  async turn(head, made) {
    const button = made.firstChild, shown = this.opened.get(head.number);
    button.setAttribute("aria-expanded", String(!shown));
    if (shown) {
      this.opened.delete(head.number);
      shown.remove();
      return;
    }
    const inside = element("div", { class: "opened" });
    this.opened.set(head.number, inside);
    made.append(inside);
    const place = { resource: head.resource, key: head.namespace ? `${head.namespace}/${head.name}` : head.name };
    const href = (to) => this.href(to, "summary");
    const [change, groups] = await Promise.all([
      this.store.get("change", { number: head.number }).catch((error) => ({ error: error.message })),
      this.store.get("relations", place).catch(() => []),
    ]);
    inside.replaceChildren(
      relations([{ title: "Object", items: [{ kind: head.kind, name: head.name, ...place, depth: 0 }] }, ...groups.filter((group) => group.title === "Owners")], href),
      change.error ? element("p", { class: "quiet" }, `Its differences cannot be read: ${change.error}`)
        : differences([...(change.differences ?? []), ...(change.noise ?? [])].map(asText)),
      head.members.length ? element("ol", { class: "members" }, ...head.members.map(member)) : null);
  }

  // To the next or previous line.
  move(by) {
    const lines = [...this.list.querySelectorAll(".line")], at = lines.findIndex((line) => line.parentElement.contains(document.activeElement));
    lines[Math.min(lines.length - 1, Math.max(0, at < 0 ? 0 : at + by))]?.focus();
    return lines.length > 0;
  }
}

// A change that has followed from another one.
function member(change) {
  return element("li", {},
    element("time", { class: "quiet", dateTime: new Date(change.time * 1000).toISOString() }, clock.format(change.time * 1000)),
    element("span", { class: "quiet" }, change.kind), element("b", {}, change.name), element("span", { class: TONES[change.type] }, change.change));
}

function asText({ path, old, new: now }) {
  const text = (value) => (value === undefined ? null : JSON.stringify(value));
  return { path, old: text(old), new: text(now) };
}

function write(holder, words) {
  if (holder.textContent !== words) holder.textContent = words;
}
