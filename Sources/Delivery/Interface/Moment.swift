/// One reading of both clocks, handed to the core with every event: the core itself never asks for the time.
public struct Moment: Sendable, Equatable {
    /// Milliseconds of a clock that never steps; what waits and paces is measured with it.
    public var monotonicMilliseconds: Int64
    /// UNIX milliseconds; what stands in records and expirations is compared with it.
    public var wallMilliseconds: Int64

    public init(monotonicMilliseconds: Int64, wallMilliseconds: Int64) {
        self.monotonicMilliseconds = monotonicMilliseconds
        self.wallMilliseconds = wallMilliseconds
    }

    var wallSeconds: Int64 { wallMilliseconds / 1000 }
}
