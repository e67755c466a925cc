/// One decoded record of the registrations topic. It says which activity or device a token reaches. Its ranges are
/// positions in the record's bytes, like those of a ``Command``.
public struct Registration: Sendable, BitwiseCopyable {
    /// The activity or device that the token reaches.
    public enum Kind: Sendable, BitwiseCopyable {
        /// The token is an update token. It reaches one running activity.
        case activity(Activity)
        /// The token is a push-to-start token. It starts activities of one attributes type on a device.
        case pushToStart(PushToStart)
    }

    /// What a registration of an update token says.
    public struct Activity: Sendable, BitwiseCopyable {
        public var activity: TextRange
        /// Hexadecimal digits in upper or lower case, never escaped.
        public var token: TextRange
        /// Whether the user allows frequent updates, so that the activity has a larger budget. False if absent.
        public var allowsFrequentUpdates: Bool
        /// The version that the app already displays; nil if the registration names none, or if
        /// ``Registration/limitTimes(ofRecordWrittenAtMilliseconds:)`` has removed it.
        public var shownVersion: Version?
        /// The array of audience ids, including its brackets. Every element is a valid id. Absent: the activity is in
        /// no audience from now on.
        public var audiences: ByteRange
        public var audienceCount: Int
    }

    /// What a registration of a push-to-start token says.
    public struct PushToStart: Sendable, BitwiseCopyable {
        public var device: TextRange
        public var attributesType: TextRange
        /// Hexadecimal digits in upper or lower case, never escaped.
        public var token: TextRange
        /// The array of audience ids, including its brackets. Every element is a valid id. Absent means no audience.
        public var audiences: ByteRange
        public var audienceCount: Int
        /// Whether activities may begin on a broadcast channel: the device has iOS 18 or newer, and its app supports
        /// channels. False if absent.
        public var supportsChannels: Bool
    }

    /// The app's bundle id.
    public var app: TextRange
    public var environment: APNsEnvironment
    /// When the app received the token, UNIX milliseconds. If APNs found the token dead at this time or earlier, the
    /// token is not retired.
    public var registeredAtMilliseconds: Int64
    public var kind: Kind
}

extension Registration {
    /// Lowers the registration's time to at most ``Limits/timestampLeadSecondsMax`` after `writtenAtMilliseconds`. If a
    /// time were far in the future, all later registrations, tombstones and refusals of the token would count as older.
    ///
    /// Removes a shown version whose timestamp is beyond the same limit. No worker has sent a command with such a
    /// timestamp, and all commands with earlier timestamps would count as older.
    ///
    /// - Parameter writtenAtMilliseconds: Kafka's timestamp of the record, so that a reread record gets the same time;
    ///   if it has none, when the record was received.
    public mutating func limitTimes(ofRecordWrittenAtMilliseconds writtenAtMilliseconds: Int64) {
        let leadMillisecondsMax = Limits.timestampLeadSecondsMax * 1_000
        if registeredAtMilliseconds - leadMillisecondsMax > writtenAtMilliseconds {
            registeredAtMilliseconds = writtenAtMilliseconds + leadMillisecondsMax
        }
        if case .activity(var activity) = kind, let shownVersion = activity.shownVersion,
            shownVersion.timestamp * 1_000 - leadMillisecondsMax > writtenAtMilliseconds
        {
            activity.shownVersion = nil
            kind = .activity(activity)
        }
    }
}
