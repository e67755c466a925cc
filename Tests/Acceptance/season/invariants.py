"""The invariants: what must hold in every run. Each `check_…` function reads the evidence, and returns the violations of
its invariant and what it measured."""

from recorded_runs.invariant_results import InvariantResult, percentile
from season.evidence import UNDELIVERED


def check_results(evidence, options):
    """Each command has a result, or the result of a newer command counts it. Each result belongs to a command."""
    invariant = InvariantResult("each command has a result")
    counts, repeated_count = {}, 0
    for command in evidence.commands.values():
        final = [r for r in command.outcomes if r["outcome"] != "held"]
        if not command.outcomes:
            counts["counted"] = counts.get("counted", 0) + 1
            if not may_be_counted(evidence, options, command):
                invariant.add_violation(f"{command.identifier}: no result")
            continue
        if not final:
            if not is_followed(evidence, command):
                invariant.add_violation(f"{command.identifier}: held, and never released")
            counts["held"] = counts.get("held", 0) + 1
            continue
        repeated_count += len(final) - 1
        counts[command.outcome] = counts.get(command.outcome, 0) + 1
    for activity, own_commands in evidence.commands_of.items():
        missing_count = sum(not command.outcomes for command in own_commands)
        superseded_count = evidence.counted_superseded.get(activity, 0)
        # A dead worker's counts are lost, and the next worker may have counted some commands again. So the
        # numbers may then differ.
        if superseded_count != missing_count and not (options.superseded_results == "counted" and options.results_again):
            invariant.add_violation(f"{activity}: {missing_count} commands without a result, {superseded_count} are counted")
    for foreign in evidence.foreign_results:
        invariant.add_violation(f"a result of nobody's command: {foreign}")
    if repeated_count > options.results_again:
        invariant.add_violation(f"{repeated_count} results came again, {options.results_again} are allowed for")
    outcomes = ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items()))
    invariant.measurement = f"{len(evidence.commands)} commands: {outcomes}; {repeated_count} results came again"
    return invariant


def is_followed(evidence, command):
    """Whether a newer command of the activity has a result. Its state may have replaced this command's held state in
    Redis."""
    return any(newer.outcomes for newer in evidence.commands_of[command.activity][command.order + 1:])


def may_be_counted(evidence, options, command):
    """Whether the result of a newer command may count this command. If this command has an alert, a newer command with
    a result must have one too. A start is never counted."""
    if options.superseded_results == "each" or command.event == "start":
        return False
    newer = [c for c in evidence.commands_of[command.activity][command.order + 1:] if c.outcomes]
    return any(command.alert is None or c.alert is not None for c in newer)


def check_accepted(evidence, options):
    """Each accepted result belongs to exactly one push with status 200 in the log. Each such push has an accepted result,
    with as many exceptions as pushes may be repeated."""
    invariant = InvariantResult("each accepted result is one push, and each accepted push has a result")
    logged = {}
    for push in evidence.pushes:
        if push.status == 200:
            logged.setdefault(push.identifier, []).append(push)
    known_identifiers = set()
    for command, value in evidence.accepted_results:
        identifier = value.get("apnsId")
        known_identifiers.add(identifier)
        found = logged.get(identifier, [])
        if len(found) != 1:
            invariant.add_violation(f"{command.identifier}: apns-id {identifier} occurs {len(found)} times in the log")
    unmatched_pushes = [push for found in logged.values() for push in found if push.identifier not in known_identifiers]
    repeat_count, pushed_commands = 0, set()
    for push in evidence.pushes:
        if push.has_reached_phone and push.command is not None:
            repeat_count += push.command.identifier in pushed_commands
            pushed_commands.add(push.command.identifier)
    if len(unmatched_pushes) > options.repeats:
        for push in unmatched_pushes:
            invariant.add_violation(f"push of line {push.line} ({push.activity}) has no result")
    if repeat_count > options.repeats:
        invariant.add_violation(f"{repeat_count} pushes were repeated, {options.repeats} are allowed for")
    invariant.measurement = (
        f"{len(evidence.accepted_results)} accepted results, {sum(map(len, logged.values()))} pushes with status 200; "
        f"{len(unmatched_pushes)} without a result, {repeat_count} repeated"
    )
    return invariant


def check_budget(evidence, options):
    """No activity got more pushes of priority 10 than its bucket held. Only alerts and ends used the
    reserve."""
    invariant = InvariantResult("no more pushes at priority 10 than the bucket holds")
    bucket = evidence.policy.bucket
    drawn_max, drawn_count = 0, 0
    for activity, pushes in evidence.pushes_of.items():
        count, earliest = 0, None
        for push in pushes:
            if push.event == "start" and push.has_reached_phone:
                count, earliest = 0, None  # A start fills the bucket.
            if push.priority != 10 or push.event == "start" or not push.has_reached_phone:
                continue
            # For any two draws: the elapsed time must be at least (the number of draws, both included, minus
            # the bucket's size) times the interval. For example, with a bucket of 4 pushes and an interval of 10 s, the
            # sixth draw comes at least 20 s after the first one.
            shifted = push.time - count * bucket.interval_milliseconds
            earliest = shifted if earliest is None else max(earliest, shifted)
            count += 1
            bucket_size = bucket.pushes * (1 + options.wipes)
            if push.event == "update" and push.alert is None:
                bucket_size -= bucket.reserved
            if shifted < earliest - (bucket_size - 1) * bucket.interval_milliseconds - options.tolerance:
                invariant.add_violation(f"{activity}: line {push.line}, push {count} at priority 10, is over a bucket of {bucket_size}")
        drawn_max, drawn_count = max(drawn_max, count), drawn_count + count
    invariant.measurement = f"{drawn_count} in all, at most {drawn_max} of one activity; the bucket holds {bucket.pushes}"
    return invariant


def check_demotions(evidence, options):
    """Each alert and each end was sent with priority 10, unless the bucket was empty."""
    invariant = InvariantResult("nothing is demoted while the bucket has pushes left")
    bucket = evidence.policy.bucket
    demoted_count = 0
    for activity, pushes in evidence.pushes_of.items():
        level, last_time = float(bucket.pushes), None
        for push in pushes:
            if not push.has_reached_phone:
                continue
            if last_time is not None:
                level = min(bucket.pushes, level + (push.time - last_time) / bucket.interval_milliseconds)
            last_time = push.time
            if push.event == "start":
                level = float(bucket.pushes)
            elif push.priority == 10:
                level -= 1
            elif push.alert is not None or push.event == "end":
                demoted_count += 1
                # A refused push, or one without a response, has drawn from the budget, but is not counted here. So a
                # difference of one push is allowed.
                if level >= 2 + options.tolerance / bucket.interval_milliseconds:
                    invariant.add_violation(f"{activity}: line {push.line} went at 5 with {level:.1f} pushes left")
    invariant.measurement = f"{demoted_count} alerts and ends went at priority 5"
    return invariant


def check_spacing(evidence, options):
    """Two pushes of an activity are at least its spacing apart. Each push is compared with all earlier ones, because
    the small errors of many pushes must not add up."""
    invariant = InvariantResult("no two pushes of an activity are closer than the spacing")
    distance_min, pair_count = None, 0
    spacing = evidence.policy.spacing_milliseconds
    for activity in evidence.pushes_of:
        latest, last = None, None
        for number, push in enumerate(evidence.pushes_that_reached(activity)):
            if last is not None:
                pair_count += 1
                distance = push.time - last.time
                distance_min = distance if distance_min is None else min(distance_min, distance)
                if push.time - number * spacing < latest - options.tolerance:
                    invariant.add_violation(f"{activity}: lines {last.line} and {push.line} are {distance} ms apart")
            shifted = push.time - number * spacing
            latest = shifted if latest is None else max(latest, shifted)
            last = push
    invariant.measurement = f"{pair_count} pairs, the closest {distance_min} ms apart; allowed is {spacing} - {options.tolerance} ms"
    return invariant


def check_timestamps(evidence, options):
    """The timestamps of one token do not decrease, except with a start, and no phone dropped a push."""
    invariant = InvariantResult("the timestamps of one token never decrease")
    last, effects = {}, {}
    for push in evidence.pushes:
        if not push.has_reached_phone:
            continue
        effects[push.effect] = effects.get(push.effect, 0) + 1
        if push.effect not in ("shown", "ended", "started"):
            invariant.add_violation(f"line {push.line} ({push.activity}): the phone made of it: {push.effect}")
        before = last.get(push.token)
        if before is not None and push.timestamp < before and push.event != "start":
            invariant.add_violation(f"line {push.line} ({push.activity}): {push.timestamp} after {before}")
        last[push.token] = push.timestamp
    invariant.measurement = ", ".join(f"{count} {effect}" for effect, count in sorted(effects.items()))
    return invariant


def check_endings(evidence, options):
    """After an accepted end an activity gets no push, except a start or the same end again."""
    invariant = InvariantResult("no push follows an accepted end")
    ended_count = 0
    for activity, pushes in evidence.pushes_of.items():
        end = None
        for push in pushes:
            if end is not None and push.event == "start":
                end = None
            elif end is not None and not (push.event == "end" and end.command is push.command):
                invariant.add_violation(f"{activity}: line {push.line} ({push.event}) after the end in line {end.line}")
            if push.event == "end" and push.status == 200:
                ended_count += end is None
                end = push
    invariant.measurement = f"{ended_count} activities ended"
    return invariant


def check_starts(evidence, options):
    """No activity is started twice."""
    invariant = InvariantResult("no activity is started twice")
    started_count = 0
    for activity, pushes in evidence.pushes_of.items():
        starts = [push for push in pushes if push.event == "start" and push.has_reached_phone]
        started_count += len(starts)
        if len(starts) > 1:
            invariant.add_violation(f"{activity}: started in lines {', '.join(str(push.line) for push in starts)}")
    invariant.measurement = f"{started_count} started by push"
    return invariant


def check_alerts(evidence, options):
    """A push carries the newest alert of its own command and of all commands since the last push, so no alert is lost.
    It may leave out an alert that did not fit or was too old."""
    invariant = InvariantResult("every alert rings in order, or a newer alert replaces it")
    rung_count, carried_count, replaced_count, repeat_count = 0, 0, 0, 0
    for activity, own in evidence.commands_of.items():
        alert_commands = [c for c in own if c.alert is not None and c.outcome not in UNDELIVERED]
        next_index, shown, rung_alerts = 0, -1, set()
        for push in evidence.pushes_that_reached(activity):
            command = push.command
            if command is None:
                invariant.add_violation(f"{activity}: line {push.line} is nobody's command")
                continue
            due_alerts = []
            while next_index < len(alert_commands) and alert_commands[next_index].order <= command.order:
                due_alerts.append(alert_commands[next_index])
                next_index += 1
            if command.order <= shown:  # The push repeats the same command.
                continue
            shown = command.order
            expected = due_alerts[-1].alert if due_alerts else None
            if expected is None and push.alert is not None and push.alert in rung_alerts:
                repeat_count += 1
            elif push.alert != expected and not is_left_out(due_alerts, push):
                invariant.add_violation(f"{activity}: line {push.line} rings {push.alert!r}, due is {expected!r}")
            rung_alerts.add(push.alert)
            rung_count += push.alert is not None
            carried_count += bool(due_alerts) and due_alerts[-1] is not command and push.alert is not None
            replaced_count += max(0, len(due_alerts) - 1)
        for command in alert_commands[next_index:]:
            invariant.add_violation(f"{activity}: {command.identifier} ({command.alert!r}) rang nowhere")
    if repeat_count > options.alerts_again:
        invariant.add_violation(f"{repeat_count} alerts rang again, {options.alerts_again} are allowed for")
    invariant.measurement = (
        f"{rung_count} rang, {carried_count} of them on a newer state; {replaced_count} replaced by a newer alert; "
        f"{repeat_count} rang again"
    )
    return invariant


def is_left_out(due_alerts, push):
    """Whether the alert was left out because it did not fit or was too old, as the command's result says."""
    reasons = ("alertDidNotFit", "alertExpired")
    return push.alert is None and bool(due_alerts) and any(r.get("reason") in reasons for r in due_alerts[-1].outcomes)


def check_waits(evidence, options):
    """No command waits long for its push, or for that of a newer command. The gaps between pushes are only measured."""
    wait_max = options.wait_spacings * evidence.policy.spacing_milliseconds + options.tolerance
    invariant = InvariantResult(f"no state waits longer than {wait_max} ms for its push, or for the push of a newer state")
    wait_milliseconds, gap_milliseconds = [], []
    for activity, own in evidence.commands_of.items():
        # A command whose state is already shown needs no push. It is finished when its result says so.
        finished = [
            (c.order, c.outcomes[-1].get("times", {}).get("admitted", c.time)) for c in own if c.outcome == "unchanged"
        ]
        pushes = [push for push in evidence.pushes_that_reached(activity) if push.command is not None]
        finished += [(push.command.order, push.time) for push in pushes]
        finished.sort(key=lambda one: one[1])
        next_index = 0
        for order, time in finished:
            while next_index < len(own) and own[next_index].order <= order:
                command = own[next_index]
                next_index += 1
                if command.outcome in UNDELIVERED or command.event == "start":  # A start does not wait for the spacing.
                    continue
                wait = time - command.time
                wait_milliseconds.append(wait)
                if wait > wait_max:
                    invariant.add_violation(f"{activity}: {command.identifier} waited {wait} ms")
        for command in own[next_index:]:
            if command.outcome not in UNDELIVERED:
                invariant.add_violation(f"{activity}: {command.identifier} never came, nor a newer one")
        for before, after in zip(pushes, pushes[1:]):
            next_order = before.command.order + 1
            if after.priority == 5 and next_order < len(own) and own[next_order].time <= before.time + evidence.policy.spacing_milliseconds:
                gap_milliseconds.append(after.time - before.time)
    invariant.measurement = (
        f"waits: half {percentile(wait_milliseconds, 0.5)}, 99 of 100 {percentile(wait_milliseconds, 0.99)}, "
        f"longest {percentile(wait_milliseconds, 1)} ms; "
        f"gaps before {len(gap_milliseconds)} pushes at 5 while commands came: half {percentile(gap_milliseconds, 0.5)}, "
        f"99 of 100 {percentile(gap_milliseconds, 0.99)}, longest {percentile(gap_milliseconds, 1)} ms"
    )
    return invariant


def check_last_states(evidence, options):
    """The last push to each phone has the state of the activity's last command."""
    invariant = InvariantResult("each phone ends with the last command's state")
    correct_count = 0
    for activity, own_commands in evidence.commands_of.items():
        pushes = evidence.pushes_that_reached(activity)
        if not pushes:
            invariant.add_violation(f"{activity}: no push at all")
        elif pushes[-1].state != own_commands[-1].state:
            invariant.add_violation(f"{activity}: line {pushes[-1].line} is not {own_commands[-1].identifier}")
        elif own_commands[-1].event == "end" and pushes[-1].event != "end":
            invariant.add_violation(f"{activity}: has not ended")
        else:
            correct_count += 1
    invariant.measurement = f"{correct_count} of {len(evidence.commands_of)} phones"
    return invariant


INVARIANT_CHECKS = [
    check_results, check_accepted, check_budget, check_demotions, check_spacing, check_timestamps, check_endings, check_starts,
    check_alerts, check_waits, check_last_states,
]
