public import Delivery
public import LiveActivity

/// An activity or a device joins audiences or leaves them, as the core of single activities tells it. The bytes are valid only during the
/// call that takes it.
public struct IncomingMembership {
    /// Whose change it is; comes back when it is done.
    public var member: ChangingMember
    /// Of the activity or device.
    public var identifier: UnsafeRawBufferPointer
    public var joins: AudienceList
    /// It was in all that it joins before.
    public var wasMember: Bool
    public var leaves: AudienceList
    /// What the member registered at or before this time has left, UNIX milliseconds.
    public var leftAtMilliseconds: Int64
    /// As registered, for those that it joins: hexadecimal digits.
    public var token: UnsafeRawBufferPointer
    public var environment: DeviceEnvironment
    /// UNIX milliseconds.
    public var registeredAtMilliseconds: Int64
    public var frequentUpdates: Bool
    /// Of a device: its activities may begin on a broadcast channel.
    public var takesChannels: Bool
    /// The version that the app displays already.
    public var shows: Version?

    public init(
        member: ChangingMember,
        identifier: UnsafeRawBufferPointer,
        joins: AudienceList,
        wasMember: Bool = false,
        leaves: AudienceList,
        leftAtMilliseconds: Int64,
        token: UnsafeRawBufferPointer,
        environment: DeviceEnvironment,
        registeredAtMilliseconds: Int64,
        frequentUpdates: Bool,
        takesChannels: Bool = false,
        shows: Version?
    ) {
        self.member = member
        self.identifier = identifier
        self.joins = joins
        self.wasMember = wasMember
        self.leaves = leaves
        self.leftAtMilliseconds = leftAtMilliseconds
        self.token = token
        self.environment = environment
        self.registeredAtMilliseconds = registeredAtMilliseconds
        self.frequentUpdates = frequentUpdates
        self.takesChannels = takesChannels
        self.shows = shows
    }
}
