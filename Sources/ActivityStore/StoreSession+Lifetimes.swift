import LiveActivity
import Redis

/// Writes the calls about lifetimes.
extension StoreSession {
    /// - Parameters:
    ///   - activityKey: the key of the activity's value. In the timetable, it is the activity's name.
    ///   - key: the key of the timetable that the activity is in.
    func issue(
        _ operation: StoreCall<Bytes>.Operation,
        tag: UInt64,
        activityKey: Bytes,
        key: Bytes,
        on connection: RedisConnection
    ) -> IssueOutcome {
        if let obstacle = connection.obstacle { return obstacle }
        let bytes = 64 + activityKey.count
        switch operation {
        case .reportLifetimeEvent(.removed, _):
            write(.lifetime, tag, key, argumentCount: 2, argumentBytes: bytes, script: .lifetime, on: connection) {
                $0.writeArgument(letter: UInt8(ascii: "o"))
                $0.writeArgument(activityKey)
            }
        case .reportLifetimeEvent(.began(let at, let lifetime), let keptCommand):
            writeLifetimeEvent(UInt8(ascii: "b"), tag, key, activityKey, at, lifetime, keptCommand, on: connection)
        case .reportLifetimeEvent(.alive(let at, let lifetime), let keptCommand):
            writeLifetimeEvent(UInt8(ascii: "a"), tag, key, activityKey, at, lifetime, keptCommand, on: connection)
        case .reportLifetimeEvent(.updatedAfterEnd, let keptCommand):
            writeLifetimeEvent(UInt8(ascii: "m"), tag, key, activityKey, 0, 0, keptCommand, on: connection)
        case .reportLifetimeEvent(.ended(let beganMilliseconds, let restartMilliseconds), _):
            writeLifetimeEnd(
                UInt8(ascii: "e"),
                tag,
                key,
                activityKey,
                beganMilliseconds: beganMilliseconds,
                restartMilliseconds: restartMilliseconds,
                on: connection
            )
        case .reportLifetimeEvent(.endedByAnother(let beganMilliseconds), _):
            writeLifetimeEnd(
                UInt8(ascii: "x"),
                tag,
                key,
                activityKey,
                beganMilliseconds: beganMilliseconds,
                on: connection
            )
        case .checkLifetime(let beganMilliseconds, let shownVersion, let leaseMilliseconds):
            writeLifetimeCheck(
                tag,
                key,
                activityKey,
                beganMilliseconds: beganMilliseconds,
                shownVersion: shownVersion,
                leaseMilliseconds: leaseMilliseconds,
                on: connection
            )
        default: preconditionFailure("an operation of another kind")
        }
        return .issued
    }

    /// Writes an operation on the life that began at `beganMilliseconds`.
    private func writeLifetimeEnd(
        _ letter: UInt8,
        _ tag: UInt64,
        _ key: Bytes,
        _ activityKey: Bytes,
        beganMilliseconds: Int64,
        restartMilliseconds: Int64 = 0,
        on connection: RedisConnection
    ) {
        let bytes = 96 + activityKey.count
        let count = restartMilliseconds > 0 ? 4 : 3
        write(.lifetime, tag, key, argumentCount: count, argumentBytes: bytes, script: .lifetime, on: connection) {
            $0.writeArgument(letter: letter)
            $0.writeArgument(activityKey)
            $0.writeArgument(milliseconds: beganMilliseconds)
            if restartMilliseconds > 0 { $0.writeArgument(milliseconds: restartMilliseconds) }
        }
    }

    private func writeLifetimeCheck(
        _ tag: UInt64,
        _ key: Bytes,
        _ activityKey: Bytes,
        beganMilliseconds: Int64,
        shownVersion: Version?,
        leaseMilliseconds: Int64,
        on connection: RedisConnection
    ) {
        let bytes = 160 + activityKey.count
        let count = shownVersion == nil ? 4 : 5
        write(.lifetime, tag, key, argumentCount: count, argumentBytes: bytes, script: .lifetime, on: connection) {
            $0.writeArgument(letter: UInt8(ascii: "c"))
            $0.writeArgument(activityKey)
            $0.writeArgument(milliseconds: beganMilliseconds)
            $0.writeArgument(milliseconds: leaseMilliseconds)
            if let shownVersion { $0.writeTextArgument(shownVersion) }
        }
    }

    private func writeLifetimeEvent(
        _ letter: UInt8,
        _ tag: UInt64,
        _ key: Bytes,
        _ activityKey: Bytes,
        _ atMilliseconds: Int64,
        _ lifetimeMilliseconds: Int64,
        _ keptCommand: KeptCommand<Bytes>?,
        on connection: RedisConnection
    ) {
        let bytes = 192 + activityKey.count + (keptCommand?.record.count ?? 0)
        let count = keptCommand == nil ? 4 : 7
        write(.lifetime, tag, key, argumentCount: count, argumentBytes: bytes, script: .lifetime, on: connection) {
            $0.writeArgument(letter: letter)
            $0.writeArgument(activityKey)
            $0.writeArgument(milliseconds: atMilliseconds)
            $0.writeArgument(milliseconds: lifetimeMilliseconds)
            guard let keptCommand else { return }
            $0.writeArgument(letter: keptCommand.isStart ? LifetimeKey.keptStartsSuffix : LifetimeKey.keptUpdatesSuffix)
            $0.writeTextArgument(keptCommand.version)
            $0.writeArgument(keptCommand.record)
        }
    }
}
