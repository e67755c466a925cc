import LiveActivity

/// What became of a command to an audience with the core that it was handed over to.
public enum HandoverEnding: Sendable, Equatable, BitwiseCopyable {
    /// It is over, and has a result. Not `invalid`: what is wrong with a record is known when it is read.
    case outcome(Outcome)
    /// Its ranges are in the fan-out topic: its result is written when the last of them is done.
    case fannedOut
    /// Nothing was decided, and its partition is being revoked: the next owner reads it again.
    case withdrawn
}

/// An activity or a device of one app whose audiences change for a record.
public struct ChangingMember: Sendable, Hashable, BitwiseCopyable {
    public let record: UInt32
    /// A tombstone does not name its app: it may change members of several.
    public let application: UInt16
    public let kind: StoreSubjectKind
}

/// What the audiences of a member are to be told: each that it joins gets an entry for it, each that it leaves one of a member that leaves. An
/// audience is told in the order in which changes come, since of entries of one time the last counts.
///
/// The record's view says all else: ``RecordView/member(_:)``, ``RecordView/token``, ``RecordView/environment``,
/// ``RecordView/registeredAtMilliseconds``, ``RecordView/frequentUpdates``, ``RecordView/shows``. Its bytes stay where they are until
/// ``Delivery/membershipChanged(_:now:)``.
public struct MembershipChange {
    public let member: ChangingMember
    public let joins: AudienceList
    /// It was in all that it joins before.
    public let wasMember: Bool
    public let leaves: AudienceList
    /// What the member registered at or before this time has left, UNIX milliseconds.
    public let leftAtMilliseconds: Int64
}
