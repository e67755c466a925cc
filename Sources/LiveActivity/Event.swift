/// What a push does to its activity: `aps.event`.
public enum Event: UInt8, Sendable, CaseIterable, BitwiseCopyable {
    case start
    case update
    case end

    /// The value of `aps.event`, in records and in request bodies.
    public var name: StaticString {
        switch self {
        case .start: "start"
        case .update: "update"
        case .end: "end"
        }
    }
}
