import LiveActivity

extension SupersededResultMode {
    /// Whether superseded commands are now counted by the commands that replace them, instead of getting results. In a
    /// backlog nearly all commands are superseded: 2,000,000 commands then need only 20,000 results (Measurements.md).
    ///
    /// - Parameter isBacklogKnown: whether the lane is known to be behind.
    func countsInsteadOfResults(isBacklogKnown: Bool) -> Bool {
        switch self {
        case .each: false
        case .countedWhenBehind: isBacklogKnown
        case .counted: true
        }
    }
}

/// The number of superseded commands that a command counts. For example, version 2 replaces version 1, and counts it.
/// If version 3 then replaces version 2, version 3 counts both.
struct SupersededCount: BitwiseCopyable {
    private(set) var commandCount: UInt32 = 0

    /// Adds a replaced command, and the commands that it had counted (`replacedCount`). The number stops at its
    /// maximum.
    mutating func addCommand(withCount replacedCount: SupersededCount) {
        let (sum, didOverflow) = commandCount.addingReportingOverflow(replacedCount.commandCount &+ 1)
        commandCount = didOverflow ? .max : sum
    }
}

extension RecordSlot {
    /// Whether the command that replaces this one may count it, so that this one gets no result of its own. False for
    /// each of these:
    /// - a command to whose admission Redis has already replied
    /// - a start
    /// - a held command that a token released
    /// - a command whose result has a reason
    /// - a reread command, because it had its result before
    /// - a command that still has its own token, because its record must register this token
    @inline(__always)
    var mayBeCountedByReplacement: Bool {
        times.admittedAtWallMilliseconds == nil && source.topic == .commands && event != .start
            && texts.reason.count == 0
            && !token.mustBeRegistered
            && ending.earlierResultCount == 0 && !isReread
    }

    /// Whether the body has an alert that is certainly the command's own. False for an alert that Redis held, because
    /// it may belong to an older command.
    @inline(__always)
    var hasOwnAlert: Bool {
        !bodyLayout.alert.isAbsent && alert.sourceVersion == nil && source.topic == .commands
            && ending.earlierResultCount == 0
    }
}
