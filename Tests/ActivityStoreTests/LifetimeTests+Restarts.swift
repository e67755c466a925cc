import LiveActivity
import RedisTestbed
import Testing

@testable import ActivityStore

/// A restart is read again after it has begun its life. (R35)
extension LifetimeTests {
    /// A worker died before it committed the restart's offset, or the keeper has made the restart twice. If the check
    /// changed the time at which the new life is due, the keeper would end this life within minutes.
    @Test(arguments: [4 as Int64, 5])
    func `A restart that is read again leaves the new life due at its end`(stateSecond: Int64) throws {
        let comparison = try ScriptComparison()
        let beganAtMilliseconds: Int64 = 1_790_000_000_000
        let restartAtMilliseconds = beganAtMilliseconds + 70
        let lifetimeMilliseconds: Int64 = 3_600_000
        func version(_ second: Int64) -> Version {
            Version(timestamp: beganAtMilliseconds / 1_000 + second, sequence: 0)
        }
        func report(_ event: LifetimeEvent, isStart: Bool, second: Int64) {
            let command = CommandKeptForRestart<[UInt8]>(isStart: isStart, version: version(second), record: [1])
            #expect(comparison.perform(.reportLifetimeEvent(event, keeping: command)).verdict == .settled)
        }
        report(
            .began(atMilliseconds: beganAtMilliseconds, lifetimeMilliseconds: lifetimeMilliseconds),
            isStart: true,
            second: 1
        )
        report(
            .alive(atMilliseconds: beganAtMilliseconds + 1, lifetimeMilliseconds: lifetimeMilliseconds),
            isStart: false,
            second: 5
        )
        comparison.perform(
            .reportLifetimeEvent(
                .lifeFinished(beganAtMilliseconds: beganAtMilliseconds, restartAtMilliseconds: restartAtMilliseconds)
            )
        )
        report(
            .began(atMilliseconds: restartAtMilliseconds, lifetimeMilliseconds: lifetimeMilliseconds),
            isStart: true,
            second: 6
        )
        let check = Operation.checkLifetime(
            beganAtMilliseconds: restartAtMilliseconds,
            stateVersion: version(stateSecond),
            claimDelayMilliseconds: 9
        )
        #expect(comparison.perform(check).verdict == .retry)
        let dueMilliseconds = restartAtMilliseconds + lifetimeMilliseconds
        #expect(comparison.model.lives.values.map(\.dueMilliseconds) == [dueMilliseconds])
        let timetableNumber = Array(comparison.key.text.utf8).withUnsafeBytes(LifetimeKey.timetableNumber)
        let timetable = String(decoding: LifetimeKey.timetableKey(timetableNumber), as: UTF8.self)
        #expect(
            Self.readDueMilliseconds(ofTimetable: timetable, on: comparison.server)
                == [comparison.key.text: dueMilliseconds]
        )
    }
}
