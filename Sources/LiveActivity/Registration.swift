/// One record of the registrations topic, decoded: an app on a device tells which token reaches what.
/// Ranges are read against the record, as those of a ``Command``.
public struct Registration: Sendable, BitwiseCopyable {
    /// What the token reaches.
    public enum Kind: Sendable, BitwiseCopyable {
        /// A running activity, with its update token.
        case activity(Activity)
        /// A device that starts activities of one attributes type, with its push-to-start token.
        case pushToStart(PushToStart)
    }

    public struct Activity: Sendable, BitwiseCopyable {
        public var activity: TextRange
        /// Hexadecimal digits, upper or lower case, never escaped.
        public var token: TextRange
        /// Whether the person allows frequent updates, which widens the budget. False if absent.
        public var frequentUpdates: Bool
        /// The version that the app displays already.
        public var shows: Version?
        /// The array of audience ids, brackets included; every element is a valid id.
        public var audiences: ByteRange
        public var audienceCount: Int
    }

    public struct PushToStart: Sendable, BitwiseCopyable {
        public var device: TextRange
        public var attributesType: TextRange
        /// Hexadecimal digits, upper or lower case, never escaped.
        public var token: TextRange
        /// As an activity's.
        public var audiences: ByteRange
        public var audienceCount: Int
        /// The device runs iOS 18 or newer and its app knows broadcast channels: activities may begin on one. False if absent.
        public var takesChannels: Bool
    }

    /// Bundle id of the app.
    public var app: TextRange
    public var environment: DeviceEnvironment
    /// UNIX milliseconds at which the app had the token; an invalidation that is older does not retire it.
    public var registeredAtMilliseconds: Int64
    public var kind: Kind
}
