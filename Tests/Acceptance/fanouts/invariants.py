"""The invariants of fan-outs. Each function in `INVARIANT_CHECKS` reads the evidence, and returns the violations of its
invariant and what it measured. A function with the parameter `invariant` is a part of one of these checks: it adds the
violations that it finds."""

from dataclasses import dataclass

from recorded_runs.invariant_results import InvariantResult, percentile

SEGMENT_COUNT = 256


def pushes_that_reached(member):
    """Returns the pushes that reached a member's phone."""
    return [push for push in member.pushes if push.effect is not None]


def check_newest_state(evidence, options):
    """A member that stays to the end shows the last command's state, by the log of its pushes and by the number of
    phones that the simulator reports. Each logged push belongs to a member and a command."""
    invariant = InvariantResult("every member that stays to the end shows the newest state")
    last = evidence.commands[-1]
    correct_count = 0
    for member in evidence.members.values():
        if not member.stays_to_end:
            continue
        pushes = pushes_that_reached(member)
        if not pushes:
            invariant.add_violation(f"{member.activity}: no push at all")
        elif pushes[-1].command is not last:
            invariant.add_violation(f"{member.activity}: line {pushes[-1].line} is {pushes[-1].command.identifier}")
        else:
            correct_count += 1
    shown_count = sum(state["phones"] for state in evidence.crowd["shown"] if state["contentState"] == last.content)
    if shown_count < correct_count:
        invariant.add_violation(f"{correct_count} were sent it last, {shown_count} phones show it")
    for push in evidence.unknown_pushes:
        invariant.add_violation(f"line {push.line} ({push.activity}) is of no member or no command")
    invariant.measurement = f"{correct_count} members, {shown_count} phones"
    return invariant


def check_order(evidence, options):
    """No phone gets a state that is older than one that it already got."""
    invariant = InvariantResult("no phone goes back to an older state")
    pair_count = 0
    for member in evidence.members.values():
        last = -1
        for push in pushes_that_reached(member):
            pair_count += last >= 0
            if push.command.order < last:
                invariant.add_violation(f"{member.activity}: line {push.line} is {push.command.identifier}, older than before")
            last = max(last, push.command.order)
    if evidence.crowd["reversed"]:
        invariant.add_violation(f"{evidence.crowd['reversed']} phones say that they went back")
    invariant.measurement = f"{pair_count} pushes that came after another"
    return invariant


def is_since_checkpoint(evidence, options, time):
    """Whether a push at this time may have come after the last checkpoint of a worker that crashed."""
    return any(crash - options.checkpoint <= time <= crash + options.flight for crash in evidence.crash_times)


WIPE_NOTICE_MILLISECONDS = 5_000
"""A member that was reached up to this many milliseconds after a loss of Redis' data may be reached again. A test may
freeze Redis after the loss, so workers notice the loss late."""


def is_before_wipe(evidence, options, time):
    """Whether a time is so early that workers have perhaps not noticed a loss of Redis' data yet."""
    return any(time <= wipe + max(options.flight, WIPE_NOTICE_MILLISECONDS) for wipe in evidence.wipe_times)


def has_joined_since(member, command):
    """Whether a member registered after a command was written, for the first time or with another token. It then gets
    the newest state at once, without its alert, and the fan-out may reach it as well."""
    return any(time is not None and time >= command.time for time in (member.joined, member.renewed))


def check_repeats(evidence, options):
    """No member gets a state twice, with three exceptions: the member registered after the command was written; a worker
    crashed before it had recorded the push in a checkpoint; Redis has lost its data."""
    invariant = InvariantResult("no member gets a state twice, except if it was reached after the last checkpoint before a crash")
    repeat_count, shown_again_count, push_ages = 0, 0, []
    for member in evidence.members.values():
        for push, earlier_times in repeated_pushes(member):
            if len(earlier_times) == 1 and (has_joined_since(member, push.command) or evidence.wipe_times):
                shown_again_count += 1
                continue
            repeat_count += 1
            push_ages += ages_at_crashes(evidence, options, earlier_times[-1])
            if not may_be_repeated(evidence, options, push, earlier_times):
                place = f"{member.activity}: line {push.line}"
                invariant.add_violation(f"{place}, {push.command.identifier} for time {len(earlier_times) + 1}, after {earlier_times[-1]}")
    oldest = f"; sent first {max(push_ages)} ms before the crash at most" if push_ages else ""
    invariant.measurement = f"{repeat_count} repeated, {shown_again_count} more as they joined{oldest}"
    return invariant


def repeated_pushes(member):
    """Yields each push with a state that the member already got, and the times of the earlier pushes with this state."""
    times_by_order = {}
    for push in pushes_that_reached(member):
        times = times_by_order.setdefault(push.command.order, [])
        if times:
            yield push, list(times)
        times.append(push.time)


def ages_at_crashes(evidence, options, time):
    """Returns how old a push of this time was at each crash that may be the reason for its repetition."""
    return [crash - time for crash in evidence.crash_times if crash + options.flight >= time]


def may_be_repeated(evidence, options, push, earlier_times):
    """Whether a crash or a loss of Redis' data allows this push, although the member got its state at earlier times."""
    # Members whose data was lost join again. Another fan-out of the same command may then reach them.
    pushes_max = 1 + len(evidence.crash_times) + 2 * len(evidence.wipe_times)
    if len(earlier_times) >= pushes_max:
        return False
    is_lost = is_before_wipe(evidence, options, push.command.time)
    return is_lost or is_since_checkpoint(evidence, options, earlier_times[-1])


def check_push_count(evidence, options):
    """The number of accepted pushes is at most the number of members times (completed fan-outs + 1)."""
    invariant = InvariantResult("no more pushes than members x (completed fan-outs + 1)")
    # After a loss of Redis' data, the newest command may be fanned out a second time.
    completed_count = sum(command.outcome == "delivered" for command in evidence.commands) + len(evidence.wipe_times)
    accepted_count = sum(push.status == 200 for push in evidence.pushes)
    pushes_max = len(evidence.members) * (completed_count + 1)
    if accepted_count > pushes_max:
        invariant.add_violation(f"{accepted_count} pushes were accepted, {pushes_max} are allowed")
    pushes_per_member = accepted_count / max(1, len(evidence.members))
    invariant.measurement = f"{accepted_count} pushes, {pushes_per_member:.2f} a member; {completed_count} fan-outs were completed"
    return invariant


def check_takeover(evidence, options):
    """Soon after a newer state was admitted, the older one is no longer sent."""
    invariant = InvariantResult(f"no older state is sent more than {options.takeover} ms after a newer command's admission")
    longest = 0
    for push in evidence.pushes:
        if push.command is None or push.effect is None:
            continue
        for newer in evidence.commands[push.command.order + 1:]:
            if newer.admitted_at is not None and push.time > newer.admitted_at:
                longest = max(longest, push.time - newer.admitted_at)
                if push.time > newer.admitted_at + options.takeover:
                    invariant.add_violation(
                        f"line {push.line}: {push.command.identifier} {push.time - newer.admitted_at} ms after {newer.identifier}"
                    )
                break
    invariant.measurement = f"{longest} ms at most"
    return invariant


@dataclass
class AlertCounts:
    """What became of the alerts of a run, counted over all members."""

    heard_count: int = 0
    repeat_count: int = 0
    replaced_count: int = 0
    refused_count: int = 0


def check_alerts(evidence, options):
    """A member that is in the audience from before the first command to the end hears each alert once, or a newer one
    instead. There are three exceptions. After a crash it may hear again an alert that was just sent. After a loss of
    Redis' data it may miss an alert. If it gets another token, it may miss an alert that APNs refused for the old one."""
    invariant = InvariantResult("every alert rings once, or a newer alert replaces it")
    order_of_alert = {command.alert: command.order for command in evidence.commands if command.alert is not None}
    counts = AlertCounts()
    for member in evidence.members.values():
        heard_alerts = check_heard_alerts(invariant, counts, evidence, options, order_of_alert, member)
        if member.is_member_throughout:
            newest_order = max((order_of_alert[alert] for alert in heard_alerts), default=-1)
            check_missed_alerts(invariant, counts, evidence, member, heard_alerts, newest_order)
    if evidence.crowd["alertedTwice"] and not counts.repeat_count:
        invariant.add_violation(f"{evidence.crowd['alertedTwice']} phones say that they heard one twice")
    invariant.measurement = (
        f"{counts.heard_count} heard, {counts.repeat_count} again, {counts.replaced_count} replaced by a newer one, "
        f"{counts.refused_count} refused with an old token"
    )
    return invariant


def check_heard_alerts(invariant, counts, evidence, options, order_of_alert, member):
    """A push rings no alert that is newer than its state, and none again without a reason. Returns the alerts that the
    member heard."""
    last_times = {}
    for push in pushes_that_reached(member):
        if push.alert is None:
            continue
        counts.heard_count += 1
        if push.alert not in order_of_alert or order_of_alert[push.alert] > push.command.order:
            invariant.add_violation(f"{member.activity}: line {push.line} rings {push.alert!r} with {push.command.identifier}")
            continue
        if push.alert in last_times:
            counts.repeat_count += 1
            last_time = last_times[push.alert]
            if not (is_since_checkpoint(evidence, options, last_time) or is_before_wipe(evidence, options, last_time)):
                invariant.add_violation(f"{member.activity}: line {push.line} rings {push.alert!r} again")
        last_times[push.alert] = push.time
    return set(last_times)


def check_missed_alerts(invariant, counts, evidence, member, heard_alerts, newest_order):
    """The member missed no alert without a reason. `newest_order` is that of the newest alert that it heard."""
    for command in evidence.commands:
        if command.alert is None or command.alert in heard_alerts:
            continue
        if newest_order > command.order:
            counts.replaced_count += 1
        elif evidence.wipe_times and command is not evidence.commands[-1]:
            # A newer command exists. After the loss, Redis may have divided it into other ranges, whose rounds do not know
            # this alert. So the alert may be missing; it counts as replaced.
            counts.replaced_count += 1
        elif has_refused_old_token(member):
            counts.refused_count += 1
        else:
            invariant.add_violation(f"{member.activity}: {command.alert!r} rang nowhere, nor a newer one")


def has_refused_old_token(member):
    """Whether APNs refused a push to the member's old token. The state that the member got when it joined again has no
    alert."""
    return member.renewed is not None and any(push.status == 410 for push in member.pushes)


def check_results(evidence, options):
    """The results of the ranges cover each segment once and add up to the command's result, which adds up to
    the members. A repeated result equals the first one, except after a loss of Redis' data."""
    invariant = InvariantResult("the results of the ranges add up to the command's result, which adds up to the members")
    members_min = sum(member.is_member_throughout for member in evidence.members.values())
    repeat_count, result_count = 0, 0
    for foreign in evidence.foreign_results:
        invariant.add_violation(f"a result of nobody's command: {foreign}")
    for command in evidence.commands:
        if not command.totals:
            invariant.add_violation(f"{command.identifier}: no result")
            continue
        result_counts = [len(command.totals), *map(len, command.ranges.values())]
        repeat_count += sum(result_counts) - len(result_counts)
        result_count += sum(result_counts)
        check_results_of_command(invariant, evidence, command, members_min)
    if repeat_count and not (evidence.crash_times or evidence.wipe_times):
        invariant.add_violation(f"{repeat_count} results came again")
    invariant.measurement = "; ".join(
        f"{command.identifier} {command.outcome} {command.totals[-1].get('members') if command.totals else None}"
        for command in evidence.commands
    ) + f"; {result_count} results, {repeat_count} came again"
    return invariant


def check_results_of_command(invariant, evidence, command, members_min):
    """The results of a command that has a result are complete and agree."""
    members_max = len(evidence.members)
    if not command.ranges:  # A newer command replaced this one before it was fanned out.
        if command.outcome != "superseded" or command is evidence.commands[-1]:
            invariant.add_violation(f"{command.identifier}: {command.outcome}, and no range has a result")
    elif evidence.wipe_times:
        # After the loss the command may have been divided again, into ranges for the members that are back.
        width = SEGMENT_COUNT // command.totals[-1]["ranges"]
        ranges = [own_results[-1] for (first, last), own_results in command.ranges.items() if last - first + 1 == width]
        check_sums(invariant, command, ranges, 0, members_max)
    else:
        for own_results in [command.totals, *command.ranges.values()]:
            check_repeated_results(invariant, command, own_results)
        check_sums(invariant, command, [own_results[0] for own_results in command.ranges.values()], members_min, members_max)


def check_repeated_results(invariant, command, own_results):
    """All results of one range, or all results of the command, equal the first one."""
    first = own_results[0]
    if any(one.get("members") != first.get("members") or one["outcome"] != first["outcome"] for one in own_results):
        members = [one.get("members") for one in own_results]
        invariant.add_violation(f"{command.identifier}: reported twice, and not the same: {members}")


def check_sums(invariant, command, ranges, members_min, members_max):
    """These results of ranges cover each segment once, and add up to the command's newest result."""
    segments = sorted(tuple(one["segments"]) for one in ranges)
    ends = [-1] + [last for _, last in segments]
    if any(first != end + 1 for (first, _), end in zip(segments, ends)) or ends[-1] != SEGMENT_COUNT - 1:
        invariant.add_violation(f"{command.identifier}: the ranges do not cover the segments once: {segments}")
    sums = {}
    for one in ranges:
        for outcome, count in one["members"].items():
            sums[outcome] = sums.get(outcome, 0) + count
    total = command.totals[-1]
    if sums != total.get("members") or total.get("ranges") != len(segments):
        invariant.add_violation(f"{command.identifier}: {len(segments)} ranges add up to {sums}, the command to {total.get('members')}")
    if not members_min <= sum(sums.values()) <= members_max:
        invariant.add_violation(
            f"{command.identifier}: {sum(sums.values())} members, but there were always {members_min} and never more than {members_max}"
        )


def check_counts(evidence, options):
    """The results count at most as many delivered members as the log has. They may leave out members that joined during
    the fan-out, and after a crash or a loss of Redis' data also others."""
    invariant = InvariantResult("results count as many delivered members as the log has: never more, and fewer only after a crash")
    measurements = []
    for command in evidence.commands:
        if not command.totals or not command.ranges:
            continue
        delivered_count = command.totals[-1]["members"].get("delivered", 0)
        reached_members = members_that_got(evidence, command)
        phone_count = len(reached_members)
        # A joiner may have got the state when it joined.
        joiner_count = sum(member.joined is not None or member.renewed is not None for member in reached_members)
        measurements.append(f"{command.identifier} {delivered_count} of {phone_count}")
        if delivered_count > phone_count:
            invariant.add_violation(f"{command.identifier}: {delivered_count} delivered, {phone_count} phones got it")
        if delivered_count < phone_count - joiner_count and not evidence.crash_times and not evidence.wipe_times:
            invariant.add_violation(
                f"{command.identifier}: {delivered_count} delivered, but {phone_count} phones got it, {joiner_count} of them joiners"
            )
    invariant.measurement = "; ".join(measurements)
    return invariant


def members_that_got(evidence, command):
    """Returns the members whose phones got a command's state."""
    return [
        member for member in evidence.members.values()
        if any(push.command is command and push.effect is not None for push in member.pushes)
    ]


def check_leavers(evidence, options):
    """A member gets no push later than `options.leave` ms after its leave, its newer token or its death was
    acknowledged."""
    invariant = InvariantResult(f"nothing is sent more than {options.leave} ms after a leave, a newer token or a death was acknowledged")
    dead_since = {}
    for activity, time in evidence.invalidations:
        dead_since[activity] = min(time, dead_since.get(activity, time))
    leaver_count, delay_max = 0, 0
    for push in evidence.pushes:
        member = evidence.members.get(push.activity)
        if member is None:
            continue
        end_times = [member.left, evidence.retired_tokens.get(push.token), dead_since.get(push.activity) if member.is_dead else None]
        for end_time in end_times:
            if end_time is not None and push.time > end_time:
                delay_max = max(delay_max, push.time - end_time)
                if push.time > end_time + options.leave:
                    invariant.add_violation(f"{push.activity}: line {push.line}, {push.time - end_time} ms after it was acknowledged")
    leaver_count = sum(member.left is not None for member in evidence.members.values())
    invariant.measurement = (
        f"{leaver_count} left, {len(evidence.retired_tokens)} had another token, {len(dead_since)} died; {delay_max} ms at most"
    )
    return invariant


def check_deaths(evidence, options):
    """Each phone whose token got 410 has an invalidation and a result of its own, and no other phone has either."""
    invariant = InvariantResult("each dead token has an invalidation and a result, and no other token has")
    refused_activities = {push.activity for push in evidence.pushes if push.status == 410}
    result_activities = [activity for command in evidence.commands for activity, outcome in command.refusals if outcome == "unregistered"]
    for activity in refused_activities ^ set(result_activities):
        is_refused = activity in refused_activities
        invariant.add_violation(f"{activity}: {'refused, and no result' if is_refused else 'unregistered, and it was never refused'}")
    for command in evidence.commands:
        unregistered_count = command.totals[-1].get("members", {}).get("unregistered", 0) if command.totals else 0
        result_count = len(set(command.refusals))
        if unregistered_count != result_count and not (evidence.crash_times or evidence.wipe_times):
            invariant.add_violation(f"{command.identifier}: {unregistered_count} are counted as unregistered, {result_count} have a result")
    invalidated_activities = [activity for activity, _ in evidence.invalidations]
    for activity in refused_activities - set(invalidated_activities):
        invariant.add_violation(f"{activity}: refused, and no invalidation")
    for activity in set(invalidated_activities) - refused_activities:
        invariant.add_violation(f"{activity}: an invalidation, and it was never refused")
    repeat_count = len(invalidated_activities) - len(set(invalidated_activities))
    if repeat_count and not (evidence.crash_times or evidence.wipe_times):
        invariant.add_violation(f"{repeat_count} invalidations came again")
    invariant.measurement = f"{len(refused_activities)} refused, {len(invalidated_activities)} invalidations, {repeat_count} again"
    return invariant


def check_joiners(evidence, options):
    """Soon after it has joined, a member shows the state that was the newest at that moment, or a newer
    one."""
    invariant = InvariantResult(f"a joiner shows the newest state at most {options.join} ms after its join was acknowledged")
    waits = []
    for member in evidence.members.values():
        if member.joined is None or not member.stays_to_end:
            continue
        order_min = max((c.order for c in evidence.commands if c.admitted_at is not None and c.admitted_at <= member.joined), default=None)
        if order_min is None:
            continue
        time = next((push.time for push in pushes_that_reached(member) if push.command.order >= order_min), None)
        if time is None:
            invariant.add_violation(f"{member.activity}: never")
            continue
        waits.append(time - member.joined)
        if time > member.joined + options.join:
            invariant.add_violation(f"{member.activity}: {time - member.joined} ms after it")
    waits_text = f"; half {percentile(waits, 0.5)}, longest {percentile(waits, 1)} ms" if waits else ""
    invariant.measurement = f"{len(waits)} joined{waits_text}"
    return invariant


INVARIANT_CHECKS = [
    check_newest_state, check_order, check_repeats, check_push_count, check_takeover, check_alerts, check_results, check_counts,
    check_leavers, check_deaths, check_joiners,
]
