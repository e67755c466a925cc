// The figures around the phones: commands and pushes so far, freshness, the rate, budgets, and numbers that must stay
// zero.

import { makeElement } from "/lockscreen.js";

const MINUTE = 60_000;
const formatNumber = (value) => Math.round(value).toLocaleString("en");
const byId = (id) => document.getElementById(id);

function formatDuration(milliseconds) {
  if (milliseconds == null) return "–";
  if (milliseconds < 1000) return `${milliseconds} ms`;
  return `${(milliseconds / 1000).toFixed(milliseconds < 10_000 ? 1 : 0)} s`;
}

// A number that counts up to its new value within 260 ms, which is the time until the next event (250 ms) and a little
// more. If the new value is lower, or if isQuiet is set, it is shown at once.
class AnimatedCount {
  constructor(node) {
    this.node = node;
    this.shown = 0;
    this.value = 0;
  }

  set(value, isQuiet) {
    this.value = value;
    this.node.dataset.value = value;
    if (isQuiet || value < this.shown) this.shown = value;
    this.perMillisecond = (value - this.shown) / 260;
  }

  advance(milliseconds) {
    this.shown = this.perMillisecond > 0 ? Math.min(this.value, this.shown + this.perMillisecond * milliseconds) : this.value;
    const text = formatNumber(this.shown);
    if (text !== this.text) this.node.textContent = this.text = text;
  }
}

// The values of a line chart of the last minute.
class TimeSeries {
  constructor() { this.points = []; }

  add(at, value) {
    this.points.push([at, value]);
    while (this.points.length && this.points[0][0] < at - MINUTE) this.points.shift();
  }

  linePath(now, width, y) {
    let text = "", isOpen = false;
    for (const [at, value] of this.points) {
      if (value == null) { isOpen = false; continue; }
      text += `${isOpen ? "L" : "M"}${(width * (1 - (now - at) / MINUTE)).toFixed(1)} ${y(value).toFixed(1)}`;
      isOpen = true;
    }
    return text;
  }
}

const SVG = "http://www.w3.org/2000/svg";
function appendShape(svg, name, attributes) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  svg.append(node);
  return node;
}

export class Figures {
  constructor(onOpen) {
    this.onOpen = onOpen;
    this.commands = new AnimatedCount(byId("commands").querySelector("b"));
    this.pushes = new AnimatedCount(byId("pushes").querySelector("b"));
    [this.p50, this.p99, this.rate] = [new TimeSeries(), new TimeSeries(), new TimeSeries()];
    this.drawCharts();
    this.rings = new Map();
    this.rateMax = 0;
    this.lastFrameAt = performance.now();
    requestAnimationFrame((now) => this.animate(now));
  }

  drawCharts() {
    const freshnessChart = document.querySelector("#freshness svg");
    for (const [value, label] of [[100, "100 ms"], [1000, "1 s"], [10_000, "10 s"]]) {
      const y = this.freshnessY(value);
      appendShape(freshnessChart, "line", { x1: 0, x2: 240, y1: y, y2: y, class: "grid" });
      this.addLabel(freshnessChart, label, y);
    }
    this.p99Line = appendShape(freshnessChart, "path", { class: "p99" });
    this.p50Line = appendShape(freshnessChart, "path", { class: "p50" });
    const rateChart = document.querySelector("#rate svg");
    this.rateArea = appendShape(rateChart, "path", { class: "area" });
    this.rateLine = appendShape(rateChart, "path", { class: "rate" });
  }

  // The drawing is stretched, and would stretch text too. So labels are HTML elements beside the drawing.
  addLabel(svg, text, y) {
    const node = makeElement("span", "gridLabel", text);
    node.style.top = `${(y / svg.viewBox.baseVal.height) * 100}%`;
    if (svg.parentNode.className !== "plot") {
      const plot = makeElement("div", "plot");
      svg.replaceWith(plot);
      plot.append(svg);
    }
    svg.parentNode.append(node);
  }

  // A logarithmic scale from 10 ms at the bottom to 100 s at the top.
  freshnessY(milliseconds) {
    return 84 - (84 * (Math.log10(Math.max(10, milliseconds)) - 1)) / 4;
  }

  animate(now) {
    const elapsedMilliseconds = now - this.lastFrameAt;
    this.lastFrameAt = now;
    this.commands.advance(elapsedMilliseconds);
    this.pushes.advance(elapsedMilliseconds);
    requestAnimationFrame((next) => this.animate(next));
  }

  update({ figures, service, screens, whole }) {
    this.showTotals(figures, service, whole);
    if (screens && service) this.updateCharts(figures, service, screens);
    this.showFaultCounts(figures, screens);
    this.showPhase(figures);
    if (screens) this.showBudgets(figures, screens, whole);
  }

  showTotals(figures, service, isQuiet) {
    const pushes = service?.accepted ?? this.pushes.value;
    const isKnown = figures.commands != null;
    document.body.classList.toggle("unknownCommands", !isKnown);
    byId("commands").querySelector("span").textContent = figures.phase === "open" ? "commands with a result" : "commands";
    if (isKnown) this.commands.set(figures.commands, isQuiet);
    this.pushes.set(pushes, isQuiet);
    const larger = Math.max(figures.commandsInAll ?? figures.commands ?? 0, pushes, 1);
    byId("commands").style.setProperty("--share", (figures.commands ?? 0) / larger);
    byId("pushes").style.setProperty("--share", pushes / larger);
    const [big, small] = byId("saved").children;
    const results = figures.results ?? 0;
    byId("saved").classList.toggle("unknown", !isKnown || !results);
    if (!isKnown || !results) big.textContent = "–";
    else if (pushes <= results) big.textContent = `${((1 - pushes / results) * 100).toFixed(1)} %`;
    else big.textContent = (pushes / results).toFixed(1);
    small.textContent = pushes > results && results ? "pushes per command" : "of pushes saved";
  }

  updateCharts(figures, service, screens) {
    const now = screens.now;
    if (this.measuredAt && now - this.measuredAt < 1000) return;
    if (this.measuredAt) {
      const rate = (1000 * (service.accepted - this.accepted)) / (now - this.measuredAt);
      this.rate.add(now, Math.max(0, rate));
      this.rateMax = Math.max(this.rateMax, rate);
      byId("rateNow").textContent = formatNumber(rate);
      byId("rateHighest").textContent = formatNumber(this.rateMax);
    }
    [this.measuredAt, this.accepted] = [now, service.accepted];
    this.p50.add(now, figures.freshness?.p50Milliseconds);
    this.p99.add(now, figures.freshness?.p99Milliseconds);
    if (figures.freshness || figures.phase === "playing") {
      byId("p50").textContent = formatDuration(figures.freshness?.p50Milliseconds);
      byId("p99").textContent = formatDuration(figures.freshness?.p99Milliseconds);
    }
    document.body.classList.toggle("unknownFreshness", figures.phase === "open" && figures.commands == null);
    this.p50Line.setAttribute("d", this.p50.linePath(now, 240, (value) => this.freshnessY(value)));
    this.p99Line.setAttribute("d", this.p99.linePath(now, 240, (value) => this.freshnessY(value)));
    const y = (value) => 58 - (54 * value) / Math.max(this.rateMax, 10);
    const line = this.rate.linePath(now, 240, y);
    this.rateLine.setAttribute("d", line);
    const first = this.rate.points[0];
    this.rateArea.setAttribute("d", line && first ? `${line}L240 60L${240 * (1 - (now - first[0]) / MINUTE)} 60Z` : "");
  }

  showFaultCount(id, value, note, isBad = value > 0) {
    const node = byId(id);
    node.dataset.value = value ?? "";
    node.querySelector("b").textContent = value == null ? "–" : formatNumber(value);
    node.querySelector("small").textContent = note;
    node.classList.toggle("bad", Boolean(isBad));
    node.classList.toggle("unknown", value == null);
  }

  showFaultCounts(figures, screens) {
    const { verdict } = figures;
    const lateSeconds = figures.lateAfterSeconds ?? 30;
    if (verdict) this.showFaultCount("lost", verdict.lost, "phones without their final state");
    else if (figures.phase === "open") this.showFaultCount("lost", null, "only the producer knows");
    else this.showFaultCount("lost", 0, figures.late ? `so far; ${formatNumber(figures.late)} late by more than ${lateSeconds} s` : `so far; none late by more than ${lateSeconds} s`);
    byId("lost").classList.toggle("late", !verdict && figures.late > 0);
    if (!screens) return;
    this.showFaultCount("backInTime", screens.backInTime, "older than the state on the phone");
    this.showFaultCount("startedTwice", screens.startedTwice, "the same start on the same phone");
    byId("rangTwice").dataset.doubt = screens.rangInDoubt;
    this.showFaultCount("rangTwice", screens.rangTwice, screens.rangInDoubt
      ? `and ${formatNumber(screens.rangInDoubt)} whose response was lost` : "the same alert on the same phone");
  }

  showPhase(figures) {
    const seconds = figures.elapsedMilliseconds == null ? "" : `${Math.min(Math.round(figures.elapsedMilliseconds / 1000), 9999)} s`;
    const matches = figures.matches ? `${figures.matchesOver} of ${figures.matches} matches over` : "";
    const text = {
      beginning: "Starting the processes and the activities on the phones",
      playing: [`A cricket season, ${seconds}`, matches].filter(Boolean).join(" · "),
      settling: "All balls are sent. Waiting for the last phones",
      over: figures.verdict?.text ?? "Over",
      failed: `Failed: ${figures.failure ?? ""}`,
      open: ["A simulated APNs and its phones", figures.resultsFault].filter(Boolean).join(" · "),
    }[figures.phase];
    const node = byId("phase");
    if (node.textContent !== text) node.textContent = text;
    document.body.dataset.phase = figures.phase;
    this.showNews(figures.phase === "playing" ? figures.news : "");
    document.body.classList.toggle("good", figures.verdict?.isGood === true);
    document.body.classList.toggle("wrong", figures.verdict?.isGood === false || figures.phase === "failed");
    const share = figures.durationMilliseconds ? Math.min(1, (figures.elapsedMilliseconds ?? 0) / figures.durationMilliseconds) : 0;
    byId("progress").style.setProperty("--share", share);
  }

  // Shows the newest alert of the whole season: a title and a body.
  showNews(text = "") {
    if (text === this.lastNews) return;
    this.lastNews = text;
    const [title, body = ""] = text.split(" — ");
    byId("news").replaceChildren(...(title ? [makeElement("b", "", title), body] : []));
  }

  // Draws a ring for each large phone. The ring shows how much of the phone's budget of pushes at priority 10 is
  // left. If the budget is not known, it shows the share of priority 10 in the phone's pushes.
  showBudgets(figures, screens, isWhole) {
    const box = document.querySelector("#rings .rings");
    if (isWhole) { box.replaceChildren(); this.rings.clear(); }
    byId("ringsOf").textContent = figures.budgetPushes ? `${formatNumber(figures.budgetPushes)} pushes of priority 10 each` : "pushes at priority 10, per phone";
    for (const view of screens.focus) {
      let ring = this.rings.get(view.phone);
      if (!ring) {
        ring = makeElement("button", "ring");
        ring.type = "button";
        ring.addEventListener("click", () => this.onOpen(view.phone));
        ring.append(makeElement("span"));
        this.rings.set(view.phone, ring);
        box.append(ring);
      }
      const hours = Math.max(0, screens.now - (view.startedAt ?? screens.now)) / 3_600_000;
      const sent = view.pushesAt10 ?? 0, all = sent + (view.pushesAt5 ?? 0);
      const budget = figures.budgetPushes;
      // The budget is a token bucket: full at the start, and refilled at a constant rate up to its size.
      const pushesLeft = budget ? Math.min(budget, Math.max(0, budget + hours * figures.budgetRefillPerHour - sent)) : null;
      const share = budget ? pushesLeft / budget : all ? sent / all : 0;
      ring.style.setProperty("--share", share);
      ring.classList.toggle("low", budget ? share < 0.2 : false);
      ring.firstChild.textContent = budget ? Math.floor(pushesLeft) : all ? `${Math.round(share * 100)}%` : "";
      ring.setAttribute("aria-label", `${view.device}: ${budget ? `about ${Math.floor(pushesLeft)} of ${budget} left` : `${sent} of ${all} pushes at priority 10`}`);
      ring.title = ring.getAttribute("aria-label");
    }
  }
}
