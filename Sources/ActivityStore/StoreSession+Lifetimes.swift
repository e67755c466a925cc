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
                $0.argument(letter: UInt8(ascii: "o"))
                $0.argument(activityKey)
            }
        case .reportLifetimeEvent(.began(let at, let lifetime), let kept):
            writeEvent(UInt8(ascii: "b"), tag, key, activityKey, at: at, lifetime: lifetime, kept, on: connection)
        case .reportLifetimeEvent(.alive(let at, let lifetime), let kept):
            writeEvent(UInt8(ascii: "a"), tag, key, activityKey, at: at, lifetime: lifetime, kept, on: connection)
        case .reportLifetimeEvent(.updatedAfterEnd, let kept):
            writeEvent(UInt8(ascii: "m"), tag, key, activityKey, at: 0, lifetime: 0, kept, on: connection)
        case .reportLifetimeEvent(.ended(let beganMilliseconds, let restart), _):
            writeLifeOperation(
                UInt8(ascii: "e"),
                tag,
                key,
                activityKey,
                beganMilliseconds: beganMilliseconds,
                restart: restart,
                on: connection
            )
        case .reportLifetimeEvent(.endedByAnother(let beganMilliseconds), _):
            writeLifeOperation(
                UInt8(ascii: "x"),
                tag,
                key,
                activityKey,
                beganMilliseconds: beganMilliseconds,
                on: connection
            )
        case .checkLifetime(let beganMilliseconds, let state, let lease):
            writeCheck(
                tag,
                key,
                activityKey,
                beganMilliseconds: beganMilliseconds,
                state: state,
                lease: lease,
                on: connection
            )
        default: preconditionFailure("an operation of another kind")
        }
        return .issued
    }

    /// Writes an operation on the life that began at `beganMilliseconds`.
    private func writeLifeOperation(
        _ letter: UInt8,
        _ tag: UInt64,
        _ key: Bytes,
        _ activityKey: Bytes,
        beganMilliseconds: Int64,
        restart: Int64 = 0,
        on connection: RedisConnection
    ) {
        let bytes = 96 + activityKey.count
        let count = restart > 0 ? 4 : 3
        write(.lifetime, tag, key, argumentCount: count, argumentBytes: bytes, script: .lifetime, on: connection) {
            $0.argument(letter: letter)
            $0.argument(activityKey)
            $0.argument(milliseconds: beganMilliseconds)
            if restart > 0 { $0.argument(milliseconds: restart) }
        }
    }

    private func writeCheck(
        _ tag: UInt64,
        _ key: Bytes,
        _ activityKey: Bytes,
        beganMilliseconds: Int64,
        state: Version?,
        lease: Int64,
        on connection: RedisConnection
    ) {
        let bytes = 160 + activityKey.count
        let count = state == nil ? 4 : 5
        write(.lifetime, tag, key, argumentCount: count, argumentBytes: bytes, script: .lifetime, on: connection) {
            $0.argument(letter: UInt8(ascii: "c"))
            $0.argument(activityKey)
            $0.argument(milliseconds: beganMilliseconds)
            $0.argument(milliseconds: lease)
            if let state { $0.textArgument(state) }
        }
    }

    private func writeEvent(
        _ letter: UInt8,
        _ tag: UInt64,
        _ key: Bytes,
        _ activityKey: Bytes,
        at: Int64,
        lifetime: Int64,
        _ kept: KeptCommand<Bytes>?,
        on connection: RedisConnection
    ) {
        let bytes = 192 + activityKey.count + (kept?.record.count ?? 0)
        let count = kept == nil ? 4 : 7
        write(.lifetime, tag, key, argumentCount: count, argumentBytes: bytes, script: .lifetime, on: connection) {
            $0.argument(letter: letter)
            $0.argument(activityKey)
            $0.argument(milliseconds: at)
            $0.argument(milliseconds: lifetime)
            guard let kept else { return }
            $0.argument(letter: kept.isStart ? LifetimeKey.startsLetter : LifetimeKey.shownLetter)
            $0.textArgument(kept.version)
            $0.argument(kept.record)
        }
    }
}
