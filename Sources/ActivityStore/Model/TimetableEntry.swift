import LiveActivity

/// The entry of an activity in a timetable of lifetimes, as the script `lifetime` stores it.
public struct TimetableEntry: Sendable, Equatable {
    /// What is known about the beginning of the life. The raw values are the letters that the script stores.
    enum Kind: String {
        /// A start began the life, so it is known exactly when the life began.
        case started = "b"
        /// No start is known. The life counts from the earliest record that showed the activity alive.
        case seenAlive = "a"
        /// The life has ended, and the activity must be started again.
        case restarting = "r"
    }

    /// When the life began, UNIX milliseconds, as far as known. For ``Kind/restarting``: when the new life begins.
    public private(set) var beganAtMilliseconds: Int64
    /// When the end or the new start of the activity is due, UNIX milliseconds.
    public private(set) var dueMilliseconds: Int64
    private(set) var kind: Kind
    /// The newest start, which a restart sends again.
    private(set) var start: CommandKeptForRestart<[UInt8]>?
    /// The newest update, whose state a restart shows.
    private(set) var shownUpdate: CommandKeptForRestart<[UInt8]>?

    /// The entry's text in the hash of lives (``LifetimeKey/livesKey(_:)``): the letter of the kind, the time, and how
    /// often workers have claimed the life. The model has no claims, so the last number is 0.
    public var storedText: String {
        """
        \(kind.rawValue) \
        \(String(repeating: "0", count: max(0, 13 - "\(beganAtMilliseconds)".utf8.count)))\(beganAtMilliseconds) 0
        """
    }

    /// Changes an activity's entry after an event, as the script `lifetime` does. `life` is nil while the timetable has
    /// no entry of the activity.
    static func apply(
        _ event: LifetimeEvent,
        keeping kept: CommandKeptForRestart<[UInt8]>?,
        in life: inout TimetableEntry?
    ) {
        switch event {
        case .endedOrUnlimited: life = nil
        // Both events leave the life as it is. (The last line of this function stores the update of `updatedAfterEnd`.
        // The script removes a life at `otherEndAdmitted` after several claims, but the model has no claims.)
        case .updatedAfterEnd, .otherEndAdmitted: break
        case .lifeFinished(let beganAtMilliseconds, let restartAtMilliseconds):
            guard let previous = life, previous.beganAtMilliseconds == beganAtMilliseconds else { return }
            guard restartAtMilliseconds > 0, previous.start != nil else {
                life = nil
                return
            }
            life?
                .become(.restarting, beganAtMilliseconds: restartAtMilliseconds, dueMilliseconds: restartAtMilliseconds)
        case .began(let beganAtMilliseconds, let lifetimeMilliseconds):
            if let life, life.kind == .started, beganAtMilliseconds <= life.beganAtMilliseconds { break }
            let continuesLife = life?.kind == .restarting && life?.beganAtMilliseconds == beganAtMilliseconds
            if !continuesLife {
                life = TimetableEntry(
                    beganAtMilliseconds: beganAtMilliseconds,
                    dueMilliseconds: beganAtMilliseconds + lifetimeMilliseconds,
                    kind: .started
                )
            }
            life?
                .become(
                    .started,
                    beganAtMilliseconds: beganAtMilliseconds,
                    dueMilliseconds: beganAtMilliseconds + lifetimeMilliseconds
                )
        case .alive(let aliveAtMilliseconds, let lifetimeMilliseconds):
            if let life, life.kind != .seenAlive || aliveAtMilliseconds >= life.beganAtMilliseconds { break }
            if life == nil {
                life = TimetableEntry(
                    beganAtMilliseconds: aliveAtMilliseconds,
                    dueMilliseconds: aliveAtMilliseconds + lifetimeMilliseconds,
                    kind: .seenAlive
                )
            }
            life?
                .become(
                    .seenAlive,
                    beganAtMilliseconds: aliveAtMilliseconds,
                    dueMilliseconds: aliveAtMilliseconds + lifetimeMilliseconds
                )
        }
        if let kept { life?.keepUnlessOlder(kept) }
    }

    /// Returns whether a command that ends or restarts the activity may be sent: the timetable must still have the life
    /// that began at `beganAtMilliseconds`. The operation `check` of the script `lifetime` decides the same.
    ///
    /// - Parameters:
    ///   - stateVersion: the version of the state that a restart shows; nil for an end. If the timetable has a newer
    ///     state, the restart must not be sent. The life is then due at once, so that a worker makes another restart.
    ///     But if the restart has already begun its life, the life stays due at the end of its lifetime.
    ///   - nextClaimAtMilliseconds: when a life that continues is due next.
    static func permitCommandOrMakeDue(
        _ life: inout TimetableEntry?,
        from beganAtMilliseconds: Int64,
        showing stateVersion: Version?,
        nextClaimAtMilliseconds: Int64
    )
        -> Bool
    {
        guard let knownLife = life, knownLife.beganAtMilliseconds == beganAtMilliseconds else { return false }
        if let stateVersion {
            guard knownLife.kind == .restarting else { return true }
            if let shownUpdate = knownLife.shownUpdate, shownUpdate.version > stateVersion {
                life?.dueMilliseconds = beganAtMilliseconds
                return false
            }
        }
        life?.dueMilliseconds = nextClaimAtMilliseconds
        return true
    }

    private mutating func become(_ kind: Kind, beganAtMilliseconds: Int64, dueMilliseconds: Int64) {
        (self.kind, self.beganAtMilliseconds, self.dueMilliseconds) = (kind, beganAtMilliseconds, dueMilliseconds)
    }

    private mutating func keepUnlessOlder(_ kept: CommandKeptForRestart<[UInt8]>) {
        let previous = kept.isStart ? start : shownUpdate
        if let previous, previous.version > kept.version { return }
        if kept.isStart { start = kept } else { shownUpdate = kept }
    }
}
