import LiveActivity

/// The digests of a member's audiences, and of the audiences that may not know yet that the member left them.
/// A member is an activity, or a device with one attributes type.
public struct MemberAudiences: Hashable, Sendable {
    public internal(set) var current: [UInt64] = []
    public internal(set) var left: [UInt64] = []

    var isEmpty: Bool { current.isEmpty && left.isEmpty }

    /// Changes the audiences.
    /// - Returns: false, without a change, if too many audiences do not know yet that the member left them.
    mutating func change(to new: [UInt64]) -> Bool {
        let leaving = left.filter { !new.contains($0) } + current.filter { !new.contains($0) }
        guard leaving.count <= StoreLimits.departuresMax else { return false }
        (current, left) = (new, leaving)
        return true
    }

    /// Whether the list names audiences, and the member is in all of them.
    static func isIn(_ named: [UInt64], of current: [UInt64]) -> Bool {
        !named.isEmpty && named.allSatisfy(current.contains)
    }

    func containsAll(of list: [UInt8]?) -> Bool { Self.isIn(Self.digests(list ?? []), of: current) }

    mutating func leaveAll() {
        left += current
        current = []
    }

    /// Returns the audiences that the member has left, as a reply names them; nil if there are none.
    static func departures(_ left: [UInt64], at milliseconds: Int64) -> [UInt8]? {
        guard !left.isEmpty else { return nil }
        var bytes = (0..<AudienceDepartures.timeBytes).map { UInt8(truncatingIfNeeded: milliseconds >> ($0 * 8)) }
        for digest in left { bytes += withUnsafeBytes(of: digest.littleEndian) { Array($0) } }
        return bytes
    }

    static func digests(_ list: [UInt8]) -> [UInt64] {
        list.withUnsafeBytes { AudienceList($0).map(\.value) }
    }
}
