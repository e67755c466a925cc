// One iPhone with its Lock Screen: the clock, the Live Activity and the Dynamic Island's compact form.

import { hueOf } from "/field.js";

const ALERT_MILLISECONDS = 2000;

export function make(tag, className = "", text = "") {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text) node.textContent = text;
  return node;
}

// "driverEnRoute" becomes "Driver en route".
export function words(name) {
  const text = String(name).replace(/([a-z0-9])([A-Z])/g, (_, end, begin) => `${end} ${begin.toLowerCase()}`);
  return text.charAt(0).toUpperCase() + text.slice(1);
}

const initials = (team) => team === "Sunrisers Hyderabad" ? "SRH"
  : team.split(" ").map((word) => word === word.toUpperCase() ? word : word[0]).join("");

const count = (number, noun) => `${number} ${noun}${number === 1 ? "" : "s"}`;

// Returns the parts of a card for any content state. Cricket and other scores have their own layouts. Of any other state, the card shows
// one text and at most two numbers.
export function reading(attributes = {}, content = {}) {
  if ("batting" in content && "overs" in content) return cricket(attributes, content);
  const goals = ["homeGoals", "awayGoals"].every((name) => name in content) ? [content.homeGoals, content.awayGoals]
    : typeof content.home === "number" && typeof content.away === "number" ? [content.home, content.away] : null;
  if (goals) {
    const [home, away] = [attributes.home ?? "Home", attributes.away ?? "Away"];
    return {
      tint: home, side: home, other: away, score: `${goals[0]}–${goals[1]}`, small: content.minute ? `${content.minute}′` : "",
      line: content.phase ? words(content.phase) : "", chips: [], compact: [home.slice(0, 3).toUpperCase(), `${goals[0]}–${goals[1]}`],
    };
  }
  const texts = Object.entries(content).filter(([, value]) => typeof value === "string");
  const numbers = Object.entries(content).filter(([, value]) => typeof value === "number").slice(0, 2);
  const [, first] = texts.find(([name]) => /status|phase|state/i.test(name)) ?? texts[0] ?? ["", ""];
  const title = Object.values(attributes).find((value) => typeof value === "string" && /[a-z]{3}/i.test(value)) ?? "";
  const number = numbers[0];
  return {
    tint: String(first), side: title, other: "", score: words(first), small: "", isText: true,
    line: numbers.map(([name, value]) => `${words(name)} ${value}`).join(" · "), chips: [],
    compact: [words(first).split(" ")[0], number ? String(Math.round(number[1] * 10) / 10) : ""],
  };
}

function cricket(attributes, content) {
  const score = `${content.runs}/${content.wickets}`;
  let line = `${content.bowling} bowling`;
  if (content.result) line = content.result;
  else if (content.phase === "upcoming") line = `v ${content.bowling}, ${attributes.venue ?? ""}`;
  else if (content.phase === "inningsBreak") line = "Innings break";
  else if (content.target) line = content.runsNeeded === 0 ? "Target reached" : `need ${content.runsNeeded} from ${content.ballsLeft}`;
  else if (content.runRate) line = `run rate ${content.runRate.toFixed(2)}`;
  const balls = content.thisOver ? content.thisOver.split(" ").slice(-7) : [];
  return {
    tint: content.batting, side: content.batting, other: content.bowling, score, small: content.overs,
    line, detail: content.firstInnings ?? "", chips: content.result ? [] : balls,
    compact: [content.batting, score], batter: content.striker,
  };
}

export class Phone {
  constructor(onOpen) {
    this.node = make("button", "phone");
    this.node.type = "button";
    const screen = make("span", "screen");
    this.island = make("span", "island");
    this.lead = make("b");
    this.trail = make("b");
    this.banner = make("span", "banner");
    this.bannerTitle = make("b");
    this.bannerBody = make("span");
    this.banner.append(this.bannerTitle, this.bannerBody);
    this.island.append(this.lead, this.trail, this.banner);
    this.date = make("span", "date");
    this.clock = make("span", "clock");
    this.card = make("span", "card");
    const foot = make("span", "foot");
    foot.append(make("i", "torch"), make("i", "camera"), make("i", "home"));
    screen.append(this.island, this.date, this.clock, this.card, foot);
    this.node.append(screen);
    this.node.addEventListener("click", () => this.phone !== undefined && onOpen(this.phone));
    this.alertAt = 0;
  }

  tell(now) {
    const date = new Date(now);
    const clock = date.toLocaleTimeString("en-GB", { hour: "numeric", minute: "2-digit" });
    if (this.clock.textContent !== clock) {
      this.clock.textContent = clock;
      this.date.textContent = date.toLocaleDateString("en-GB", { weekday: "long", day: "numeric", month: "long" });
    }
  }

  // Shows a phone as GET /screens describes it. isQuiet: do not flash or ring, because the page does not know what the
  // phone showed before.
  show(view, isQuiet = false) {
    const isOther = view.phone !== this.phone;
    const isNewPush = !isOther && (view.pushesAt5 !== this.view?.pushesAt5 || view.pushesAt10 !== this.view?.pushesAt10);
    this.phone = view.phone;
    this.view = view;
    this.node.dataset.phone = view.phone;
    this.node.dataset.state = view.state;
    this.node.dataset.shows = JSON.stringify(view.content ?? null);
    const isShown = ["active", "stale", "ended"].includes(view.state) && view.content;
    const said = isShown ? reading(view.attributes, view.content) : null;
    const home = view.attributes?.home ?? view.attributes?.restaurant ?? view.device;
    this.node.style.setProperty("--paper", hueOf(initials(String(home))));
    this.node.style.setProperty("--tint", said ? hueOf(said.tint) : 0);
    this.node.setAttribute("aria-label", `${view.device}: ${said ? `${said.side} ${said.score} ${said.small}, ${said.line}` : "no activity"}`);
    this.draw(said, view);
    if (view.alertAt && view.alertAt > this.alertAt && !isOther && !isQuiet) this.ring(view.alert, view.priority);
    this.alertAt = view.alertAt ?? 0;
    if (isNewPush && !isQuiet) this.flash(view.priority);
  }

  draw(said, view) {
    this.card.hidden = !said;
    this.lead.textContent = said && view.state !== "ended" ? said.compact[0] : "";
    this.trail.textContent = said && view.state !== "ended" ? said.compact[1] : "";
    this.island.classList.toggle("compact", Boolean(said) && view.state !== "ended");
    if (!said) return this.card.replaceChildren();
    const head = make("span", "head");
    head.append(make("i", "dot"), make("span", "side", said.side));
    if (said.other) head.append(make("span", "other", `v ${said.other}`));
    head.append(make("span", "when", view.state === "ended" ? "Final" : view.state === "stale" ? "Not up to date" : "Live"));
    const figure = make("span", said.isText ? "figure text" : "figure");
    figure.append(make("b", "", said.score));
    if (said.small) figure.append(make("small", "", said.small));
    const parts = [head, figure, make("span", "line", said.line)];
    if (said.chips.length) {
      const chips = make("span", "chips");
      for (const ball of said.chips) chips.append(make("i", /W/.test(ball) ? "wicket" : /[46]/.test(ball) ? "boundary" : "", ball === "." ? "·" : ball));
      parts.push(chips);
    } else if (said.detail) {
      parts.push(make("span", "detail", said.detail));
    }
    this.card.replaceChildren(...parts);
  }

  flash(priority) {
    const name = priority === 10 ? "flash10" : "flash5";
    this.card.classList.remove("flash5", "flash10");
    void this.card.offsetWidth;
    this.card.classList.add(name);
  }

  ring(alert, priority) {
    if (!alert) return;
    const text = (value) => typeof value === "string" ? value : value?.["loc-key"] ?? "";
    this.bannerTitle.textContent = text(alert.title) || text(alert);
    this.bannerBody.textContent = text(alert.body);
    this.island.classList.add("ringing");
    this.node.classList.toggle("urgent", priority === 10);
    clearTimeout(this.ringing);
    this.ringing = setTimeout(() => this.island.classList.remove("ringing"), ALERT_MILLISECONDS);
  }
}

export { count };
