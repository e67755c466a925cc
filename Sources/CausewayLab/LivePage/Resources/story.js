// Everything that the lab knows about one phone: its large Lock Screen, its history, and the steps of its last push.

import { Phone, count, make, words } from "/lockscreen.js";

const REFRESH_MILLISECONDS = 3000;
const STAGES = [["record", "received", "Kafka"], ["received", "admitted", "waits, and Redis admits"], ["admitted", "sent", "to a free stream"], ["sent", "answered", "APNs"]];

const time = (milliseconds) => new Date(milliseconds).toLocaleTimeString("en-GB");
const span = (milliseconds) => milliseconds < 1000 ? `${milliseconds} ms` : `${(milliseconds / 1000).toFixed(1)} s`;

export class Story {
  constructor(dialog) {
    this.dialog = dialog;
    this.body = dialog.querySelector(".storyBody");
    this.title = dialog.querySelector("h2");
    this.large = new Phone(() => {});
    this.large.node.tabIndex = -1;
    dialog.querySelector(".storyPhone").append(this.large.node);
    dialog.addEventListener("close", () => { this.phone = undefined; this.from?.focus(); });
    dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
  }

  open(phone) {
    this.from = document.activeElement;
    this.phone = phone;
    this.large.phone = undefined;
    this.title.textContent = `Phone ${phone + 1}`;
    this.body.replaceChildren(make("p", "faint", "Asking the phone and the worker's Redis"));
    this.dialog.showModal();
    this.ask();
  }

  tick(now) {
    if (this.phone === undefined) return;
    this.large.tell(now);
    if (!this.isAsking && performance.now() - this.askedAt > REFRESH_MILLISECONDS) this.ask();
  }

  async ask() {
    const phone = this.phone;
    this.isAsking = true;
    try {
      const answer = await fetch(`/story?phone=${phone}`);
      if (!answer.ok) throw new Error(answer.status === 404 ? "The phone does not answer" : `The lab answers ${answer.status}`);
      const story = await answer.json();
      if (phone === this.phone) this.tell(story);
    } catch (error) {
      if (phone === this.phone) this.body.replaceChildren(make("p", "faint", String(error.message ?? error)));
    } finally {
      this.isAsking = false;
      this.askedAt = performance.now();
    }
  }

  tell({ phone, inspection, inspectionFault }) {
    const activity = phone.activities.findLast((one) => one.state !== "gone") ?? phone.activities.at(-1);
    this.title.textContent = phone.device;
    this.large.tell(Date.now());
    const pushes = activity?.pushesByPriority ?? {};
    this.large.show({
      phone: this.phone, device: phone.device, state: activity ? (activity.isStale && activity.state === "active" ? "stale" : activity.state) : "empty",
      attributes: activity?.attributes, content: activity?.contentState, priority: 5,
      pushesAt5: pushes["5"], pushesAt10: pushes["10"], alertAt: activity?.alerts.at(-1)?.at, alert: activity?.alerts.at(-1)?.alert,
    });
    if (!activity) return this.body.replaceChildren(make("p", "faint", "This phone has had no activity yet."));
    this.body.replaceChildren(...this.life(phone, activity), ...this.worker(inspection, inspectionFault), ...this.alerts(activity));
    this.dialog.dataset.told = activity.activity;
  }

  facts(rows) {
    const list = make("dl");
    for (const [name, value] of rows) if (value != null && value !== "") list.append(make("dt", "", name), make("dd", "", String(value)));
    return list;
  }

  life(phone, activity) {
    const effects = Object.entries(activity.effects).map(([name, times]) => `${words(name).toLowerCase()} ${times.toLocaleString("en")}`);
    return [this.facts([
      ["activity", activity.activity],
      ["started", `by ${activity.startedBy === "push" ? "a push" : "the app"} at ${time(activity.startedAt)}`],
      ["state", activity.endedAt ? `${activity.state === "gone" ? "dismissed" : "ended"} at ${time(activity.endedAt)}` : activity.isStale ? "stale" : "live"],
      ["shows", `what was sent with timestamp ${activity.timestamp}, since ${time(activity.shownAt)}`],
      ["pushes", `${activity.pushesByPriority["10"]} of priority 10, ${activity.pushesByPriority["5"]} of priority 5; at least ${span(activity.leastDistanceMilliseconds ?? 0)} apart`],
      ["effects", effects.join(", ")],
      ["alerts", `${activity.alertCount}${activity.repeatedAlerts ? `, ${activity.repeatedAlerts} of them twice` : ""}`],
    ])];
  }

  worker(inspection, fault) {
    if (fault) return [make("h3", "", "causeway inspect"), make("p", "faint", fault.split("\n")[0])];
    if (!inspection) return [];
    const { budget, pace, newest } = inspection;
    const results = inspection.results?.records ?? inspection.results ?? [];
    const parts = [make("h3", "", "What the worker knows"), this.facts([
      ["newest", newest ? `version ${newest.timestamp}/${newest.sequence}: ${newest.state}${newest.isEnd ? ", the end" : ""}` : "nothing"],
      ["budget", budget ? `${budget.left} of ${budget.of} left, ${budget.reserved} of them for alerts` : ""],
      ["pace", `${span(pace.spacingMilliseconds)} between pushes`],
      ["token", inspection.token ? `sha256 ${inspection.token.sha256}` : "none"],
    ])];
    const last = Array.isArray(results) ? results.find((result) => result.outcome === "accepted" && result.times?.answered) : undefined;
    if (last) parts.push(make("h3", "", "The stages of its last push"), this.stages(last));
    if (Array.isArray(results) && results.length) parts.push(make("h3", "", "Its last results"), this.results(results));
    return parts;
  }

  stages({ times, priority, status }) {
    const whole = Math.max(1, times.answered - times.record);
    const bar = make("div", "stages");
    const list = make("ol", "stageList");
    STAGES.forEach(([from, to, name], place) => {
      if (times[from] == null || times[to] == null) return;
      const part = make("i", `stage${place}`);
      part.style.flexGrow = Math.max(times[to] - times[from], whole / 100);
      bar.append(part);
      const item = make("li", `stage${place}`, name);
      item.append(make("b", "", span(times[to] - times[from])));
      list.append(item);
    });
    const box = make("div");
    box.append(bar, list, make("p", "faint", `${span(whole)} from record to answer: ${status}, priority ${priority}, at ${time(times.answered)}`));
    return box;
  }

  // Lists the results. Consecutive superseded results share a line.
  results(results) {
    const list = make("ol", "results");
    const isOvertaken = (result) => result?.outcome === "superseded";
    for (const [place, result] of results.entries()) {
      if (isOvertaken(result) && isOvertaken(results[place - 1])) continue;
      const item = make("li", result.outcome);
      if (isOvertaken(result)) {
        const end = results.findIndex((other, later) => later > place && !isOvertaken(other));
        const times = (end < 0 ? results.length : end) - place;
        item.append(make("b", "", times > 1 ? `superseded, ${times} times` : "superseded"), make("span", "", "by a newer state"));
        list.append(item);
        continue;
      }
      const took = result.times?.answered && result.times?.record ? span(result.times.answered - result.times.record) : "";
      item.append(make("b", "", result.outcome), make("span", "", [result.priority ? `priority ${result.priority}` : "", took].filter(Boolean).join(" · ")),
        make("span", "faint", result.times?.record ? time(result.times.record) : ""));
      list.append(item);
    }
    return list;
  }

  alerts(activity) {
    if (!activity.alerts.length) return [];
    const list = make("ol", "results");
    for (const { at, priority, alert } of activity.alerts.slice(-6).reverse()) {
      const item = make("li");
      item.append(make("b", "", alert.title ?? "alert"), make("span", "", alert.body ?? ""), make("span", "faint", `${time(at)} · priority ${priority}`));
      list.append(item);
    }
    return [make("h3", "", `Its last ${count(list.children.length, "alert")}`), list];
  }
}
