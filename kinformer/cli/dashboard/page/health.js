// The informers: a card for each, with its state, and folded its figures over the last minute.

import { Chart } from "./chart.js";
import { Derived } from "./derived.js";
import { age, bytes, element, meaning, number } from "./words.js";

const CHARTS = [
  ["events", "changes a second", (one, before, seconds) => (before ? (one.events - before.events) / seconds : null), (value) => number.format(Math.round(value * 10) / 10), 4],
  ["age", "since the last event", (one) => one.event_age, (value) => age(value), 10],
  ["waiting", "waiting", (one) => one.queued + one.pending, (value) => number.format(value), 4],
  ["memory", "memory", (one) => one.memory, bytes, 1],
];

export class Health {
  constructor(store) {
    this.store = store;
    this.cards = new Map();
    this.shown = false;
    this.holder = document.getElementById("cards");
    this.process = document.getElementById("process");
    this.before = null;
    this.derived = new Derived(this.holder);
  }

  show() {
    this.shown = true;
    this.draw();
  }

  hide() {
    this.shown = false;
  }

  report() {
    const report = this.store.report, before = this.before;
    const seconds = before ? Math.max(0.1, report.now - before.now) : 1;
    for (const one of report.resources) {
      const card = this.card(one.name);
      const last = before?.resources.find((other) => other.name === one.name);
      for (const [name, , read] of CHARTS) card.charts[name].push(read(one, last, seconds));
    }
    for (const [name, card] of this.cards) {
      if (!report.resources.some((one) => one.name === name)) { card.made.remove(); this.cards.delete(name); }
    }
    this.derived.report(report.derived, before?.derived, seconds);
    this.before = report;
    if (this.shown && !document.hidden) this.draw();
  }

  card(name) {
    let card = this.cards.get(name);
    if (card) return card;
    card = { charts: {}, figures: {}, rest: {} };
    card.state = element("span", { class: "pill" });
    card.error = element("p", { class: "card-error", hidden: true });
    const charts = CHARTS.map(([key, label]) => {
      const canvas = element("canvas", { class: `chart ${key}`, role: "img", "aria-label": `${label}, in the last minute` });
      card.charts[key] = new Chart(canvas);
      card.figures[key] = element("b", {}, "–");
      return element("div", { class: "measure" }, element("div", {}, card.figures[key], element("span", { class: "quiet" }, label)), canvas);
    });
    const facts = (...keys) => element("dl", { class: "facts" }, ...keys.map((key) => {
      card.rest[key] = element("dd", {});
      return element("div", {}, element("dt", {}, key), card.rest[key]);
    }));
    const rest = element("details", { ontoggle: () => this.draw() }, element("summary", {}, "Figures"), element("div", { class: "measures" }, ...charts),
      facts("relists", "watches", "failures", "coalesced", "received", "version", "proved", "holder"));
    card.made = element("article", { class: "card informer" },
      element("header", {}, element("h2", {}, name), card.state), card.error, facts("objects", "last event", "errors"), rest);
    this.cards.set(name, card);
    this.holder.append(card.made);
    return card;
  }

  draw() {
    const report = this.store.report;
    if (!report) return;
    this.process.textContent = `${bytes(report.memory)} in this process, up ${age(report.now - report.began)}`;
    for (const one of report.resources) {
      const card = this.card(one.name);
      card.state.textContent = one.state.replace("_", " ");
      card.state.className = `pill ${one.live ? "good" : meaning(one.state) || "busy"}`;
      card.error.hidden = !one.error;
      card.error.textContent = one.error ?? "";
      for (const [name, , , write, floor] of CHARTS) {
        const values = card.charts[name].values, value = values[values.length - 1] ?? null;
        card.figures[name].textContent = value === null ? "–" : write(value);
        card.charts[name].draw(floor);
      }
      const causes = Object.entries(one.relists).map(([cause, count]) => `${count} ${cause.replace("_", " ")}`).join(", ");
      card.rest.objects.textContent = one.synced ? number.format(one.objects) : "–";
      card.rest["last event"].textContent = one.event_age === null ? "–" : `${age(one.event_age)} ago`;
      card.rest.relists.textContent = causes || "none";
      card.rest.watches.textContent = number.format(one.watches);
      card.rest.failures.textContent = number.format(one.failures);
      card.rest.coalesced.textContent = number.format(one.coalesced);
      card.rest.errors.textContent = number.format(one.errors);
      card.rest.received.textContent = bytes(one.received);
      card.rest.version.textContent = one.version || "–";
      card.rest.proved.textContent = one.staleness === null ? "never" : `${age(one.staleness)} ago`;
      card.rest.holder.parentElement.hidden = one.holder === null;
      card.rest.holder.textContent = `process ${one.holder}`;
    }
    this.derived.draw(report.derived);
  }
}
