public import Delivery
import LiveActivity

/// Commands to audiences, from ``receiveCommand(_:)`` until they are returned to `Delivery`. In each audience, one
/// command at a time is admitted and fanned out, and the others wait. Of the updates and ends that wait between two
/// starts, the core keeps the newest state, and also an older end if the newest state is an update.
extension Audiences {
    /// Whether the core has room for one more command: a slot for the command, a slot for its audience, bytes for its
    /// texts and bodies, and a place in the queue of ``takeReturnedCommand()``.
    ///
    /// The table of audiences may be full although the table of commands has free slots: an audience whose commands
    /// were all dropped may keep its slot until the batch ends.
    public var canReceiveCommand: Bool {
        !commands.isFull && !audiences.isFull && returnedCommands.count < configuration.commandsMax
            && commandBytes < configuration.commandBytesMax
    }

    /// Takes a command from `Delivery`, and makes it wait in its audience. ``takeReturnedCommand()`` returns the
    /// command exactly once: when it has an outcome, is fanned out or was dropped.
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
                policyIndex: incoming.policyIndex,
                ownExpirationSeconds: incoming.ownExpirationSeconds,
                staleDateSeconds: incoming.staleDateSeconds,
                policyName: HeapBytes(copying: incoming.policyName),
                activityTemplate: HeapBytes(copying: incoming.activityTemplate),
                identifier: HeapBytes(copying: incoming.identifier),
                body: HeapBytes(copying: incoming.body),
                bodyLayout: incoming.bodyLayout,
                trace: HeapBytes(copying: incoming.trace),
                droppedFields: HeapBytes(copying: incoming.droppedFields),
                partition: incoming.partition,
                offset: incoming.offset,
                recordTimestampMilliseconds: incoming.recordTimestampMilliseconds,
                receivedAtWallMilliseconds: incoming.receivedAtWallMilliseconds
            )
        )
        commands[command].countedBytes = commands[command].bytesNeeded
        commandBytes += commands[command].countedBytes
        enqueue(command)
        beginWaitForBatchEnd(audience)
    }

    /// Ends a batch of ``receiveCommand(_:)`` calls. Then each audience of the batch begins its next command, unless
    /// the audience is paused or has a command under way.
    ///
    /// If commands began earlier, phones might get an old state again: after a crash, commands are read again, and a
    /// store that has lost its data does not recognize them. At the end of the batch, newer states have replaced older
    /// ones.
    public mutating func endBatch(now: Moment) {
        while let audience = audiencesAwaitingBatchEnd.popFirst() {
            audiences[audience].isAwaitingBatchEnd = false
            beginNextCommand(audience, now: now)
        }
    }

    private mutating func beginWaitForBatchEnd(_ audience: AudienceIndex) {
        guard !audiences[audience].isAwaitingBatchEnd else { return }
        audiences[audience].isAwaitingBatchEnd = true
        audiencesAwaitingBatchEnd.append(audience)
    }

    /// Drops the waiting commands of partitions that are being revoked, and returns them to `Delivery`: the next owner
    /// reads them again. A command that waits for its channel is dropped too, because it may wait for minutes. Any
    /// other command under way stays, and so does its rider (``CommandSlot/rider``).
    ///
    /// The next owner of a command's partition does not know the alert of a rider of another partition. So if only the
    /// command's partition is being revoked:
    /// - If the command waits for admission, it is dropped, and its rider waits in its place.
    /// - If the command waits for its channel, the wait ends, and the command is sent with the alert. It was admitted
    ///   already, so the store would supersede the older rider. Exception: the store may have lost the channel, without
    ///   which the command would not reach the activities on it. Then the command is dropped, and the alert is lost.
    ///   (R14, R32)
    ///
    /// - Parameter isRevocationUnderWay: whether the partition of this record is being revoked. Must be false for a
    ///   record of an earlier assignment, which the partition's next owner has read again. If this lane is the next
    ///   owner, the command already belongs to the new copy of the record (`finishDuplicate`).
    public mutating func dropWaitingCommands(where isRevocationUnderWay: (_ record: RecordIndex) -> Bool) {
        for rawIndex in 0..<commands.indexBound {
            let command = CommandIndex(rawValue: rawIndex)
            guard commands.isInUse(command), isRevocationUnderWay(commands[command].record) else { continue }
            let (audience, rider) = (commands[command].audience, commands[command].rider)
            let mustRiderStay = rider != .null && !isRevocationUnderWay(commands[rider].record)
            if commands[command].phase == .awaitingChannel {
                guard !mustRiderStay || commands[command].isAwaitedChannelPossiblyLost else {
                    admitAgain(command)
                    continue
                }
                endChannelWait(command)
                beginWaitForBatchEnd(audience)
            }
            guard commands[command].phase == .waiting else { continue }
            if mustRiderStay {
                commands[command].rider = .null
                commands[rider].enter(.waiting)
                audiences[audience].waitingCommands.replace(command, by: rider, in: &commands)
                beginWaitForBatchEnd(audience)
            } else {
                audiences[audience].waitingCommands.remove(command, in: &commands)
            }
            finishCommand(command, .dropped)
            freeIfIdle(audience)
        }
    }

    /// Removes and returns the next command that goes back to `Delivery`, with its ``HandoverResult``; nil if there is
    /// none.
    public mutating func takeReturnedCommand() -> ReturnedCommand? { returnedCommands.popFirst() }

    private mutating func addAudience(_ key: AudienceKey, _ incoming: IncomingCommand) -> AudienceIndex {
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

    /// Returns a copy of the body, which has no alert, with this alert, and the layout of the copy. The caller frees
    /// the copy.
    static func bodyWithAlert(
        _ alert: UnsafeRawBufferPointer,
        on body: UnsafeRawBufferPointer,
        _ layout: PushBody.Layout
    ) -> (HeapBytes, PushBody.Layout) {
        let newBody = HeapBytes(count: PushBody.byteCount(body, layout, carryingAlertBytes: alert.count))
        return (newBody, PushBody.write(body, layout, carrying: alert, into: newBody.mutableBuffer))
    }

    /// Returns a copy of the body without its alert, and the layout of the copy. If the body has no alert, it is copied
    /// as it is. The caller frees the copy.
    static func bodyWithoutAlert(
        _ body: UnsafeRawBufferPointer,
        _ layout: PushBody.Layout
    ) -> (HeapBytes, PushBody.Layout) {
        guard !layout.alert.isAbsent else { return (HeapBytes(copying: body), layout) }
        let alertlessBody = HeapBytes(count: PushBody.byteCountWithoutAlert(body, layout))
        return (alertlessBody, PushBody.writeWithoutAlert(body, layout, into: alertlessBody.mutableBuffer))
    }

    /// Makes the current command wait again, because the store replied `wait`. It becomes the first waiting command,
    /// before any start: if it is an end, it would otherwise end the life that the start begins (R13). If both it and
    /// the first waiting command are updates or ends, the two are merged.
    mutating func putBackCurrentCommand(of audience: AudienceIndex, now: Moment) {
        let command = audiences[audience].currentCommand
        audiences[audience].currentCommand = .null
        commands[command].enter(.waiting)
        commands[command].unacknowledgedCount = 0
        let first = audiences[audience].waitingCommands.first
        if first == .null || commands[first].event == .start || commands[command].event == .start {
            audiences[audience].waitingCommands.prepend(command, in: &commands)
        } else if commands[first].version == commands[command].version {
            // Keep `command`, because it may carry an older command's alert. `merge` would keep `first`, which was read
            // later: behind a start that has been dropped since.
            audiences[audience].waitingCommands.replace(first, by: command, in: &commands)
            finishDuplicate(first, of: command)
        } else {
            merge(command, with: first, of: audience)
        }
        beginNextCommand(audience, now: now)
    }

    /// Begins the next command of an audience. Begins none while a command is under way, or while the audience is
    /// paused because the store replied `wait`. Finishes waiting commands that have expired. Frees the audience's slot
    /// if no command is left, so afterwards the caller must not use `audience`. (R8)
    mutating func beginNextCommand(_ audience: AudienceIndex, now: Moment) {
        while audiences[audience].currentCommand == .null, !audiences[audience].waitingCommands.isEmpty {
            guard audiences[audience].pausedUntilMilliseconds <= now.monotonicMilliseconds,
                let command = audiences[audience].waitingCommands.popFirst(in: &commands)
            else { return }
            if isCommandExpired(command, now: now) {
                finishCommand(command, .outcome(.expired))
                continue
            }
            removeAlertIfOld(of: command, now: now)
            audiences[audience].currentCommand = command
            if audiences[audience].channelEnvironment == nil {
                requestSamplePages(command)
            } else {
                admitToProducerChannel(command)
            }
        }
        freeIfIdle(audience)
    }

    private func isCommandExpired(_ command: CommandIndex, now: Moment) -> Bool {
        let slot = commands.address(of: command)
        return AgeRules.isExpired(slot.pointee.ownExpirationSeconds, nowSeconds: now.wallSeconds)
            || AgeRules.isStateTooOld(
                timestamp: slot.pointee.version.timestamp,
                isEnd: slot.pointee.event == .end,
                nowSeconds: now.wallSeconds
            )
    }

    /// Removes the alert of `command` if the alert is too old; a start keeps its alert. If an older command brought the
    /// alert (``CommandSlot/rider``), this rider is finished. So `command` can carry another alert if it must wait
    /// again.
    private mutating func removeAlertIfOld(of command: CommandIndex, now: Moment) {
        guard commands[command].hasAlert, commands[command].event != .start else { return }
        let version = alertVersion(of: command)
        let alertAgeSecondsMax = policies[commands[command].policyIndex].alertAgeSecondsMax
        guard
            AgeRules.isAlertTooOld(
                timestamp: version.timestamp,
                alertAgeSecondsMax: alertAgeSecondsMax,
                nowSeconds: now.wallSeconds
            )
        else {
            return
        }
        let (body, layout) = Self.bodyWithoutAlert(commands[command].body.bytes, commands[command].bodyLayout)
        commands[command].body.free()
        commands[command].body = body
        commands[command].bodyLayout = layout
        commands[command].carriedAlertVersion = nil
        commands[command].wasAlertRemovedByAge = true
        let rider = commands[command].rider
        guard rider != .null else { return }
        commands[command].rider = .null
        finishCommand(rider, .outcome(.superseded))
    }

    /// Finishes the current command of an audience and begins the next one (``beginNextCommand(_:now:)``). Afterwards
    /// the caller must use neither `command` nor its audience's index. (R8)
    mutating func finishCurrentCommand(
        _ command: CommandIndex,
        _ result: HandoverResult,
        reason: StaticString = "",
        now: Moment
    ) {
        let audience = commands[command].audience
        precondition(
            audiences[audience].currentCommand == command,
            "only the current command of an audience can end here"
        )
        audiences[audience].currentCommand = .null
        finishCommand(command, result, reason: reason)
        beginNextCommand(audience, now: now)
    }

    /// Finishes a command: queues it with its ``HandoverResult`` for `Delivery` (``takeReturnedCommand()``), and frees
    /// its slot. The command must not be in the audience's list any more. If the command carries a rider's alert, the
    /// rider is finished first: as dropped if the command is dropped, else as superseded.
    mutating func finishCommand(_ command: CommandIndex, _ result: HandoverResult, reason: StaticString = "") {
        let slot = commands[command]
        if slot.rider != .null {
            finishCommand(slot.rider, result == .dropped ? .dropped : .outcome(.superseded))
        }
        returnedCommands.append(
            ReturnedCommand(
                record: slot.record,
                handoverResult: result,
                reason: reason,
                admittedAtWallMilliseconds: slot.admittedAtWallMilliseconds
            )
        )
        commandBytes -= slot.countedBytes
        slot.freeBytes()
        commands.free(command)
    }

    private mutating func freeIfIdle(_ audience: AudienceIndex) {
        let slot = audiences[audience]
        guard slot.currentCommand == .null, slot.waitingCommands.isEmpty, !slot.isAwaitingBatchEnd else { return }
        audiencesByKey[AudienceKey(appIndex: slot.appIndex, digest: slot.digest)] = nil
        slot.identifier.free()
        audiences.free(audience)
    }
}
