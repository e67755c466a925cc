import LiveActivity

/// The digests of an activity's audiences, and of the audiences that may not know yet that the activity left
/// them. The static functions also serve devices.
public struct MemberAudiences: Hashable, Sendable {
    public internal(set) var currentDigests: [UInt64] = []
    public internal(set) var formerDigests: [UInt64] = []

    var isEmpty: Bool { currentDigests.isEmpty && formerDigests.isEmpty }

    /// Changes the audiences.
    /// - Returns: false, without a change, if ``formerDigests`` would have more digests than
    ///   ``StoreLimits/unconfirmedDeparturesMax``.
    mutating func change(to new: [UInt64]) -> Bool {
        let newFormerDigests = (formerDigests + currentDigests).filter { !new.contains($0) }
        guard newFormerDigests.count <= StoreLimits.unconfirmedDeparturesMax else { return false }
        (currentDigests, formerDigests) = (new, newFormerDigests)
        return true
    }

    /// Whether a member with the audiences `current` is in all `audiences`; false if `audiences` is empty.
    static func isMemberOfAll(_ audiences: [UInt64], current: [UInt64]) -> Bool {
        !audiences.isEmpty && audiences.allSatisfy(current.contains)
    }

    func isMemberOfAll(of list: [UInt8]?) -> Bool {
        Self.isMemberOfAll(Self.decodeDigests(list ?? []), current: currentDigests)
    }

    mutating func leaveAll() {
        formerDigests += currentDigests
        currentDigests = []
    }

    /// Returns the part of a reply that names the audiences which a member left (``AudienceDepartures``); nil if
    /// there are none.
    static func encodeDepartures(_ left: [UInt64], at milliseconds: Int64) -> [UInt8]? {
        guard !left.isEmpty else { return nil }
        var bytes = (0..<AudienceDepartures.timeBytes).map { UInt8(truncatingIfNeeded: milliseconds >> ($0 * 8)) }
        for digest in left { bytes += withUnsafeBytes(of: digest.littleEndian) { Array($0) } }
        return bytes
    }

    static func decodeDigests(_ list: [UInt8]) -> [UInt64] {
        list.withUnsafeBytes { AudienceList($0).map(\.value) }
    }
}
