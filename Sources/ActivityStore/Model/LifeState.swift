import LiveActivity

/// What the timetable of lifetimes knows about an activity's life. The script `lifetime` stores the same.
public struct LifeState: Sendable, Equatable {
    /// The letters are those of the script.
    enum Kind: String {
        /// A start told when the life began.
        case started = "b"
        /// The activity was first seen alive then.
        case seen = "a"
        /// The life has ended, and the activity must be started again.
        case restarting = "r"
    }

    /// When the life began, UNIX milliseconds, as far as known.
    public private(set) var beganMilliseconds: Int64
    /// When the activity is due.
    public private(set) var dueMilliseconds: Int64
    private(set) var kind: Kind
    /// The newest start, and the newest update that is shown.
    private(set) var start: KeptCommand<[UInt8]>?
    private(set) var shown: KeptCommand<[UInt8]>?

    /// As in the hash beside the timetable, before the activity was ever claimed.
    public var text: String {
        "\(kind.rawValue) \(String(repeating: "0", count: max(0, 13 - "\(beganMilliseconds)".utf8.count)))\(beganMilliseconds) 0"
    }

    static func note(_ note: LifetimeEvent, keeping kept: KeptCommand<[UInt8]>?, in life: inout LifeState?) {
        switch note {
        case .over: life = nil
        // The model's lives were never claimed.
        case .missed, .endedByAnother: break
        case .ended(let began, let restart):
            guard let former = life, former.beganMilliseconds == began else { return }
            guard restart > 0, former.start != nil else {
                life = nil
                return
            }
            life?.become(.restarting, at: restart, due: restart)
        case .began(let at, let lifetime):
            if let life, life.kind == .started, at <= life.beganMilliseconds { break }
            let continues = life?.kind == .restarting && life?.beganMilliseconds == at
            if !continues { life = LifeState(beganMilliseconds: at, dueMilliseconds: at + lifetime, kind: .started) }
            life?.become(.started, at: at, due: at + lifetime)
        case .alive(let at, let lifetime):
            if let life, life.kind != .seen || at >= life.beganMilliseconds { break }
            if life == nil { life = LifeState(beganMilliseconds: at, dueMilliseconds: at + lifetime, kind: .seen) }
            life?.become(.seen, at: at, due: at + lifetime)
        }
        if let kept { life?.keep(kept) }
    }

    /// Whether the life that began then goes on. If it keeps a newer state than a start would show, it is due at once. Otherwise its next
    /// claim is postponed, which the model does not do.
    static func goesOn(_ life: inout LifeState?, from began: Int64, showing state: Version?) -> Bool {
        guard let known = life, known.beganMilliseconds == began else { return false }
        guard let state, let shown = known.shown, shown.version > state else { return true }
        life?.dueMilliseconds = began
        return false
    }

    private mutating func become(_ kind: Kind, at: Int64, due: Int64) {
        (self.kind, beganMilliseconds, dueMilliseconds) = (kind, at, due)
    }

    private mutating func keep(_ kept: KeptCommand<[UInt8]>) {
        let former = kept.isStart ? start : shown
        if let former, former.version > kept.version { return }
        if kept.isStart { start = kept } else { shown = kept }
    }
}
