"""The invariants: what must hold in every run. Each function in `INVARIANT_CHECKS` reads the evidence, and returns the
violations of its invariant and what it measured. A function with the parameter `invariant` is a part of one of these
checks: it adds the violations that it finds."""

from collections import Counter, deque
from dataclasses import dataclass

from recorded_runs.invariant_results import InvariantResult, percentile
from recorded_runs.outcomes import NOT_FINAL, UNDELIVERED


def check_results(evidence, options):
    """Each command has a result, or the result of a newer command counts it. Each result belongs to a command."""
    invariant = InvariantResult("each command has a result")
    outcome_counts, repeated_count = Counter(), 0
    for command in evidence.commands.values():
        final_results = [result for result in command.outcomes if result["outcome"] not in NOT_FINAL]
        if not command.outcomes and not may_be_counted(evidence, options, command):
            invariant.add_violation(f"{command.identifier}: no result")
        if command.outcomes and not final_results and not is_followed(evidence, command):
            invariant.add_violation(f"{command.identifier}: held, and never released")
        outcome_counts[command.outcome if command.outcomes else "counted"] += 1
        repeated_count += max(0, len(final_results) - 1)
    check_superseded_counts(invariant, evidence, options)
    for foreign in evidence.foreign_results:
        invariant.add_violation(f"a result of nobody's command: {foreign}")
    if repeated_count > options.results_again:
        invariant.add_violation(f"{repeated_count} results came again, {options.results_again} are allowed for")
    outcomes = ", ".join(f"{count} {outcome}" for outcome, count in sorted(outcome_counts.items()))
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
    newer_commands = evidence.commands_of[command.activity][command.order + 1:]
    return any(newer.outcomes and (command.alert is None or newer.alert is not None) for newer in newer_commands)


def check_superseded_counts(invariant, evidence, options):
    """The results of each activity count as many commands as have no result of their own."""
    # A dead worker's counts are lost, and the next worker may have counted some commands again. So the numbers may
    # then differ.
    if options.superseded_results == "counted" and options.results_again:
        return
    for activity, own_commands in evidence.commands_of.items():
        missing_count = sum(not command.outcomes for command in own_commands)
        superseded_count = evidence.counted_superseded.get(activity, 0)
        if superseded_count != missing_count:
            invariant.add_violation(f"{activity}: {missing_count} commands without a result, {superseded_count} are counted")


def check_accepted(evidence, options):
    """Each accepted result belongs to exactly one push with status 200 in the log. Each such push has an accepted result,
    with as many exceptions as pushes may be repeated. If a response was lost, the result may have another outcome."""
    invariant = InvariantResult("each accepted result is one push, and each accepted push has a result")
    pushes_by_identifier = accepted_pushes_by_identifier(evidence)
    known_identifiers = set()
    for command, value in evidence.accepted_results:
        identifier = value.get("apnsId")
        known_identifiers.add(identifier)
        push_count = len(pushes_by_identifier.get(identifier, []))
        if push_count != 1:
            invariant.add_violation(f"{command.identifier}: apns-id {identifier} occurs {push_count} times in the log")
    accepted_pushes = [push for pushes in pushes_by_identifier.values() for push in pushes]
    unmatched_pushes = [push for push in accepted_pushes if push.identifier not in known_identifiers]
    unanswered_count = sum(push.identifier in evidence.unanswered_identifiers for push in unmatched_pushes)
    if len(unmatched_pushes) - min(unanswered_count, options.lost_responses) > options.repeats:
        for push in unmatched_pushes:
            invariant.add_violation(f"push of line {push.line} ({push.activity}) has no result")
    repeat_count = count_repeated_pushes(evidence)
    if repeat_count > options.repeats:
        invariant.add_violation(f"{repeat_count} pushes were repeated, {options.repeats} are allowed for")
    invariant.measurement = (
        f"{len(evidence.accepted_results)} accepted results, {len(accepted_pushes)} pushes with status 200; "
        f"{len(unmatched_pushes)} without such a result, {unanswered_count} of them without a response; {repeat_count} repeated"
    )
    return invariant


def accepted_pushes_by_identifier(evidence):
    """Returns lists of the pushes with status 200, by `apns-id`."""
    pushes_by_identifier = {}
    for push in evidence.pushes:
        if push.status == 200:
            pushes_by_identifier.setdefault(push.identifier, []).append(push)
    return pushes_by_identifier


def count_repeated_pushes(evidence):
    """Returns how many pushes brought a phone a command that an earlier push had brought."""
    identifiers = [push.command.identifier for push in evidence.pushes if push.has_reached_phone and push.command is not None]
    return len(identifiers) - len(set(identifiers))


def check_budget(evidence, options):
    """No activity got more pushes of priority 10 than its bucket held. Only alerts and ends used the reserve."""
    invariant = InvariantResult("no more pushes at priority 10 than the bucket holds")
    bucket = evidence.policy.bucket
    drawn_counts = [check_draws(invariant, bucket, options, activity, pushes) for activity, pushes in evidence.pushes_of.items()]
    invariant.measurement = (
        f"{sum(drawn_counts)} in all, at most {max(drawn_counts, default=0)} of one activity; the bucket holds {bucket.pushes}"
    )
    return invariant


def check_draws(invariant, bucket, options, activity, pushes):
    """One activity never draws more than its bucket holds. Returns the number of draws since the last start.

    For any two draws, the elapsed time must be at least (the number of draws, both included, minus the bucket's size)
    times the interval. For example, with a bucket of 4 pushes and an interval of 10 s, the sixth draw comes at least
    20 s after the first one.

    Each draw's time is shifted back by one interval for each earlier draw. So one comparison, with the latest shifted
    time, covers all earlier draws."""
    drawn_count, latest = 0, None
    for push in pushes:
        if not push.has_reached_phone:
            continue
        if push.event == "start":
            drawn_count, latest = 0, None  # A start fills the bucket.
            continue
        if push.priority != 10:
            continue
        shifted = push.time - drawn_count * bucket.interval_milliseconds
        latest = shifted if latest is None else max(latest, shifted)
        drawn_count += 1
        bucket_size = usable_bucket_size(bucket, options, push)
        if shifted < latest - (bucket_size - 1) * bucket.interval_milliseconds - options.tolerance:
            invariant.add_violation(f"{activity}: line {push.line}, push {drawn_count} at priority 10, is over a bucket of {bucket_size}")
    return drawn_count


def usable_bucket_size(bucket, options, push):
    """Returns how many pushes the bucket holds for such a push. After each loss of Redis' data, the bucket is full
    again."""
    may_use_reserve = push.event != "update" or push.alert is not None
    return bucket.pushes * (1 + options.wipes) - (0 if may_use_reserve else bucket.reserved)


def check_demotions(evidence, options):
    """Each alert and each end was sent with priority 10, unless the bucket was empty."""
    invariant = InvariantResult("nothing is demoted while the bucket has pushes left")
    bucket = evidence.policy.bucket
    demoted_count = 0
    for activity in evidence.pushes_of:
        for push, level in levels_before_pushes(bucket, evidence.pushes_that_reached(activity)):
            if not is_demoted(push):
                continue
            demoted_count += 1
            # A refused push, or one without a response, has drawn from the budget, but is not counted here. So a
            # difference of one push is allowed.
            if level >= 2 + options.tolerance / bucket.interval_milliseconds:
                invariant.add_violation(f"{activity}: line {push.line} went at 5 with {level:.1f} pushes left")
    invariant.measurement = f"{demoted_count} alerts and ends went at priority 5"
    return invariant


def levels_before_pushes(bucket, pushes):
    """Yields the pushes of one activity, each with the number of pushes that the bucket held just before it."""
    level, last_time = float(bucket.pushes), None
    for push in pushes:
        if last_time is not None:
            level = min(bucket.pushes, level + (push.time - last_time) / bucket.interval_milliseconds)
        last_time = push.time
        yield push, level
        if push.event == "start":
            level = float(bucket.pushes)
        elif push.priority == 10:
            level -= 1


def is_demoted(push):
    """Whether an alert or an end went at a lower priority. The alert of a start does not count, because a start fills
    the bucket."""
    has_alert = push.alert is not None and push.event != "start"
    return push.priority != 10 and (has_alert or push.event == "end")


def check_spacing(evidence, options):
    """Two pushes of an activity are at least its spacing apart."""
    invariant = InvariantResult("no two pushes of an activity are closer than the spacing")
    spacing_milliseconds = evidence.policy.spacing_milliseconds
    distance_milliseconds = []
    for activity in evidence.pushes_of:
        pushes = evidence.pushes_that_reached(activity)
        distance_milliseconds += check_distances(invariant, spacing_milliseconds, options, activity, pushes)
    invariant.measurement = (
        f"{len(distance_milliseconds)} pairs, the closest {min(distance_milliseconds, default=None)} ms apart; "
        f"allowed is {spacing_milliseconds} - {options.tolerance} ms"
    )
    return invariant


def check_distances(invariant, spacing_milliseconds, options, activity, pushes):
    """No push of one activity comes too early. Returns the time between each push and the one before it.

    Each push is compared with all earlier ones, because the small errors of many pushes must not add up. Each push's
    time is shifted back by one spacing for each earlier push. So one comparison, with the latest shifted time, covers
    all earlier pushes."""
    distance_milliseconds = []
    latest_shifted, last_push = None, None
    for number, push in enumerate(pushes):
        shifted = push.time - number * spacing_milliseconds
        if last_push is not None:
            distance_milliseconds.append(push.time - last_push.time)
            if shifted < latest_shifted - options.tolerance:
                invariant.add_violation(f"{activity}: lines {last_push.line} and {push.line} are {distance_milliseconds[-1]} ms apart")
        latest_shifted = shifted if latest_shifted is None else max(latest_shifted, shifted)
        last_push = push
    return distance_milliseconds


def check_timestamps(evidence, options):
    """The timestamps of one token do not decrease, except with a start, and no phone dropped a push."""
    invariant = InvariantResult("the timestamps of one token never decrease")
    last_timestamps, effect_counts = {}, Counter()
    for push in evidence.pushes:
        if not push.has_reached_phone:
            continue
        effect_counts[push.effect] += 1
        if push.effect not in ("shown", "ended", "started"):
            invariant.add_violation(f"line {push.line} ({push.activity}): the phone made of it: {push.effect}")
        before = last_timestamps.get(push.token)
        if before is not None and push.timestamp < before and push.event != "start":
            invariant.add_violation(f"line {push.line} ({push.activity}): {push.timestamp} after {before}")
        last_timestamps[push.token] = push.timestamp
    invariant.measurement = ", ".join(f"{count} {effect}" for effect, count in sorted(effect_counts.items()))
    return invariant


def check_endings(evidence, options):
    """After an accepted end an activity gets no push, except a start or the same end again."""
    invariant = InvariantResult("no push follows an accepted end")
    ended_count = 0
    for activity, pushes in evidence.pushes_of.items():
        end = None
        for push in pushes:
            if push.event == "start":
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


@dataclass
class AlertCounts:
    """What became of the alerts of a run."""

    rung_count: int = 0
    carried_count: int = 0
    """The alerts that rang with the state of a newer command."""
    replaced_count: int = 0
    repeat_count: int = 0
    silent_count: int = 0
    """The pushes that rang nothing although an alert was due, and left the alert to a later push."""


def check_alerts(evidence, options):
    """A push carries the newest alert of its own command and of all commands since the last push, so no alert is lost.
    It may leave out an alert that did not fit or was too old. A state that is read again after a possible loss of Redis
    rings nothing; then a later push rings what is due."""
    invariant = InvariantResult("every alert rings in order, or a newer alert replaces it")
    counts = AlertCounts()
    for activity, own_commands in evidence.commands_of.items():
        pushes = evidence.pushes_that_reached(activity)
        check_alerts_of_activity(invariant, counts, activity, own_commands, pushes, options)
    if counts.silent_count > options.silent_pushes:
        invariant.add_violation(f"{counts.silent_count} pushes left a due alert to a later one")
    if counts.repeat_count > options.alerts_again:
        invariant.add_violation(f"{counts.repeat_count} alerts rang again, {options.alerts_again} are allowed for")
    invariant.measurement = (
        f"{counts.rung_count} rang, {counts.carried_count} of them on a newer state; "
        f"{counts.replaced_count} replaced by a newer alert; {counts.repeat_count} rang again"
    )
    return invariant


def check_alerts_of_activity(invariant, counts, activity, own_commands, pushes, options):
    """Each push rings the alert that is due, and at the end no alert is still due."""
    waiting_commands = deque(
        command for command in own_commands if command.alert is not None and command.outcome not in UNDELIVERED
    )
    newest_order, rung_alerts = -1, set()
    for push in pushes:
        if push.command is None:
            invariant.add_violation(f"{activity}: line {push.line} is nobody's command")
            continue
        if push.command.order <= newest_order:  # The push repeats a command whose alerts are no longer due.
            continue
        newest_order = push.command.order
        due_commands = take_commands(waiting_commands, newest_order)
        if options.silent_pushes and due_commands and push.alert is None and not is_left_out(due_commands, push):
            counts.silent_count += 1
            waiting_commands.extendleft(reversed(due_commands))
            continue
        check_alert(invariant, counts, push, due_commands, rung_alerts)
        rung_alerts.add(push.alert)
    for command in waiting_commands:
        invariant.add_violation(f"{activity}: {command.identifier} ({command.alert!r}) rang nowhere")


def take_commands(waiting_commands, order):
    """Removes the commands up to this order from the beginning of a deque. Returns them."""
    taken_commands = []
    while waiting_commands and waiting_commands[0].order <= order:
        taken_commands.append(waiting_commands.popleft())
    return taken_commands


def check_alert(invariant, counts, push, due_commands, rung_alerts):
    """The push rings the newest due alert. If none is due, it may ring an alert again; the whole run has a limit for
    this."""
    expected = due_commands[-1].alert if due_commands else None
    if expected is None and push.alert is not None and push.alert in rung_alerts:
        counts.repeat_count += 1
    elif push.alert != expected and not is_left_out(due_commands, push):
        invariant.add_violation(f"{push.activity}: line {push.line} rings {push.alert!r}, due is {expected!r}")
    counts.replaced_count += max(0, len(due_commands) - 1)
    if push.alert is not None:
        counts.rung_count += 1
        counts.carried_count += bool(due_commands) and due_commands[-1] is not push.command


def is_left_out(due_commands, push):
    """Whether the alert was left out because it did not fit or was too old, as the command's result says."""
    if push.alert is not None or not due_commands:
        return False
    return any(result.get("reason") in ("alertDidNotFit", "alertExpired") for result in due_commands[-1].outcomes)


def check_waits(evidence, options):
    """No command waits long for its push, or for that of a newer command. The gaps between pushes are only measured."""
    spacing_milliseconds = evidence.policy.spacing_milliseconds
    wait_milliseconds_max = options.wait_spacings * spacing_milliseconds + options.tolerance
    invariant = InvariantResult(
        f"no state waits longer than {wait_milliseconds_max} ms for its push, or for the push of a newer state"
    )
    wait_milliseconds, gap_milliseconds = [], []
    for activity, own_commands in evidence.commands_of.items():
        pushes = [push for push in evidence.pushes_that_reached(activity) if push.command is not None]
        wait_milliseconds += check_waits_of_activity(invariant, wait_milliseconds_max, activity, own_commands, pushes)
        gap_milliseconds += gaps_between_pushes(spacing_milliseconds, own_commands, pushes)
    invariant.measurement = (
        f"waits: {describe_milliseconds(wait_milliseconds)}; "
        f"gaps before {len(gap_milliseconds)} pushes at 5 while commands came: {describe_milliseconds(gap_milliseconds)}"
    )
    return invariant


def check_waits_of_activity(invariant, wait_milliseconds_max, activity, own_commands, pushes):
    """Each command is finished in time, except if no phone needs its content. Returns the waits in milliseconds."""
    wait_milliseconds = []
    waiting_commands = deque(own_commands)
    for order, time in finish_times(own_commands, pushes):
        for command in take_commands(waiting_commands, order):
            if command.outcome in UNDELIVERED or command.event == "start":  # A start does not wait for the spacing.
                continue
            wait = time - command.time
            wait_milliseconds.append(wait)
            if wait > wait_milliseconds_max:
                invariant.add_violation(f"{activity}: {command.identifier} waited {wait} ms")
    for command in waiting_commands:
        if command.outcome not in UNDELIVERED:
            invariant.add_violation(f"{activity}: {command.identifier} never came, nor a newer one")
    return wait_milliseconds


def finish_times(own_commands, pushes):
    """Returns pairs of an order and a time, sorted by time. At this time, all commands up to this order are finished."""
    # A command whose state is already shown needs no push. It is finished when its result says so.
    unchanged_commands = [command for command in own_commands if command.outcome == "unchanged"]
    pairs = [
        (command.order, command.outcomes[-1].get("times", {}).get("admitted", command.time)) for command in unchanged_commands
    ]
    pairs += [(push.command.order, push.time) for push in pushes]
    return sorted(pairs, key=lambda pair: pair[1])


def gaps_between_pushes(spacing_milliseconds, own_commands, pushes):
    """Returns the milliseconds between each push at priority 5 and the push before it. A gap counts only if the next
    command came before the spacing had passed. Otherwise the gap is long because no command came."""
    gap_milliseconds = []
    for before, after in zip(pushes, pushes[1:]):
        next_order = before.command.order + 1
        if after.priority != 5 or next_order >= len(own_commands):
            continue
        if own_commands[next_order].time <= before.time + spacing_milliseconds:
            gap_milliseconds.append(after.time - before.time)
    return gap_milliseconds


def describe_milliseconds(values):
    return f"half {percentile(values, 0.5)}, 99 of 100 {percentile(values, 0.99)}, longest {percentile(values, 1)} ms"


def check_last_states(evidence, options):
    """The last push to each phone has the state of the activity's last command."""
    invariant = InvariantResult("each phone ends with the last command's state")
    correct_count = 0
    for activity, own_commands in evidence.commands_of.items():
        pushes = evidence.pushes_that_reached(activity)
        last_command = own_commands[-1]
        if not pushes:
            invariant.add_violation(f"{activity}: no push at all")
        elif pushes[-1].state != last_command.state:
            invariant.add_violation(f"{activity}: line {pushes[-1].line} is not {last_command.identifier}")
        elif last_command.event == "end" and pushes[-1].event != "end":
            invariant.add_violation(f"{activity}: has not ended")
        else:
            correct_count += 1
    invariant.measurement = f"{correct_count} of {len(evidence.commands_of)} phones"
    return invariant


INVARIANT_CHECKS = [
    check_results, check_accepted, check_budget, check_demotions, check_spacing, check_timestamps, check_endings, check_starts,
    check_alerts, check_waits, check_last_states,
]
