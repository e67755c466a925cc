import LiveActivity

/// How the core of audiences ended a command to an audience.
public enum HandoverEnding: Sendable, Equatable, BitwiseCopyable {
    /// The command has an outcome and gets a result. Never `invalid`, because a faulty record is rejected
    /// when it is read.
    case outcome(Outcome)
    /// The command's ranges are in the fan-out topic. Its result is written when the last range is done.
    case fannedOut
    /// Nothing was decided, and the command's partition is being revoked: the next owner reads the command
    /// again.
    case withdrawn
}

/// An activity or a device of one app whose audiences a record changes.
public struct ChangingMember: Sendable, Hashable, BitwiseCopyable {
    public let record: UInt32
    /// The member's app. A tombstone does not name its app, so it may change members of several apps.
    public let application: UInt16
    public let kind: StoreSubjectKind
}

/// A change of a member's audiences. Each audience that the member joins or leaves gets an entry. An audience
/// gets its entries in the order of the changes, because the last of several entries with the same time
/// counts.
///
/// The other data are in the record's view: ``RecordView/member(_:)``, ``RecordView/token``,
/// ``RecordView/environment``, ``RecordView/registeredAtMilliseconds``, ``RecordView/frequentUpdates``,
/// ``RecordView/shows``. The bytes stay in place until ``Delivery/membershipChanged(_:now:)``.
public struct MembershipChange {
    public let member: ChangingMember
    public let joins: AudienceList
    /// Whether the member was already in all of the audiences in `joins`.
    public let wasMember: Bool
    public let leaves: AudienceList
    /// When the member left, UNIX milliseconds. Registrations up to this time no longer make it a member of
    /// `leaves`.
    public let leftAtMilliseconds: Int64
}
