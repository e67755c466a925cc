/// One reading of the monotonic clock and of the wall clock. The shell passes it to the cores with events, because a
/// core reads no clock.
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
