// The panel of one object: its summary and relations, its changes, its Events, its logs, its YAML.

import { changes } from "./changes.js";
import { Logs } from "./logs.js";
import { occurrences } from "./occurrences.js";
import { relations } from "./relations.js";
import { rowOf } from "./store.js";
import { summary } from "./summary.js";
import { element } from "./words.js";
import { yaml } from "./yaml.js";

const PODS = "v1/pods";

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
    this.marks = null;  // of the object, and of what is related to it
    this.logs = new Logs(store);
    this.wide = document.getElementById("detail-wide");
    this.widths = { logs: true };  // tab -> true if the panel has all of the window
    this.wide.addEventListener("click", () => this.widen());
    this.gone = document.getElementById("detail-gone");
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
    if (fresh) this.marks = null;
    this.logs.close();
    for (const button of this.tabs) {
      button.setAttribute("aria-selected", String(button.dataset.tab === tab));
      button.tabIndex = button.dataset.tab === tab ? 0 : -1;
    }
    this.body.setAttribute("aria-labelledby", `tab-${tab}`);
    this.panel.hidden = false;
    this.widen(this.widths[tab] ?? false);
    if (fresh && this.body.contains(document.activeElement)) this.body.focus();  // a relation was followed
    this.body.replaceChildren();
    this.body.scrollTop = 0;
    this.read();
  }

  // Only pods have logs, and only a dashboard that was started for a cluster shows them.
  offer(resource) {
    const button = this.tabs.find((tab) => tab.dataset.tab === "logs"), hidden = resource !== PODS || this.store.report?.logs === false;
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
    document.body.classList.remove("wide");
  }

  widen(wide = !this.widths[this.tab]) {
    this.widths[this.tab] = wide;
    document.body.classList.toggle("wide", wide);
    this.wide.setAttribute("aria-pressed", String(wide));
  }

  // Reads the object again if it has changed, or what is related to it.
  noted({ data }) {
    if (this.place?.resource !== data.resource || this.place.key !== data.key) return;
    const was = this.marks, own = was?.own !== data.own, around = was?.around !== data.around && ["summary", "events"].includes(this.tab);
    this.marks = data;
    if (own || around) this.later(150);
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
    const rows = this.row({ resource, key });
    this.kind.textContent = `${this.store.about(resource)?.kind ?? resource}${key.includes("/") ? ` in ${key.split("/")[0]}` : ""}`;
    this.name.textContent = key.split("/").at(-1);
    let made, row, lost = false;
    try {
      made = await this.content({ resource, key }, rows);
      row = await rows;
    } catch (error) {
      row = await rows;
      this.tell(turn, row);
      if (!this.store.about(resource)) {
        this.draw(element("p", { class: "nothing failed" }, "Its resource is not followed yet."));
        return;
      }
      const gone = row === null || (error.status === 404 && this.tab !== "events");  // the server may know before its event is here
      if (gone && this.body.querySelector(":scope > :not(.failed)")) return;  // the last state stays in sight
      lost = gone;
      made = element("p", { class: "nothing failed" }, gone ? "It is gone." : `It cannot be read: ${error.message}`);
    }
    this.tell(turn, row);
    if (turn !== this.turn) return;
    this.gone.hidden ||= lost;
    this.draw(made);
  }

  // The row of an object: null if there is none, undefined if it cannot be read.
  async row(place) {
    try {
      return rowOf(await this.store.get("row", place));
    } catch (error) {
      return error.status === 404 ? null : undefined;
    }
  }

  tell(turn, row) {
    if (turn !== this.turn || !this.place) return;
    const gone = row === null && Boolean(this.store.about(this.place.resource)?.synced);
    this.panel.classList.toggle("gone", gone);
    this.gone.hidden = !gone;
  }

  async content(place, rows) {
    if (this.tab === "changes") return changes(await this.store.get("changes", place));
    if (this.tab === "yaml") return yaml(await this.store.get("object", { ...place, format: "yaml", last: true }, "text"));
    if (this.tab === "logs") {
      const pod = await this.store.get("object", { ...place, last: true });
      return this.tab === "logs" && this.place?.key === place.key ? this.logs.show(place.key, pod) : null;  // it may have been left meanwhile
    }
    if (this.tab === "events") {
      const answer = await this.store.get("occurrences", place);
      if (!answer.synced && !answer.items.length) this.later(500);
      return occurrences(answer);
    }
    const [object, groups, row] = await Promise.all([this.store.get("object", { ...place, last: true }), this.store.get("relations", place), rows]);
    const made = summary(object, row, this.store.about(place.resource));
    made.querySelector(".facts").after(relations(groups, this.href));
    return made;
  }

  // New content keeps the focus on the same link or button.
  draw(made) {
    const focused = this.body.contains(document.activeElement) ? document.activeElement : null;
    const name = focused?.dataset.focus;
    if (this.body.children.length !== 1 || this.body.firstChild !== made) this.body.replaceChildren(made);
    if (!focused || focused === this.body) return;
    (name ? [...this.body.querySelectorAll("[data-focus]")].find((target) => target.dataset.focus === name) ?? this.body : this.body).focus({ preventScroll: true });
  }
}
