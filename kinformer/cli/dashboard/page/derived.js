// The derived collections of a service: a graph of what they read, and a card for each, with its figures.

import { Chart } from "./chart.js";
import { graphOf } from "./graph.js";
import { element, meaning, number } from "./words.js";

const CHARTS = [
  ["events", "changes a second", (one, before, seconds) => (before ? (one.events - before.events) / seconds : null), 4],
  ["waiting", "waiting", (one) => one.waiting + one.pending, 4],
];
const FACTS = ["values", "runs", "failures", "dependencies", "coalesced", "errors"];

export class Derived {
  constructor(holder) {
    this.holder = holder;
    this.cards = new Map();
    this.drawn = "";
    this.graph = element("div", { class: "graph" });
    this.figure = element("figure", { class: "card derived-graph", hidden: true }, element("h2", {}, "Derived collections"), this.graph);
    holder.append(this.figure);
  }

  report(all, before, seconds) {
    for (const one of all) {
      const card = this.card(one.name), last = before?.find((other) => other.name === one.name);
      for (const [name, , read] of CHARTS) card.charts[name].push(read(one, last, seconds));
    }
    for (const [name, card] of this.cards) {
      if (!all.some((one) => one.name === name)) { card.made.remove(); this.cards.delete(name); }
    }
  }

  card(name) {
    let card = this.cards.get(name);
    if (card) return card;
    card = { charts: {}, figures: {}, facts: {} };
    card.state = element("span", { class: "pill" });
    card.error = element("p", { class: "card-error", hidden: true });
    card.reads = element("p", { class: "quiet" });
    const charts = CHARTS.map(([key, label]) => {
      const canvas = element("canvas", { class: `chart ${key}`, role: "img", "aria-label": `${label}, in the last minute` });
      card.charts[key] = new Chart(canvas);
      card.figures[key] = element("b", {}, "–");
      return element("div", { class: "measure" }, element("div", {}, card.figures[key], element("span", { class: "quiet" }, label)), canvas);
    });
    const facts = FACTS.map((key) => {
      card.facts[key] = element("dd", {});
      return element("div", {}, element("dt", {}, key), card.facts[key]);
    });
    card.made = element("article", { class: "card informer derived" },
      element("header", {}, element("h2", {}, name), card.state), card.error, card.reads,
      element("div", { class: "measures" }, ...charts), element("dl", { class: "facts" }, ...facts));
    this.cards.set(name, card);
    this.holder.append(card.made);
    return card;
  }

  draw(all) {
    this.figure.hidden = !all.length;
    if (!all.length) return;
    const edges = all.map((one) => [one.name, one.reads]), shape = JSON.stringify(edges);
    if (shape !== this.drawn) {
      this.drawn = shape;
      this.graph.replaceChildren(graphOf(edges));
    }
    for (const one of all) {
      const card = this.card(one.name), state = one.synced ? one.state : "starting";
      card.state.textContent = state.replace("_", " ");
      card.state.className = `pill ${one.live && one.synced ? "good" : meaning(state) || "busy"}`;
      card.error.hidden = !one.error;
      card.error.textContent = one.error ?? "";
      card.reads.textContent = one.reads.length ? `reads ${one.reads.join(", ")}` : "reads nothing yet";
      for (const [name, , , floor] of CHARTS) {
        const values = card.charts[name].values, value = values[values.length - 1] ?? null;
        card.figures[name].textContent = value === null ? "–" : number.format(Math.round(value * 10) / 10);
        card.charts[name].draw(floor);
      }
      for (const key of FACTS) card.facts[key].textContent = number.format(one[key]);
    }
  }
}
