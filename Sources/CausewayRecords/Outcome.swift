/// The outcome of a command, or of one of its ranges, members or broadcasts. Later releases of Causeway may have other
/// outcomes, so accept values that are not among these constants.
public struct Outcome: RawRepresentable, Codable, Hashable, Sendable {
    public var rawValue: String
    public init(rawValue: String) { self.rawValue = rawValue }

    /// APNs responded with 200. The phone may still drop the push.
    public static let accepted = Outcome(rawValue: "accepted")
    /// The activity already shows this state.
    public static let unchanged = Outcome(rawValue: "unchanged")
    /// This version is already settled, or another record with this version is in progress.
    public static let duplicate = Outcome(rawValue: "duplicate")
    /// A newer command replaced this one. If the result is for an audience or a range, some of its members did not get
    /// this command.
    public static let superseded = Outcome(rawValue: "superseded")
    /// There is no valid token. The newest state waits for the next registration.
    public static let held = Outcome(rawValue: "held")
    /// The activity has ended.
    public static let ended = Outcome(rawValue: "ended")
    /// The command expired, or became too old, before APNs accepted it. If the result is for an audience or a range,
    /// some of its members did not get this command.
    public static let expired = Outcome(rawValue: "expired")
    /// The record is invalid, or it names an app or a policy that the worker's configuration does not have.
    public static let invalid = Outcome(rawValue: "invalid")
    /// The token of a start, of a lifetime's end or of an audience's member is dead. For a member also: it left the
    /// audience before its push was sent.
    public static let unregistered = Outcome(rawValue: "unregistered")
    /// This command cannot succeed, usually because APNs or Redis refused it. Other commands may succeed.
    public static let failed = Outcome(rawValue: "failed")
    /// A start was sent and its response was lost. The start is not sent again.
    public static let unknown = Outcome(rawValue: "unknown")
    /// For one member or broadcast: APNs responded with 200. For an audience or a range: every member's outcome is
    /// `delivered`, `failed` or `unregistered`. An audience's broadcasts have outcomes of their own.
    public static let delivered = Outcome(rawValue: "delivered")
    /// Only for audiences, ranges and members: Causeway made a separate start command for each device.
    public static let started = Outcome(rawValue: "started")
}
