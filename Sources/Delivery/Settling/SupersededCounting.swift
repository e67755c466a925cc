import LiveActivity

/// Decides which superseded commands have no result of their own: the command that replaces such a command counts it.
struct SupersededCounting {
    let results: SupersededResults

    /// - Parameter isBacklogKnown: whether the lane is known to be behind.
    func isOn(isBacklogKnown: Bool) -> Bool {
        switch results {
        case .each: false
        case .countedWhenBehind: isBacklogKnown
        case .counted: true
        }
    }
}

/// The commands without a result of their own that a command replaced, and the commands that those had counted.
struct SupersededCount: BitwiseCopyable {
    private(set) var commands: UInt32 = 0

    /// Counts a command, and what that command had counted. The count stays at its maximum where that is exceeded.
    mutating func add(commandWith other: SupersededCount) {
        let (sum, isTooMuch) = commands.addingReportingOverflow(other.commands &+ 1)
        commands = isTooMuch ? .max : sum
    }
}

extension RecordSlot {
    /// Redis has not seen it, and its result would say nothing but `superseded`. A start, and a command that was held, have results of
    /// their own, and one that is read once more has had its own; a token that the newer command could not take over is registered when a
    /// result is acknowledged.
    @inline(__always)
    var mayBeCounted: Bool {
        admittedMilliseconds < 0 && topic == .commands && event != .start && reason.count == 0 && !suppliesToken
            && resultsBefore == 0 && !isReadAgain
    }

    /// Whether its body has an alert that is certainly its own: one that came out of Redis may be an older command's.
    @inline(__always)
    var hasOwnAlert: Bool {
        !layout.alert.isAbsent && foreignAlert == nil && topic == .commands && resultsBefore == 0
    }
}
