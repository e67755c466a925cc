import LiveActivity

/// What the timetable of lifetimes knows about an activity's life. The script `lifetime` stores the same.
public struct LifeState: Sendable, Equatable {
    /// When the life began, UNIX milliseconds, as far as known.
    public private(set) var beganMilliseconds: Int64
    /// When the activity is due.
    public private(set) var dueMilliseconds: Int64
    /// Whether a start told when the life began. Otherwise the activity was first seen alive then.
    public private(set) var isExact: Bool

    /// As in the hash beside the timetable, before the activity was ever claimed.
    public var text: String {
        "\(isExact ? "b" : "a") \(String(repeating: "0", count: max(0, 13 - "\(beganMilliseconds)".utf8.count)))\(beganMilliseconds) 0"
    }

    static func note(_ note: LifeNote, in life: inout LifeState?) {
        switch note {
        case .over: life = nil
        case .ended(let began): if life?.beganMilliseconds == began { life = nil }
        case .began(let at, let lifetime):
            if let life, life.isExact, at <= life.beganMilliseconds { return }
            life = LifeState(beganMilliseconds: at, dueMilliseconds: at + lifetime, isExact: true)
        case .alive(let at, let lifetime):
            if let life, life.isExact || at >= life.beganMilliseconds { return }
            life = LifeState(beganMilliseconds: at, dueMilliseconds: at + lifetime, isExact: false)
        }
    }
}
