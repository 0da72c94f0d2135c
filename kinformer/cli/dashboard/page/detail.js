// The panel of one object: its summary and relations, its changes, its Events, its logs, its YAML.

import { changes } from "./changes.js";
import { Logs } from "./logs.js";
import { occurrences } from "./occurrences.js";
import { relations } from "./relations.js";
import { summary } from "./summary.js";
import { element } from "./words.js";
import { yaml } from "./yaml.js";

const EVENTS = "v1/events", PODS = "v1/pods";

export class Detail {
  constructor(store, { closed, chosen, href }) {
    Object.assign(this, { store, closed, chosen, href });
    this.panel = document.getElementById("detail");
    this.body = document.getElementById("detail-body");
    this.kind = document.getElementById("detail-kind");
    this.name = document.getElementById("detail-name");
    this.tabs = [...this.panel.querySelectorAll("[role=tab]")];
    this.tab = "";
    this.place = null;
    this.turn = 0;
    this.related = new Set();
    this.logs = new Logs(store);
    document.getElementById("detail-close").addEventListener("click", () => this.closed());
    for (const button of this.tabs) button.addEventListener("click", () => this.chosen(button.dataset.tab));
    this.panel.querySelector("[role=tablist]").addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      const shown = this.tabs.filter((button) => !button.hidden);
      const next = shown[(shown.indexOf(event.target) + step + shown.length) % shown.length];
      next.focus();
      this.chosen(next.dataset.tab);
      event.preventDefault();
      event.stopPropagation();
    });
  }

  get open() {
    return this.place !== null;
  }

  show({ resource, key }, wanted) {
    this.offer(resource);
    const tab = this.tabs.some((button) => button.dataset.tab === wanted && !button.hidden) ? wanted : "summary";
    if (this.place?.resource === resource && this.place.key === key && this.tab === tab) return;
    const fresh = this.place?.resource !== resource || this.place.key !== key;
    this.place = { resource, key };
    this.tab = tab;
    this.related.clear();
    this.logs.close();
    for (const button of this.tabs) {
      button.setAttribute("aria-selected", String(button.dataset.tab === tab));
      button.tabIndex = button.dataset.tab === tab ? 0 : -1;
    }
    this.body.setAttribute("aria-labelledby", `tab-${tab}`);
    this.panel.hidden = false;
    document.body.classList.add("with-detail");
    if (fresh && this.body.contains(document.activeElement)) this.body.focus();  // a relation was followed
    this.body.replaceChildren();
    this.body.scrollTop = 0;
    this.read();
  }

  // Only pods have logs, and only a dashboard that was started for a cluster shows them.
  offer(resource) {
    const button = this.tabs.find((one) => one.dataset.tab === "logs"), hidden = resource !== PODS || this.store.report?.logs === false;
    if (button.hidden !== hidden) button.hidden = hidden;
    return hidden;
  }

  // A report may say that there are no logs.
  report() {
    if (this.place && this.offer(this.place.resource) && this.tab === "logs") this.show(this.place, "summary");
  }

  hide() {
    this.place = null;
    this.panel.hidden = true;
    this.logs.close();
    document.body.classList.remove("with-detail");
  }

  update(changed) {
    if (!this.place) return;
    const own = changed.has(`${this.place.resource} ${this.place.key}`);
    if (own || this.concerns(changed)) this.later(own ? 150 : 1000);
  }

  // True if a change is of what is related, or of what may be by now.
  concerns(changed) {
    if (this.tab === "summary") {
      const { resource, key } = this.place, node = resource === "v1/nodes" ? key : null;
      for (const [place, row] of changed) {
        if (this.related.has(place) || (row?.o && this.related.has(`owner ${row.ns} ${row.o}`))) return true;
        if (node && row?.s === "v1/pods" && this.store.cell(row.s, row, "NODE") === node) return true;
      }
    } else if (this.tab === "events") for (const place of changed.keys()) if (place.startsWith(`${EVENTS} `)) return true;
    return false;
  }

  later(pause) {
    if (this.soon && this.due <= performance.now() + pause) return;
    clearTimeout(this.soon);
    this.due = performance.now() + pause;
    this.soon = setTimeout(() => { this.soon = 0; this.read(); }, pause);
  }

  async read() {
    if (!this.place) return;
    const { resource, key } = this.place, turn = ++this.turn;
    const row = this.store.rows.get(resource)?.get(key);
    this.kind.textContent = `${this.store.about(resource)?.kind ?? resource}${key.includes("/") ? ` in ${key.split("/")[0]}` : ""}`;
    this.name.textContent = key.split("/").at(-1);
    this.panel.classList.toggle("gone", !row && this.store.linked && !this.store.loading && Boolean(this.store.about(resource)?.synced));
    let made;
    try {
      made = await this.content({ resource, key }, row);
    } catch (error) {
      if (!this.store.about(resource)) {
        this.draw(element("p", { class: "nothing failed" }, "Its resource is not followed yet."));
        return;
      }
      const gone = !row || (error.status === 404 && this.tab !== "events");  // the server may know before its event is here
      if (gone && this.body.querySelector(":scope > :not(.failed)")) return;  // the last state stays in sight
      made = element("p", { class: "nothing failed" }, gone ? "It is gone." : `It cannot be read: ${error.message}`);
    }
    if (turn === this.turn) this.draw(made);
  }

  async content(place, row) {
    if (this.tab === "changes") return changes(await this.store.get("changes", place));
    if (this.tab === "yaml") return yaml(await this.store.get("object", { ...place, format: "yaml" }, "text"));
    if (this.tab === "logs") {
      const pod = await this.store.get("object", place);
      return this.tab === "logs" && this.place?.key === place.key ? this.logs.show(place.key, pod) : null;  // it may have been left meanwhile
    }
    if (this.tab === "events") {
      const found = await this.store.get("occurrences", place);
      if (!found.synced && !found.items.length) this.later(500);
      return occurrences(found);
    }
    const [object, groups] = await Promise.all([this.store.get("object", place), this.store.get("relations", place)]);
    const kind = this.store.about(place.resource)?.kind ?? "";
    this.related = new Set([`owner ${row?.ns ?? ""} ${kind}/${row?.name ?? ""}`]);
    for (const group of groups) for (const item of group.items) {
      this.related.add(`${item.resource} ${item.key}`);
      this.related.add(`owner ${row?.ns ?? ""} ${item.kind}/${item.name}`);
    }
    const made = summary(object, row, this.store.about(place.resource));
    made.querySelector(".facts").after(relations(groups, this.store, this.href));
    return made;
  }

  // New content keeps the focus on the same link or button.
  draw(made) {
    const focused = this.body.contains(document.activeElement) ? document.activeElement : null;
    const name = focused?.dataset.focus;
    if (this.body.children.length !== 1 || this.body.firstChild !== made) this.body.replaceChildren(made);
    if (!focused || focused === this.body) return;
    (name ? [...this.body.querySelectorAll("[data-focus]")].find((one) => one.dataset.focus === name) ?? this.body : this.body).focus({ preventScroll: true });
  }
}
