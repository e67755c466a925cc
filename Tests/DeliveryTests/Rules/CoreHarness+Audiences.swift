import Delivery
import LiveActivity
import Testing

/// The test takes the role of the core of audiences.
extension CoreHarness {
    /// The audiences that a member joins and leaves, copied from the core's change of memberships.
    struct SeenMembershipChange: Equatable {
        var member: String
        var kind: StoreSubjectKind
        var joinedAudiences: [AudienceDigest]
        var leftAudiences: [AudienceDigest]
        var leftAtWallMilliseconds: Int64
    }

    /// Takes the next command that addresses an audience or a channel, as the core of audiences does. Returns nil if no
    /// command is ready.
    func takeHandover() -> RecordIndex? {
        guard let record = delivery.nextHandover else { return nil }
        delivery.removeNextHandover()
        return record
    }

    func endHandover(
        _ record: RecordIndex,
        _ ending: HandoverResult,
        reason: String = "",
        admittedAtWallMilliseconds: Int64? = nil
    ) {
        Array(reason.utf8)
            .withUnsafeBytes {
                delivery.endHandover(
                    record,
                    ending,
                    reason: $0,
                    admittedAtWallMilliseconds: admittedAtWallMilliseconds,
                    now: now
                )
            }
        endBatch()
    }

    func takeMembershipChange() -> (ChangingMember, SeenMembershipChange)? {
        guard let change = delivery.nextMembershipChange else { return nil }
        delivery.removeNextMembershipChange()
        let member = delivery.view(change.member.record).memberIdentifier(change.member.kind)
        let seenChange = SeenMembershipChange(
            member: String(decoding: member, as: UTF8.self),
            kind: change.member.kind,
            joinedAudiences: Array(change.joinedAudiences),
            leftAudiences: Array(change.leftAudiences),
            leftAtWallMilliseconds: change.leftAtWallMilliseconds
        )
        return (change.member, seenChange)
    }

    /// Takes the next change, and tells the core that all audiences of the change are notified.
    ///
    /// - Returns: the change; nil if there is none.
    @discardableResult
    func notifyAudiences() -> SeenMembershipChange? {
        guard let (member, change) = takeMembershipChange() else { return nil }
        delivery.handleNotifiedAudiences(member, now: now)
        endBatch()
        return change
    }

    /// The audiences that a member has left, and the time, encoded as in a reply of Redis.
    static func departures(_ audiences: String..., at milliseconds: Int64) -> [UInt8] {
        let time = (0..<AudienceDepartures.timeBytes).map { UInt8(truncatingIfNeeded: milliseconds >> ($0 * 8)) }
        return time + audiences.flatMap { name in withUnsafeBytes(of: digest(name).value.littleEndian) { Array($0) } }
    }

    static func digest(_ audience: String) -> AudienceDigest {
        Array(audience.utf8).withUnsafeBytes { AudienceDigest(of: $0) }
    }
}
