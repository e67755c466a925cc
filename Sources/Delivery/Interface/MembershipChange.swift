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
/// leaves. An audience gets its entries in the order of the changes, because the last one counts if several have the
/// same time.
///
/// The record's view has the other data: ``RecordView/memberIdentifier(_:)``, ``RecordView/token``,
/// ``RecordView/environment``, ``RecordView/registeredAtWallMilliseconds``, ``RecordView/allowsFrequentUpdates``,
/// ``RecordView/supportsChannels``, ``RecordView/shownVersion``. The bytes are valid until
/// ``Delivery/audiencesNotified(_:now:)``.
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
