import LiveActivity

/// Identifies a membership change by the member that it changes: an activity or a device of one app, which joins or
/// leaves audiences because of `record`. At most one change with this identification is under way.
public struct ChangingMember: Sendable, Hashable, BitwiseCopyable {
    public let record: RecordIndex
    /// The member's app. One tombstone may change members of several apps, because it does not name an app.
    public let appIndex: UInt16
    public let kind: StoreSubjectKind
}

/// A change of a member's audiences. The core of audiences writes an entry for each audience that the member joins or
/// leaves. The entries about one member reach an audience in the order of the member's changes: of several entries with
/// the same time, the audience keeps the last one.
///
/// This type has only what the record's view (``RecordView``) does not have. The view has the member's id
/// (``RecordView/memberIdentifier(_:)``), its ``RecordView/token``, and what else its registration says. The bytes of
/// the two lists of audiences, and those of the view, are valid until ``Delivery/audiencesNotified(_:now:)``.
public struct MembershipChange {
    public let member: ChangingMember
    public let joinedAudiences: AudienceList
    /// Whether the member was already in all of the audiences in `joinedAudiences`.
    public let wasMemberOfAllAudiences: Bool
    public let formerAudiences: AudienceList
    /// When the member left `formerAudiences`, UNIX milliseconds; 0 if it left none. A registration from before this
    /// time does not make the activity or device a member of these audiences again.
    public let leftAtWallMilliseconds: Int64
}
