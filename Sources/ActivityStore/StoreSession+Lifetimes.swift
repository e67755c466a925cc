import LiveActivity
import Redis

/// Writes the calls about lifetimes.
extension StoreSession {
    /// Writes a call about a lifetime as a Redis command of its own.
    ///
    /// - Parameters:
    ///   - activityKey: the key of the activity's value. The timetable lists the activity under this key.
    ///   - timetableKey: the key of the timetable that the activity is in.
    func issue(
        _ operation: StoreCall<Bytes>.Operation,
        tag: UInt64,
        activityKey: Bytes,
        timetableKey: Bytes,
        on connection: RedisConnection
    ) -> IssueResult {
        if let obstacleToIssue = connection.obstacleToIssue { return obstacleToIssue }
        switch operation {
        case .reportLifetimeEvent(let event, let commandKeptForRestart):
            writeLifetimeReport(event, commandKeptForRestart, tag, timetableKey, activityKey, on: connection)
        case .checkLifetime(let beganAtMilliseconds, let stateVersion, let claimDelayMilliseconds):
            writeLifetimeCheck(
                tag,
                timetableKey,
                activityKey,
                beganAtMilliseconds: beganAtMilliseconds,
                stateVersion: stateVersion,
                claimDelayMilliseconds: claimDelayMilliseconds,
                on: connection
            )
        default: preconditionFailure("an operation of another kind")
        }
        return .issued
    }

    private func writeLifetimeReport(
        _ event: LifetimeEvent,
        _ commandKeptForRestart: CommandKeptForRestart<Bytes>?,
        _ tag: UInt64,
        _ timetableKey: Bytes,
        _ activityKey: Bytes,
        on connection: RedisConnection
    ) {
        func writeEvent(_ operation: StaticString, atMilliseconds: Int64, lifetimeMilliseconds: Int64) {
            writeLifetimeEvent(
                operation,
                tag,
                timetableKey,
                activityKey,
                atMilliseconds: atMilliseconds,
                lifetimeMilliseconds: lifetimeMilliseconds,
                commandKeptForRestart,
                on: connection
            )
        }
        func writeEndOfLife(_ operation: StaticString, beganAtMilliseconds: Int64, restartAtMilliseconds: Int64 = 0) {
            writeLifetimeEnd(
                operation,
                tag,
                timetableKey,
                activityKey,
                beganAtMilliseconds: beganAtMilliseconds,
                restartAtMilliseconds: restartAtMilliseconds,
                on: connection
            )
        }
        switch event {
        case .endedOrUnlimited:
            let argumentBytes = 64 + activityKey.count
            writeLifetimeCall(tag, timetableKey, argumentCount: 2, argumentBytes: argumentBytes, on: connection) {
                $0.writeArgument(operation: "endedOrUnlimited")
                $0.writeArgument(activityKey)
            }
        case .began(let beganAtMilliseconds, let lifetimeMilliseconds):
            writeEvent("began", atMilliseconds: beganAtMilliseconds, lifetimeMilliseconds: lifetimeMilliseconds)
        case .alive(let aliveAtMilliseconds, let lifetimeMilliseconds):
            writeEvent("alive", atMilliseconds: aliveAtMilliseconds, lifetimeMilliseconds: lifetimeMilliseconds)
        case .updatedAfterEnd: writeEvent("updatedAfterEnd", atMilliseconds: 0, lifetimeMilliseconds: 0)
        case .lifeFinished(let beganAtMilliseconds, let restartAtMilliseconds):
            writeEndOfLife(
                "ended",
                beganAtMilliseconds: beganAtMilliseconds,
                restartAtMilliseconds: restartAtMilliseconds
            )
        case .otherEndAdmitted(let beganAtMilliseconds):
            writeEndOfLife("otherEndAdmitted", beganAtMilliseconds: beganAtMilliseconds)
        }
    }

    /// Writes the operation `ended` or `otherEndAdmitted` of the life that began at `beganAtMilliseconds`.
    private func writeLifetimeEnd(
        _ operation: StaticString,
        _ tag: UInt64,
        _ timetableKey: Bytes,
        _ activityKey: Bytes,
        beganAtMilliseconds: Int64,
        restartAtMilliseconds: Int64,
        on connection: RedisConnection
    ) {
        let argumentBytes = 96 + activityKey.count
        let count = restartAtMilliseconds > 0 ? 4 : 3
        writeLifetimeCall(tag, timetableKey, argumentCount: count, argumentBytes: argumentBytes, on: connection) {
            $0.writeArgument(operation: operation)
            $0.writeArgument(activityKey)
            $0.writeArgument(milliseconds: beganAtMilliseconds)
            if restartAtMilliseconds > 0 { $0.writeArgument(milliseconds: restartAtMilliseconds) }
        }
    }

    private func writeLifetimeCheck(
        _ tag: UInt64,
        _ timetableKey: Bytes,
        _ activityKey: Bytes,
        beganAtMilliseconds: Int64,
        stateVersion: Version?,
        claimDelayMilliseconds: Int64,
        on connection: RedisConnection
    ) {
        let argumentBytes = 160 + activityKey.count
        let count = stateVersion == nil ? 4 : 5
        writeLifetimeCall(tag, timetableKey, argumentCount: count, argumentBytes: argumentBytes, on: connection) {
            $0.writeArgument(operation: "check")
            $0.writeArgument(activityKey)
            $0.writeArgument(milliseconds: beganAtMilliseconds)
            $0.writeArgument(milliseconds: claimDelayMilliseconds)
            if let stateVersion { $0.writeTextArgument(stateVersion) }
        }
    }

    private func writeLifetimeEvent(
        _ operation: StaticString,
        _ tag: UInt64,
        _ timetableKey: Bytes,
        _ activityKey: Bytes,
        atMilliseconds: Int64,
        lifetimeMilliseconds: Int64,
        _ commandKeptForRestart: CommandKeptForRestart<Bytes>?,
        on connection: RedisConnection
    ) {
        let argumentBytes = 192 + activityKey.count + (commandKeptForRestart?.record.count ?? 0)
        let count = commandKeptForRestart == nil ? 4 : 7
        writeLifetimeCall(tag, timetableKey, argumentCount: count, argumentBytes: argumentBytes, on: connection) {
            $0.writeArgument(operation: operation)
            $0.writeArgument(activityKey)
            $0.writeArgument(milliseconds: atMilliseconds)
            $0.writeArgument(milliseconds: lifetimeMilliseconds)
            guard let commandKeptForRestart else { return }
            let hashSuffix =
                commandKeptForRestart.isStart ? LifetimeKey.startsForRestartSuffix : LifetimeKey.updatesForRestartSuffix
            $0.writeArgument(letter: hashSuffix)
            $0.writeTextArgument(commandKeptForRestart.version)
            $0.writeArgument(commandKeptForRestart.record)
        }
    }

    private func writeLifetimeCall(
        _ tag: UInt64,
        _ timetableKey: Bytes,
        argumentCount: Int,
        argumentBytes: Int,
        on connection: RedisConnection,
        _ arguments: (inout RedisCommandWriter) -> Void
    ) {
        write(
            .lifetime,
            tag,
            timetableKey,
            keyCount: 4,
            argumentCount: 3 + argumentCount,
            argumentBytes: 3 * (timetableKey.count + 1) + argumentBytes,
            script: .lifetime,
            on: connection
        ) {
            $0.writeHashKey(timetableKey, LifetimeKey.livesSuffix)
            $0.writeHashKey(timetableKey, LifetimeKey.startsForRestartSuffix)
            $0.writeHashKey(timetableKey, LifetimeKey.updatesForRestartSuffix)
            arguments(&$0)
        }
    }
}

extension RedisCommandWriter {
    /// Writes the key of a hash that belongs to a timetable (``LifetimeKey``).
    fileprivate mutating func writeHashKey(_ timetableKey: UnsafeRawBufferPointer, _ suffix: UInt8) {
        writeArgument(byteCount: timetableKey.count + 1) {
            $0.writeVerbatim(timetableKey)
            $0.writeByte(suffix)
        }
    }
}
