// One iPhone with its Lock Screen: the clock, the Live Activity and the Dynamic Island's compact form.

import { hueOf } from "/phonegrid.js";

const ALERT_MILLISECONDS = 2000;

export function makeElement(tag, className = "", text = "") {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text) node.textContent = text;
  return node;
}

// "driverEnRoute" becomes "Driver en route".
export function toWords(name) {
  const text = String(name).replace(/([a-z0-9])([A-Z])/g, (_, end, begin) => `${end} ${begin.toLowerCase()}`);
  return text.charAt(0).toUpperCase() + text.slice(1);
}

const teamInitials = (team) => team === "Sunrisers Hyderabad" ? "SRH"
  : team.split(" ").map((word) => word === word.toUpperCase() ? word : word[0]).join("");

const formatCount = (number, noun) => `${number} ${noun}${number === 1 ? "" : "s"}`;

// Returns the parts of a card for any content state. Cricket and other scores have their own layouts. Of any other
// state, the card shows one text and at most two numbers.
export function cardParts(attributes = {}, content = {}) {
  if ("batting" in content && "overs" in content) return cricketCardParts(attributes, content);
  const goals = ["homeGoals", "awayGoals"].every((name) => name in content) ? [content.homeGoals, content.awayGoals]
    : typeof content.home === "number" && typeof content.away === "number" ? [content.home, content.away] : null;
  if (goals) {
    const [home, away] = [attributes.home ?? "Home", attributes.away ?? "Away"];
    return {
      tint: home, side: home, other: away, score: `${goals[0]}–${goals[1]}`, small: content.minute ? `${content.minute}′` : "",
      line: content.phase ? toWords(content.phase) : "", chips: [], compact: [home.slice(0, 3).toUpperCase(), `${goals[0]}–${goals[1]}`],
    };
  }
  const texts = Object.entries(content).filter(([, value]) => typeof value === "string");
  const numbers = Object.entries(content).filter(([, value]) => typeof value === "number").slice(0, 2);
  const [, first] = texts.find(([name]) => /status|phase|state/i.test(name)) ?? texts[0] ?? ["", ""];
  const title = Object.values(attributes).find((value) => typeof value === "string" && /[a-z]{3}/i.test(value)) ?? "";
  const number = numbers[0];
  return {
    tint: String(first), side: title, other: "", score: toWords(first), small: "", isText: true,
    line: numbers.map(([name, value]) => `${toWords(name)} ${value}`).join(" · "), chips: [],
    compact: [toWords(first).split(" ")[0], number ? String(Math.round(number[1] * 10) / 10) : ""],
  };
}

function cricketCardParts(attributes, content) {
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

export class LockScreen {
  constructor(onOpen) {
    this.node = makeElement("button", "phone");
    this.node.type = "button";
    const screen = makeElement("span", "screen");
    this.island = makeElement("span", "island");
    this.islandLeading = makeElement("b");
    this.islandTrailing = makeElement("b");
    this.banner = makeElement("span", "banner");
    this.bannerTitle = makeElement("b");
    this.bannerBody = makeElement("span");
    this.banner.append(this.bannerTitle, this.bannerBody);
    this.island.append(this.islandLeading, this.islandTrailing, this.banner);
    this.date = makeElement("span", "date");
    this.clock = makeElement("span", "clock");
    this.card = makeElement("span", "card");
    const foot = makeElement("span", "foot");
    foot.append(makeElement("i", "torch"), makeElement("i", "camera"), makeElement("i", "home"));
    screen.append(this.island, this.date, this.clock, this.card, foot);
    this.node.append(screen);
    this.node.addEventListener("click", () => this.phone !== undefined && onOpen(this.phone));
    this.alertAt = 0;
  }

  showTime(now) {
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
    const isOtherPhone = view.phone !== this.phone;
    const isNewPush = !isOtherPhone && (view.pushesAt5 !== this.view?.pushesAt5 || view.pushesAt10 !== this.view?.pushesAt10);
    this.phone = view.phone;
    this.view = view;
    this.node.dataset.phone = view.phone;
    this.node.dataset.state = view.state;
    this.node.dataset.shows = JSON.stringify(view.content ?? null);
    const isShown = ["active", "stale", "ended"].includes(view.state) && view.content;
    const parts = isShown ? cardParts(view.attributes, view.content) : null;
    const home = view.attributes?.home ?? view.attributes?.restaurant ?? view.device;
    this.node.style.setProperty("--paper", hueOf(teamInitials(String(home))));
    this.node.style.setProperty("--tint", parts ? hueOf(parts.tint) : 0);
    this.node.setAttribute("aria-label", `${view.device}: ${parts ? `${parts.side} ${parts.score} ${parts.small}, ${parts.line}` : "no activity"}`);
    this.drawCard(parts, view);
    if (view.alertAt && view.alertAt > this.alertAt && !isOtherPhone && !isQuiet) this.ring(view.alert, view.priority);
    this.alertAt = view.alertAt ?? 0;
    if (isNewPush && !isQuiet) this.flash(view.priority);
  }

  drawCard(parts, view) {
    this.card.hidden = !parts;
    this.islandLeading.textContent = parts && view.state !== "ended" ? parts.compact[0] : "";
    this.islandTrailing.textContent = parts && view.state !== "ended" ? parts.compact[1] : "";
    this.island.classList.toggle("compact", Boolean(parts) && view.state !== "ended");
    if (!parts) return this.card.replaceChildren();
    const head = makeElement("span", "head");
    head.append(makeElement("i", "dot"), makeElement("span", "side", parts.side));
    if (parts.other) head.append(makeElement("span", "other", `v ${parts.other}`));
    head.append(makeElement("span", "when", view.state === "ended" ? "Final" : view.state === "stale" ? "Not up to date" : "Live"));
    const figure = makeElement("span", parts.isText ? "figure text" : "figure");
    figure.append(makeElement("b", "", parts.score));
    if (parts.small) figure.append(makeElement("small", "", parts.small));
    const nodes = [head, figure, makeElement("span", "line", parts.line)];
    if (parts.chips.length) {
      const chips = makeElement("span", "chips");
      for (const ball of parts.chips) chips.append(makeElement("i", /W/.test(ball) ? "wicket" : /[46]/.test(ball) ? "boundary" : "", ball === "." ? "·" : ball));
      nodes.push(chips);
    } else if (parts.detail) {
      nodes.push(makeElement("span", "detail", parts.detail));
    }
    this.card.replaceChildren(...nodes);
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
    clearTimeout(this.ringTimer);
    this.ringTimer = setTimeout(() => this.island.classList.remove("ringing"), ALERT_MILLISECONDS);
  }
}

export { formatCount };
