import LiveActivity

/// How the core of audiences ended a command to an audience.
public enum HandoverEnding: Sendable, Equatable, BitwiseCopyable {
    /// The command has an outcome, and gets a result. Never `invalid`: a faulty record is found when it is read.
    case outcome(Outcome)
    /// The command's ranges are in the fan-out topic. Its result is written when the last range is done.
    case fannedOut
    /// Nothing was decided, and the command's partition is being revoked: the next owner reads the command again.
    case withdrawn
}

/// An activity or a device of one app whose audiences a record changes.
public struct ChangingMember: Sendable, Hashable, BitwiseCopyable {
    public let record: UInt32
    /// A tombstone does not name its app, so it may change members of several apps.
    public let application: UInt16
    public let kind: StoreSubjectKind
}

/// What a member's audiences must learn: each audience that the member joins or leaves gets an entry that says so. An audience is
/// told in the order of the changes, because of several entries with the same time the last one counts.
///
/// The record's view has the rest: ``RecordView/member(_:)``, ``RecordView/token``, ``RecordView/environment``,
/// ``RecordView/registeredAtMilliseconds``, ``RecordView/frequentUpdates``, ``RecordView/shows``. Its bytes stay in place until
/// ``Delivery/membershipChanged(_:now:)``.
public struct MembershipChange {
    public let member: ChangingMember
    public let joins: AudienceList
    /// The member was in all of the audiences in `joins` before.
    public let wasMember: Bool
    public let leaves: AudienceList
    /// The member leaves with every registration up to this time, UNIX milliseconds.
    public let leftAtMilliseconds: Int64
}
