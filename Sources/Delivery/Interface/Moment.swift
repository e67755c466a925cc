/// The time of an event, on the monotonic clock and on the wall clock. A core reads no clock. So the shell passes a
/// moment with every event that depends on the time.
public struct Moment: Sendable, Equatable {
    /// Milliseconds of a clock that is never set forward or back, for waits and pacing.
    public var monotonicMilliseconds: Int64
    /// UNIX milliseconds, for comparison with the times in records and expirations.
    public var wallMilliseconds: Int64

    public init(monotonicMilliseconds: Int64, wallMilliseconds: Int64) {
        self.monotonicMilliseconds = monotonicMilliseconds
        self.wallMilliseconds = wallMilliseconds
    }

    package var wallSeconds: Int64 { wallMilliseconds / 1000 }
}
