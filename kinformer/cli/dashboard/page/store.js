// The store: what the page shows, by one event stream of its server. Another view is another stream.

import * as clock from "./clock.js";

const SILENCE = 6;     // seconds without an event, of which there is one a second, after which the stream counts as lost
const LONGEST = 5;     // seconds between two tries to connect
const SETTLED = 40;    // milliseconds without another view, as while a key is held, after which one is asked for

export class Store extends EventTarget {
  constructor(api) {
    super();
    this.api = api;
    this.report = null;         // how the informers do
    this.linked = false;
    this.lost = null;           // since when the page's own server does not answer: { since, tries, next }
    this.received = 0;          // rows and squares, since the page was opened
    this.view = null;           // what the page shows
    this.heard = performance.now();
    // A browser has six connections to a server, over all of its tabs: a tab that is not in sight gives its own back.
    document.addEventListener("visibilitychange", () => {
      clearTimeout(this.parking);
      this.heard = performance.now();
      if (document.hidden) this.parking = setTimeout(() => this.close(), 30_000);
      else if (!this.source) this.open();
    });
    setInterval(() => {
      if (this.linked && !document.hidden && performance.now() - this.heard > SILENCE * 1000) this.fail(this.source);
    }, 1000);
  }

  // Shows a view from now on. `key` tells views apart.
  watch(view) {
    if (this.view?.key === view.key) return;
    const first = !this.view;
    this.view = view;
    clearTimeout(this.turning);
    if (first) this.open();
    else this.turning = setTimeout(() => { if (!document.hidden) this.open(); }, SETTLED);
  }

  open() {
    clearTimeout(this.retry);
    this.source?.close();
    this.heard = performance.now();
    const { view } = this, source = this.source = new EventSource(`${this.api}/events?${view.key}`), begun = new Set();
    const listen = (type, hear) => source.addEventListener(type, (event) => {
      if (this.source === source) { this.heard = performance.now(); hear(event); }
    });
    listen("open", () => this.link(true));
    listen("error", () => this.fail(source));
    // The first of each type has all of it, the others what has changed.
    for (const type of ["TABLE", "NODES", "OPEN"]) listen(type, (event) => {
      const data = JSON.parse(event.data), begins = !begun.has(type);
      begun.add(type);
      this.received += data.rows?.length ?? Object.keys(data).length;
      this.dispatchEvent(new CustomEvent(type.toLowerCase(), { detail: { view, begins, data } }));
    });
    listen("HEALTH", (event) => {
      this.report = JSON.parse(event.data);
      clock.follow(this.report.now);
      this.link(true);
      this.dispatchEvent(new Event("report"));
    });
  }

  close() {
    clearTimeout(this.retry);
    this.source?.close();
    this.source = null;
    this.link(false);
  }

  fail(source) {
    if (!source || this.source !== source) return;
    source.close();
    this.source = null;
    const tries = (this.lost?.tries ?? 0) + 1, pause = Math.min(LONGEST, 0.5 * 1.6 ** tries);
    this.lost = { since: this.lost?.since ?? Date.now() / 1000, tries, next: Date.now() / 1000 + pause };
    this.linked = false;
    this.dispatchEvent(new Event("link"));
    this.retry = setTimeout(() => { if (!this.source && !document.hidden) this.open(); }, pause * 1000);
  }

  link(up) {
    if (this.linked === up) return;
    this.linked = up;
    if (up) this.lost = null;
    this.dispatchEvent(new Event("link"));
  }

  about(resource) {
    return this.report?.resources.find((informer) => informer.name === resource);
  }

  // Of a resource that the user has no right to read: its missing rights and the reason.
  withheld(resource) {
    return this.report?.withheld.items.find((item) => item.resource === resource);
  }

  count(resource) {
    return this.about(resource)?.objects ?? 0;
  }

  // The number of objects of a level.
  level(resource, level) {
    return this.about(resource)?.levels[level] ?? 0;
  }

  async get(path, query = {}, form = "json") {
    return (await this.ask(path, query))[form]();
  }

  // The answer, whose body may still be coming.
  async ask(path, query = {}, options = {}) {
    const asked = new URLSearchParams(query).toString();
    const answer = await fetch(`${this.api}/${path}${asked ? `?${asked}` : ""}`, options);
    if (answer.ok) return answer;
    const told = await answer.json().catch(() => ({}));
    const text = typeof told.detail === "string" ? told.detail : `${answer.status} ${answer.statusText}`;
    throw Object.assign(new Error(text), { status: answer.status });
  }
}

// A row as the server sends it, with its parts by name.
export function rowOf(row) {
  const slash = row.k.indexOf("/");
  return Object.assign(row, { ns: slash < 0 ? "" : row.k.slice(0, slash), name: row.k.slice(slash + 1), level: row.h, at: 0 });
}
