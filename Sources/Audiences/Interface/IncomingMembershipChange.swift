public import Delivery
public import LiveActivity

/// An activity or device that joins or leaves audiences, as `Delivery` reports it. The bytes of the id, the token and
/// the lists of audiences are valid only during ``Audiences/receiveMembershipChange(_:now:)``.
public struct IncomingMembershipChange {
    /// The activity or device. ``Audiences/takeMemberToSettle()`` returns it when each of its audiences has an entry
    /// about the change, or the store has refused the entry permanently. If the member gets a push with an audience's
    /// newest state, it is returned only after APNs' first response to this push, or a second after the last entry.
    public var member: ChangingMember
    /// The partition of the record that caused the change. If the member joins, the record is from the registrations
    /// topic.
    public var partition: Int32
    /// The id of the activity or device.
    public var identifier: UnsafeRawBufferPointer
    public var joinedAudiences: AudienceList
    /// Whether the member was already in every audience of `joinedAudiences`, so that the change brings only a new
    /// token or other new data.
    public var wasMemberOfAllAudiences: Bool
    public var leftAudiences: AudienceList
    /// When the member left `leftAudiences`, UNIX milliseconds. Of two entries about a member, the later one counts. So
    /// a member that was registered for an audience after this time stays in the audience.
    public var leftAtWallMilliseconds: Int64
    /// The registered token for the audiences that the member joins: hexadecimal digits.
    public var token: UnsafeRawBufferPointer
    public var environment: APNsEnvironment
    /// When the token was registered, UNIX milliseconds.
    public var registeredAtWallMilliseconds: Int64
    /// For an activity: whether its registration has `frequentUpdates`. If true, the larger budget `frequentBudget`
    /// counts.
    public var allowsFrequentUpdates: Bool
    /// For a device: whether its activities may begin on a broadcast channel.
    public var supportsChannels: Bool
    /// The version that the activity already shows, as its registration says; nil: the registration does not say. If
    /// the member joins, the core sends it no version that is older or the same.
    public var shownVersion: Version?

    public init(
        member: ChangingMember,
        partition: Int32 = 0,
        identifier: UnsafeRawBufferPointer,
        joinedAudiences: AudienceList,
        wasMemberOfAllAudiences: Bool = false,
        leftAudiences: AudienceList,
        leftAtWallMilliseconds: Int64,
        token: UnsafeRawBufferPointer,
        environment: APNsEnvironment,
        registeredAtWallMilliseconds: Int64,
        allowsFrequentUpdates: Bool,
        supportsChannels: Bool = false,
        shownVersion: Version?
    ) {
        self.member = member
        self.partition = partition
        self.identifier = identifier
        self.joinedAudiences = joinedAudiences
        self.wasMemberOfAllAudiences = wasMemberOfAllAudiences
        self.leftAudiences = leftAudiences
        self.leftAtWallMilliseconds = leftAtWallMilliseconds
        self.token = token
        self.environment = environment
        self.registeredAtWallMilliseconds = registeredAtWallMilliseconds
        self.allowsFrequentUpdates = allowsFrequentUpdates
        self.supportsChannels = supportsChannels
        self.shownVersion = shownVersion
    }
}
