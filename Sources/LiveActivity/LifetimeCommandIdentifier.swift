import Numbers

/// The id of a command that Causeway makes when an activity's lifetime is over:
/// - `lifetime:<began>`: the command ends the activity.
/// - `lifetime:<began>:<timestamp>.<sequence>`: the command starts the activity again.
///
/// A producer must not use such an id: a worker regards every start or end that has one as a command of Causeway.
public struct LifetimeCommandIdentifier: Sendable, Equatable {
    /// UNIX milliseconds. In the id of an end: when the life that is ended began. In the id of a start: when the new
    /// life begins.
    public let beganAtMilliseconds: Int64
    /// In the id of a start: the version of the command whose content state the start shows. Nil in the id of an end.
    public let stateVersion: Version?

    private static let prefix: StaticString = "lifetime:"
    private static let beganAtMillisecondsMax: UInt64 = 999_999_999_999_999

    public init(beganAtMilliseconds: Int64, stateVersion: Version? = nil) {
        self.beganAtMilliseconds = beganAtMilliseconds
        self.stateVersion = stateVersion
    }

    /// Reads a command's id; nil if the id has neither of the two forms.
    public init?(_ identifier: UnsafeRawBufferPointer) {
        let prefix = UnsafeRawBufferPointer(start: Self.prefix.utf8Start, count: Self.prefix.utf8CodeUnitCount)
        guard identifier.starts(with: prefix) else { return nil }
        let rest = identifier.dropFirst(prefix.count)
        let end = rest.firstIndex(of: UInt8(ascii: ":")) ?? rest.endIndex
        guard let beganAtMilliseconds = Self.parseNumber(rest[..<end], max: Self.beganAtMillisecondsMax) else {
            return nil
        }
        self.beganAtMilliseconds = Int64(beganAtMilliseconds)
        guard end < rest.endIndex else {
            stateVersion = nil
            return
        }
        let version = rest[(end + 1)...]
        guard let dot = version.firstIndex(of: UInt8(ascii: ".")),
            let timestamp = Self.parseNumber(version[..<dot], max: UInt64(Limits.timestampMax)),
            let sequence = Self.parseNumber(version[(dot + 1)...], max: .max)
        else { return nil }
        stateVersion = Version(timestamp: Int64(timestamp), sequence: sequence)
    }

    public var text: String {
        guard let stateVersion else { return "\(Self.prefix)\(beganAtMilliseconds)" }
        return "\(Self.prefix)\(beganAtMilliseconds):\(stateVersion.timestamp).\(stateVersion.sequence)"
    }

    private static func parseNumber(_ digits: Slice<UnsafeRawBufferPointer>, max: UInt64) -> UInt64? {
        Decimal.parse(UnsafeRawBufferPointer(rebasing: digits), max: max)
    }
}
