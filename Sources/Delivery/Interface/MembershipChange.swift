import LiveActivity

/// Identifies a change of a member's audiences: by the member (an activity or device of one app), and by the record
/// because of which the member joins or leaves. A member has at most one change for each record at a time.
public struct ChangingMember: Sendable, Hashable, BitwiseCopyable {
    public let record: RecordIndex
    /// The member's app. The record alone does not give it: a tombstone names no app, and may change members of several
    /// apps.
    public let appIndex: UInt16
    public let kind: StoreSubjectKind
}

/// A change of a member's audiences. The core of audiences writes an entry for each audience that the member joins or
/// leaves. These entries must reach an audience in the order of the member's changes: if two entries of a member have
/// the same time, the audience keeps the one that came last.
///
/// The record's view (``RecordView``) has the member's id (``RecordView/memberIdentifier(_:)``), its token, and what
/// its registration says. The bytes of the view, of `joinedAudiences` and of `leftAudiences` are valid until
/// ``Delivery/handleNotifiedAudiences(_:now:)``.
public struct MembershipChange {
    public let member: ChangingMember
    public let joinedAudiences: AudienceList
    /// Whether the member was already in all of the audiences in `joinedAudiences`.
    public let wasMemberOfAllAudiences: Bool
    public let leftAudiences: AudienceList
    /// When the member left `leftAudiences`, UNIX milliseconds; 0 if it left none. A registration from before this
    /// time does not put the member into these audiences again.
    public let leftAtWallMilliseconds: Int64
}
