import CLinux
import Glibc
import Synchronization

/// The system's wall clock (CLOCK_REALTIME), or a clock that the threads of a process share. The shared clock
/// is CLOCK_BOOTTIME with an offset, so it stays right when an operator or NTP sets the system's clock.
///
/// Log lines and /statusz have the system's time, because operators compare it with the times of other programs.
public final class WallClock: Sendable {
    /// What is added to CLOCK_BOOTTIME, in ms; `.min`: the system's clock is used.
    private let bootOffset = Atomic<Int64>(.min)

    public init() {}

    /// What is added to CLOCK_BOOTTIME, in ms; nil if the system's clock is used. Any thread may set it.
    public var bootOffsetMilliseconds: Int64? {
        get {
            let offset = bootOffset.load(ordering: .relaxed)
            return offset == .min ? nil : offset
        }
        set { bootOffset.store(newValue ?? .min, ordering: .relaxed) }
    }

    /// The wall time in ms, read now.
    public var wallMilliseconds: Int64 {
        let offset = bootOffset.load(ordering: .relaxed)
        return offset == .min ? Self.systemMilliseconds : Self.bootMilliseconds + offset
    }

    /// The wall time of the system's clock in ms, read now.
    public static var systemMilliseconds: Int64 { readMilliseconds(CLOCK_REALTIME) }

    /// CLOCK_BOOTTIME in ms, read now. Nobody can set this clock, and it also counts while the machine sleeps.
    public static var bootMilliseconds: Int64 { readMilliseconds(CLOCK_BOOTTIME) }

    private static func readMilliseconds(_ clock: clockid_t) -> Int64 {
        var time = timespec()
        clock_gettime(clock, &time)
        return Int64(time.tv_sec) * 1_000 + Int64(time.tv_nsec) / 1_000_000
    }
}
