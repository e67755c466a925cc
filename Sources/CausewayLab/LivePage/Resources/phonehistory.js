// The dialog about one phone: its large Lock Screen, its history, and the steps of its last push.

import { LockScreen, formatCount, makeElement, toWords } from "/lockscreen.js";

const REFRESH_MILLISECONDS = 3000;
const STAGES = [["record", "received", "Kafka"], ["received", "admitted", "queue and Redis"], ["admitted", "sent", "wait for a stream"], ["sent", "responded", "APNs"]];

const formatTime = (milliseconds) => new Date(milliseconds).toLocaleTimeString("en-GB");
const formatDuration = (milliseconds) => milliseconds < 1000 ? `${milliseconds} ms` : `${(milliseconds / 1000).toFixed(1)} s`;

export class PhoneHistory {
  constructor(dialog) {
    this.dialog = dialog;
    this.content = dialog.querySelector(".historyBody");
    this.title = dialog.querySelector("h2");
    this.lockScreen = new LockScreen(() => {});
    this.lockScreen.node.tabIndex = -1;
    dialog.querySelector(".historyPhone").append(this.lockScreen.node);
    // The event comes some time after the dialog has closed. The dialog may show another phone by then.
    dialog.addEventListener("close", () => {
      if (dialog.open) return;
      this.phone = undefined;
      this.focusBefore?.focus();
    });
    dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
  }

  open(phone) {
    this.focusBefore = document.activeElement;
    this.phone = phone;
    this.lockScreen.phone = undefined;
    this.title.textContent = `Phone ${phone + 1}`;
    this.content.replaceChildren(makeElement("p", "faint", "Reading the history from the simulator and from Redis"));
    this.dialog.showModal();
    this.load();
  }

  refresh(now) {
    if (this.phone === undefined) return;
    this.lockScreen.showTime(now);
    if (!this.isLoading && performance.now() - this.loadedAt > REFRESH_MILLISECONDS) this.load();
  }

  async load() {
    const phone = this.phone;
    this.isLoading = true;
    try {
      const response = await fetch(`/history?phone=${phone}`);
      if (!response.ok) throw new Error(response.status === 404 ? "The simulator has no such phone" : `causeway-lab responds with ${response.status}`);
      const history = await response.json();
      if (phone === this.phone) this.show(history);
    } catch (error) {
      if (phone === this.phone) this.content.replaceChildren(makeElement("p", "faint", String(error.message ?? error)));
    } finally {
      this.isLoading = false;
      this.loadedAt = performance.now();
    }
  }

  show({ phone, inspection, inspectionFault }) {
    const activity = phone.activities.findLast((one) => one.state !== "gone") ?? phone.activities.at(-1);
    this.title.textContent = phone.device;
    this.lockScreen.showTime(Date.now());
    const pushes = activity?.pushesByPriority ?? {};
    this.lockScreen.show({
      phone: this.phone, device: phone.device, state: activity ? (activity.isStale && activity.state === "active" ? "stale" : activity.state) : "empty",
      attributes: activity?.attributes, content: activity?.contentState, priority: 5,
      pushesAt5: pushes["5"], pushesAt10: pushes["10"], alertAt: activity?.alerts.at(-1)?.at, alert: activity?.alerts.at(-1)?.alert,
    });
    if (!activity) return this.content.replaceChildren(makeElement("p", "faint", "This phone has had no activity yet."));
    this.content.replaceChildren(...this.makeActivityFacts(phone, activity), ...this.makeWorkerSections(inspection, inspectionFault), ...this.makeAlertList(activity));
    this.dialog.dataset.activity = activity.activity;
  }

  makeFacts(rows) {
    const list = makeElement("dl");
    for (const [name, value] of rows) if (value != null && value !== "") list.append(makeElement("dt", "", name), makeElement("dd", "", String(value)));
    return list;
  }

  makeActivityFacts(phone, activity) {
    const effects = Object.entries(activity.effects).map(([name, times]) => `${toWords(name).toLowerCase()} ${times.toLocaleString("en")}`);
    return [this.makeFacts([
      ["activity", activity.activity],
      ["started", `by ${activity.startedBy === "push" ? "a push" : "the app"} at ${formatTime(activity.startedAt)}`],
      ["state", activity.endedAt ? `${activity.state === "gone" ? "dismissed" : "ended"} at ${formatTime(activity.endedAt)}` : activity.isStale ? "stale" : "live"],
      ["shows", `the state with timestamp ${activity.timestamp}, since ${formatTime(activity.shownAt)}`],
      ["pushes", `${activity.pushesByPriority["10"]} of priority 10, ${activity.pushesByPriority["5"]} of priority 5; at least ${formatDuration(activity.leastDistanceMilliseconds ?? 0)} apart`],
      ["effects", effects.join(", ")],
      ["alerts", `${activity.alertCount}${activity.repeatedAlerts ? `, ${activity.repeatedAlerts} of them twice` : ""}`],
    ])];
  }

  makeWorkerSections(inspection, fault) {
    if (fault) return [makeElement("h3", "", "causeway inspect"), makeElement("p", "faint", fault.split("\n")[0])];
    if (!inspection) return [];
    const { budget, pace, newest } = inspection;
    const results = inspection.results?.records ?? inspection.results ?? [];
    const sections = [makeElement("h3", "", "What Causeway knows"), this.makeFacts([
      ["newest", newest ? `version ${newest.timestamp}/${newest.sequence}: ${newest.state}${newest.isEnd ? ", the end" : ""}` : "nothing"],
      ["budget", budget ? `${budget.left} of ${budget.of} left, ${budget.reserved} of them reserved for alerts` : ""],
      ["pace", `${formatDuration(pace.spacingMilliseconds)} between pushes`],
      ["token", inspection.token ? `sha256 ${inspection.token.sha256}` : "none"],
    ])];
    const last = Array.isArray(results) ? results.find((result) => result.outcome === "accepted" && result.times?.responded) : undefined;
    if (last) sections.push(makeElement("h3", "", "The stages of its last push"), this.makeStages(last));
    if (Array.isArray(results) && results.length) sections.push(makeElement("h3", "", "Its last results"), this.makeResultList(results));
    return sections;
  }

  makeStages({ times, priority, status }) {
    const wholeMilliseconds = Math.max(1, times.responded - times.record);
    const bar = makeElement("div", "stages");
    const list = makeElement("ol", "stageList");
    STAGES.forEach(([from, to, name], place) => {
      if (times[from] == null || times[to] == null) return;
      const part = makeElement("i", `stage${place}`);
      part.style.flexGrow = Math.max(times[to] - times[from], wholeMilliseconds / 100);
      bar.append(part);
      const item = makeElement("li", `stage${place}`, name);
      item.append(makeElement("b", "", formatDuration(times[to] - times[from])));
      list.append(item);
    });
    const box = makeElement("div");
    box.append(bar, list, makeElement("p", "faint", `${formatDuration(wholeMilliseconds)} from record to response: ${status}, priority ${priority}, at ${formatTime(times.responded)}`));
    return box;
  }

  // Lists the results. Consecutive superseded results share a line.
  makeResultList(results) {
    const list = makeElement("ol", "results");
    const isSuperseded = (result) => result?.outcome === "superseded";
    for (const [place, result] of results.entries()) {
      if (isSuperseded(result) && isSuperseded(results[place - 1])) continue;
      const item = makeElement("li", result.outcome);
      if (isSuperseded(result)) {
        const end = results.findIndex((other, otherPlace) => otherPlace > place && !isSuperseded(other));
        const times = (end < 0 ? results.length : end) - place;
        item.append(makeElement("b", "", times > 1 ? `superseded, ${times} times` : "superseded"), makeElement("span", "", "by a newer state"));
        list.append(item);
        continue;
      }
      const durationText = result.times?.responded && result.times?.record ? formatDuration(result.times.responded - result.times.record) : "";
      item.append(makeElement("b", "", result.outcome), makeElement("span", "", [result.priority ? `priority ${result.priority}` : "", durationText].filter(Boolean).join(" · ")),
        makeElement("span", "faint", result.times?.record ? formatTime(result.times.record) : ""));
      list.append(item);
    }
    return list;
  }

  makeAlertList(activity) {
    if (!activity.alerts.length) return [];
    const list = makeElement("ol", "results");
    for (const { at, priority, alert } of activity.alerts.slice(-6).reverse()) {
      const item = makeElement("li");
      item.append(makeElement("b", "", alert.title ?? "alert"), makeElement("span", "", alert.body ?? ""), makeElement("span", "faint", `${formatTime(at)} · priority ${priority}`));
      list.append(item);
    }
    return [makeElement("h3", "", `Its last ${formatCount(list.children.length, "alert")}`), list];
  }
}
