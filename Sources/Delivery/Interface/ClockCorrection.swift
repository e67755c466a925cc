/// Decides from readings of Redis' clock how a worker corrects its wall clock. All workers then have the same time. So
/// a worker on a machine with a wrong clock neither refuses commands as too new, nor treats new commands as old.
///
/// A reading is not exact, and each change of the correction sets the worker's clock forward or back. So the correction
/// changes only if it is wrong by more than ``toleranceMilliseconds``.
///
/// From the first reading on, the worker's time is CLOCK_BOOTTIME with an offset, also if the worker's own clock is
/// right. So the time stays right if somebody sets the own clock back before the next reading. The two clocks do not
/// drift apart in a long outage of Redis, because NTP slews both alike.
///
/// CLOCK_BOOTTIME, which nobody can set, shows whether Redis' clock was set back. The correction then stays: with
/// Redis' time, all workers would permanently refuse the newest commands, because their timestamps would be in the
/// future. If Redis' clock seems to be set forward, its time is used: perhaps the machine was paused, and
/// CLOCK_BOOTTIME with it.
package struct ClockCorrection: Sendable, Equatable {
    package static let toleranceMilliseconds: Int64 = 1_000
    /// A larger difference between Redis' clock and the worker's own clock is not corrected: nobody knows which of the
    /// two is wrong, and a wrong correction would stop all workers.
    package static let correctableMillisecondsMax: Int64 = 30 * 60_000
    /// Above this difference between the two clocks, an operator must correct one of them.
    package static let warningMilliseconds: Int64 = 60_000

    /// One reading of the clocks of Redis' primaries.
    package struct Reading: Sendable, Equatable {
        /// The worker's own clock before the reading, UNIX milliseconds.
        package var systemMilliseconds: Int64
        /// The machine's CLOCK_BOOTTIME at the same time.
        package var bootMilliseconds: Int64
        /// How long the reading took.
        package var durationMilliseconds: Int64
        /// The clocks of the primaries that replied, UNIX milliseconds.
        package var serverMilliseconds: [Int64]

        package init(
            systemMilliseconds: Int64,
            bootMilliseconds: Int64,
            durationMilliseconds: Int64,
            serverMilliseconds: [Int64]
        ) {
            self.systemMilliseconds = systemMilliseconds
            self.bootMilliseconds = bootMilliseconds
            self.durationMilliseconds = durationMilliseconds
            self.serverMilliseconds = serverMilliseconds
        }
    }

    /// How far the worker's own clock and Redis' clock were ahead of CLOCK_BOOTTIME at one reading.
    private struct BootOffsets: Equatable {
        var systemMilliseconds: Int64
        var serverMilliseconds: Int64
    }

    /// What must be added to CLOCK_BOOTTIME to get the right time. Nil before the first reading, and while the clocks
    /// differ too much for a correction: the worker then uses its own clock.
    package private(set) var bootOffsetMilliseconds: Int64?
    /// ``bootOffsetMilliseconds`` after the last reading that could be followed, if the worker's own clock was right
    /// then; otherwise nil.
    private var ownOffsetMilliseconds: Int64?
    /// What the correction added to the worker's own clock at the last reading that counted; 0 if this was at most
    /// ``toleranceMilliseconds``.
    package private(set) var addedMilliseconds: Int64 = 0
    /// Whether Redis' clock was set back by more than ``warningMilliseconds`` since it last agreed with the worker's
    /// own clock (``agreedOffsets``), and the two still disagree.
    package private(set) var isServerClockSetBack = false
    /// The offsets at the last reading at which both clocks agreed: they differed by at most ``warningMilliseconds``.
    /// Nil before the first reading, and while the clocks differ for an unknown reason, so that nobody knows which of
    /// them is wrong.
    private var agreedOffsets: BootOffsets?
    /// How far Redis' clock was ahead of the worker's own clock at the last reading that counted.
    package private(set) var differenceMilliseconds: Int64 = 0
    /// Whether any reading has counted.
    package private(set) var hasReading = false

    package init() {}

    package var isClockWrong: Bool { differenceMilliseconds.magnitude > UInt64(Self.warningMilliseconds) }

    /// Takes a reading into account. A reading that took too long does not count, because nobody knows at which moment
    /// the servers read their clocks. A reading without a reply does not count either. But it shows whether the
    /// worker's own clock was set forward.
    package mutating func update(_ reading: Reading) {
        let systemOffsetMilliseconds = reading.systemMilliseconds - reading.bootMilliseconds
        guard let difference = Self.difference(of: reading) else {
            return keepTime(systemOffsetMilliseconds: systemOffsetMilliseconds)
        }
        (hasReading, differenceMilliseconds) = (true, difference)
        noteWhetherServerClockIsSetBack(
            BootOffsets(
                systemMilliseconds: systemOffsetMilliseconds,
                serverMilliseconds: systemOffsetMilliseconds + difference
            )
        )
        if isServerClockSetBack {
            keepTime(systemOffsetMilliseconds: systemOffsetMilliseconds)
        } else {
            followServers(systemOffsetMilliseconds: systemOffsetMilliseconds)
        }
        let newAddedMilliseconds = (bootOffsetMilliseconds ?? systemOffsetMilliseconds) - systemOffsetMilliseconds
        addedMilliseconds = Self.isTolerable(newAddedMilliseconds) ? 0 : newAddedMilliseconds
    }

    /// Sets the worker's time to that of the servers, or to that of its own clock if this clock is right or differs too
    /// much. Changes nothing if the worker's time is right.
    private mutating func followServers(systemOffsetMilliseconds: Int64) {
        let serverOffsetMilliseconds = systemOffsetMilliseconds + differenceMilliseconds
        guard differenceMilliseconds.magnitude <= UInt64(Self.correctableMillisecondsMax) else {
            (bootOffsetMilliseconds, ownOffsetMilliseconds) = (nil, nil)
            return
        }
        var offsetMilliseconds = bootOffsetMilliseconds ?? systemOffsetMilliseconds
        let isOwnClockRight = Self.isTolerable(differenceMilliseconds)
        if !Self.isTolerable(serverOffsetMilliseconds - offsetMilliseconds)
            || isOwnClockRight && !Self.isTolerable(offsetMilliseconds - systemOffsetMilliseconds)
        {
            offsetMilliseconds = isOwnClockRight ? systemOffsetMilliseconds : serverOffsetMilliseconds
        }
        bootOffsetMilliseconds = offsetMilliseconds
        let isCorrected = !Self.isTolerable(offsetMilliseconds - systemOffsetMilliseconds)
        ownOffsetMilliseconds = isCorrected ? nil : offsetMilliseconds
    }

    /// Decides which time the worker uses while that of the servers is unknown or wrong: what CLOCK_BOOTTIME has made
    /// of the last right time. But if the worker's own clock was right and is now ahead of this, the own clock is used:
    /// perhaps the machine was paused, and CLOCK_BOOTTIME with it, and NTP has set the own clock since. A worker whose
    /// time is behind would refuse commands for good.
    ///
    /// Compares with the last right time even if the own clock was followed since, so that a clock that was set forward
    /// by mistake may be set back.
    private mutating func keepTime(systemOffsetMilliseconds: Int64) {
        guard let ownOffsetMilliseconds else { return }
        let isSetForward = systemOffsetMilliseconds - ownOffsetMilliseconds > Self.toleranceMilliseconds
        bootOffsetMilliseconds = isSetForward ? systemOffsetMilliseconds : ownOffsetMilliseconds
    }

    /// Decides whether Redis' clock counts as set back: its offset fell by more than ``warningMilliseconds`` below the
    /// agreed one, and the worker's own clock kept its agreed offset (``agreedOffsets``). After that, the own clock's
    /// offset may change, because CLOCK_BOOTTIME stops while the machine is paused.
    ///
    /// Each reading at which the clocks agree sets new agreed offsets, so a slow drift does not count.
    private mutating func noteWhetherServerClockIsSetBack(_ offsets: BootOffsets) {
        isServerClockSetBack =
            agreedOffsets.map { agreedOffsets in
                let systemChange = offsets.systemMilliseconds - agreedOffsets.systemMilliseconds
                let serverChange = offsets.serverMilliseconds - agreedOffsets.serverMilliseconds
                return isClockWrong && serverChange < -Self.warningMilliseconds
                    && (isServerClockSetBack || systemChange.magnitude <= UInt64(Self.warningMilliseconds))
            } ?? false
        if !isServerClockSetBack { agreedOffsets = isClockWrong ? nil : offsets }
    }

    private static func isTolerable(_ differenceMilliseconds: Int64) -> Bool {
        differenceMilliseconds.magnitude <= UInt64(toleranceMilliseconds)
    }

    /// Returns how far the servers' clocks are ahead of the worker's own clock; nil if the reading does not count.
    private static func difference(of reading: Reading) -> Int64? {
        let halfDurationMilliseconds = reading.durationMilliseconds / 2
        guard (0...toleranceMilliseconds).contains(halfDurationMilliseconds) else { return nil }
        let differences = reading.serverMilliseconds
            .map { $0 - reading.systemMilliseconds - halfDurationMilliseconds }.sorted()
        return median(differences)
    }

    /// Returns the middle value; nil if there is no value. Of two middle values, returns the one that is nearer to 0:
    /// if one of two servers has a wrong clock, nothing is corrected.
    private static func median(_ sortedValues: [Int64]) -> Int64? {
        guard !sortedValues.isEmpty else { return nil }
        let (low, high) = (sortedValues[(sortedValues.count - 1) / 2], sortedValues[sortedValues.count / 2])
        return low.magnitude <= high.magnitude ? low : high
    }
}
