import LiveActivity

/// The audiences of an activity, by their digests: those that it is in, and those that it left but whose pages may
/// still list it (``formerDigests``).
public struct MemberAudiences: Hashable, Sendable {
    public internal(set) var currentDigests: [UInt64] = []
    public internal(set) var formerDigests: [UInt64] = []

    var isEmpty: Bool { currentDigests.isEmpty && formerDigests.isEmpty }

    /// Changes the audiences that the activity is in, and returns true.
    ///
    /// - Returns: false, without a change, if there would be too many unconfirmed departures
    ///   (``StoreLimits/unconfirmedDeparturesMax``).
    mutating func change(to newDigests: [UInt64]) -> Bool {
        let newFormerDigests = (formerDigests + currentDigests).filter { !newDigests.contains($0) }
        guard newFormerDigests.count <= StoreLimits.unconfirmedDeparturesMax else { return false }
        (currentDigests, formerDigests) = (newDigests, newFormerDigests)
        return true
    }

    /// Whether a member that is in the audiences `current` is in all of `audiences`. False if `audiences` is empty.
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

    /// Returns the bytes in which a reply names the audiences that a member left (``AudienceDepartures``). Nil if there
    /// are none.
    static func encodeDepartures(_ formerDigests: [UInt64], at milliseconds: Int64) -> [UInt8]? {
        guard !formerDigests.isEmpty else { return nil }
        var bytes = (0..<AudienceDepartures.timeBytes).map { UInt8(truncatingIfNeeded: milliseconds >> ($0 * 8)) }
        for digest in formerDigests { bytes += withUnsafeBytes(of: digest.littleEndian) { Array($0) } }
        return bytes
    }

    static func decodeDigests(_ list: [UInt8]) -> [UInt64] {
        list.withUnsafeBytes { AudienceList($0).map(\.value) }
    }
}
