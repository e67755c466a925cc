public import Delivery
import LiveActivity

/// Commands to audiences, from ``receiveCommand(_:)`` until they are returned. In each audience, one command at
/// a time is admitted and fanned out. Of the updates and ends that wait between two starts, the core keeps only
/// the newest state.
extension Audiences {
    /// Whether the shell may call ``receiveCommand(_:)`` once more.
    public var canReceiveCommand: Bool { !commands.isFull && returnedCommands.count < configuration.commandsMax }

    /// Takes a command. It is returned through ``nextReturnedCommand``, exactly once.
    public mutating func receiveCommand(_ incoming: IncomingCommand) {
        let digest =
            incoming.channelEnvironment.map { AudienceDigest(ofChannel: incoming.audience, in: $0) }
            ?? AudienceDigest(of: incoming.audience)
        let key = AudienceKey(appIndex: incoming.appIndex, digest: digest)
        let audience = audiencesByKey[key] ?? addAudience(key, incoming)
        let command = commands.allocate(
            CommandSlot(
                record: incoming.record,
                audience: audience,
                requestsChannel: incoming.requestsChannel,
                event: incoming.event,
                version: incoming.version,
                priority: incoming.priority,
                policy: incoming.policy,
                expiration: incoming.expiration,
                staleDate: incoming.staleDate,
                policyName: HeapBytes(copying: incoming.policyName),
                activityTemplate: HeapBytes(copying: incoming.activityTemplate),
                identifier: HeapBytes(copying: incoming.identifier),
                body: HeapBytes(copying: incoming.body),
                layout: incoming.layout,
                trace: HeapBytes(copying: incoming.trace),
                droppedFields: HeapBytes(copying: incoming.droppedFields),
                partition: incoming.partition,
                offset: incoming.offset,
                recordMilliseconds: incoming.recordMilliseconds,
                receivedMilliseconds: incoming.receivedMilliseconds
            )
        )
        enqueue(command)
        awaitBatchEnd(audience)
    }

    /// Ends a batch of ``receiveCommand(_:)`` calls and begins the next command of each audience that the batch names.
    ///
    /// The commands wait until the batch ends, because by then only the newest state of each audience is left.
    /// An earlier state of the batch may be older than the state on the phones: a worker that died may have
    /// sent more than it committed, and its commands are read again. The store recognizes a repeated command,
    /// but a store that has lost its data treats it as a new one.
    public mutating func endBatch(now: Moment) {
        while let audience = audiencesAwaitingBatchEnd.popFirst() {
            audiences[audience].isAwaitingBatchEnd = false
            beginNextCommand(audience, now: now)
        }
    }

    private mutating func awaitBatchEnd(_ audience: UInt32) {
        guard !audiences[audience].isAwaitingBatchEnd else { return }
        audiences[audience].isAwaitingBatchEnd = true
        audiencesAwaitingBatchEnd.append(audience)
    }

    /// Returns the waiting commands of revoked partitions as `withdrawn`. Commands under way stay, and so do riders
    /// whose carrier is under way or belongs to another partition.
    ///
    /// If a carrier is withdrawn but its rider is not, the rider waits in the carrier's place: the next owner of the
    /// carrier's partition does not know the alert.
    ///
    /// - Parameter isRevoked: whether a record's partition is being revoked. False for a record of an assignment that
    ///   has ended: if the partition has been assigned again, the record that was read again may already be settled as
    ///   a duplicate of this one.
    public mutating func withdraw(where isRevoked: (_ record: UInt32) -> Bool) {
        for command in 0..<commands.indexBound
        where commands.isInUse(command) && commands[command].stage == .waiting && isRevoked(commands[command].record) {
            let audience = commands[command].audience
            let rider = commands[command].rider
            if rider != .max, !isRevoked(commands[rider].record) {
                commands[command].rider = .max
                put(rider, inPlaceOf: command, of: audience)
                awaitBatchEnd(audience)
            } else {
                unlinkCommand(command, of: audience)
            }
            finishCommand(command, .withdrawn)
            removeIfIdle(audience)
        }
    }

    /// Removes and returns the next command that goes back to `Delivery`: it has an outcome, is fanned out or was
    /// withdrawn (``HandoverEnding``). Nil if there is none.
    public mutating func nextReturnedCommand() -> ReturnedCommand? { returnedCommands.popFirst() }

    private mutating func addAudience(_ key: AudienceKey, _ incoming: IncomingCommand) -> UInt32 {
        let audience = audiences.allocate(
            AudienceSlot(
                appIndex: key.appIndex,
                digest: key.digest,
                identifier: HeapBytes(copying: incoming.audience),
                channelEnvironment: incoming.channelEnvironment
            )
        )
        audiencesByKey[key] = audience
        return audience
    }

    /// Adds a command to those that wait in its audience, and keeps only the newest state. An update never
    /// supersedes an end, and does not end because the end waits: only Redis knows whether a start has begun a new life
    /// since. (R13)
    private mutating func enqueue(_ command: UInt32) {
        let audience = commands[command].audience
        let waiting = audiences[audience].lastWaitingCommand
        if audiences[audience].currentCommand != .max,
            commands[audiences[audience].currentCommand].version == commands[command].version
        {
            return finishCommand(command, .outcome(.duplicate))
        }
        // A start is for devices, so it replaces no other command, and no other command replaces it.
        guard waiting != .max, commands[waiting].event != .start, commands[command].event != .start else {
            return append(command, to: audience)
        }
        merge(command, with: waiting, of: audience)
    }

    /// Keeps one of two commands, each of them an update or an end: `waiting` is in the audience's list, `command` is
    /// in no list. The command that is kept has the place of `waiting`. The other one ends, or becomes its rider. Both
    /// are kept if the older one is an end and the newer one an update.
    private mutating func merge(_ command: UInt32, with waiting: UInt32, of audience: UInt32) {
        let (newer, older) =
            commands[waiting].version < commands[command].version ? (command, waiting) : (waiting, command)
        if commands[waiting].version == commands[command].version {
            finishCommand(command, .outcome(.duplicate))
        } else if commands[older].event == .end, commands[newer].event == .update {
            keepBoth(end: older, update: newer, waiting: waiting, of: audience)
        } else {
            if older == waiting { put(newer, inPlaceOf: older, of: audience) }
            supersedeCommand(older, by: newer)
            if commands[newer].event == .end { supersedeEnd(before: newer, of: audience) }
        }
    }

    /// Keeps an end and a newer update, of which `waiting` is in the audience's list. The one that is not in the list is
    /// merged with its neighbor there, if they do not have a start between them.
    private mutating func keepBoth(end: UInt32, update: UInt32, waiting: UInt32, of audience: UInt32) {
        if waiting == update {
            let predecessor = predecessor(of: update, of: audience)
            guard predecessor != .max, commands[predecessor].event != .start else {
                return put(end, before: update, of: audience)
            }
            merge(end, with: predecessor, of: audience)
        } else {
            let next = commands[end].nextCommand
            guard next != .max, commands[next].event != .start else { return put(update, behind: end, of: audience) }
            merge(update, with: next, of: audience)
        }
    }

    /// Supersedes the older end that waits directly before a newer one, which has replaced the update between them.
    private mutating func supersedeEnd(before end: UInt32, of audience: UInt32) {
        let older = predecessor(of: end, of: audience)
        guard older != .max, commands[older].event == .end, commands[older].version < commands[end].version else {
            return
        }
        unlinkCommand(older, of: audience)
        supersedeCommand(older, by: end)
    }

    /// Supersedes the older command. If the newer command has no alert of its own, and if its body stays within the
    /// limit with the older one's alert, it carries that alert. The command that brought the alert then ends together
    /// with the newer one. Every other replaced command ends now.
    private mutating func supersedeCommand(_ older: UInt32, by newer: UInt32) {
        if commands[older].requestsChannel { commands[newer].requestsChannel = true }
        guard commands[older].hasAlert, !commands[newer].hasAlert,
            Body.byteCount(
                commands[newer].body.bytes,
                commands[newer].layout,
                carryingAlertOf: commands[older].alert.count
            ) <= bodyBytesMax(of: commands[newer].audience)
        else { return finishCommand(older, .outcome(.superseded)) }
        let (body, layout) = Self.bodyWithAlert(
            commands[older].alert,
            on: commands[newer].body.bytes,
            commands[newer].layout
        )
        commands[newer].body.free()
        commands[newer].body = body
        commands[newer].layout = layout
        commands[newer].alertVersion = commands[older].alertVersion ?? commands[older].version
        let rider = commands[older].rider
        guard rider == .max else {
            // The alert came from `rider`, an even older command. From now on, `newer` carries it, so `older`
            // carries nothing and can end.
            commands[older].rider = .max
            commands[newer].rider = rider
            return finishCommand(older, .outcome(.superseded))
        }
        commands[older].stage = .riding
        commands[newer].rider = older
    }

    static func bodyWithAlert(
        _ alert: UnsafeRawBufferPointer,
        on body: UnsafeRawBufferPointer,
        _ layout: Body.Layout
    ) -> (HeapBytes, Body.Layout) {
        let newBody = HeapBytes(count: Body.byteCount(body, layout, carryingAlertOf: alert.count))
        return (newBody, Body.write(body, layout, carrying: alert, into: newBody.mutableBytes))
    }

    static func bodyWithoutAlert(_ body: UnsafeRawBufferPointer, _ layout: Body.Layout) -> (HeapBytes, Body.Layout) {
        guard !layout.alert.isAbsent else { return (HeapBytes(copying: body), layout) }
        let quietBody = HeapBytes(count: Body.byteCountWithoutAlert(body, layout))
        return (quietBody, Body.writeWithoutAlert(body, layout, into: quietBody.mutableBytes))
    }

    private mutating func append(_ command: UInt32, to audience: UInt32) {
        commands[command].nextCommand = .max
        commands[command].stage = .waiting
        let last = audiences[audience].lastWaitingCommand
        if last == .max {
            audiences[audience].firstWaitingCommand = command
        } else {
            commands[last].nextCommand = command
        }
        audiences[audience].lastWaitingCommand = command
    }

    /// Puts a command where `waiting` waits, and takes `waiting` out of the list. At another place, the command could
    /// follow a start that is newer than the command.
    private mutating func put(_ command: UInt32, inPlaceOf waiting: UInt32, of audience: UInt32) {
        let predecessor = predecessor(of: waiting, of: audience)
        commands[command].nextCommand = commands[waiting].nextCommand
        commands[command].stage = .waiting
        if predecessor == .max {
            audiences[audience].firstWaitingCommand = command
        } else {
            commands[predecessor].nextCommand = command
        }
        if audiences[audience].lastWaitingCommand == waiting { audiences[audience].lastWaitingCommand = command }
    }

    private mutating func put(_ command: UInt32, before waiting: UInt32, of audience: UInt32) {
        let predecessor = predecessor(of: waiting, of: audience)
        guard predecessor != .max else { return prepend(command, to: audience) }
        put(command, behind: predecessor, of: audience)
    }

    private mutating func put(_ command: UInt32, behind waiting: UInt32, of audience: UInt32) {
        commands[command].nextCommand = commands[waiting].nextCommand
        commands[command].stage = .waiting
        commands[waiting].nextCommand = command
        if audiences[audience].lastWaitingCommand == waiting { audiences[audience].lastWaitingCommand = command }
    }

    /// Returns the command that waits before `command` in its audience's list; `.max` if `command` is the first.
    private func predecessor(of command: UInt32, of audience: UInt32) -> UInt32 {
        var predecessor = UInt32.max
        var current = audiences[audience].firstWaitingCommand
        while current != command, current != .max { (predecessor, current) = (current, commands[current].nextCommand) }
        precondition(current == command, "a command that waits is in its audience's list")
        return predecessor
    }

    private mutating func unlinkCommand(_ command: UInt32, of audience: UInt32) {
        let predecessor = predecessor(of: command, of: audience)
        let next = commands[command].nextCommand
        if predecessor == .max {
            audiences[audience].firstWaitingCommand = next
        } else {
            commands[predecessor].nextCommand = next
        }
        if audiences[audience].lastWaitingCommand == command { audiences[audience].lastWaitingCommand = predecessor }
    }

    /// Makes the current command wait again, because the store answered `wait`. It waits before all other commands of
    /// the audience, or in the place of the first one: it must be admitted before the starts that wait. Otherwise the
    /// store would admit a start first, and an end would then close the new life. (R13)
    mutating func putBackCurrentCommand(of audience: UInt32, now: Moment) {
        let command = audiences[audience].currentCommand
        audiences[audience].currentCommand = .max
        commands[command].unacknowledgedCount = 0
        let first = audiences[audience].firstWaitingCommand
        if first == .max || commands[first].event == .start || commands[command].event == .start {
            prepend(command, to: audience)
        } else if commands[first].version == commands[command].version {
            // Of two equal commands, only the one that was begun may carry an alert.
            put(command, inPlaceOf: first, of: audience)
            finishCommand(first, .outcome(.duplicate))
        } else {
            merge(command, with: first, of: audience)
        }
        beginNextCommand(audience, now: now)
    }

    private mutating func prepend(_ command: UInt32, to audience: UInt32) {
        commands[command].stage = .waiting
        commands[command].nextCommand = audiences[audience].firstWaitingCommand
        audiences[audience].firstWaitingCommand = command
        if audiences[audience].lastWaitingCommand == .max { audiences[audience].lastWaitingCommand = command }
    }

    /// Begins the next command of an audience, unless a command is under way or the store has asked the
    /// audience to wait.
    mutating func beginNextCommand(_ audience: UInt32, now: Moment) {
        while audiences[audience].currentCommand == .max, audiences[audience].firstWaitingCommand != .max {
            guard audiences[audience].pausedUntilMilliseconds <= now.monotonicMilliseconds else { return }
            let command = audiences[audience].firstWaitingCommand
            unlinkCommand(command, of: audience)
            if isCommandExpired(command, now: now) {
                finishCommand(command, .outcome(.expired))
                continue
            }
            removeOldAlert(of: command, now: now)
            audiences[audience].currentCommand = command
            if audiences[audience].channelEnvironment == nil {
                requestSamplePages(command)
            } else {
                admitToChannel(command)
            }
        }
        removeIfIdle(audience)
    }

    private func isCommandExpired(_ command: UInt32, now: Moment) -> Bool {
        let slot = commands.address(of: command)
        return AgeRules.isExpired(slot.pointee.expiration, now: now.wallSeconds)
            || AgeRules.isStateTooOld(
                timestamp: slot.pointee.version.timestamp,
                isEnd: slot.pointee.event == .end,
                now: now.wallSeconds
            )
    }

    private mutating func removeOldAlert(of command: UInt32, now: Moment) {
        guard commands[command].hasAlert, commands[command].event != .start else { return }
        let version = commands[command].alertVersion ?? commands[command].version
        let alertSeconds = policies[commands[command].policy].alertSeconds
        guard AgeRules.isAlertOld(timestamp: version.timestamp, alertSeconds: alertSeconds, now: now.wallSeconds) else {
            return
        }
        let (body, layout) = Self.bodyWithoutAlert(commands[command].body.bytes, commands[command].layout)
        commands[command].body.free()
        commands[command].body = body
        commands[command].layout = layout
        commands[command].alertVersion = nil
        commands[command].isAlertExpired = true
    }

    /// Ends the current command of an audience and begins the next one.
    mutating func finishCurrentCommand(
        _ command: UInt32,
        _ ending: HandoverEnding,
        reason: StaticString = "",
        now: Moment
    ) {
        let audience = commands[command].audience
        precondition(
            audiences[audience].currentCommand == command,
            "only the current command of an audience can end here"
        )
        audiences[audience].currentCommand = .max
        finishCommand(command, ending, reason: reason)
        beginNextCommand(audience, now: now)
    }

    /// Returns a command to the core for single activities, and also the command whose alert it carried. Both have
    /// left the audience's list.
    private mutating func finishCommand(_ command: UInt32, _ ending: HandoverEnding, reason: StaticString = "") {
        let slot = commands[command]
        if slot.rider != .max {
            finishCommand(slot.rider, ending == .withdrawn ? .withdrawn : .outcome(.superseded))
        }
        returnedCommands.append(
            ReturnedCommand(
                record: slot.record,
                ending: ending,
                reason: reason,
                admittedMilliseconds: slot.admittedMilliseconds
            )
        )
        slot.freeBytes()
        commands.free(command)
    }

    private mutating func removeIfIdle(_ audience: UInt32) {
        let slot = audiences[audience]
        guard slot.currentCommand == .max, slot.firstWaitingCommand == .max, !slot.isAwaitingBatchEnd else { return }
        audiencesByKey[AudienceKey(appIndex: slot.appIndex, digest: slot.digest)] = nil
        slot.identifier.free()
        audiences.free(audience)
    }
}
