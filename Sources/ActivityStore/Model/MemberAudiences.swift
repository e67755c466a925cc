import LiveActivity

/// The audiences that an activity, or a device of one attributes type, is in; and those that it has left and that may not know of it. Digests.
public struct MemberAudiences: Hashable, Sendable {
    public internal(set) var current: [UInt64] = []
    public internal(set) var left: [UInt64] = []

    var isEmpty: Bool { current.isEmpty && left.isEmpty }

    /// In the new ones from now on.
    /// - Returns: false, and nothing is changed, if too many would have been left.
    mutating func change(to new: [UInt64]) -> Bool {
        let leaving = left.filter { !new.contains($0) } + current.filter { !new.contains($0) }
        guard leaving.count <= StoreLimits.leavesMax else { return false }
        (current, left) = (new, leaving)
        return true
    }

    /// Whether there are some, and it is in all of them.
    static func isIn(_ named: [UInt64], of current: [UInt64]) -> Bool {
        !named.isEmpty && named.allSatisfy(current.contains)
    }

    func haveAll(of list: [UInt8]?) -> Bool { Self.isIn(Self.digests(list ?? []), of: current) }

    mutating func leaveAll() {
        left += current
        current = []
    }

    /// As a reply says it; nil: none was left.
    static func leaves(_ left: [UInt64], at milliseconds: Int64) -> [UInt8]? {
        guard !left.isEmpty else { return nil }
        var bytes = (0..<AudienceLeaves.timeBytes).map { UInt8(truncatingIfNeeded: milliseconds >> ($0 * 8)) }
        for digest in left { bytes += withUnsafeBytes(of: digest.littleEndian) { Array($0) } }
        return bytes
    }

    static func digests(_ list: [UInt8]) -> [UInt64] {
        list.withUnsafeBytes { AudienceList($0).map(\.value) }
    }
}
