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
    if (![...this.kind.options].some((one) => one.value === kind)) this.kind.append(new Option(kind, kind));
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
      const found = await this.store.get("timeline", { after: this.last, noise });
      if (this.began !== began || (this.noise.getAttribute("aria-pressed") === "true") !== noise) return;
      this.last = found.last;
      this.add(found.items, found.outcomes);
    } catch { /* the banner says why, and the next report tries again */ } finally {
      this.reading = false;
    }
  }

  add(all, outcomes) {
    const items = [];
    for (const one of all) {
      one.ns = one.namespace;
      one.text = [one.kind, one.namespace, one.name, one.change, one.by].join(" ").toLowerCase();
      one.members = [];
      one.weight = one.text.length;
      one.count = 1;  // with all members. The last of them are kept
      this.weigh(one, 1);
      const head = one.cause && this.heads.get(one.cause);
      if (!head) {
        this.heads.set(one.cause || one.number, one);
        items.push(one);
      } else {
        head.members.push(one);
        head.count += 1;
        if (head.members.length > SHOWN) this.weigh(head.members.shift(), -1);
        if (head.text.length < FOUND) head.text += ` ${one.text}`;
      }
    }
    for (const [cause, words] of Object.entries(outcomes)) this.tellOutcome(this.heads.get(Number(cause)), Number(cause), words);
    this.items.push(...items);
    let gone = 0;
    for (; this.count > KEPT || this.size > SIZE; gone += 1) {
      const one = this.items[gone];
      for (const each of [one, ...one.members]) this.weigh(each, -1);
      this.opened.delete(one.number);
      this.heads.delete(one.cause || one.number);
    }
    this.items.splice(0, gone);
    const kinds = [...new Set([...this.kind.options].map((one) => one.value).concat(items.map((one) => one.kind)))];
    if (kinds.length !== this.kind.options.length) {
      this.kind.replaceChildren(new Option("All kinds", ""), ...kinds.filter(Boolean).sort().map((kind) => new Option(kind, kind)));
      this.kind.value = this.chosen;
    }
    this.held.push(...items.filter((one) => this.fits(one)));
    if (!this.over || !this.list.children.length) this.release();
    else this.tell();
  }

  weigh(one, sign) {
    this.count += sign;
    this.size += sign * one.weight;
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
    const lines = this.held.slice(-this.most).reverse().map((one) => this.line(one));
    this.held = [];
    this.list.prepend(...lines);
    while (this.list.children.length > this.most && !this.list.lastChild.contains(document.activeElement)) this.list.lastChild.remove();
    this.tell();
  }

  rebuild() {
    if (!this.shown) return;
    this.held = [];
    const found = this.items.filter((one) => this.fits(one));
    this.list.replaceChildren(...found.slice(-this.most).reverse().map((one) => this.line(one)));
    this.tell();
  }

  fits(one) {
    return (!this.chosen || one.kind === this.chosen) && this.filter.fits(one);
  }

  tell() {
    const fitting = this.items.reduce((count, one) => count + (this.fits(one) ? 1 : 0), 0), { report } = this.store;
    const from = report ? ` since ${new Date(report.changes.since * 1000).toLocaleString("en")}` : "";
    const words = fitting === this.items.length ? number.format(fitting) : `${number.format(fitting)} of ${number.format(this.items.length)}`;
    write(this.counted, `${words}${from}`);
    this.nothing.hidden = this.list.children.length > 0;
    write(this.nothing, this.items.length ? "Nothing matches the filter." : "Nothing has changed yet.");
    this.news.hidden = !this.held.length;
    write(this.news, `${number.format(this.held.length)} new`);
    this.more.hidden = this.list.children.length + this.held.length >= fitting;
  }

  line(one) {
    const open = this.opened.has(one.number);
    const button = element("button", { type: "button", class: `line${one.noise ? " noise" : ""}`, onclick: () => this.turn(one, made) },
      element("time", { dateTime: new Date(one.time * 1000).toISOString() }, clock.format(one.time * 1000)),
      element("span", { class: "quiet" }, one.kind),
      element("b", {}, one.namespace ? element("span", { class: "quiet" }, `${one.namespace}/`) : null, one.name),
      element("span", { class: `what ${TONES[one.type]}` }, one.change),
      element("span", { class: "quiet members" }, one.count > 1 ? `${number.format(one.count)} changes` : ""),
      element("span", { class: "quiet by" }, one.by));
    button.setAttribute("aria-expanded", String(open));
    const made = one.made = element("li", {}, button, this.opened.get(one.number) ?? null);
    return made;
  }

  async turn(one, made) {
    const button = made.firstChild, shown = this.opened.get(one.number);
    button.setAttribute("aria-expanded", String(!shown));
    if (shown) {
      this.opened.delete(one.number);
      shown.remove();
      return;
    }
    const inside = element("div", { class: "opened" });
    this.opened.set(one.number, inside);
    made.append(inside);
    const place = { resource: one.resource, key: one.namespace ? `${one.namespace}/${one.name}` : one.name };
    const href = (to) => this.href(to, "summary");
    const [change, groups] = await Promise.all([
      this.store.get("change", { number: one.number }).catch((error) => ({ error: error.message })),
      this.store.get("relations", place).catch(() => []),
    ]);
    inside.replaceChildren(
      relations([{ title: "Object", items: [{ kind: one.kind, name: one.name, ...place, depth: 0 }] }, ...groups.filter((group) => group.title === "Owners")], href),
      change.error ? element("p", { class: "quiet" }, `Its differences cannot be read: ${change.error}`)
        : differences([...(change.differences ?? []), ...(change.noise ?? [])].map(asText)),
      one.members.length ? element("ol", { class: "members" }, ...one.members.map(member)) : null);
  }

  // To the next or previous line.
  move(by) {
    const lines = [...this.list.querySelectorAll(".line")], at = lines.findIndex((one) => one.parentElement.contains(document.activeElement));
    lines[Math.min(lines.length - 1, Math.max(0, at < 0 ? 0 : at + by))]?.focus();
    return lines.length > 0;
  }
}

// A change that has followed from another one.
function member(one) {
  return element("li", {},
    element("time", { class: "quiet", dateTime: new Date(one.time * 1000).toISOString() }, clock.format(one.time * 1000)),
    element("span", { class: "quiet" }, one.kind), element("b", {}, one.name), element("span", { class: TONES[one.type] }, one.change));
}

function asText({ path, old, new: now }) {
  const text = (value) => (value === undefined ? null : JSON.stringify(value));
  return { path, old: text(old), new: text(now) };
}

function write(holder, words) {
  if (holder.textContent !== words) holder.textContent = words;
}
