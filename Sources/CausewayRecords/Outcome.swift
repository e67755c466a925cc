/// The outcome of a command. Compare it with the constants; a later version may have other outcomes.
public struct Outcome: RawRepresentable, Codable, Hashable, Sendable {
    public var rawValue: String
    public init(rawValue: String) { self.rawValue = rawValue }

    /// APNs answered 200. The phone may still drop the push.
    public static let accepted = Outcome(rawValue: "accepted")
    /// The activity already shows this state.
    public static let unchanged = Outcome(rawValue: "unchanged")
    /// This version was settled before.
    public static let duplicate = Outcome(rawValue: "duplicate")
    /// A newer command replaced this one.
    public static let superseded = Outcome(rawValue: "superseded")
    /// There is no token. The newest state waits for the next registration.
    public static let held = Outcome(rawValue: "held")
    /// The activity has ended.
    public static let ended = Outcome(rawValue: "ended")
    /// The command expired before it could be sent.
    public static let expired = Outcome(rawValue: "expired")
    /// The record is wrong.
    public static let invalid = Outcome(rawValue: "invalid")
    /// APNs has answered that the token is no longer valid.
    public static let unregistered = Outcome(rawValue: "unregistered")
    /// APNs or Redis refused this command. Other commands may succeed.
    public static let failed = Outcome(rawValue: "failed")
    /// A start was sent and its answer was lost. It is not sent again.
    public static let unknown = Outcome(rawValue: "unknown")
    /// For an audience or a range: APNs has answered the push to every member. For one member or broadcast:
    /// APNs answered 200.
    public static let delivered = Outcome(rawValue: "delivered")
    /// Only for audiences and members: Causeway made a separate start command for each device.
    public static let started = Outcome(rawValue: "started")
}
