// Cards of figures: the state and the most important facts of a collection, and folded the others, with the last minute.

import { Chart } from "./chart.js";
import { element, meaning, number } from "./words.js";

export class Cards {
  // A chart is [name, label, read(subject, before, seconds), write(value), floor], a fact [name, text(subject) or null]. A
  // subject is the report on an informer or a collection.
  constructor(holder, kind, { charts, facts, rest, note }) {
    Object.assign(this, { holder, kind, charts, facts, rest, note });
    this.cards = new Map();
  }

  report(all, before, seconds) {
    for (const subject of all) {
      const last = before?.find((other) => other.name === subject.name), card = this.card(subject.name);
      for (const [name, , read] of this.charts) card.charts[name].push(read(subject, last, seconds));
    }
    for (const [name, card] of this.cards) {
      if (!all.some((subject) => subject.name === name)) { card.made.remove(); this.cards.delete(name); }
    }
  }

  card(name) {
    let card = this.cards.get(name);
    if (card) return card;
    card = { charts: {}, figures: {}, facts: {}, state: element("span", { class: "pill" }), error: element("p", { class: "card-error", hidden: true }) };
    card.note = this.note ? element("p", { class: "quiet" }) : null;
    const charts = this.charts.map(([key, label]) => {
      const canvas = element("canvas", { class: `chart ${key}`, role: "img", "aria-label": `${label}, in the last minute` });
      card.charts[key] = new Chart(canvas);
      card.figures[key] = element("b", {}, "–");
      return element("div", { class: "measure" }, element("div", {}, card.figures[key], element("span", { class: "quiet" }, label)), canvas);
    });
    const facts = (pairs) => element("dl", { class: "facts" }, ...pairs.map(([key]) => {
      card.facts[key] = element("dd", {});
      return element("div", {}, element("dt", {}, key), card.facts[key]);
    }));
    card.made = element("article", { class: `card informer ${this.kind}` },
      element("header", {}, element("h2", {}, name), card.state), card.error, card.note, facts(this.facts),
      element("details", { ontoggle: () => this.drawCharts(card) }, element("summary", {}, "Figures"),
        element("div", { class: "measures" }, ...charts), facts(this.rest)));
    this.cards.set(name, card);
    this.holder.append(card.made);
    return card;
  }

  draw(all) {
    for (const subject of all) {
      const card = this.card(subject.name), state = subject.synced || subject.error ? subject.state : "starting";
      card.state.textContent = state.replace("_", " ");
      card.state.className = `pill ${subject.live && subject.synced ? "good" : meaning(state) || "busy"}`;
      card.error.hidden = !subject.error;
      card.error.textContent = subject.error ?? "";
      if (card.note) card.note.textContent = this.note(subject);
      for (const [name, text] of [...this.facts, ...this.rest]) {
        const words = text(subject);
        card.facts[name].parentElement.hidden = words === null;
        card.facts[name].textContent = words ?? "";
      }
      this.drawCharts(card);
    }
  }

  drawCharts(card) {
    for (const [name, , , write, floor] of this.charts) {
      const value = card.charts[name].values.at(-1) ?? null;
      card.figures[name].textContent = value === null ? "–" : write(value);
      card.charts[name].draw(floor);
    }
  }
}

// Changes a second since the report before.
export function changesPerSecond(subject, before, seconds) {
  return before ? (subject.events - before.events) / seconds : null;
}

export const counted = (...names) => names.map((name) => [name, (subject) => number.format(subject[name])]);
export const tenths = (value) => number.format(Math.round(value * 10) / 10);
