// The store: rows by resource, kept equal to the server's caches by one event stream.

import * as clock from "./clock.js";
import { Levels } from "./levels.js";

const SILENCE = 6;     // seconds without an event, of which there is one a second, after which the stream counts as lost
const LONGEST = 5;     // seconds between two tries to connect

export class Store extends EventTarget {
  constructor(api) {
    super();
    this.api = api;
    this.rows = new Map();      // resource -> Map(key -> row)
    this.incoming = null;       // the same, while a new snapshot comes in beside rows that are shown
    this.namespaces = new Map(); // namespace -> number of rows
    this.levels = new Levels();
    this.report = null;         // how the informers do
    this.linked = false;
    this.lost = null;           // since when the page's own server does not answer: { since, tries, next }
    this.loading = null;        // a snapshot that comes in: { received, total }
    this.received = 0;          // events, since the page was opened
    this.dirty = new Set();     // resources that changed since the last frame
    this.changed = new Map();   // "resource key" -> row, or null if it is gone, since the last frame
    this.lastId = "";
    this.frame = 0;
    this.heard = performance.now();
    this.open();
    // A browser has six connections to a server, over all of its tabs: a tab that is not in sight gives its own back.
    document.addEventListener("visibilitychange", () => {
      clearTimeout(this.parking);
      this.heard = performance.now();
      if (document.hidden) this.parking = setTimeout(() => this.close(), 30_000);
      else if (!this.source) this.open();
    });
    setInterval(() => {
      if (this.linked && !document.hidden && performance.now() - this.heard > SILENCE * 1000) this.fail(this.source);
      this.age();
    }, 1000);
  }

  open() {
    clearTimeout(this.retry);
    const resume = this.lastId ? `?last-event-id=${encodeURIComponent(this.lastId)}` : "";
    const source = this.source = new EventSource(`${this.api}/events${resume}`);
    const listen = (type, hear) => source.addEventListener(type, (event) => {
      if (this.source === source) { this.heard = performance.now(); hear(event); }
    });
    listen("open", () => {
      if (!this.lastId) this.begin();  // without an id the server sends all of it
      this.link(true);
    });
    listen("error", () => this.fail(source));
    for (const type of ["ADDED", "UPDATED", "DELETED"]) listen(type, (event) => this.apply(type, event));
    listen("RESET", () => this.begin());
    listen("HEALTH", (event) => {
      if (event.lastEventId) this.arrived(event.lastEventId);  // also of a snapshot without any row
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
    // A snapshot that was cut in the middle is void.
    this.incoming = this.loading = null;
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

  // A snapshot follows. Rows that are shown stay until it is complete.
  begin() {
    this.lastId = "";
    const loading = this.loading = { received: 0, total: 0 };
    this.incoming = this.rows.size ? new Map() : null;
    fetch(`${this.api}/counts`).then((answer) => answer.json()).then((counts) => {
      loading.total = Object.values(counts).reduce((sum, one) => sum + one.objects, 0);
    }).catch(() => { /* the number is not known then; the rows come all the same */ });
  }

  // The last event of a snapshot has an id: it is complete.
  arrived(id) {
    this.lastId = id;
    if (!this.loading) return;
    this.loading = null;
    if (this.incoming) {
      const before = this.rows, after = this.incoming;
      this.incoming = null;
      this.rows = after;
      for (const [resource, rows] of before) {
        this.dirty.add(resource);
        for (const key of rows.keys()) if (!after.get(resource)?.has(key)) this.changed.set(`${resource} ${key}`, null);
      }
      this.namespaces.clear();
      this.levels.clear();
      for (const [resource, rows] of after) {
        this.dirty.add(resource);
        for (const [key, row] of rows) {
          this.changed.set(`${resource} ${key}`, row);
          this.countNamespace(row.ns, 1);
          this.levels.change(resource, null, row);
        }
      }
      this.schedule();
    }
    this.dispatchEvent(new Event("link"));
  }

  apply(type, event) {
    const row = JSON.parse(event.data), shown = this.incoming ?? this.rows;
    this.received += 1;
    if (this.loading) this.loading.received += 1;
    let rows = shown.get(row.s);
    if (!rows) shown.set(row.s, rows = new Map());
    const slash = row.k.indexOf("/"), old = rows.get(row.k), had = old !== undefined;
    row.ns = slash < 0 ? "" : row.k.slice(0, slash);
    if (type === "DELETED") rows.delete(row.k);
    else {
      row.name = row.k.slice(slash + 1);
      row.at = type === "UPDATED" ? performance.now() : 0;
      rows.set(row.k, row);
    }
    if (shown === this.rows) {
      if (had !== (type !== "DELETED")) this.countNamespace(row.ns, had ? -1 : 1);
      this.levels.change(row.s, old, type === "DELETED" ? null : row);
      this.changed.set(`${row.s} ${row.k}`, type === "DELETED" ? null : row);
      this.dirty.add(row.s);
      this.schedule();
    }
    if (event.lastEventId) this.arrived(event.lastEventId);
  }

  // Rows that have become bad by the time alone. Each gets another row, since tables find rows by what they were.
  age() {
    for (const row of this.levels.changed()) {
      const later = { ...row, at: 0 };
      this.levels.change(row.s, row, later);
      this.rows.get(row.s).set(row.k, later);
      this.changed.set(`${row.s} ${row.k}`, later);
      this.dirty.add(row.s);
      this.schedule();
    }
  }

  countNamespace(name, by) {
    if (!name) return;
    const count = (this.namespaces.get(name) ?? 0) + by;
    if (count > 0) this.namespaces.set(name, count);
    else this.namespaces.delete(name);
  }

  // However many events come in, the page is drawn once a frame at the most.
  schedule() {
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      const dirty = this.dirty, changed = this.changed;
      this.dirty = new Set();
      this.changed = new Map();
      this.dispatchEvent(new CustomEvent("rows", { detail: { dirty, changed } }));
    });
  }

  count(resource) {
    return this.rows.get(resource)?.size ?? 0;
  }

  about(resource) {
    return this.report?.resources.find((one) => one.name === resource);
  }

  // The word in a column of a row, without what grows in it.
  cell(resource, row, column) {
    const place = this.about(resource)?.columns.indexOf(column) ?? -1, cell = place < 0 ? "" : row?.c[place] ?? "";
    return Array.isArray(cell) ? cell[0] : cell;
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
