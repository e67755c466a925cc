/// The outcome of a command, or of one of its ranges, members or broadcasts. Later releases of Causeway may have other
/// outcomes, so accept values that are not among the constants.
public struct Outcome: RawRepresentable, Codable, Hashable, Sendable {
    /// The name in results.
    public var rawValue: String
    public init(rawValue: String) { self.rawValue = rawValue }
}
