import LiveActivity

/// The entry of an activity in a timetable of lifetimes, as the script `lifetime` stores it.
public struct TimetableEntry: Sendable, Equatable {
    /// What is known about the beginning of the life. The letters are those of the script.
    enum Kind: String {
        /// A start began the life, so the time of its beginning is exact.
        case started = "b"
        /// No start is known. The life counts from the earliest record that shows the activity alive.
        case seenAlive = "a"
        /// The life has ended, and the activity must be started again.
        case restarting = "r"
    }

    /// When the life began, UNIX milliseconds, as far as known. For ``Kind/restarting``: when the new life begins.
    public private(set) var beganMilliseconds: Int64
    /// When the end or the new start of the activity is due, UNIX milliseconds.
    public private(set) var dueMilliseconds: Int64
    private(set) var kind: Kind
    /// The newest start, which a new start repeats, and the newest update, whose state the new start shows.
    private(set) var start: KeptCommand<[UInt8]>?
    private(set) var shownUpdate: KeptCommand<[UInt8]>?

    /// The entry in the hash of lives (``LifetimeKey/livesKey(_:)``). The last number is 0, because in the model no
    /// worker claims activities.
    public var text: String {
        "\(kind.rawValue) \(String(repeating: "0", count: max(0, 13 - "\(beganMilliseconds)".utf8.count)))\(beganMilliseconds) 0"
    }

    static func apply(_ event: LifetimeEvent, keeping kept: KeptCommand<[UInt8]>?, in life: inout TimetableEntry?) {
        switch event {
        case .removed: life = nil
        // Neither event changes the life, but an update after the end may be kept below. The script removes a life
        // after an `endedByAnother` only if workers have claimed it several times. In the model, no worker claims it.
        case .updatedAfterEnd, .endedByAnother: break
        case .ended(let beganMilliseconds, let restart):
            guard let previous = life, previous.beganMilliseconds == beganMilliseconds else { return }
            guard restart > 0, previous.start != nil else {
                life = nil
                return
            }
            life?.become(.restarting, at: restart, due: restart)
        case .began(let at, let lifetime):
            if let life, life.kind == .started, at <= life.beganMilliseconds { break }
            let continuesLife = life?.kind == .restarting && life?.beganMilliseconds == at
            if !continuesLife {
                life = TimetableEntry(beganMilliseconds: at, dueMilliseconds: at + lifetime, kind: .started)
            }
            life?.become(.started, at: at, due: at + lifetime)
        case .alive(let at, let lifetime):
            if let life, life.kind != .seenAlive || at >= life.beganMilliseconds { break }
            if life == nil {
                life = TimetableEntry(beganMilliseconds: at, dueMilliseconds: at + lifetime, kind: .seenAlive)
            }
            life?.become(.seenAlive, at: at, due: at + lifetime)
        }
        if let kept { life?.keep(kept) }
    }

    /// Whether the life that began at `beganMilliseconds` still continues. `state` is the version of the state that the
    /// new start would show; nil for an end. If the life keeps a newer state, returns false and makes the life due at
    /// once. The script also postpones the next claim; the model has no claims.
    static func lifeContinues(_ life: inout TimetableEntry?, from beganMilliseconds: Int64, showing state: Version?)
        -> Bool
    {
        guard let knownLife = life, knownLife.beganMilliseconds == beganMilliseconds else { return false }
        guard let state, let shownUpdate = knownLife.shownUpdate, shownUpdate.version > state else { return true }
        life?.dueMilliseconds = beganMilliseconds
        return false
    }

    private mutating func become(_ kind: Kind, at: Int64, due: Int64) {
        (self.kind, beganMilliseconds, dueMilliseconds) = (kind, at, due)
    }

    private mutating func keep(_ kept: KeptCommand<[UInt8]>) {
        let previous = kept.isStart ? start : shownUpdate
        if let previous, previous.version > kept.version { return }
        if kept.isStart { start = kept } else { shownUpdate = kept }
    }
}
