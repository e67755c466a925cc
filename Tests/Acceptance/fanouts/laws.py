"""The laws of fan-outs. Each `check_…` function reads the evidence, and returns what breaks its law and what it
measured."""

from recorded_runs.law_verdicts import Law, percentile

SEGMENTS = 256


def pushes_that_reached(member):
    """Returns the pushes that reached a member's phone."""
    return [push for push in member.pushes if push.effect is not None]


def check_newest_state(evidence, options):
    """A member that stays to the end shows the last command's state, by the log of its pushes and by the number of
    phones that the simulator reports. Each logged push belongs to a member and a command."""
    law = Law("every member that is in the audience to the end shows the newest state")
    last = evidence.commands[-1]
    correct_count = 0
    for member in evidence.members.values():
        if not member.is_in_to_the_end:
            continue
        pushes = pushes_that_reached(member)
        if not pushes:
            law.breaks(f"{member.activity}: no push at all")
        elif pushes[-1].command is not last:
            law.breaks(f"{member.activity}: line {pushes[-1].line} is {pushes[-1].command.identifier}")
        else:
            correct_count += 1
    shown = sum(one["phones"] for one in evidence.crowd["shown"] if one["contentState"] == last.content)
    if shown < correct_count:
        law.breaks(f"{correct_count} were sent it last, {shown} phones show it")
    for push in evidence.strangers:
        law.breaks(f"line {push.line} ({push.activity}) is of no member or no command")
    law.measured = f"{correct_count} members, {shown} phones"
    return law


def check_order(evidence, options):
    """No phone gets a state that is older than one that it already got."""
    law = Law("nobody goes back in time")
    pairs = 0
    for member in evidence.members.values():
        last = -1
        for push in pushes_that_reached(member):
            pairs += last >= 0
            if push.command.order < last:
                law.breaks(f"{member.activity}: line {push.line} is {push.command.identifier}, older than before")
            last = max(last, push.command.order)
    if evidence.crowd["reversed"]:
        law.breaks(f"{evidence.crowd['reversed']} phones say that they went back")
    law.measured = f"{pairs} pushes that came after another"
    return law


def is_since_checkpoint(evidence, options, time):
    """Whether a push at this time may have come after the last checkpoint of a worker that crashed."""
    return any(crash - options.checkpoint <= time <= crash + options.flight for crash in evidence.crashes)


LOSS_MILLISECONDS = 5_000
"""A member that was reached up to this many milliseconds after a loss of Redis' data may be reached again. A test may
freeze Redis after the loss, so workers notice the loss late."""


def is_before_wipe(evidence, options, time):
    return any(time <= wipe + max(options.flight, LOSS_MILLISECONDS) for wipe in evidence.wipes)


def is_joined_during(member, command):
    """Whether a member registered after a command was written, for the first time or with another token. It then gets
    the newest state at once, without its alert, and the fan-out may reach it as well."""
    return any(time is not None and time >= command.time for time in (member.joined, member.renewed))


def check_repeats(evidence, options):
    """No member gets a state twice. The exceptions are members that registered after the command was written and, after
    a crash, members reached since the last checkpoint. Further pushes are allowed after a loss of Redis' data."""
    law = Law("nobody is sent a state twice, except after a crash members reached since the last checkpoint")
    repeat_count, shown, ages = 0, 0, []
    # Members whose data was lost join again. Another fan-out of the same command may then reach them.
    pushes_max = 1 + len(evidence.crashes) + 2 * len(evidence.wipes)
    for member in evidence.members.values():
        times = {}
        for push in pushes_that_reached(member):
            earlier_times = times.setdefault(push.command.order, [])
            earlier_times.append(push.time)
            if len(earlier_times) == 1:
                continue
            if len(earlier_times) == 2 and (is_joined_during(member, push.command) or evidence.wipes):
                shown += 1
                continue
            repeat_count += 1
            ages += [crash - earlier_times[-2] for crash in evidence.crashes if crash + options.flight >= earlier_times[-2]]
            is_lost = is_before_wipe(evidence, options, push.command.time)
            if len(earlier_times) > pushes_max or not (is_lost or is_since_checkpoint(evidence, options, earlier_times[-2])):
                place = f"{member.activity}: line {push.line}"
                law.breaks(f"{place}, {push.command.identifier} for time {len(earlier_times)}, after {earlier_times[-2]}")
    oldest = f"; sent first {max(ages)} ms before the crash at most" if ages else ""
    law.measured = f"{repeat_count} repeated, {shown} more as they joined{oldest}"
    return law


def check_push_count(evidence, options):
    """The number of accepted pushes is at most the number of members times (completed fan-outs + 1)."""
    law = Law("no more pushes than members x (completed fan-outs + 1)")
    # After a loss of Redis' data, the newest command may be fanned out a second time.
    completed = sum(command.outcome == "delivered" for command in evidence.commands) + len(evidence.wipes)
    accepted = sum(push.status == 200 for push in evidence.pushes)
    pushes_max = len(evidence.members) * (completed + 1)
    if accepted > pushes_max:
        law.breaks(f"{accepted} pushes were accepted, {pushes_max} are allowed")
    law.measured = f"{accepted} pushes, {accepted / max(1, len(evidence.members)):.2f} a member; {completed} fan-outs were completed"
    return law


def check_takeover(evidence, options):
    """Soon after a newer state was admitted, the older one is no longer sent."""
    law = Law(f"nothing older is sent {options.takeover} ms after a newer command's admission")
    longest = 0
    for push in evidence.pushes:
        if push.command is None or push.effect is None:
            continue
        for newer in evidence.commands[push.command.order + 1:]:
            if newer.admitted is not None and push.time > newer.admitted:
                longest = max(longest, push.time - newer.admitted)
                if push.time > newer.admitted + options.takeover:
                    law.breaks(f"line {push.line}: {push.command.identifier} {push.time - newer.admitted} ms after {newer.identifier}")
                break
    law.measured = f"{longest} ms at most"
    return law


def check_alerts(evidence, options):
    """A member from before the first command to the end hears each alert once, or a newer one instead. After a crash it
    may hear again an alert that was just sent. After a loss of Redis' data it may also miss an alert. A member with
    another token may miss an alert that APNs refused with the old token."""
    law = Law("every alert is heard once, or a newer one in its place")
    ringing = [command for command in evidence.commands if command.alert is not None]
    order = {command.alert: command.order for command in ringing}
    heard_count, repeat_count, replaced_count, refused_count = 0, 0, 0, 0
    for member in evidence.members.values():
        times = {}
        for push in pushes_that_reached(member):
            if push.alert is None:
                continue
            heard_count += 1
            if push.alert not in order or order[push.alert] > push.command.order:
                law.breaks(f"{member.activity}: line {push.line} rings {push.alert!r} with {push.command.identifier}")
                continue
            earlier_times = times.setdefault(push.alert, [])
            if earlier_times:
                repeat_count += 1
                if not (is_since_checkpoint(evidence, options, earlier_times[-1]) or is_before_wipe(evidence, options, earlier_times[-1])):
                    law.breaks(f"{member.activity}: line {push.line} rings {push.alert!r} again")
            earlier_times.append(push.time)
        if not member.is_in_throughout:
            continue
        latest = max((order[alert] for alert in times), default=-1)
        for command in ringing:
            if command.alert in times:
                continue
            if latest > command.order:
                replaced_count += 1
            elif evidence.wipes and command is not evidence.commands[-1]:
                # Redis may have admitted the newer command after the loss, in other ranges, which do not know this
                # alert.
                replaced_count += 1
            elif member.renewed is not None and any(push.status == 410 for push in member.pushes):
                # APNs refused the push to the member's old token. The state that it got when it joined again has no alert.
                refused_count += 1
            else:
                law.breaks(f"{member.activity}: {command.alert!r} rang nowhere, nor a newer one")
    if evidence.crowd["alertedTwice"] and not repeat_count:
        law.breaks(f"{evidence.crowd['alertedTwice']} phones say that they heard one twice")
    law.measured = (
        f"{heard_count} heard, {repeat_count} again, {replaced_count} replaced by a newer one, "
        f"{refused_count} refused with an old token"
    )
    return law


def check_results(evidence, options):
    """The results of the ranges cover each segment once and add up to the command's result, which adds up to
    the members. A repeated result equals the first one, except after a loss of Redis' data."""
    law = Law("ranges' results add up to the command's, and that to the members")
    members_min = sum(member.is_in_throughout for member in evidence.members.values())
    members_max, repeat_count, result_count = len(evidence.members), 0, 0
    for foreign in evidence.foreign:
        law.breaks(f"a result of nobody's command: {foreign}")
    for command in evidence.commands:
        if not command.totals:
            law.breaks(f"{command.identifier}: no result")
            continue
        repeat_count += len(command.totals) - 1 + sum(len(own_results) - 1 for own_results in command.ranges.values())
        result_count += len(command.totals) + sum(map(len, command.ranges.values()))
        if not command.ranges:  # A newer command replaced this one before it was fanned out.
            if command.outcome != "superseded" or command is evidence.commands[-1]:
                law.breaks(f"{command.identifier}: {command.outcome}, and no range has a result")
            continue
        if evidence.wipes:
            # After the loss the command may have been divided again, into ranges for the members that are
            # back.
            width = SEGMENTS // command.totals[-1]["ranges"]
            ranges = [own_results[-1] for (first, last), own_results in command.ranges.items() if last - first + 1 == width]
            check_sums(law, command, ranges, 0, members_max)
            continue
        for own_results in [command.totals, *command.ranges.values()]:
            first = own_results[0]
            if any(one.get("members") != first.get("members") or one["outcome"] != first["outcome"] for one in own_results):
                law.breaks(f"{command.identifier}: told twice, and not the same: {[one.get('members') for one in own_results]}")
        check_sums(law, command, [own_results[0] for own_results in command.ranges.values()], members_min, members_max)
    if repeat_count and not (evidence.crashes or evidence.wipes):
        law.breaks(f"{repeat_count} results came again")
    law.measured = "; ".join(
        f"{command.identifier} {command.outcome} {command.totals[-1].get('members') if command.totals else None}"
        for command in evidence.commands
    ) + f"; {result_count} results, {repeat_count} came again"
    return law


def check_sums(law, command, ranges, members_min, members_max):
    segments = sorted(tuple(one["segments"]) for one in ranges)
    ends = [-1] + [last for _, last in segments]
    if any(first != end + 1 for (first, _), end in zip(segments, ends)) or ends[-1] != SEGMENTS - 1:
        law.breaks(f"{command.identifier}: the ranges do not cover the segments once: {segments}")
    sums = {}
    for one in ranges:
        for outcome, count in one["members"].items():
            sums[outcome] = sums.get(outcome, 0) + count
    total = command.totals[-1]
    if sums != total.get("members") or total.get("ranges") != len(segments):
        law.breaks(f"{command.identifier}: {len(segments)} ranges add up to {sums}, the command to {total.get('members')}")
    if not members_min <= sum(sums.values()) <= members_max:
        law.breaks(f"{command.identifier}: {sum(sums.values())} members, {members_min} were in throughout and {members_max} ever")


def check_counts(evidence, options):
    """The results count as many delivered members as the log has, except late joiners. After a crash or a loss of
    Redis' data, the log may have more."""
    law = Law("results count as delivered the members in the log: no more, and without a crash no fewer")
    measured = []
    for command in evidence.commands:
        if not command.totals or not command.ranges:
            continue
        delivered_count = command.totals[-1]["members"].get("delivered", 0)
        phone_count, joiner_count = 0, 0
        for member in evidence.members.values():
            if any(push.command is command and push.effect is not None for push in member.pushes):
                phone_count += 1
                joiner_count += member.joined is not None or member.renewed is not None  # It may have got the state when it joined.
        measured.append(f"{command.identifier} {delivered_count} of {phone_count}")
        if delivered_count > phone_count:
            law.breaks(f"{command.identifier}: {delivered_count} delivered, {phone_count} phones got it")
        if delivered_count < phone_count - joiner_count and not evidence.crashes and not evidence.wipes:
            law.breaks(
                f"{command.identifier}: {delivered_count} delivered, but {phone_count} phones got it, {joiner_count} of them joiners"
            )
    law.measured = "; ".join(measured)
    return law


def check_leavers(evidence, options):
    """A member gets no push later than `options.leave` ms after its leave, its newer token or its death was
    acknowledged."""
    law = Law(f"nothing is sent {options.leave} ms after a leave, a newer token or a death was acknowledged")
    dead_since = {}
    for activity, time in evidence.invalidations:
        dead_since[activity] = min(time, dead_since.get(activity, time))
    leaver_count, delay_max = 0, 0
    for push in evidence.pushes:
        member = evidence.members.get(push.activity)
        if member is None:
            continue
        ends = [member.left, evidence.retired.get(push.token), dead_since.get(push.activity) if member.is_dead else None]
        for end in ends:
            if end is not None and push.time > end:
                delay_max = max(delay_max, push.time - end)
                if push.time > end + options.leave:
                    law.breaks(f"{push.activity}: line {push.line}, {push.time - end} ms after it was acknowledged")
    leaver_count = sum(member.left is not None for member in evidence.members.values())
    law.measured = f"{leaver_count} left, {len(evidence.retired)} had another token, {len(dead_since)} died; {delay_max} ms at most"
    return law


def check_deaths(evidence, options):
    """Each phone whose token got 410 has an invalidation and a result of its own, and no other phone has either."""
    law = Law("each dead token has an invalidation and a result, and nobody else has")
    refused_activities = {push.activity for push in evidence.pushes if push.status == 410}
    result_activities = [activity for command in evidence.commands for activity, outcome in command.refusals if outcome == "unregistered"]
    for activity in refused_activities ^ set(result_activities):
        is_refused = activity in refused_activities
        law.breaks(f"{activity}: {'refused, and no result' if is_refused else 'unregistered, and it was never refused'}")
    for command in evidence.commands:
        counted = command.totals[-1].get("members", {}).get("unregistered", 0) if command.totals else 0
        told = len(set(command.refusals))
        if counted != told and not (evidence.crashes or evidence.wipes):
            law.breaks(f"{command.identifier}: {counted} are counted as unregistered, {told} have a result")
    told = [activity for activity, _ in evidence.invalidations]
    for activity in refused_activities - set(told):
        law.breaks(f"{activity}: refused, and no invalidation")
    for activity in set(told) - refused_activities:
        law.breaks(f"{activity}: an invalidation, and it was never refused")
    repeat_count = len(told) - len(set(told))
    if repeat_count and not (evidence.crashes or evidence.wipes):
        law.breaks(f"{repeat_count} invalidations came again")
    law.measured = f"{len(refused_activities)} refused, {len(told)} invalidations, {repeat_count} again"
    return law


def check_joiners(evidence, options):
    """Soon after it has joined, a member shows the state that was the newest at that moment, or a newer
    one."""
    law = Law(f"who joins shows the newest state {options.join} ms after it was acknowledged")
    waits = []
    for member in evidence.members.values():
        if member.joined is None or not member.is_in_to_the_end:
            continue
        order_min = max((c.order for c in evidence.commands if c.admitted is not None and c.admitted <= member.joined), default=None)
        if order_min is None:
            continue
        time = next((push.time for push in pushes_that_reached(member) if push.command.order >= order_min), None)
        if time is None:
            law.breaks(f"{member.activity}: never")
            continue
        waits.append(time - member.joined)
        if time > member.joined + options.join:
            law.breaks(f"{member.activity}: {time - member.joined} ms after it")
    law.measured = f"{len(waits)} joined" + (f"; half {percentile(waits, 0.5)}, longest {percentile(waits, 1)} ms" if waits else "")
    return law


LAWS = [
    check_newest_state, check_order, check_repeats, check_push_count, check_takeover, check_alerts, check_results, check_counts,
    check_leavers, check_deaths, check_joiners,
]
